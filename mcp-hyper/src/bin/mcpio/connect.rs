//! Connects to the server that the command line names, with its headers, variables and certificates.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_rustls::pki_types::CertificateDer;
use futures_rustls::pki_types::pem::PemObject as _;
use futures_rustls::rustls::{self, RootCertStore};
use mcp_hyper::auth::Authorization;
use mcp_hyper::host::{ConnectionTrace, TraceFile, WireObserver};
use mcp_proto::front::{Client, ClientHandlers, Error};
use mcp_proto::host::config::parse_dotenv;
use mcp_proto::host::tools::{ItemKind, LookupError};
use mcp_proto::peer::client::{ClientConfig, ConnectTimeouts, EraPolicy, ServerInfo};
use mcp_proto::redact::{Redactor, is_secret_header};
use mcp_proto::schema::{Era, Implementation, LoggingLevel};
use mcp_smol::{ChildStream, ClientOptions, Command, Environment, Killer, StderrLine, WireDirection};
use smol::future::or;

use crate::error::{CommandError, Interrupts, Result};
use crate::login::PageLogin;
use crate::options::{CommonOptions, EraOption, LoginOptions, header};
use crate::reports::{self, NonMessageCounter, Reports};
use crate::terminal::{Screen, quoted_word};
use crate::{login, server_requests};

/// Whether an entry offers an item.
type Offers = Box<dyn Fn(ItemKind, &str) -> bool + Send + Sync>;

/// A server that is ready.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) server: Arc<ServerInfo>,
    pub(crate) reports: Reports,
    /// The level of log messages to request.
    pub(crate) log: Option<LoggingLevel>,
    /// The time of `--timeout`.
    pub(crate) timeout: Option<Duration>,
    /// Whether the entry of a configuration offers an item, by its name or URI.
    pub(crate) offers: Offers,
}

impl Connection {
    /// Checks that the entry of the configuration offers an item.
    pub(crate) fn check(&self, kind: ItemKind, key: &str) -> Result {
        if (self.offers)(kind, key) { Ok(()) } else { Err(CommandError::usage(LookupError::Denied)) }
    }
}

/// A client, the future that moves its messages, and what kills its server if that is a child process.
pub(crate) type PendingConnection =
    (Client, Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>, Option<Killer>);

/// How a client presents itself, and what it does for its server.
pub(crate) struct ClientSetup<'a> {
    pub(crate) config: ClientConfig,
    pub(crate) handlers: ClientHandlers,
    pub(crate) login: LoginPolicy<'a>,
    /// Whether the standard error of a server that is started is shown, rather than quoted in errors only.
    pub(crate) shows_stderr: bool,
}

/// Where the tokens for a server at a URL come from.
pub(crate) enum LoginPolicy<'a> {
    /// An earlier `mcpio login`, if there was one.
    Stored,
    /// As before; without it the user logs in on the page that opens.
    Page(&'a LoginOptions),
}

/// Starts a server or connects to one, runs `work` with it, and closes the connection, also after a signal.
pub(crate) async fn with_server<T>(
    command: &[OsString],
    common: &CommonOptions,
    work: impl AsyncFnOnce(&Connection) -> Result<T>,
) -> Result<T> {
    with_handlers(command, common, server_requests::handlers(None), work).await
}

/// As [`with_server`], with these handlers of the server's requests.
pub(crate) async fn with_handlers<T>(
    command: &[OsString],
    common: &CommonOptions,
    handlers: ClientHandlers,
    work: impl AsyncFnOnce(&Connection) -> Result<T>,
) -> Result<T> {
    let non_messages = NonMessageCounter::new();
    let setup = ClientSetup {
        config: client_config(common),
        handlers,
        login: LoginPolicy::Stored,
        shows_stderr: common.trace,
    };
    let mut interrupts = Interrupts::listen();
    let opening = open(command, common, setup, non_messages.clone());
    let (client, driver, killer) = interrupts.until(opening).await?;
    let redactor = if common.trace { Some(redactor(common)?) } else { None };
    let (reports, listener) = Reports::follow(&client, redactor);
    let working = async {
        let connection = connected(&client, reports, common).await;
        let connection = connection.map_err(|failure| failure.with_sentence(non_messages.summary()))?;
        non_messages.ignore();
        work(&connection).await
    };
    let result = interrupts.run(working, client.close(), driver, killer.as_ref()).await;
    // It prints the remaining messages.
    listener.await;
    result.map_err(|failure| with_hints(failure, command))
}

