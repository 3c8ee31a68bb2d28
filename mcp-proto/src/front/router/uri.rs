//! URI template matching, with checks against path traversal.

use iri_string::types::UriStr;

use crate::codec::percent_decode;
use crate::prelude::*;
use crate::schema::Map;

/// A URI template after RFC 6570, limited to expressions that match a URI in one pass, in time linear in the URI.
///
/// A variable matches the shortest possible text. Its value is decoded once, and then checked: a value that could
/// traverse out of its path makes the whole URI not match.
///
/// | expression | matches | the value is |
/// |---|---|---|
/// | `{a}`, `{a,b}` | a segment; segments with commas between | one segment |
/// | `{/a}`, `{/a,b}` | the same, each with a slash before it | one segment |
/// | `{/a*}` | one or more segments, each with a slash before it | segments with slashes between |
/// | `{+a}`, `{+a,b}` | any text | text |
/// | `{#a}` | any text with `#` before it | text |
/// | `{?a,b}`, `{&a,b}` at the end | these parameters of a query, in any order, each once or not at all | text |
///
/// - A segment has no `/`, `\`, or NUL, and is neither empty nor `.` nor `..`.
/// - Text has no NUL, and none of the parts between its slashes and backslashes is `..`. It may begin with a slash.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UriTemplate {
    /// The text before the first variable.
    head: String,
    /// Each variable with the text that follows it; only the last one's text may be empty.
    parts: Vec<Part>,
    query: Option<Query>,
}

#[derive(Clone, Debug, PartialEq)]
struct Part {
    name: String,
    kind: VariableKind,
    suffix: String,
}

/// The kinds of values that a variable accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VariableKind {
    Segment,
    Segments,
    Text,
}

/// The query parameters at the end of a URI.
#[derive(Clone, Debug, PartialEq)]
struct Query {
    names: Vec<String>,
    /// Where they begin: at the first `?`, or at the `&` that is preceded by this many others.
    after: Option<usize>,
}

/// The reason why a URI template is not supported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateError {
    /// It has no variable, so it is the URI of a resource.
    NoVariable,
    /// A `{` or `}` without its counterpart.
    Unbalanced,
    /// An expression that [`Router::template`](super::Router::template) does not support.
    Unsupported {
        /// The text between the braces.
        variable: String,
    },
    /// Two variables with no text between them, so that the end of the first is ambiguous.
    Adjacent {
        /// The second of them.
        variable: String,
    },
    /// Text follows the query parameters, or their expression does not match the text before it.
    ///
    /// The latter is `{?…}` after a `?`, or `{&…}` without one.
    Query {
        /// The text between the braces.
        variable: String,
    },
    /// Two variables with the same name.
    Repeated {
        /// The name.
        name: String,
    },
}

error_text! { TemplateError:
    NoVariable => "it has no variable";
    Unbalanced => "its braces do not match";
    Unsupported { variable } =>
        "the expression {{{variable}}} is not supported: use {{a}}, {{a,b}}, {{/a}}, {{/a*}}, {{+a}}, {{#a}}, \
                 or {{?a,b}} and {{&a,b}} at the end";
    Adjacent { variable } => "the variable {{{variable}}} follows another one directly: separate them";
    Query { variable } =>
        "the expression {{{variable}}} has to be the last one, {{?a}} without a ? before it, {{&a}} with one";
    Repeated { name } => "two variables have the name {name}";
}

