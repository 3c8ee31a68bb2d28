//! Names by which a model knows the items of many servers.

use crate::host::digest::Digest;
use crate::prelude::*;

/// Characters of the hash in a name: 12 of base32 hold 60 bits.
const HASH_CHARACTERS: usize = 12;

/// What a hash begins with. No word of a tool's name is this digit and twelve letters.
const HASH_MARK: char = '0';

/// The lower-case alphabet of base32 (RFC 4648).
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Makes the name by which a model knows a tool: `mcp__server__tool`.
///
/// [`name`](Self::name) is a pure function of the server's configured name and the tool's own name. It does not depend
/// on other tools, nor on the order in which servers connect, so a name never comes to mean another tool. The caller
/// keeps the pair: a name is not parsed, and the wire has the tool's own name.
///
/// A name consists of ASCII letters, digits, `_` and `-`, and has at most 64 bytes, as the interfaces of models require.
/// It is the plain joined text if that is unambiguous:
///
/// - both parts have only the characters above, and the whole fits;
/// - the server's name is not empty, does not contain the separator, and neither begins nor ends with its character;
/// - the tool's name is not empty, does not begin with the separator's character, and does not end like a hash.
///
/// Otherwise other characters become `_`, the parts are cut, and `_0` with a hash of the pair follows (60 bits of
/// SHA-256 in base32). Prompts, resources (by URI) and resource templates are named in the same way, each kind in a
/// name space of its own.
///
/// ```
/// use mcp_proto::host::tools::NameScheme;
///
/// let scheme = NameScheme::default();
/// assert_eq!(scheme.name("github", "create_issue"), "mcp__github__create_issue");
/// assert_eq!(scheme.name("memory", "add_observations"), "mcp__memory__add_observations");
/// assert_eq!(scheme.name("my server", "read.file"), "mcp__my_server__read_file_0hzouwaqoaltw");
/// assert_eq!(NameScheme::new("", "-")?.name("github", "create_issue"), "github-create_issue");
/// # Ok::<(), mcp_proto::host::tools::InvalidSchemeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameScheme {
    prefix: String,
    separator: String,
}

/// Error: the prefix or the separator of names is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidSchemeError {
    /// The prefix has other characters than ASCII letters, digits, `_` and `-`, or more than 16 of them.
    Prefix,
    /// The separator is not 1 to 4 times `_`, and not 1 to 4 times `-`.
    Separator,
}

error_text! { InvalidSchemeError:
    Prefix => "the prefix of names must be at most 16 ASCII letters, digits, `_` and `-`";
    Separator => "the separator of names must be 1 to 4 times `_`, or 1 to 4 times `-`";
}

impl Default for NameScheme {
    /// The prefix `mcp__` and the separator `__`.
    fn default() -> Self {
        Self { prefix: "mcp__".into(), separator: "__".into() }
    }
}

impl NameScheme {
    //= K7 "configurable and bounded"
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 64;

    /// Creates a scheme: a name is `prefix`, the server, `separator`, the tool.
    ///
    /// A change of the scheme gives every tool another name: permissions that were granted by name must be asked for
    /// again.
    ///
    /// # Errors
    /// If the prefix is not at most 16 ASCII letters, digits, `_` and `-`, or the separator not 1 to 4 times `_` or 1
    /// to 4 times `-`.
    pub fn new(prefix: impl Into<String>, separator: impl Into<String>) -> Result<Self, InvalidSchemeError> {
        let (prefix, separator) = (prefix.into(), separator.into());
        if prefix.len() > 16 || !prefix.chars().all(is_clean) {
            return Err(InvalidSchemeError::Prefix);
        }
        let repeats = |c| separator.chars().all(|other| other == c);
        if separator.is_empty() || separator.len() > 4 || !(repeats('_') || repeats('-')) {
            return Err(InvalidSchemeError::Separator);
        }
        Ok(Self { prefix, separator })
    }

    //= F94 "joins the names of server and tool, with unusual characters replaced"
    /// The name of an item (a tool, a prompt, the URI of a resource) of a server.
    ///
    /// `server` is the name in the host's configuration, which is unique; the name that a server gives itself is not.
    //= C9.5 "Same tool name from two servers: disambiguate (prefix etc.), not by serverInfo.name"
    pub fn name(&self, server: &str, item: &str) -> String {
        let Self { prefix, separator } = self;
        if self.is_plain(server, item) {
            return format!("{prefix}{server}{separator}{item}");
        }
        //= K7 "a hash where two could be mistaken for each other"
        let hash = hash(server, item);
        let room = self.room();
        let item = cleaned(item, room.saturating_sub(room / 3), "item");
        let server = cleaned(server, room.saturating_sub(item.len()), "server");
        format!("{prefix}{server}{separator}{item}_{HASH_MARK}{hash}")
    }

    /// How many bytes a server and an item have in a name with a hash. At least 30: `new` bounds the prefix and the
    /// separator.
    fn room(&self) -> usize {
        let used =
            [self.prefix.len(), self.separator.len(), 1, HASH_MARK.len_utf8(), HASH_CHARACTERS].iter().sum();
        Self::MAX_BYTES.saturating_sub(used)
    }

