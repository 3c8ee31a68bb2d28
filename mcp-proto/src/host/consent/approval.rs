//! Approvals, and how they are stored.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::host::config::{Digester, EnvFileBinding, ServerEntry};

/// The user's approval of one server of one project. It says nothing about any other entry.
#[derive(Clone, PartialEq, Eq)]
pub struct Approval {
    path: String,
    server: String,
    binding: [u8; 32],
    /// The content of the file of variables, if the user has seen its names.
    env_file: Option<EnvFileBinding>,
}

impl Approval {
    pub(super) fn new(entry: &ServerEntry) -> Self {
        let mut digester = Digester::new("approval");
        digester.text(&entry.source().path);
        digester.text(entry.name());
        digester.bytes(entry.spec().approved_content().as_bytes());
        // Only of programs: approvals of URLs keep the form in which they were stored.
        if let Some(folder) = entry.working_folder() {
            digester.text("folder");
            digester.text(&folder);
        }
        let (path, server) = (entry.source().path.clone(), entry.name().into());
        Self { path, server, binding: digester.finish(), env_file: None }
    }

    pub(super) const fn bind_env_file(&mut self, content: EnvFileBinding) {
        self.env_file = Some(content);
    }

    pub(super) const fn env_file(&self) -> Option<EnvFileBinding> {
        self.env_file
    }

    /// The path of the project's file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The name of the server.
    pub fn server(&self) -> &str {
        &self.server
    }
}

impl fmt::Debug for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approval")
            .field("path", &self.path)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// The user's approvals, at most one of each server of each project.
///
/// Store them where no project can write. What cannot be read is no approval.
///
/// ```
/// use mcp_proto::host::config::{ConfigFile, Source};
/// use mcp_proto::host::consent::Approvals;
///
/// let text = br#"{ "mcpServers": { "files": { "command": "mcp-files" } } }"#;
/// let server = &ConfigFile::parse(Source::project("/work/app/.mcp.json"), text).servers[0];
/// let mut approvals = Approvals::new();
/// let request = server.permit(&approvals).expect_err("it was never approved");
/// approvals.insert(request.approve());
///
/// let stored = approvals.to_json();
/// assert!(server.permit(&Approvals::from_json(stored.as_bytes())?).is_ok());
/// assert!(Approvals::from_json(b"damaged").is_err());
/// # Ok::<(), mcp_proto::host::consent::ApprovalsError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approvals {
    /// By path and server.
    approvals: BTreeMap<(String, String), Approval>,
}

/// The version of the stored form.
const VERSION: u32 = 1;

/// An approval as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredApproval<'a> {
    #[serde(borrow)]
    path: Cow<'a, str>,
    #[serde(borrow)]
    server: Cow<'a, str>,
    /// In hexadecimal digits.
    #[serde(borrow)]
    binding: Cow<'a, str>,
    /// The key and the digest of the file of variables, in hexadecimal digits.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    env_file: Option<(Cow<'a, str>, Cow<'a, str>)>,
}

impl StoredApproval<'_> {
    fn read(self) -> Option<Approval> {
        let env_file = match &self.env_file {
            Some((key, digest)) => Some(EnvFileBinding::from_parts(from_hex(key)?, from_hex(digest)?)),
            None => None,
        };
        let binding = from_hex(&self.binding)?;
        Some(Approval { path: self.path.into_owned(), server: self.server.into_owned(), binding, env_file })
    }
}

#[derive(Serialize)]
struct WrittenApprovals<'a> {
    version: u32,
    approvals: Vec<StoredApproval<'a>>,
}

#[derive(Deserialize)]
struct ReadApprovals<'a> {
    version: u32,
    #[serde(borrow)]
    approvals: Vec<&'a RawValue>,
}

impl Approvals {
    /// Maximum bytes of the stored form.
    pub const STORED_BYTES: usize = 4 * 1024 * 1024;

    /// No approvals.
    pub const fn new() -> Self {
        Self { approvals: BTreeMap::new() }
    }

    /// Adds an approval, in place of an earlier one of the same server.
    pub fn insert(&mut self, approval: Approval) {
        self.approvals.insert((approval.path.clone(), approval.server.clone()), approval);
    }

    /// Removes the approval of a server, which is refused from then on. Returns whether there was one.
    pub fn revoke(&mut self, path: &str, server: &str) -> bool {
        self.approvals.remove(&(path.into(), server.into())).is_some()
    }

    /// The approvals, by path and server.
    pub fn iter(&self) -> impl Iterator<Item = &Approval> {
        self.approvals.values()
    }

    /// The stored approval that covers this one, but for the content of the file of variables.
    pub(super) fn find(&self, approval: &Approval) -> Option<&Approval> {
        let stored = self.approvals.get(&(approval.path.clone(), approval.server.clone()));
        stored.filter(|stored| stored.binding == approval.binding)
    }

    /// The stored form, a JSON text. It has no value of the project's file.
    pub fn to_json(&self) -> String {
        let approvals = self.iter().map(|approval| StoredApproval {
            path: approval.path.as_str().into(),
            server: approval.server.as_str().into(),
            binding: to_hex(&approval.binding).into(),
            env_file: approval
                .env_file
                .map(|content| (to_hex(content.key()).into(), to_hex(content.digest()).into())),
        });
        let written = WrittenApprovals { version: VERSION, approvals: approvals.collect() };
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// Reads the stored form. An approval in it that cannot be read is left out, and its server is refused.
    ///
    /// # Errors
    /// If the whole text cannot be read: use no approvals, so that every server is refused.
    pub fn from_json(text: &[u8]) -> Result<Self, ApprovalsError> {
        let read = Some(text).filter(|text| text.len() <= Self::STORED_BYTES);
        let read = read.and_then(|text| serde_json::from_slice::<ReadApprovals<'_>>(text).ok());
        let read = read.filter(|read| read.version == VERSION).ok_or(ApprovalsError)?;
        let mut approvals = Self::new();
        for stored in read.approvals {
            let Ok(stored) = serde_json::from_str::<StoredApproval<'_>>(stored.get()) else { continue };
            if let Some(approval) = stored.read() {
                approvals.insert(approval);
            }
        }
        Ok(approvals)
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut hex, byte| {
        hex.extend(
            [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).unwrap_or_default()),
        );
        hex
    })
}

fn from_hex<const LENGTH: usize>(text: &str) -> Option<[u8; LENGTH]> {
    let mut digits = text.chars().map(|digit| digit.to_digit(16));
    let mut bytes = [0; LENGTH];
    for byte in &mut bytes {
        let (high, low) = (digits.next()??, digits.next()??);
        *byte = u8::try_from((high << 4) | low).ok()?;
    }
    digits.next().is_none().then_some(bytes)
}

/// Stored approvals that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalsError;

impl fmt::Display for ApprovalsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the stored approvals of project servers cannot be read: each server must be approved again",
        )
    }
}

impl core::error::Error for ApprovalsError {}
