//! Files of environment variables, and what an approval says of one.

use alloc::collections::BTreeMap;
use core::fmt;

use serde::{Deserialize, Serialize};

use super::{ENV_FILE_BYTES, MAX_SERVERS};
use crate::Secret;
use crate::consent::is_harmless_variable;
use crate::host::digest::{Digester, Hex};
use crate::prelude::*;

/// Reads a `.env` file: the variables that it sets, by name. The last of several with one name counts.
///
/// Each line is `NAME=value`, with or without `export` before it; empty lines and those that begin with `#` are
/// skipped. A value without quotes ends at ` #` or at the end of the line. In single quotes everything is literal; in
/// double quotes `\n`, `\r`, `\t`, `\"`, `\\` and `\$` are escapes. A value in quotes may have several lines. Nothing is
/// replaced in values: neither `$NAME` nor `$(command)`.
///
/// ```
/// use mcp_proto::host::config::parse_dotenv;
///
/// let variables = parse_dotenv("# keys\nexport KEY='a # b'\nHOST = localhost # here\n")?;
/// assert_eq!(variables["KEY"].expose(), "a # b");
/// assert_eq!(variables["HOST"].expose(), "localhost");
/// # Ok::<(), mcp_proto::host::config::DotenvError>(())
/// ```
///
/// # Errors
/// If a line is no assignment, or the file is larger than [`ENV_FILE_BYTES`] or has more than [`MAX_SERVERS`] variables.
pub fn parse_dotenv(text: &str) -> Result<BTreeMap<String, Secret>, DotenvError> {
    if text.len() > ENV_FILE_BYTES {
        return Err(DotenvError { line: 0 });
    }
    let mut variables = BTreeMap::new();
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut line = 1_usize;
    while !rest.is_empty() {
        let error = DotenvError { line };
        let start = rest.trim_start_matches([' ', '\t', '\r']);
        let after = if start.starts_with(['#', '\n']) || start.is_empty() {
            end_of_line(start).1
        } else {
            let (name, assigned) = start.split_once('=').ok_or(error)?;
            let name = name.trim_end_matches([' ', '\t']);
            let name = name
                .strip_prefix("export")
                .filter(|name| name.starts_with([' ', '\t']))
                .map_or(name, |name| name.trim_start_matches([' ', '\t']));
            let (value, after) = value(assigned.trim_start_matches([' ', '\t'])).ok_or(error)?;
            variables.insert(name.into(), value);
            if !is_variable_name(name) || variables.len() > MAX_SERVERS {
                return Err(error);
            }
            after
        };
        let read = rest.len().saturating_sub(after.len());
        line = line.saturating_add(
            memchr::memchr_iter(b'\n', rest.as_bytes().get(..read).unwrap_or_default()).count(),
        );
        rest = after;
    }
    Ok(variables)
}

/// Whether this is the name of an environment variable in a file.
fn is_variable_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// The text up to the end of the line, and the text after it.
fn end_of_line(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}

/// Reads a value: the value, and the text after its line.
fn value(text: &str) -> Option<(Secret, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    let Some(quote) = quote else {
        let (line, after) = end_of_line(text);
        let end = [" #", "\t#"].iter().filter_map(|comment| line.find(comment)).min();
        let value = end.and_then(|end| line.get(..end)).unwrap_or(line);
        let value = if value.starts_with('#') { "" } else { value.trim_end() };
        return (!value.contains('\0')).then(|| (Secret::new(value), after));
    };
    let quoted = text.strip_prefix(quote)?;
    let mut is_escaped = false;
    let end = quoted.find(|c: char| {
        let is_end = c == quote && !is_escaped;
        is_escaped = quote == '"' && c == '\\' && !is_escaped;
        is_end
    })?;
    let (content, after) = quoted.split_at_checked(end)?;
    let (trailing, after) = end_of_line(after.strip_prefix(quote)?);
    let trailing = trailing.trim_start();
    let is_valid = !content.contains('\0') && (trailing.is_empty() || trailing.starts_with('#'));
    is_valid.then(|| (if quote == '"' { unescape(content) } else { Secret::new(content) }, after))
}

/// Replaces the escapes of double quotes. The value is never longer, so that no copy of it stays behind in memory that
/// was too small.
fn unescape(content: &str) -> Secret {
    let mut value = String::with_capacity(content.len());
    let mut characters = content.chars();
    while let Some(character) = characters.next() {
        match (character, if character == '\\' { characters.next() } else { None }) {
            ('\\', Some('n')) => value.push('\n'),
            ('\\', Some('r')) => value.push('\r'),
            ('\\', Some('t')) => value.push('\t'),
            ('\\', Some(escaped @ ('"' | '\\' | '$'))) => value.push(escaped),
            (character, other) => value.extend([Some(character), other].into_iter().flatten()),
        }
    }
    Secret::new(value)
}

/// A file of environment variables that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DotenvError {
    /// The line, from 1, where the assignment begins that is wrong; 0 if the file is too large.
    pub line: usize,
}

impl fmt::Display for DotenvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str("the file of environment variables is too large"),
            line => {
                write!(f, "line {line} of the file of environment variables is not of the form NAME=value")
            }
        }
    }
}

impl core::error::Error for DotenvError {}

/// The names in a file of environment variables, and the values of those that are not harmless, as a hash with a key: no
/// value can be read from it, and equal values of two approvals differ.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::host) struct EnvFileBinding(Hex<16>, Hex<32>);

impl EnvFileBinding {
    pub(in crate::host) fn new(variables: &BTreeMap<String, Secret>, key: [u8; 16]) -> Self {
        let mut digester = Digester::new("file of variables");
        digester.bytes(&key);
        digester.list(variables.iter(), |digester, (name, value)| {
            digester.text(name);
            let value = Some(value).filter(|_| !is_harmless_variable(name));
            digester.option(value, |digester, value| digester.text(value.expose()));
        });
        Self(Hex(key), digester.finish())
    }

    pub(in crate::host) fn matches(&self, variables: &BTreeMap<String, Secret>) -> bool {
        Self::new(variables, self.0.0) == *self
    }
}

debug_fields! { EnvFileBinding => "EnvFileBinding" }
