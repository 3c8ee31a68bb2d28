//! A message as it passes between a machine and its transport, as layers see it.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use core::cell::OnceCell;
use core::fmt;

use serde::Serialize;
use serde_json::Error as JsonError;

use super::{LayerType, MessageDirection, Side};
use crate::Bytes;
use crate::meta_keys::PROGRESS_TOKEN;
use crate::peer::Principal;
use crate::prelude::*;
use crate::rpc::json_value::JsonValue;
use crate::rpc::{
    ErrorId, ErrorObject, Frame, Id, InvalidMessageKind, Malformed, MalformedKind, Message, Raw, Recovered,
    code, each_member, first_member, read, read_members, write,
};
use crate::schema::{
    CallTool, Cancelled, Initialized, Method as _, Notification as _, Revision, SubscriptionsAcknowledged,
};

/// The kind of a message that a layer sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LayerMessageKind {
    /// A request.
    Request,
    /// A notification.
    Notification,
    /// The result of a request.
    Result,
    /// The error of a request.
    Error,
    /// Text that is no message. It passes unchanged, and its receiver deals with it.
    Malformed,
}

/// A message that is about to leave this side, or has arrived, as a layer sees it: to read, to change, or to drop.
///
/// It is parsed when it is first looked at. A message that no layer changes passes byte by byte; one that is changed is
/// written anew, on one line, from the members that JSON-RPC defines.
///
/// # What cannot be changed
///
/// The two sides agree on a message by its envelope and by some members, so a layer cannot change the kind, the method and
/// the id, nor these members of parameters, of results and of `_meta`. A change of one is an error
/// ([`ReadOnly`](LayerMessageError::ReadOnly)), and the message stays as it is.
///
/// | Read-only | Why |
/// |---|---|
/// | `protocolVersion`, `supportedVersions`, `capabilities`, `clientInfo`, `serverInfo` | the handshake and discovery |
/// | `name`, `uri`, `taskId` | what a request is about: its scopes and rates were checked, and HTTP headers repeat it |
/// | `requestId`, `progressToken`, `resultType`, `requestState` | what belongs together; sealed states |
/// | keys of `_meta` that begin with `io.modelcontextprotocol/`, and `progressToken` | the facts of a request |
/// | `arguments` of a call of a tool that a host sends | its rules were checked, and its user was asked |
/// | `arguments`, over HTTP and where headers repeat some of them (`Mcp-Param-…`) | headers and body must agree |
/// | errors of the codes -32020 to -32022 | the choice of a revision and its retry |
///
/// To call another tool, or to answer in place of it, use the other half of a layer, around requests.
///
/// ```
/// use mcp_proto::front::layer::LayerMessage;
///
/// /// What a layer may log of a message: `Sent Request tools/call Some(7)`.
/// fn describe(message: &LayerMessage<'_>) -> String {
///     let method = message.method().unwrap_or_default();
///     format!("{:?} {:?} {method} {:?}", message.direction(), message.kind(), message.id())
/// }
/// # let _ = describe;
/// ```
pub struct LayerMessage<'a> {
    text: MessageText<'a>,
    side: Side,
    direction: MessageDirection,
    rules: MessageRules,
    /// In a host, the name of the server in its configuration.
    server_name: Option<Arc<str>>,
    principal: Option<Principal>,
    /// The type of the last layer that has seen it and leaves messages to the default.
    unread_by: Option<LayerType>,
    read: OnceCell<Result<Message, Malformed>>,
    is_changed: bool,
    /// Whether more than the `_meta` of a request is changed.
    is_altered: bool,
    /// The text of a message that is changed.
    written: OnceCell<Option<Vec<u8>>>,
}

