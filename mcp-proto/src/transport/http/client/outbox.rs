//! What is to be sent: messages that wait for their turn, and what the driver has to do.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::{fmt, mem};

use bytes::Bytes;

use crate::peer::{MessageKind, Outbox};
use crate::schema::Revision;
use crate::transport::http::{ExchangeId, Verb};

use super::address::Shown;
use super::hold::Challenge;

/// What is to be done with an exchange.
#[derive(Clone, Debug)]
pub enum Action {
    /// Send this request, and bring what comes of it.
    Open(Request),
    /// Break the exchange off. What still comes of it is ignored; if it was held, nobody waits for it any more.
    Abort(ExchangeId),
    /// See to it that this side is authorized, then [`resume`](super::HttpClient::resume) the exchange or
    /// [`refuse`](super::HttpClient::refuse) it. Only where that is [configured](super::HttpClientConfig::authorization).
    Challenge(Challenge),
}

/// A request of HTTP.
#[derive(Clone)]
pub struct Request {
    /// The name of the exchange that it begins.
    pub exchange: ExchangeId,
    /// Its method.
    pub verb: Verb,
    /// Where it goes, without a fragment.
    pub url: Arc<str>,
    /// The protocol's own headers, names in lower case. Others may be added, and none of these replaced.
    pub headers: Vec<(Cow<'static, str>, String)>,
    /// Its body; empty for any method but POST.
    pub body: Bytes,
}

impl fmt::Debug for Request {
    /// Without the values of the headers, the body and parts of the URL, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("Request")
            .field("exchange", &self.exchange)
            .field("verb", &self.verb)
            .field("url", &Shown(&self.url))
            .field("headers", &names)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// What the peer has said since this was last looked at.
#[derive(Debug)]
pub(super) enum Said {
    /// A request by its number, and its id on the wire.
    Request {
        id: i64,
        wire: i64,
        method: Box<str>,
        revision: Revision,
        body: Bytes,
    },
    Post(Post),
    Cancel {
        id: i64,
        reason: Option<String>,
    },
    Forget {
        id: i64,
    },
}

/// A message that is not answered by another.
#[derive(Clone, Debug)]
pub(super) struct Post {
    /// The method and the revision of a notification; none for a reply.
    pub(super) notification: Option<(Box<str>, Revision)>,
    pub(super) body: Bytes,
    /// How often it never left.
    pub(super) failures: u32,
}

/// Everything that waits to be sent.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    message: Vec<u8>,
    said: VecDeque<Said>,
    /// Requests that wait for an exchange, by number, each with its size.
    requests: BTreeMap<i64, usize>,
    /// Those among them that do not count as exchanges, because they last.
    lasting: BTreeMap<i64, usize>,
    posts: VecDeque<Post>,
    opens: BTreeMap<ExchangeId, Request>,
    aborts: VecDeque<ExchangeId>,
    challenges: BTreeMap<ExchangeId, Challenge>,
    bytes: usize,
}

impl Outgoing {
    // --- What the peer said ---

    pub(super) fn next_said(&mut self) -> Option<Said> {
        let said = self.said.pop_front()?;
        match &said {
            Said::Request { body, .. } | Said::Post(Post { body, .. }) => self.release(body.len()),
            Said::Cancel { .. } | Said::Forget { .. } => {}
        }
        Some(said)
    }

    /// What was said last, if it is the request `id`: one that the transport has just made the peer say.
    pub(super) fn take_own(&mut self, id: i64) -> Option<(Revision, Bytes)> {
        match self.said.pop_back_if(|said| matches!(said, Said::Request { id: said, .. } if *said == id)) {
            Some(Said::Request { revision, body, .. }) => {
                self.release(body.len());
                Some((revision, body))
            }
            _ => None,
        }
    }

    /// Forgets the replies that wait.
    pub(super) fn drop_replies(&mut self) {
        let before: usize = self.posts.iter().map(|post| post.body.len()).sum();
        self.posts.retain(|post| post.notification.is_some());
        let after: usize = self.posts.iter().map(|post| post.body.len()).sum();
        self.release(before.saturating_sub(after));
    }

    /// Whether nothing was said.
    pub(super) fn is_quiet(&self) -> bool {
        self.said.is_empty()
    }

    // --- What waits for an exchange ---