    /// Whether `name` may be the name of an item of `server`. It may be of another server's too, if their names are
    /// alike: one begins with the other, or both are longer than names have room for.
    ///
    /// ```
    /// use mcp_proto::host::tools::NameScheme;
    ///
    /// let scheme = NameScheme::default();
    /// assert!(scheme.may_belong_to("github", "mcp__github__create_issue"));
    /// assert!(!scheme.may_belong_to("git", "mcp__github__create_issue"));
    /// ```
    pub fn may_belong_to(&self, server: &str, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(&*self.prefix) else { return false };
        let names =
            |server: &str| rest.strip_prefix(server).is_some_and(|rest| rest.starts_with(&*self.separator));
        // A name with a hash has at least this many characters of the server.
        let least = self.room() / 3;
        let is_long = server.chars().nth(least).is_some();
        names(server)
            || names(&cleaned(server, usize::MAX, "server"))
            || is_long && rest.starts_with(&*cleaned(server, least, "server"))
    }

    /// The name of the host's own tool that searches all others, which no server's tool can have: `mcp__search`.
    pub fn search_name(&self) -> String {
        // Without a separator after the prefix.
        format!("{}search", self.prefix)
    }

    /// Whether the joined text belongs to this pair alone, and no name with a hash equals it.
    ///
    /// The first separator after the prefix ends the server, as the server neither contains it nor ends with its
    /// character. Whatever stands behind the first separator of a name with a hash ends like a hash.
    fn is_plain(&self, server: &str, item: &str) -> bool {
        let edge = |c| self.separator.starts_with(c);
        let lengths = [self.prefix.len(), server.len(), self.separator.len(), item.len()];
        lengths.iter().sum::<usize>() <= Self::MAX_BYTES
            && !server.is_empty()
            && !item.is_empty()
            && server.chars().chain(item.chars()).all(is_clean)
            && !server.contains(&self.separator)
            && !server.starts_with(edge)
            && !server.ends_with(edge)
            && !item.starts_with(edge)
            && !ends_like_hash(item)
    }
}

/// Whether a name may contain the character.
fn is_clean(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

/// The text with `_` for other characters, at most `room` bytes long; `fallback` if nothing legible remains.
fn cleaned(text: &str, room: usize, fallback: &str) -> String {
    let text: String = text.chars().take(room).map(|c| if is_clean(c) { c } else { '_' }).collect();
    let text = text.trim_matches('_');
    if text.is_empty() { fallback.into() } else { text.into() }
}

fn ends_like_hash(item: &str) -> bool {
    let hash = item.rsplit_once('_').and_then(|(_, tail)| tail.strip_prefix(HASH_MARK));
    hash.is_some_and(|hash| hash.len() == HASH_CHARACTERS && hash.bytes().all(|byte| BASE32.contains(&byte)))
}

/// 60 bits of the hash of the pair.
fn hash(server: &str, item: &str) -> String {
    let bits = Digest::of_parts(&[server.as_bytes(), item.as_bytes()]).prefix();
    let character = |place: usize| {
        let shift = u32::try_from(place.saturating_mul(5)).unwrap_or(u32::MAX);
        let index = usize::try_from(bits.rotate_left(5).rotate_left(shift) & 31).unwrap_or(0);
        BASE32.get(index).map_or('a', |byte| char::from(*byte))
    };
    (0..HASH_CHARACTERS).map(character).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F94
    #[test]
    fn plain_names_join_their_parts() {
        let scheme = NameScheme::default();
        assert_eq!(scheme.name("a-b_c", "d_"), "mcp__a-b_c__d_");
        let tool = "t".repeat(64 - "mcp__s__".len());
        assert_eq!(scheme.name("s", &tool), format!("mcp__s__{tool}"));
    }

    #[test]
    fn words_of_twelve_letters_do_not_pass_for_a_hash() {
        let scheme = NameScheme::default();
        for tool in ["add_observations", "get_base64encode", "list_repositories", "b_abcdefghijkl"] {
            assert_eq!(scheme.name("a", tool), format!("mcp__a__{tool}"));
        }
    }

    /// K7
    #[test]
    fn ambiguous_names_have_a_hash() {
        let scheme = NameScheme::default();
        for (server, tool) in [
            ("a__b", "c"),
            ("_a", "b"),
            ("a_", "b"),
            ("a", "_b"),
            ("", "b"),
            ("a", ""),
            ("a", "b.c"),
            ("é", "b"),
            ("a", "b_0abcdefghijkl"),
            ("a", &"t".repeat(64)),
            (&"s".repeat(64), "t"),
            ("  ", "\u{1f600}"),
        ] {
            let name = scheme.name(server, tool);
            assert!(ends_like_hash(&name), "{name}");
            assert!(name.len() <= NameScheme::MAX_BYTES && name.chars().all(is_clean), "{name}");
        }
    }

    #[test]
    fn name_of_another_pair_is_never_reached_by_imitation() {
        let scheme = NameScheme::default();
        let name = scheme.name("files", "read.file");
        let imitation = name.strip_prefix("mcp__files__").unwrap();
        assert_ne!(scheme.name("files", imitation), name);
    }

    /// K7
    #[test]
    fn scheme_rejects_other_separators_and_prefixes() {
        for separator in ["", ".", "_-", "_____", "x"] {
            assert_eq!(NameScheme::new("mcp", separator), Err(InvalidSchemeError::Separator));
        }
        for prefix in ["mcp.", "é", "12345678901234567"] {
            assert_eq!(NameScheme::new(prefix, "__"), Err(InvalidSchemeError::Prefix));
        }
    }
}
