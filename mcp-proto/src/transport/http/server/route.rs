//! What a message is to be done with: by what it says itself, by its headers and by the configuration.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::codec::header as value;
use crate::peer::Principal;
use crate::peer::server::{Eras, unsupported_version};
use crate::quota::BytePermit;
use crate::rpc::{self, ErrorId, ErrorObject, Frame, Id, Kind, Malformed, Message, Raw, Request, code};
use crate::schema::tasks::{CancelTask, GetTask, UpdateTask};
use crate::schema::{
    CallTool, Discover, Era, GetPrompt, Initialize, Method, ReadResource, SubscriptionsListen,
};
use crate::transport::http::header;
use crate::transport::http::tools::ParamHeaders;

use super::intake::{Accepts, Header, Kept, Version};
use super::{Answer, SessionId, Setup};

/// What is to be done with a request.
#[derive(Debug)]
#[non_exhaustive]
pub enum Routed {
    /// It is answered already.
    Answer(Answer),
    /// It stands alone: [`Exchange::open`](super::Exchange::open).
    Modern(ModernRequest),
    /// It asks for a session: [`Session::open`](super::Session::open).
    Open(Post),
    /// It belongs to a session.
    Session {
        /// The session.
        id: SessionId,
        /// What was posted.
        post: Post,
    },
    /// It asks for the stream of a session, or for the rest of one.
    Listen {
        /// The session.
        id: SessionId,
        /// The last event that the client has of the stream whose rest it asks for.
        last_event: Option<String>,
    },
    /// It ends a session.
    Delete {
        /// The session.
        id: SessionId,
    },
    /// A client of 2024-11-05 opens its stream, and with it a session.
    LegacyEvents,
    /// A client of 2024-11-05 sends a message; the answer goes to its stream.
    LegacyPost {
        /// The session.
        id: SessionId,
        /// What was posted.
        post: Post,
    },
}

impl Routed {
    /// Hands the permit for the body on to what keeps the body.
    pub(super) fn charge(mut self, body: Option<BytePermit>) -> Self {
        match &mut self {
            Self::Modern(ModernRequest { permit, .. })
            | Self::Open(Post { permit, .. })
            | Self::Session { post: Post { permit, .. }, .. }
            | Self::LegacyPost { post: Post { permit, .. }, .. } => *permit = body,
            Self::Answer(_) | Self::Listen { .. } | Self::Delete { .. } | Self::LegacyEvents => {}
        }
        self
    }
}

/// A request that stands alone.
#[derive(Debug)]
pub struct ModernRequest {
    pub(super) request: Request,
    pub(super) accepts: Accepts,
    /// The headers that mirror parameters of the tool.
    pub(super) mirrored: Vec<(String, Vec<u8>)>,
    pub(super) principal: Option<Principal>,
    /// The bytes of its body.
    pub(super) permit: Option<BytePermit>,
}

impl ModernRequest {
    /// The same request, made on behalf of a principal.
    #[must_use]
    pub fn on_behalf_of(mut self, principal: Option<Principal>) -> Self {
        self.principal = principal;
        self
    }

    /// The method that is asked for.
    pub fn method(&self) -> &str {
        &self.request.method
    }

    /// The parameters, not decoded.
    pub fn params(&self) -> Option<&Raw> {
        self.request.params.as_ref()
    }

    /// The tool that is called, if one is.
    pub fn tool(&self) -> Option<Cow<'_, str>> {
        if &*self.request.method != CallTool::NAME {
            return None;
        }
        string(Envelope::read(self.params()).ok()?.name)
    }

    /// Makes sure that the headers that were [kept](super::Intake::keep_params) repeat the arguments of the tool.
    ///
    /// # Errors
    /// The answer to a request that is refused.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#server-behavior-for-custom-headers>
    pub fn check(&self, headers: &ParamHeaders) -> Result<(), Answer> {
        let arguments = Envelope::read(self.params()).ok().and_then(|envelope| envelope.arguments);
        let arguments = arguments.and_then(|arguments| Raw::new(arguments.get()).ok());
        headers
            .check(arguments.as_ref(), self.mirrored.as_slice())
            .map_err(|error| mismatch(ErrorId::Known(&self.request.id), format!("{error}")))
    }
}

