//! Names by which a model knows the items of many servers.

use crate::host::digest::Digest;
use crate::prelude::*;

/// Characters of the hash in a name: 12 of base32 hold 60 bits.
const HASH_CHARACTERS: usize = 12;

/// What a hash begins with. No word of a tool's name is this digit and twelve letters.
const HASH_MARK: char = '0';

/// The lower-case alphabet of base32 (RFC 4648).
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

config! {
    /// Makes the name by which a model knows a tool: `mcp__server__tool`.
    ///
    /// [`name`](Self::name) is a pure function of the server's configured name and the tool's own name. It does not
    /// depend on other tools, nor on the order in which servers connect, so a name never comes to mean another tool.
    /// The caller keeps the pair: a name is not parsed, and the wire has the tool's own name.
    ///
    /// A name consists of ASCII letters, digits, `_` and `-`, and has at most 64 bytes, as the interfaces of models
    /// require. It is the plain joined text if that is unambiguous:
    ///
    /// - both parts have only the characters above, and the whole fits;
    /// - the server's name is not empty, does not contain the separator, and neither begins nor ends with its
    /// character;
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
        prefix: String = "mcp__".into(),
        separator: String = "__".into(),
    }
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
        self.own_name(&["search"])
    }

    /// The name of a tool of the host, of these words: no server's tool can have it, as no separator follows the prefix.
    pub(in crate::host) fn own_name(&self, words: &[&str]) -> String {
        let joint = if self.separator == "_" { "-" } else { "_" };
        format!("{}{}", self.prefix, words.join(joint))
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

// Which tools, prompts and resources a host shows: allowed and denied by patterns.

/// A pattern of names: `*` stands for any text, `?` for one character, everything else for itself.
///
/// The whole name must match, and case matters. A pattern has at most [`MAX_BYTES`](Self::MAX_BYTES) bytes, so a match
/// takes time linear in the length of the name.
///
/// ```
/// use mcp_proto::host::tools::Glob;
///
/// let glob = Glob::new("delete_*")?;
/// assert!(glob.matches("delete_issue") && !glob.matches("undelete_issue"));
/// # Ok::<(), mcp_proto::host::tools::InvalidGlobError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Box<str>);

/// Error: the pattern is empty or longer than [`Glob::MAX_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidGlobError;

error_text! { InvalidGlobError => "a pattern of names must have 1 to {} bytes", Glob::MAX_BYTES }

impl Glob {
    /// The longest pattern, in bytes: room for any name that models can use, and more.
    pub const MAX_BYTES: usize = 256;

    /// Creates a pattern.
    ///
    /// # Errors
    /// If it is empty or longer than [`MAX_BYTES`](Self::MAX_BYTES).
    pub fn new(pattern: &str) -> Result<Self, InvalidGlobError> {
        if pattern.is_empty() || pattern.len() > Self::MAX_BYTES {
            return Err(InvalidGlobError);
        }
        Ok(Self(pattern.into()))
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the whole name matches.
    pub fn matches(&self, name: &str) -> bool {
        let (mut pattern, mut name) = (self.0.chars(), name.chars());
        // The pattern behind the last `*`, and the name from where that `*` ends at the earliest.
        let mut last_star = None;
        loop {
            let name_here = name.clone();
            match (pattern.next(), name.next()) {
                (Some('*'), _) => {
                    last_star = Some((pattern.clone(), name_here.clone()));
                    name = name_here;
                }
                (Some('?'), Some(_)) => {}
                (Some(expected), Some(found)) if expected == found => {}
                (None, None) => return true,
                _ => {
                    let Some((behind, start)) = &mut last_star else { return false };
                    // The `*` takes one character more. An earlier one need not: this one can take its text.
                    if start.next().is_none() {
                        return false;
                    }
                    (pattern, name) = (behind.clone(), start.clone());
                }
            }
        }
    }
}

/// Which items of one server are shown: tools and prompts by the server's own names of them, resources and templates by
/// their URIs.
///
/// ```
/// use mcp_proto::host::tools::ItemFilter;
///
/// let filter = ItemFilter::new(Some(&["get_*", "list_*"]), &["*_secret"])?;
/// assert!(filter.allows("get_issue"));
/// assert!(!filter.allows("get_secret") && !filter.allows("delete_issue"));
/// assert!(ItemFilter::default().allows("anything"));
/// # Ok::<(), mcp_proto::host::tools::InvalidGlobError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemFilter {
    /// An item must match one of them; `None` allows all.
    pub allow: Option<Vec<Glob>>,
    /// An item must match none of them, even if it is allowed.
    pub deny: Vec<Glob>,
}

impl ItemFilter {
    /// Creates a filter from patterns.
    ///
    /// # Errors
    /// If a pattern is empty or too long.
    pub fn new<S: AsRef<str>>(allow: Option<&[S]>, deny: &[S]) -> Result<Self, InvalidGlobError> {
        let globs = |patterns: &[S]| patterns.iter().map(|pattern| Glob::new(pattern.as_ref())).collect();
        Ok(Self { allow: allow.map(globs).transpose()?, deny: globs(deny)? })
    }

    /// Whether the item is shown.
    pub fn allows(&self, item: &str) -> bool {
        let any = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(item));
        self.allow.as_deref().is_none_or(any) && !any(&self.deny)
    }
}

