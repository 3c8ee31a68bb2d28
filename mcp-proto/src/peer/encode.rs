//! Encoding of parameters and results: projected to the revision in use, with the protocol's `_meta` merged in.

use crate::ordered_set::OrderedSet;
use crate::peer::{MessageKind, Outbox, RequestOptions};
use crate::prelude::*;
use crate::rpc::{Id, Raw, Text, write};
use crate::schema::write::{entry, known_name, member};
use crate::schema::{
    At, CacheHint, ClientCapabilities, CustomMethod, CustomParams, Implementation, Json, LoggingLevel, Meta,
    Method, MethodInfo, Params, Projection, ResultFields, ResultType, Revision, meta, trace,
};

/// The protocol's own `_meta` entries of modern requests, encoded once per connection.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic#meta>
#[derive(Clone, Debug)]
pub(crate) struct ProtocolMeta {
    /// A JSON object without its closing brace.
    open: Vec<u8>,
}

impl ProtocolMeta {
    /// Encodes the entries of a client that uses `revision`. A value that fails to encode becomes an empty object.
    pub(crate) fn new(
        revision: Revision,
        info: Option<&Implementation>,
        capabilities: &ClientCapabilities,
    ) -> Self {
        let mut open = b"{\"".to_vec();
        let mut member = |name: &str, value: Result<Json, serde_json::Error>| {
            let value = value.unwrap_or_else(|_| Json::empty_object());
            for part in [name, "\":", value.as_str(), ",\""] {
                open.extend_from_slice(part.as_bytes());
            }
        };
        //= C1.14 "Every request has `_meta["io.modelcontextprotocol/protocolVersion"]`"
        member(meta::PROTOCOL_VERSION, Ok(revision.as_str().into()));
        if let Some(info) = info {
            member(meta::CLIENT_INFO, Json::encode(&At(info, revision)));
        }
        //= C1.14 "and `…/clientCapabilities`"
        member(meta::CLIENT_CAPABILITIES, Json::encode(&At(capabilities, revision)));
        open.truncate(open.len().saturating_sub(",\"".len()));
        Self { open }
    }
}

/// Appends an entry of `_meta` that the application has set.
fn chosen_entry(out: &mut Vec<u8>, key: &str, value: &Json) -> Result<(), serde_json::Error> {
    //= C1.19 "`_meta` key grammar: optional dotted prefix + `/` + name that starts and ends alphanumeric"
    if !Meta::is_valid_key(key) {
        let message = alloc::format!("{key:?} is not a valid key of `_meta`: see `Meta::is_valid_key`");
        return Err(serde::ser::Error::custom(message));
    }
    //= C1.21 "`traceparent`/`tracestate`/`baggage`, when set in `_meta`, follow W3C Trace Context / Baggage"
    trace::check(key, value).map_err(serde::ser::Error::custom)?;
    entry(out, key, value);
    Ok(())
}

/// The `_meta` of one message.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetaEntries<'a> {
    pub(crate) protocol: Option<&'a ProtocolMeta>,
    pub(crate) progress: Option<i64>,
    pub(crate) log_level: Option<LoggingLevel>,
    pub(crate) options: Option<&'a Meta>,
    /// The listen request that a notification belongs to.
    pub(crate) subscription: Option<&'a Id>,
}

/// Whether the protocol, rather than the caller, sets the value of `key`.
fn is_reserved(key: &str) -> bool {
    // A progress token of the caller's could equal that of another request.
    //= C7.8 "unique over active requests"
    matches!(
        key,
        meta::PROTOCOL_VERSION
            | meta::CLIENT_CAPABILITIES
            | meta::CLIENT_INFO
            | meta::LOG_LEVEL
            | meta::PROGRESS_TOKEN
    )
}

struct MergedMeta<'a> {
    entries: MetaEntries<'a>,
    own: &'a Meta,
}

