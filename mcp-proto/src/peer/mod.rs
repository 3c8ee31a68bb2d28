//! The message semantics of MCP for either role, independent of the transport.
//!
//! A peer owns no framing and no buffer: it takes whole [messages](crate::rpc::Message) and writes through the
//! `Outbox` that its transport passes in. Applications drive the [transports](crate::transport).

/// Records a command before it is given: one that has a record, or may have none and then a name.
#[cfg(any(feature = "client", feature = "server"))]
macro_rules! record {
    ($self:ident, $command:expr) => {
        #[cfg(feature = "trace-file")]
        $self.record(|| crate::trace_file::MachineStep::command(Some($command), ""));
    };
    ($self:ident, $command:expr, $what:expr) => {
        #[cfg(feature = "trace-file")]
        $self.record(|| crate::trace_file::MachineStep::command($command, $what));
    };
}

pub(crate) mod admission;
mod carriage;
#[cfg(feature = "client")]
pub mod client;
mod encode;
pub(crate) mod event_queue;
mod inbound;
mod machine;
mod options;
mod outcome;
#[cfg(all(feature = "trace-file", any(feature = "client", feature = "server")))]
pub(crate) mod recorded;
mod requests;
#[cfg(feature = "server")]
pub mod server;
mod strictness;
pub(crate) mod task;
#[cfg(any(feature = "client", feature = "server"))]
pub(crate) mod topic;

pub use crate::schema::CacheHint;
pub use carriage::ExchangeId;
pub(crate) use carriage::{
    Carriage, CarriageEnd, CarriageState, EncodedRequest, ResultChunks, ResumedStreams,
};
pub(crate) use encode::{AnyParams, MetaEntries, ResultDefaults};
pub use encode::{AnyResult, OutgoingRequest};
pub use inbound::InboundId;
pub(crate) use inbound::{Inbound, InsertError};
pub use machine::{Denial, Principal};
pub(crate) use machine::{HeldPiece, Machine, MessageCharge, MessageKind, Outbox, Passage};
pub use options::{CacheMode, InputMode, ProgressOption, ReissuePolicy, RequestOptions, TaskMode};
pub use outcome::{
    DecodeError, FailedRequest, InputError, InvalidAnswerError, LostReason, Outcome, RequestError,
    RequiredCapability, RetryAdvice, TransportError,
};
pub(crate) use outcome::{UNPOLLED_DRIVER, write_timeout};
pub use requests::RequestId;
pub(crate) use requests::{
    RequestProperties, RequestRecord, RequestTimes, Requests, WireId, asks_for_progress,
};
pub use strictness::{Leniency, Strictness};
pub use task::TaskReport;
