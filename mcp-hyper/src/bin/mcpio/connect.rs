//! Connects to the server that the command line names.

use std::ffi::OsString;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mcp_proto::consent::shell_word;
use mcp_proto::front::{Client, Error};
use mcp_proto::peer::client::{ClientConfig, ConnectTimeouts, EraPolicy, ServerInfo};
use mcp_proto::schema::{Era, LoggingLevel};
use mcp_smol::{ClientOptions, Command, Environment, Killer, WireDirection};
use smol::future::or;

use crate::error::CommandError;
use crate::interrupt;
use crate::login;
use crate::non_message_lines::NonMessageCounter;
use crate::options::{CommonOptions, EraOption, is_url};
use crate::reports::Reports;
use crate::secrets;
use crate::server_requests;
use crate::terminal::Screen;
use crate::trace::{self, Trace};
use crate::trusted_certificates;

/// A server that is ready.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) server: Arc<ServerInfo>,
    pub(crate) reports: Reports,
    /// The level of log messages to request.
    pub(crate) log: Option<LoggingLevel>,
}

/// The future that moves a connection's messages.
type Driver = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// A connection that is not ready yet.
struct PendingConnection {
    client: Client,
    driver: Driver,
    /// Kills the server, if it is a child process.
    killer: Option<Killer>,
    non_messages: NonMessageCounter,
}

/// Starts a server or connects to one, runs `work` with it, and closes the connection, also after a signal.
pub(crate) async fn with_server<T>(
    command: &[OsString],
    common: &CommonOptions,
    work: impl AsyncFnOnce(&Connection) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let PendingConnection { client, driver, killer, non_messages } = match url(command) {
        Some(url) => over_http(url, common).await?,
        None => over_stdio(command, common)?,
    };
    let driver = smol::spawn(async {
        // Requests report the same error; nothing else depends on it.
        let _ = driver.await;
    });
    let reports = Reports::follow(&client, common.trace);
    let progress = reports.clone();
    let working = async {
        let connection =
            connected(&client, progress, common).await.map_err(|failure| match non_messages.summary() {
                Some(summary) => failure.with_sentence(&summary),
                None => failure,
            })?;
        non_messages.ignore();
        work(&connection).await
    };
    let result = interrupt::run_until_signal(&client, driver, killer.as_ref(), working).await;
    reports.finish().await;
    match (result, url(command)) {
        (Err(CommandError::Unauthorized { report, scopes }), Some(url)) => {
            let hint = login_hint(url, scopes.map(|scopes| scopes.to_string()).as_deref());
            Err(CommandError::Unauthorized { report: report.with_hint(hint), scopes: None })
        }
        (result, _) => result,
    }
}

/// A command to log in, ready to paste; `None` if the URL or the scopes cannot be shown on one line.
pub(crate) fn login_hint(url: &str, scopes: Option<&str>) -> Option<String> {
    let url = quoted_word(url)?;
    Some(match scopes {
        Some(scopes) => format!("To grant these scopes: mcpio login --scope={} {url}", quoted_word(scopes)?),
        None => format!("To log in: mcpio login {url}"),
    })
}

/// Quotes a word for the user's shell; on Windows only words that need no quotes.
pub(crate) fn quoted_word(text: &str) -> Option<String> {
    shell_word(text).filter(|word| !cfg!(windows) || word == text)
}

async fn connected(
    client: &Client,
    reports: Reports,
    common: &CommonOptions,
) -> Result<Connection, CommandError> {
    let ready = or(client.ready(), reports.show_connecting(client)).await;
    reports.clear();
    let server = ready?;
    let log = common.log.as_deref().and_then(LoggingLevel::parse);
    if let (Some(level), Era::Legacy) = (log, server.era) {
        client.set_level(level).await?;
    }
    Ok(Connection { client: client.clone(), server, reports, log })
}

/// The URL, if the command is a single URL.
fn url(command: &[OsString]) -> Option<&str> {
    let [word] = command else { return None };
    word.to_str().filter(|_| is_url(word))
}

