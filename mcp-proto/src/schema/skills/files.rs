//! The files of a skill as resources, and the entry that describes them.

use iri_string::percent_encode::PercentEncodedForUri;
use iri_string::types::IriStr;

use super::frontmatter::Frontmatter;
use super::yaml::FrontmatterError;
use super::{DIRECTORY_MEDIA_TYPE, InvalidSkill, MAIN_FILE, MAX_BYTES, MAX_FILES, Skill, SkillFile};
use crate::codec::percent_decode;
use crate::ordered_set::OrderedSet;
use crate::prelude::*;
use crate::schema::{BlobResourceContents, Resource, ResourceContents};
use crate::text::SafeText;

/// The longest URI of a skill or of a file, in bytes: what common servers and proxies accept.
const URI_BYTES: usize = 2048;

/// The longest description, in characters, by the Agent Skills specification.
const DESCRIPTION_CHARACTERS: usize = 1024;

/// The largest frontmatter of an entry, in bytes of JSON: twice what is read of a `SKILL.md`.
const FRONTMATTER_BYTES: usize = 128 * 1024;

/// Media type of Markdown.
const MARKDOWN: &str = "text/markdown";

/// Media types by the ends of names. What is not here is plain text or bytes.
const MEDIA_TYPES: [(&str, &str); 20] = [
    ("md", MARKDOWN),
    ("txt", "text/plain"),
    ("json", "application/json"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("toml", "application/toml"),
    ("xml", "application/xml"),
    ("html", "text/html"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("js", "text/javascript"),
    ("py", "text/x-python"),
    ("sh", "application/x-sh"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("svg", "image/svg+xml"),
    ("webp", "image/webp"),
];

/// The media type of a file with this URI.
fn media_type(uri: &str) -> Option<&'static str> {
    let name = uri.rsplit('/').next()?;
    let (_, end) = name.rsplit_once('.')?;
    MEDIA_TYPES.iter().find(|(known, _)| end.eq_ignore_ascii_case(known)).map(|(_, media_type)| *media_type)
}

/// The URI of a file, or of a folder, within a folder: its path is encoded, and has no segment that is empty, `.` or `..`.
///
/// ```
/// use mcp_proto::schema::skills::uri_within;
///
/// let uri = uri_within("skill://knots", "references/Two half hitches.md");
/// assert_eq!(uri.as_deref(), Some("skill://knots/references/Two%20half%20hitches.md"));
/// assert_eq!(uri_within("skill://knots", "../ropes/SKILL.md"), None);
/// ```
pub fn uri_within(folder: &str, path: &str) -> Option<String> {
    let mut uri = folder.to_owned();
    for segment in path.split('/') {
        if matches!(segment, "" | "." | "..") || segment.contains(['\\', '\0']) {
            return None;
        }
        if !uri.ends_with('/') {
            uri.push('/');
        }
        uri.push_str(&PercentEncodedForUri::unreserve(segment).to_string());
    }
    Some(uri)
}

/// The directories directly within a directory that lead to files with these URIs, ordered by their URIs.
///
/// Every level above a skill is a directory of its server.
///
/// ```
/// use mcp_proto::schema::skills::directories_within;
///
/// let skills = ["skill://acme/billing/refunds/SKILL.md", "skill://acme/knots/SKILL.md"];
/// let names: Vec<_> = directories_within("skill://acme", skills).into_iter().map(|it| it.name).collect();
/// assert_eq!(names, ["billing", "knots"]);
/// ```
///
/// <https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx>
pub fn directories_within<'a>(directory: &str, uris: impl IntoIterator<Item = &'a str>) -> Vec<Resource> {
    let uris = uris.into_iter().filter(|_| directory.contains("://"));
    let paths = uris.filter_map(|uri| uri.strip_prefix(directory)?.strip_prefix('/'));
    let segments: OrderedSet<&str> = paths.filter_map(|path| Some(path.split_once('/')?.0)).collect();
    let resource = |segment: &str| {
        let mut resource = Resource::new(format!("{directory}/{segment}"), name_of(segment));
        resource.mime_type = Some(DIRECTORY_MEDIA_TYPE.to_owned());
        resource
    };
    segments.into_iter().map(resource).collect()
}

impl Skill {
    //= S12.4 "lists every file of the skill once"
    /// Makes the entry of a skill from its files: from the bytes of its `SKILL.md`, and from the size and digest of every
    /// file, that of `SKILL.md` and those of skills in its folders included.
    ///
    /// ```
    /// use mcp_proto::schema::skills::{Skill, SkillFile};
    ///
    /// let uri = "skill://knots/SKILL.md";
    /// let main_file = b"---\nname: knots\ndescription: Ties knots\n---\nTie it.\n";
    /// let skill = Skill::describe(uri, main_file, vec![SkillFile::of(uri, main_file)])?;
    /// assert_eq!(skill.description(), "Ties knots");
    /// # Ok::<(), mcp_proto::schema::skills::SkillFilesError>(())
    /// ```
    ///
    /// # Errors
    /// If the files are none of a skill, or one that hosts refuse: for their number or size, their URIs, or the description.
    pub fn describe(
        uri: impl Into<String>,
        main_file: &[u8],
        files: Vec<SkillFile>,
    ) -> Result<Self, SkillFilesError> {
        let main_file = core::str::from_utf8(main_file).map_err(|_| SkillFilesError::NotText)?;
        let frontmatter = Frontmatter::parse(main_file).map_err(SkillFilesError::Frontmatter)?.to_json();
        if let Err(field) = super::texts(&frontmatter) {
            return Err(SkillFilesError::Frontmatter(FrontmatterError::Field { field }));
        }
        let skill = Self::new(uri, frontmatter, files);
        skill.check_for_hosts().map(|()| skill)
    }

    //= C15.17 "up to 512 files and 16 MiB are accepted"
    /// Checks that hosts accept the entry: its form, and the limits that this library's client has too.
    pub(crate) fn check_for_hosts(&self) -> Result<(), SkillFilesError> {
        self.check().map_err(SkillFilesError::Entry)?;
        let unsafe_uri = |uri: &str| Err(SkillFilesError::UnsafeUri { uri: uri.to_owned() });
        if !self.folder().is_some_and(is_plain_folder) {
            return unsafe_uri(&self.uri);
        }
        if let Some(file) = self.files().iter().find(|file| !is_plain(self, &file.uri)) {
            return unsafe_uri(&file.uri);
        }
        let description = self.description();
        if description.trim().is_empty() || description.chars().nth(DESCRIPTION_CHARACTERS).is_some() {
            return Err(SkillFilesError::Description);
        }
        let members = self.frontmatter.iter();
        let frontmatter: usize =
            members.map(|(name, value)| name.len().saturating_add(value.as_str().len())).sum();
        match (self.files().len(), self.size()) {
            (count, _) if count > MAX_FILES => Err(SkillFilesError::TooManyFiles { count }),
            (_, size) if size > MAX_BYTES => Err(SkillFilesError::TooLarge { size }),
            _ if frontmatter > FRONTMATTER_BYTES => Err(SkillFilesError::LargeFrontmatter),
            _ => Ok(()),
        }
    }

    /// The files and directories directly within a directory of the skill, as its entry lists them, ordered by their names;
    /// `None` if there is none at this URI. A server may have others by now, which must not be read before the entry is
    /// fetched again.
    pub fn children(&self, directory: &str) -> Option<Vec<Resource>> {
        let own = self.folder()?;
        let is_own = directory.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let files = self.files().iter().filter(|_| is_own);
        let mut children = directories_within(directory, files.clone().map(|file| &*file.uri));
        let is_child = |file: &&SkillFile| {
            let name = file.uri.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'));
            name.is_some_and(|name| !name.contains('/'))
        };
        children.extend(files.filter(is_child).map(|file| self.resource(file)));
        children.sort_unstable_by(|a, b| a.uri.cmp(&b.uri));
        (!children.is_empty()).then_some(children)
    }

    /// A file of the skill as a resource: `SKILL.md` has the name and the description of the skill.
    pub fn resource(&self, file: &SkillFile) -> Resource {
        let mut resource =
            Resource::new(&*file.uri, name_of(file.uri.rsplit('/').next().unwrap_or_default()));
        if file.uri == self.uri {
            resource.name = self.name();
            resource.description = Some(self.description());
        }
        resource.mime_type = media_type(&file.uri).map(Into::into);
        resource.size = Some(file.size);
        resource
    }
}

/// The name that a segment of a URI encodes.
fn name_of(segment: &str) -> String {
    let decoded = percent_decode(segment).and_then(|name| String::from_utf8(name).ok());
    decoded.unwrap_or_else(|| segment.to_owned())
}

/// Whether the URI of a folder has a scheme, and a path that is plain. No scheme means anything: it need not be `skill`.
fn is_plain_folder(folder: &str) -> bool {
    // A URI without an authority has one slash more.
    let path = folder.split_once("://").map(|(_, path)| path.strip_prefix('/').unwrap_or(path));
    path.is_some_and(is_plain_path) && is_plain_uri(folder)
}

/// Whether a URI is that of a file in the folder of a skill.
pub(crate) fn is_plain(skill: &Skill, uri: &str) -> bool {
    let path = skill.folder().and_then(|folder| uri.strip_prefix(folder)?.strip_prefix('/'));
    path.is_some_and(is_plain_path) && is_plain_uri(uri)
}

/// Whether a text is a URI without a query or a fragment, in which no character hides.
fn is_plain_uri(uri: &str) -> bool {
    uri.len() <= URI_BYTES
        && !uri.contains(['?', '#'])
        && !uri.chars().any(SafeText::is_unsafe)
        && IriStr::new(uri).is_ok()
}

/// Whether no segment of a path leaves its folder, however it is encoded, or has a separator of another system.
fn is_plain_path(path: &str) -> bool {
    let is_plain = |segment: Vec<u8>| {
        let is_separator = |byte: &u8| matches!(byte, b'/' | b'\\') || byte.is_ascii_control();
        !matches!(&*segment, b"" | b"." | b"..") && !segment.iter().any(is_separator)
    };
    path.split('/').all(|segment| percent_decode(segment).is_some_and(is_plain))
}

/// The contents of a file as a resource: text if its bytes are, or else the bytes.
pub fn contents(uri: &str, bytes: Vec<u8>) -> ResourceContents {
    let media_type = media_type(uri);
    let (mut contents, default) = match String::from_utf8(bytes) {
        Ok(text) => (ResourceContents::text(uri, text), "text/plain"),
        Err(error) => {
            let blob = BlobResourceContents::from_bytes(uri, error.into_bytes());
            (ResourceContents::Blob(blob), "application/octet-stream")
        }
    };
    let kept = match &mut contents {
        ResourceContents::Text(text) => &mut text.mime_type,
        ResourceContents::Blob(blob) => &mut blob.mime_type,
        ResourceContents::Unknown(_) => return contents,
    };
    *kept = Some(media_type.unwrap_or(default).to_owned());
    contents
}

/// Reason why files are not served as a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkillFilesError {
    /// The `SKILL.md` is not UTF-8.
    NotText,
    /// The `SKILL.md` has no frontmatter that can be used.
    Frontmatter(FrontmatterError),
    /// The entry would be invalid: the name is not that of the folder, for example.
    Entry(InvalidSkill),
    /// The path of a file has a segment that is empty, `.` or `..`, or has a backslash.
    Path {
        /// The path.
        path: String,
    },
    /// The URI of the skill or of a file is longer than 2 KiB, is no URI with `://` and a path, or has a query, a
    /// hidden character, or a control character or a separator that is encoded.
    UnsafeUri {
        /// The URI.
        uri: String,
    },
    /// The description is empty, or longer than 1,024 characters.
    ///
    /// <https://agentskills.io/specification#description-field>
    Description,
    /// The frontmatter has more than 128 KiB as JSON.
    LargeFrontmatter,
    /// It has more files than [`MAX_FILES`].
    TooManyFiles {
        /// Their number.
        count: usize,
    },
    /// Its files have more than [`MAX_BYTES`] together.
    TooLarge {
        /// Their size in bytes.
        size: u64,
    },
}

