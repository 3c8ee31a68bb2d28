use crate::bind::http::server::*;
use crate::*;
use core::task::{Context,Poll};
pub(super) type SessionKey = u64;
pub(super) type StreamId = u64;
pub(super) struct SessionCell {}
impl SessionCell {
    pub(super) fn id(&self) -> SessionId { SessionId::from_entropy([0;16]) }
    pub(super) fn notify(&self) {}
    pub(super) fn leave(&self, _:u64) {}
    pub(super) fn poll_head(&self, _: StreamId, _: &mut Context<'_>) -> Poll<ResponseHead> { Poll::Pending }
    pub(super) fn poll_body(&self, _: StreamId, _: &mut Context<'_>) -> Poll<Option<Bytes>> { Poll::Pending }
}
