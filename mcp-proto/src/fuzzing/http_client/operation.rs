//! Operations of a fuzzing run of an HTTP client.

use alloc::vec::Vec;

use arbitrary::Arbitrary;

/// One operation of a run.
#[derive(Arbitrary, Clone, Debug)]
pub(in crate::fuzzing) enum Operation {
    Call {
        timeout_ms: Option<u16>,
    },
    List,
    Listen,
    Notify,
    Cancel(u8),
    Respond(u8),
    Close,
    Abort,
    Head {
        which: u8,
        status: Status,
        kind: Kind,
    },
    Body {
        which: u8,
        bytes: Vec<u8>,
    },
    Events {
        which: u8,
        message: ServerMessage,
        id: bool,
    },
    End {
        which: u8,
        end: EndKind,
    },
    /// A complete answer.
    Answer {
        which: u8,
        status: Status,
        message: ServerMessage,
    },
    Advance {
        ms: u16,
    },
    Backwards {
        ms: u16,
    },
    Timeout,
    PollEvents,
    PollActions,
    Watch {
        interest: u8,
        before: bool,
    },
    SetInterest {
        which: u8,
        interest: u8,
    },
    Unwatch(u8),
    Task {
        command: u8,
        timeout_ms: Option<u16>,
    },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(in crate::fuzzing) enum Status {
    Ok,
    Accepted,
    Moved,
    BadRequest,
    Unauthorized,
    NotFound,
    NotAllowed,
    Unavailable,
    Any(u16),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(in crate::fuzzing) enum Kind {
    Json,
    Events,
    Html,
    None,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(in crate::fuzzing) enum EndKind {
    Complete,
    Truncated,
    Maybe,
    No,
}

/// A message from a server.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(in crate::fuzzing) enum ServerMessage {
    Discovered,
    Initialized,
    Complete,
    Tools,
    Error,
    HeaderMismatch,
    Unsupported,
    Broken,
    WithoutId,
    Elsewhere(u8),
    Batch,
    Request(u8),
    Progress(u8),
    Cancelled(u8),
    Endpoint,
    Fragment,
    Last,
    Nothing,
    Notification(u8),
    Task,
}

/// The configuration and the operations of one run.
#[derive(Arbitrary, Clone, Debug)]
pub(in crate::fuzzing) struct Run {
    pub(super) mode: u8,
    pub(super) tight: bool,
    pub(super) keepalive: bool,
    pub(super) listen: bool,
    pub(super) dialect: bool,
    pub(super) seed: u64,
    pub(super) operations: Vec<Operation>,
}