/// Adds hints how to name the server, or to log in there.
pub(crate) fn with_hints(failure: CommandError, command: &[OsString]) -> CommandError {
    match url(command) {
        Some(url) => failure.with_login_hint(url),
        None => failure.with_hint(command.first().and_then(|word| url_tip(word.to_str()?))),
    }
}

/// Starts a server or connects to one. Nothing moves before the returned future is polled.
pub(crate) async fn open(
    command: &[OsString],
    common: &CommonOptions,
    setup: ClientSetup<'_>,
    non_messages: NonMessageCounter,
) -> Result<PendingConnection> {
    match url(command) {
        Some(_) if common.stdio_v2 => {
            Err(CommandError::usage("--stdio-v2 is for commands: a URL needs no option"))
        }
        Some(url) => over_http(url, common, setup).await,
        None if common.stdio_v2 => over_stdio_v2(command, common, setup),
        None => over_stdio(command, common, setup, non_messages),
    }
}

async fn connected(client: &Client, reports: Reports, common: &CommonOptions) -> Result<Connection> {
    let ready = or(client.ready(), reports.show_connecting(client)).await;
    reports.clear();
    let server = ready?;
    let log = common.log.as_deref().and_then(LoggingLevel::parse);
    if let (Some(level), Era::Legacy) = (log, server.era) {
        client.set_level(level).await?;
    }
    let (client, offers) = (client.clone(), Box::new(|_, _: &str| true));
    Ok(Connection { client, server, reports, log, timeout: common.timeout, offers })
}

/// The URL, if the command is a single URL.
pub(crate) fn url(command: &[OsString]) -> Option<&str> {
    let [word] = command else { return None };
    word.to_str().filter(|_| is_url(word))
}

async fn over_http(url: &str, common: &CommonOptions, setup: ClientSetup<'_>) -> Result<PendingConnection> {
    let ClientSetup { config, handlers, login, .. } = setup;
    let mut options = http_options(url, common, config, handlers)?;
    let (authorization, login) = authorization(url, common, login).await?;
    if let Some(authorization) = authorization {
        options = options.authorization(authorization);
    }
    let (client, driver) = options.connect(url).map_err(CommandError::usage)?;
    if let (Some(login), Some(handle)) = (login, driver.auth()) {
        login.handle.get_or_init(|| handle);
    }
    Ok((client, Box::pin(driver), None))
}

/// The authorization for the server at a URL, and a login on its page.
pub(crate) async fn authorization(
    url: &str,
    common: &CommonOptions,
    login: LoginPolicy<'_>,
) -> Result<(Option<Authorization>, Option<Arc<PageLogin>>)> {
    Ok(match login {
        LoginPolicy::Stored => (login::stored_authorization(url, common).await?, None),
        // A header of the command line is another login.
        LoginPolicy::Page(_) if has_authorization(common)? => (None, None),
        LoginPolicy::Page(login) => {
            let (authorization, login) = login::on_page(login, common)?;
            (Some(authorization), Some(login))
        }
    })
}

