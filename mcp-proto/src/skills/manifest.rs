//! The checked entry of a skill, and the verification of its files.

use super::{SkillError, SkillErrorKind};
use crate::prelude::*;
use crate::schema::skills::files::is_plain;
use crate::schema::skills::{
    DIRECTORY_MEDIA_TYPE, FileMismatch, MAX_BYTES, Skill, SkillFiles, SkillFilesError, uri_within,
};
use crate::schema::{Resource, ResourceContents};

/// The entry of a skill whose form is checked, and against which every read of its files is verified.
///
/// A [`Skill`] is as its server sent it. A manifest of it exists only if the entry is [valid](Skill::check), no URI in it
/// hides a character or a separator, its description has 1 to 1,024 characters, its frontmatter at most 128 KiB as JSON, and
/// the skill at most [`MAX_FILES`](crate::schema::skills::MAX_FILES) files and [`MAX_BYTES`].
///
/// A match proves that content and entry are consistent, not that either can be trusted: the same server sends both.
///
/// ```
/// use mcp_proto::schema::skills::{Skill, SkillFile};
/// use mcp_proto::schema::{Json, Map, ResourceContents};
/// use mcp_proto::skills::{SkillErrorKind, SkillManifest};
///
/// let uri = "skill://acme/refunds/SKILL.md";
/// let text = "---\nname: refunds\ndescription: Refunds a customer\n---\nAsk for the receipt.\n";
/// let frontmatter: Map<Json> =
///     [("name", Json::from("refunds")), ("description", Json::from("Refunds a customer"))].into();
/// let listed = Skill::new(uri, frontmatter, vec![SkillFile::of(uri, text.as_bytes())]);
///
/// let skill = SkillManifest::new(listed)?;
/// assert_eq!(skill.folder(), "skill://acme/refunds");
/// // What `resources/read` returned.
/// let file = skill.verify(uri, &[ResourceContents::text(uri, text)])?;
/// assert_eq!(file.text(), Some(text));
/// let changed = text.replace("receipt", "card no");
/// let error = skill.verify(uri, &[ResourceContents::text(uri, changed)]).unwrap_err();
/// assert!(error.is_mismatch() && error.kind == SkillErrorKind::Digest);
/// # Ok::<(), mcp_proto::skills::SkillError>(())
/// ```
///
/// <https://modelcontextprotocol.io/seps/2640-skills-extension#integrity-and-verification>
#[derive(Clone, Debug, PartialEq)]
pub struct SkillManifest {
    skill: Skill,
}

/// A file of a skill that was read and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifiedFile {
    /// Its URI.
    pub uri: String,
    /// Its media type, as the server declared it: no digest covers it.
    pub mime_type: Option<String>,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl VerifiedFile {
    /// The content as text; `None` if it is not UTF-8.
    pub fn text(&self) -> Option<&str> {
        core::str::from_utf8(&self.bytes).ok()
    }
}

impl SkillManifest {
    /// Checks an entry.
    ///
    /// # Errors
    /// The first thing that is wrong: the skill must not be loaded.
    pub fn new(skill: Skill) -> Result<Self, SkillError> {
        let Err(refused) = skill.check_for_hosts() else { return Ok(Self { skill }) };
        let file = match &refused {
            SkillFilesError::UnsafeUri { uri } if *uri != skill.uri => Some(uri.clone()),
            _ => None,
        };
        Err(SkillError { skill: skill.uri, file, kind: kind_of(refused) })
    }

    /// Checks the entry that `skills/get` returned for a URI.
    ///
    /// # Errors
    /// If it is that of another skill, or [invalid](Self::new).
    pub fn of_answer(uri: &str, skill: Skill) -> Result<Self, SkillError> {
        if skill.uri != uri {
            let kind = SkillErrorKind::OtherSkill;
            return Err(SkillError { skill: uri.into(), file: Some(skill.uri), kind });
        }
        Self::new(skill)
    }

    /// The entry.
    pub fn skill(&self) -> &Skill {
        &self.skill
    }

    /// URI of its `SKILL.md`, by which its server knows it.
    pub fn uri(&self) -> &str {
        &self.skill.uri
    }

    /// URI of its folder, without a slash at the end. Relative references in its files begin there.
    pub fn folder(&self) -> &str {
        self.skill.folder().unwrap_or_default()
    }

    /// Whether its content has no digests, so that nothing can be verified, and no approval can be bound to it.
    pub fn is_dynamic(&self) -> bool {
        self.skill.resources == SkillFiles::Dynamic
    }

