//! Lenient readers for answers to the probe and to `initialize`, for which a malformed field is ignored and the others
//! count; and handshakes that the transport runs.

use serde_json::value::RawValue;

use crate::Instant;
use crate::ordered_map::OrderedMap;
use crate::peer::Outbox;
use crate::prelude::*;
use crate::rpc::{Raw, decode_member, read_members};
use crate::schema::{
    ClientCapabilities, Era, Implementation, Json, Revision, ServerCapabilities, ServerCapability, meta,
};

use super::{Client, CloseReason, ConnectError, ConnectProgress, KnownEra, Phase, State};

/// A server's self-description.
#[derive(Debug, Default)]
pub(crate) struct ServerDescription {
    pub(crate) implementation: Option<Implementation>,
    pub(crate) capabilities: Option<ServerCapabilities>,
    pub(crate) instructions: Option<String>,
    /// The capabilities that are empty arrays instead of objects, or `capabilities` for all of them.
    empty_arrays: Vec<&'static str>,
}

impl ServerDescription {
    fn read(result: &Raw) -> Option<Box<Self>> {
        let names = ["_meta", "serverInfo", "capabilities", "instructions"];
        let [meta, info, capabilities, instructions] = read_members(result.as_str(), names).ok()?;
        let nested = meta.and_then(|meta| read_members(meta, [meta::SERVER_INFO]).ok());
        let mut declared: Option<ServerCapabilities> = decode_member(capabilities);
        let mut empty_arrays =
            declared.as_mut().map(ServerCapabilities::take_empty_arrays).unwrap_or_default();
        if capabilities == Some("[]") {
            empty_arrays.push("capabilities");
        }
        Some(Box::new(Self {
            implementation: nested.and_then(|[info]| decode_member(info)).or_else(|| decode_member(info)),
            capabilities: declared,
            instructions: decode_member(instructions),
            empty_arrays,
        }))
    }

    /// Reads the empty arrays among its capabilities as empty objects, and returns their names.
    pub(super) fn tolerate_empty_arrays(&mut self) -> Vec<&'static str> {
        let empty_arrays = core::mem::take(&mut self.empty_arrays);
        for name in &empty_arrays {
            self.capabilities.get_or_insert_default().declare_empty(name);
        }
        empty_arrays
    }
}

//= F17 "those of the server are known once it is connected"
/// The client's knowledge of the server once the connection is ready.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerInfo {
    /// The era of the connection.
    pub era: Era,
    /// The revision in use.
    pub revision: Revision,
    /// The server's self-reported name and version. For display and logs only: unverified.
    pub implementation: Option<Implementation>,
    /// The server's capabilities; `None` if a modern server was recognised without its discovery result, in which case
    /// no request is refused for a missing capability.
    pub capabilities: Option<ServerCapabilities>,
    /// The server's instructions for its use, meant for the model.
    pub instructions: Option<String>,
}

impl ServerInfo {
    /// The server as it describes itself, if it does.
    pub(super) fn new(revision: Revision, server: Option<Box<ServerDescription>>) -> Self {
        let server = server.map_or_else(ServerDescription::default, |server| *server);
        let ServerDescription { implementation, capabilities, instructions, .. } = server;
        Self { era: revision.era(), revision, implementation, capabilities, instructions }
    }

    /// Whether the server declares this capability; `true` while its capabilities are unknown.
    pub(super) fn allows(&self, capability: ServerCapability) -> bool {
        self.capabilities.as_ref().is_none_or(|declared| declared.allows(capability, self.revision))
    }
}

/// Reads the versions and the description in a `DiscoverResult`: an object with an array of versions, whose result type
/// is absent or `complete`.
pub(crate) fn read_discover(result: &Raw) -> Option<(Vec<String>, Box<ServerDescription>)> {
    let [kind, versions] = read_members(result.as_str(), ["resultType", "supportedVersions"]).ok()?;
    if kind.is_some() && decode_member::<String>(kind).as_deref() != Some("complete") {
        return None;
    }
    let versions: Vec<&RawValue> = decode_member(versions)?;
    let versions = versions.into_iter().filter_map(|version| decode_member(Some(version.get()))).collect();
    Some((versions, ServerDescription::read(result)?))
}

/// Reads the version and the description in an `InitializeResult`: an object with a string `protocolVersion`.
pub(crate) fn read_initialize(result: &Raw) -> Option<(String, Box<ServerDescription>)> {
    let [version] = read_members(result.as_str(), ["protocolVersion"]).ok()?;
    Some((decode_member(version)?, ServerDescription::read(result)?))
}