fn has_authorization(common: &CommonOptions) -> Result<bool> {
    Ok(headers(common)?.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")))
}

/// HTTP client options from the command line, without authorization.
pub(crate) fn options(url: &str, common: &CommonOptions) -> Result<mcp_hyper::ClientOptions> {
    http_options(url, common, client_config(common), server_requests::handlers(None))
}

fn http_options(
    url: &str,
    common: &CommonOptions,
    mut config: ClientConfig,
    handlers: ClientHandlers,
) -> Result<mcp_hyper::ClientOptions> {
    let redactor = redactor(common)?.known_in(url);
    let transport = if url.starts_with("ws") { "websocket" } else { "http" };
    let traced = common.traced.as_ref().map(|file| file.connection(url, transport, redactor.clone()));
    config.recorder = traced.as_ref().and_then(ConnectionTrace::recorder);
    let mut options = mcp_hyper::ClientOptions::from(config).handlers(handlers);
    for (name, value) in headers(common)? {
        options = options.header(&name, &value);
    }
    if let Some(file) = &common.cacert {
        options = options.tls(tls_config(file)?);
    }
    Ok(observed(options, observers(traced.as_ref(), &redactor, common)))
}

/// Options whose wire events go to observers, if there are any.
fn observed(options: mcp_hyper::ClientOptions, mut observers: Vec<WireObserver>) -> mcp_hyper::ClientOptions {
    match observers.is_empty() {
        true => options,
        false => options.on_wire(move |event| {
            observers.iter_mut().for_each(|observer| observer.handle_event(event));
        }),
    }
}

fn over_stdio_v2(
    command: &[OsString],
    common: &CommonOptions,
    mut setup: ClientSetup<'_>,
) -> Result<PendingConnection> {
    let redactor = redactor_of(command, common)?;
    let trace = |file: &TraceFile| file.connection(&server_name(command), "stdio-v2", redactor.clone());
    let traced = common.traced.as_ref().map(trace);
    setup.config.recorder = traced.as_ref().and_then(ConnectionTrace::recorder);
    let options = mcp_hyper::ClientOptions::from(setup.config).handlers(setup.handlers);
    let options = observed(options, observers(traced.as_ref(), &redactor, common));
    let shown = stderr_observer(setup.shows_stderr, redactor, traced);
    let child = ChildStream::spawn(program(command, common)?, shown);
    let child = child.map_err(CommandError::server)?;
    let killer = Some(child.killer());
    let (client, driver) = options.connect_stream(child).map_err(CommandError::usage)?;
    Ok((client, Box::pin(driver), killer))
}

/// The observer of the lines of a server's standard error: for the screen and the trace.
fn stderr_observer(
    is_shown: bool,
    redactor: Redactor,
    traced: Option<ConnectionTrace>,
) -> impl FnMut(StderrLine) + Send + 'static {
    let mut screen = is_shown.then(Screen::messages);
    move |line| {
        if let Some(screen) = &mut screen {
            reports::stderr(screen, &redactor, &line);
        }
        if let Some(traced) = &traced {
            traced.record_stderr_line(&line);
        }
    }
}

fn over_stdio(
    command: &[OsString],
    common: &CommonOptions,
    mut setup: ClientSetup<'_>,
    non_messages: NonMessageCounter,
) -> Result<PendingConnection> {
    let redactor = redactor_of(command, common)?;
    let trace = |file: &TraceFile| file.connection(&server_name(command), "stdio", redactor.clone());
    let traced = common.traced.as_ref().map(trace);
    setup.config.recorder = traced.as_ref().and_then(ConnectionTrace::recorder);
    let mut options = ClientOptions::from(setup.config).handlers(setup.handlers);
    let mut observers = observers(traced.as_ref(), &redactor, common);
    options = options.on_wire(move |direction, bytes| {
        if direction == WireDirection::Received {
            non_messages.handle_input(bytes);
        }
        observers.iter_mut().for_each(|observer| observer.handle_bytes(direction, bytes));
    });
    if setup.shows_stderr || traced.is_some() {
        options = options.on_stderr(stderr_observer(setup.shows_stderr, redactor, traced));
    }
    let (client, driver) = options.connect(program(command, common)?);
    let killer = Some(driver.killer());
    Ok((client, Box::pin(driver), killer))
}

/// The observers of a connection: what `--trace` prints, and what `--trace-file` names.
fn observers(
    traced: Option<&ConnectionTrace>,
    redactor: &Redactor,
    common: &CommonOptions,
) -> Vec<WireObserver> {
    let printed = common.trace.then(|| reports::trace(None, redactor.clone()));
    let written = traced.map(ConnectionTrace::observer);
    printed.into_iter().chain(written).collect()
}

/// The name of a server that is a command, for a trace: the program, and the package that it runs. Other words may be secrets.
pub(crate) fn server_name(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let (program, rest) = words.split_first().map_or(("", &[][..]), |(program, rest)| (program, rest));
    let program = program.rsplit(['/', '\\']).next().unwrap_or_default();
    let runs_packages = ["npx", "npm", "bunx", "uvx", "pipx", "docker"].contains(&program);
    let package = rest.iter().find(|word| !word.starts_with('-')).filter(|_| runs_packages);
    package.map_or_else(|| program.to_owned(), |package| format!("{program} {package}"))
}

fn program(command: &[OsString], common: &CommonOptions) -> Result<Command> {
    let Some((program, args)) = command.split_first() else {
        return Err(CommandError::usage("no server command: put it after `--`"));
    };
    let mut command = Command::new(program).args(args);
    if common.whole_env {
        command = command.environment(Environment::Inherited);
    }
    if let Some(directory) = &common.cwd {
        command = command.current_dir(directory);
    }
    Ok(command.envs(variables(common)?))
}

