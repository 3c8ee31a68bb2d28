//! Fuzzing of the schema: every type that is read is written and read back as the same value.

use core::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::schema::{
    At, CallToolParams, CallToolResult, CancelledParams, CompleteParams, CompleteResult, CreateMessageParams,
    CreateMessageResult, DiscoverResult, ElicitParams, ElicitResult, EmptyParams, GetPromptParams,
    GetPromptResult, InitializeParams, InitializeResult, InputRequiredResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListRootsResult, ListToolsResult, LoggingMessageParams,
    PaginatedParams, ProgressParams, ReadResourceParams, ReadResourceResult, Revision,
    SubscriptionsAcknowledgedParams, SubscriptionsListenParams, WriteAt, tasks,
};

/// Reads the bytes as each type.
pub fn schema(data: &[u8]) {
    macro_rules! each {
        ($($type:ty),* $(,)?) => { $( round_trip::<$type>(data); )* };
    }
    each!(
        CallToolParams,
        CallToolResult,
        CancelledParams,
        CompleteParams,
        CompleteResult,
        CreateMessageParams,
        CreateMessageResult,
        DiscoverResult,
        ElicitParams,
        ElicitResult,
        EmptyParams,
        GetPromptParams,
        GetPromptResult,
        InitializeParams,
        InitializeResult,
        InputRequiredResult,
        ListPromptsResult,
        ListResourceTemplatesResult,
        ListResourcesResult,
        ListRootsResult,
        ListToolsResult,
        LoggingMessageParams,
        PaginatedParams,
        ProgressParams,
        ReadResourceParams,
        ReadResourceResult,
        SubscriptionsAcknowledgedParams,
        SubscriptionsListenParams,
        tasks::CreateTaskResult,
        tasks::legacy::CreateTaskResult,
    );
}

fn round_trip<T: DeserializeOwned + Serialize + WriteAt + PartialEq + Debug>(data: &[u8]) {
    let Ok(read) = serde_json::from_slice::<T>(data) else { return };
    let written = serde_json::to_string(&read).expect("a read value can be written");
    let again: T = serde_json::from_str(&written).expect("a written value can be read");
    let twice = serde_json::to_string(&again).expect("a read value can be written");
    assert_eq!(written, twice, "a round trip changes nothing");
    for &revision in Revision::ALL {
        serde_json::to_string(&At(&read, revision)).expect("any revision can be written");
    }
}
