//! W3C Trace Context and Baggage in `_meta`: they connect the spans of a request across programs.

use super::meta::{BAGGAGE, TRACEPARENT, TRACESTATE};
use super::{Json, Meta};
use crate::ordered_set::OrderedSet;
use crate::prelude::*;

/// Maximum number of members of a `tracestate`.
const STATE_MEMBERS: usize = 32;
/// Maximum length of a `tracestate` in bytes: what programs propagate at least, by W3C Trace Context.
const STATE_BYTES: usize = 512;
/// Maximum length of a `traceparent` in bytes. That of version `00` has 55.
const PARENT_BYTES: usize = 256;
/// Maximum number of members of a `baggage`.
const BAGGAGE_MEMBERS: usize = 180;
/// Maximum length of a `baggage` in bytes.
const BAGGAGE_BYTES: usize = 8192;

/// Position of a request in a distributed trace, as in W3C Trace Context: at most 768 bytes.
///
/// A received context is a claim of the peer. Its [`is_sampled`](Self::is_sampled) in particular must not decide what is
/// recorded: a peer could switch recording on for all of its requests, or off.
///
/// ```
/// use mcp_proto::schema::{Meta, TraceContext};
///
/// let context = TraceContext::new("00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01")?;
/// assert_eq!(context.trace_id(), "0af7651916cd43dd8448eb211c80319c");
/// let mut meta = Meta::new();
/// meta.set_trace_context(&context);
/// assert_eq!(meta.trace_context(), Some(context));
/// # Ok::<(), mcp_proto::schema::TraceError>(())
/// ```
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic#meta>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    parent: String,
    state: Option<String>,
}

impl TraceContext {
    /// Creates the context from the value of a `traceparent`.
    ///
    /// # Errors
    /// If the value breaks the rules of W3C Trace Context, or has more than 256 bytes.
    pub fn new(traceparent: impl Into<String>) -> Result<Self, TraceError> {
        let parent = traceparent.into();
        if parent.len() <= PARENT_BYTES && is_traceparent(&parent) {
            Ok(Self { parent, state: None })
        } else {
            Err(TraceError::Parent)
        }
    }

    /// Adds the value of a `tracestate`: data of the tracing systems involved.
    ///
    /// # Errors
    /// If the value breaks the rules of W3C Trace Context, or has more than 512 bytes.
    pub fn with_state(self, tracestate: impl Into<String>) -> Result<Self, TraceError> {
        let state = tracestate.into();
        if state.len() <= STATE_BYTES && is_tracestate(&state) {
            Ok(Self { state: Some(state), ..self })
        } else {
            Err(TraceError::State)
        }
    }

    /// The value of `traceparent`.
    pub fn traceparent(&self) -> &str {
        &self.parent
    }

    /// The value of `tracestate`.
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Id of the trace: 32 hexadecimal digits.
    pub fn trace_id(&self) -> &str {
        self.part(1)
    }

    /// Id of the span that makes the request: 16 hexadecimal digits.
    pub fn parent_id(&self) -> &str {
        self.part(2)
    }

    /// Whether the sender of the request says that it records the trace.
    pub fn is_sampled(&self) -> bool {
        u8::from_str_radix(self.part(3), 16).is_ok_and(|flags| flags & 1 == 1)
    }

    fn part(&self, index: usize) -> &str {
        self.parent.split('-').nth(index).unwrap_or_default()
    }
}

impl Meta {
    /// Trace context of the request. A value that breaks the rules of W3C Trace Context, or that is too long, counts as
    /// absent.
    pub fn trace_context(&self) -> Option<TraceContext> {
        let context = TraceContext::new(self.text(TRACEPARENT)?).ok()?;
        match self.text(TRACESTATE).map(|state| context.clone().with_state(state)) {
            Some(Ok(context)) => Some(context),
            _ => Some(context),
        }
    }

    /// Sets the trace context of the request.
    pub fn set_trace_context(&mut self, context: &TraceContext) {
        self.insert(TRACEPARENT, context.traceparent());
        match context.tracestate() {
            Some(state) => _ = self.insert(TRACESTATE, state),
            None => _ = self.remove(TRACESTATE),
        }
    }

    /// W3C Baggage: values that applications propagate along a trace, as `name=value,name=value`.
    pub fn baggage(&self) -> Option<String> {
        self.text(BAGGAGE).filter(|baggage| is_baggage(baggage))
    }

