//! Texts with references, the lookups that they need, and their answers.

use alloc::collections::BTreeMap;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::Secret;
use crate::consent::is_harmless_variable;
use crate::host::digest::{Digester, Hex};
use crate::prelude::*;

use super::{ENV_FILE_BYTES, MAX_SERVERS};

//= F85 "References stay unresolved in the configuration"
/// A configured text with references such as `${TOKEN}`, which are replaced when the server starts.
///
/// The text may itself be a secret that the user wrote into the file, so `Debug` shows only the references.
///
/// ```
/// use mcp_proto::host::config::{Lookup, Template};
///
/// let template = Template::parse("Bearer ${TOKEN}")?;
/// assert_eq!(template.text(), "Bearer ${TOKEN}");
/// assert_eq!(template.lookups().collect::<Vec<_>>(), [&Lookup::Variable("TOKEN".into())]);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Template {
    /// No two neighbours are texts.
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Part {
    Text(String),
    Reference(Reference),
}

/// A reference to a value from outside.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Reference {
    pub(super) lookup: Lookup,
    /// Replaces a value that is absent or empty.
    default: Option<String>,
    /// The reference as it was written.
    pub(super) written: String,
}

impl Reference {
    /// The value without one from outside: its default, or that of its input in `inputs`, by id.
    pub(super) fn default_value<'a>(&'a self, inputs: &BTreeMap<&str, &'a str>) -> Option<&'a str> {
        self.default.as_deref().or_else(|| match &self.lookup {
            Lookup::Input(id) => inputs.get(id.as_str()).copied(),
            _ => None,
        })
    }
}

impl Template {
    /// A text without references.
    pub fn literal(text: impl Into<String>) -> Self {
        let mut template = Self { parts: Vec::new() };
        template.push_text(&text.into());
        template
    }

    /// Reads the references `${X}`, `${X:-default}`, `${env:X}`, `${input:x}`, and predefined variables such as
    /// `${workspaceFolder}`. A `$` that begins no reference is literal, and a default is used if the variable is absent
    /// or empty.
    ///
    /// # Errors
    /// If a reference has a form that is not supported, such as `${command:x}` or a reference within a default: returns
    /// that reference.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_as(text, References::Braces)
    }

    /// A text whose whole value is an environment variable.
    pub(super) fn variable(before: &str, name: &str) -> Self {
        let mut template = Self::literal(before);
        template.parts.push(Part::Reference(Reference {
            lookup: Lookup::Variable(name.into()),
            default: None,
            written: format!("${{{name}}}"),
        }));
        template
    }

    pub(super) fn parse_as(text: &str, references: References) -> Result<Self, String> {
        let mut template = Self { parts: Vec::new() };
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$').filter(|_| references != References::None) {
            template.push_text(before);
            rest = after;
            match reference(after, references)? {
                Some((reference, after)) => {
                    template.parts.push(Part::Reference(reference));
                    rest = after;
                }
                None => template.push_text("$"),
            }
        }
        template.push_text(rest);
        Ok(template)
    }

    fn push_text(&mut self, text: &str) {
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Text(last)) => last.push_str(text),
            _ => self.parts.push(Part::Text(text.into())),
        }
    }

    /// The text as it was written, with its references.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            text.push_str(match part {
                Part::Text(part) => part,
                Part::Reference(reference) => &reference.written,
            });
        }
        text
    }

    /// The text that it has if nothing is set outside: defaults in place of references, or nothing. `inputs` has those of
    /// inputs, by id.
    pub(in crate::host) fn with_defaults<'a>(&'a self, inputs: &BTreeMap<&str, &'a str>) -> String {
        self.resolve(|reference| Some(reference.default_value(inputs).unwrap_or_default()))
            .unwrap_or_default()
    }

    /// The values that it needs from outside, as often as it has them.
    pub fn lookups(&self) -> impl Iterator<Item = &Lookup> {
        self.references().map(|reference| &reference.lookup)
    }

    pub(super) fn references(&self) -> impl Iterator<Item = &Reference> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Reference(reference) => Some(reference),
        })
    }

    /// Whether nothing needs to be looked up.
    pub fn is_literal(&self) -> bool {
        self.references().next().is_none()
    }

    /// Replaces each reference by its value, or returns the first that has none. The text is built in one piece of
    /// memory, so that no copy of a secret stays behind.
    pub(super) fn resolve<'a>(
        &'a self,
        value: impl Fn(&'a Reference) -> Option<&'a str>,
    ) -> Result<String, Lookup> {
        let mut texts = Vec::with_capacity(self.parts.len());
        let mut length = 0_usize;
        for part in &self.parts {
            let text = match part {
                Part::Text(text) => text,
                Part::Reference(reference) => value(reference).ok_or_else(|| reference.lookup.clone())?,
            };
            length = length.saturating_add(text.len());
            texts.push(text);
        }
        let mut resolved = String::with_capacity(length);
        texts.into_iter().for_each(|text| resolved.push_str(text));
        Ok(resolved)
    }

    /// Adds the meaning of the text: `${X}` and `${env:X}` mean the same.
    pub(super) fn digest(digester: &mut Digester, template: &Self) {
        digester.list(template.parts.iter(), |digester, part| match part {
            Part::Text(text) => {
                digester.text("text");
                digester.text(text);
            }
            Part::Reference(Reference { lookup, default, written: _ }) => {
                let (kind, text) = match lookup {
                    Lookup::Variable(name) => ("variable", name.as_str()),
                    Lookup::Input(id) => ("input", id.as_str()),
                    Lookup::Predefined(variable) => ("predefined", variable.as_str()),
                    Lookup::EnvFile(path) => ("file", path.as_str()),
                };
                digester.text(kind);
                digester.text(text);
                digester.option(default.as_deref(), Digester::text);
            }
        });
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Template(")?;
        for part in &self.parts {
            match part {
                Part::Text(_) => f.write_str("..")?,
                Part::Reference(reference) => write!(f, "{:?}", reference.lookup)?,
            }
        }
        f.write_str(")")
    }
}