/// What a client of the legacy era has posted.
#[derive(Debug)]
pub struct Post {
    pub(super) content: Content,
    pub(super) accepts: Accepts,
    /// The bytes of the body.
    pub(super) permit: Option<BytePermit>,
}

#[derive(Debug)]
pub(super) enum Content {
    Frame(Frame),
    /// An answer that can not be read, which ends the request that it was to answer.
    Malformed(Box<Malformed>),
}

impl Post {
    /// The id of the request that it is, if it is one.
    pub fn request_id(&self) -> Option<&Id> {
        match &self.content {
            Content::Frame(Frame::Single(Message::Request(request))) => Some(&request.id),
            Content::Frame(_) | Content::Malformed(_) => None,
        }
    }
}

/// Routes what was posted to the endpoint.
pub(super) fn route(setup: &Setup, kept: Kept, body: &Bytes) -> Routed {
    let routed = match rpc::read(body, setup.config().limits().depth) {
        Ok(frame) => route_frame(setup, kept, frame),
        Err(malformed) => route_malformed(setup, &kept, malformed),
    };
    routed.unwrap_or_else(Routed::Answer)
}

fn route_frame(setup: &Setup, kept: Kept, frame: Frame) -> Result<Routed, Answer> {
    match &frame {
        Frame::Single(Message::Request(_)) => route_request(setup, kept, frame),
        Frame::Single(Message::Notification(notification)) => {
            let envelope = Envelope::read(notification.params.as_ref())
                .map_err(|error| Answer::error(400, kept.version.version().error_id(), &error))?;
            let modern = envelope.version.is_some() || kept.version.version().era() == Some(Era::Modern);
            if modern && setup.eras() != Eras::LegacyOnly {
                // None is defined: it is taken, and means nothing.
                check_notification(&kept, &notification.method, &envelope)
                    .map_err(|what| mismatch(kept.version.version().error_id(), what))?;
                check_spoken(setup, &envelope)?;
                return Ok(Routed::Answer(Answer::empty(202)));
            }
            in_session(setup, &kept, Content::Frame(frame))
        }
        Frame::Single(Message::Response(_)) | Frame::Batch(_) => {
            in_session(setup, &kept, Content::Frame(frame))
        }
    }
}

fn route_malformed(setup: &Setup, kept: &Kept, malformed: Malformed) -> Result<Routed, Answer> {
    if malformed.recovered.kind == Some(Kind::Response) && kept.session.is_some() {
        return in_session(setup, kept, Content::Malformed(Box::new(malformed)));
    }
    Err(Answer::malformed(&malformed, kept.version.version().error_id()))
}

/// Routes what a client of 2024-11-05 has posted.
pub(super) fn route_message(setup: &Setup, kept: Kept, id: SessionId, body: &Bytes) -> Routed {
    let content = match rpc::read(body, setup.config().limits().depth) {
        Ok(frame) => Content::Frame(frame),
        Err(malformed) if malformed.recovered.kind == Some(Kind::Response) => {
            Content::Malformed(Box::new(malformed))
        }
        Err(malformed) => return Routed::Answer(Answer::malformed(&malformed, ErrorId::Null)),
    };
    Routed::LegacyPost { id, post: Post { content, accepts: kept.accepts, permit: None } }
}

fn route_request(setup: &Setup, kept: Kept, frame: Frame) -> Result<Routed, Answer> {
    let Frame::Single(Message::Request(request)) = &frame else {
        return in_session(setup, &kept, Content::Frame(frame));
    };
    let id = ErrorId::Known(&request.id);
    let envelope = Envelope::read(request.params.as_ref()).map_err(|error| Answer::error(400, id, &error))?;
    let eras = setup.eras();
    if eras != Eras::LegacyOnly && envelope.version.is_some() {
        check(&kept, &request.method, &envelope).map_err(|what| mismatch(id, what))?;
        if &*request.method == SubscriptionsListen::NAME && kept.accepts == Accepts::Json {
            let what = "the answer is text/event-stream";
            return Err(Answer::refusal(406, id, code::INVALID_REQUEST, what));
        }
        return Ok(modern(kept, frame));
    }
    if eras != Eras::ModernOnly && &*request.method == Initialize::NAME {
        return Ok(Routed::Open(Post {
            content: Content::Frame(frame),
            accepts: kept.accepts,
            permit: None,
        }));
    }
    let says_so = eras == Eras::ModernOnly
        || &*request.method == Discover::NAME
        || kept.version.version().era() == Some(Era::Modern)
        || (envelope.capabilities.is_some() && kept.session.is_none());
    if eras != Eras::LegacyOnly && says_so {
        // The peer says what it lacks.
        return Ok(modern(kept, frame));
    }
    in_session(setup, &kept, Content::Frame(frame))
}

