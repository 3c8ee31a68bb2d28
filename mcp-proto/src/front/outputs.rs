//! Checks of tools' structured results as they arrive.

use alloc::boxed::Box;
use alloc::string::String;
use core::any::Any;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use super::Error;
use super::signal::lock;
use crate::schema::{CallToolParams, CallToolResult, ListToolsResult, Method};
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
pub(crate) struct OutputChecker {
    schemas: Mutex<OutputSchemas>,
    off: AtomicBool,
}

impl OutputChecker {
    pub(crate) fn set(&self, checks: OutputChecks) {
        self.off.store(checks == OutputChecks::Off, Ordering::Relaxed);
    }

    fn check(&self, tool: &str, result: &CallToolResult) -> Result<(), OutputError> {
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
        check(&schema, result)
    }
}

/// The tool that a request calls.
pub(crate) fn called_tool<M: Method>(params: &M::Params) -> Option<Box<str>> {
    (params as &dyn Any).downcast_ref::<CallToolParams>().map(|call| call.name.as_str().into())
}

/// Learns output schemas from a list of tools, and checks the structured result of a tool call.
pub(crate) fn check_result<M: Method>(
    outputs: Option<&OutputChecker>,
    tool: Option<&str>,
    result: M::Result,
) -> Result<M::Result, Error> {
    let Some(outputs) = outputs else { return Ok(result) };
    let any = &result as &dyn Any;
    if let Some(listed) = any.downcast_ref::<ListToolsResult>() {
        lock(&outputs.schemas).learn(&listed.tools);
    }
    if let (Some(tool), Some(called)) = (tool, any.downcast_ref::<CallToolResult>())
        && let Err(fault) = outputs.check(tool, called)
    {
        return Err(Error::Output {
            tool: String::from(tool),
            error: fault,
            result: Box::new(called.clone()),
        });
    }
    Ok(result)
}
