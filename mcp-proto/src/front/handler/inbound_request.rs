//! The client's request and its caller, independent of the state of its handler.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::any::{Any, TypeId};
use core::fmt;
use std::sync::{Mutex, OnceLock};

use super::access::CallerAccess;
use super::connection::HandlerConnection;
use crate::UnixTime;
use crate::front::clock::Entropy;
use crate::front::wakers::lock;
use crate::peer::server::{Cancellation, RequestContext};
use crate::peer::{InboundId, Principal};
use crate::quota::QuotaOwner;
use crate::rpc::{Raw, read_members};
use crate::schema::{ClientCapabilities, Meta, Revision};

/// A request that a handler answers: its capabilities, caller and connection.
pub(in crate::front) struct InboundRequest {
    pub(in crate::front) connection: Arc<dyn HandlerConnection>,
    pub(in crate::front) id: InboundId,
    pub(in crate::front) context: RequestContext,
    pub(in crate::front) caller: Caller,
    pub(in crate::front) entropy: Arc<dyn Entropy>,
    pub(in crate::front) state: Arc<RequestState>,
}

impl InboundRequest {
    pub(in crate::front) fn revision(&self) -> Revision {
        self.context.revision
    }

    pub(in crate::front) fn client_capabilities(&self) -> &ClientCapabilities {
        &self.context.client_capabilities
    }

    pub(in crate::front) fn principal(&self) -> Option<&Principal> {
        self.context.principal.as_ref()
    }

    /// The owner whose quota the request uses.
    pub(in crate::front) fn owner(&self) -> QuotaOwner {
        self.principal().map_or_else(|| self.caller.owner.clone(), |principal| principal.clone().into())
    }

    /// The time of day.
    pub(super) fn unix_time(&self) -> UnixTime {
        self.connection.unix_time()
    }

    /// An unguessable id in letters and digits.
    pub(in crate::front) fn random_id(&self) -> String {
        let mut bytes = [0; 16];
        self.entropy.fill(&mut bytes);
        bytes.iter().map(|byte| alloc::format!("{byte:02x}")).collect()
    }

    /// Schedules the handler to be polled again, after another task changed the state that it waits for.
    pub(super) fn wake_handler(&self) {
        self.connection.wake_handler(self.id);
    }
}

/// The state of a request that its connection and its context share.
#[derive(Default)]
pub(in crate::front) struct RequestState {
    /// The source of `meta`, until it is decoded.
    source: Mutex<MetaSource>,
    meta: OnceLock<Box<Meta>>,
    end: OnceLock<Cancellation>,
}

#[derive(Default)]
enum MetaSource {
    #[default]
    Absent,
    /// The parameters, which share the memory of the message.
    Params(Raw),
    /// The `_meta`, not in the memory of the message.
    Meta(Raw),
}

impl RequestState {
    pub(in crate::front) fn new(params: Option<Raw>) -> Self {
        let source = params.map_or(MetaSource::Absent, MetaSource::Params);
        Self { source: Mutex::new(source), ..Self::default() }
    }

    /// The `_meta` of the request, decoded on the first call. It is empty if the request has none.
    pub(super) fn meta(&self) -> &Meta {
        self.meta.get_or_init(|| {
            let source = core::mem::take(&mut *lock(&self.source));
            let text = match source {
                MetaSource::Absent => None,
                MetaSource::Params(params) => meta_of(&params),
                MetaSource::Meta(meta) => Some(meta),
            };
            Box::new(text.and_then(|text| text.decode().ok()).unwrap_or_default())
        })
    }

    /// Sets the `_meta`, in memory that it shares with other requests, so that the message need not be kept for it.
    #[cfg(feature = "http")]
    pub(in crate::front) fn share_meta(&self, meta: Raw) {
        *lock(&self.source) = MetaSource::Meta(meta);
    }

    /// Lets go of the message that the request arrived in, which a handler that waits must not keep in memory.
    pub(in crate::front) fn release_message(&self) {
        let mut source = lock(&self.source);
        if let MetaSource::Params(params) = &*source {
            *source = meta_of(params).map_or(MetaSource::Absent, |meta| MetaSource::Meta(meta.detached()));
        }
    }

    /// Why the request has ended; `None` while it is active.
    pub(super) fn end(&self) -> Option<&Cancellation> {
        self.end.get()
    }

    /// Records why the request has ended. The first end counts.
    pub(in crate::front) fn set_end(&self, end: Cancellation) {
        let _ = self.end.set(end);
    }
}

fn meta_of(params: &Raw) -> Option<Raw> {
    let [meta] = read_members(params.as_str(), ["_meta"]).ok()?;
    meta.map(|meta| params.part(meta))
}

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

/// Values that the adapter, or the code around it, attaches to a request for its handler: at most one of each type.
///
/// Handlers read them with [`Context::attachments`](crate::front::Context::attachments). Examples are the headers of the
/// HTTP request and the address of the client. Extensions of the protocol are something else:
/// [`Context::extension`](crate::front::Context::extension).
///
/// Clones share the values. An empty collection takes no memory.
///
/// ```
/// use mcp_proto::front::Attachments;
///
/// #[derive(Debug, PartialEq)]
/// struct Tenant(u32);
///
/// let mut attachments = Attachments::new();
/// attachments.insert(Tenant(7));
/// assert_eq!(attachments.get::<Tenant>(), Some(&Tenant(7)));
/// assert_eq!(attachments.get::<String>(), None);
/// ```
#[derive(Clone, Default)]
pub struct Attachments(Option<Arc<[Attachment]>>);

type Attachment = (TypeId, Arc<dyn Any + Send + Sync>);

impl Attachments {
    /// Creates an empty collection.
    pub const fn new() -> Self {
        Self(None)
    }

    /// Attaches a value, in place of one of the same type. Clones of the collection do not change.
    pub fn insert<T: Any + Send + Sync>(&mut self, value: T) {
        let new: Attachment = (TypeId::of::<T>(), Arc::new(value));
        let values = self.0.as_deref().unwrap_or_default();
        // The collection is copied in one allocation, as most have clones: the connection's, for each request.
        self.0 = Some(if values.iter().any(|(present, _)| *present == new.0) {
            let replaced = values.iter().map(|old| if old.0 == new.0 { &new } else { old });
            replaced.cloned().collect()
        } else {
            values.iter().chain([&new]).cloned().collect()
        });
    }

    /// Attaches a value like [`insert`](Self::insert), and returns the collection.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.insert(value);
        self
    }

    /// The value of this type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        let id = TypeId::of::<T>();
        let (_, value) = self.0.as_ref()?.iter().find(|(present, _)| *present == id)?;
        value.downcast_ref()
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |values| values.len())
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Attachments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachments").field("len", &self.len()).finish_non_exhaustive()
    }
}