fn modern(kept: Kept, frame: Frame) -> Routed {
    match frame {
        Frame::Single(Message::Request(request)) => {
            let Kept { accepts, params: mirrored, .. } = kept;
            Routed::Modern(ModernRequest { request, accepts, mirrored, principal: None, permit: None })
        }
        Frame::Single(_) | Frame::Batch(_) => Routed::Answer(Answer::empty(202)),
    }
}

fn in_session(setup: &Setup, kept: &Kept, content: Content) -> Result<Routed, Answer> {
    let post = Post { content, accepts: kept.accepts, permit: None };
    let version = kept.version.version();
    let id = post.request_id().map_or(version.error_id(), ErrorId::Known);
    let refuse = |what: &str| Err(Answer::refusal(400, id, code::INVALID_REQUEST, what));
    match version {
        Version::Unknown => return refuse("mcp-protocol-version names no revision that is spoken here"),
        Version::Known(revision) if revision.era() == Era::Modern => {
            return refuse("one request or notification at a time can be posted at this revision");
        }
        Version::Known(_) | Version::Absent => {}
    }
    match kept.session {
        _ if setup.eras() == Eras::ModernOnly => refuse("there are no sessions here"),
        Some(Some(id)) => Ok(Routed::Session { id, post }),
        Some(None) => Err(Answer::session_unknown(Some(&post))),
        None => {
            let known = setup.eras() != Eras::LegacyOnly && post.request_id().is_some();
            let (code, instead) =
                if known { (code::INVALID_PARAMS, META) } else { (code::INVALID_REQUEST, "") };
            let what = format!("mcp-session-id is missing: a session begins with initialize{instead}");
            Err(Answer::refusal(400, id, code, what))
        }
    }
}

const META: &str = "; without one, missing in _meta: io.modelcontextprotocol/protocolVersion \
                    io.modelcontextprotocol/clientCapabilities";

// --- Headers and body ---

/// What of the parameters is mirrored in headers, and what tells the eras apart.
#[derive(Default)]
struct Envelope<'a> {
    version: Option<&'a RawValue>,
    capabilities: Option<&'a RawValue>,
    name: Option<&'a RawValue>,
    uri: Option<&'a RawValue>,
    task: Option<&'a RawValue>,
    arguments: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    fn read(params: Option<&'a Raw>) -> Result<Self, ErrorObject> {
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(borrow, rename = "_meta")]
            meta: Option<&'a RawValue>,
            #[serde(borrow)]
            name: Option<&'a RawValue>,
            #[serde(borrow)]
            uri: Option<&'a RawValue>,
            #[serde(borrow, rename = "taskId")]
            task: Option<&'a RawValue>,
            #[serde(borrow)]
            arguments: Option<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Keys<'a> {
            #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
            version: Option<&'a RawValue>,
            #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
            capabilities: Option<&'a RawValue>,
        }
        // Members by position would be taken for those of that name; the peer refuses them.
        let Some(params) = params.filter(|params| params.as_bytes().starts_with(b"{")) else {
            return Ok(Self::default());
        };
        let unreadable = |error: serde_json::Error| {
            let code = if error.is_data() { code::INVALID_PARAMS } else { code::PARSE_ERROR };
            ErrorObject::new(code, format!("the parameters can not be read: {error}"))
        };
        let Params { meta, name, uri, task, arguments } = params.decode().map_err(unreadable)?;
        let keys = meta.map(RawValue::get).filter(|meta| meta.starts_with('{'));
        let keys: Option<Keys<'_>> = keys.map(serde_json::from_str).transpose().map_err(unreadable)?;
        let (version, capabilities) = keys.map_or((None, None), |keys| (keys.version, keys.capabilities));
        Ok(Self { version, capabilities, name, uri, task, arguments })
    }

    /// What `Mcp-Name` mirrors of a request.
    fn mirrored(&self, method: &str) -> Option<Cow<'a, str>> {
        string(match method {
            CallTool::NAME | GetPrompt::NAME => self.name,
            ReadResource::NAME => self.uri,
            GetTask::NAME | UpdateTask::NAME | CancelTask::NAME => self.task,
            _ => None,
        })
    }
}

