//! Which tools, prompts and resources a host shows: allowed and denied by patterns.

use crate::prelude::*;

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
mod tests {
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
