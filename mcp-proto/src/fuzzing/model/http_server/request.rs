//! HTTP requests as the reference model of an HTTP server reads them: which are refused, and where the others go.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::{LEGACY, MODERN, Message, VERSION};

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The methods that the fuzzed server serves at 2026-07-28, with the parameter that `Mcp-Name` repeats.
const MODERN_METHODS: [(&str, &str); 7] = [
    ("server/discover", ""),
    ("tools/list", ""),
    ("tools/call", "name"),
    ("subscriptions/listen", ""),
    ("tasks/get", "taskId"),
    ("tasks/update", "taskId"),
    ("tasks/cancel", "taskId"),
];

/// The configuration of the server.
#[derive(Clone, Copy, Debug)]
pub(in crate::fuzzing) struct HttpServerKind {
    pub(in crate::fuzzing) speaks_legacy: bool,
    pub(in crate::fuzzing) speaks_modern: bool,
    /// Whether it serves clients of 2024-11-05.
    pub(in crate::fuzzing) has_first_transport: bool,
    /// Whether its limits are so low that a request may be refused for them.
    pub(in crate::fuzzing) is_tight: bool,
}

/// The refusals that a request may get: each a status, and the code of the error if the specification names one. A request may
/// have several faults, and the specification does not say which one counts.
pub(super) type Refusals = Vec<(u16, Option<i64>)>;

/// Where the message of a request to the endpoint goes.
#[derive(Debug, PartialEq)]
pub(super) enum Destination {
    /// It is served by itself, at 2026-07-28.
    Modern,
    /// It opens a session.
    NewSession,
    /// The session that its header names.
    Session,
    /// It is accepted, without effect.
    Nowhere,
}

#[derive(Debug)]
pub(super) struct HttpRequest {
    pub(super) method: String,
    pub(super) path: String,
    headers: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
}

impl HttpRequest {
    pub(super) fn new(method: &str, path: &str, fields: &[(&str, &str)]) -> Self {
        let headers = fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Self { method: method.into(), path: path.into(), headers, body: Vec::new() }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Returns the session that the request names, in the place where its endpoint expects it.
    pub(super) fn session(&self) -> Option<&str> {
        match self.path.split_once("?session=") {
            Some((_, session)) => Some(session),
            None => self.header("mcp-session-id"),
        }
    }

    pub(super) fn accepts(&self, media_type: &str) -> bool {
        let fits = |range: &str| range == media_type || range == "*/*";
        self.is_for_messages() || self.header("accept").is_none_or(|accept| accept.split(", ").any(fits))
    }

    /// Returns whether the request is for the endpoint of 2024-11-05 that takes messages.
    pub(super) fn is_for_messages(&self) -> bool {
        self.path.starts_with("/messages")
    }

    /// Returns the refusals of the request that its head alone explains.
    pub(super) fn check_head(&self, server: HttpServerKind) -> Refusals {
        let mut statuses = Vec::new();
        let has_first = server.has_first_transport && server.speaks_legacy;
        let version = self.header("mcp-protocol-version");
        let methods: &[&str] = match self.path.as_str() {
            "/mcp" if server.speaks_legacy && version != Some(MODERN) => &["POST", "GET", "DELETE"],
            "/mcp" => &["POST"],
            "/sse" if has_first => &["GET"],
            _ if has_first && self.is_for_messages() => &["POST"],
            _ => return self.add_host(Vec::from([404])),
        };
        if !methods.contains(&&*self.method) {
            return self.add_host(Vec::from([405]));
        }
        let is_post = self.method == "POST";
        let content = self.header("content-type").unwrap_or_default();
        if is_post && !content.starts_with("application/json") {
            statuses.push(415);
        }
        let is_acceptable = match self.method.as_str() {
            "DELETE" => true,
            "POST" => self.accepts("application/json") || self.accepts("text/event-stream"),
            _ => self.accepts("text/event-stream"),
        };
        if !is_acceptable {
            statuses.push(406);
        }
        let is_unknown = version.is_some_and(|version| !LEGACY.contains(&version));
        if !is_post && self.path == "/mcp" && (is_unknown || self.session().is_none()) {
            statuses.push(400);
        }
        if !statuses.is_empty() && !is_post {
            // Its session may be unknown as well.
            statuses.push(404);
        }
        self.add_host(statuses)
    }

    /// Adds the refusals for the `Host` header: a server on this machine is reached by a name of this machine.
    fn add_host(&self, mut statuses: Vec<u16>) -> Refusals {
        if self.header("host").is_none_or(|host| host.starts_with("elsewhere")) {
            statuses.push(403);
        }
        statuses.into_iter().map(|status| (status, None)).collect()
    }

    /// Finds the destination of the message in the body, or of a batch.
    pub(super) fn route(
        &self,
        server: HttpServerKind,
        message: Option<&Message>,
    ) -> Result<Destination, Refusals> {
        let version = self.header("mcp-protocol-version");
        match message {
            Some(Message::Request { method, params, .. }) => {
                if server.speaks_modern && params["_meta"].get(VERSION).is_some() {
                    let refusals = self.check_modern(method, params);
                    return if refusals.is_empty() { Ok(Destination::Modern) } else { Err(refusals) };
                }
                if server.speaks_legacy && method == "initialize" {
                    return Ok(Destination::NewSession);
                }
                let is_modern =
                    !server.speaks_legacy || method == "server/discover" || version == Some(MODERN);
                if server.speaks_modern && is_modern {
                    // Its `_meta` lacks members; and its version differs from the header, or is not served.
                    return Err([-32602, -32020, -32022].map(|code| (400, Some(code))).into());
                }
            }
            Some(Message::Notification { method, .. }) if server.speaks_modern && version == Some(MODERN) => {
                let is_other = self.header("mcp-method").is_some_and(|named| named != method);
                return if is_other {
                    Err(Vec::from([(400, Some(-32020))]))
                } else {
                    Ok(Destination::Nowhere)
                };
            }
            _ => {}
        }
        if version.is_some_and(|version| !LEGACY.contains(&version))
            || self.session().is_none()
            || !server.speaks_legacy
        {
            return Err(Vec::from([(400, None)]));
        }
        Ok(Destination::Session)
    }

    /// Returns the refusals of a request that names its revision.
    fn check_modern(&self, method: &str, params: &serde_json::Value) -> Refusals {
        let mut refusals = Vec::new();
        let found = MODERN_METHODS.iter().find(|(name, _)| *name == method);
        let name = found.and_then(|(_, param)| params[*param].as_str());
        let meta = &params["_meta"];
        if self.header("mcp-protocol-version") != meta[VERSION].as_str()
            || self.header("mcp-method") != Some(method)
            || name.is_some_and(|name| self.header("mcp-name") != Some(name))
        {
            refusals.push((400, Some(-32020)));
        }
        if meta[VERSION] != MODERN {
            refusals.push((400, Some(-32022)));
        }
        if !meta[CAPABILITIES].is_object() {
            refusals.push((400, Some(-32602)));
        }
        if method == "subscriptions/listen" && !self.accepts("text/event-stream") {
            refusals.push((406, None));
        }
        if found.is_none() {
            refusals.push((404, Some(-32601)));
        }
        refusals
    }
}