/// A pattern of tools of many servers: `github/create_*`, or `github` for all tools of a server.
///
/// Both halves are matched with the names in the configuration and on the wire, not with the names made for models.
///
/// ```
/// use mcp_proto::host::tools::ToolPattern;
///
/// assert!(ToolPattern::new("git*/create_*")?.matches("github", "create_issue"));
/// assert!(ToolPattern::new("github")?.matches("github", "create_issue"));
/// # Ok::<(), mcp_proto::host::tools::InvalidGlobError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolPattern {
    /// The pattern of servers.
    pub server: Glob,
    /// The pattern of their tools; `None` for all.
    pub tool: Option<Glob>,
}

impl ToolPattern {
    /// Reads a pattern; the first `/` ends that of the server.
    ///
    /// # Errors
    /// If one half is empty or too long.
    pub fn new(pattern: &str) -> Result<Self, InvalidGlobError> {
        match pattern.split_once('/') {
            Some((server, tool)) => Ok(Self { server: Glob::new(server)?, tool: Some(Glob::new(tool)?) }),
            None => Ok(Self { server: Glob::new(pattern)?, tool: None }),
        }
    }

    /// Whether the tool of the server matches.
    pub fn matches(&self, server: &str, tool: &str) -> bool {
        self.server.matches(server) && self.tool.as_ref().is_none_or(|glob| glob.matches(tool))
    }
}

#[cfg(test)]
mod filter_tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition: a star takes nothing, or one character and the rest.
    fn matches_by_definition(pattern: &[char], name: &[char]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            (['*', rest @ ..], []) => matches_by_definition(rest, name),
            (['*', rest @ ..], [_, tail @ ..]) => {
                matches_by_definition(rest, name) || matches_by_definition(pattern, tail)
            }
            (['?', rest @ ..], [_, tail @ ..]) => matches_by_definition(rest, tail),
            ([a, rest @ ..], [b, tail @ ..]) => a == b && matches_by_definition(rest, tail),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn glob_matches_as_defined(pattern in "[ab*?é]{1,8}", name in "[abé]{0,8}") {
            let characters = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = matches_by_definition(&characters(&pattern), &characters(&name));
            prop_assert_eq!(Glob::new(&pattern).unwrap().matches(&name), expected);
        }
    }

    #[test]
    fn glob_rejects_empty_and_long_patterns() {
        assert!(Glob::new("").is_err() && Glob::new(&"a".repeat(257)).is_err());
        assert!(
            Glob::new(&"*a".repeat(128))
                .is_ok_and(|glob| !glob.matches(&"a".repeat(1000).replacen('a', "b", 1000)))
        );
    }

    #[test]
    fn denied_tools_stay_denied_when_they_are_allowed() {
        let filter = ItemFilter::new(Some(&["*"]), &["rm*"]).unwrap();
        assert!(filter.allows("ls") && !filter.allows("rmdir"));
    }

    #[test]
    fn empty_list_of_allowed_tools_allows_none() {
        assert!(!ItemFilter::new::<&str>(Some(&[]), &[]).unwrap().allows("ls"));
        assert!(ItemFilter::new::<&str>(None, &[]).unwrap().allows("ls"));
    }
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
