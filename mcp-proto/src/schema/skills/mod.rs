//! The skills extension of 2026-07-28: folders of instructions for a model, whose files are resources.
//!
//! A skill is a folder with a file `SKILL.md`, which begins with frontmatter in YAML. The server lists its
//! skills, each with the digest and the size of every file, and serves the files by `resources/read`. The extension has no
//! notification: a client asks again when the lifetime of a listing has passed.
//!
//! Digests are not signed: they bind a file to the listing that a user has approved, and say nothing of whom to trust.
//!
//! <https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx>

#[cfg(feature = "skills")]
pub(crate) mod files;
#[cfg(feature = "skills")]
mod frontmatter;
#[cfg(feature = "skills")]
mod plain_scalar;
#[cfg(feature = "skills")]
mod yaml;

use alloc::borrow::Cow;
use core::fmt;

use super::object::object;
use super::read::{Fit, Items, Read, expected};
use super::write::serde_impls;
use super::{Json, List, Map, Meta, PaginatedParams, Projection, Resource, WriteAt};
use crate::ordered_set::OrderedSet;
use crate::prelude::*;
use crate::rpc::json_reader::NotJson;

pub use super::method::{GetSkill, ListSkills, ReadDirectory};
#[cfg(feature = "skills")]
pub use files::{SkillFilesError, contents, directories_within, uri_within};
#[cfg(feature = "skills")]
pub use frontmatter::Frontmatter;
#[cfg(feature = "skills")]
pub use yaml::{FrontmatterError, FrontmatterMismatch};

/// Identifier of the skills extension.
pub const EXTENSION: &str = "io.modelcontextprotocol/skills";
/// Name of the file that each skill has in its folder.
pub const MAIN_FILE: &str = "SKILL.md";
/// Media type of a resource that is a directory.
pub const DIRECTORY_MEDIA_TYPE: &str = "inode/directory";
/// The number of files in a skill that every host accepts.
pub const MAX_FILES: usize = 512;
/// The size in bytes of all files of a skill that every host accepts: 16 MiB.
pub const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// The number of characters in the longest name of a skill.
const MAX_NAME: usize = 64;

/// The parameters of `skills/list`.
pub type ListSkillsParams = PaginatedParams;

object! {
    /// The result of `skills/list`. It may lack skills that the server serves.
    pub page ListSkillsResult {
        required {
            /// One page of skills. An entry without `resources`, or with others than [`SkillFiles`] names, is
            /// [invalid](List::invalid), and must not be loaded.
            skills: List<Skill> = "skills";
        }
    }

    /// The parameters of `skills/get`.
    pub params GetSkillParams {
        required {
            /// URI of the skill's `SKILL.md`.
            uri: String = "uri";
        }
    }

    /// The result of `skills/get`.
    pub cacheable GetSkillResult {
        required {
            /// The skill.
            skill: Skill = "skill";
        }
    }

    /// The parameters of `resources/directory/read`.
    pub params ReadDirectoryParams {
        required {
            /// URI of the directory, without a slash at its end.
            uri: String = "uri";
        }
        optional {
            /// Cursor of the page; absent for the first page.
            cursor: Option<String> = "cursor" type strict;
        }
    }

    /// The result of `resources/directory/read`.
    pub result ReadDirectoryResult {
        required {
            /// One page of the files and the directories directly within the directory.
            resources: List<Resource> = "resources";
        }
        optional {
            /// Cursor of the next page; absent on the last page.
            next_cursor: Option<String> = "nextCursor";
        }
    }

    /// A skill as its server lists it. It is known by its server and its URI; its name may occur twice.
    pub struct Skill {
        required {
            /// URI of the skill's `SKILL.md`.
            uri: String = "uri";
            /// The frontmatter of `SKILL.md`, with every field: at least `name` and `description`, which are strings.
            frontmatter: Map<Json> = "frontmatter" check has_name_and_description;
            /// The files of the skill, with those of skills in its folders.
            resources: SkillFiles = "resources";
        }
        optional {
            /// Metadata attached to the entry.
            meta: Meta = "_meta";
        }
    }

    /// A file of a skill.
    pub struct SkillFile {
        required {
            /// URI of the file.
            uri: String = "uri";
            /// SHA-256 of its bytes.
            digest: Digest = "digest";
            /// Its length in bytes.
            size: u64 = "size";
        }
    }
}

fn has_name_and_description(frontmatter: &Map<Json>) -> Result<(), &'static str> {
    texts(frontmatter).map_err(|_| "an object with the strings `name` and `description`")
}

/// Checks that the fields which each skill has are text; or returns the one that is not.
fn texts(frontmatter: &Map<Json>) -> Result<(), &'static str> {
    let is_text = |name: &&str| frontmatter.get(name).is_some_and(|value| value.as_str().starts_with('"'));
    ["name", "description"].into_iter().find(|name| !is_text(name)).map_or(Ok(()), Err)
}

