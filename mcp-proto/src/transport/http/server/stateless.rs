//! Messages of legacy clients on a server without sessions.

use crate::peer::Principal;
use crate::quota::BytePermit;
use crate::rpc::{Frame, Malformed, Message, code};
use crate::schema::{Initialize, Method as _, Revision};

use super::HttpResponse;
use super::head::{AcceptedTypes, VersionHeader};
use super::route::{Post, PostContent, PostedNotification, RequestRoute};

//= S3.18 "others may assume 2025-03-26"
/// The revision of a request without `MCP-Protocol-Version`.
///
/// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#protocol-version-header>
const ASSUMED: Revision = Revision::V2025_03_26;

/// Requests that a client of the legacy era posted to a server without sessions: one, or a batch.
#[derive(Debug)]
pub struct StatelessPost {
    pub(super) frame: Frame,
    /// The revision; `None` for `initialize`, which negotiates it.
    pub(super) revision: Option<Revision>,
    pub(super) accepts: AcceptedTypes,
    pub(super) principal: Option<Principal>,
    /// The permit for the body's bytes.
    pub(super) permit: Option<BytePermit>,
}

impl StatelessPost {
    /// Sets the principal on whose behalf the requests are made.
    #[must_use]
    pub fn on_behalf_of(mut self, principal: Option<Principal>) -> Self {
        self.principal = principal;
        self
    }
}

/// Routes a message whose version header is not that of the modern era.
pub(super) fn route(version: VersionHeader, post: Post) -> Result<RequestRoute, HttpResponse> {
    let Post { content, accepts, .. } = post;
    let refuse =
        |what: &str| Err(HttpResponse::refusal(400, version.error_id(), code::INVALID_REQUEST, what));
    let frame = match content {
        PostContent::Frame(frame) => frame,
        PostContent::Malformed(malformed) => {
            return Err(HttpResponse::malformed(&malformed, version.error_id()));
        }
    };
    let revision = match &frame {
        Frame::Single(Message::Request(request)) if &*request.method == Initialize::NAME => None,
        Frame::Single(Message::Request(_)) => Some(revision_of(version)),
        // There is no session that it could change, and no other request that it could cancel.
        Frame::Single(Message::Notification(notification)) => {
            return Ok(RequestRoute::Notification(PostedNotification::new(notification.clone())));
        }
        Frame::Single(Message::Response(_)) => return refuse("this server sends no requests"),
        Frame::Batch(batch) => {
            let revision = revision_of(version);
            if !revision.differences().batches {
                return refuse("batches are not part of this revision");
            }
            let mut messages = batch.clone().peekable();
            if messages.peek().is_none() {
                return refuse("an empty batch");
            }
            let is_answered = |message: Result<Message, Malformed>| match message {
                Ok(message) => matches!(message, Message::Request(_)),
                Err(malformed) => !malformed.is_silent(),
            };
            if !messages.any(is_answered) {
                return Ok(RequestRoute::Answer(HttpResponse::empty(202)));
            }
            Some(revision)
        }
    };
    Ok(RequestRoute::Stateless(StatelessPost { frame, revision, accepts, principal: None, permit: None }))
}

fn revision_of(version: VersionHeader) -> Revision {
    match version {
        VersionHeader::Known(revision) => revision,
        VersionHeader::Absent | VersionHeader::Unknown => ASSUMED,
    }
}
