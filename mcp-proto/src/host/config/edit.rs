//! Changes of a server's command in the text of a configuration file, which keeps its comments and its formatting.

use core::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ConfigErrorKind;
use super::entry::{SERVER_TABLES, Source};
use super::read::ConfigFile;
use super::spec::TransportSpec;
use super::syntax::{decoded, each_member, is_toml, normal, to_json};
use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::rpc::json_reader::Reader;

/// The command of a server in the text of a configuration file, to be put behind other words and taken out again.
///
/// Everything else in the text stays as it is, comments and spaces included. Words are moved as they are written, with
/// their references to variables; the variables themselves stay in their place.
///
/// ```
/// use mcp_proto::host::config::{CommandText, Source};
///
/// let source = Source::user("/home/ann/.cursor/mcp.json");
/// let text = br#"{ "mcpServers": {
///     "files": { "command": "mcp-files", "args": ["/work"] } // mine
/// } }"#;
/// let files = CommandText::find(&source, text, None, "files")?;
/// assert_eq!(files.words(), ["mcp-files", "/work"]);
/// let behind = files.with_prefix(&["nice", "-n", "5"])?;
/// assert!(behind.contains(r#"{ "command": "nice", "args": ["-n", "5", "mcp-files", "/work"] } // mine"#));
/// let files = CommandText::find(&source, behind.as_bytes(), None, "files")?;
/// assert_eq!(files.without_prefix(3)?.as_bytes(), text);
/// # Ok::<(), mcp_proto::host::config::EditError>(())
/// ```
#[derive(Debug)]
pub struct CommandText<'a> {
    source: &'a Source,
    folder: Option<&'a str>,
    server: &'a str,
    /// The file, and the part of it behind a byte order mark.
    whole: &'a str,
    text: &'a str,
    command: Member,
    arguments: Option<Member>,
    /// Each argument and its place.
    items: Vec<(String, Range<usize>)>,
    word: String,
}

/// A member of a table, by the places of its name and its value.
#[derive(Clone, Debug)]
struct Member {
    name: usize,
    value: Range<usize>,
}

/// Why the command of a server cannot be changed in the text of a file. `Display` writes one line without a value of the
/// file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditError {
    /// The file, or the entry of the server, is wrong, or has a name twice.
    Config(ConfigErrorKind),
    /// The file has no server of this name.
    NoServer,
    /// The server is at a URL.
    NoCommand,
    /// The entry has no more words than those to remove.
    TooFewWords,
    /// The entry is written in a way that cannot be changed in place.
    UnknownForm,
}

error_text! { EditError:
    Config(kind) => "{kind}";
    NoServer => "the file has no server of this name";
    NoCommand => "the server is at a URL, and has no command";
    TooFewWords => "the command has no more words than those to remove";
    UnknownForm => "the entry is written in a form that is not changed here: write its command and arguments on lines of their own";
}

/// The text between an inserted member and the next.
const SEPARATOR: &str = ", ";

impl<'a> CommandText<'a> {
    /// Finds the command of a server in a file. With a folder it is one of the servers that a file of Claude Code has for
    /// [that project](ConfigFile::parse_of_project).
    ///
    /// # Errors
    /// If the file or the entry cannot be read, the file has another one of its name, or there is no command.
    pub fn find(
        source: &'a Source,
        text: &'a [u8],
        folder: Option<&'a str>,
        server: &'a str,
    ) -> Result<Self, EditError> {
        check(source, text, folder, server)?;
        let decoded = decoded(source, text).map_err(EditError::Config)?;
        let found =
            if is_toml(source) { of_toml(decoded, server) } else { of_json(decoded, folder, server) }?;
        let (word, items) = (found.command.1, found.items);
        Ok(Self {
            source,
            folder,
            server,
            whole: core::str::from_utf8(text).unwrap_or(decoded),
            text: decoded,
            command: found.command.0,
            arguments: found.arguments,
            items,
            word,
        })
    }