/// The versions that an unsupported-version error offers; `None` if it has no readable list.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>
pub(crate) fn offered_versions(data: Option<&Raw>) -> Option<Vec<String>> {
    //= C1.11 "UnsupportedProtocolVersion (`data.supported`"
    let [supported] = read_members(data?.as_str(), ["supported"]).ok()?;
    decode_member(supported)
}

//= K12 "every form is read"
/// The legacy version to offer after `initialize` at `asked` was rejected with an error whose data lists the versions
/// that the server supports: the newest that both sides know. `None` if there is no such list, or that is `asked`
/// itself.
///
/// <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#error-handling>
pub(super) fn alternative_version(data: Option<&Raw>, asked: Revision) -> Option<Revision> {
    let [supported, alias] = read_members(data?.as_str(), ["supported", "supportedVersions"]).ok()?;
    let supported: Vec<String> = decode_member(supported.or(alias))?;
    let newest =
        Revision::LEGACY.iter().find(|legacy| supported.iter().any(|version| version == legacy.as_str()));
    newest.copied().filter(|version| *version != asked)
}

/// The capabilities that a missing-capability error requires, as the names of its top-level entries and as text.
pub(super) fn required_capabilities(data: Option<&Raw>) -> Option<(Vec<String>, String)> {
    //= F13 "an error whose `data` names the capability"
    //= C1.11 "MissingRequiredClientCapability (`data.requiredCapabilities`)"
    let [required] = read_members(data?.as_str(), ["requiredCapabilities"]).ok()?;
    let map: OrderedMap<String, &RawValue> = decode_member(required)?;
    Some((map.into_keys().collect(), required?.into()))
}

/// Whether capabilities include all of these top-level entries.
pub(super) fn declares_all(capabilities: &ClientCapabilities, names: &[String]) -> bool {
    let declared = Json::encode(capabilities).ok();
    let map = declared.and_then(|json| json.decode::<OrderedMap<String, Json>>().ok());
    map.is_some_and(|map| names.iter().all(|name| map.contains_key(name)))
}

/// The start of a peer-supplied text, for an error message.
pub(super) fn excerpt(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_string(),
    }
}

/// Handshakes that the transport runs.
///
/// Over HTTP detection needs statuses, redirects and sessions, which the peer does not know. The peer writes the
/// requests of the handshake and reports its progress; requests of the application wait until
/// [`finish_detection`](Client::finish_detection).
impl Client {
    /// Starts a detection that the transport runs.
    pub(crate) fn begin_detection(&mut self) {
        if matches!(self.connection.phase, Phase::Disconnected) {
            self.connection.clear_actions();
            self.connection.phase = Phase::Detecting;
            self.connection.set_state(State::Connected, &mut self.events);
        }
    }

    /// Finishes detection: the server is known, and queued requests are sent.
    pub(crate) fn finish_detection(
        &mut self,
        now: Instant,
        server: ServerInfo,
        known_era: KnownEra,
        out: &mut dyn Outbox,
    ) {
        if matches!(self.connection.phase, Phase::Detecting) {
            self.start(now, server, known_era, out);
        }
    }

    /// Restarts detection because the server has lost the session, or proved to be of the other era: new requests wait
    /// until [`finish_detection`](Self::finish_detection), and those in flight stay in flight.
    ///
    /// Withdraws the server's own requests, which end with its session. Returns whether detection runs again: it does
    /// not for a client that is closing.
    pub(crate) fn restart_detection(&mut self) -> bool {
        if !matches!(self.connection.phase, Phase::Ready) {
            return false;
        }
        self.connection.phase = Phase::Detecting;
        self.pings.stop();
        self.withdraw_all();
        self.interrupt_watches();
        self.connection.set_state(State::Connected, &mut self.events);
        true
    }

    /// Reports the progress of detection.
    pub(crate) fn set_connect_progress(&mut self, progress: Option<ConnectProgress>) {
        if let (Phase::Detecting, Some(progress)) = (self.connection.phase, progress) {
            self.connection.report_progress(progress, &mut self.events);
        }
    }

    /// Detection failed: closes the connection.
    pub(crate) fn fail_detection(&mut self, error: ConnectError) {
        if !self.is_closed() {
            self.fail_connect(error);
        }
    }

    /// Closes a connection that the transport has lost.
    pub(crate) fn close_lost(&mut self, closed: CloseReason) {
        if !self.is_closed() {
            self.finish(closed);
        }
    }
}