/// Reads the reference whose `$` stands before this text: the reference and the text after it, or `None` if the `$` is
/// literal.
fn reference(after: &str, references: References) -> Result<Option<(Reference, &str)>, String> {
    if let Some(inner) = after.strip_prefix('{') {
        let Some((inner, rest)) = inner.split_at_checked(reference_end(inner)) else { return Ok(None) };
        let Some(rest) = rest.strip_prefix('}') else {
            // A reference within a default would end at its own brace.
            let is_nested = rest.starts_with("${") && inner.contains(":-");
            return if is_nested { Err(format!("${{{inner}${{..}}}}")) } else { Ok(None) };
        };
        return Ok(braces(inner, references)?.map(|(lookup, default)| {
            let written = format!("${{{inner}}}");
            (Reference { lookup, default: default.map(String::from), written }, rest)
        }));
    }
    if references != References::WithoutBraces {
        return Ok(None);
    }
    let rest = after.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let name = after.strip_suffix(rest).unwrap_or_default();
    Ok(is_name(name).then(|| {
        let lookup = Lookup::Variable(name.into());
        (Reference { lookup, default: None, written: format!("${name}") }, rest)
    }))
}

/// Where a reference ends: before the next closing brace or the next reference, or at the end of the text. Looking no
/// further keeps the work linear.
fn reference_end(inner: &str) -> usize {
    let next = inner.bytes().skip(1).chain([0]);
    let end = inner.bytes().zip(next).position(|pair| pair.0 == b'}' || pair == (b'$', b'{'));
    end.unwrap_or(inner.len())
}

/// Reads what stands between the braces; `None` if it is literal.
fn braces(inner: &str, references: References) -> Result<Option<(Lookup, Option<&str>)>, String> {
    let unsupported = || format!("${{{inner}}}");
    if let Some(variable) = PredefinedVariable::from_name(inner) {
        return Ok(Some((Lookup::Predefined(variable), None)));
    }
    if let Some(id) = inner.strip_prefix("input:") {
        return if id.is_empty() { Err(unsupported()) } else { Ok(Some((Lookup::Input(id.into()), None))) };
    }
    let (variable, is_prefixed) =
        inner.strip_prefix("env:").map_or((inner, false), |variable| (variable, true));
    let (name, default) = match variable.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (variable, None),
    };
    // Windows has variables such as `ProgramFiles(x86)`.
    let is_variable = if is_prefixed {
        !name.is_empty() && !name.contains(['$', '{', '=', ':', '\0'])
    } else {
        is_name(name)
    };
    if is_variable && (is_prefixed || references != References::Prefixed) {
        return Ok(Some((Lookup::Variable(name.into()), default)));
    }
    // `${command:x}`, `${config:x}`, `${X:?message}`: dropping or keeping them would start something else.
    let has_prefix = inner.split_once(':').is_some_and(|(prefix, _)| is_name(prefix));
    if has_prefix { Err(unsupported()) } else { Ok(None) }
}

