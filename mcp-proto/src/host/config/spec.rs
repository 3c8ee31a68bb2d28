//! The specification of a server: its program or URL, its timeouts, and the resources that it may get tokens for.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::time::Duration;

use super::template::{Lookup, Template};
use crate::host::digest::{Digester, Fingerprint};
use crate::prelude::*;
use crate::url::HttpUrl;

/// A server as configured: how it is reached and how it is used, with references unresolved.
///
/// Secrets that the user wrote into the file are part of it; `Debug` shows none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerSpec {
    /// The program to start, or the URL to connect to.
    pub transport: TransportSpec,
    /// The configured timeout of the start; zero is no limit. [`timeouts`](Self::timeouts) combines it with the
    /// environment.
    pub start_timeout: Option<Duration>,
    /// The configured timeout of each request; zero is no limit.
    pub call_timeout: Option<Duration>,
    /// The configured pause between pings to the server, if it is a legacy one; zero is no pings. It applies from the next
    /// connection on. Default: that of the host.
    pub keepalive: Option<Duration>,
    /// How many attempts in a row may follow a failed one before the server is given up. Default: as the host says.
    pub reconnect_attempts: Option<u32>,
    /// Whether the server is used. Default: yes.
    pub enabled: bool,
    /// Whether the application waits for this server when it starts. Default: no.
    pub required: bool,
    /// Whether the server starts only with its first call, once its lists of tools and others are known. Default: no.
    pub lazy: bool,
    /// Whether the tools are called without confirmation. Default: no.
    pub trusted: bool,
    /// Which tools are offered.
    pub tools: ItemLists,
    /// Which prompts are offered.
    pub prompts: ItemLists,
    /// Which resources and templates are offered, by URI.
    pub resources: ItemLists,
    /// The declarations of the inputs that the entry refers to.
    pub inputs: Vec<Arc<InputSpec>>,
}

impl ServerSpec {
    /// A program that is started with these arguments. Neither may have references; set the fields for those.
    pub fn stdio(command: impl Into<String>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(TransportSpec::Stdio(StdioSpec {
            command: Template::literal(command),
            args: args.into_iter().map(Template::literal).collect(),
            env: BTreeMap::new(),
            forwarded: Vec::new(),
            env_file: None,
            cwd: None,
            speaks_http2: false,
        }))
    }

    /// A server at this URL, without references.
    pub fn http(url: impl Into<String>) -> Self {
        Self::new(TransportSpec::Http(HttpSpec {
            transport: HttpTransport::Http,
            url: Template::literal(url),
            headers: BTreeMap::new(),
            oauth: None,
            chunked_results: false,
        }))
    }

    pub(super) fn new(transport: TransportSpec) -> Self {
        Self {
            transport,
            start_timeout: None,
            call_timeout: None,
            keepalive: None,
            reconnect_attempts: None,
            enabled: true,
            required: false,
            lazy: false,
            trusted: false,
            tools: ItemLists::default(),
            prompts: ItemLists::default(),
            resources: ItemLists::default(),
            inputs: Vec::new(),
        }
    }

    /// The values from outside that the texts refer to; the path of a file of variables may itself depend on them.
    pub fn lookups(&self) -> BTreeSet<&Lookup> {
        self.templates().into_iter().flat_map(Template::lookups).collect()
    }

    fn templates(&self) -> Vec<&Template> {
        match &self.transport {
            TransportSpec::Stdio(stdio) => {
                let StdioSpec { command, args, env, forwarded: _, env_file, cwd, speaks_http2: _ } = stdio;
                let texts = [command].into_iter().chain(args).chain(env.values());
                texts.chain(env_file).chain(cwd).collect()
            }
            TransportSpec::Http(http) => {
                let HttpSpec { transport: _, url, headers, oauth, chunked_results: _ } = http;
                let secret = oauth.iter().filter_map(|oauth| oauth.client_secret.as_ref());
                [url].into_iter().chain(headers.values()).chain(secret).collect()
            }
        }
    }

    /// The defaults of inputs, by id.
    pub(in crate::host) fn input_defaults(&self) -> BTreeMap<&str, &str> {
        let inputs = self.inputs.iter();
        inputs.filter_map(|input| Some((input.id.as_str(), input.default.as_deref()?))).collect()
    }

    /// The resource of the login, unless the entry shows that tokens for it belong to the server at the URL. Of a URL with
    /// references, only the whole path segments before the first one are known.
    pub(in crate::host) fn foreign_resource(&self) -> Option<&str> {
        let TransportSpec::Http(http) = &self.transport else { return None };
        let resource = http.oauth.as_ref()?.resource.as_deref()?;
        let url = http.url.text();
        let known = match http.url.references().next().and_then(|first| url.split_once(&first.written)) {
            Some((before, _)) => before.rsplit_once('/').map_or("", |(segments, _)| segments),
            None => &url,
        };
        (!is_own_resource(known, resource)).then_some(resource)
    }