pub(crate) fn mode(common: &CommonOptions) -> EraPolicy {
    match common.era {
        EraOption::Auto => EraPolicy::Auto,
        EraOption::Modern => EraPolicy::ModernOnly,
        EraOption::Legacy => EraPolicy::LegacyOnly,
    }
}

pub(crate) fn client_config(common: &CommonOptions) -> ClientConfig {
    let mut config = ClientConfig::new(Implementation::new("mcpio", env!("CARGO_PKG_VERSION")));
    config.era_policy = mode(common);
    if let Some(timeout) = common.timeout {
        config.request_timeout = timeout;
        config.request_hard_timeout = config.request_hard_timeout.max(timeout);
        config.connect = ConnectTimeouts::within(timeout);
    }
    config
}

/// Makes a redactor that knows the headers and variables of the command line with secret names.
pub(crate) fn redactor(common: &CommonOptions) -> Result<Redactor> {
    let headers = headers(common)?.into_iter().map(|(name, value)| (name, value.into()));
    let named = headers.chain(variables(common)?).filter(|(name, _)| is_secret_header(name));
    Ok(named.fold(Redactor::new(), |redactor, (_, value)| redactor.known(value.as_encoded_bytes())))
}

/// Makes a redactor that also knows what stands behind the options of a command with secret names.
pub(crate) fn redactor_of(command: &[OsString], common: &CommonOptions) -> Result<Redactor> {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    Ok(redactor(common)?.known_in_command(&words))
}

/// The headers for a server at a URL. Those of the command line come last.
pub(crate) fn headers(common: &CommonOptions) -> Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    for file in &common.header_files {
        let text = read("--header-file", file)?;
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            headers.push(header(line).map_err(|_| {
                let (file, number) = (file.display(), number + 1);
                let why = format_args!("--header-file {file}: line {number} is not of the form NAME: VALUE");
                CommandError::usage(why)
            })?);
        }
    }
    for (name, variable) in &common.header_variables {
        let value = env::var(variable).map_err(|error| {
            CommandError::usage(format_args!("--header-env {name}={variable}: {}", why_unreadable(&error)))
        })?;
        headers.push((name.clone(), value));
    }
    headers.extend(common.headers.iter().cloned());
    Ok(headers)
}

/// The variables for a server that is started. Those of the command line come last.
pub(crate) fn variables(common: &CommonOptions) -> Result<Vec<(String, OsString)>> {
    let mut variables = Vec::new();
    for file in &common.env_files {
        let what = format_args!("--env-file {}", file.display());
        let read = parse_dotenv(&read("--env-file", file)?).map_err(CommandError::usage_of(what))?;
        variables.extend(read.into_iter().map(|(name, value)| (name, value.expose().into())));
    }
    for (name, value) in &common.variables {
        let value = match value {
            Some(value) => value.into(),
            None => env::var_os(name).ok_or_else(|| {
                CommandError::usage_of(format_args!("--env {name}"))("the variable is not set")
            })?,
        };
        variables.push((name.clone(), value));
    }
    Ok(variables)
}

fn read(option: &str, file: &Path) -> Result<String> {
    let what = format_args!("{option} {}", file.display());
    fs::read_to_string(file).map_err(CommandError::usage_of(what))
}

/// The error of the library shows the value.
fn why_unreadable(error: &env::VarError) -> &'static str {
    match error {
        env::VarError::NotPresent => "the variable is not set",
        env::VarError::NotUnicode(_) => "the value is not UTF-8",
    }
}

