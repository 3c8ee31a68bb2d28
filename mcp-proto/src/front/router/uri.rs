//! Matching URIs against templates.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::codec::percent;
use crate::schema::Map;

/// A URI template of the simple kind: text with variables `{name}`, which stand for one or more characters other than
/// `/`, `?` and `#`, and `{+name}`, which stand for any.
///
/// Of RFC 6570 that is level 1, and the reserved expansion of level 2. A variable takes as little as it can.
#[derive(Debug)]
pub(crate) struct UriTemplate {
    /// What comes before the first variable.
    head: String,
    /// Each variable with the text that follows it, empty at most for the last one.
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    name: String,
    kind: Kind,
    then: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Segment,
    Any,
}

/// Why a template can not be matched against.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateError {
    /// It has no variable: then it is a resource.
    NoVariable,
    /// A `{` or `}` without its counterpart.
    Unbalanced,
    /// A variable that is neither `{name}` nor `{+name}`.
    Unsupported {
        /// What stands between the braces.
        variable: String,
    },
    /// Two variables with nothing between them, so that it can not be told where one ends.
    Adjacent {
        /// The second of them.
        variable: String,
    },
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVariable => f.write_str("it has no variable"),
            Self::Unbalanced => f.write_str("its braces do not match"),
            Self::Unsupported { variable } => {
                write!(f, "the variable {{{variable}}} is neither a plain name nor a + and a name")
            }
            Self::Adjacent { variable } => {
                write!(f, "nothing stands between {{{variable}}} and the one before")
            }
        }
    }
}

impl core::error::Error for TemplateError {}

impl UriTemplate {
    pub(crate) fn parse(template: &str) -> Result<Self, TemplateError> {
        let (head, mut rest) = template.split_once('{').ok_or(TemplateError::NoVariable)?;
        let mut parts: Vec<Part> = Vec::new();
        loop {
            let (variable, after) = rest.split_once('}').ok_or(TemplateError::Unbalanced)?;
            let (kind, name) = match variable.strip_prefix('+') {
                Some(name) => (Kind::Any, name),
                None => (Kind::Segment, variable),
            };
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(plain) {
                return Err(TemplateError::Unsupported { variable: variable.to_string() });
            }
            if parts.last().is_some_and(|part| part.then.is_empty()) {
                return Err(TemplateError::Adjacent { variable: variable.to_string() });
            }
            let (then, next) = match after.split_once('{') {
                Some((then, next)) => (then, Some(next)),
                None => (after, None),
            };
            parts.push(Part { name: name.to_string(), kind, then: then.to_string() });
            match next {
                Some(next) => rest = next,
                None => break,
            }
        }
        if head.contains('}') || parts.iter().any(|part| part.then.contains('}')) {
            return Err(TemplateError::Unbalanced);
        }
        Ok(Self { head: head.to_string(), parts })
    }

    /// The variables of `uri`, percent-decoded, if it matches.
    pub(crate) fn matches(&self, uri: &str) -> Option<Map<String>> {
        let mut rest = uri.strip_prefix(self.head.as_str())?;
        let mut variables = Vec::new();
        let mut parts = self.parts.iter().peekable();
        while let Some(part) = parts.next() {
            let value = if parts.peek().is_none() {
                rest.strip_suffix(part.then.as_str())?
            } else {
                // A value has a character at least, so the text that follows can not begin before the second.
                let first = rest.chars().next()?.len_utf8();
                let at = rest.get(first..)?.find(part.then.as_str())?.saturating_add(first);
                let value = rest.get(..at)?;
                rest = rest.get(at.saturating_add(part.then.len())..)?;
                value
            };
            if value.is_empty() || (part.kind == Kind::Segment && value.contains(['/', '?', '#'])) {
                return None;
            }
            variables.push((part.name.clone(), String::from_utf8(percent::decode(value)?).ok()?));
        }
        Some(variables.into_iter().collect())
    }
}

/// Whether `uri` begins with a scheme, as RFC 3986 has it.
pub(crate) fn has_scheme(uri: &str) -> bool {
    let Some((scheme, _)) = uri.split_once(':') else { return false };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(template: &str, uri: &str) -> Option<Vec<(String, String)>> {
        let matched = UriTemplate::parse(template).unwrap().matches(uri)?;
        Some(matched.iter().map(|(name, value)| (name.to_string(), value.clone())).collect())
    }

    fn one(name: &str, value: &str) -> Option<Vec<(String, String)>> {
        Some(alloc::vec![(name.to_string(), value.to_string())])
    }

    #[test]
    fn a_variable_stands_for_one_segment() {
        assert_eq!(vars("note:///{id}", "note:///7"), one("id", "7"));
        assert_eq!(vars("note:///{id}", "note:///a/b"), None);
        assert_eq!(vars("note:///{id}", "note:///"), None);
        assert_eq!(vars("note:///{id}", "other:///7"), None);
    }

    #[test]
    fn a_reserved_variable_stands_for_a_whole_path() {
        assert_eq!(vars("file:///{+path}", "file:///a/b?c#d"), one("path", "a/b?c#d"));
    }

    #[test]
    fn text_after_the_last_variable_is_a_suffix() {
        assert_eq!(vars("f:/{name}.txt", "f:/a.txt.txt"), one("name", "a.txt"));
        assert_eq!(vars("f:/{name}.txt", "f:/.txt"), None);
    }

    #[test]
    fn a_variable_takes_as_little_as_it_can() {
        let found = vars("t:{a}-{b}", "t:x-y-z").unwrap();
        assert_eq!(found[0].1, "x");
        assert_eq!(found[1].1, "y-z");
        assert_eq!(vars("t:{a}-{b}", "t:--y").unwrap()[0].1, "-");
    }

    #[test]
    fn values_are_percent_decoded() {
        assert_eq!(vars("u:{v}", "u:a%20b%C3%A9"), one("v", "a bé"));
        assert_eq!(vars("u:{v}", "u:a%2"), None);
        assert_eq!(vars("u:{v}", "u:%FF"), None);
    }

    #[test]
    fn a_template_that_can_not_be_matched_is_refused() {
        let error = |template| UriTemplate::parse(template).unwrap_err();
        assert_eq!(error("a:b"), TemplateError::NoVariable);
        assert_eq!(error("a:{b"), TemplateError::Unbalanced);
        assert_eq!(error("a}:{b}"), TemplateError::Unbalanced);
        assert_eq!(error("a:{b}}"), TemplateError::Unbalanced);
        assert_eq!(error("a:{?b}"), TemplateError::Unsupported { variable: "?b".into() });
        assert_eq!(error("a:{}"), TemplateError::Unsupported { variable: "".into() });
        assert_eq!(error("a:{b}{c}"), TemplateError::Adjacent { variable: "c".into() });
    }

    #[test]
    fn a_scheme_is_told_from_a_path() {
        assert!(has_scheme("file:///x") && has_scheme("a+b-c.1:x"));
        assert!(!has_scheme("/x:y") && !has_scheme("1a:x") && !has_scheme("x") && !has_scheme(":x"));
    }
}
