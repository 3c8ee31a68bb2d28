//! Signals that end the command: it closes its connection and ends its server first, instead of dying at once.

use std::future;
use std::time::{Duration, Instant};

use async_signal::{Signal, Signals};
use mcp_hyper::host::Host;
use mcp_proto::front::Client;
use mcp_smol::Killer;
use smol::future::or;
use smol::stream::StreamExt as _;
use smol::{Task, Timer};

use crate::error::CommandError;

/// A second signal within this time is the same one: the terminal sends it to the whole group, and wrappers forward it.
const DUPLICATE_WINDOW: Duration = Duration::from_millis(200);
/// How long to wait for a killed server, which exits within milliseconds unless the kernel is stuck.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// A signal that ends the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interrupt(Signal);

impl Interrupt {
    /// The exit code of a program ended by the signal: 130 for SIGINT, 143 for SIGTERM.
    pub(crate) fn exit_code(self) -> u8 {
        match self.0 {
            #[cfg(unix)]
            Signal::Term => 143,
            #[cfg(unix)]
            Signal::Hup => 129,
            _ => 130,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            Signal::Int => "an interrupt",
            #[cfg(unix)]
            Signal::Term => "a request to terminate",
            #[cfg(unix)]
            Signal::Hup => "the end of its terminal",
            _ => "a signal",
        }
    }
}

/// The signals that this process handles instead of ending.
struct Interrupts {
    signals: Option<Signals>,
    last: Option<Instant>,
}

impl Interrupts {
    /// Registers the signals. If the system refuses that, they end the process as usual.
    fn listen() -> Self {
        #[cfg(unix)]
        let signals = [Signal::Int, Signal::Term, Signal::Hup];
        #[cfg(not(unix))]
        let signals = [Signal::Int];
        Self { signals: Signals::new(signals).ok(), last: None }
    }

    async fn next(&mut self) -> Interrupt {
        while let Some(signals) = &mut self.signals
            && let Some(Ok(signal)) = signals.next().await
        {
            let now = Instant::now();
            if self.last.is_none_or(|last| now.duration_since(last) >= DUPLICATE_WINDOW) {
                self.last = Some(now);
                return Interrupt(signal);
            }
        }
        future::pending().await
    }
}

/// Runs `work` until a signal.
pub(crate) async fn until_signal<T>(
    work: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let mut interrupts = Interrupts::listen();
    or(work, async { Err(CommandError::Interrupted(interrupts.next().await)) }).await
}

/// Runs `work` with a connection and closes it, which runs the shutdown steps of its server.
///
/// A signal cancels the work; the shutdown steps still run. A signal during the steps kills the server instead.
pub(crate) async fn run_until_signal<T>(
    client: &Client,
    driver: Task<()>,
    killer: Option<&Killer>,
    work: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let close = async {
        client.close().await;
    };
    run_and_close(work, close, driver, async |driver| {
        if let Some(killer) = killer {
            killer.kill();
            let late = async {
                Timer::after(KILL_TIMEOUT).await;
            };
            or(driver, late).await;
        }
    })
    .await
}

/// Runs `work` with many servers and closes them, as [`run_until_signal`] does with one.
pub(crate) async fn run_host_until_signal<T>(
    host: &Host,
    driver: Task<()>,
    work: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    // A driver that is dropped kills its servers.
    run_and_close(work, host.close(), driver, async |driver| _ = driver.cancel().await).await
}

async fn run_and_close<T>(
    work: impl Future<Output = Result<T, CommandError>>,
    close: impl Future<Output = ()>,
    mut driver: Task<()>,
    kill: impl AsyncFnOnce(Task<()>),
) -> Result<T, CommandError> {
    let mut interrupts = Interrupts::listen();
    let result = or(work, async { Err(CommandError::Interrupted(interrupts.next().await)) }).await;
    let ended = async {
        close.await;
        (&mut driver).await;
        None
    };
    let second = or(ended, async { Some(interrupts.next().await) }).await;
    let Some(interrupt) = second else { return result };
    kill(driver).await;
    match result {
        Err(failure @ CommandError::Interrupted(_)) => Err(failure),
        _ => Err(CommandError::Interrupted(interrupt)),
    }
}
