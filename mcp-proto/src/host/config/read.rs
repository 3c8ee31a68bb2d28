//! Reading of configuration files.

use alloc::sync::Arc;
use core::time::Duration;

use super::entry::{Application, Scope, ServerEntry, Source};
use super::members::{
    Members, ReadResult, Unit, count, duration, flag, invalid, list, table, text, texts, wrong_type,
};
use super::spec::{
    HttpSpec, HttpTransport, InputSpec, ItemLists, OauthSpec, ServerSpec, StdioSpec, TransportSpec,
    websocket_url,
};
use super::syntax::ServerLines;
use super::syntax::{Document, REQUEST_TIMEOUT, Table, Value, is_toml, possible_names};
use super::template::{Lookup, References, Template};
use super::{ConfigError, ConfigErrorKind, Diagnostic, DiagnosticKind};
use super::{INPUT_BYTES, MAX_INPUTS, MAX_SERVERS, NAME_BYTES};
use crate::consent::UrlConsent;
use crate::ordered_map::OrderedMap;
use crate::ordered_set::OrderedSet;
use crate::prelude::*;
use crate::url::parse_host;

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
    pub(super) possible_names: OrderedSet<String>,
}

impl ConfigFile {
    /// Reads a file: TOML if its path ends with `.toml`, else JSON, with comments and trailing commas.
    ///
    /// A wrong entry is an error beside the other servers. A file that is no JSON or TOML at all has one error, with
    /// line and column, and no server.
    pub fn parse(source: Source, text: &[u8]) -> Self {
        let document = Document::parse(&source, text).map(Some);
        Self::of_document(source, text, document)
    }

    /// Reads the servers that a file of Claude Code has for the project in this folder, an absolute path: those of
    /// `projects` under it. Their programs run in that folder. Without such servers the file is empty. As the user has written them, `source` is the user's;
    /// [`Config::merge`](super::Config::merge) them before the file's [other servers](Self::parse), over which they
    /// have precedence.
    ///
    /// ```
    /// use mcp_proto::host::config::{Config, ConfigFile, Source};
    ///
    /// let text = br#"{
    ///     "mcpServers": { "search": { "url": "https://search.example/mcp" } },
    ///     "projects": { "/work/app": { "mcpServers": { "files": { "command": "mcp-files" } } } }
    /// }"#;
    /// let source = Source::user("/home/ann/.claude.json");
    /// let of_project = ConfigFile::parse_of_project(source.clone(), text, "/work/app");
    /// let config = Config::merge([of_project, ConfigFile::parse(source, text)]);
    /// assert!(config.find("files").is_some() && config.find("search").is_some());
    /// ```
    pub fn parse_of_project(source: Source, text: &[u8], folder: &str) -> Self {
        let document = Document::of_project(&source, text, folder);
        let document = document.map(|document| Some(document).filter(|it| !it.tables.is_empty()));
        let mut file = Self::of_document(source, text, document);
        file.servers = file.servers.into_iter().map(|server| server.in_folder(folder)).collect();
        file
    }

    /// Reads a file as its application does in the project in this folder, an absolute path. The user's file of Claude Code
    /// counts as two: its servers [for the project](Self::parse_of_project), if the file can be read, and then the others.
    pub fn parse_for(source: Source, text: &[u8], folder: &str) -> Vec<Self> {
        let file = Self::parse(source.clone(), text);
        // The error of a file that is no JSON is not repeated.
        let is_read = file.errors.iter().all(|error| error.server.is_some());
        let is_of_claude = source.scope == Scope::User && source.application == Application::ClaudeCode;
        let of_project = (is_of_claude && is_read).then(|| Self::parse_of_project(source, text, folder));
        of_project.into_iter().chain([file]).collect()
    }

    //= F87 "A source that cannot be read gives no tools and an error with its path"
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

    fn new(source: Source) -> Self {
        Self {
            source: Arc::new(source),
            servers: Vec::new(),
            errors: Vec::new(),
            diagnostics: Vec::new(),
            possible_names: OrderedSet::new(),
        }
    }

