//! The text of a configuration file, in JSON or TOML, read into the tables that concern servers.

use core::fmt;

use memchr::memmem;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use toml::de::{DeTable, DeValue};

use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::prelude::*;
use crate::rpc::json_reader::{NotJson, Reader};

use super::ConfigErrorKind;
use super::NAME_BYTES;
use super::entry::{Application, SERVER_TABLES, Source};

/// Zed's timeout of requests, in seconds.
const ZED_TIMEOUT: &str = "context_server_timeout";
/// The timeout of requests in milliseconds: a member of an entry, or of the file for all entries without one.
pub(super) const REQUEST_TIMEOUT: &str = "requestTimeoutMs";

/// A value of JSON or TOML. A table keeps repeated names, which are errors of the entry that has them.
pub(super) enum Value {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Value>),
    Table(Table),
}

pub(super) type Table = Vec<(String, Value)>;

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(i64::try_from(value).map_or_else(|_| Value::Text(value.to_string()), Value::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut table = Vec::new();
        while let Some(member) = members.next_entry()? {
            table.push(member);
        }
        Ok(Value::Table(table))
    }
}

/// The parts of a file that concern servers. Everything else in it is skipped.
#[derive(Default)]
pub(super) struct Document {
    /// The tables of servers, with the names of the tables.
    pub(super) tables: Vec<(String, Value)>,
    /// The declarations of inputs.
    pub(super) inputs: Vec<Value>,
    /// The timeout of requests for all servers, with the name of its member: [`ZED_TIMEOUT`] or [`REQUEST_TIMEOUT`].
    pub(super) timeout: Option<(&'static str, Value)>,
    /// Gemini's names of the only servers that are used.
    pub(super) allowed: Option<Value>,
    /// Gemini's names of servers that are not used, even if they are allowed.
    pub(super) excluded: Option<Value>,
    pub(super) lines: ServerLines,
}

impl Document {
    /// Reads a file: TOML if its path says so, else JSON with comments and trailing commas.
    pub(super) fn parse(source: &Source, text: &[u8]) -> Result<Self, ConfigErrorKind> {
        let text = decoded(source, text)?;
        if !is_toml(source) {
            return from_json(text, &[]);
        }
        let document = toml::from_str(text).map(|document| Self { lines: of_toml(text), ..document });
        document.map_err(|error| {
            // Only the message: the error's own text quotes the line, which may have a secret.
            let start = error.span().map_or(0, |span| span.start);
            let (line, column) = position(text.as_bytes().get(..start).unwrap_or_default());
            ConfigErrorKind::Syntax { line, column, message: error.message().into() }
        })
    }

    /// Reads what a file of Claude Code has for the project in this folder: the member of `projects` under it.
    pub(super) fn of_project(source: &Source, text: &[u8], folder: &str) -> Result<Self, ConfigErrorKind> {
        from_json(decoded(source, text)?, &["projects", &normal(folder)])
    }