/// The bytes of a message. Those that are borrowed are copied once a layer looks at them.
#[derive(Clone, Copy)]
pub(super) enum MessageText<'a> {
    Shared(&'a Bytes),
    Borrowed(&'a [u8]),
}

impl MessageText<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Shared(text) => text,
            Self::Borrowed(text) => text,
        }
    }

    pub(super) fn shared(&self) -> Cow<'_, Bytes> {
        match self {
            Self::Shared(text) => Cow::Borrowed(text),
            Self::Borrowed(text) => Cow::Owned(Bytes::copy_from_slice(text)),
        }
    }
}

/// How the messages of a connection are read, and what is read-only in them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageRules {
    /// The nesting depth up to which a message is read.
    pub(crate) depth: usize,
    /// The revision in use, once it is known.
    pub(crate) revision: Option<Revision>,
    /// Whether arguments are read-only: HTTP headers repeat some of them, or they are those of a host's call.
    pub(crate) has_fixed_arguments: bool,
}

/// Why a layer could not change a message, which stays as it was.
#[derive(Debug)]
#[non_exhaustive]
pub enum LayerMessageError {
    /// The member is read-only: its name, or that of a key of `_meta`.
    ReadOnly(String),
    /// The message has no such part: a notification has no result, and text that is no message has no parts at all.
    NoSuchPart,
    /// The new value is not valid JSON, or it repeats a member, or it is not of the kind that belongs there.
    Json(JsonError),
}

error_text! { LayerMessageError:
    ReadOnly(name) => "{name:?} is read-only in a message";
    NoSuchPart => "the message has no such part";
    Json(error) => "{error}";
}

impl From<JsonError> for LayerMessageError {
    fn from(error: JsonError) -> Self {
        Self::Json(error)
    }
}

impl<'a> LayerMessage<'a> {
    pub(super) fn new(
        text: MessageText<'a>,
        side: Side,
        direction: MessageDirection,
        rules: MessageRules,
    ) -> Self {
        Self {
            text,
            side,
            direction,
            rules,
            server_name: None,
            principal: None,
            unread_by: None,
            read: OnceCell::new(),
            is_changed: false,
            is_altered: false,
            written: OnceCell::new(),
        }
    }

    /// Sets the principal on whose behalf the other side acts.
    pub(super) fn on_behalf_of(mut self, principal: Option<Principal>) -> Self {
        self.principal = principal;
        self
    }

    /// A message that is known to be malformed; `text` may be a part of it.
    pub(super) fn of_malformed(mut self, malformed: Malformed) -> Self {
        self.read = OnceCell::from(Err(malformed));
        self
    }

    /// Returns the side that the layer stands in.
    #[must_use]
    pub fn side(&self) -> Side {
        self.side
    }

    /// Returns the protocol revision in use: in a client that of its server, once it is known; in a server that of the
    /// session, or of the HTTP request. A request of 2026-07-28 on a stream has its own, in its `_meta`.
    #[must_use]
    pub fn revision(&self) -> Option<Revision> {
        self.rules.revision
    }

    /// Returns the name of the server in the configuration of a host, for the messages of its connections.
    #[must_use]
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// Returns the principal of the client, in a server whose transport knew one when the connection or the HTTP exchange
    /// began.
    #[must_use]
    pub fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// Returns whether the message arrives or leaves.
    #[must_use]
    pub fn direction(&self) -> MessageDirection {
        self.direction
    }