    pub(super) fn wait(&mut self, number: i64, bytes: usize, lasting: bool) {
        let waiting = if lasting { &mut self.lasting } else { &mut self.requests };
        waiting.insert(number, bytes);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Takes a request out, whether it waits or not.
    pub(super) fn stop_waiting(&mut self, number: i64) {
        let bytes = self.requests.remove(&number).or_else(|| self.lasting.remove(&number));
        self.release(bytes.unwrap_or(0));
    }

    pub(super) fn next_lasting(&mut self) -> Option<i64> {
        let (number, bytes) = self.lasting.pop_first()?;
        self.release(bytes);
        Some(number)
    }

    pub(super) fn next_request(&mut self) -> Option<i64> {
        let (number, bytes) = self.requests.pop_first()?;
        self.release(bytes);
        Some(number)
    }

    pub(super) fn push_post(&mut self, post: Post) {
        self.bytes = self.bytes.saturating_add(post.body.len());
        self.posts.push_back(post);
    }

    pub(super) fn next_post(&mut self) -> Option<Post> {
        let post = self.posts.pop_front()?;
        self.release(post.body.len());
        Some(post)
    }

    pub(super) fn has_posts(&self) -> bool {
        !self.posts.is_empty()
    }

    // --- What the driver has to do ---

    pub(super) fn open(&mut self, request: Request) {
        self.bytes = self.bytes.saturating_add(request.body.len());
        self.opens.insert(request.exchange, request);
    }

    pub(super) fn challenge(&mut self, challenge: Challenge) {
        self.challenges.insert(challenge.exchange, challenge);
    }

    /// An exchange is held no longer; returns whether the driver has not been told yet that it is.
    pub(super) fn withdraw(&mut self, exchange: ExchangeId) -> bool {
        self.challenges.remove(&exchange).is_some()
    }

    /// Breaks an exchange off; returns whether the driver has begun it.
    pub(super) fn abort(&mut self, exchange: ExchangeId) -> bool {
        if self.withdraw(exchange) {
            return true;
        }
        match self.opens.remove(&exchange) {
            Some(request) => {
                self.release(request.body.len());
                false
            }
            None => {
                self.aborts.push_back(exchange);
                true
            }
        }
    }

    pub(super) fn poll_action(&mut self) -> Option<Action> {
        // First what frees a connection, then what needs one.
        if let Some(exchange) = self.aborts.pop_front() {
            return Some(Action::Abort(exchange));
        }
        if let Some((_, challenge)) = self.challenges.pop_first() {
            return Some(Action::Challenge(challenge));
        }
        let (_, request) = self.opens.pop_first()?;
        self.release(request.body.len());
        Some(Action::Open(request))
    }

    /// Forgets everything that waits for an exchange.
    pub(super) fn clear(&mut self) {
        let opens: usize = self.opens.values().map(|request| request.body.len()).sum();
        self.message.clear();
        self.said.clear();
        self.requests.clear();
        self.lasting.clear();
        self.posts.clear();
        self.bytes = opens;
    }

    fn release(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl Outbox for Outgoing {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self.message.clear();
        &mut self.message
    }

    fn commit(&mut self, about: MessageKind<'_>) {
        let body = Bytes::from(mem::take(&mut self.message));
        self.bytes = self.bytes.saturating_add(body.len());
        self.said.push_back(match about {
            MessageKind::Request { id, method, revision, .. } => {
                Said::Request { id, wire: id, method: method.into(), revision, body }
            }
            MessageKind::Notification { method, revision, .. } => {
                Said::Post(Post { notification: Some((method.into(), revision)), body, failures: 0 })
            }
            MessageKind::Reply(_) => Said::Post(Post { notification: None, body, failures: 0 }),
        });
    }

    fn commit_retry(&mut self, first: i64, about: MessageKind<'_>) {
        self.commit(about);
        if let Some(Said::Request { id, .. }) = self.said.back_mut() {
            *id = first;
        }
    }

    fn queued(&self) -> usize {
        self.bytes
    }

    fn cancel(&mut self, id: i64, reason: Option<&str>) {
        self.said.push_back(Said::Cancel { id, reason: reason.map(Into::into) });
    }

    fn forget(&mut self, id: i64) {
        self.said.push_back(Said::Forget { id });
    }

    fn cancel_retry(&mut self, first: i64, _: i64, reason: Option<&str>) {
        self.cancel(first, reason);
    }
}
