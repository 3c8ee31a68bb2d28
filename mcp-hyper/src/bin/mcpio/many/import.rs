//! `mcpio import`: the servers of the known applications as one configuration.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::sync::Arc;

use mcp_hyper::host::discover;
use mcp_proto::host::config::{
    Config, ConfigFile, HttpTransport, InputSpec, OauthSpec, Scope, ServerEntry, ServerSpec, Source,
    Template, TransportSpec,
};
use serde_json::{Map, Value, json};

use crate::error::{CommandError, Result};
use crate::show;
use crate::terminal::{QUIET, Screen, styled};

/// Prints one configuration with the servers of all applications of the user, those of Claude Code for the project in the
/// working directory included, and notes on standard error.
pub(crate) fn import(disabled: bool, screen: &mut Screen) -> Result {
    // Without a folder there are no servers of its project.
    let folder = env::current_dir().ok().filter(|folder| folder.is_dir() && folder.to_str().is_some());
    let root = Path::new(std::path::MAIN_SEPARATOR_STR);
    let mut files =
        discover(folder.as_deref().unwrap_or(root)).map_err(CommandError::usage_of("the files"))?;
    files.retain(|file| file.source.scope == Scope::User);
    let imported = Imported::from_config(&Config::merge(files), disabled);
    if screen.is_json() {
        let Imported { servers, inputs, notes } = imported;
        return show::json(screen, &json!({ "mcpServers": servers, "inputs": inputs, "notes": notes }));
    }
    let mut messages = Screen::messages();
    for note in &imported.notes {
        messages.line(styled(QUIET, note))?;
    }
    show::json(screen, &imported.configuration())
}

/// The servers as this program's own configuration, with notes on those that were left out.
struct Imported {
    servers: Map<String, Value>,
    inputs: Vec<Value>,
    notes: Vec<String>,
}

impl Imported {
    fn from_config(config: &Config, disabled: bool) -> Self {
        let mut imported = Self { servers: Map::new(), inputs: Vec::new(), notes: Vec::new() };
        let errors = config.errors().iter().map(|error| format!("left out: {error}"));
        let omitted = config.omitted().iter().map(|omitted| format!("left out: {omitted}"));
        let ignored = config.diagnostics().iter().map(ToString::to_string);
        imported.notes.extend(errors.chain(omitted).chain(ignored));
        let mut inputs: BTreeMap<&str, &Arc<InputSpec>> = BTreeMap::new();
        for entry in config.servers() {
            let conflicts =
                |input: &Arc<InputSpec>| inputs.get(input.id.as_str()).is_some_and(|known| **known != *input);
            if !entry.spec().enabled && !disabled {
                imported.leave_out(entry, "it is switched off: --disabled includes it");
            } else if entry.spec().inputs.iter().any(conflicts) {
                imported.leave_out(entry, "another file declares an input of the same id differently");
            } else if let Some(server) = written(entry) {
                inputs.extend(entry.spec().inputs.iter().map(|input| (input.id.as_str(), input)));
                let path = &entry.source().path;
                imported.notes.push(format!("{path}: server \"{}\" taken over", entry.name()));
                imported.servers.insert(entry.name().to_owned(), server);
            } else {
                imported.leave_out(entry, "one configuration for all applications would change its meaning");
            }
        }
        imported.inputs = inputs.into_values().map(|input| input_json(input)).collect();
        imported
    }

    fn leave_out(&mut self, entry: &ServerEntry, why: &str) {
        let path = &entry.source().path;
        self.notes.push(format!("left out: {path}: server \"{}\": {why}", entry.name()));
    }

    fn configuration(&self) -> Value {
        let mut configuration = json!({ "mcpServers": self.servers });
        if !self.inputs.is_empty() {
            configuration["inputs"] = self.inputs.clone().into();
        }
        configuration
    }
}