    /// Returns the text, with the changes of this layer and those before it: for a message that is too long, its beginning.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        let written = match self.message() {
            Some(message) if self.is_changed => self.written.get_or_init(|| written(message)).as_deref(),
            _ => None,
        };
        written.unwrap_or(self.text.bytes())
    }

    fn read(&self) -> &Result<Message, Malformed> {
        self.read.get_or_init(|| read_one(&self.text.shared(), self.rules.depth))
    }

    fn message(&self) -> Option<&Message> {
        self.read().as_ref().ok()
    }

    fn message_mut(&mut self) -> Result<&mut Message, LayerMessageError> {
        self.read();
        self.written.take();
        match self.read.get_mut() {
            Some(Ok(message)) => Ok(message),
            _ => Err(LayerMessageError::NoSuchPart),
        }
    }

    /// Returns the kind of the message.
    #[must_use]
    pub fn kind(&self) -> LayerMessageKind {
        match self.read() {
            Ok(Message::Request(_)) => LayerMessageKind::Request,
            Ok(Message::Notification(_)) => LayerMessageKind::Notification,
            Ok(Message::Response(response)) if response.outcome.is_ok() => LayerMessageKind::Result,
            Ok(Message::Response(_)) => LayerMessageKind::Error,
            Err(_) => LayerMessageKind::Malformed,
        }
    }

    /// Returns why the text is no message.
    #[must_use]
    pub fn malformed(&self) -> Option<&Malformed> {
        self.read().as_ref().err()
    }

    /// Returns the id of a request, or that of the request that a response answers.
    #[must_use]
    pub fn id(&self) -> Option<&Id> {
        match self.message()? {
            Message::Request(request) => Some(&request.id),
            Message::Response(response) => response.id.as_ref(),
            Message::Notification(_) => None,
        }
    }

    /// Returns the method of a request or of a notification; `None` for an answer, whose request has the same id.
    #[must_use]
    pub fn method(&self) -> Option<&str> {
        match self.message()? {
            Message::Request(request) => Some(&request.method),
            Message::Notification(notification) => Some(&notification.method),
            Message::Response(_) => None,
        }
    }

    /// Returns the parameters of a request or of a notification, to [decode](Raw::decode) as the type of the method.
    ///
    /// They have the form of the connection's revision.
    #[must_use]
    pub fn params(&self) -> Option<&Raw> {
        match self.message()? {
            Message::Request(request) => request.params.as_ref(),
            Message::Notification(notification) => notification.params.as_ref(),
            Message::Response(_) => None,
        }
    }

    /// Returns the result of a response, to [decode](Raw::decode) as the type of the method that it answers.
    #[must_use]
    pub fn result(&self) -> Option<&Raw> {
        match self.message()? {
            Message::Response(response) => response.outcome.as_ref().ok(),
            _ => None,
        }
    }

    /// Returns the error of a response.
    #[must_use]
    pub fn error(&self) -> Option<&ErrorObject> {
        match self.message()? {
            Message::Response(response) => response.outcome.as_ref().err(),
            _ => None,
        }
    }

    /// Returns the value of a key of `_meta`, in the parameters or in the result.
    #[must_use]
    pub fn meta(&self, key: &str) -> Option<Raw> {
        let meta = self.params().or(self.result())?.meta()?;
        first_member(meta.as_str(), key).ok()?.map(|value| meta.part(value))
    }

    // --- Changes ---

    /// Replaces the parameters of a request or of a notification.
    ///
    /// # Errors
    /// If the message has no parameters by its kind, if a read-only member would change, or if `params` is neither an
    /// object nor an array of valid JSON.
    pub fn set_params(&mut self, params: Raw) -> Result<(), LayerMessageError> {
        let mut rules = self.rules;
        rules.has_fixed_arguments |= self.is_call_of_host();
        let slot = match self.message_mut()? {
            Message::Request(request) => &mut request.params,
            Message::Notification(notification) => &mut notification.params,
            Message::Response(_) => return Err(LayerMessageError::NoSuchPart),
        };
        rules.check_change(slot.as_ref(), &params)?;
        *slot = Some(params);
        (self.is_changed, self.is_altered) = (true, true);
        Ok(())
    }

    /// Whether a host calls a tool.
    fn is_call_of_host(&self) -> bool {
        let is_sent = self.server_name.is_some() && self.direction == MessageDirection::Sent;
        is_sent && self.method() == Some(CallTool::NAME)
    }

    /// Notes the type of the layer that sees the message, if it leaves messages to the default.
    pub(super) fn set_unread_by(&mut self, layer: Option<LayerType>) {
        self.unread_by = layer;
    }

    /// Whether a layer of this type, which has just seen the message, leaves messages to the default. If it passed the message
    /// to another layer, that may have done so instead, and is of another type.
    pub(super) fn is_unread_by(&self, layer: LayerType) -> bool {
        self.unread_by == Some(layer)
    }

    /// Says that a host has the connection to this server, whose user agrees to calls before they are messages.
    #[cfg(feature = "client")]
    pub(super) fn set_server_name(&mut self, name: &Arc<str>) {
        self.server_name.get_or_insert_with(|| name.clone());
    }

    /// Replaces the result of a response. An error does not become a result.
    ///
    /// # Errors
    /// If the message has no result, if a read-only member would change, or if `result` is no object of valid JSON.
    pub fn set_result(&mut self, result: Raw) -> Result<(), LayerMessageError> {
        let rules = self.rules;
        let Message::Response(response) = self.message_mut()? else {
            return Err(LayerMessageError::NoSuchPart);
        };
        let Ok(slot) = &mut response.outcome else { return Err(LayerMessageError::NoSuchPart) };
        rules.check_change(Some(slot), &result)?;
        *slot = result;
        (self.is_changed, self.is_altered) = (true, true);
        Ok(())
    }

    /// Replaces the error of a response. A result does not become an error.
    ///
    /// # Errors
    /// If the message has no error, if its data is not valid JSON, or if the old or the new code is one that chooses a
    /// revision: -32020 to -32022.
    pub fn set_error(&mut self, error: ErrorObject) -> Result<(), LayerMessageError> {
        let Message::Response(response) = self.message_mut()? else {
            return Err(LayerMessageError::NoSuchPart);
        };
        let Err(slot) = &mut response.outcome else { return Err(LayerMessageError::NoSuchPart) };
        for code in [slot.code, error.code] {
            if (code::UNSUPPORTED_PROTOCOL_VERSION..=code::HEADER_MISMATCH).contains(&code) {
                return Err(LayerMessageError::ReadOnly(format!("error {code}")));
            }
        }
        error.data.as_ref().map_or(Ok(()), Raw::validate)?;
        *slot = error;
        self.is_changed = true;
        Ok(())
    }

    /// Sets a key of `_meta`, in the parameters or in the result, in place of its old value.
    ///
    /// ```
    /// use mcp_proto::front::layer::{LayerMessage, LayerMessageError, MessageDirection};
    ///
    /// /// Marks what this side sends, where it can be marked.
    /// fn mark(message: &mut LayerMessage<'_>) -> Result<(), LayerMessageError> {
    ///     if message.direction() == MessageDirection::Sent && message.method() == Some("tools/call") {
    ///         message.insert_meta("com.example/tenant", &"blue")?;
    ///     }
    ///     Ok(())
    /// }
    /// # let _ = mark;
    /// ```
    ///
    /// # Errors
    /// If the message is an error or its parameters are an array, if the key is read-only, or if `value` cannot be
    /// serialized.
    pub fn insert_meta<T: Serialize + ?Sized>(
        &mut self,
        key: &str,
        value: &T,
    ) -> Result<(), LayerMessageError> {
        let value = Raw::encode(value)?;
        self.change_meta(key, Some(value.as_str()))
    }

    /// Removes a key of `_meta`, in the parameters or in the result.
    ///
    /// # Errors
    /// As [`insert_meta`](Self::insert_meta). A key that is missing is no error.
    pub fn remove_meta(&mut self, key: &str) -> Result<(), LayerMessageError> {
        match self.meta(key) {
            Some(_) => self.change_meta(key, None),
            None => Ok(()),
        }
    }

    fn change_meta(&mut self, key: &str, value: Option<&str>) -> Result<(), LayerMessageError> {
        if is_read_only_key(key) {
            return Err(LayerMessageError::ReadOnly(key.to_string()));
        }
        let holder = match self.message_mut()? {
            Message::Response(response) => {
                response.outcome.as_mut().map_err(|_| LayerMessageError::NoSuchPart)?
            }
            Message::Request(request) => params_or_empty(&mut request.params),
            Message::Notification(notification) => params_or_empty(&mut notification.params),
        };
        let [meta] = read_members(holder.as_str(), ["_meta"])?;
        let meta = with_member(meta.unwrap_or("{}"), key, value)?;
        *holder = Raw::from_scan(with_member(holder.as_str(), "_meta", Some(&meta))?.into());
        self.is_altered |= self.result().is_some();
        self.is_changed = true;
        Ok(())
    }

    // --- The end of its passage ---

    /// Returns whether a layer may drop the message: it is a notification on which no other message depends.
    #[must_use]
    pub fn is_droppable(&self) -> bool {
        let essential = [Cancelled::NAME, Initialized::NAME, SubscriptionsAcknowledged::NAME];
        matches!(self.message(), Some(Message::Notification(notification)) if !essential.contains(&&*notification.method))
    }

    /// The message for a report: its method, or the id that it answers.
    pub(super) fn describe(&self) -> String {
        match (self.method(), self.id()) {
            (Some(method), _) => method.to_string(),
            (None, Some(id)) => format!("the answer to {id}"),
            (None, None) => "an answer without an id".to_string(),
        }
    }

    /// The request of this client whose answer must not be cached: it or its result was altered.
    pub(super) fn altered_request(&self) -> Option<&Id> {
        if !self.is_altered || self.side == Side::Server {
            return None;
        }
        match (self.message()?, self.direction) {
            (Message::Request(request), MessageDirection::Sent) => Some(&request.id),
            (Message::Response(response), MessageDirection::Received) => response.id.as_ref(),
            _ => None,
        }
    }

    /// The changed message; `None` if it passes as it is.
    pub(super) fn into_changed(self) -> Option<Vec<u8>> {
        let Some(Ok(message)) = self.read.into_inner().filter(|_| self.is_changed) else { return None };
        self.written.into_inner().unwrap_or_else(|| written(&message))
    }
}

