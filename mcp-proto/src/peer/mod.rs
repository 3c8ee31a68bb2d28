//! What the messages of MCP mean, for either role, whatever carries them.
//!
//! A peer owns no framing and no buffer: it is handed whole [messages](crate::rpc::Message) and writes through the
//! [`Outbox`] that its transport passes in. The [transports](crate::transport) are what applications drive.

mod batch;
#[cfg(feature = "client")]
pub mod client;
mod conduct;
mod declared;
mod denial;
mod encode;
mod events;
mod inbound;
mod input_fault;
mod options;
mod outbound;
mod outbox;
mod outcome;
mod principal;
#[cfg(feature = "client")]
pub(crate) mod related;
#[cfg(feature = "server")]
pub mod server;
mod task;

pub use crate::schema::CacheHint;
pub use conduct::{Conduct, Leniency};
pub use denial::Denial;
pub use encode::{AnyParams, AnyResult, MetaEntries, Outgoing, Stamp};
pub use inbound::InboundId;
pub use input_fault::InputFault;
pub use options::{CacheMode, InputMode, ProgressOption, Reissue, RequestOptions, TaskMode};
pub use outbound::RequestId;
pub use outbox::{About, Outbox};
pub use outcome::{DecodeError, HttpError, InvalidAnswer, Lost, Needed, Outcome, Refusal, RequestError};
pub use principal::Principal;
pub use task::TaskReport;

pub(crate) use inbound::{Inbound, Refused};
pub(crate) use outbound::{Entry, Kept, Outbound, Stage, TaskWish};
#[cfg(all(feature = "std", any(feature = "client", feature = "server")))]
pub(crate) use outcome::quote_unaddressed;
