//! Errors of skills, with the skill and the file.

use core::fmt;

use crate::prelude::*;
use crate::schema::skills::{FrontmatterError, InvalidSkill, MAX_BYTES, MAX_FILES};
use crate::text::SafeText;

/// A skill cannot be used, or a file of it cannot.
///
/// `Display` writes texts of the server on one line, escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillError {
    /// URI of the skill's `SKILL.md`, as its server names it.
    pub skill: String,
    /// URI of the file, if one is wrong.
    pub file: Option<String>,
    /// The reason.
    pub kind: SkillErrorKind,
}

/// The reason why a skill or a file of it cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkillErrorKind {
    /// The entry breaks a rule.
    Entry(InvalidSkill),
    /// The entry lacks a field, or a field has a wrong value: the reason, as the end of a sentence.
    Unreadable(String),
    /// The server returned the entry of another skill than the one that was asked for.
    OtherSkill,
    /// A URI in the entry is longer than 2 KiB, is no URI, or has a query, a hidden character or a separator that is
    /// encoded.
    UnsafeUri,
    /// The description is empty, or longer than 1,024 characters.
    ///
    /// <https://agentskills.io/specification#description-field>
    Description,
    /// The skill has more files or bytes than every host accepts ([`MAX_FILES`] and [`MAX_BYTES`]), or a frontmatter of more
    /// than 128 KiB.
    TooLarge,
    /// The server has too many skills.
    TooMany,
    /// The file is not in the folder of the skill.
    Outside,
    /// The entry does not list the file.
    Unlisted,
    /// The skill is dynamic, so that nothing of it can be verified, and the application does not allow that.
    Dynamic,
    /// The server did not return one text or blob with this URI.
    Contents,
    /// The size differs from the entry.
    Size {
        /// Bytes by the entry; for a dynamic skill, the most that a file may have.
        listed: u64,
        /// Bytes that were read, or the fewest that they can be.
        read: u64,
    },
    /// The digest differs from the entry.
    Digest,
    /// The frontmatter of `SKILL.md` cannot be read, or a field of it differs from the entry.
    Frontmatter(FrontmatterError),
}

impl SkillError {
    /// Creates the error of an entry as a whole.
    pub fn of_entry(skill: impl Into<String>, kind: SkillErrorKind) -> Self {
        Self { skill: skill.into(), file: None, kind }
    }

    /// Whether the server's content differs from its entry: it was changed, on purpose or not. Get the skill again, and ask
    /// the user again.
    ///
    /// <https://modelcontextprotocol.io/seps/2640-skills-extension#integrity-and-verification>
    pub fn is_mismatch(&self) -> bool {
        use SkillErrorKind::{Contents, Digest, Frontmatter, Size};
        matches!(self.kind, Contents | Digest | Frontmatter(_) | Size { .. })
    }
}

impl fmt::Display for SkillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the skill {}", SafeText::line(&self.skill))?;
        if let Some(file) = self.file.as_ref().filter(|file| **file != self.skill) {
            write!(f, ", file {}", SafeText::line(file))?;
        }
        // Also names of files and of fields.
        write!(f, ": {}", SafeText::line(&self.kind.to_string()))
    }
}

impl core::error::Error for SkillError {}

display_text! { SkillErrorKind:
    Entry(invalid) => "{invalid}";
    Unreadable(reason) => "its entry cannot be read: {reason}";
    OtherSkill => "the server returned the entry of another skill";
    UnsafeUri => "the URI is too long, or is no plain URI of a file in a folder";
    Description => "the description is empty, or longer than 1024 characters";
    TooLarge =>
        "it has more than {} files or {} MiB, or a frontmatter of more than 128 KiB", MAX_FILES, MAX_BYTES >> 20;
    TooMany => "its server has too many skills: this one is left out";
    Outside => "the URI is not that of a file in the folder of the skill";
    Unlisted => "the entry of the skill does not list it";
    Dynamic => "its content is dynamic, so that nothing of it can be verified";
    Contents => "the server did not return one text or blob with this URI";
    Size { listed, read } => "{read} bytes were read, the entry says {listed}: the skill has changed";
    Digest => "the digest differs from the entry: the skill has changed";
    Frontmatter(error) => "{error}";
}