    fn add(&mut self, name: &str, value: Value) {
        match (name, value) {
            ("inputs", Value::List(inputs)) => self.inputs.extend(inputs),
            ("inputs", value) => self.inputs.push(value),
            (ZED_TIMEOUT, value) => self.timeout = Some((ZED_TIMEOUT, value)),
            (REQUEST_TIMEOUT, value) => self.timeout = Some((REQUEST_TIMEOUT, value)),
            ("allowed", value) => self.allowed = Some(value),
            ("excluded", value) => self.excluded = Some(value),
            (_, value) => self.tables.push((name.into(), value)),
        }
    }
}

/// The text of a file that is not too long.
pub(super) fn decoded<'a>(source: &Source, text: &'a [u8]) -> Result<&'a str, ConfigErrorKind> {
    let most = source.scope.max_bytes();
    if text.len() > most {
        return Err(ConfigErrorKind::FileTooLarge(most));
    }
    let text = core::str::from_utf8(text).map_err(|error| {
        let (line, column) = position(text.get(..error.valid_up_to()).unwrap_or_default());
        ConfigErrorKind::Syntax { line, column, message: "the file is not UTF-8".into() }
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

pub(super) fn is_toml(source: &Source) -> bool {
    let extension = source.path.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
        || source.application == Application::Codex
}

/// The line and column, each from 1, of the character that follows this text.
fn position(before: &[u8]) -> (usize, usize) {
    let lines = memchr::memchr_iter(b'\n', before).count();
    let column = memchr::memrchr(b'\n', before)
        .map_or(before.len(), |newline| before.len().saturating_sub(newline).saturating_sub(1));
    (lines.saturating_add(1), column.saturating_add(1))
}

/// Reads the document to which these names of members lead.
fn from_json(text: &str, path: &[&str]) -> Result<Document, ConfigErrorKind> {
    let text = to_json(text);
    let mut json = serde_json::Deserializer::from_slice(&text);
    let document = DocumentAt(path).deserialize(&mut json);
    let lines = || str::from_utf8(&text).map(|text| of_json(text, path)).unwrap_or_default();
    let document = document.and_then(|document| json.end().map(|()| Document { lines: lines(), ..document }));
    document.map_err(|error| {
        // serde_json ends its message with the position, which is a field of its own here.
        let message = error.to_string();
        let what = message.rsplit_once(" at line ").map_or(message.as_str(), |(what, _)| what);
        ConfigErrorKind::Syntax { line: error.line(), column: error.column(), message: what.into() }
    })
}

/// A path with slashes, none of them at its end.
pub(super) fn normal(path: &str) -> String {
    let path = path.replace('\\', "/");
    path.trim_end_matches('/').into()
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DocumentAt(&[]).deserialize(deserializer)
    }
}

/// Reads the document to which these names of members lead, and skips everything else.
#[derive(Clone, Copy)]
struct DocumentAt<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for DocumentAt<'_> {
    type Value = Document;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Document, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for DocumentAt<'_> {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.len() == 1 { "an object of projects by folder" } else { "an object" })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Document, A::Error> {
        let mut document = Document::default();
        while let Some(name) = members.next_key::<String>()? {
            match (self.0.split_first(), name.as_str()) {
                (Some((step, rest)), name) if normal(name) == **step => {
                    document = members.next_value_seed(DocumentAt(rest))?;
                }
                // In VS Code's settings it has servers and inputs, in Gemini's the names of those that are used.
                (None, "mcp") => {
                    let Value::Table(settings) = members.next_value()? else { continue };
                    let has_meaning =
                        |name: &str| matches!(name, "servers" | "inputs" | "allowed" | "excluded");
                    let settings = settings.into_iter().filter(|(name, _)| has_meaning(name));
                    settings.for_each(|(name, value)| document.add(&name, value));
                }
                (None, known @ ("inputs" | ZED_TIMEOUT | REQUEST_TIMEOUT)) => {
                    document.add(known, members.next_value()?);
                }
                (None, table) if SERVER_TABLES.contains(&table) => {
                    document.add(table, members.next_value()?);
                }
                _ => _ = members.next_value::<IgnoredAny>()?,
            }
        }
        Ok(document)
    }
}

/// Replaces comments and trailing commas by spaces, byte for byte, so that the JSON keeps its lines and columns.
/// A comment that does not end is left as it is, and is an error of the JSON.
pub(super) fn to_json(text: &str) -> Vec<u8> {
    let mut json = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    // Where the last comma stands, if only spaces and comments follow it, and a value stands before it.
    let mut last_comma = None;
    let mut last_token = b'[';
    loop {
        let (is_comment, length) = match rest {
            [] => return json,
            [b'/', b'/', ..] => (true, memchr::memchr(b'\n', rest).unwrap_or(rest.len())),
            [b'/', b'*', comment @ ..] => match memmem::find(comment, b"*/") {
                Some(end) => (true, end.saturating_add("/**/".len())),
                None => (false, rest.len()),
            },
            [b'"', ..] => (false, string_length(rest)),
            _ => (false, 1),
        };
        let Some((piece, after)) = rest.split_at_checked(length) else { return json };
        if is_comment {
            json.extend(piece.iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }));
        } else if piece.iter().all(u8::is_ascii_whitespace) {
            json.extend_from_slice(piece);
        } else {
            if let (b"]" | b"}", Some(comma)) = (piece, last_comma.and_then(|at: usize| json.get_mut(at))) {
                *comma = b' ';
            }
            let ends_value = !matches!(last_token, b'[' | b'{' | b',' | b':');
            last_comma = Some(json.len()).filter(|_| piece == b"," && ends_value);
            last_token = piece.last().copied().unwrap_or(last_token);
            json.extend_from_slice(piece);
        }
        rest = after;
    }
}

/// The bytes of the string that this text begins with, with its quotes; all of the text if the string does not end.
fn string_length(text: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = text.iter().skip(1).position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |end| end.saturating_add(2))
}