/// The files of a skill, or that its content is generated.
#[derive(Clone, Debug, PartialEq)]
pub enum SkillFiles {
    /// Every file of the skill, once.
    Listed(Vec<SkillFile>),
    /// The content is generated, and has no lasting digests: hosts may decline such skills.
    Dynamic,
}

impl SkillFiles {
    /// How a listing writes generated content.
    const DYNAMIC: &str = "dynamic";
}

impl From<Vec<SkillFile>> for SkillFiles {
    fn from(files: Vec<SkillFile>) -> Self {
        Self::Listed(files)
    }
}

//= C15.3 "another value than a list or `dynamic`, is invalid"
impl Read for SkillFiles {
    const EXPECTED: &'static str = "a list of files, or \"dynamic\"";

    fn from_text(text: Cow<'_, str>) -> Fit<Self> {
        if text == Self::DYNAMIC { Ok(Self::Dynamic) } else { expected(Self::EXPECTED) }
    }

    fn from_list(items: Items<'_, '_>) -> Result<Fit<Self>, NotJson> {
        Ok(Vec::from_list(items)?.map(Self::Listed))
    }
}

impl WriteAt for SkillFiles {
    fn write(&self, view: Projection, out: &mut Vec<u8>) {
        match self {
            Self::Listed(files) => files.write(view, out),
            Self::Dynamic => Self::DYNAMIC.write(view, out),
        }
    }
}

serde_impls!(SkillFiles);

/// A SHA-256 digest as listings have it: `sha256:` and 64 hexadecimal digits in lower case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Takes the bytes of a SHA-256 digest.
    pub const fn new(sha256: [u8; 32]) -> Self {
        Self(sha256)
    }

    /// Computes the digest of the bytes of a file.
    ///
    /// ```
    /// use mcp_proto::schema::skills::Digest;
    ///
    /// let digest = Digest::of(b"");
    /// assert_eq!(digest.to_string(), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    /// assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
    /// ```
    #[cfg(feature = "skills")]
    pub fn of(bytes: &[u8]) -> Self {
        Self(<sha2::Sha256 as sha2::Digest>::digest(bytes).into())
    }

    /// Parses a digest; `None` if it has another form.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sha256:").filter(|hex| hex.len() == 64)?;
        let digit = |byte: &u8| char::from(*byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            let [high, low] = pair else { return None };
            *byte = u8::try_from((digit(high)? << 4) | digit(low)?).ok()?;
        }
        Some(Self(digest))
    }

    /// Returns the bytes of the digest.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Read for Digest {
    const EXPECTED: &'static str = "`sha256:` and 64 hexadecimal digits in lower case";

    fn from_text(text: Cow<'_, str>) -> Fit<Self> {
        Self::parse(&text).map_or_else(|| expected(Self::EXPECTED), Ok)
    }
}

impl WriteAt for Digest {
    fn write(&self, view: Projection, out: &mut Vec<u8>) {
        self.to_string().write(view, out);
    }
}

serde_impls!(Digest);

impl Skill {
    /// The name in its frontmatter: a label, which other skills may share.
    pub fn name(&self) -> String {
        self.text("name")
    }

    /// The description in its frontmatter.
    pub fn description(&self) -> String {
        self.text("description")
    }

    fn text(&self, field: &str) -> String {
        self.frontmatter.get(field).and_then(|text| text.decode().ok()).unwrap_or_default()
    }

    /// The URI of its folder, without a slash at the end; `None` if its URI is not that of a `SKILL.md`.
    pub fn folder(&self) -> Option<&str> {
        folder(&self.uri)
    }

    /// The listed file at this URI. A file that is not listed must not be read while a model uses the skill.
    pub fn file(&self, uri: &str) -> Option<&SkillFile> {
        self.files().iter().find(|file| file.uri == uri)
    }

    /// The listed files; none if they are [generated](SkillFiles::Dynamic).
    pub fn files(&self) -> &[SkillFile] {
        match &self.resources {
            SkillFiles::Listed(files) => files,
            SkillFiles::Dynamic => &[],
        }
    }

    /// The size in bytes of all listed files together.
    pub fn size(&self) -> u64 {
        self.files().iter().fold(0, |size, file| size.saturating_add(file.size))
    }