    //= F53 "A timeout of 0, by configuration or variable, removes the deadline"
    //= F62 "an environment variable precedes the configuration, which precedes the default"
    /// The timeouts that apply: those of the environment over the configured ones over the defaults.
    pub fn timeouts(&self, overrides: &TimeoutOverrides) -> Timeouts {
        let choose = |first: Option<Duration>, second: Option<Duration>| {
            Some(first.or(second).unwrap_or(DEFAULT)).filter(|timeout| !timeout.is_zero())
        };
        Timeouts {
            start: choose(overrides.start, self.start_timeout),
            call: choose(overrides.call, self.call_timeout),
        }
    }

    /// The fingerprint of the program or the connection.
    pub(super) fn connection(&self) -> Fingerprint {
        self.fingerprint("connection", |_| {})
    }

    /// The fingerprint of everything but the source and the name.
    pub(super) fn meaning(&self) -> Fingerprint {
        self.fingerprint("meaning", |digester| {
            self.digest_use(digester);
            digester.flag(self.enabled);
        })
    }

    /// The fingerprint of what an approval covers: everything but whether the server is enabled.
    pub(in crate::host) fn approved_content(&self) -> Fingerprint {
        self.fingerprint("approved content", |digester| self.digest_use(digester))
    }

    fn fingerprint(&self, purpose: &str, add_use: impl FnOnce(&mut Digester)) -> Fingerprint {
        let mut digester = Digester::new(purpose);
        self.transport.digest(&mut digester);
        digester.list(self.inputs.iter(), |digester, input| input.digest(digester));
        add_use(&mut digester);
        Fingerprint(digester.finish())
    }

    fn digest_use(&self, digester: &mut Digester) {
        let timeout = |digester: &mut Digester, timeout: Duration| {
            digester.bytes(&timeout.as_nanos().to_le_bytes());
        };
        digester.option(self.start_timeout, timeout);
        digester.option(self.call_timeout, timeout);
        for flag in [self.required, self.lazy, self.trusted] {
            digester.flag(flag);
        }
        digester.option(self.tools.allow.as_deref(), Digester::set);
        digester.set(&self.tools.deny);
        // Only if there is one: entries without it have the fingerprints that approvals were stored with.
        for (kind, lists) in [("prompts", &self.prompts), ("resources", &self.resources)] {
            if *lists != ItemLists::default() {
                digester.text(kind);
                digester.option(lists.allow.as_deref(), Digester::set);
                digester.set(&lists.deny);
            }
        }
        if let Some(pause) = self.keepalive {
            digester.text("keepalive");
            timeout(digester, pause);
        }
        if let Some(attempts) = self.reconnect_attempts {
            digester.text("reconnect attempts");
            digester.number(attempts.into());
        }
    }
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportSpec {
    /// A program that is started, over its standard input and output.
    Stdio(StdioSpec),
    /// A URL.
    Http(HttpSpec),
}

impl TransportSpec {
    /// Returns its name for logs: `stdio`, `stdio-v2`, `http`, `sse` or `websocket`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Stdio(StdioSpec { speaks_http2: true, .. }) => "stdio-v2",
            Self::Stdio(_) => "stdio",
            Self::Http(HttpSpec { transport: HttpTransport::Http, .. }) => "http",
            Self::Http(HttpSpec { transport: HttpTransport::Sse, .. }) => "sse",
            Self::Http(HttpSpec { transport: HttpTransport::WebSocket, .. }) => "websocket",
        }
    }

    fn digest(&self, digester: &mut Digester) {
        match self {
            Self::Stdio(stdio) => {
                digester.text(self.name());
                Template::digest(digester, &stdio.command);
                digester.list(stdio.args.iter(), Template::digest);
                digest_map(digester, &stdio.env);
                digester.set(&stdio.forwarded);
                digester.option(stdio.env_file.as_ref(), Template::digest);
                digester.option(stdio.cwd.as_ref(), Template::digest);
            }
            Self::Http(http) => {
                digester.text(match http.transport {
                    HttpTransport::Http => "http",
                    HttpTransport::Sse => "sse",
                    HttpTransport::WebSocket => "websocket",
                });
                let literal = http.url.is_literal().then(|| Template::literal(normal_url(&http.url.text())));
                Template::digest(digester, literal.as_ref().unwrap_or(&http.url));
                digest_map(digester, &http.headers);
                digester.option(http.oauth.as_ref(), |digester, oauth| oauth.digest(digester));
                // Entries without it have the fingerprints that approvals were stored with.
                if http.chunked_results {
                    digester.text("chunked results");
                }
            }
        }
    }
}

