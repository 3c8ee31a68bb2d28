//! The request that the user sees before a project's server may start.

use core::fmt;
use core::time::Duration;

use super::Approval;
use crate::consent::{
    SafeText, UrlConsent, UrlWarning, has_inline_code, is_harmless_variable, is_loader_variable,
    runs_commands,
};
use crate::host::config::{
    Answers, DotenvError, EnvFileBinding, HttpSpec, HttpTransport, InputSpec, Lookup, Resolver, Scope,
    ServerEntry, ServerSpec, StdioSpec, Template, TransportSpec, parse_dotenv,
};
use crate::prelude::*;
use crate::{HumanDuration, Secret};

/// The question whether a project's server may start, with everything that the approval covers.
///
/// Values are shown as the file has them, with the references in them: what those stand for, and the secret of an OAuth
/// client, is not shown.
///
/// `Display` writes the [`lines`](Self::lines) and the [`warnings`](Self::warnings) without control characters, in rows
/// of 80 columns. The further rows of a long line begin with `    | `, so that no text of the file passes for another
/// line.
#[derive(Clone, Debug)]
pub struct ApprovalRequest {
    approval: Approval,
    lines: Vec<RequestLine>,
    warnings: Vec<ApprovalWarning>,
    /// The file of variables to show, if it is in the folder of the project.
    env_file: Option<Lookup>,
}

impl ApprovalRequest {
    /// The request to approve this server.
    pub fn new(entry: &ServerEntry) -> Self {
        let spec = entry.spec();
        let mut lines = Lines::default();
        lines.add("server", entry.name());
        lines.add("file", &entry.source().path);
        match &spec.transport {
            TransportSpec::Stdio(stdio) => lines.add_program(stdio, entry.working_folder()),
            TransportSpec::Http(http) => lines.add_connection(http),
        }
        lines.add_lookups(spec);
        lines.add_use(spec);
        let env_file = Resolver::new(entry, &Answers::new()).project_env_file();
        Self { approval: Approval::new(entry), lines: lines.0, warnings: warnings(entry), env_file }
    }

    /// The path of the project's file.
    pub fn path(&self) -> &str {
        self.approval.path()
    }

    /// The name of the server.
    pub fn server(&self) -> &str {
        self.approval.server()
    }

    /// Everything that the approval covers, in an order to show.
    pub fn lines(&self) -> &[RequestLine] {
        &self.lines
    }

    /// The parts that deserve a second look.
    pub fn warnings(&self) -> &[ApprovalWarning] {
        &self.warnings
    }

    /// The file of environment variables in the folder of the project: look it up before the request is shown, and add
    /// it by [`with_env_file`](Self::with_env_file). `None` if there is none, or it is elsewhere: such a file is read
    /// once the server is approved, and asked about then, by [`Permit::env_file_request`](super::Permit::env_file_request).
    pub const fn env_file(&self) -> Option<&Lookup> {
        self.env_file.as_ref()
    }

    /// Adds the names of the variables in the file, with this content, and binds the approval to them and to the values,
    /// except those of [harmless](crate::consent::is_harmless_variable) variables. A change asks again.
    ///
    /// The approval is stored with a hash of the values under `key`: 16 random bytes, new for each request.
    ///
    /// ```
    /// use mcp_proto::Secret;
    /// use mcp_proto::host::config::{ConfigFile, Source};
    /// use mcp_proto::host::consent::ApprovalRequest;
    ///
    /// let text = br#"{ "servers": { "db": { "command": "mcp-db", "envFile": ".env" } } }"#;
    /// let server = &ConfigFile::parse(Source::project("/work/app/.vscode/mcp.json"), text).servers[0];
    /// let request = ApprovalRequest::new(server);
    /// assert!(request.env_file().is_some());
    /// # let random = [7; 16];
    /// let request = request.with_env_file(&Secret::new("DB_URL=db://localhost"), random)?;
    /// assert!(request.to_string().contains("that file sets the variable: DB_URL"));
    /// # Ok::<(), mcp_proto::host::config::DotenvError>(())
    /// ```
    ///
    /// # Errors
    /// If the content is no file of variables.
    pub fn with_env_file(mut self, content: &Secret, key: [u8; 16]) -> Result<Self, DotenvError> {
        let variables = parse_dotenv(content.expose())?;
        self.approval.env_file = Some(EnvFileBinding::new(&variables, key));
        self.warnings.extend(variables.keys().filter_map(|name| ApprovalWarning::of_variable(name)));
        for name in variables.into_keys() {
            self.lines.push(RequestLine { label: "that file sets the variable", text: name });
        }
        Ok(self)
    }

