//! Reading of configuration files.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::application::References;
use super::document::{Document, position};
use super::members::{Members, Unit, duration, text, texts, wrong_type};
use super::salvage::possible_names;
use super::spec::websocket_url;
use super::value::{Table, Value};
use super::{
    Application, ConfigError, ConfigErrorKind, Diagnostic, DiagnosticKind, HttpSpec, HttpTransport,
    INPUT_BYTES, InputSpec, Lookup, MAX_INPUTS, MAX_SERVERS, NAME_BYTES, OauthSpec, Scope, ServerEntry,
    ServerSpec, Source, StdioSpec, Template, ToolLists, TransportSpec,
};
use crate::consent::UrlConsent;

/// A configuration file that was read: its servers and its errors.
///
/// ```
/// use mcp_proto::host::config::{ConfigFile, Source};
///
/// let file = ConfigFile::parse(
///     Source::user("/home/ann/.cursor/mcp.json"),
///     br#"{
///         "mcpServers": {
///             "search": { "url": "https://search.example/mcp" }, // a comment
///             "broken": { "args": ["x"] },
///         },
///     }"#,
/// );
/// assert_eq!(file.servers[0].name(), "search");
/// assert_eq!(
///     file.errors[0].to_string(),
///     r#"/home/ann/.cursor/mcp.json: server "broken": the entry has no "command" or "url": add it"#
/// );
/// ```
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// Where the file is.
    pub source: Arc<Source>,
    /// Its servers, in the order of the file; those of TOML by name.
    pub servers: Vec<ServerEntry>,
    /// Its errors: each concerns one server, or the whole file.
    pub errors: Vec<ConfigError>,
    /// The parts that were ignored.
    pub diagnostics: Vec<Diagnostic>,
    /// Texts that may be names of servers, if the file or a table of servers in it cannot be read. No project's server
    /// gets one of them.
    pub(super) possible_names: BTreeSet<String>,
}

impl ConfigFile {
    /// Reads a file: TOML if its path ends with `.toml`, else JSON, with comments and trailing commas.
    ///
    /// A wrong entry is an error beside the other servers. A file that is no JSON or TOML at all has one error, with
    /// line and column, and no server.
    pub fn parse(source: Source, text: &[u8]) -> Self {
        let mut file = Self::new(source);
        match document(&file.source, text) {
            Ok(document) => file.read(document),
            Err(kind) => file.error(None, kind),
        }
        file.salvage_names(text);
        file
    }

    /// Finds the names of servers in a file of the user that is not read as a whole.
    pub(super) fn salvage_names(&mut self, text: &[u8]) {
        let is_damage = |error: &ConfigError| {
            use ConfigErrorKind::{FileTooLarge, NotATable, Syntax, TooManyServers};
            matches!(error.kind, FileTooLarge(_) | NotATable(_) | Syntax { .. } | TooManyServers)
        };
        if self.source.scope == Scope::User && self.errors.iter().any(is_damage) {
            self.possible_names = possible_names(text, is_toml(&self.source));
        }
    }

    /// A file that could not be read, for a reason to show to the user. A file that does not exist is no error.
    pub fn unreadable(source: Source, reason: impl Into<String>) -> Self {
        let mut file = Self::new(source);
        file.error(None, ConfigErrorKind::Unreadable(reason.into()));
        file
    }

    /// Servers that the application itself configures, to be merged as a file of the user.
    ///
    /// ```
    /// use mcp_proto::host::config::{Config, ConfigFile, ServerSpec};
    ///
    /// let own = ConfigFile::from_servers([("search", ServerSpec::http("https://search.example/mcp"))]);
    /// assert!(Config::merge([own]).find("search").is_some());
    /// ```
    pub fn from_servers(servers: impl IntoIterator<Item = (impl Into<String>, ServerSpec)>) -> Self {
        let mut file = Self::new(Source::user(""));
        let servers = servers.into_iter().map(|(name, spec)| ServerEntry::user(name, spec));
        file.servers.extend(servers);
        file
    }

    pub(super) fn new(source: Source) -> Self {
        Self {
            source: Arc::new(source),
            servers: Vec::new(),
            errors: Vec::new(),
            diagnostics: Vec::new(),
            possible_names: BTreeSet::new(),
        }
    }

    pub(super) fn error(&mut self, server: Option<&str>, kind: ConfigErrorKind) {
        self.errors.push(ConfigError { source: self.source.clone(), server: server.map(String::from), kind });
    }

