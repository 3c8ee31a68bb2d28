//! Lenient readers for answers to the probe and to `initialize`: a malformed field is ignored, the others count.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::value::RawValue;

use crate::rpc::{ErrorObject, Raw, code, decode_member, read_members};
use crate::schema::{
    ClientCapabilities, Era, Implementation, Json, Revision, ServerCapabilities, ServerCapability, meta,
};

use super::{ConnectError, ConnectStep, EraPolicy};
use crate::peer::Leniency;

/// The members of an answer that are read, by the names of either era.
struct Fields<'a> {
    result_type: Option<&'a str>,
    supported_versions: Option<&'a str>,
    protocol_version: Option<&'a str>,
    capabilities: Option<&'a str>,
    server_info: Option<&'a str>,
    instructions: Option<&'a str>,
    meta: Option<&'a str>,
}

impl<'a> Fields<'a> {
    fn read(raw: &'a Raw) -> Option<Self> {
        const NAMES: [&str; 7] = [
            "resultType",
            "supportedVersions",
            "protocolVersion",
            "capabilities",
            "serverInfo",
            "instructions",
            "_meta",
        ];
        let [
            result_type,
            supported_versions,
            protocol_version,
            capabilities,
            server_info,
            instructions,
            meta,
        ] = read_members(raw.as_str(), NAMES).ok()?;
        Some(Self {
            result_type,
            supported_versions,
            protocol_version,
            capabilities,
            server_info,
            instructions,
            meta,
        })
    }
}

/// A server's self-description.
#[derive(Debug, Default)]
pub(crate) struct ServerDescription {
    pub(crate) implementation: Option<Implementation>,
    pub(crate) capabilities: Option<ServerCapabilities>,
    pub(crate) instructions: Option<String>,
}

impl ServerDescription {
    fn read(fields: &Fields<'_>) -> Self {
        let nested = fields.meta.and_then(|meta| read_members(meta, [meta::SERVER_INFO]).ok());
        Self {
            implementation: nested
                .and_then(|[info]| decode_member(info))
                .or_else(|| decode_member(fields.server_info)),
            capabilities: decode_member(fields.capabilities),
            instructions: decode_member(fields.instructions),
        }
    }
}

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
    pub(crate) fn new(era: Era, revision: Revision, server: Option<Box<ServerDescription>>) -> Self {
        let server = server.map_or_else(ServerDescription::default, |server| *server);
        let ServerDescription { implementation, capabilities, instructions } = server;
        Self { era, revision, implementation, capabilities, instructions }
    }

    /// Whether the server declares this capability; `true` while its capabilities are unknown.
    pub(super) fn allows(&self, capability: ServerCapability) -> bool {
        self.capabilities.as_ref().is_none_or(|declared| declared.allows(capability, self.revision))
    }
}

/// A valid answer to the probe.
#[derive(Debug)]
pub(crate) struct DiscoverAnswer {
    pub(crate) versions: Vec<String>,
    pub(crate) server: Box<ServerDescription>,
}

/// Reads a `DiscoverResult`: an object with an array of versions, whose result type is absent or `complete`.
pub(crate) fn read_discover(result: &Raw) -> Option<DiscoverAnswer> {
    let fields = Fields::read(result)?;
    if fields.result_type.is_some()
        && decode_member::<String>(fields.result_type).as_deref() != Some("complete")
    {
        return None;
    }
    let versions: Vec<&RawValue> = decode_member(fields.supported_versions)?;
    let versions = versions.into_iter().filter_map(|version| decode_member(Some(version.get()))).collect();
    Some(DiscoverAnswer { versions, server: Box::new(ServerDescription::read(&fields)) })
}

/// A valid answer to `initialize`.
#[derive(Debug)]
pub(crate) struct InitializeAnswer {
    pub(crate) version: String,
    pub(crate) server: Box<ServerDescription>,
}

/// Reads an `InitializeResult`: an object with a string `protocolVersion`.
pub(crate) fn read_initialize(result: &Raw) -> Option<InitializeAnswer> {
    let fields = Fields::read(result)?;
    let version = decode_member(fields.protocol_version)?;
    Some(InitializeAnswer { version, server: Box::new(ServerDescription::read(&fields)) })
}