error_text! { SkillFilesError:
    NotText => "{MAIN_FILE} is not UTF-8";
    Frontmatter(error) => "{MAIN_FILE}: {error}";
    Entry(error) => "{error}";
    Path { path } => "{path:?} is not the path of a file within the skill";
    UnsafeUri { uri } => "the URI {uri:?} is too long, or is no plain URI of a file in a folder";
    Description => "the description is empty, or longer than {DESCRIPTION_CHARACTERS} characters";
    LargeFrontmatter => "the frontmatter has more than {} KiB as JSON", FRONTMATTER_BYTES >> 10;
    TooManyFiles { count } => "the skill has {count} files, and hosts accept {MAX_FILES}";
    TooLarge { size } => "the files of the skill have {size} bytes, and hosts accept {MAX_BYTES}";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_that_leaves_its_folder_is_recognised_however_it_is_encoded() {
        for path in [
            "..", "a/../b", ".", "a//b", "", "%2e%2e/a", "a/%2E", "a%2fb", "a%5Cb", "a\\b", "%00", "%zz",
            "a/",
        ] {
            assert!(!is_plain_path(path), "{path}");
        }
        for path in ["a", "a/b.md", "..a/b..", "a%20b/c", "größe.md"] {
            assert!(is_plain_path(path), "{path}");
        }
    }

    #[test]
    fn folder_has_a_scheme_and_a_plain_path() {
        for folder in ["skill://a", "skill://a/b", "file:///srv/b", "github://owner/repo/b"] {
            assert!(is_plain_folder(folder), "{folder}");
        }
        for folder in [
            "a",
            "skill:a",
            "skill://",
            "skill://a/../b",
            "skill://a//b",
            "skill://a?b",
            "skill://a\u{202e}b",
            "skill://a b",
        ] {
            assert!(!is_plain_folder(folder), "{folder}");
        }
    }
}