    /// Sets the baggage. Every program in the trace can read it: put no secrets in it.
    ///
    /// # Errors
    /// If it breaks the rules of W3C Baggage.
    pub fn set_baggage(&mut self, baggage: &str) -> Result<(), TraceError> {
        if !is_baggage(baggage) {
            return Err(TraceError::Baggage);
        }
        self.insert(BAGGAGE, baggage);
        Ok(())
    }

    fn text(&self, key: &str) -> Option<String> {
        self.get(key)?.decode().ok()
    }
}

/// The value of trace context in `_meta` that is invalid. A request with an invalid value fails before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TraceError {
    /// `traceparent` is invalid.
    Parent,
    /// `tracestate` is invalid.
    State,
    /// `baggage` is invalid.
    Baggage,
}

error_text! { TraceError:
    Parent => "the `traceparent` does not follow W3C Trace Context";
    State => "the `tracestate` does not follow W3C Trace Context";
    Baggage => "the `baggage` does not follow W3C Baggage";
}

/// Checks the value of a trace context key; values of other keys always pass.
pub(crate) fn check(key: &str, value: &Json) -> Result<(), TraceError> {
    let (rule, fault): (fn(&str) -> bool, _) = match key {
        TRACEPARENT => (is_traceparent, TraceError::Parent),
        TRACESTATE => (is_tracestate, TraceError::State),
        BAGGAGE => (is_baggage, TraceError::Baggage),
        _ => return Ok(()),
    };
    let text: Result<String, _> = value.decode();
    if text.is_ok_and(|text| rule(&text)) { Ok(()) } else { Err(fault) }
}

/// `version-trace-parent-flags`; only versions after `00` may have more parts.
fn is_traceparent(text: &str) -> bool {
    let mut parts = text.split('-');
    let [version, trace, parent, flags] = [2, 32, 16, 2].map(|length| {
        parts.next().filter(|part| {
            part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
    });
    let is_id = |id: Option<&str>| id.is_some_and(|id| id.bytes().any(|byte| byte != b'0'));
    let known = match version {
        Some("ff") | None => false,
        Some("00") => parts.next().is_none(),
        Some(_) => true,
    };
    known && is_id(trace) && is_id(parent) && flags.is_some()
}

fn is_tracestate(text: &str) -> bool {
    let members = || text.split(',').map(trimmed);
    let is_key = |key: &str| {
        let mut bytes = key.bytes();
        key.len() <= 256
            && bytes.next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            && bytes
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/@".contains(&byte))
    };
    let is_value = |value: &str| {
        (1..=256).contains(&value.len())
            && !value.ends_with(' ')
            && value.bytes().all(|byte| matches!(byte, b' '..=b'~') && !b",=".contains(&byte))
    };
    let is_member = |member: &str| match member.split_once('=') {
        Some((key, value)) => is_key(key) && is_value(value),
        None => member.is_empty(),
    };
    let is_repeated = || {
        let mut keys = OrderedSet::new();
        members().filter_map(|member| member.split_once('=')).any(|(key, _)| !keys.insert(key))
    };
    members().take(STATE_MEMBERS.saturating_add(1)).count() <= STATE_MEMBERS
        && members().all(is_member)
        && !is_repeated()
}

fn is_baggage(text: &str) -> bool {
    let is_key = |key: &str| {
        !key.is_empty()
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    let is_value =
        |value: &str| value.bytes().all(|byte| matches!(byte, b'!'..=b'~') && !b"\",;\\".contains(&byte));
    let is_pair = |pair: &str, alone: bool| match pair.split_once('=') {
        Some((key, value)) => is_key(trimmed(key)) && is_value(trimmed(value)),
        None => alone && is_key(trimmed(pair)),
    };
    let is_member = |member: &str| {
        let mut parts = member.split(';');
        parts.next().is_some_and(|pair| is_pair(pair, false)) && parts.all(|property| is_pair(property, true))
    };
    text.len() <= BAGGAGE_BYTES
        && text.split(',').take(BAGGAGE_MEMBERS.saturating_add(1)).count() <= BAGGAGE_MEMBERS
        && text.split(',').all(is_member)
}

fn trimmed(part: &str) -> &str {
    part.trim_matches([' ', '\t'])
}
