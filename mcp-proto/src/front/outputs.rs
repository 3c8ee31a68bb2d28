//! Checks of tools' structured results as they arrive.

use alloc::boxed::Box;
use alloc::string::String;
use core::any::Any;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use super::signal::lock;
use super::{Client, Error};
use crate::schema::{CallToolParams, CallToolResult, ListToolsResult, Method};
pub(super) use crate::validate::OutputError;
use crate::validate::{Lookup, OutputSchemas, check, compile};

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
pub(crate) struct OutputChecker {
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
    /// Sets whether structured results of tools are checked against the output schemas that the server listed last. On
    /// by default. A result that fails the check is returned in the [error](Error::Output). With
    /// [`ClientConfig::tolerate_missing_output`](crate::peer::client::ClientConfig::tolerate_missing_output), one without
    /// structured content is accepted and reported.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#output-schema>
    pub fn check_outputs(&self, checks: OutputChecks) {
        self.outputs().off.store(checks == OutputChecks::Off, Ordering::Relaxed);
    }
}

/// The tool that a request calls, for the check of its result.
#[derive(Clone, Default)]
pub(super) struct CalledTool(Option<Box<str>>);

impl CalledTool {
    pub(super) fn of<M: Method>(params: &M::Params) -> Self {
        let call = (params as &dyn Any).downcast_ref::<CallToolParams>();
        Self(call.map(|call| call.name.as_str().into()))
    }
}

/// Learns output schemas from a list of tools, and checks the structured result of a tool call. `is_legacy` says whether
/// the server is of a legacy revision; `tolerate_missing` whether the tool may leave out its structured content.
pub(super) fn check_result<M: Method>(
    outputs: Option<&OutputChecker>,
    is_legacy: impl FnOnce() -> bool,
    tolerate_missing: impl FnOnce(&str) -> bool,
    tool: &CalledTool,
    result: M::Result,
) -> Result<M::Result, Error> {
    let Some(outputs) = outputs else { return Ok(result) };
    let any = &result as &dyn Any;
    if let Some(listed) = any.downcast_ref::<ListToolsResult>() {
        lock(&outputs.schemas).learn(&listed.tools);
    }
    if let (Some(tool), Some(called)) = (&tool.0, any.downcast_ref::<CallToolResult>())
        && let Err(fault) = outputs.check(tool, called, is_legacy)
        && !(fault == OutputError::Missing && tolerate_missing(tool))
    {
        return Err(Error::Output {
            tool: String::from(&**tool),
            error: fault,
            result: Box::new(called.clone()),
        });
    }
    Ok(result)
}