    /// The tools that the skill asks to use without a question (`allowed-tools`), as its frontmatter names them.
    ///
    /// They are a request of the server and grant nothing: ignore them, unless the user has agreed for this skill.
    pub fn requested_tools(&self) -> Vec<String> {
        let Some(value) = self.skill.frontmatter.get("allowed-tools") else { return Vec::new() };
        let list = value.decode().ok();
        list.or_else(|| Some(split_tools(&value.decode::<String>().ok()?))).unwrap_or_default()
    }

    //= C15.24 "in the folder of the `SKILL.md` that has them"
    /// Resolves a path relative to the folder, or a URI in it, to the URI of a file or folder of this skill. A path need not
    /// be percent-encoded; a fragment at its end is not part of it.
    ///
    /// ```
    /// # use mcp_proto::skills::{SkillError, SkillManifest};
    /// # fn example(skill: SkillManifest) -> Result<(), SkillError> {
    /// assert_eq!(skill.folder(), "skill://acme/refunds");
    /// assert_eq!(skill.resolve("examples/email.md")?, "skill://acme/refunds/examples/email.md");
    /// assert!(skill.resolve("../payments/SKILL.md").is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If it is outside of the folder.
    pub fn resolve(&self, path: &str) -> Result<String, SkillError> {
        let path = path.split_once('#').map_or(path, |(path, _)| path);
        let path = path.strip_prefix("./").unwrap_or(path);
        let path = path.strip_suffix('/').unwrap_or(path);
        if matches!(path, "" | ".") || path == self.folder() {
            return Ok(self.folder().into());
        }
        if path.strip_prefix(self.folder()).is_some_and(|rest| rest.starts_with('/')) {
            return self.check_place(path).map(|()| path.into());
        }
        let uri = format!("{}/{path}", self.folder());
        match uri_within(self.folder(), path) {
            Some(encoded) if !self.has(&uri) && self.prefers(&encoded, &uri, path) => Ok(encoded),
            _ => self.check_place(&uri).map(|()| uri),
        }
    }

    /// Whether the entry lists this URI, or files in a folder at it.
    fn has(&self, uri: &str) -> bool {
        self.skill.file(uri).is_some() || self.skill.children(uri).is_some()
    }

    /// Whether a path that is not listed as it is written was meant to be encoded.
    fn prefers(&self, encoded: &str, written: &str, path: &str) -> bool {
        self.has(encoded)
            || !path.contains('%') && !is_plain(&self.skill, written) && is_plain(&self.skill, encoded)
    }

    /// Lists the direct children of a folder as the entry has them: see [`Skill::children`]. Empty for a dynamic skill, and
    /// if the URI is not that of a folder.
    pub fn children(&self, folder: &str) -> Vec<Resource> {
        self.skill.children(folder).unwrap_or_default()
    }

    //= C15.8 "Reads go only to URIs that the entry lists"
    /// Checks that a URI is that of a file which the entry lists.
    ///
    /// # Errors
    /// If it is outside of the folder, or the entry does not list it.
    pub fn check(&self, uri: &str) -> Result<(), SkillError> {
        self.check_place(uri)?;
        match self.is_dynamic() || self.skill.file(uri).is_some() {
            true => Ok(()),
            false => Err(self.error(uri, SkillErrorKind::Unlisted)),
        }
    }

    //= C15.6 "Digest and size are verified at every read"
    //= C15.7 "compared with the entry field by field"
    /// Verifies what `resources/read` returned for a file, and returns the file.
    ///
    /// Size and digest are those of the entry, and the frontmatter of `SKILL.md` equals that of the entry, field by field.
    /// Of a dynamic skill only the frontmatter can be compared.
    ///
    /// # Errors
    /// If it differs, or cannot be verified: it must not be used.
    pub fn verify(&self, uri: &str, contents: &[ResourceContents]) -> Result<VerifiedFile, SkillError> {
        self.check(uri)?;
        let error = |kind| self.error(uri, kind);
        let [contents] = contents else { return Err(error(SkillErrorKind::Contents)) };
        if contents.uri() != Some(uri) {
            return Err(error(SkillErrorKind::Contents));
        }
        let listed = self.skill.file(uri);
        // Nothing is decoded or hashed that is longer than the entry says.
        let (limit, least) = (listed.map_or(MAX_BYTES, |listed| listed.size), least_size(contents));
        if least > limit {
            return Err(error(SkillErrorKind::Size { listed: limit, read: least }));
        }
        let bytes = bytes_of(contents).ok_or_else(|| error(SkillErrorKind::Contents))?;
        listed.map_or(Ok(()), |listed| listed.verify(&bytes)).map_err(|mismatch| error(mismatch.into()))?;
        let file = VerifiedFile { uri: uri.into(), mime_type: contents.mime_type().map(Into::into), bytes };
        if uri == self.uri() {
            let compared = self.skill.verify_frontmatter(file.text().unwrap_or_default());
            compared.map_err(|why| error(SkillErrorKind::Frontmatter(why)))?;
        }
        Ok(file)
    }