    fn of_document(source: Source, text: &[u8], document: ReadResult<Option<Document>>) -> Self {
        let mut file = Self::new(source);
        match document {
            Ok(document) => document.into_iter().for_each(|document| file.read(document)),
            Err(kind) => file.error(None, kind),
        }
        let is_damage = |error: &ConfigError| {
            use ConfigErrorKind::{FileTooLarge, NotATable, Syntax, TooManyServers};
            matches!(error.kind, FileTooLarge(_) | NotATable(_) | Syntax { .. } | TooManyServers)
        };
        if file.source.scope == Scope::User && file.errors.iter().any(is_damage) {
            file.possible_names = possible_names(text, is_toml(&file.source));
        }
        file
    }

    fn error(&mut self, server: Option<&str>, kind: ConfigErrorKind) {
        self.errors.push(ConfigError { source: self.source.clone(), server: server.map(String::from), kind });
    }

    /// The value, or its default and an error of the whole file.
    fn value_or<T>(&mut self, default: T, value: ReadResult<T>) -> T {
        value.unwrap_or_else(|kind| {
            self.error(None, kind);
            default
        })
    }

    fn diagnostic(&mut self, server: Option<&str>, kind: DiagnosticKind) {
        if self.diagnostics.len() < MAX_SERVERS {
            let server = server.map(String::from);
            self.diagnostics.push(Diagnostic { source: self.source.clone(), server, kind });
        }
    }