/// The string that a value is.
fn string(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str::<Text<'_>>(raw?.get()).ok().map(|Text(text)| text)
}

/// Whether the headers of a request say what its body says.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#server-validation>
fn check(kept: &Kept, method: &str, envelope: &Envelope<'_>) -> Result<(), String> {
    if let Some(version) = string(envelope.version) {
        equal(&kept.version, header::PROTOCOL_VERSION, &version, Encoding::Plain)?;
    }
    equal(&kept.method, header::METHOD, method, Encoding::Plain)?;
    match envelope.mirrored(method) {
        Some(name) => equal(&kept.name, header::NAME, &name, Encoding::Perhaps),
        // The body lacks what it must have: that is told of as such.
        None => Ok(()),
    }
}

/// The same of a notification, of which no header is required.
fn check_notification(kept: &Kept, method: &str, envelope: &Envelope<'_>) -> Result<(), String> {
    let of = |header: &Header, name, body: Option<&str>| match (header, body) {
        (Header::Absent, _) | (_, None) => Ok(()),
        (header, Some(body)) => equal(header, name, body, Encoding::Plain),
    };
    of(&kept.version, header::PROTOCOL_VERSION, string(envelope.version).as_deref())?;
    of(&kept.method, header::METHOD, Some(method))
}

/// Whether a notification that names a version names one that is spoken. (Of a request the peer says so.)
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#protocol-version-header>
fn check_spoken(setup: &Setup, envelope: &Envelope<'_>) -> Result<(), Answer> {
    let eras = setup.eras();
    match string(envelope.version) {
        Some(version) if !eras.modern().iter().any(|revision| revision.as_str() == version) => {
            let error = unsupported_version(eras, version.into_owned());
            Err(Answer::error(400, ErrorId::Null, &error))
        }
        _ => Ok(()),
    }
}

/// Whether a header may be in base64.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Plain,
    Perhaps,
}

fn equal(header: &Header, name: &str, body: &str, encoding: Encoding) -> Result<(), String> {
    let header = match header {
        Header::Value(header) => header,
        Header::Absent => return Err(format!("{name} header is missing, body value is {}", quoted(body))),
        Header::Several => return Err(format!("{name} header comes with several values")),
    };
    let text = match encoding {
        Encoding::Perhaps => value::decode(header),
        Encoding::Plain => Ok(String::from_utf8_lossy(header)),
    };
    let text = text.map_err(|error| format!("{name} header can not be read: {error}"))?;
    if text == body {
        return Ok(());
    }
    Err(format!("{name} header value {} does not match body value {}", quoted(&text), quoted(body)))
}

/// A value for people, cut short.
fn quoted(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST).and_then(|(end, _)| text.get(..end)) {
        Some(beginning) => format!("'{beginning}…'"),
        None => format!("'{text}'"),
    }
}

fn mismatch(id: ErrorId<'_>, what: String) -> Answer {
    let what = format!("Header mismatch: {what}");
    Answer::refusal(400, id, code::HEADER_MISMATCH, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::meta;

    #[test]
    fn the_keys_are_those_of_the_vocabulary() {
        let params =
            format!(r#"{{"_meta":{{"{}":1,"{}":2}}}}"#, meta::PROTOCOL_VERSION, meta::CLIENT_CAPABILITIES);
        let params = Raw::new(params).unwrap();
        let envelope = Envelope::read(Some(&params)).unwrap();
        assert_eq!(envelope.version.unwrap().get(), "1");
        assert_eq!(envelope.capabilities.unwrap().get(), "2");
    }
}