async fn over_http(url: &str, common: &CommonOptions) -> Result<PendingConnection, CommandError> {
    let mut options = options(common)?;
    if let Some(authorization) = login::stored_authorization(url, common).await? {
        options = options.authorization(authorization);
    }
    let (client, driver) = options.connect(url).map_err(|error| CommandError::Usage(error.to_string()))?;
    Ok(PendingConnection {
        client,
        driver: Box::pin(driver),
        killer: None,
        non_messages: NonMessageCounter::new(),
    })
}

/// HTTP client options from the command line, without authorization.
pub(crate) fn options(common: &CommonOptions) -> Result<mcp_hyper::ClientOptions, CommandError> {
    let mut options = mcp_hyper::ClientOptions::new("mcpio", env!("CARGO_PKG_VERSION"))
        .era_policy(mode(common))
        .handlers(server_requests::handlers())
        .configure(|config| configure(&mut config.client, common));
    for (name, value) in secrets::headers(common)? {
        options = options.header(&name, &value);
    }
    if let Some(file) = &common.cacert {
        options = options.tls(trusted_certificates::tls_config(file)?);
    }
    if common.trace {
        let mut trace = Trace::new(Screen::messages());
        options = options.on_wire(move |event| trace.http(event));
    }
    Ok(options)
}

fn over_stdio(command: &[OsString], common: &CommonOptions) -> Result<PendingConnection, CommandError> {
    let mut options = ClientOptions::new("mcpio", env!("CARGO_PKG_VERSION"))
        .era_policy(mode(common))
        .handlers(server_requests::handlers())
        .configure(|config| configure(config, common));
    let non_messages = NonMessageCounter::new();
    let observed = non_messages.clone();
    let mut trace = common.trace.then(|| Trace::new(Screen::messages()));
    options = options.on_wire(move |direction, bytes| {
        if direction == WireDirection::Received {
            observed.handle_input(bytes);
        }
        if let Some(trace) = &mut trace {
            trace.show(direction, bytes);
        }
    });
    if common.trace {
        let mut screen = Screen::messages();
        options = options.on_stderr(move |line| trace::stderr(&mut screen, &line));
    }
    let (client, driver) = options.connect(program(command, common)?);
    let killer = Some(driver.killer());
    Ok(PendingConnection { client, driver: Box::pin(driver), killer, non_messages })
}

fn program(command: &[OsString], common: &CommonOptions) -> Result<Command, CommandError> {
    let Some((program, args)) = command.split_first() else {
        return Err(CommandError::Usage("no server command: put it after `--`".to_owned()));
    };
    let mut command = Command::new(program).args(args);
    if common.whole_env {
        command = command.environment(Environment::Inherited);
    }
    if let Some(directory) = &common.cwd {
        command = command.current_dir(directory);
    }
    Ok(command.envs(secrets::variables(common)?))
}

pub(crate) fn mode(common: &CommonOptions) -> EraPolicy {
    match common.era {
        EraOption::Auto => EraPolicy::Auto,
        EraOption::Modern => EraPolicy::ModernOnly,
        EraOption::Legacy => EraPolicy::LegacyOnly,
    }
}

fn configure(config: &mut ClientConfig, common: &CommonOptions) {
    if let Some(timeout) = common.timeout {
        config.request_timeout = timeout;
        config.request_hard_timeout = config.request_hard_timeout.max(timeout);
        config.connect = ConnectTimeouts::within(timeout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_hint_is_quoted_for_the_shell_or_omitted() {
        let url = "https://example.com/mcp";
        assert_eq!(login_hint(url, None).unwrap(), "To log in: mcpio login https://example.com/mcp");
        let hint = login_hint("https://example.com/a'b;c", Some("x';reboot;'")).unwrap();
        assert_eq!(
            hint,
            r"To grant these scopes: mcpio login --scope='x'\'';reboot;'\''' 'https://example.com/a'\''b;c'"
        );
        assert_eq!(login_hint(url, Some("a\nb")), None);
        assert_eq!(login_hint("https://example.com/\u{202e}", None), None);
    }
}
