//! Clients of resolved servers: programs through mcp-smol, URLs through this crate.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use mcp_proto::front::{Client, Error, SendHandlers};
use mcp_proto::host::config::{ResolvedHttp, ResolvedSpec, ResolvedStdio, ServerEntry};
use mcp_proto::host::control::Failure;
use mcp_proto::peer::client::{ClientConfig, ConnectTimeouts, KnownEra};
use mcp_smol::{ChildLink, Command, Environment};

use super::failure::{self, StderrTail};
use super::options::Settings;
use crate::runtime::AnyRuntime;
use crate::{ClientDriver, ClientOptions};

/// The driver of a client of either kind.
pub(super) enum Driver {
    Child(Box<mcp_smol::ClientDriver<ChildLink>>),
    Http(Box<ClientDriver<SendHandlers, AnyRuntime>>),
}

impl Driver {
    /// Why the program could not be started, if it could not.
    pub(super) fn spawn_failure(&self) -> Option<Failure> {
        match self {
            Self::Child(driver) => driver.spawn_error().map(failure::of_spawn),
            Self::Http(_) => None,
        }
    }
}

impl Future for Driver {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Child(driver) => Pin::new(&mut **driver).poll(cx),
            Self::Http(driver) => Pin::new(&mut **driver).poll(cx),
        }
    }
}

/// Above this, a time limit is none.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

impl Settings {
    /// Makes a client of a server.
    pub(super) fn connect(
        &self,
        entry: &ServerEntry,
        resolved: ResolvedSpec,
        era: Option<KnownEra>,
        stderr: &StderrTail,
    ) -> Result<(Client, Driver), Failure> {
        let config = self.client_config(entry, era);
        match resolved {
            ResolvedSpec::Stdio(program) => Ok(self.start(entry, config, program, stderr.clone())),
            ResolvedSpec::Http(server) => self.connect_url(entry, config, &server),
        }
    }

    pub(super) fn client_config(&self, entry: &ServerEntry, era: Option<KnownEra>) -> ClientConfig {
        let timeouts = entry.spec().timeouts(&self.overrides);
        let mut config = ClientConfig::new(self.info.clone());
        config.known_era = era;
        // The control plane limits starts and calls; a client's own limits are never shorter.
        config.request_timeout = timeouts.call.unwrap_or(LONGEST);
        config.request_hard_timeout = config.request_hard_timeout.max(config.request_timeout);
        config.connect = ConnectTimeouts::within(timeouts.start.unwrap_or(LONGEST));
        (self.configure)(entry, &mut config);
        config
    }

    fn start(
        &self,
        entry: &ServerEntry,
        config: ClientConfig,
        program: ResolvedStdio,
        stderr: StderrTail,
    ) -> (Client, Driver) {
        let mut command = Command::new(&program.command)
            .args(program.args.iter().map(|argument| argument.expose()))
            .environment(Environment::Essential)
            .envs(program.env.iter().map(|(name, value)| (name, value.expose())));
        if let Some(folder) = &program.cwd {
            command = command.current_dir(folder);
        }
        let options = mcp_smol::ClientOptions::from(config)
            .handlers((self.handlers)(entry))
            .on_stderr(move |line| stderr.push(&line));
        let (client, driver) = options.connect(command);
        (client, Driver::Child(Box::new(driver)))
    }

    fn connect_url(
        &self,
        entry: &ServerEntry,
        config: ClientConfig,
        server: &ResolvedHttp,
    ) -> Result<(Client, Driver), Failure> {
        let options = self.url_options(entry, config, server);
        #[cfg(feature = "auth")]
        let options = match self.authorization(entry, server) {
            Some(authorization) => options.authorization(authorization),
            None => options,
        };
        let (client, driver) =
            options.connect(server.url.expose()).map_err(|error| failure::of_options(&error))?;
        Ok((client, Driver::Http(Box::new(driver))))
    }

    /// The options of a client of a server at a URL, without its authorization.
    pub(super) fn url_options(
        &self,
        entry: &ServerEntry,
        config: ClientConfig,
        server: &ResolvedHttp,
    ) -> ClientOptions<SendHandlers, AnyRuntime> {
        let mut options =
            ClientOptions::from(config).runtime(self.runtime.clone()).handlers((self.handlers)(entry));
        for (name, value) in &server.headers {
            options = options.header(name, value.expose());
        }
        if let Some(proxy) = &self.proxy {
            options = options.proxy(proxy.clone());
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            options = options.tls(tls.clone());
        }
        options
    }
}