/// Whether this is the name of a variable as shells write it.
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The forms of references that an application replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum References {
    /// None: every text is literal.
    None,
    /// `${env:X}`, `${input:x}` and predefined variables; `${X}` is literal.
    Prefixed,
    /// Those, `${X}` and `${X:-default}`.
    Braces,
    /// Those and `$X`.
    WithoutBraces,
}

/// A value that an entry needs from outside when its server starts.
///
/// The application answers each from its environment, from its secret store, by asking the user, or by reading a file.
/// Store inputs by server: another server's input of the same id is another value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Lookup {
    /// The environment variable of this name.
    Variable(String),
    /// The input of this id, which the user types or picks.
    Input(String),
    /// A variable that the application defines.
    Predefined(PredefinedVariable),
    /// The whole content of the `.env` file at this path, which is absolute or begins in the project's folder.
    EnvFile(String),
}

display_text! { Lookup:
    Variable(name) => "the environment variable {name}";
    Input(id) => "the input {id}";
    Predefined(variable) => "${{{}}}", variable.as_str();
    // The path may be made of secrets.
    EnvFile(_) => "the file of environment variables";
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => f.debug_tuple("Variable").field(name).finish(),
            Self::Input(id) => f.debug_tuple("Input").field(id).finish(),
            Self::Predefined(variable) => f.debug_tuple("Predefined").field(variable).finish(),
            Self::EnvFile(_) => f.write_str("EnvFile(..)"),
        }
    }
}

/// A variable that editors define for their configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PredefinedVariable {
    /// `${workspaceFolder}`: the path of the project's folder.
    WorkspaceFolder,
    /// `${workspaceFolderBasename}`: the name of the project's folder.
    WorkspaceFolderBasename,
    /// `${userHome}`: the user's home folder.
    UserHome,
    /// `${cwd}`: the working directory of the application.
    WorkingDirectory,
    /// `${pathSeparator}` or `${/}`: a slash, or a backslash on Windows.
    PathSeparator,
}

impl PredefinedVariable {
    /// The name, as written between the braces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WorkspaceFolder => "workspaceFolder",
            Self::WorkspaceFolderBasename => "workspaceFolderBasename",
            Self::UserHome => "userHome",
            Self::WorkingDirectory => "cwd",
            Self::PathSeparator => "pathSeparator",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        use PredefinedVariable::{
            PathSeparator, UserHome, WorkingDirectory, WorkspaceFolder, WorkspaceFolderBasename,
        };
        let all = [WorkspaceFolder, WorkspaceFolderBasename, UserHome, WorkingDirectory, PathSeparator];
        let name = if name == "/" { "pathSeparator" } else { name };
        all.into_iter().find(|variable| variable.as_str() == name)
    }
}

/// The answers to [`Lookup`]s, for one start of one server: dropped, and wiped from memory, once it is resolved.
///
/// ```
/// use mcp_proto::Secret;
/// use mcp_proto::host::config::{Answers, Lookup};
///
/// let mut answers = Answers::new();
/// answers.insert(Lookup::Variable("TOKEN".into()), Some(Secret::new("s3cret")));
/// // There is no such variable:
/// answers.insert(Lookup::Variable("PORT".into()), None);
/// assert!(!format!("{answers:?}").contains("s3cret"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Answers {
    values: BTreeMap<Lookup, Option<Secret>>,
}

impl Answers {
    /// No answers.
    pub const fn new() -> Self {
        Self { values: BTreeMap::new() }
    }

    /// Answers a lookup; `None` if there is no such value.
    pub fn insert(&mut self, lookup: Lookup, value: Option<Secret>) {
        self.values.insert(lookup, value);
    }

    /// Whether the lookup has been answered, by a value or by its absence.
    pub fn contains(&self, lookup: &Lookup) -> bool {
        self.values.contains_key(lookup)
    }

    /// The value, if there is one.
    pub fn get(&self, lookup: &Lookup) -> Option<&Secret> {
        self.values.get(lookup)?.as_ref()
    }

    /// Returns the values that exist, each with its lookup.
    pub fn iter(&self) -> impl Iterator<Item = (&Lookup, &Secret)> {
        self.values.iter().filter_map(|(lookup, value)| Some((lookup, value.as_ref()?)))
    }
}

// Files of environment variables, and what an approval says of one.

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