    /// The command and its arguments, as the file has them: references are not resolved.
    pub fn words(&self) -> Vec<&str> {
        let arguments = self.items.iter().map(|(word, _)| word.as_str());
        core::iter::once(self.word.as_str()).chain(arguments).collect()
    }

    /// The text of the file in which the command stands behind these words, the first of which is the program.
    ///
    /// # Errors
    /// If the entry is written in a form that is not changed here.
    pub fn with_prefix(&self, words: &[&str]) -> Result<String, EditError> {
        let Some((program, before)) = words.split_first() else { return Ok(self.whole.into()) };
        let quoted = before.iter().map(|word| quoted(word));
        let written = self.slice(self.command.value.clone()).to_owned();
        let list = quoted.chain([written]).collect::<Vec<_>>().join(", ");
        let inserted = match &self.arguments {
            Some(arguments) => {
                let start = after_bracket(arguments);
                let is_last_in_line =
                    self.text.get(start..).is_some_and(|text| text.starts_with(['\r', '\n']));
                let more = match self.items.is_empty() {
                    true => "",
                    // No space at the end of a line.
                    false if is_last_in_line => ",",
                    false => SEPARATOR,
                };
                (start, format!("{list}{more}"))
            }
            None => (self.command.name, self.new_member(&list)?),
        };
        let edits =
            [(self.command.value.clone(), self::quoted(program)), (inserted.0..inserted.0, inserted.1)];
        let expected: Vec<_> = words.iter().copied().chain(self.words()).collect();
        self.edited(edits.into(), &expected)
    }

    /// The text of the file without the first words of the command: what [`with_prefix`](Self::with_prefix) was given, byte
    /// for byte, unless the entry was changed since.
    ///
    /// # Errors
    /// If the command has no more words than these, or is written in a form that is not changed here.
    pub fn without_prefix(&self, count: usize) -> Result<String, EditError> {
        let Some(last) = count.checked_sub(1) else { return Ok(self.whole.into()) };
        let (Some(arguments), Some((_, program))) = (&self.arguments, self.items.get(last)) else {
            return Err(EditError::TooFewWords);
        };
        let removed = match self.is_inserted(arguments) && self.items.len() == count {
            true => arguments.name..self.command.name,
            false => after_bracket(arguments)..self.end_of_prefix(arguments, program, count),
        };
        let written = self.slice(program.clone()).to_owned();
        let edits = [(self.command.value.clone(), written), (removed, String::new())];
        let expected: Vec<_> = self.words().into_iter().skip(count).collect();
        self.edited(edits.into(), &expected)
    }

    /// Where the arguments begin that stay.
    fn end_of_prefix(&self, arguments: &Member, program: &Range<usize>, count: usize) -> usize {
        let end = arguments.value.end.saturating_sub(1);
        let after = self.slice(program.end..end);
        let comma = match self.items.len() == count {
            // Only space may stay behind a comma at the end.
            true => after.trim_start().starts_with(',').then(|| after.find(',')).flatten(),
            false => {
                after.find(',').filter(|comma| after.get(..*comma).is_some_and(|it| it.trim().is_empty()))
            }
        };
        let Some(comma) = comma else { return program.end };
        let space = usize::from(after.get(comma..).is_some_and(|rest| rest.starts_with(SEPARATOR)));
        program.end.saturating_add(comma).saturating_add(1).saturating_add(space)
    }

    /// The member with the arguments, to be inserted before the command. A space in it tells it from one that was empty.
    fn new_member(&self, list: &str) -> Result<String, EditError> {
        if !is_toml(self.source) {
            return Ok(format!("\"args\": [ {list}], "));
        }
        Ok(match self.before_command() {
            BeforeCommand::Line(indent) => format!("args = [ {list}]\n{indent}"),
            BeforeCommand::Inline => format!("args = [ {list}], "),
            BeforeCommand::Other => return Err(EditError::UnknownForm),
        })
    }