/// The entry in the common format; `None` if that would mean something else than the application's own.
fn written(entry: &ServerEntry) -> Option<Value> {
    let server = server_json(entry.spec());
    let inputs: Vec<Value> = entry.spec().inputs.iter().map(|input| input_json(input)).collect();
    let file = json!({ "mcpServers": { entry.name(): server }, "inputs": inputs }).to_string();
    let read = ConfigFile::parse(Source::user("mcp-servers.json"), file.as_bytes());
    let is_same = read.servers.first().is_some_and(|read| read.meaning() == entry.meaning());
    is_same.then_some(server)
}

/// An object of the members that say something.
fn object<'a>(members: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    let members = members.into_iter().filter(|(_, value)| !is_empty(value));
    members.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn server_json(spec: &ServerSpec) -> Value {
    let texts = |map: &BTreeMap<String, Template>| -> Value {
        map.iter().map(|(name, template)| (name.clone(), text(template))).collect()
    };
    let transport = match &spec.transport {
        TransportSpec::Stdio(stdio) => vec![
            ("type", stdio.speaks_http2.then_some("stdio-v2").into()),
            ("command", text(&stdio.command).into()),
            ("args", stdio.args.iter().map(text).collect()),
            ("env", texts(&stdio.env)),
            ("env_vars", stdio.forwarded.clone().into()),
            ("envFile", stdio.env_file.as_ref().map(text).into()),
            ("cwd", stdio.cwd.as_ref().map(text).into()),
        ],
        TransportSpec::Http(http) => {
            let kind = match http.transport {
                HttpTransport::Http => "http",
                HttpTransport::Sse => "sse",
                HttpTransport::WebSocket => "websocket",
            };
            vec![
                ("type", kind.into()),
                ("url", text(&http.url).into()),
                ("headers", texts(&http.headers)),
                ("oauth", http.oauth.as_ref().map(oauth_json).into()),
                ("chunkedResults", http.chunked_results.into()),
            ]
        }
    };
    let seconds = |time: std::time::Duration| time.as_secs_f64();
    let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1000.0;
    let mut server = object(transport.into_iter().chain([
        ("startup_timeout_sec", spec.start_timeout.map(seconds).into()),
        ("tool_timeout_sec", spec.call_timeout.map(seconds).into()),
        ("keepAliveMs", spec.keepalive.map(milliseconds).into()),
        ("maxReconnectAttempts", spec.reconnect_attempts.into()),
        ("disabled", (!spec.enabled).into()),
        ("required", spec.required.into()),
        ("lazy", spec.lazy.into()),
        ("trust", spec.trusted.into()),
        ("disabledTools", spec.tools.deny.clone().into()),
        ("excludePrompts", spec.prompts.deny.clone().into()),
        ("excludeResources", spec.resources.deny.clone().into()),
    ]));
    let lists = [
        ("enabledTools", &spec.tools),
        ("includePrompts", &spec.prompts),
        ("includeResources", &spec.resources),
    ];
    for (member, lists) in lists {
        // An empty list means something.
        if let Some(allowed) = &lists.allow {
            server[member] = allowed.clone().into();
        }
    }
    server
}

fn oauth_json(oauth: &OauthSpec) -> Value {
    let mut json = object([
        ("clientId", oauth.client_id.clone().into()),
        ("clientSecret", oauth.client_secret.as_ref().map(text).into()),
        ("scopes", oauth.scopes.clone().into()),
        ("resource", oauth.resource.clone().into()),
        ("issuer", oauth.issuer.clone().into()),
        ("callbackPort", oauth.callback_port.into()),
    ]);
    // An empty list means something.
    if let Some(hosts) = &oauth.allowed_hosts {
        json["allowedHosts"] = hosts.clone().into();
    }
    json
}

fn input_json(input: &InputSpec) -> Value {
    let kind = if input.options.is_empty() { "promptString" } else { "pickString" };
    object([
        ("id", input.id.clone().into()),
        ("type", kind.into()),
        ("description", input.description.clone().into()),
        ("default", input.default.clone().into()),
        ("password", input.is_password.into()),
        ("options", input.options.clone().into()),
    ])
}

/// The text with its references in the form that every application with references knows, as far as that is possible.
fn text(template: &Template) -> String {
    let text = template.text();
    let is_read_back = Template::parse(&text).is_ok_and(|read| read.lookups().eq(template.lookups()));
    if is_read_back { text } else { with_braces(&text) }
}

