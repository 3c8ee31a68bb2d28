//! The message semantics of MCP for either role, independent of the transport.
//!
//! A peer owns no framing and no buffer: it takes whole [messages](crate::rpc::Message) and writes through the
//! `Outbox` that its transport passes in. Applications drive the [transports](crate::transport).

mod batch;
mod carriage;
#[cfg(feature = "client")]
pub mod client;
mod encode;
mod event_queue;
pub(crate) mod extensions;
mod inbound;
mod input_error;
mod machine;
mod options;
mod outbox;
mod outcome;
mod principal;
#[cfg(any(feature = "client", feature = "server"))]
pub(crate) mod progress_pacer;
#[cfg(feature = "client")]
pub(crate) mod related_task;
mod requests;
pub(crate) mod reserved_methods;
#[cfg(feature = "server")]
pub mod server;
mod strictness;
mod task;
#[cfg(any(feature = "client", feature = "server"))]
pub(crate) mod topic;
mod undeclared_capability;

pub use crate::schema::CacheHint;
pub use carriage::ExchangeId;
pub(crate) use carriage::{
    Carriage, CarriageEnd, CarriageState, EncodedRequest, ResultChunks, ResumedStreams,
};
pub(crate) use encode::{AnyParams, MetaEntries, ResultDefaults};
pub use encode::{AnyResult, OutgoingRequest};
pub use inbound::InboundId;
pub(crate) use inbound::{Inbound, InsertError};
pub use input_error::InputError;
pub(crate) use machine::Machine;
pub use options::{CacheMode, InputMode, ProgressOption, ReissuePolicy, RequestOptions, TaskMode};
pub(crate) use outbox::{MessageKind, Outbox};
pub use outcome::{
    DecodeError, FailedRequest, InvalidAnswerError, LostReason, Outcome, RequestError, RequiredCapability,
    RetryAdvice, TransportError,
};
pub(crate) use outcome::{UNPOLLED_DRIVER, write_timeout};
pub use principal::{Denial, Principal};
pub use requests::RequestId;
pub(crate) use requests::{
    RequestProperties, RequestRecord, RequestTimes, Requests, WireId, asks_for_progress,
};
pub use strictness::{Leniency, Strictness};
pub use task::TaskReport;