    fn diagnostic(&mut self, server: Option<&str>, kind: DiagnosticKind) {
        if self.diagnostics.len() < MAX_SERVERS {
            let server = server.map(String::from);
            self.diagnostics.push(Diagnostic { source: self.source.clone(), server, kind });
        }
    }

    pub(super) fn read(&mut self, document: Document) {
        if document.tables.is_empty() {
            self.diagnostic(None, DiagnosticKind::NoServers);
        }
        let mut inputs = BTreeMap::new();
        for declaration in document.inputs {
            match input(declaration) {
                Ok(input) if inputs.len() < MAX_INPUTS && input.bytes() <= INPUT_BYTES => {
                    inputs.insert(input.id.clone(), Arc::new(input));
                }
                _ => self.diagnostic(None, DiagnosticKind::IgnoredInput),
            }
        }
        let timeout = document.timeout.map(|value| duration("context_server_timeout", &value, Unit::Seconds));
        let context = Context {
            application: self.source.application,
            inputs,
            call_timeout: timeout.transpose().unwrap_or_else(|kind| {
                self.error(None, kind);
                None
            }),
            uses: ServerUses::new(document.allowed, document.excluded).unwrap_or_else(|kind| {
                self.error(None, kind);
                ServerUses::none()
            }),
        };
        let mut names = BTreeSet::new();
        let mut entries_left = MAX_SERVERS;
        for (table_name, table) in document.tables.into_iter().take(MAX_SERVERS) {
            let Value::Table(entries) = table else {
                self.error(None, ConfigErrorKind::NotATable(table_name));
                continue;
            };
            for (name, entry) in entries {
                let Some(left) = entries_left.checked_sub(1) else {
                    return self.error(None, ConfigErrorKind::TooManyServers);
                };
                entries_left = left;
                if name.is_empty() || name.len() > NAME_BYTES {
                    let start = name.chars().take(NAME_BYTES / 4).collect::<String>();
                    self.error(Some(&start), ConfigErrorKind::InvalidName);
                } else if !names.insert(name.clone()) {
                    self.error(Some(&name), ConfigErrorKind::DuplicateName);
                } else {
                    self.read_entry(&context, name, entry);
                }
            }
        }
    }

    fn read_entry(&mut self, context: &Context, name: String, entry: Value) {
        let spec = context.spec(entry).and_then(|(spec, ignored)| {
            // A URL with references is checked once they are resolved.
            let is_known = matches!(&spec.transport, TransportSpec::Http(http) if http.url.is_literal());
            let is_of_project = self.source.scope == Scope::Project;
            let is_foreign = is_of_project && is_known && spec.foreign_resource().is_some();
            if is_foreign { Err(foreign_resource()) } else { Ok((spec, ignored)) }
        });
        match spec {
            Ok((mut spec, ignored)) => {
                spec.enabled &= context.uses.contain(&name);
                for member in ignored {
                    self.diagnostic(Some(&name), DiagnosticKind::IgnoredMember(member));
                }
                self.servers.push(ServerEntry::new(name, self.source.clone(), spec));
            }
            Err(kind) => self.error(Some(&name), kind),
        }
    }
}