/// `$NAME`, as Gemini writes it, as `${NAME}`.
fn with_braces(text: &str) -> String {
    let mut parts = text.split('$');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(part.len());
        match part.split_at_checked(end) {
            Some((name, rest)) if !name.is_empty() => whole.push_str(&format!("${{{name}}}{rest}")),
            _ => whole.push_str(&format!("${part}")),
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imported(files: &[(&str, &str)], disabled: bool) -> Imported {
        let files = files.iter().map(|(path, text)| ConfigFile::parse(Source::user(*path), text.as_bytes()));
        Imported::from_config(&Config::merge(files), disabled)
    }

    #[test]
    fn import_keeps_references_and_the_meaning_of_every_application() {
        let files = [
            (
                "/home/ann/.cursor/mcp.json",
                r#"{ "mcpServers": {
                    "a": { "command": "x", "args": ["${env:A}", "b"], "env": { "K": "${B:-c}" }, "cwd": "${userHome}" },
                    "off": { "command": "off", "disabled": true }
                } }"#,
            ),
            (
                "/home/ann/.gemini/settings.json",
                r#"{ "mcpServers": { "g": { "httpUrl": "https://g.example/$G?x=1", "timeout": 5000 } } }"#,
            ),
            (
                "/home/ann/.codex/config.toml",
                "[mcp_servers.c]\nurl = \"https://c.example\"\nbearer_token_env_var = \"TOKEN\"\ntool_timeout_sec = 1.5\n",
            ),
            (
                "/home/ann/.config/Code/User/mcp.json",
                r#"{ "servers": { "v": { "command": "v", "args": ["${input:k}"] } },
                     "inputs": [{ "type": "promptString", "id": "k", "password": true }] }"#,
            ),
        ];
        let imported = imported(&files, false);
        let written = imported.configuration();
        let servers = &written["mcpServers"];
        assert_eq!(servers["a"]["args"], json!(["${env:A}", "b"]));
        assert_eq!(servers["g"]["url"], "https://g.example/${G}?x=1");
        assert_eq!(servers["c"]["headers"]["authorization"], "Bearer ${TOKEN}");
        assert_eq!(written["inputs"], json!([{ "id": "k", "type": "promptString", "password": true }]));
        assert_eq!(servers.as_object().unwrap().len(), 4, "{:?}", imported.notes);
        assert!(imported.notes.iter().any(|note| note.contains("\"off\": it is switched off")));
        // The whole is read back as the same servers.
        let read = ConfigFile::parse(Source::user("merged.json"), written.to_string().as_bytes());
        assert_eq!((read.errors.len(), read.servers.len()), (0, 4), "{:?}", read.errors);
    }

    #[test]
    fn server_whose_meaning_would_change_is_left_out() {
        let claude =
            r#"{ "mcpServers": { "a": { "command": "x", "args": ["${HOME}"] }, "b": { "command": "y" } } }"#;
        let imported = imported(&[("/home/ann/.config/Claude/claude_desktop_config.json", claude)], false);
        assert_eq!(imported.servers.keys().collect::<Vec<_>>(), ["b"]);
        assert!(imported.notes[0].contains("server \"a\""), "{:?}", imported.notes);
    }

    #[test]
    fn inputs_of_one_id_that_differ_are_not_mixed_up() {
        let file = |command: &str, description: &str| {
            let text = json!({
                "servers": { command: { "command": command, "args": ["${input:k}"] } },
                "inputs": [{ "type": "promptString", "id": "k", "description": description }],
            });
            text.to_string()
        };
        let (one, two) = (file("one", "1"), file("two", "2"));
        let files = [
            ("/home/ann/.config/Code/User/mcp.json", one.as_str()),
            ("/home/ann/.config/Code/User/settings.json", two.as_str()),
        ];
        let imported = imported(&files, true);
        assert_eq!(imported.servers.len(), 1, "{:?}", imported.notes);
        assert!(imported.notes.iter().any(|note| note.contains("another file declares an input")));
    }
}