/// The texts in a damaged file that may be the names of servers: the keys of JSON, the keys and headers of TOML. Others
/// are among them, such as the names of members.
pub(super) fn possible_names(text: &[u8], is_toml: bool) -> OrderedSet<String> {
    let ends = if is_toml { b"=].".as_slice() } else { b":{" };
    let mut names = OrderedSet::new();
    for (end, _) in text.iter().enumerate().filter(|(_, byte)| ends.contains(byte)) {
        // A longer name is none.
        let start = end.saturating_sub(NAME_BYTES.saturating_add(8));
        let before = text.get(start..end).unwrap_or_default().trim_ascii_end();
        let before = before.strip_suffix(b":").unwrap_or(before).trim_ascii_end();
        names.extend(quoted(before).map(unescaped));
        names.extend(unquoted(before).map(|name| String::from_utf8_lossy(name).into_owned()));
    }
    names.retain(|name| !name.is_empty() && name.len() <= NAME_BYTES);
    names
}

/// The text in quotes that ends here.
fn quoted(before: &[u8]) -> Option<&[u8]> {
    let (quote, text) = before.split_last().filter(|(quote, _)| matches!(quote, b'"' | b'\''))?;
    let is_start = |place: &usize| {
        let escape = place.checked_sub(1).and_then(|before| text.get(before));
        text.get(*place) == Some(quote) && escape != Some(&b'\\')
    };
    let start = (0..text.len()).rev().find(is_start)?;
    text.get(start.saturating_add(1)..)
}

/// The last word, which may lack a quote.
fn unquoted(before: &[u8]) -> Option<&[u8]> {
    let is_quote = |byte: &u8| matches!(byte, b'"' | b'\'');
    let before = before.split_last().filter(|(last, _)| is_quote(last)).map_or(before, |(_, text)| text);
    let word = before.rsplit(|byte| is_quote(byte) || b"{}[],:=.\r\n".contains(byte)).next();
    word.map(<[u8]>::trim_ascii)
}

fn unescaped(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name).into_owned();
    serde_json::from_str(&format!("\"{name}\"")).unwrap_or(name)
}

// The lines of servers in configuration files.

/// The line on which the name of each server stands, from 1.
pub(super) type ServerLines = OrderedMap<String, usize>;

/// Finds the servers of the document to which these names of members lead, in JSON that was read.
pub(super) fn of_json(json: &str, path: &[&str]) -> ServerLines {
    let mut names = Vec::new();
    // A text that is not valid has an error already.
    let _ = read_document(&mut Reader::new(json), path, &mut names);
    lines(json, names)
}

/// Finds the servers in TOML that was read.
pub(super) fn of_toml(text: &str) -> ServerLines {
    let Ok(document) = DeTable::parse(text) else { return ServerLines::new() };
    let tables =
        document.get_ref().iter().filter_map(|(name, table)| match (&**name.get_ref(), table.get_ref()) {
            ("mcp", DeValue::Table(settings)) => settings.get("servers").map(|table| table.get_ref()),
            (name, table) => SERVER_TABLES.contains(&name).then_some(table),
        });
    let servers = tables.flat_map(|table| match table {
        DeValue::Table(servers) => servers.keys().collect(),
        _ => Vec::new(),
    });
    lines(text, servers.map(|name| (name.get_ref().to_string(), name.span().start)).collect())
}

/// The names of servers, and where they stand.
type Names = Vec<(String, usize)>;

/// Counts the lines before each name; the first of a repeated name counts.
fn lines(text: &str, mut names: Names) -> ServerLines {
    names.sort_by_key(|(_, at)| *at);
    let (mut line, mut counted) = (1_usize, 0);
    let mut lines = ServerLines::new();
    for (name, at) in names {
        let between = text.as_bytes().get(counted..at).unwrap_or_default();
        line = line.saturating_add(memchr::memchr_iter(b'\n', between).count());
        counted = at;
        lines.entry(name).or_insert(line);
    }
    lines
}

fn read_document(reader: &mut Reader<'_>, path: &[&str], names: &mut Names) -> Result<(), NotJson> {
    each_member(reader, |reader, name, _| match (path.split_first(), name) {
        (Some((step, rest)), name) if normal(name) == **step => read_document(reader, rest, names),
        (None, "mcp") => each_member(reader, |reader, name, _| match name {
            "servers" => read_servers(reader, names),
            _ => reader.skip().map(drop),
        }),
        (None, table) if SERVER_TABLES.contains(&table) => read_servers(reader, names),
        _ => reader.skip().map(drop),
    })
}

fn read_servers(reader: &mut Reader<'_>, names: &mut Names) -> Result<(), NotJson> {
    each_member(reader, |reader, name, at| {
        names.push((name.into(), at));
        reader.skip().map(drop)
    })
}

