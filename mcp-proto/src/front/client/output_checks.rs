//! Checks of tools' structured results as they arrive.

use core::any::Any;

use super::{Client, ClientInner};
use crate::front::Error;
use crate::front::request::RequestLink as _;
use crate::front::wakers::lock;
use crate::prelude::*;
use crate::schema::{CallToolResult, Era, ListToolsResult};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::validate::{Lookup, OutputError, OutputSchemas, check, compile};

/// Whether a client checks the structured results of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OutputChecks {
    /// Checks them against the output schema, if the tool has one.
    #[default]
    AgainstSchemas,
    /// Accepts them unchecked.
    Off,
}

/// The output schemas of a server's tools, as far as a client knows them.
#[derive(Default)]
pub(super) struct OutputChecker {
    schemas: Mutex<OutputSchemas>,
    off: AtomicBool,
}

impl OutputChecker {
    fn check(
        &self,
        tool: &str,
        result: &CallToolResult,
        is_legacy: impl FnOnce() -> bool,
    ) -> Result<(), OutputError> {
        if self.off.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (known, bounds) = {
            let schemas = lock(&self.schemas);
            (schemas.look_up(tool), schemas.bounds())
        };
        // Outside the lock: both can take a while.
        let schema = match known {
            Lookup::Unknown => return Ok(()),
            Lookup::Compiled(schema) => schema,
            Lookup::Text(text) => {
                let schema = compile(&text, &bounds);
                lock(&self.schemas).store_compiled(tool, &text, schema.clone());
                schema
            }
        };
        check(&schema, result)?;
        //= C9.7 "any JSON value in 26; object in 25"
        let other = result.structured_content.as_ref().is_some_and(|json| !json.as_str().starts_with('{'));
        if other && !result.failed() && is_legacy() { Err(OutputError::NotAnObject) } else { Ok(()) }
    }
}

impl Client {
    //= F98 "Results are checked against the output schema by choice"
    /// Sets whether structured results of tools are checked against the output schemas that the server listed last. On
    /// by default. A result that fails the check is returned in the [error](Error::Output). With
    /// [`ClientConfig::tolerate_missing_output`](crate::peer::client::ClientConfig::tolerate_missing_output), one without
    /// structured content is accepted and reported.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#output-schema>
    pub fn check_outputs(&self, checks: OutputChecks) {
        self.inner.outputs.off.store(checks == OutputChecks::Off, Ordering::Relaxed);
    }
}

impl ClientInner {
    /// Learns output schemas from a list of tools, and checks the structured result of `tool`.
    pub(super) fn learn_or_check(&self, tool: Option<&str>, result: &dyn Any) -> Result<(), Error> {
        if let Some(listed) = result.downcast_ref::<ListToolsResult>() {
            lock(&self.outputs.schemas).learn(&listed.tools);
        }
        let (Some(tool), Some(called)) = (tool, result.downcast_ref::<CallToolResult>()) else {
            return Ok(());
        };
        let is_legacy = || self.revision().is_some_and(|revision| revision.era() == Era::Legacy);
        let Err(error) = self.outputs.check(tool, called, is_legacy) else { return Ok(()) };
        let tolerates =
            || self.connection.command(|_, machine, now, _| machine.at(now).tolerate_missing_output(tool));
        if error == OutputError::Missing && tolerates() {
            return Ok(());
        }
        Err(Error::Output { tool: String::from(tool), error, result: Box::new(called.clone()) })
    }
}