    /// Checks what the extension demands of an entry and shows without its files. How many and how large they are is not
    /// checked: see [`MAX_FILES`] and [`MAX_BYTES`].
    ///
    /// ```
    /// use mcp_proto::schema::skills::{Digest, InvalidSkill, Skill, SkillFile};
    /// use mcp_proto::schema::{Json, Map};
    ///
    /// let uri = "skill://billing/refunds/SKILL.md";
    /// let frontmatter: Map<Json> =
    ///     [("name", Json::from("refunds")), ("description", Json::from("Pays money back"))].into();
    /// let mut skill = Skill::new(uri, frontmatter, vec![SkillFile::new(uri, Digest::new([0; 32]), 40_u64)]);
    /// assert_eq!(skill.check(), Ok(()));
    /// skill.uri = "skill://billing/SKILL.md".to_owned();
    /// assert_eq!(skill.check(), Err(InvalidSkill::Uri));
    /// ```
    ///
    /// # Errors
    /// The first rule that the entry breaks. A host must not load it.
    pub fn check(&self) -> Result<(), InvalidSkill> {
        let name = self.name();
        let folder = self.folder().filter(|folder| folder.rsplit('/').next() == Some(&*name));
        let folder = folder.ok_or(InvalidSkill::Uri)?;
        if !is_skill_name(&name) {
            return Err(InvalidSkill::Name);
        }
        let SkillFiles::Listed(files) = &self.resources else { return Ok(()) };
        let mut seen = OrderedSet::new();
        for SkillFile { uri, .. } in files {
            if !is_within(folder, uri) {
                return Err(InvalidSkill::Outside { uri: uri.clone() });
            }
            if !seen.insert(uri) {
                return Err(InvalidSkill::Duplicate { uri: uri.clone() });
            }
        }
        seen.contains(&self.uri).then_some(()).ok_or(InvalidSkill::NoMainFile)
    }
}

/// The URI of the folder of a skill, of whose `SKILL.md` this is the URI.
pub(crate) fn folder(uri: &str) -> Option<&str> {
    uri.strip_suffix(MAIN_FILE)?.strip_suffix('/').filter(|_| !uri.contains(['?', '#']))
}

/// Whether a URI is that of a file within a folder or its folders: what follows the folder has no empty segment, and none
/// that means another folder.
fn is_within(folder: &str, uri: &str) -> bool {
    let path = uri.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
    path.is_some_and(|path| !path.contains(['?', '#', '\\']) && path.split('/').all(is_segment))
}

fn is_segment(segment: &str) -> bool {
    let plain = segment.replace("%2e", ".").replace("%2E", ".");
    !matches!(&*plain, "" | "." | "..")
}

/// Whether a text is the name of a skill: 1 to 64 lower-case letters, digits and hyphens, without a hyphen at either end or
/// two in a row.
///
/// <https://agentskills.io/specification#name-field>
pub fn is_skill_name(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    name.len() <= MAX_NAME && name.split('-').all(is_part)
}

/// The rule that the entry of a skill breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidSkill {
    /// Its URI does not end with its name, a slash and `SKILL.md`.
    Uri,
    /// Its name is not one of a skill.
    ///
    /// <https://agentskills.io/specification#name-field>
    Name,
    /// A listed file is outside of its folder.
    Outside {
        /// URI of the file, as the server wrote it.
        uri: String,
    },
    /// A file is listed twice.
    Duplicate {
        /// URI of the file, as the server wrote it.
        uri: String,
    },
    /// Its `SKILL.md` is not among its files.
    NoMainFile,
}

error_text! { InvalidSkill:
    Uri => "the URI of the skill does not end with its name and /{MAIN_FILE}";
    Name => "the name of the skill is not 1 to 64 lower-case letters, digits and single hyphens";
    Outside { uri } => "the file {uri:?} is not in the folder of the skill";
    Duplicate { uri } => "the file {uri:?} is listed twice";
    NoMainFile => "the skill does not list its {MAIN_FILE}";
}

#[cfg(feature = "skills")]
impl SkillFile {
    //= S12.5 "of the raw bytes; `size` is their number"
    /// Describes a file with these bytes.
    pub fn of(uri: impl Into<String>, bytes: &[u8]) -> Self {
        Self::new(uri, Digest::of(bytes), u64::try_from(bytes.len()).unwrap_or(u64::MAX))
    }

    /// Checks bytes that were read against the listing, the size first.
    ///
    /// ```
    /// use mcp_proto::schema::skills::{FileMismatch, SkillFile};
    ///
    /// let listed = SkillFile::of("skill://knots/SKILL.md", b"Tie it.");
    /// assert_eq!(listed.verify(b"Tie it."), Ok(()));
    /// assert_eq!(listed.verify(b"Cut it."), Err(FileMismatch::Digest));
    /// assert_eq!(listed.verify(b"Tie"), Err(FileMismatch::Size { listed: 7, read: 3 }));
    /// ```
    ///
    /// # Errors
    /// If they differ: the content must not be used, and an approval of the skill no longer counts.
    pub fn verify(&self, bytes: &[u8]) -> Result<(), FileMismatch> {
        let read = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if read != self.size {
            return Err(FileMismatch::Size { listed: self.size, read });
        }
        if Digest::of(bytes) == self.digest { Ok(()) } else { Err(FileMismatch::Digest) }
    }
}

/// The difference between a file of a skill and its listing.
#[cfg(feature = "skills")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileMismatch {
    /// The file has another size.
    Size {
        /// The size in bytes that is listed.
        listed: u64,
        /// The size in bytes that was read.
        read: u64,
    },
    /// The file has another digest.
    Digest,
}

#[cfg(feature = "skills")]
error_text! { FileMismatch:
    Size { listed, read } => "the file has {read} bytes, and {listed} are listed";
    Digest => "the digest of the file is not the one that is listed";
}
