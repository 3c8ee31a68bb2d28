//! From the command line to a server that is ready to be asked.

use std::ffi::OsString;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mcp_proto::front::{Client, Error};
use mcp_proto::peer::client::{ClientConfig, Mode, ServerInfo};
use mcp_proto::schema::{Era, LoggingLevel};
use mcp_smol::{ClientOptions, Command, Environment};

use crate::asked;
use crate::failure::Failure;
use crate::login;
use crate::options::{Common, EraOption};
use crate::reports::Reports;
use crate::trace::{self, Trace};

/// A server that is ready.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) server: Arc<ServerInfo>,
    pub(crate) reports: Reports,
    /// The log messages asked for.
    pub(crate) log: Option<LoggingLevel>,
}

/// What carries a connection's messages.
type Driver = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// Starts a server or connects to one, does `work` with it, and sees it off.
pub(crate) async fn with_server<T>(
    command: &[OsString],
    common: &Common,
    work: impl AsyncFnOnce(&Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (client, driver) = match url(command) {
        Some(url) => over_http(url, common).await?,
        None => as_child(command, common)?,
    };
    let driver = smol::spawn(driver);
    let (result, reports) = match connected(&client, common).await {
        Ok(connection) => (work(&connection).await, Some(connection.reports)),
        Err(failure) => (Err(failure), None),
    };
    client.close().await;
    // It ended as the work did, or is of no interest any more.
    let _ = driver.await;
    if let Some(reports) = reports {
        reports.finish().await;
    }
    match (result, url(command)) {
        (Err(Failure::Unauthorized { message, scopes }), Some(url)) => {
            let hint = match scopes {
                // A scope has neither spaces nor quotes of its own, and no shell does anything to it within these.
                Some(scopes) => format!("To agree to it: mcp login --scope '{scopes}' {url}"),
                None => format!("To log in: mcp login {url}"),
            };
            Err(Failure::Server(format!("{message}\n{hint}")))
        }
        (result, _) => result,
    }
}

async fn connected(client: &Client, common: &Common) -> Result<Connection, Failure> {
    let reports = Reports::follow(client, common.trace);
    let server = client.ready().await?;
    let log = common.log.as_deref().and_then(LoggingLevel::parse);
    if let (Some(level), Era::Legacy) = (log, server.era) {
        client.set_level(level).await?;
    }
    Ok(Connection { client: client.clone(), server, reports, log })
}

/// The URL, if that is what stands in the place of a command.
fn url(command: &[OsString]) -> Option<&str> {
    let [word] = command else { return None };
    word.to_str().filter(|word| word.starts_with("http://") || word.starts_with("https://"))
}

async fn over_http(url: &str, common: &Common) -> Result<(Client, Driver), Failure> {
    let mut options = options(common);
    if let Some(authorization) = login::stored(url, common).await? {
        options = options.authorization(authorization);
    }
    let (client, driver) = options.connect(url).map_err(|error| Failure::Usage(error.to_string()))?;
    Ok((client, Box::pin(driver)))
}

/// How to talk to a server at a URL, but for logging in.
pub(crate) fn options(common: &Common) -> mcp_hyper::ClientOptions {
    let mut options = mcp_hyper::ClientOptions::new("mcp", env!("CARGO_PKG_VERSION"))
        .mode(mode(common))
        .handlers(asked::handlers())
        .configure(|config| configure(&mut config.client, common));
    for (name, value) in &common.headers {
        options = options.header(name, value);
    }
    if common.trace {
        options = options.on_wire(trace::http);
    }
    options
}

fn as_child(command: &[OsString], common: &Common) -> Result<(Client, Driver), Failure> {
    let mut options = ClientOptions::new("mcp", env!("CARGO_PKG_VERSION"))
        .mode(mode(common))
        .handlers(asked::handlers())
        .configure(|config| configure(config, common));
    if common.trace {
        let mut trace = Trace::new();
        options = options.on_wire(move |direction, bytes| trace.show(direction, bytes));
        options = options.on_stderr(|line| trace::stderr(&line));
    }
    let (client, driver) = options.connect(program(command, common)?);
    Ok((client, Box::pin(driver)))
}

fn program(command: &[OsString], common: &Common) -> Result<Command, Failure> {
    let Some((program, args)) = command.split_first() else {
        return Err(Failure::Usage("no command that starts a server".to_owned()));
    };
    let mut command = Command::new(program).args(args);
    if common.whole_env {
        command = command.environment(Environment::Whole);
    }
    if let Some(directory) = &common.cwd {
        command = command.current_dir(directory);
    }
    Ok(command.envs(common.variables.iter().map(|(name, value)| (name, value))))
}

fn mode(common: &Common) -> Mode {
    match common.era {
        EraOption::Auto => Mode::Auto,
        EraOption::Modern => Mode::ModernOnly,
        EraOption::Legacy => Mode::LegacyOnly,
    }
}

fn configure(config: &mut ClientConfig, common: &Common) {
    if let Some(timeout) = common.timeout {
        config.request_timeout = timeout;
        config.request_maximum = config.request_maximum.max(timeout);
        config.connect.initialize = timeout;
        config.connect.probe = config.connect.probe.min(timeout);
    }
}