    fn read(&mut self, document: Document) {
        let Document { tables, inputs, timeout, allowed, excluded, lines } = document;
        if tables.is_empty() {
            self.diagnostic(None, DiagnosticKind::NoServers);
        }
        let timeout = timeout.map(|(member, value)| {
            let unit = if member == REQUEST_TIMEOUT { Unit::Milliseconds } else { Unit::Seconds };
            duration(member, &value, unit)
        });
        let lists = name_list("mcp.allowed", allowed)
            .and_then(|allowed| Ok((allowed, name_list("mcp.excluded", excluded)?)));
        let context = Context {
            application: self.source.application,
            inputs: self.read_inputs(inputs),
            call_timeout: self.value_or(None, timeout.transpose()),
            // A list that is wrong lets no server be used: it may be the one that matters.
            uses: self.value_or((Some(OrderedSet::new()), None), lists),
            lines,
        };
        let mut names = OrderedSet::new();
        let mut entries_left = MAX_SERVERS;
        for (table_name, table) in tables.into_iter().take(MAX_SERVERS) {
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

    fn read_inputs(&mut self, declarations: Vec<Value>) -> OrderedMap<String, Arc<InputSpec>> {
        let mut inputs = OrderedMap::new();
        for declaration in declarations {
            match input(declaration) {
                Ok(input) if inputs.len() < MAX_INPUTS && input.bytes() <= INPUT_BYTES => {
                    inputs.insert(input.id.clone(), Arc::new(input));
                }
                _ => self.diagnostic(None, DiagnosticKind::IgnoredInput),
            }
        }
        inputs
    }

    //= F84 "Each entry of a configuration is checked"
    fn read_entry(&mut self, context: &Context, name: String, entry: Value) {
        let spec = context.spec(entry).and_then(|(spec, ignored)| {
            // A URL with references is checked once they are resolved.
            let is_known = matches!(&spec.transport, TransportSpec::Http(http) if http.url.is_literal());
            let is_of_project = self.source.scope == Scope::Project;
            if is_of_project && is_known && spec.foreign_resource().is_some() {
                let reason = "the server would get tokens for another resource: \
                              write the URL of the entry, or a parent of it by whole path segments";
                return Err(invalid("oauth.resource", reason));
            }
            Ok((spec, ignored))
        });
        match spec {
            Ok((mut spec, ignored)) => {
                spec.enabled &= context.uses(&name);
                for member in ignored {
                    self.diagnostic(Some(&name), DiagnosticKind::IgnoredMember(member));
                }
                let line = context.lines.get(&name).copied();
                self.servers.push(ServerEntry::new(name, self.source.clone(), line, spec));
            }
            Err(kind) => self.error(Some(&name), kind),
        }
    }
}

/// Reads the declaration of an input that the user types or picks: the output of a command is none.
fn input(declaration: Value) -> ReadResult<InputSpec> {
    let Value::Table(table) = declaration else { return Err(wrong_type("inputs", "a list of objects")) };
    let mut members = Members::new(table, References::None)?;
    let kind = members.read(&["type"], text)?.unwrap_or_else(|| "promptString".into());
    let id = members.read(&["id"], text)?.ok_or_else(|| wrong_type("inputs.id", "a text"))?;
    if !matches!(kind.as_str(), "promptString" | "pickString") {
        return Err(wrong_type("inputs.type", "promptString or pickString"));
    }
    let options = members.read(&["options"], |_, value| list("inputs.options", value, "a list of texts"))?;
    Ok(InputSpec {
        id,
        description: members.read(&["description"], text)?,
        is_password: members.flag("password")?,
        default: members.read(&["default"], text)?,
        options: options.into_iter().flatten().map(pick_option).collect::<Result<_, _>>()?,
    })
}

/// An option to pick: a text, or an object with a label and a value.
fn pick_option(option: Value) -> ReadResult<String> {
    let value = match option {
        Value::Table(table) => table.into_iter().find(|(name, _)| name == "value").map(|(_, value)| value),
        other => Some(other),
    };
    text("inputs.options", value.unwrap_or(Value::Null))
}

type Names = OrderedSet<String>;

fn name_list(member: &str, value: Option<Value>) -> ReadResult<Option<Names>> {
    value.map(|value| texts(member, value).map(Names::from_iter)).transpose()
}

/// The parts of a file that all its entries share.
struct Context {
    application: Application,
    inputs: OrderedMap<String, Arc<InputSpec>>,
    /// For servers without a timeout of their own.
    call_timeout: Option<Duration>,
    /// The names of the only servers that are used, and of those that are not.
    uses: (Option<Names>, Option<Names>),
    lines: ServerLines,
}

/// Members that some application knows and that mean nothing for a connection.
const MEANINGLESS: [&str; 6] = ["$schema", "description", "dev", "gallery", "name", "source"];

impl Context {
    fn uses(&self, server: &str) -> bool {
        let (allowed, excluded) = &self.uses;
        let names = |names: &Names| names.contains(server);
        allowed.as_ref().is_none_or(names) && !excluded.as_ref().is_some_and(names)
    }

    /// Reads an entry: its specification, and the names of the members that are ignored.
    fn spec(&self, entry: Value) -> ReadResult<(ServerSpec, Vec<String>)> {
        let Value::Table(table) = entry else { return Err(ConfigErrorKind::EntryNotATable) };
        let mut members = Members::new(table, self.application.references())?;
        for name in MEANINGLESS {
            members.take(name);
        }
        // Zed has had the whole command as an object.
        match members.take("command") {
            Some(Value::Table(command)) => merge_command(&mut members, command)?,
            Some(command) => members.put("command", command),
            None => {}
        }
        let mut spec = ServerSpec::new(transport(&mut members)?);
        self.read_timeouts(&mut members, &mut spec)?;
        spec.reconnect_attempts = members.read(&["maxReconnectAttempts"], count)?;
        spec.enabled = enabled(&mut members)?;
        spec.required = members.flag("required")?;
        spec.lazy = members.flag("lazy")?;
        spec.trusted = members.flag("trust")?;
        let mut lists = |allow: &[&'static str], deny: &[&'static str]| -> ReadResult<ItemLists> {
            let (allow, deny) = (members.read(allow, texts)?, members.read(deny, texts)?);
            Ok(ItemLists { allow, deny: deny.unwrap_or_default() })
        };
        spec.tools = lists(
            &["includeTools", "enabled_tools", "enabledTools"],
            &["excludeTools", "disabled_tools", "disabledTools"],
        )?;
        spec.prompts = lists(&["includePrompts"], &["excludePrompts"])?;
        spec.resources = lists(&["includeResources"], &["excludeResources"])?;
        spec.inputs = self.inputs_of(&spec)?;
        Ok((spec, members.into_rest().collect()))
    }

    fn read_timeouts(&self, members: &mut Members, spec: &mut ServerSpec) -> ReadResult<()> {
        let unit = if self.application.timeout_is_in_seconds() { Unit::Seconds } else { Unit::Milliseconds };
        let mut duration = |name, unit| members.read(&[name], |name, value| duration(name, &value, unit));
        let timeout = duration("timeout", unit)?;
        let start = duration("startup_timeout_sec", Unit::Seconds)?;
        let start = start.or(duration("startup_timeout_ms", Unit::Milliseconds)?);
        spec.start_timeout = start.or(timeout.filter(|_| self.application.timeout_covers_start()));
        let call = duration("tool_timeout_sec", Unit::Seconds)?;
        //= F67 "`requestTimeoutMs` holds for timeouts and repetitions"
        let call = call.or(duration(REQUEST_TIMEOUT, Unit::Milliseconds)?);
        spec.call_timeout = call.or(timeout).or(self.call_timeout);
        spec.keepalive = duration("keepAliveMs", Unit::Milliseconds)?;
        Ok(())
    }

    /// The declarations of the inputs that an entry refers to, by id.
    fn inputs_of(&self, spec: &ServerSpec) -> ReadResult<Vec<Arc<InputSpec>>> {
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

/// The names of the URL: Gemini's, Windsurf's, everyone else's.
const URLS: [&str; 3] = ["httpUrl", "serverUrl", "url"];

fn transport(members: &mut Members) -> ReadResult<TransportSpec> {
    let has_url = members.has(&URLS);
    let written = members.read(&["type", "transport"], text)?;
    let kind = written.as_deref().map(|kind| kind.to_ascii_lowercase().replace(['-', '_'], ""));
    let transport = match kind.as_deref() {
        None if members.has(&["command"]) && has_url => {
            return Err(ConfigErrorKind::ConflictingMembers("command", "url"));
        }
        None if has_url => return http(members, None),
        None | Some("stdio") => return stdio(members, false),
        Some("stdiov2") => return stdio(members, true),
        Some("http" | "streamablehttp") => HttpTransport::Http,
        Some("sse") => HttpTransport::Sse,
        Some("ws" | "websocket") => HttpTransport::WebSocket,
        Some(_) => return Err(ConfigErrorKind::UnsupportedTransport(written.unwrap_or_default())),
    };
    http(members, Some(transport))
}

fn enabled(members: &mut Members) -> ReadResult<bool> {
    match (members.read(&["enabled"], flag)?, members.read(&["disabled"], flag)?) {
        (Some(enabled), Some(disabled)) if enabled == disabled => {
            Err(ConfigErrorKind::ConflictingMembers("enabled", "disabled"))
        }
        (Some(enabled), _) => Ok(enabled),
        (None, disabled) => Ok(!disabled.unwrap_or(false)),
    }
}

fn stdio(members: &mut Members, speaks_http2: bool) -> ReadResult<TransportSpec> {
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
        speaks_http2,
    }))
}

/// Codex's names of variables that a server gets from the application's environment.
fn forwarded(members: &mut Members) -> ReadResult<Vec<String>> {
    const MEMBER: &str = "env_vars";
    let mut names = Vec::new();
    let items = members.read(&[MEMBER], |_, value| list(MEMBER, value, "a list of names"))?;
    for item in items.into_iter().flatten() {
        let name = match item {
            Value::Table(table) => {
                let mut table = Members::new(table, References::None)?;
                if table.read(&["source"], text)?.is_some_and(|source| source == "remote") {
                    continue;
                }
                table.read(&["name"], text)?.ok_or_else(|| wrong_type(MEMBER, "a list of names"))?
            }
            name => text(MEMBER, name)?,
        };
        names.push(variable_name(MEMBER, &name)?);
    }
    Ok(names)
}

//= F39 "Headers from the configuration"
/// A URL; the transport is that of its scheme unless it is given.
fn http(members: &mut Members, transport: Option<HttpTransport>) -> ReadResult<TransportSpec> {
    let url = members.template(&URLS)?.ok_or(ConfigErrorKind::MissingTransport { expected: "\"url\"" })?;
    let written = url.text();
    let upgrade = websocket_url(&written);
    let transport = transport.unwrap_or(match upgrade {
        Some(_) => HttpTransport::WebSocket,
        None => HttpTransport::Http,
    });
    if url.is_literal() && UrlConsent::new(upgrade.as_deref().unwrap_or(&written)).is_err() {
        let reason = "the text is not the URL of an HTTP server, with special characters percent-encoded";
        return Err(invalid("url", reason));
    }
    if url.is_literal() && upgrade.is_some() != (transport == HttpTransport::WebSocket) {
        return Err(invalid("url", "a URL begins with ws: or wss: if the type is websocket, and only then"));
    }
    let mut headers = members.template_map(&["headers", "http_headers"], header_name)?;
    for (name, variable) in env_headers(members)? {
        if headers.insert(name.clone(), Template::variable("", &variable)).is_some() {
            return Err(ConfigErrorKind::DuplicateMember(name));
        }
    }
    if let Some(variable) = members.read(&["bearer_token_env_var"], text)? {
        let member = "bearer_token_env_var";
        let name = variable_name(member, &variable)?;
        if headers.insert("authorization".into(), Template::variable("Bearer ", &name)).is_some() {
            return Err(ConfigErrorKind::ConflictingMembers(member, "headers"));
        }
    }
    let chunked_results = members.flag("chunkedResults")?;
    Ok(TransportSpec::Http(HttpSpec { transport, url, headers, oauth: oauth(members)?, chunked_results }))
}

/// Codex's headers whose values are variables: the names of the headers and of the variables.
fn env_headers(members: &mut Members) -> ReadResult<Vec<(String, String)>> {
    let member = "env_http_headers";
    let read = |(name, value): (String, Value)| {
        let variable = text(member, value)?;
        Ok((header_name(member, &name)?, variable_name(member, &variable)?))
    };
    members.read(&[member], table)?.unwrap_or_default().into_iter().map(read).collect()
}

fn oauth(members: &mut Members) -> ReadResult<Option<OauthSpec>> {
    let scopes = members.read(&["scopes"], texts)?;
    let resource = members.read(&["oauth_resource"], text)?;
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
    // As a list, or as one text with spaces, as the protocol writes them.
    let scope_list = |name: &str, value| match value {
        Value::Text(scopes) => Ok(scopes.split_whitespace().map(String::from).collect()),
        value => texts(name, value),
    };
    let port = |name: &str, value| {
        let port = if let Value::Integer(port) = value { u16::try_from(port).ok() } else { None };
        port.ok_or_else(|| wrong_type(name, "a port"))
    };
    Ok(Some(OauthSpec {
        client_id: table.read(&["clientId", "client_id"], text)?,
        client_secret: table.template(&["clientSecret", "client_secret"])?,
        issuer: table.read(&["issuer"], text)?,
        scopes: match scopes {
            Some(scopes) => scopes,
            None => table.read(&["scopes", "scope"], scope_list)?.unwrap_or_default(),
        },
        resource: resource.map_or_else(|| table.read(&["resource"], text), |resource| Ok(Some(resource)))?,
        callback_port: table.read(&["callbackPort", "callback_port"], port)?,
        allowed_hosts: table.read(&["allowedHosts", "allowed_hosts"], hosts)?,
    }))
}

/// The hosts of a list.
fn hosts(member: &str, value: Value) -> ReadResult<Vec<String>> {
    let hosts = texts(member, value)?;
    match hosts.iter().all(|host| parse_host(host).is_ok()) {
        true => Ok(hosts),
        false => Err(invalid(member, "a host is a name or an address, without scheme and port")),
    }
}

/// Checks the name of an environment variable.
fn variable_name(member: &str, name: &str) -> ReadResult<String> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(invalid(member, "this is not the name of an environment variable"));
    }
    Ok(name.into())
}

/// Checks the name of a header; returns it in lower case.
fn header_name(member: &str, name: &str) -> ReadResult<String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(invalid(member, "this is not the name of a header"));
    }
    Ok(name.to_ascii_lowercase())
}

/// Puts the members of a command's object in the entry's place.
fn merge_command(members: &mut Members, command: Table) -> ReadResult<()> {
    for (name, value) in command {
        let name = match name.as_str() {
            "path" => "command",
            name @ ("args" | "env") => name,
            _ => continue,
        };
        if members.has(&[name]) {
            return Err(ConfigErrorKind::DuplicateMember(name.into()));
        }
        members.put(name, value);
    }
    Ok(())
}