    /// Whether the arguments are a member as [`new_member`](Self::new_member) writes it.
    fn is_inserted(&self, arguments: &Member) -> bool {
        let Some(between) = self.text.get(arguments.value.end..self.command.name) else { return false };
        let is_between = between == SEPARATOR || is_toml(self.source) && between.trim_start().is_empty();
        is_between && self.text.get(after_bracket(arguments)..).is_some_and(|text| text.starts_with(' '))
    }

    fn before_command(&self) -> BeforeCommand<'a> {
        let before = self.text.get(..self.command.name).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        if line.trim().is_empty() {
            BeforeCommand::Line(line)
        } else if line.trim_end().ends_with(['{', ',']) {
            BeforeCommand::Inline
        } else {
            BeforeCommand::Other
        }
    }

    fn slice(&self, range: Range<usize>) -> &'a str {
        self.text.get(range).unwrap_or_default()
    }

    /// The text with these changes, if the expected words can be read from it.
    fn edited(&self, mut edits: Vec<(Range<usize>, String)>, expected: &[&str]) -> Result<String, EditError> {
        edits.sort_by_key(|(range, _)| range.start);
        let start = self.whole.len().saturating_sub(self.text.len());
        let mut text: String = self.whole.get(..start).unwrap_or_default().into();
        let mut at = 0;
        for (range, new) in edits {
            text.push_str(self.slice(at..range.start));
            text.push_str(&new);
            at = range.end;
        }
        text.push_str(self.slice(at..self.text.len()));
        let read = CommandText::find(self.source, text.as_bytes(), self.folder, self.server);
        match read.is_ok_and(|read| read.words() == expected) {
            true => Ok(text),
            false => Err(EditError::UnknownForm),
        }
    }
}

/// What stands before the command in its line.
enum BeforeCommand<'a> {
    Line(&'a str),
    /// It is a member of a table in braces.
    Inline,
    /// The name of its table, with a dot.
    Other,
}

fn after_bracket(arguments: &Member) -> usize {
    arguments.value.start.saturating_add(1)
}

/// A word in quotes, which JSON and TOML share.
fn quoted(word: &str) -> String {
    serde_json::to_string(word).unwrap_or_default()
}

/// Checks that the file is right, and that it has one such server, with a command.
fn check(source: &Source, text: &[u8], folder: Option<&str>, server: &str) -> Result<(), EditError> {
    let mut file = match folder {
        Some(folder) => ConfigFile::parse_of_project(source.clone(), text, folder),
        None => ConfigFile::parse(source.clone(), text),
    };
    let concerns = |name: Option<&str>| name.is_none_or(|name| name == server);
    let error = file.errors.iter().position(|error| concerns(error.server.as_deref()));
    if let Some(error) = error {
        return Err(EditError::Config(file.errors.swap_remove(error).kind));
    }
    let entry = file.servers.iter().find(|entry| entry.name() == server).ok_or(EditError::NoServer)?;
    match entry.spec().transport {
        TransportSpec::Stdio(_) => Ok(()),
        TransportSpec::Http(_) => Err(EditError::NoCommand),
    }
}

/// The parts of an entry.
struct CommandParts {
    command: (Member, String),
    arguments: Option<Member>,
    items: Vec<(String, Range<usize>)>,
}

// JSON.

/// The members of an object, by name. A repeated name is refused, as applications do not agree which of them counts.
type Members = OrderedMap<String, Member>;