impl fmt::Debug for LayerMessage<'_> {
    /// Omits the content, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("LayerMessage");
        fields.field("direction", &self.direction).field("kind", &self.kind());
        fields.field("method", &self.method()).finish_non_exhaustive()
    }
}

/// Reads a text that is no batch, or an element of one.
fn read_one(text: &Bytes, depth: usize) -> Result<Message, Malformed> {
    match read(text, depth)? {
        Frame::Single(message) => Ok(message),
        // An array within a batch.
        Frame::Batch(_) => Err(Malformed {
            kind: MalformedKind::NotAMessage(InvalidMessageKind::NotAnObject),
            offset: 0,
            recovered: Recovered { id: None, kind: None, method: None },
        }),
    }
}

/// The text of a changed message. Each change was checked when it was made, so that it can be written.
fn written(message: &Message) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    write_message(&mut out, message).ok()?;
    Some(out)
}

fn write_message(out: &mut Vec<u8>, message: &Message) -> Result<(), JsonError> {
    let params = |params: &Option<Raw>, out: &mut Vec<u8>| match params {
        Some(params) => write::raw(out, params),
        None => Ok(()),
    };
    match message {
        Message::Request(request) => {
            write::request(out, &request.id, &request.method, |out| params(&request.params, out)).map(drop)
        }
        Message::Notification(told) => {
            write::notification(out, &told.method, |out| params(&told.params, out))
        }
        Message::Response(response) => match (&response.outcome, &response.id) {
            (Ok(result), Some(id)) => write::result(out, id, |out| write::raw(out, result)),
            (Err(error), Some(id)) => write::error(out, ErrorId::Known(id), error),
            (Err(error), None) => write::error(out, ErrorId::Null, error),
            // The reader refuses it.
            (Ok(_), None) => Err(serde::de::Error::custom("a result without an id")),
        },
    }
}