impl MergedMeta<'_> {
    fn is_empty(&self) -> bool {
        // Without the protocol's own entries there is no place for a log level.
        let MetaEntries { protocol, progress, log_level: _, options, subscription } = self.entries;
        let has_protocol_entries = protocol.is_some() || progress.is_some() || subscription.is_some();
        let mut others = options.into_iter().chain([self.own]).flat_map(Meta::iter);
        !has_protocol_entries && others.all(|(key, _)| is_reserved(key))
    }

    /// Appends the entries as one JSON object.
    fn write(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        let entries = self.entries;
        match entries.protocol {
            None => out.push(b'{'),
            Some(protocol) => {
                out.extend_from_slice(&protocol.open);
                if let Some(level) = entries.log_level {
                    entry(out, meta::LOG_LEVEL, level.as_str());
                }
            }
        }
        if let Some(token) = entries.progress {
            entry(out, meta::PROGRESS_TOKEN, &token);
        }
        if let Some(id) = entries.subscription {
            entry(out, meta::SUBSCRIPTION_ID, id);
        }
        let chosen = entries.options.into_iter().flat_map(Meta::iter);
        for (key, value) in chosen.clone().filter(|(key, _)| !is_reserved(key)) {
            chosen_entry(out, key, value)?;
        }
        let overridden: OrderedSet<&str> = if self.own.is_empty() {
            OrderedSet::new()
        } else {
            let subscription = entries.subscription.map(|_| meta::SUBSCRIPTION_ID);
            chosen.map(|(key, _)| key).chain(subscription).collect()
        };
        let own = self.own.iter().filter(|(key, _)| !is_reserved(key) && !overridden.contains(key));
        for (key, value) in own {
            chosen_entry(out, key, value)?;
        }
        out.push(b'}');
        Ok(())
    }
}

/// Parameters of any method, as a trait object.
pub trait AnyParams {
    /// The parameters unchanged, with the fields of every revision.
    ///
    /// # Errors
    /// If one of the application's values does not serialize.
    fn to_raw(&self) -> Result<Raw, serde_json::Error>;

    /// A copy of the parameters.
    fn to_boxed(&self) -> Box<dyn AnyParams + Send + Sync>;

    /// Appends the parameters as one JSON object for `revision`, with `entries` merged into `_meta`.
    ///
    /// # Errors
    /// If one of the application's values does not serialize.
    fn write_params(
        &self,
        out: &mut Vec<u8>,
        revision: Revision,
        entries: MetaEntries<'_>,
    ) -> Result<(), serde_json::Error>;

    /// Appends the parameters as one JSON object, as the newest revision defines them, without `_meta`: the part that
    /// distinguishes requests, for cache keys.
    ///
    /// # Errors
    /// If one of the application's values does not serialize.
    fn write_key(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error>;

    /// Whether the parameters may have a field of this name, besides `_meta`.
    fn may_have_field(&self, name: &str) -> bool;
}

impl<P: Params> AnyParams for P {
    fn to_raw(&self) -> Result<Raw, serde_json::Error> {
        let mut out = Vec::new();
        self.write(Projection::Full, &mut out);
        Text::try_from(out).map(Raw::from_scan).map_err(serde::ser::Error::custom)
    }

    fn to_boxed(&self) -> Box<dyn AnyParams + Send + Sync> {
        Box::new(self.clone())
    }

    fn write_params(
        &self,
        out: &mut Vec<u8>,
        revision: Revision,
        entries: MetaEntries<'_>,
    ) -> Result<(), serde_json::Error> {
        out.push(b'{');
        self.write_fields(revision.into(), out);
        let merged = MergedMeta { entries, own: self.meta() };
        if !merged.is_empty() {
            known_name(out, "\"_meta\":");
            merged.write(out)?;
        }
        out.push(b'}');
        Ok(())
    }

    fn write_key(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        out.push(b'{');
        self.write_fields(Revision::LATEST.into(), out);
        out.push(b'}');
        Ok(())
    }