fn of_json(text: &str, folder: Option<&str>, server: &str) -> Result<CommandParts, EditError> {
    let json = String::from_utf8(to_json(text)).map_err(|_| EditError::UnknownForm)?;
    let mut document = members(&json, 0)?;
    if let Some(folder) = folder {
        let projects = within(&json, document.get("projects"))?;
        let project = projects.iter().find(|(name, _)| normal(name) == normal(folder));
        document = within(&json, project.map(|(_, project)| project))?;
    }
    let settings = within(&json, document.get("mcp"))?;
    let tables = SERVER_TABLES.iter().filter_map(|table| document.get(*table)).chain(settings.get("servers"));
    let tables = tables.map(|table| within(&json, Some(table))).collect::<Result<Vec<_>, _>>()?;
    let entry = tables.iter().find_map(|table| table.get(server));
    let mut entry = within(&json, entry)?;
    // Zed has had the whole command as an object.
    if let Some(command) = entry.get("command").filter(|command| starts_with(&json, command, b'{')) {
        entry = within(&json, Some(command))?;
        entry.remove("command");
        if let Some(path) = entry.remove("path") {
            entry.insert("command".into(), path);
        }
    }
    let command = entry.remove("command").ok_or(EditError::NoCommand)?;
    let arguments = entry.remove("args").filter(|arguments| starts_with(&json, arguments, b'['));
    let word = json_text(&json, &command.value)?;
    let items = arguments.as_ref().map(|arguments| items(&json, arguments)).transpose()?;
    Ok(CommandParts { command: (command, word), arguments, items: items.unwrap_or_default() })
}

fn starts_with(json: &str, member: &Member, byte: u8) -> bool {
    json.as_bytes().get(member.value.start) == Some(&byte)
}

/// The members of the object that a member is.
fn within(json: &str, member: Option<&Member>) -> Result<Members, EditError> {
    member.map_or_else(|| Ok(Members::new()), |member| members(json, member.value.start))
}

fn members(json: &str, start: usize) -> Result<Members, EditError> {
    let mut reader = Reader::new(json);
    reader.go_to(start);
    let (mut members, mut repeated) = (Members::new(), None);
    let read = each_member(&mut reader, |reader, member, name| {
        reader.first_byte()?;
        let start = reader.at();
        reader.skip()?;
        if members.insert(member.into(), Member { name, value: start..reader.at() }).is_some() {
            repeated = Some(member.to_owned());
        }
        Ok(())
    });
    read.map_err(|_| EditError::UnknownForm)?;
    repeated.map_or(Ok(members), |name| Err(EditError::Config(ConfigErrorKind::DuplicateMember(name))))
}

fn items(json: &str, list: &Member) -> Result<Vec<(String, Range<usize>)>, EditError> {
    let mut reader = Reader::new(json);
    reader.go_to(list.value.start);
    let (mut items, mut is_first) = (Vec::new(), true);
    reader.enter(b'[').map_err(|_| EditError::UnknownForm)?;
    while reader.item(&mut is_first, b']').map_err(|_| EditError::UnknownForm)? {
        let start = reader.at();
        reader.skip().map_err(|_| EditError::UnknownForm)?;
        let range = start..reader.at();
        items.push((json_text(json, &range)?, range));
    }
    Ok(items)
}

fn json_text(json: &str, range: &Range<usize>) -> Result<String, EditError> {
    let text = json.get(range.clone()).and_then(|text| serde_json::from_str(text).ok());
    text.ok_or(EditError::UnknownForm)
}

// TOML, which has no repeated names.

fn of_toml(text: &str, server: &str) -> Result<CommandParts, EditError> {
    let document = DeTable::parse(text).map_err(|_| EditError::UnknownForm)?;
    let document = document.get_ref();
    let settings = document.get("mcp").and_then(table);
    let tables = SERVER_TABLES.iter().filter_map(|name| table(document.get(*name)?));
    let tables = tables.chain(settings.and_then(|settings| table(settings.get("servers")?)));
    let entries: Vec<_> = tables.filter_map(|servers| table(servers.get(server)?)).collect();
    let [entry] = entries.as_slice() else { return Err(EditError::NoServer) };
    let entry = entry.get("command").and_then(table).unwrap_or(entry);
    let command = toml_member(entry, "command").or_else(|| toml_member(entry, "path"));
    let (command, value) = command.ok_or(EditError::NoCommand)?;
    let word = toml_text(value)?;
    let arguments = toml_member(entry, "args");
    let items = match arguments.as_ref().map(|(_, value)| *value) {
        Some(DeValue::Array(items)) => items
            .iter()
            .map(|item| Ok((toml_text(item.get_ref())?, item.span())))
            .collect::<Result<_, _>>()?,
        _ => Vec::new(),
    };
    Ok(CommandParts { command: (command, word), arguments: arguments.map(|(member, _)| member), items })
}