    /// Checks what `resources/directory/read` returned for a folder: each child is directly in it, and listed unless the
    /// skill is dynamic, or the child is a folder: the entry has no empty ones.
    ///
    /// # Errors
    /// For the first that is not.
    pub fn check_children(&self, folder: &str, children: &[Resource]) -> Result<(), SkillError> {
        let known = self.children(folder);
        children.iter().try_for_each(|child| {
            let uri = child.uri.strip_suffix('/').unwrap_or(&child.uri);
            self.check_place(uri)?;
            let is_direct = uri.rsplit_once('/').is_some_and(|(parent, _)| parent == folder);
            let is_folder = child.mime_type.as_deref() == Some(DIRECTORY_MEDIA_TYPE);
            let is_known = is_folder || known.iter().any(|known| known.uri == uri);
            match is_direct && (self.is_dynamic() || is_known) {
                true => Ok(()),
                false => Err(self.error(uri, SkillErrorKind::Unlisted)),
            }
        })
    }

    /// Checks that a URI is below the folder.
    fn check_place(&self, uri: &str) -> Result<(), SkillError> {
        match is_plain(&self.skill, uri) {
            true => Ok(()),
            false => Err(self.error(uri, SkillErrorKind::Outside)),
        }
    }

    fn error(&self, file: &str, kind: SkillErrorKind) -> SkillError {
        SkillError { skill: self.skill.uri.clone(), file: Some(file.into()), kind }
    }
}

/// The kind of error for an entry that hosts refuse.
fn kind_of(refused: SkillFilesError) -> SkillErrorKind {
    match refused {
        SkillFilesError::Entry(invalid) => SkillErrorKind::Entry(invalid),
        SkillFilesError::Frontmatter(error) => SkillErrorKind::Frontmatter(error),
        SkillFilesError::Description => SkillErrorKind::Description,
        SkillFilesError::UnsafeUri { .. } | SkillFilesError::Path { .. } => SkillErrorKind::UnsafeUri,
        SkillFilesError::NotText => SkillErrorKind::Contents,
        SkillFilesError::LargeFrontmatter
        | SkillFilesError::TooManyFiles { .. }
        | SkillFilesError::TooLarge { .. } => SkillErrorKind::TooLarge,
    }
}

impl From<FileMismatch> for SkillErrorKind {
    fn from(mismatch: FileMismatch) -> Self {
        match mismatch {
            FileMismatch::Size { listed, read } => Self::Size { listed, read },
            FileMismatch::Digest => Self::Digest,
        }
    }
}

/// The fewest bytes that the contents can have.
fn least_size(contents: &ResourceContents) -> u64 {
    let least = match contents {
        ResourceContents::Text(contents) => contents.text.len(),
        // Four characters hold three bytes; two may be padding.
        ResourceContents::Blob(contents) => (contents.blob.len() / 4).saturating_mul(3).saturating_sub(2),
        ResourceContents::Unknown(_) => 0,
    };
    least as u64
}

fn bytes_of(contents: &ResourceContents) -> Option<Vec<u8>> {
    match contents {
        ResourceContents::Text(contents) => Some(contents.text.clone().into_bytes()),
        ResourceContents::Blob(contents) => contents.bytes().ok(),
        ResourceContents::Unknown(_) => None,
    }
}

/// Splits a list of tools at spaces and commas, but not within the parentheses of one.
fn split_tools(text: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let parts = text.split(|character: char| {
        match character {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (character.is_whitespace() || character == ',')
    });
    parts.filter(|tool| !tool.is_empty()).map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_tools_are_split_outside_of_parentheses() {
        assert_eq!(split_tools("Bash(git add:*, x) Read,Write"), ["Bash(git add:*, x)", "Read", "Write"]);
        assert_eq!(split_tools(" "), [] as [&str; 0]);
    }
}