fn params_or_empty(params: &mut Option<Raw>) -> &mut Raw {
    params.get_or_insert_with(|| Raw::from_scan("{}".into()))
}

/// The members of parameters and results that a layer cannot change.
const READ_ONLY: [&str; 12] = [
    "protocolVersion",
    "supportedVersions",
    "capabilities",
    "clientInfo",
    "serverInfo",
    "name",
    "uri",
    "taskId",
    "requestId",
    PROGRESS_TOKEN,
    "resultType",
    "requestState",
];
/// The one that is read-only in calls that a host sends, and where HTTP headers repeat a part of it.
const ARGUMENTS: &str = "arguments";

/// Whether a key of `_meta` is one of the protocol.
fn is_read_only_key(key: &str) -> bool {
    key == PROGRESS_TOKEN || key.starts_with("io.modelcontextprotocol/")
}

/// The read-only members of an object, in the order of their names.
type FixedMembers<'t> = Vec<(Cow<'t, str>, &'t str)>;

impl MessageRules {
    /// Checks that a new value is valid and leaves what is read-only as it was.
    fn check_change(self, old: Option<&Raw>, new: &Raw) -> Result<(), LayerMessageError> {
        new.validate()?;
        let is_array = |value: &Raw| value.as_str().trim_start().starts_with('[');
        let (old, new) = match (old, is_array(new)) {
            (Some(old), true) if is_array(old) => return Ok(()),
            (Some(old), _) if !is_array(old) => {
                (self.fixed_members(old.as_str())?, self.fixed_members(new.as_str())?)
            }
            (None, true) => return Ok(()),
            (_, _) => (Vec::new(), self.fixed_members(new.as_str())?),
        };
        if let Some([(name, _), _]) = new.array_windows().find(|[(one, _), (other, _)]| one == other) {
            return Err(LayerMessageError::ReadOnly(name.to_string()));
        }
        let lacks = |members: &FixedMembers<'_>, (name, value): &(Cow<'_, str>, &str)| {
            !members.iter().any(|(other, present)| other == name && is_same_json(present, value))
        };
        let changed = old.iter().find(|member| lacks(&new, member));
        match changed.or_else(|| new.iter().find(|member| lacks(&old, member))) {
            Some((name, _)) => Err(LayerMessageError::ReadOnly(name.to_string())),
            None => Ok(()),
        }
    }

    fn fixed_members(self, object: &str) -> Result<FixedMembers<'_>, JsonError> {
        let mut fixed = Vec::new();
        let mut meta = None;
        each_member(object, |name, value| {
            if READ_ONLY.contains(&&*name) || (self.has_fixed_arguments && name == ARGUMENTS) {
                fixed.push((name, value));
            } else if name == "_meta" {
                meta = Some(value);
            }
            true
        })?;
        if let Some(meta) = meta.filter(|meta| *meta != "null") {
            each_member(meta, |key, value| {
                if is_read_only_key(&key) {
                    fixed.push((format!("_meta/{key}").into(), value));
                }
                true
            })?;
        }
        fixed.sort();
        Ok(fixed)
    }
}

/// Whether two texts are the same value, written in different ways.
fn is_same_json(one: &str, other: &str) -> bool {
    let value = |text| serde_json::from_str(text).ok().map(|JsonValue::<false>(value)| value);
    one == other || value(one).is_some_and(|value_of_one| value(other) == Some(value_of_one))
}

/// The object with a member replaced, appended or removed. All others stay as they are.
fn with_member(object: &str, name: &str, value: Option<&str>) -> Result<String, JsonError> {
    let mut members = Vec::new();
    let mut value = value;
    each_member(object, |member, old| {
        match member == name {
            true => members.extend(value.take().map(|new| (member, new))),
            false => members.push((member, old)),
        }
        true
    })?;
    members.extend(value.map(|new| (Cow::Borrowed(name), new)));
    let mut text = String::from("{");
    for (index, (member, value)) in members.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&serde_json::to_string(member)?);
        text.push(':');
        text.push_str(value);
    }
    text.push('}');
    Ok(text)
}
