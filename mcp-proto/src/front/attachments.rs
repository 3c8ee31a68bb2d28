//! Values that adapters attach to requests.

use alloc::sync::Arc;
use core::any::{Any, TypeId};
use core::fmt;

/// Values that the adapter, or the code around it, attaches to a request for its handler: at most one of each type.
///
/// Handlers read them with [`Context::attachments`](super::Context::attachments). Examples are the headers of the
/// HTTP request and the address of the client. Extensions of the protocol are something else:
/// [`Context::extension`](super::Context::extension).
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
