//! Checks that every example decodes by its type and encodes to an equal value.

use std::fmt::Debug;
use std::path::Path;

use mcp_proto::rpc::Id;
use mcp_proto::schema::EnumSchema;
use mcp_proto::schema::{
    AudioContent, BlobResourceContents, BooleanSchema, CallTool, CallToolParams, CallToolResult, Cancelled,
    CancelledParams, ClientCapabilities, Complete, CompleteParams, CompleteResult, CreateMessage,
    CreateMessageParams, CreateMessageResult, Discover, DiscoverResult, Elicit, ElicitFormParams,
    ElicitParams, ElicitResult, EmbeddedResource, GetPrompt, GetPromptParams, GetPromptResult, ImageContent,
    InputRequiredResult, ListPrompts, ListPromptsResult, ListResourceTemplates, ListResourceTemplatesResult,
    ListResources, ListResourcesResult, ListRoots, ListRootsResult, ListTools, ListToolsResult,
    LoggingMessage, LoggingMessageParams, Method, MissingCapabilityData, ModelPreferences, MultiSelectSchema,
    Notification, NumberSchema, PaginatedParams, PrimitiveSchema, Progress, ProgressParams,
    PromptListChanged, ReadResource, ReadResourceResult, Resource, ResourceLink, ResourceListChanged,
    ResourceUpdated, ResourceUpdatedParams, Root, SamplingMessage, ServerCapabilities, StringSchema,
    SubscriptionsAcknowledged, SubscriptionsListen, SubscriptionsListenResult, TextContent,
    TextResourceContents, TitledEnumSchema, Tool, ToolListChanged, ToolResultContent, ToolUseContent,
    UnsupportedVersionData,
};
use serde_json::Value;

use crate::{Report, misunderstood, read};

type CheckResult = Result<(), String>;

fn same<T: serde::Serialize + serde::de::DeserializeOwned + Debug>(value: &Value) -> CheckResult {
    let typed: T = serde_json::from_str(&value.to_string()).map_err(|error| error.to_string())?;
    if let Some(what) = misunderstood(&format!("{typed:?}")) {
        return Err(format!("not understood: {what}"));
    }
    let back = serde_json::to_value(&typed).map_err(|error| error.to_string())?;
    if back == *value { Ok(()) } else { Err(format!("came back as {back}")) }
}

fn part<'a>(value: &'a Value, name: &str) -> Result<&'a Value, String> {
    value.get(name).ok_or_else(|| format!("no `{name}`"))
}

fn named(value: &Value, name: &str) -> CheckResult {
    if value["method"] == name { Ok(()) } else { Err(format!("the method is not {name}")) }
}

fn request<M: Method>(value: &Value) -> CheckResult {
    named(value, M::NAME)?;
    if let Some(id) = value.get("id") {
        same::<Id>(id)?;
    }
    value.get("params").map_or(Ok(()), same::<M::Params>)
}

fn notification<N: Notification>(value: &Value) -> CheckResult {
    named(value, N::NAME)?;
    same::<N::Params>(part(value, "params")?)
}

fn response<M: Method>(value: &Value) -> CheckResult {
    same::<Id>(part(value, "id")?)?;
    same::<M::Result>(part(value, "result")?)
}

fn error(value: &Value) -> CheckResult {
    let error = value.get("error").unwrap_or(value);
    match (part(error, "code")?.as_i64(), part(error, "message")?.as_str()) {
        (Some(_), Some(_)) => Ok(()),
        _ => Err("not an error".into()),
    }
}

fn data<T: serde::Serialize + serde::de::DeserializeOwned + Debug>(value: &Value) -> CheckResult {
    error(value)?;
    same::<T>(part(&value["error"], "data")?)
}

/// A form's field is recognised by its shape; the types of single shapes decode it, too.
fn field<T: serde::Serialize + serde::de::DeserializeOwned + Debug>(value: &Value) -> CheckResult {
    same::<PrimitiveSchema>(value)?;
    same::<T>(value)
}