fn digest_map(digester: &mut Digester, map: &BTreeMap<String, Template>) {
    digester.list(map.iter(), |digester, (name, template)| {
        digester.text(name);
        Template::digest(digester, template);
    });
}

/// The URL with scheme and host in lower case and without the default port, if it can be read.
fn normal_url(url: &str) -> String {
    let Ok(parsed) = HttpUrl::parse(url) else { return url.into() };
    let path = if parsed.path.is_empty() { "/" } else { parsed.path };
    let user = parsed.user.map(|user| format!("{user}@")).unwrap_or_default();
    let query = parsed.query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{user}{}{path}{query}", parsed.origin())
}

/// A program to start. Nothing of it passes through a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StdioSpec {
    /// The program: a path, or a name that is searched for.
    pub command: Template,
    /// Its arguments.
    pub args: Vec<Template>,
    /// Environment variables that are set for it, by name.
    pub env: BTreeMap<String, Template>,
    /// Environment variables that it gets from the application's environment if they are set there.
    pub forwarded: Vec<String>,
    /// A file with further variables; those of [`env`](Self::env) override them.
    pub env_file: Option<Template>,
    /// Its working directory; one of a project's entry begins in the [project's folder](super::Source::folder), which is
    /// the default there.
    pub cwd: Option<Template>,
    /// Whether it speaks HTTP/2 instead of one JSON message per line: the experimental transport `stdio-v2`. Default: no.
    pub speaks_http2: bool,
}

/// A URL to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSpec {
    /// Which of the HTTP transports.
    pub transport: HttpTransport,
    /// The URL.
    pub url: Template,
    /// Headers that are sent with each request, by their names in lower case.
    pub headers: BTreeMap<String, Template>,
    /// The configuration of a login.
    pub oauth: Option<OauthSpec>,
    /// Whether results of tools are read in parts, from a server of a dialect that no revision defines. Default: no.
    pub chunked_results: bool,
}

/// Which of the HTTP transports a server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HttpTransport {
    /// Streamable HTTP, or whatever the client detects.
    Http,
    /// HTTP+SSE of 2024-11-05.
    Sse,
    /// WebSocket, by a URL of `ws` or `wss`.
    WebSocket,
}

impl HttpSpec {
    /// The URL as one of HTTP, with the references in it: that of the upgrade, for a WebSocket.
    pub fn http_url(&self) -> String {
        let url = self.url.text();
        websocket_url(&url).unwrap_or(url)
    }
}

/// The HTTP URL of the upgrade, if this is the URL of a WebSocket.
pub(super) fn websocket_url(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once(':')?;
    match scheme {
        _ if scheme.eq_ignore_ascii_case("ws") => Some(format!("http:{rest}")),
        _ if scheme.eq_ignore_ascii_case("wss") => Some(format!("https:{rest}")),
        _ => None,
    }
}

/// The configuration of a login.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OauthSpec {
    /// The id of a client that was registered beforehand.
    pub client_id: Option<String>,
    /// The secret of that client.
    pub client_secret: Option<Template>,
    /// The authorization server that the client was registered at; its id and its secret are sent to no other.
    pub issuer: Option<String>,
    /// The scopes to ask for.
    pub scopes: Vec<String>,
    /// The resource parameter, if it is not the URL.
    pub resource: Option<String>,
    /// The port on which redirects are received.
    pub callback_port: Option<u16>,
    /// The only hosts for logins, beside the server's own; `None` for any.
    pub allowed_hosts: Option<Vec<String>>,
}

impl OauthSpec {
    fn digest(&self, digester: &mut Digester) {
        digester.option(self.client_id.as_deref(), Digester::text);
        digester.option(self.client_secret.as_ref(), Template::digest);
        digester.set(&self.scopes);
        digester.option(self.resource.as_deref(), Digester::text);
        digester.option(self.callback_port, |digester, port| digester.number(port.into()));
        // Only if there is one: entries without it have the fingerprints that approvals were stored with.
        if let Some(issuer) = &self.issuer {
            digester.text("issuer");
            digester.text(issuer);
        }
        if let Some(hosts) = &self.allowed_hosts {
            digester.text("allowed hosts");
            digester.set(hosts);
        }
    }
}

/// Which items of one kind a server offers, by name, URI or pattern as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemLists {
    /// The only items that are offered; `None` for all.
    pub allow: Option<Vec<String>>,
    /// Items that are not offered, even if they are allowed.
    pub deny: Vec<String>,
}

/// The declaration of an input that the user types or picks.
#[derive(Clone, PartialEq, Eq)]
pub struct InputSpec {
    /// The id, as in `${input:id}`.
    pub id: String,
    /// What to ask for.
    pub description: Option<String>,
    /// Whether the typed text is hidden.
    pub is_password: bool,
    /// The value if the user gives none.
    pub default: Option<String>,
    /// The values to pick from; empty if the user types.
    pub options: Vec<String>,
}