/// The revision of the connection after `initialize` was answered with `version`, and the deviation that this tolerates.
/// An unknown version is read, if that is `tolerated`, as the newest known legacy revision that is not later.
///
/// # Errors
/// If the client does not speak that version.
pub(crate) fn initialized_revision(
    policy: EraPolicy,
    tolerated: bool,
    version: String,
) -> Result<(Revision, Option<Leniency>), ConnectError> {
    match Revision::parse(&version) {
        Some(revision) if policy.versions().any(|allowed| allowed == revision) => Ok((revision, None)),
        None if tolerated => {
            // Dates of this form are ordered as texts are; nothing is known about any other text.
            let earlier = |known: &&Revision| is_date(&version) && known.as_str() <= version.as_str();
            let used = Revision::LEGACY.iter().find(earlier).copied().unwrap_or(Revision::OLDEST);
            Ok((used, Some(Leniency::UnknownVersion { answered: excerpt(&version), used })))
        }
        //= C2.13 "unsupported version → disconnect"
        _ => Err(no_common_version(policy, [version].into())),
    }
}

/// Whether a text has the form `2025-11-25`.
fn is_date(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

/// The versions that an unsupported-version error offers; `None` if it has no readable list.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>
pub(crate) fn offered_versions(data: Option<&Raw>) -> Option<Vec<String>> {
    //= C1.11 "UnsupportedProtocolVersion (`data.supported`"
    let [supported] = read_members(data?.as_str(), ["supported"]).ok()?;
    decode_member(supported)
}

/// The version to continue with after the era probe at `asked` was answered with an error about versions or
/// capabilities: the handshake at a legacy version, another probe at a modern one. A probe is `repeated` at the same
/// version only once.
///
/// # Errors
/// If client and server cannot work together.
pub(crate) fn version_after_probe_error(
    policy: EraPolicy,
    capabilities: &ClientCapabilities,
    (asked, repeated): (Revision, bool),
    error: &ErrorObject,
) -> Result<Revision, ConnectError> {
    let refused = || ConnectError::Refused { during: ConnectStep::Probe.as_str(), error: error.clone() };
    if error.code == code::MISSING_REQUIRED_CLIENT_CAPABILITY {
        return match required_capabilities(error.data.as_ref()) {
            Some((names, _)) if !repeated && declares_all(capabilities, &names) => Ok(asked),
            Some((_, required)) => Err(ConnectError::MissingCapabilities { required }),
            None => Err(refused()),
        };
    }
    let versions = offered_versions(error.data.as_ref()).ok_or_else(refused)?;
    if versions.iter().any(|version| version == asked.as_str()) {
        return if repeated { Err(refused()) } else { Ok(asked) };
    }
    policy.choose_version(&versions).ok_or_else(|| no_common_version(policy, versions))
}

pub(crate) fn no_common_version(policy: EraPolicy, theirs: Vec<String>) -> ConnectError {
    ConnectError::NoCommonVersion { ours: policy.versions().map(Revision::as_str).collect(), theirs }
}

/// The legacy version to offer after `initialize` at `asked` was rejected with an error whose data lists the versions
/// that the server supports: the newest that both sides know. `None` if there is no such list, or that is `asked`
/// itself.
///
/// <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#error-handling>
pub(crate) fn alternative_version(data: Option<&Raw>, asked: Revision) -> Option<Revision> {
    let [supported, alias] = read_members(data?.as_str(), ["supported", "supportedVersions"]).ok()?;
    let supported: Vec<String> = decode_member(supported.or(alias))?;
    let newest =
        Revision::LEGACY.iter().find(|legacy| supported.iter().any(|version| version == legacy.as_str()));
    newest.copied().filter(|version| *version != asked)
}

/// The capabilities that a missing-capability error requires, as the names of its top-level entries and as text.
fn required_capabilities(data: Option<&Raw>) -> Option<(Vec<String>, String)> {
    //= C1.11 "MissingRequiredClientCapability (`data.requiredCapabilities`)"
    let [required] = read_members(data?.as_str(), ["requiredCapabilities"]).ok()?;
    let map: BTreeMap<String, &RawValue> = decode_member(required)?;
    Some((map.into_keys().collect(), required?.into()))
}

/// Whether capabilities include all of these top-level entries.
fn declares_all(capabilities: &ClientCapabilities, names: &[String]) -> bool {
    let declared = Json::encode(capabilities).ok();
    let map = declared.and_then(|json| json.decode::<BTreeMap<String, Json>>().ok());
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