impl UriTemplate {
    pub(crate) fn parse(template: &str) -> Result<Self, TemplateError> {
        let (head, mut rest) = template.split_once('{').ok_or(TemplateError::NoVariable)?;
        let mut parsed = Self { head: head.to_owned(), parts: Vec::new(), query: None };
        loop {
            let (expression, after) = rest.split_once('}').ok_or(TemplateError::Unbalanced)?;
            let (then, next) = match after.split_once('{') {
                Some((then, next)) => (then, Some(next)),
                None => (after, None),
            };
            match Expression::read(expression)? {
                Expression::Query { separator: lead, names } => {
                    let literal =
                        |byte| parsed.literals().map(|text| text.matches(byte).count()).sum::<usize>();
                    if !after.is_empty() || (literal('?') > 0) != (lead == '&') {
                        return Err(TemplateError::Query { variable: expression.to_owned() });
                    }
                    let after = (lead == '&').then(|| literal('&'));
                    parsed.query = Some(Query { names, after });
                }
                Expression::Variables { first, between, variables } => {
                    for (number, (name, kind)) in variables.into_iter().enumerate() {
                        parsed.literal(if number == 0 { first } else { between });
                        if parsed.parts.last().is_some_and(|part| part.suffix.is_empty()) {
                            return Err(TemplateError::Adjacent { variable: expression.to_owned() });
                        }
                        parsed.parts.push(Part { name, kind, suffix: String::new() });
                    }
                    parsed.literal(then);
                }
            }
            match next {
                Some(next) => rest = next,
                None => break,
            }
        }
        if parsed.literals().any(|text| text.contains('}')) {
            return Err(TemplateError::Unbalanced);
        }
        let mut names: Vec<&String> = parsed.names().collect();
        names.sort_unstable();
        match names.windows(2).find_map(|pair| (pair.first() == pair.last()).then(|| pair.first())?) {
            Some(name) => Err(TemplateError::Repeated { name: (*name).clone() }),
            None => Ok(parsed),
        }
    }

    /// Appends literal text to the parsed template.
    fn literal(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(part) => part.suffix.push_str(text),
            None => self.head.push_str(text),
        }
    }

    fn literals(&self) -> impl Iterator<Item = &str> {
        [self.head.as_str()].into_iter().chain(self.parts.iter().map(|part| part.suffix.as_str()))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        let of_query = self.query.iter().flat_map(|query| &query.names);
        self.parts.iter().map(|part| &part.name).chain(of_query)
    }

    /// Returns the percent-decoded variables of `uri`, if it matches. Query parameters that it lacks are absent.
    pub(crate) fn matches(&self, uri: &str) -> Option<Map<String>> {
        let (uri, parameters) = match &self.query {
            Some(query) => query.split(uri),
            None => (uri, ""),
        };
        let mut rest = uri.strip_prefix(self.head.as_str())?;
        let mut variables = Vec::new();
        let mut parts = self.parts.iter().peekable();
        while let Some(part) = parts.next() {
            let value = if parts.peek().is_none() {
                core::mem::take(&mut rest).strip_suffix(part.suffix.as_str())?
            } else {
                // A value has at least one character, so the text that follows cannot begin before the second.
                let first = rest.chars().next()?.len_utf8();
                let at = rest.get(first..)?.find(part.suffix.as_str())?.saturating_add(first);
                let value = rest.get(..at)?;
                rest = rest.get(at.saturating_add(part.suffix.len())..)?;
                value
            };
            variables.push((part.name.clone(), part.kind.read(value)?));
        }
        if !rest.is_empty() {
            return None;
        }
        if let Some(query) = &self.query {
            query.read(parameters, &mut variables)?;
        }
        Some(variables.into_iter().collect())
    }
}

/// An expression between braces.
enum Expression {
    Variables {
        /// The text before the first variable.
        first: &'static str,
        /// The text before each other variable.
        between: &'static str,
        variables: Vec<(String, VariableKind)>,
    },
    Query {
        /// `?` or `&`.
        separator: char,
        names: Vec<String>,
    },
}

