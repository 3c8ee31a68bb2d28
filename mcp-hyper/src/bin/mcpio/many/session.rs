//! A host of the servers of configuration files, for one command.

use std::env;
use std::sync::Arc;

use mcp_hyper::host::{Host, HostEvent, HostOptions};
use mcp_proto::Secret;
use mcp_proto::host::config::{Config, Lookup, ServerEntry, TimeoutOverrides};
use mcp_proto::host::control::Status;

use super::files::Configuration;
use super::inputs;
use super::options::ConfigOptions;
use super::state;
use crate::connect;
use crate::error::CommandError;
use crate::interrupt;
use crate::login;
use crate::options::{CommonOptions, LoginOptions};
use crate::server_requests;
use crate::terminal::Screen;
use crate::text::{BAD, styled};
use crate::trusted_certificates;

/// The options and files of one command.
pub(super) struct Session<'a> {
    pub(super) options: &'a ConfigOptions,
    pub(super) common: &'a CommonOptions,
    pub(super) configuration: &'a Configuration,
    /// Whether the user answers requests of the servers.
    pub(super) answers_requests: bool,
    /// The options of `mcpio login`.
    pub(super) login: Option<&'a LoginOptions>,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        options: &'a ConfigOptions,
        common: &'a CommonOptions,
        configuration: &'a Configuration,
    ) -> Self {
        Self { options, common, configuration, answers_requests: false, login: None }
    }

    /// Starts the servers of a configuration, runs `work` with them, and ends them, also after a signal.
    pub(super) async fn run<T>(
        &self,
        config: Config,
        work: impl AsyncFnOnce(&Host) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        let options = interrupt::until_signal(self.host_options(config)).await?;
        let (host, driver) = options.start();
        let mut events = host.events();
        let messages = smol::spawn(async move {
            while let Some(event) = events.next().await {
                if let HostEvent::StorageFailed { error } = event {
                    // If this fails, nothing can be done about it.
                    let _ = Screen::messages().line(styled(BAD, "mcpio:").and(" ").and(&*error));
                }
            }
        });
        let driver = smol::spawn(async {
            // The host's end is the same either way.
            let _ = driver.await;
        });
        let result = interrupt::run_host_until_signal(&host, driver, work(&host)).await;
        drop(host);
        messages.await;
        result
    }

    async fn host_options(&self, config: Config) -> Result<HostOptions, CommandError> {
        let Self { options, common, configuration, answers_requests, login } = *self;
        check_options(common)?;
        let storage = state::storage(options)?;
        let approvals = state::approvals(&storage).await?;
        let typed = Arc::new(inputs::ask(&config, &approvals).await?);
        let look_up = move |entry: Arc<ServerEntry>, lookup: Lookup| {
            let value: Option<Secret> = inputs::find(&typed, &entry, &lookup);
            async { value }
        };
        let era = connect::mode(common);
        let mut host = HostOptions::new("mcpio", env!("CARGO_PKG_VERSION"))
            .config(config)
            .approvals(approvals)
            .storage(storage)
            .timeouts(timeouts(common)?)
            .project_folder(&configuration.folder)
            .lookups(look_up)
            .configure_clients(move |_, client| client.era_policy = era);
        let authorize = login::authorizations(common, login)?;
        host = host.authorization(move |_, server| authorize(server));
        if let Some(file) = &common.cacert {
            host = host.tls(trusted_certificates::tls_config(file)?);
        }
        if answers_requests {
            host = host.handlers(|entry| server_requests::handlers_of(Some(entry.name())));
        }
        Ok(host)
    }
}

/// Rejects options that are for one server.
fn check_options(common: &CommonOptions) -> Result<(), CommandError> {
    let given = [
        ("--trace", common.trace),
        ("--log", common.log.is_some()),
        ("--header", !common.headers.is_empty()),
        ("--header-file", !common.header_files.is_empty()),
        ("--header-env", !common.header_variables.is_empty()),
        ("--env", !common.variables.is_empty()),
        ("--env-file", !common.env_files.is_empty()),
        ("--whole-env", common.whole_env),
        ("--cwd", common.cwd.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(CommandError::Usage(format!(
            "{option} is for one server that the command line names: with --config, write it into the configuration"
        ))),
        None => Ok(()),
    }
}

/// The timeouts of the command line over those of the environment.
pub(super) fn timeouts(common: &CommonOptions) -> Result<TimeoutOverrides, CommandError> {
    let mut timeouts = TimeoutOverrides::from_variables(|name| env::var(name).ok())
        .map_err(|error| CommandError::Usage(error.to_string()))?;
    timeouts.start = common.timeout.or(timeouts.start);
    timeouts.call = common.timeout.or(timeouts.call);
    Ok(timeouts)
}

/// Starts the servers that would start with their first call, and waits for the end of their attempts.
pub(super) async fn wake_idle(host: &Host) {
    let mut events = host.events();
    for server in host.servers() {
        if server.status == Status::Idle {
            // It is configured, so that it is known.
            let _ = host.reconnect(&server.name);
        }
    }
    let is_starting = || host.servers().iter().any(|server| server.status == Status::Starting);
    while is_starting() {
        if events.next().await.is_none() {
            return;
        }
    }
}