    fn may_have_field(&self, name: &str) -> bool {
        Params::may_have_field(self, name)
    }
}

/// Fields that the protocol adds to a modern result.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic#resulttype>
#[derive(Clone, Copy, Debug)]
pub struct ResultDefaults<'a> {
    /// Its `resultType`, which overrides the one in the result.
    pub(crate) kind: Option<&'a ResultType>,
    pub(crate) server_info: Option<&'a Json>,
    /// Its cache lifetime and scope, if the result sets none; only for methods that have them.
    pub(crate) hint: Option<CacheHint>,
    /// The subscription that the result ends.
    pub(crate) subscription: Option<&'a Id>,
}

/// A result of any method, as a trait object.
pub trait AnyResult {
    /// Appends the result as one JSON object for `revision`; `stamp` holds the additional fields of a modern result.
    ///
    /// # Errors
    /// If a value of the application does not serialize.
    fn write_result(
        &self,
        out: &mut Vec<u8>,
        revision: Revision,
        stamp: Option<ResultDefaults<'_>>,
    ) -> Result<(), serde_json::Error>;

    /// The result's own `resultType`, if it sets one.
    fn result_type(&self) -> Option<&ResultType>;

    /// Whether its content may embed a resource.
    fn may_embed_resource(&self) -> bool;

    /// The result as its own type.
    #[doc(hidden)]
    fn as_any(&self) -> &dyn core::any::Any;

    /// The result as its own type.
    #[doc(hidden)]
    fn into_any(self: Box<Self>) -> Box<dyn core::any::Any>;

    /// The result as its own type, to change it.
    #[doc(hidden)]
    fn as_any_mut(&mut self) -> &mut dyn core::any::Any;
}

impl<R: ResultFields> AnyResult for R {
    fn write_result(
        &self,
        out: &mut Vec<u8>,
        revision: Revision,
        stamp: Option<ResultDefaults<'_>>,
    ) -> Result<(), serde_json::Error> {
        match stamp {
            None => self.write(revision.into(), out),
            Some(stamp) => {
                out.push(b'{');
                write_stamped(self, out, revision, stamp);
                write_result_meta(self.meta(), out, stamp);
                out.push(b'}');
            }
        }
        Ok(())
    }

    fn result_type(&self) -> Option<&ResultType> {
        ResultFields::result_type(self)
    }

    fn may_embed_resource(&self) -> bool {
        ResultFields::may_embed_resource(self)
    }