impl Expression {
    fn read(text: &str) -> Result<Self, TemplateError> {
        let unsupported = || TemplateError::Unsupported { variable: text.to_string() };
        let names = |list: &str| -> Result<Vec<String>, TemplateError> {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let is_name = |name: &str| !name.is_empty() && name.chars().all(plain);
            list.split(',')
                .map(|name| is_name(name).then(|| name.to_owned()).ok_or_else(unsupported))
                .collect()
        };
        let variables = |list: &str, first, between, kind| {
            let variables = names(list)?.into_iter().map(|name| (name, kind)).collect();
            Ok(Self::Variables { first, between, variables })
        };
        let mut letters = text.chars();
        let operator = letters.next();
        let list = letters.as_str();
        match operator {
            Some('+') => variables(list, "", ",", VariableKind::Text),
            Some('#') => variables(list, "#", ",", VariableKind::Text),
            Some('/') => match list.strip_suffix('*') {
                Some(list) if !list.contains(',') => variables(list, "/", "/", VariableKind::Segments),
                _ => variables(list, "/", "/", VariableKind::Segment),
            },
            Some(lead @ ('?' | '&')) => Ok(Self::Query { separator: lead, names: names(list)? }),
            _ => variables(text, "", ",", VariableKind::Segment),
        }
    }
}

impl VariableKind {
    /// Decodes a value, if it is of this kind.
    fn read(self, raw: &str) -> Option<String> {
        match self {
            Self::Segment => segment(raw),
            Self::Segments => {
                raw.split('/').map(segment).collect::<Option<Vec<_>>>().map(|all| all.join("/"))
            }
            Self::Text => Some(raw).filter(|raw| !raw.is_empty()).and_then(text),
        }
    }
}

impl Query {
    /// Splits a URI into the text before the query parameters, and the parameters with their leading separator.
    fn split<'a>(&self, uri: &'a str) -> (&'a str, &'a str) {
        let end = uri.find('#').unwrap_or(uri.len());
        let within = uri.get(..end).unwrap_or_default();
        let begin = within.find('?');
        let at = match (begin, self.after) {
            (begin, None) => begin,
            (None, Some(_)) => None,
            (Some(begin), Some(before)) => {
                let query = within.get(begin..).unwrap_or_default();
                query.match_indices('&').nth(before).map(|(at, _)| begin.saturating_add(at))
            }
        };
        uri.split_at_checked(at.unwrap_or(uri.len())).unwrap_or((uri, ""))
    }

    /// Reads the parameters, if each is known and none repeats.
    fn read(&self, parameters: &str, into: &mut Vec<(String, String)>) -> Option<()> {
        let Some(list) = parameters.strip_prefix(['?', '&']) else { return Some(()) };
        let mut open: Vec<&String> = self.names.iter().collect();
        for pair in list.split('&') {
            let (name, value) = pair.split_once('=')?;
            // Each step removes one name, so there are at most as many steps as names.
            let place = open.iter().position(|open| *open == name)?;
            let value = if value.contains(['#', '?']) { None } else { text(value) }?;
            into.push((open.swap_remove(place).clone(), value));
        }
        Some(())
    }
}

//= S8.13 "sanitise paths"
/// Decodes one segment of a path.
fn segment(raw: &str) -> Option<String> {
    let value = decode(raw).filter(|_| !raw.contains(['/', '?', '#']))?;
    let leads_elsewhere = matches!(value.as_str(), "" | "." | "..") || value.contains(['/', '\\', '\0']);
    (!leads_elsewhere).then_some(value)
}

//= S8.13 "sanitise paths"
/// Decodes text that may be a path.
fn text(raw: &str) -> Option<String> {
    let value = decode(raw)?;
    let leads_elsewhere = value.contains('\0') || value.split(['/', '\\']).any(|part| part == "..");
    (!leads_elsewhere).then_some(value)
}

/// Decodes percent-encoding once; doubly encoded text stays encoded once.
fn decode(raw: &str) -> Option<String> {
    String::from_utf8(percent_decode(raw)?).ok()
}

//= S8.13 "custom schemes RFC 3986"
/// Whether `uri` is a URI after RFC 3986, with a scheme.
pub(crate) fn is_uri(uri: &str) -> bool {
    UriStr::new(uri).is_ok()
}

#[cfg(test)]
mod tests;