impl InputSpec {
    /// The bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        let texts = [Some(&self.id), self.description.as_ref(), self.default.as_ref()];
        texts.into_iter().flatten().chain(&self.options).map(String::len).fold(0, usize::saturating_add)
    }

    fn digest(&self, digester: &mut Digester) {
        digester.text(&self.id);
        digester.option(self.description.as_deref(), Digester::text);
        digester.flag(self.is_password);
        digester.option(self.default.as_deref(), Digester::text);
        digester.list(self.options.iter(), |digester, option| digester.text(option));
    }
}

// The default may be a secret.
debug_fields! { InputSpec { id, is_password } }

config! {
    /// How long a server may take; `None` is no limit.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Timeouts {
        /// From the start of the connection to the end of its handshake. Default: 30 s.
        pub start: Option<Duration> = Some(DEFAULT),
        /// For each request. Default: 30 s.
        pub call: Option<Duration> = Some(DEFAULT),
    }
}

/// The default of both timeouts, as of the client's requests.
const DEFAULT: Duration = Duration::from_secs(30);

/// Timeouts from the environment, which override those of all files. Zero is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeoutOverrides {
    /// For the start of a server.
    pub start: Option<Duration>,
    /// For each request.
    pub call: Option<Duration>,
}

impl TimeoutOverrides {
    /// Reads the variables, each a number of milliseconds: `MCP_TIMEOUT` for the start, `MCP_TOOL_TIMEOUT` for
    /// requests, `OMP_MCP_TIMEOUT_MS` for whichever of both is not set. An empty variable is like an absent one.
    ///
    /// # Errors
    /// If a variable is no whole number of milliseconds.
    ///
    /// ```
    /// use core::time::Duration;
    /// use mcp_proto::host::config::{ServerSpec, TimeoutOverrides};
    ///
    /// let overrides = TimeoutOverrides::from_variables(|name| (name == "MCP_TIMEOUT").then(|| "0".into()))?;
    /// let mut spec = ServerSpec::stdio("mcp-files", [] as [&str; 0]);
    /// spec.start_timeout = Some(Duration::from_secs(5));
    /// let timeouts = spec.timeouts(&overrides);
    /// assert_eq!((timeouts.start, timeouts.call), (None, Some(Duration::from_secs(30))));
    /// # Ok::<(), mcp_proto::host::config::TimeoutVariableError>(())
    /// ```
    pub fn from_variables(
        mut variable: impl FnMut(&str) -> Option<String>,
    ) -> Result<Self, TimeoutVariableError> {
        let mut read = |name: &'static str| {
            let text = variable(name).unwrap_or_default();
            match text.trim() {
                "" => Ok(None),
                digits => digits
                    .parse()
                    .map(|milliseconds| Some(Duration::from_millis(milliseconds)))
                    .map_err(|_| TimeoutVariableError { variable: name }),
            }
        };
        let both = read("OMP_MCP_TIMEOUT_MS")?;
        Ok(Self { start: read("MCP_TIMEOUT")?.or(both), call: read("MCP_TOOL_TIMEOUT")?.or(both) })
    }
}

/// An environment variable that is no timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeoutVariableError {
    /// The name of the variable.
    pub variable: &'static str,
}

error_text! { TimeoutVariableError { variable } =>
    "the environment variable {variable} must be a number of milliseconds, 0 for no limit"
}

/// Whether tokens for `resource` may go to the server at `url`: if it is this URL, or a parent of it by whole path
/// segments. Other tenants of the same origin have other paths.
pub(super) fn is_own_resource(url: &str, resource: &str) -> bool {
    let upgrade = websocket_url(url);
    let url = upgrade.as_deref().unwrap_or(url);
    let (Ok(server), Ok(audience)) = (HttpUrl::parse(url), HttpUrl::parse(resource)) else { return false };
    if server.origin() != audience.origin() || audience.user.is_some() || audience.has_fragment {
        return false;
    }
    // An empty path is the root.
    let of_server = if server.path.is_empty() { "/" } else { server.path };
    let of_audience = if audience.path.is_empty() { "/" } else { audience.path };
    if of_server == of_audience && audience.query == server.query {
        return true;
    }
    // Servers resolve `..`, and some of them `%2e%2e`: the paths of such texts are not those that they show.
    let is_plain = |path: &str| {
        let path = path.to_ascii_lowercase();
        !["%2e", "%2f", "%5c"].iter().any(|code| path.contains(code))
            && !path.split('/').any(|segment| matches!(segment, "." | ".."))
    };
    let below = of_server.strip_prefix(of_audience.trim_end_matches('/'));
    let is_below = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    audience.query.is_none() && is_below && is_plain(of_server) && is_plain(of_audience)
}
