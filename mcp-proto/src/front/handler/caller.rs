//! The caller of a request, as far as the transport knows it.

use super::caller_access::CallerAccess;
use crate::front::Attachments;
use crate::quota::QuotaOwner;

/// The caller of a request: its quota owner, access and attachments. The peer knows its principal.
#[derive(Clone, Default)]
pub(crate) struct Caller {
    /// The owner of requests without a principal.
    pub(crate) owner: QuotaOwner,
    /// The access that the token grants.
    pub(crate) access: CallerAccess,
    /// The values that the adapter attached to the request.
    pub(crate) attachments: Attachments,
}