    setters! {
        /// Says that the user has logged in at the server's URL, so that the server gets tokens of the user at once. Only the
        /// application knows its tokens.
        #[must_use]
        pub fn with_login(self) { self.warnings.push(ApprovalWarning::HasLogin) }

        /// Says that the server may get tokens of the user at once: a login does not need the user, or the stored tokens cannot
        /// be read.
        #[must_use]
        pub fn with_possible_login(self) { self.warnings.push(ApprovalWarning::MayHaveLogin) }
    }

    /// The approval. Call it only if the user has seen the lines and agreed.
    pub fn approve(&self) -> Approval {
        self.approval.clone()
    }
}

impl fmt::Display for ApprovalRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a project asks to use a server:")?;
        self.lines.iter().try_for_each(|line| write_rows(f, line.label, &line.text))?;
        self.warnings.iter().try_for_each(|warning| match warning.to_string() {
            // A longer one has a text of the file.
            long if long.len() > 100 => write_rows(f, "warning", &long),
            short => write!(f, "\n  warning: {short}"),
        })
    }
}

/// Writes a line in rows that the usual terminal does not wrap.
pub(super) fn write_rows(f: &mut fmt::Formatter<'_>, label: &str, text: &str) -> fmt::Result {
    const COLUMNS: usize = 80;
    const NEXT_ROW: &str = "\n    | ";
    let first = COLUMNS.saturating_sub("  : ".len()).saturating_sub(label.len());
    let rows = SafeText::wrap_line(text, first, COLUMNS.saturating_sub(NEXT_ROW.len()));
    write!(f, "\n  {label}: {}", rows.join(NEXT_ROW))
}

/// One fact of an [`ApprovalRequest`]. `Display` writes it on one line, escaped, however long it is:
/// [`SafeText::wrap_line`] splits it for a terminal.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestLine {
    /// The kind of fact.
    pub label: &'static str,
    /// The text of the file: escape it with [`SafeText`] wherever it is shown.
    pub text: String,
}

display_text! { RequestLine { label, text } => "{label}: {}", SafeText::line(text) }

debug_fields! { RequestLine { label } }

#[derive(Default)]
pub(super) struct Lines(pub(super) Vec<RequestLine>);

impl Lines {
    pub(super) fn add(&mut self, label: &'static str, text: &str) {
        self.0.push(RequestLine { label, text: text.into() });
    }