/// A TLS configuration that trusts only the certificates of a PEM file.
pub(crate) fn tls_config(file: &Path) -> Result<rustls::ClientConfig> {
    let what = || format!("--cacert {}", file.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(CommandError::usage_of(what()))? {
        let certificate = certificate.map_err(CommandError::usage_of(what()))?;
        roots.add(certificate).map_err(CommandError::usage_of(what()))?;
    }
    if roots.is_empty() {
        return Err(CommandError::usage_of(what())("the file contains no certificate in PEM format"));
    }
    let provider = Arc::new(futures_rustls::rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(CommandError::usage_of(what()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Says how to write an address without a scheme, such as `localhost:3720`, as a URL.
pub(crate) fn url_tip(word: &str) -> Option<String> {
    let (host, rest) = word.split_once(':')?;
    let port = rest.split('/').next()?;
    let is_address = !host.is_empty() && port.parse::<u16>().is_ok();
    let path = if rest.contains('/') { "" } else { "/mcp" };
    is_address
        .then(|| quoted_word(&format!("http://{word}{path}")))
        .flatten()
        .map(|url| format!("To name the server at that address: {url}"))
}

/// Whether this word is a server's URL, in the place of a command.
pub(crate) fn is_url(word: &OsStr) -> bool {
    let schemes = ["http://", "https://", "ws://", "wss://"];
    word.to_str().is_some_and(|word| schemes.iter().any(|scheme| word.starts_with(scheme)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use clap::Parser as _;

    fn common(line: &[&str]) -> CommonOptions {
        Options::try_parse_from([&["mcpio", "demo"], line].concat()).unwrap().common
    }

    fn usage<T: std::fmt::Debug>(result: Result<T>) -> String {
        result.unwrap_err().usage_message().to_owned()
    }

    #[test]
    fn secrets_come_from_files_and_the_environment() {
        let folder = env::temp_dir().join(format!("mcp-secrets-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (lines, none) = (folder.join("lines"), folder.join("none"));
        let (lines_path, none) = (lines.to_str().unwrap(), none.to_str().unwrap());
        let path = env::var("PATH").unwrap();

        fs::write(&lines, "# keys\nAuthorization: Bearer s3cret\n\nX-Where: a:b\n").unwrap();
        let of_header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let read = headers(&common(&[
            "--header",
            "X: 1",
            "--header-file",
            lines_path,
            "--header-env",
            "X-Path=PATH",
        ]));
        let expected = [
            of_header("Authorization", "Bearer s3cret"),
            of_header("X-Where", "a:b"),
            of_header("X-Path", &path),
            of_header("X", "1"),
        ];
        assert_eq!(read.unwrap(), expected);
        fs::write(&lines, "A: 1\ns3cret\n").unwrap();
        let why = usage(headers(&common(&["--header-file", lines_path])));
        assert!(why.contains("line 2") && !why.contains("s3cret"), "{why}");

        fs::write(&lines, "KEY='s3cret'\nMODE=a\n").unwrap();
        let read = variables(&common(&["--env", "MODE=b", "--env", "PATH", "--env-file", lines_path]));
        let of_variable = |name: &str, value: &str| (name.to_owned(), OsString::from(value));
        let expected = [
            of_variable("KEY", "s3cret"),
            of_variable("MODE", "a"),
            of_variable("MODE", "b"),
            of_variable("PATH", &path),
        ];
        assert_eq!(read.unwrap(), expected);
        fs::write(&lines, "s3cret\n").unwrap();
        let why = usage(variables(&common(&["--env-file", lines_path])));
        assert!(why.contains("line 1") && !why.contains("s3cret"), "{why}");

        let unset = "MCPIO_TEST_NEVER_SET";
        for why in [
            usage(headers(&common(&["--header-file", none]))),
            usage(headers(&common(&["--header-env", &format!("A={unset}")]))),
            usage(variables(&common(&["--env-file", none]))),
            usage(variables(&common(&["--env", unset]))),
        ] {
            assert!(why.starts_with("--") && (why.contains(none) || why.contains(unset)), "{why}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn certificates_are_read_from_a_pem_file() {
        let folder = std::env::temp_dir().join(format!("mcp-roots-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (good, bad) = (folder.join("good.pem"), folder.join("bad.pem"));
        let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let der = BASE64_STANDARD.encode(certificate.cert.der());
        let pem = format!("-----BEGIN CERTIFICATE-----\n{der}\n-----END CERTIFICATE-----\n");
        std::fs::write(&good, pem).unwrap();
        std::fs::write(&bad, "no certificate").unwrap();
        assert!(tls_config(&good).is_ok());
        for file in [&bad, &folder.join("none")] {
            assert!(usage(tls_config(file)).contains("--cacert"));
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn address_without_a_scheme_is_shown_as_a_url() {
        for (word, url) in [
            ("localhost:3720", Some("http://localhost:3720/mcp")),
            ("10.0.0.1:80/sse", Some("http://10.0.0.1:80/sse")),
            ("prompt:greet", None),
            ("demo", None),
        ] {
            assert_eq!(url_tip(word), url.map(|url| format!("To name the server at that address: {url}")));
        }
    }
}