/// The error of a project's entry whose server would get tokens for another one.
fn foreign_resource() -> ConfigErrorKind {
    ConfigErrorKind::InvalidValue {
        member: "oauth.resource".into(),
        reason: "the server would get tokens for another resource: \
                 write the URL of the entry, or a parent of it by whole path segments",
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

fn document(source: &Source, text: &[u8]) -> Result<Document, ConfigErrorKind> {
    let text = decoded(source, text)?;
    if is_toml(source) { Document::from_toml(text) } else { Document::from_json(text) }
}

fn is_toml(source: &Source) -> bool {
    let extension = source.path.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
        || source.application == Application::Codex
}

/// Reads the declaration of an input that the user types or picks: the output of a command is none.
fn input(declaration: Value) -> Result<InputSpec, ConfigErrorKind> {
    let Value::Table(table) = declaration else { return Err(wrong_type("inputs", "a list of objects")) };
    let mut members = Members::new(table, References::None)?;
    let kind = members.text(&["type"])?.unwrap_or_else(|| "promptString".into());
    let id = members.text(&["id"])?.ok_or_else(|| wrong_type("inputs.id", "a text"))?;
    if !matches!(kind.as_str(), "promptString" | "pickString") {
        return Err(wrong_type("inputs.type", "promptString or pickString"));
    }
    let options = match members.take("options") {
        None => Vec::new(),
        Some(Value::List(options)) => options.into_iter().map(pick_option).collect::<Result<_, _>>()?,
        Some(_) => return Err(wrong_type("inputs.options", "a list of texts")),
    };
    Ok(InputSpec {
        id,
        description: members.text(&["description"])?,
        is_password: members.flag("password")?.unwrap_or(false),
        default: members.text(&["default"])?,
        options,
    })
}

/// An option to pick: a text, or an object with a label and a value.
fn pick_option(option: Value) -> Result<String, ConfigErrorKind> {
    let value = match option {
        Value::Table(table) => table.into_iter().find(|(name, _)| name == "value").map(|(_, value)| value),
        other => Some(other),
    };
    text("inputs.options", value.unwrap_or(Value::Null))
}

/// The parts of a file that all its entries share.
struct Context {
    application: Application,
    inputs: BTreeMap<String, Arc<InputSpec>>,
    /// For servers without a timeout of their own.
    call_timeout: Option<Duration>,
    uses: ServerUses,
}

/// Which servers of the file are used, by name. A list that is wrong lets none be used: it may be the one that matters.
struct ServerUses {
    allowed: Option<BTreeSet<String>>,
    excluded: BTreeSet<String>,
}

impl ServerUses {
    fn new(allowed: Option<Value>, excluded: Option<Value>) -> Result<Self, ConfigErrorKind> {
        let names = |member, value| texts(member, value).map(BTreeSet::from_iter);
        Ok(Self {
            allowed: allowed.map(|value| names("mcp.allowed", value)).transpose()?,
            excluded: excluded.map(|value| names("mcp.excluded", value)).transpose()?.unwrap_or_default(),
        })
    }

    fn none() -> Self {
        Self { allowed: Some(BTreeSet::new()), excluded: BTreeSet::new() }
    }

    fn contain(&self, server: &str) -> bool {
        self.allowed.as_ref().is_none_or(|names| names.contains(server)) && !self.excluded.contains(server)
    }
}

/// Members that some application knows and that mean nothing for a connection.
const MEANINGLESS: [&str; 6] = ["$schema", "description", "dev", "gallery", "name", "source"];

impl Context {
    /// Reads an entry: its specification, and the names of the members that are ignored.
    fn spec(&self, entry: Value) -> Result<(ServerSpec, Vec<String>), ConfigErrorKind> {
        let Value::Table(table) = entry else { return Err(ConfigErrorKind::EntryNotATable) };
        let mut members = Members::new(table, self.application.references())?;
        for name in MEANINGLESS {
            members.take(name);
        }
        // Zed has had the whole command as an object.
        if let Some(command) = members.take("command") {
            match command {
                Value::Table(command) => members.merge_command(command)?,
                command => members.put("command", command),
            }
        }
        let mut spec = ServerSpec::new(self.transport(&mut members)?);
        self.read_timeouts(&mut members, &mut spec)?;
        spec.enabled = enabled(&mut members)?;
        spec.required = members.flag("required")?.unwrap_or(false);
        spec.lazy = members.flag("lazy")?.unwrap_or(false);
        spec.trusted = members.flag("trust")?.unwrap_or(false);
        spec.tools = ToolLists {
            allow: members.texts(&["includeTools", "enabled_tools", "enabledTools"])?,
            deny: members.texts(&["excludeTools", "disabled_tools", "disabledTools"])?.unwrap_or_default(),
        };
        spec.inputs = self.inputs_of(&spec)?;
        Ok((spec, members.into_rest().collect()))
    }

    fn transport(&self, members: &mut Members) -> Result<TransportSpec, ConfigErrorKind> {
        let written = members.text(&["type", "transport"])?;
        let kind = match written.as_deref().map(|kind| kind.to_ascii_lowercase().replace(['-', '_'], "")) {
            None => None,
            Some(kind) => Some(match kind.as_str() {
                "stdio" => Kind::Stdio,
                "http" | "streamablehttp" => Kind::Http(HttpTransport::Http),
                "sse" => Kind::Http(HttpTransport::Sse),
                "ws" | "websocket" => Kind::Http(HttpTransport::WebSocket),
                _ => return Err(ConfigErrorKind::UnsupportedTransport(written.unwrap_or_default())),
            }),
        };
        let has_url = members.has(&URLS);
        match kind {
            Some(Kind::Stdio) => stdio(members),
            Some(Kind::Http(transport)) => http(members, Some(transport)),
            None if members.has(&["command"]) && has_url => {
                Err(ConfigErrorKind::ConflictingMembers("command", "url"))
            }
            None if has_url => http(members, None),
            None => stdio(members),
        }
    }

    fn read_timeouts(&self, members: &mut Members, spec: &mut ServerSpec) -> Result<(), ConfigErrorKind> {
        let unit = if self.application.timeout_is_in_seconds() { Unit::Seconds } else { Unit::Milliseconds };
        let timeout = members.duration("timeout", unit)?;
        let start = members.duration("startup_timeout_sec", Unit::Seconds)?;
        let start = start.or(members.duration("startup_timeout_ms", Unit::Milliseconds)?);
        spec.start_timeout = start.or(timeout.filter(|_| self.application.timeout_covers_start()));
        let call = members.duration("tool_timeout_sec", Unit::Seconds)?;
        spec.call_timeout = call.or(timeout).or(self.call_timeout);
        Ok(())
    }

    /// The declarations of the inputs that an entry refers to, by id.
    fn inputs_of(&self, spec: &ServerSpec) -> Result<Vec<Arc<InputSpec>>, ConfigErrorKind> {
        let ids = spec.lookups().into_iter().filter_map(|lookup| match lookup {
            Lookup::Input(id) => Some(id),
            _ => None,
        });
        let declared = |id: &String| {
            self.inputs.get(id).cloned().ok_or_else(|| ConfigErrorKind::UndeclaredInput(id.clone()))
        };
        ids.map(declared).collect()
    }
}

/// A type of connection as an entry names it.
#[derive(Clone, Copy)]
enum Kind {
    Stdio,
    Http(HttpTransport),
}

/// The names of the URL: Gemini's, Windsurf's, everyone else's.
const URLS: [&str; 3] = ["httpUrl", "serverUrl", "url"];

fn enabled(members: &mut Members) -> Result<bool, ConfigErrorKind> {
    match (members.flag("enabled")?, members.flag("disabled")?) {
        (Some(enabled), Some(disabled)) if enabled == disabled => {
            Err(ConfigErrorKind::ConflictingMembers("enabled", "disabled"))
        }
        (Some(enabled), _) => Ok(enabled),
        (None, disabled) => Ok(!disabled.unwrap_or(false)),
    }
}

fn stdio(members: &mut Members) -> Result<TransportSpec, ConfigErrorKind> {
    let missing = ConfigErrorKind::MissingTransport {
        expected: if members.has(&URLS) { "\"command\"" } else { "\"command\" or \"url\"" },
    };
    let command = members.template(&["command"])?.filter(|command| !command.text().trim().is_empty());
    Ok(TransportSpec::Stdio(StdioSpec {
        command: command.ok_or(missing)?,
        args: members.templates("args")?,
        env: members.template_map(&["env"], variable_name)?,
        forwarded: forwarded(members)?,
        env_file: members.template(&["envFile", "env_file"])?,
        cwd: members.template(&["cwd"])?,
    }))
}

/// Codex's names of variables that a server gets from the application's environment.
fn forwarded(members: &mut Members) -> Result<Vec<String>, ConfigErrorKind> {
    let items = match members.take("env_vars") {
        None => return Ok(Vec::new()),
        Some(Value::List(items)) => items,
        Some(_) => return Err(wrong_type("env_vars", "a list of names")),
    };
    let mut names = Vec::new();
    for item in items {
        let name = match item {
            Value::Table(table) => {
                let mut table = Members::new(table, References::None)?;
                if table.text(&["source"])?.is_some_and(|source| source == "remote") {
                    continue;
                }
                table.text(&["name"])?.ok_or_else(|| wrong_type("env_vars", "a list of names"))?
            }
            name => text("env_vars", name)?,
        };
        let name = variable_name(&name)
            .map_err(|reason| ConfigErrorKind::InvalidValue { member: "env_vars".into(), reason })?;
        names.push(name);
    }
    Ok(names)
}

/// A URL; the transport is that of its scheme unless it is given.
fn http(members: &mut Members, transport: Option<HttpTransport>) -> Result<TransportSpec, ConfigErrorKind> {
    let url = members.template(&URLS)?.ok_or(ConfigErrorKind::MissingTransport { expected: "\"url\"" })?;
    let text = url.text();
    let upgrade = websocket_url(&text);
    let transport = transport.unwrap_or(match upgrade {
        Some(_) => HttpTransport::WebSocket,
        None => HttpTransport::Http,
    });
    let invalid = |reason| Err(ConfigErrorKind::InvalidValue { member: "url".into(), reason });
    if url.is_literal() && UrlConsent::new(upgrade.as_deref().unwrap_or(&text)).is_err() {
        return invalid("the text is not the URL of an HTTP server, with special characters percent-encoded");
    }
    if url.is_literal() && upgrade.is_some() != (transport == HttpTransport::WebSocket) {
        return invalid("a URL begins with ws: or wss: if the type is websocket, and only then");
    }
    let mut headers = members.template_map(&["headers", "http_headers"], header_name)?;
    for (name, variable) in env_headers(members)? {
        if headers.insert(name.clone(), Template::variable("", &variable)).is_some() {
            return Err(ConfigErrorKind::DuplicateMember(name));
        }
    }
    if let Some(variable) = members.text(&["bearer_token_env_var"])? {
        let member = "bearer_token_env_var";
        let name = variable_name(&variable)
            .map_err(|reason| ConfigErrorKind::InvalidValue { member: member.into(), reason })?;
        if headers.insert("authorization".into(), Template::variable("Bearer ", &name)).is_some() {
            return Err(ConfigErrorKind::ConflictingMembers(member, "headers"));
        }
    }
    Ok(TransportSpec::Http(HttpSpec { transport, url, headers, oauth: oauth(members)? }))
}

/// Codex's headers whose values are variables: the names of the headers and of the variables.
fn env_headers(members: &mut Members) -> Result<Vec<(String, String)>, ConfigErrorKind> {
    let member = "env_http_headers";
    let read = |(name, value): (String, Value)| {
        let invalid = |reason| ConfigErrorKind::InvalidValue { member: member.into(), reason };
        let variable = text(member, value)?;
        Ok((header_name(&name).map_err(invalid)?, variable_name(&variable).map_err(invalid)?))
    };
    members.table(&[member])?.unwrap_or_default().into_iter().map(read).collect()
}

fn oauth(members: &mut Members) -> Result<Option<OauthSpec>, ConfigErrorKind> {
    let scopes = members.take_named(&["scopes"])?.map(|(name, value)| texts(name, value)).transpose()?;
    let resource = members.text(&["oauth_resource"])?;
    let table = match members.take("oauth") {
        // Gemini and others switch their own login on or off by it.
        None | Some(Value::Bool(_)) => None,
        Some(Value::Table(table)) => Some(table),
        Some(_) => return Err(wrong_type("oauth", "an object")),
    };
    if table.is_none() && scopes.is_none() && resource.is_none() {
        return Ok(None);
    }
    let mut table = Members::new(table.unwrap_or_default(), members.references())?;
    let scopes = match scopes {
        Some(scopes) => Some(scopes),
        None => scope_list(table.take_named(&["scopes", "scope"])?)?,
    };
    let callback_port = match table.take_named(&["callbackPort", "callback_port"])? {
        None => None,
        Some((_, Value::Integer(port))) if u16::try_from(port).is_ok() => u16::try_from(port).ok(),
        Some((name, _)) => return Err(wrong_type(name, "a port")),
    };
    Ok(Some(OauthSpec {
        client_id: table.text(&["clientId", "client_id"])?,
        client_secret: table.template(&["clientSecret", "client_secret"])?,
        issuer: table.text(&["issuer"])?,
        scopes: scopes.unwrap_or_default(),
        resource: match resource {
            Some(resource) => Some(resource),
            None => table.text(&["resource"])?,
        },
        callback_port,
    }))
}

/// Scopes as a list, or as one text with spaces, as the protocol writes them.
fn scope_list(value: Option<(&'static str, Value)>) -> Result<Option<Vec<String>>, ConfigErrorKind> {
    match value {
        Some((_, Value::Text(scopes))) => Ok(Some(scopes.split_whitespace().map(String::from).collect())),
        Some((name, value)) => texts(name, value).map(Some),
        None => Ok(None),
    }
}

/// Checks the name of an environment variable.
fn variable_name(name: &str) -> Result<String, &'static str> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err("this is not the name of an environment variable");
    }
    Ok(name.into())
}

/// Checks the name of a header; returns it in lower case.
fn header_name(name: &str) -> Result<String, &'static str> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err("this is not the name of a header");
    }
    Ok(name.to_ascii_lowercase())
}

impl Members {
    /// Puts the members of a command's object in the entry's place.
    fn merge_command(&mut self, command: Table) -> Result<(), ConfigErrorKind> {
        for (name, value) in command {
            let name = match name.as_str() {
                "path" => "command",
                "args" => "args",
                "env" => "env",
                _ => continue,
            };
            if self.has(&[name]) {
                return Err(ConfigErrorKind::DuplicateMember(name.into()));
            }
            self.put(name, value);
        }
        Ok(())
    }
}
