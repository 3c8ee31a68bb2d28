//! The client's request and its caller, independent of the state of its handler.

use alloc::sync::Arc;
use core::any::{Any, TypeId};
use std::sync::OnceLock;

use crate::front::params::HandlerContext;
use crate::front::wakers::lock;
use crate::peer::Principal;
use crate::peer::server::{Cancellation, RequestContext};
use crate::prelude::*;
use crate::quota::QuotaOwner;
use crate::rpc::{Raw, Text};
use crate::schema::Meta;
use crate::sync::Mutex;
#[cfg(feature = "auth")]
use crate::{auth::Scopes, auth::server::GrantedAccess};

/// The access that a caller's token grants; `None` where the server demands no tokens.
#[cfg(feature = "auth")]
pub(in crate::front) type CallerAccess = Option<GrantedAccess>;
/// The scopes that a tool requires for all arguments.
#[cfg(feature = "auth")]
pub(super) type DeclaredScopes = Option<Arc<Scopes>>;

/// There are no tokens without the feature `auth`.
#[cfg(not(feature = "auth"))]
#[derive(Clone, Default)]
pub(in crate::front) struct CallerAccess;
#[cfg(not(feature = "auth"))]
#[derive(Clone, Default)]
pub(super) struct DeclaredScopes;

/// The state of a request that its connection and its context share. It may be dropped under the connection's lock.
pub(in crate::front) struct RequestState {
    pub(in crate::front) context: RequestContext,
    meta: OnceLock<Box<Meta>>,
    /// That of parameters which a layer changed: it counts even if the first one was read before.
    changed_meta: OnceLock<Box<Meta>>,
    changing: Mutex<ChangingState>,
}

struct ChangingState {
    /// Where the `_meta` is, until it is decoded.
    source: Option<MetaSource>,
    /// Why the request has ended, if it has.
    end: Option<Cancellation>,
}

enum MetaSource {
    /// The parameters, which share the memory of the message.
    Params(Raw),
    /// Its text, in other memory.
    Text(Text),
}

impl MetaSource {
    fn into_text(self) -> Option<Text> {
        match self {
            Self::Params(params) => params.meta().map(Raw::into_text),
            Self::Text(text) => Some(text),
        }
    }
}

impl RequestState {
    pub(in crate::front) fn new(context: RequestContext, params: Option<&Raw>) -> Self {
        let source = params.cloned().map(MetaSource::Params);
        let changing = Mutex::new(ChangingState { source, end: None });
        Self { context, meta: OnceLock::new(), changed_meta: OnceLock::new(), changing }
    }

    /// The `_meta` of the request, decoded on the first call. It is empty if the request has none.
    pub(super) fn meta(&self) -> &Meta {
        self.changed_meta.get().unwrap_or_else(|| {
            self.meta.get_or_init(|| {
                let source = lock(&self.changing).source.take();
                decode_meta(source.and_then(MetaSource::into_text))
            })
        })
    }

    /// Sets the `_meta`, in memory that it shares with other requests, so that the message need not be kept for it.
    #[cfg(feature = "http")]
    pub(in crate::front) fn share_meta(&self, meta: Raw) {
        lock(&self.changing).source = Some(MetaSource::Text(meta.into_text()));
    }

    /// Sets the `_meta` to that of changed parameters. They change once: behind all layers.
    pub(in crate::front) fn replace_meta(&self, params: Option<&Raw>) {
        let text = params.and_then(Raw::meta).map(Raw::into_text);
        self.changed_meta.get_or_init(|| decode_meta(text));
    }

    /// Lets go of the message that the request arrived in, which a handler that waits must not keep in memory.
    pub(in crate::front) fn release_message(&self) {
        let mut changing = lock(&self.changing);
        if let Some(MetaSource::Params(params)) = &changing.source {
            changing.source = params.meta().map(|meta| MetaSource::Text(meta.as_str().into()));
        }
    }

    /// Why the request has ended; `None` while it is active.
    pub(super) fn end(&self) -> Option<Cancellation> {
        lock(&self.changing).end.clone()
    }

    /// Records why the request has ended. The first end counts.
    pub(in crate::front) fn set_end(&self, end: Cancellation) {
        lock(&self.changing).end.get_or_insert(end);
    }
}

fn decode_meta(text: Option<Text>) -> Box<Meta> {
    Box::new(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

/// The caller of a request: its quota owner, access and attachments. The peer knows its principal.
#[derive(Clone, Default)]
pub(crate) struct Caller {
    /// The owner of requests without a principal.
    pub(crate) owner: QuotaOwner,
    /// The access that the token grants.
    pub(in crate::front) access: CallerAccess,
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

debug_fields! { Attachments(self) { len = self.len() } }

/// The sender of a notification, for its handler.
///
/// `S` is the [state of the router](crate::front::Router::with_state), if it has one.
#[derive(Debug)]
pub struct NotificationContext<S = ()> {
    principal: Option<Principal>,
    owner: QuotaOwner,
    state: Arc<S>,
}

impl NotificationContext {
    pub(in crate::front) fn new(principal: Option<Principal>, owner: QuotaOwner) -> Self {
        Self { principal, owner, state: Arc::default() }
    }
}

impl<S> NotificationContext<S> {
    /// The principal on whose behalf the notification is sent, if the transport knows one.
    pub fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// The owner whose quota the notification uses: its principal, or the address it came from.
    pub fn owner(&self) -> QuotaOwner {
        self.principal.clone().map_or_else(|| self.owner.clone(), QuotaOwner::from)
    }

    /// The state of the router.
    pub fn state(&self) -> &S {
        &self.state
    }
}

impl<S: 'static> HandlerContext for NotificationContext<S> {
    type Plain = NotificationContext;
    type State = S;

    fn with_state(plain: NotificationContext, state: &Arc<S>) -> Self {
        Self { principal: plain.principal, owner: plain.owner, state: state.clone() }
    }
}

impl<S> Clone for NotificationContext<S> {
    fn clone(&self) -> Self {
        Self { principal: self.principal.clone(), owner: self.owner.clone(), state: self.state.clone() }
    }
}