fn check_one(kind: &str, value: &Value) -> CheckResult {
    match kind {
        "AudioContent" => same::<AudioContent>(value),
        "BlobResourceContents" => same::<BlobResourceContents>(value),
        "BooleanSchema" => field::<BooleanSchema>(value),
        "CallToolRequest" => request::<CallTool>(value),
        "CallToolRequestParams" => same::<CallToolParams>(value),
        "CallToolResult" => same::<CallToolResult>(value),
        "CallToolResultResponse" => response::<CallTool>(value),
        "CancelledNotification" => notification::<Cancelled>(value),
        "CancelledNotificationParams" => same::<CancelledParams>(value),
        "ClientCapabilities" => same::<ClientCapabilities>(value),
        "CompleteRequest" => request::<Complete>(value),
        "CompleteRequestParams" => same::<CompleteParams>(value),
        "CompleteResult" => same::<CompleteResult>(value),
        "CompleteResultResponse" => response::<Complete>(value),
        "CreateMessageRequest" => request::<CreateMessage>(value),
        "CreateMessageRequestParams" => same::<CreateMessageParams>(value),
        "CreateMessageResult" => same::<CreateMessageResult>(value),
        "DiscoverRequest" => request::<Discover>(value),
        "DiscoverResult" => same::<DiscoverResult>(value),
        "DiscoverResultResponse" => response::<Discover>(value),
        "ElicitRequest" => request::<Elicit>(value),
        "ElicitRequestFormParams" => same::<ElicitFormParams>(value).and(same::<ElicitParams>(value)),
        "ElicitRequestURLParams" => same::<ElicitParams>(value),
        "ElicitResult" => same::<ElicitResult>(value),
        "EmbeddedResource" => same::<EmbeddedResource>(value),
        "GetPromptRequest" => request::<GetPrompt>(value),
        "GetPromptRequestParams" => same::<GetPromptParams>(value),
        "GetPromptResult" => same::<GetPromptResult>(value),
        "GetPromptResultResponse" => response::<GetPrompt>(value),
        "HeaderMismatchError"
        | "InternalError"
        | "InvalidParamsError"
        | "MethodNotFoundError"
        | "ParseError" => error(value),
        "ImageContent" => same::<ImageContent>(value),
        "InputRequests" => value.as_object().map_or(Ok(()), |requests| {
            requests.values().try_for_each(same::<mcp_proto::schema::InputRequest>)
        }),
        "InputRequiredResult" => same::<InputRequiredResult>(value),
        "InputResponses" => value.as_object().map_or(Ok(()), |responses| {
            responses.values().try_for_each(same::<mcp_proto::schema::InputResponse>)
        }),
        "ListPromptsRequest" => request::<ListPrompts>(value),
        "ListPromptsResult" => same::<ListPromptsResult>(value),
        "ListPromptsResultResponse" => response::<ListPrompts>(value),
        "ListResourceTemplatesRequest" => request::<ListResourceTemplates>(value),
        "ListResourceTemplatesResult" => same::<ListResourceTemplatesResult>(value),
        "ListResourceTemplatesResultResponse" => response::<ListResourceTemplates>(value),
        "ListResourcesRequest" => request::<ListResources>(value),
        "ListResourcesResult" => same::<ListResourcesResult>(value),
        "ListResourcesResultResponse" => response::<ListResources>(value),
        "ListRootsRequest" => request::<ListRoots>(value),
        "ListRootsResult" => same::<ListRootsResult>(value),
        "ListToolsRequest" => request::<ListTools>(value),
        "ListToolsResult" => same::<ListToolsResult>(value),
        "ListToolsResultResponse" => response::<ListTools>(value),
        "LoggingMessageNotification" => notification::<LoggingMessage>(value),
        "LoggingMessageNotificationParams" => same::<LoggingMessageParams>(value),
        "MissingRequiredClientCapabilityError" => data::<MissingCapabilityData>(value),
        "ModelPreferences" => same::<ModelPreferences>(value),
        "NumberSchema" => field::<NumberSchema>(value),
        "PaginatedRequestParams" => same::<PaginatedParams>(value),
        "ProgressNotification" => notification::<Progress>(value),
        "ProgressNotificationParams" => same::<ProgressParams>(value),
        "PromptListChangedNotification" => notification::<PromptListChanged>(value),
        "ReadResourceRequest" => request::<ReadResource>(value),
        "ReadResourceResult" => same::<ReadResourceResult>(value),
        "ReadResourceResultResponse" => response::<ReadResource>(value),
        "Resource" => same::<Resource>(value),
        "ResourceLink" => same::<ResourceLink>(value),
        "ResourceListChangedNotification" => notification::<ResourceListChanged>(value),
        "ResourceUpdatedNotification" => notification::<ResourceUpdated>(value),
        "ResourceUpdatedNotificationParams" => same::<ResourceUpdatedParams>(value),
        "Root" => same::<Root>(value),
        "SamplingMessage" => same::<SamplingMessage>(value),
        "ServerCapabilities" => same::<ServerCapabilities>(value),
        "StringSchema" => field::<StringSchema>(value),
        "SubscriptionsAcknowledgedNotification" => notification::<SubscriptionsAcknowledged>(value),
        "SubscriptionsListenRequest" => request::<SubscriptionsListen>(value),
        "SubscriptionsListenResult" => same::<SubscriptionsListenResult>(value),
        "SubscriptionsListenResultResponse" => response::<SubscriptionsListen>(value),
        "TextContent" => same::<TextContent>(value),
        "TextResourceContents" => same::<TextResourceContents>(value),
        "TitledMultiSelectEnumSchema" | "UntitledMultiSelectEnumSchema" => field::<MultiSelectSchema>(value),
        "TitledSingleSelectEnumSchema" => field::<TitledEnumSchema>(value),
        "Tool" => same::<Tool>(value),
        "ToolListChangedNotification" => notification::<ToolListChanged>(value),
        "ToolResultContent" => same::<ToolResultContent>(value),
        "ToolUseContent" => same::<ToolUseContent>(value),
        "UnsupportedProtocolVersionError" => data::<UnsupportedVersionData>(value),
        "UntitledSingleSelectEnumSchema" => field::<EnumSchema>(value),
        _ => Err("unknown kind of example: add it to `check_one`".into()),
    }
}

/// Checks every example in `folder`.
pub(crate) fn check(folder: &Path, report: &mut Report) -> Result<(), String> {
    let list = |path: &Path| -> Result<Vec<_>, String> {
        let entries = std::fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        Ok(paths)
    };
    for kind in list(folder)?.iter().filter(|path| path.is_dir()) {
        let name = kind.file_name().unwrap_or_default().to_string_lossy();
        for path in list(kind)?.iter().filter(|path| path.extension().is_some_and(|it| it == "json")) {
            let value = read(path)?;
            report.examples += 1;
            if let Err(error) = check_one(&name, &value) {
                report.fail(format!("{}: {error}", path.display()));
            }
        }
    }
    if report.examples == 0 {
        return Err(format!("no examples in {}", folder.display()));
    }
    Ok(())
}
