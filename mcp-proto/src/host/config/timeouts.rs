//! The timeouts of a server: environment over file over default.

use alloc::string::String;
use core::fmt;
use core::time::Duration;

use super::ServerSpec;

/// How long a server may take; `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the start of the connection to the end of its handshake. Default: 30 s.
    pub start: Option<Duration>,
    /// For each request. Default: 30 s.
    pub call: Option<Duration>,
}

/// The default of both timeouts, as of the client's requests.
const DEFAULT: Duration = Duration::from_secs(30);

impl Default for Timeouts {
    fn default() -> Self {
        Self { start: Some(DEFAULT), call: Some(DEFAULT) }
    }
}

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

impl fmt::Display for TimeoutVariableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the environment variable {} must be a number of milliseconds, 0 for no limit",
            self.variable
        )
    }
}

impl core::error::Error for TimeoutVariableError {}

impl ServerSpec {
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
}