    pub(super) fn add_all<'a>(&mut self, label: &'static str, texts: impl IntoIterator<Item = &'a String>) {
        texts.into_iter().for_each(|text| self.add(label, text));
    }

    fn add_program(&mut self, stdio: &StdioSpec, folder: Option<String>) {
        self.add("starts the program", &stdio.command.text());
        stdio.args.iter().for_each(|argument| self.add("with the argument", &argument.text()));
        self.add_all("in the folder", &folder);
        for (name, value) in &stdio.env {
            self.add("sets the variable", &format!("{name}={}", value.text()));
        }
        self.add_all("passes on the variable", &stdio.forwarded);
        let file = stdio.env_file.as_ref().map(Template::text);
        self.add_all("sets the variables of the file", &file);
    }

    fn add_connection(&mut self, http: &HttpSpec) {
        let label = match http.transport {
            HttpTransport::Http => "connects to",
            HttpTransport::Sse => "connects by HTTP+SSE to",
            HttpTransport::WebSocket => "connects by WebSocket to",
        };
        self.add(label, &http.url.text());
        for (name, value) in &http.headers {
            self.add("sends the header", &format!("{name}: {}", value.text()));
        }
        if http.chunked_results {
            self.add("reads results", "in parts");
        }
        let Some(oauth) = &http.oauth else { return };
        self.add_all("logs in as the client", &oauth.client_id);
        if oauth.client_secret.is_some() {
            self.add("logs in with", "a secret of its own");
        }
        self.add_all("logs in at", &oauth.issuer);
        self.add_all("asks for the scope", &oauth.scopes);
        self.add_all("logs in for the resource", &oauth.resource);
        if let Some(hosts) = &oauth.allowed_hosts {
            self.add("logs in only at", "its own host");
            self.add_all("or at the host", hosts);
        }
        if let Some(port) = oauth.callback_port {
            self.add("receives the login on port", &port.to_string());
        }
    }

    /// The variables that are read, and the inputs that the user types.
    fn add_lookups(&mut self, spec: &ServerSpec) {
        for lookup in spec.lookups() {
            match lookup {
                Lookup::Variable(name) => self.add("reads the variable", name),
                Lookup::Input(id) => {
                    let input = spec.inputs.iter().find(|input| input.id == *id);
                    self.add("asks you for", &input.map_or(id.clone(), |input| described(input)));
                }
                Lookup::Predefined(variable) => self.add("reads the variable", variable.as_str()),
                Lookup::EnvFile(_) => {}
            }
        }
    }

    fn add_use(&mut self, spec: &ServerSpec) {
        if spec.trusted {
            self.add("calls its tools", "without asking you");
        }
        self.add_all("offers the tool", spec.tools.allow.iter().flatten());
        self.add_all("does not offer the tool", &spec.tools.deny);
        self.add_all("offers the prompt", spec.prompts.allow.iter().flatten());
        self.add_all("does not offer the prompt", &spec.prompts.deny);
        self.add_all("offers the resource", spec.resources.allow.iter().flatten());
        self.add_all("does not offer the resource", &spec.resources.deny);
        if spec.required {
            self.add("starts", "before everything else");
        }
        if spec.lazy {
            self.add("starts", "with the first call");
        }
        let timeouts = [("may start for", spec.start_timeout), ("may answer within", spec.call_timeout)];
        for (label, timeout) in timeouts {
            match timeout {
                Some(Duration::ZERO) => self.add(label, "any time"),
                Some(timeout) => self.add(label, &HumanDuration(timeout).to_string()),
                None => {}
            }
        }
        if let Some(attempts) = spec.reconnect_attempts {
            let times = if attempts == 1 { "once".into() } else { format!("{attempts} times") };
            self.add("may be tried again", &times);
        }
        match spec.keepalive {
            Some(Duration::ZERO) => self.add("is pinged", "never"),
            Some(pause) => self.add("is pinged every", &HumanDuration(pause).to_string()),
            None => {}
        }
    }
}

/// An input, with the values that the file has for it.
fn described(input: &InputSpec) -> String {
    let mut text = input.id.clone();
    for (before, value, after) in [(" (", &input.description, ")"), (", by default ", &input.default, "")] {
        let parts = value.iter().flat_map(|value| [before, value, after]);
        text.extend(parts);
    }
    if !input.options.is_empty() {
        text.extend([", one of ", &input.options.join(", ")]);
    }
    text
}

/// A part of a server that deserves a second look. `Display` writes a sentence on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApprovalWarning {
    /// The program is a shell or another program that runs commands, such as `env`, or an interpreter with code in its
    /// arguments, such as `python -c`.
    Shell,
    /// This variable is known to make the program, or programs that it starts, load other code or connect elsewhere.
    LoadsCode(String),
    /// This variable is not [known to be harmless](is_harmless_variable).
    UnknownVariable(String),
    /// The URL has something suspicious.
    Url(UrlWarning),
    /// The program, its folder or the URL depends on variables, and the user cannot see it whole.
    Hidden,
    /// The project decides this member of the login: `issuer`, `clientId` or `resource`.
    ChoosesLogin(&'static str),
    /// The user has logged in at the server's URL before.
    HasLogin,
    /// It is not known whether the server gets tokens of the user: the URL has references, the stored tokens cannot be
    /// read, or the login does not need the user.
    MayHaveLogin,
    /// The server gets tokens for this resource, which is neither its URL nor a parent of it.
    ForeignResource(String),
}