fn table<'a, 'b>(value: &'a Spanned<DeValue<'b>>) -> Option<&'a DeTable<'b>> {
    match value.get_ref() {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

fn toml_member<'a, 'b>(table: &'a DeTable<'b>, name: &str) -> Option<(Member, &'a DeValue<'b>)> {
    let (key, value) = table.get_key_value(name)?;
    Some((Member { name: key.span().start, value: value.span() }, value.get_ref()))
}

fn toml_text(value: &DeValue<'_>) -> Result<String, EditError> {
    match value {
        DeValue::String(text) => Ok(text.clone().into_owned()),
        _ => Err(EditError::UnknownForm),
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    const WORDS: [&str; 5] = ["/bin/mcpio", "tap", "--trace-file", "/tmp/a \"b\".trace", "--"];

    fn find<'a>(source: &'a Source, text: &'a str) -> Result<CommandText<'a>, EditError> {
        CommandText::find(source, text.as_bytes(), None, "a")
    }

    /// Puts the command behind the words and takes it out again.
    fn changed(path: &str, text: &str) -> String {
        let source = Source::user(path);
        let read = find(&source, text).unwrap();
        let words: Vec<String> = read.words().into_iter().map(String::from).collect();
        let behind = read.with_prefix(&WORDS).unwrap_or_else(|error| panic!("{error}: {text}"));
        let read = find(&source, &behind).unwrap();
        assert_eq!(
            read.words(),
            [&WORDS[..], &words.iter().map(String::as_str).collect::<Vec<_>>()].concat()
        );
        assert_eq!(read.without_prefix(WORDS.len()).unwrap(), text, "{behind}");
        behind
    }

    #[test]
    fn json_is_changed_in_place_and_back_byte_for_byte() {
        for entry in [
            r#"{"command":"npx","args":["-y","x"],"env":{"K":"secret"}}"#,
            r#"{ "args": [ "-y" ], "command": "n\u0070x" }"#,
            r#"{ "command": "npx" }"#,
            r#"{"command":"npx"}"#,
            r#"{ "command": "npx", "args": [] }"#,
            r#"{ "args": [], "command": "npx" }"#,
            r#"{ "args": [ ], "command": "npx" }"#,
            r#"{ "command": "${env:X}", "args": [ /* none, yet */ ], }"#,
            "{\r\n  \"type\": \"stdio\", // why\r\n  \"command\": \"npx\",\r\n  \"args\": [\r\n    \"-y\", // yes\r\n  ],\r\n}",
            r#"{ "command": { "path": "npx", "args": ["a"], "env": {} } }"#,
            r#"{ "command": { "path": "npx" }, "settings": {} }"#,
        ] {
            for table in ["mcpServers", "servers", "context_servers"] {
                changed(
                    "x.json",
                    &format!(
                        "{{ \"other\": 1, // c\n \"{table}\": {{ \"b\": {{ \"url\": \"https://b.example\" }}, \"a\": {entry} }} }}\n"
                    ),
                );
            }
            changed("x.json", &format!("\u{feff}{{\"mcp\": {{\"servers\":{{\"a\":{entry}}}}}}}"));
        }
    }

    #[test]
    fn toml_is_changed_in_place_and_back_byte_for_byte() {
        let head = "# mine\nmodel = 'x'\n\n";
        for entry in [
            "[mcp_servers.a]\ncommand = \"npx\" # why\nargs = [\"-y\", 'x']\n\n[mcp_servers.a.env]\nK = \"secret\"\n",
            "[mcp_servers.\"a\"]\n  command = 'C:\\npx'\n",
            "[mcp_servers.a]\r\nargs = [\r\n  \"-y\",\r\n]\r\ncommand = \"npx\"\r\n",
            "[mcp_servers.a]\nargs = [ ]\ncommand = \"npx\"",
            "[mcp_servers]\na = { command = \"npx\" }\n",
            "[mcp_servers]\na = { env = { K = \"s\" }, command = \"npx\", args = [] }\n",
            "mcp_servers.a.command = \"npx\"\nmcp_servers.a.args = [\"x\"]\n",
        ] {
            changed("/home/ann/.codex/config.toml", &format!("{head}{entry}"));
        }
    }

    #[test]
    fn servers_of_a_project_are_those_of_its_folder() {
        let text = r#"{"mcpServers":{"a":{"command":"x"}},"projects":{"/work":{"mcpServers":{"a":{"command":"y"}}}}}"#;
        let source = Source::user("/home/ann/.claude.json");
        let read = CommandText::find(&source, text.as_bytes(), Some("/work"), "a").unwrap();
        let behind = read.with_prefix(&["z"]).unwrap();
        assert_eq!(behind, text.replace(r#""command":"y""#, r#""args": [ "y"], "command":"z""#));
        let read = CommandText::find(&source, behind.as_bytes(), Some("/work"), "a").unwrap();
        assert_eq!(read.without_prefix(1).unwrap(), text);
    }

    /// An application may have formatted the file in between.
    #[test]
    fn words_are_removed_from_a_file_that_was_formatted_anew() {
        let source = Source::user("x.json");
        for (args, expected) in [
            ("[\n \"n\",\n \"x\",\n \"-y\"\n]", "[\n \"-y\"\n]"),
            ("[ \"n\" , \"x\" , ]", "[ ]"),
            ("[\n \"n\",\n \"x\"\n]", "[\n]"),
        ] {
            let text = |command: &str, args: &str| {
                format!("{{\"servers\":{{\"a\":{{\"command\":\"{command}\",\"args\":{args}}}}}}}")
            };
            let before = text("nice", args);
            let after = find(&source, &before).unwrap().without_prefix(2).unwrap();
            assert_eq!(after.replace(' ', ""), text("x", expected).replace(' ', ""));
        }
    }

    #[test]
    fn files_that_mean_several_things_are_refused() {
        let duplicate = |name: &str| EditError::Config(ConfigErrorKind::DuplicateMember(name.into()));
        for (path, text, expected) in [
            ("x.json", r#"{"servers":{"b":{"command":"x"}}}"#, EditError::NoServer),
            ("x.json", r#"{"servers":{"a":{"url":"https://a.example"}}}"#, EditError::NoCommand),
            (
                "x.json",
                r#"{"servers":{"a":{"command":"x"},"a":{"command":"y"}}}"#,
                EditError::Config(ConfigErrorKind::DuplicateName),
            ),
            ("x.json", r#"{"servers":{"a":{"command":"x","command":"y"}}}"#, duplicate("command")),
            ("x.json", r#"{"servers":{"a":{"command":"x"}},"servers":{}}"#, duplicate("servers")),
        ] {
            assert_eq!(find(&Source::user(path), text).unwrap_err(), expected, "{text}");
        }
        let dotted = Source::user("x.toml");
        let read = find(&dotted, "servers.a.command = \"x\"").unwrap();
        assert_eq!(read.with_prefix(&WORDS), Err(EditError::UnknownForm));
        assert_eq!(read.without_prefix(1), Err(EditError::TooFewWords));
        assert!(matches!(
            find(&dotted, "servers = {"),
            Err(EditError::Config(ConfigErrorKind::Syntax { .. }))
        ));
    }
}