/// Calls `read` at the value of each member, with its name and the name's offset. Skips a value that is no object.
pub(super) fn each_member<'a>(
    reader: &mut Reader<'a>,
    mut read: impl FnMut(&mut Reader<'a>, &str, usize) -> Result<(), NotJson>,
) -> Result<(), NotJson> {
    if reader.first_byte()? != b'{' {
        return reader.skip().map(drop);
    }
    reader.enter(b'{')?;
    let (mut is_first, mut before) = (true, reader.at());
    while let Some(name) = reader.name(&mut is_first)? {
        let quote = reader.since(before).find('"').unwrap_or_default();
        read(reader, &name, before.saturating_add(quote))?;
        before = reader.at();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString as _};

    use proptest::prelude::*;
    use serde_json::Value;

    use super::{NAME_BYTES, possible_names, to_json};

    fn json(text: &str) -> String {
        String::from_utf8(to_json(text)).unwrap()
    }

    #[test]
    fn comments_and_trailing_commas_become_spaces_in_place() {
        let text = "{ // one\n  \"a\": [1, 2, /* two\n */ ], // three\n}";
        let expected = "{       \n  \"a\": [1, 2         \n    ]          \n}";
        let read = json(text);
        assert_eq!(read.replace(' ', ""), expected.replace(' ', ""));
        assert_eq!(read.len(), text.len());
        assert!(serde_json::from_str::<Value>(&read).is_ok());
    }

    #[test]
    fn comments_within_strings_are_kept() {
        let text = r#"{"url": "https://a.example/*x*/", "quote": "\"//", "path": "C:\\",}"#;
        let value: Value = serde_json::from_str(&json(text)).unwrap();
        assert_eq!(value["url"], "https://a.example/*x*/");
        assert_eq!(value["quote"], "\"//");
        assert_eq!(value["path"], "C:\\");
    }

    #[test]
    fn commas_without_a_value_stay_errors() {
        for text in ["[,]", "{,}", "[1,,]", "[1,,2]", r#"{"a":,}"#, "[1] /* open", "[1] / 2"] {
            assert!(serde_json::from_str::<Value>(&json(text)).is_err(), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn strict_json_is_unchanged(numbers in proptest::collection::vec(any::<i32>(), 0..9), text in ".*") {
            let strict = serde_json::json!({ "numbers": numbers, "nested": { "text": text } }).to_string();
            prop_assert_eq!(json(&strict), strict);
        }

        #[test]
        fn arbitrary_text_keeps_its_lines_and_length(text in "[\\[\\]{},:/*\"\\\\ \n\ta1é]{0,60}") {
            let read = to_json(&text);
            prop_assert_eq!(read.len(), text.len());
            let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
            prop_assert_eq!(lines(&read), lines(text.as_bytes()));
        }
    }

    #[test]
    fn names_are_found_whatever_is_damaged() {
        for text in [
            r#"{"mcpServers": {"my git": {"command": "x" "args": []}}}"#,
            r#"{"mcpServers": {"my git": "#,
            r#"{"mcpServers": {"my git" {"command": "x"}}}"#,
            r#"{"mcpServers": {"my git: {"command": "x"}}}"#,
            r#"{"mcpServers": {my git": {"command": "x"}}}"#,
            r#"{'mcpServers': {'my git': {'command': 'x'}}}"#,
            r#"{mcpServers: {my git: {command: x}}}"#,
            r#"{"mcpServers": {"my\u0020git": {"command": x}}}"#,
        ] {
            assert!(possible_names(text.as_bytes(), false).contains("my git"), "{text}");
        }
        for text in [
            "[mcp_servers.\"my git\"]\ncommand = x",
            "[mcp_servers.\"my git\".env]\nA = ",
            "[[mcp_servers.'my git']\n",
            "mcp_servers = { \"my git\" = { command = x } }",
            "mcp_servers.\"my git\".command = x",
        ] {
            assert!(possible_names(text.as_bytes(), true).contains("my git"), "{text}");
        }
        assert!(possible_names(b"{\"\xff\": 1,\n\"my git\": {}", false).contains("my git"));
        assert!(possible_names(b"[mcp_servers.git]\n=", true).contains("git"));
    }

    #[test]
    fn arbitrary_bytes_have_names_of_bounded_length() {
        let long = ["\"".repeat(1000), ":".repeat(1000), "a".repeat(1000), "\":".repeat(1000)].concat();
        for text in [long.as_bytes(), b"\xff\xfe{\x00:\x00", b"", b"::{{..==]]", b"\\\":"] {
            for is_toml in [false, true] {
                let names = possible_names(text, is_toml);
                assert!(names.iter().all(|name| name.len() <= NAME_BYTES), "{names:?}");
            }
        }
    }
}