impl ApprovalWarning {
    /// The warning of a variable that is not known to be harmless.
    fn of_variable(name: &str) -> Option<Self> {
        if is_harmless_variable(name) {
            return None;
        }
        let warning = if is_loader_variable(name) { Self::LoadsCode } else { Self::UnknownVariable };
        Some(warning(name.into()))
    }
}

display_text! { ApprovalWarning:
    Shell => "the program is a shell, or runs code in its arguments: read each of them";
    LoadsCode(name) =>
        "the variable {} can make programs run other code or connect elsewhere", beginning(name);
    UnknownVariable(name) =>
        "the program decides what the variable {} changes: read its value", beginning(name);
    Url(warning) => "{warning}";
    Hidden => "what starts, or where it connects, depends on values that are not shown";
    ChoosesLogin(member) => "the project, not you, chooses where or as what you log in, by \"{member}\"";
    HasLogin =>
        "you have logged in at this URL: the server is used in your name from the first connection on";
    MayHaveLogin =>
        "if you have logged in at its URL, or a login there does not need you, the server is used in your name from the first connection on";
    ForeignResource(resource) =>
        "the server gets tokens for {}, which is neither its URL nor a parent of it, as far as the entry shows", SafeText::line(resource);
}

/// The beginning of a name, which a line shows whole: a longer one could fill rows.
fn beginning(name: &str) -> String {
    const COLUMNS: usize = 24;
    let mut rows = SafeText::wrap_line(name, COLUMNS, COLUMNS).into_iter();
    let beginning = rows.next().unwrap_or_default();
    if rows.next().is_some() { format!("{beginning}…") } else { beginning }
}

fn warnings(entry: &ServerEntry) -> Vec<ApprovalWarning> {
    let mut warnings = Vec::new();
    match &entry.spec().transport {
        TransportSpec::Stdio(stdio) => warn_of_program(&mut warnings, entry, stdio),
        TransportSpec::Http(http) => warn_of_connection(&mut warnings, entry, http),
    }
    warnings
}

fn warn_of_program(warnings: &mut Vec<ApprovalWarning>, entry: &ServerEntry, stdio: &StdioSpec) {
    // A default that stands for an option is one.
    let inputs = entry.spec().input_defaults();
    let words = [&stdio.command].into_iter().chain(&stdio.args);
    let words: Vec<String> = words.map(|word| word.with_defaults(&inputs)).collect();
    if words.first().is_some_and(|program| runs_commands(program)) || has_inline_code(&words) {
        warnings.push(ApprovalWarning::Shell);
    }
    let of_variables = || stdio.env.keys().filter_map(|name| ApprovalWarning::of_variable(name));
    let is_loader = |warning: &ApprovalWarning| matches!(warning, ApprovalWarning::LoadsCode(_));
    warnings.extend(of_variables().filter(is_loader));
    warnings.extend(of_variables().filter(|warning| !is_loader(warning)));
    if !stdio.command.is_literal() || entry.has_hidden_folder() {
        warnings.push(ApprovalWarning::Hidden);
    }
}

/// Also of the login: its members, and where its tokens go.
fn warn_of_connection(warnings: &mut Vec<ApprovalWarning>, entry: &ServerEntry, http: &HttpSpec) {
    let url = UrlConsent::new(&http.http_url());
    let url = url.iter().flat_map(UrlConsent::warnings);
    warnings.extend(url.copied().map(ApprovalWarning::Url));
    let is_hidden = !http.url.is_literal();
    warnings.extend(is_hidden.then_some(ApprovalWarning::Hidden));
    if entry.source().scope == Scope::User {
        let foreign = entry.spec().foreign_resource();
        return warnings.extend(foreign.map(|resource| ApprovalWarning::ForeignResource(resource.into())));
    }
    if let Some(oauth) = &http.oauth {
        let members =
            [("issuer", &oauth.issuer), ("clientId", &oauth.client_id), ("resource", &oauth.resource)];
        let written = members.into_iter().filter(|(_, value)| value.is_some());
        warnings.extend(written.map(|(member, _)| ApprovalWarning::ChoosesLogin(member)));
    }
    warnings.extend(is_hidden.then_some(ApprovalWarning::MayHaveLogin));
}
