//! The state that the connection and the context of a request share.

use alloc::boxed::Box;
use std::sync::{Mutex, OnceLock};

use crate::front::signal::lock;
use crate::peer::server::Cancellation;
use crate::rpc::{Raw, read_members};
use crate::schema::Meta;

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