    fn as_any(&self) -> &dyn core::any::Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn core::any::Any> {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn core::any::Any {
        self
    }
}

/// Appends a modern result without its `_meta` to an open object.
fn write_stamped<R: ResultFields>(
    result: &R,
    out: &mut Vec<u8>,
    revision: Revision,
    stamp: ResultDefaults<'_>,
) {
    let kind = stamp.kind.or(result.result_type()).unwrap_or(&ResultType::Complete);
    //= S1.2 "Every result has `resultType`"
    //= R8 "on results of get, update and cancel"
    entry(out, "resultType", kind);
    result.write_fields(revision.into(), out);
    //= S4.10 "`input_required` results have no cache hints"
    // A result that is passed on undecoded may contain its author's cache hints among its own fields.
    let hint = stamp.hint.filter(|_| *kind == ResultType::Complete);
    //= S7.1 "carry ttlMs ≥ 0 and cacheScope"
    let (ttl_ms, scope) = result.cache_hint();
    let ttl_ms = ttl_ms.or(hint.map(|hint| hint.ttl_ms)).filter(|_| !result.has_field("ttlMs"));
    let scope = scope.or(hint.map(|hint| hint.scope)).filter(|_| !result.has_field("cacheScope"));
    if let Some(ttl_ms) = ttl_ms {
        entry(out, "ttlMs", &ttl_ms);
    }
    if let Some(scope) = scope {
        entry(out, "cacheScope", &scope);
    }
}

/// Appends the `_meta` of a modern result, if it has entries, to an open object.
fn write_result_meta(own: &Meta, out: &mut Vec<u8>, stamp: ResultDefaults<'_>) {
    if own.is_empty() && stamp.server_info.is_none() && stamp.subscription.is_none() {
        return;
    }
    known_name(out, "\"_meta\":{");
    if let Some(info) = stamp.server_info {
        entry(out, meta::SERVER_INFO, info);
    }
    if let Some(subscription) = stamp.subscription {
        entry(out, meta::SUBSCRIPTION_ID, subscription);
    }
    let stamped = |key: &str| {
        (key == meta::SERVER_INFO && stamp.server_info.is_some())
            || (key == meta::SUBSCRIPTION_ID && stamp.subscription.is_some())
    };
    for (key, value) in own.iter().filter(|(key, _)| !stamped(key)) {
        member(out, key, value, Projection::Full);
    }
    out.push(b'}');
}

/// A request that waits until the revision is known, to be encoded for it then.
pub(crate) struct Template {
    pub(crate) method: Box<str>,
    /// The method; `None` if it is given by its name alone.
    pub(crate) info: Option<&'static MethodInfo>,
    pub(crate) options: RequestOptions,
    pub(crate) params: Box<dyn AnyParams + Send + Sync>,
    /// The size of the parameters in bytes, as JSON.
    params_bytes: usize,
}

debug_fields! { Template { method } }

impl Template {
    /// The size of its content in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.params_bytes.saturating_add(self.method.len())
    }
}

/// Writes a notification. One of a server belongs to a `request` of its client, or to a listen request, which is then its
/// `subscription` too.
///
/// # Errors
/// If one of the application's values does not serialize.
pub(crate) fn write_notification(
    method: &str,
    request: Option<&Id>,
    params: &dyn AnyParams,
    revision: Revision,
    subscription: Option<&Id>,
    out: &mut dyn Outbox,
) -> Result<(), serde_json::Error> {
    let entries = MetaEntries { subscription, ..MetaEntries::default() };
    write::notification(out.buffer(), method, |buffer| params.write_params(buffer, revision, entries))?;
    out.commit(MessageKind::Notification { method, request, revision });
    Ok(())
}

/// A request for the command `send` of a client or server. Its method need not be known at compile time.
pub struct OutgoingRequest<'a> {
    pub(crate) method: &'a str,
    pub(crate) info: Option<&'static MethodInfo>,
    pub(crate) params: &'a dyn AnyParams,
    pub(crate) options: RequestOptions,
}

impl<'a> OutgoingRequest<'a> {
    /// Creates a request of the method `M`.
    pub fn new<M: Method>(params: &'a M::Params, options: RequestOptions) -> Self {
        Self { method: M::NAME, info: Some(M::INFO), params, options }
    }

    /// Creates a request of a method that is known by its name alone. The parameters are sent unchanged, except for
    /// `_meta`.
    ///
    /// If the revision in use defines a method of this name, its rules apply: the capability that it needs, its cache,
    /// its input rounds.
    pub fn custom(method: &'a str, params: &'a CustomParams, options: RequestOptions) -> Self {
        Self::by_name::<CustomMethod>(method, params, options)
    }

    /// Creates a request of the method `method` with the parameters of `M`.
    pub(crate) fn by_name<M: Method>(
        method: &'a str,
        params: &'a M::Params,
        options: RequestOptions,
    ) -> Self {
        Self { method, info: None, params, options }
    }

    pub(crate) fn template(&self) -> Result<Template, serde_json::Error> {
        Ok(Template {
            method: self.method.into(),
            info: self.info,
            options: self.options.clone(),
            params_bytes: self.params.to_raw()?.as_bytes().len(),
            params: self.params.to_boxed(),
        })
    }
}
