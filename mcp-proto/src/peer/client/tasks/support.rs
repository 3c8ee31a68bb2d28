//! Which tools of a legacy server run as tasks, and how a call asks for one.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#tool-level-negotiation>

use alloc::collections::BTreeMap;

use crate::peer::TaskMode;
use crate::prelude::*;
use crate::rpc::{JsonStr, Raw, decode_member, read_members};
use crate::schema::{
    CallTool, ListToolsResult, Method as _, MethodInfo, Revision, ServerCapabilities, TaskSupport,
};

/// A legacy server's declarations about tools as tasks.
#[derive(Debug, Default)]
pub(in crate::peer::client) struct ToolTaskSupport {
    /// Whether tool calls can become tasks at all.
    is_offered: bool,
    /// The tools that can, and whether they must.
    tools: BTreeMap<String, TaskSupport>,
}

impl ToolTaskSupport {
    /// Takes over the declarations of a server that is now known, or known again.
    pub(in crate::peer::client) fn note(
        &mut self,
        revision: Revision,
        capabilities: Option<&ServerCapabilities>,
    ) {
        let tasks = capabilities.and_then(|capabilities| capabilities.tasks.as_ref());
        let requests = tasks.and_then(|tasks| tasks.requests.as_ref());
        let tools = requests.and_then(|requests| requests.tools.as_ref());
        self.is_offered =
            revision == Revision::V2025_11_25 && tools.is_some_and(|tools| tools.call.is_some());
    }

    pub(in crate::peer::client) fn is_offered(&self) -> bool {
        self.is_offered
    }

    /// Learns from a page of the server's tools.
    pub(in crate::peer::client) fn learn(&mut self, page: &Raw, most: usize) {
        if !self.is_offered {
            return;
        }
        let Ok(page) = page.decode::<ListToolsResult>() else { return };
        for tool in page.tools {
            match tool.execution.and_then(|execution| execution.task_support) {
                Some(support @ (TaskSupport::Optional | TaskSupport::Required)) => {
                    if self.tools.len() < most || self.tools.contains_key(&tool.name) {
                        self.tools.insert(tool.name, support);
                    }
                }
                _ => _ = self.tools.remove(&tool.name),
            }
        }
    }

    /// Adds a request for a task to the parameters of a request, which start at `start` in `out`, if it is a tool call
    /// that should become a task. Returns whether the call requests a task.
    ///
    /// # Errors
    /// If the application requests a task itself, and the server does not run the tool as a task.
    pub(in crate::peer::client) fn request_task(
        &self,
        info: Option<&MethodInfo>,
        revision: Revision,
        mode: TaskMode,
        out: &mut Vec<u8>,
        start: usize,
    ) -> Result<bool, serde_json::Error> {
        let is_call = info.is_some_and(|info| info.name == CallTool::NAME);
        if !is_call || revision != Revision::V2025_11_25 {
            return Ok(false);
        }
        let params = core::str::from_utf8(out.get(start..).unwrap_or_default()).unwrap_or_default();
        let Ok([name, task]) = read_members(params, ["name", "task"]) else { return Ok(false) };
        let by_application = task.is_some();
        //= C14.7 "Experimental 2025 tasks: only with capability"
        if !self.is_offered {
            return if by_application {
                Err(refusal("the server runs no calls as tasks"))
            } else {
                Ok(false)
            };
        }
        let support = decode_member(name).and_then(|JsonStr(name)| self.tools.get(&*name));
        if by_application {
            //= C14.7 "taskSupport absent/forbidden → no task"
            return match support {
                Some(_) => Ok(mode != TaskMode::Never),
                None => Err(refusal("the server has listed no such tool that runs as a task")),
            };
        }
        if mode == TaskMode::Never {
            return Ok(false);
        }
        //= C14.7 "taskSupport absent/forbidden → no task, required → task"
        let wanted = match support {
            Some(TaskSupport::Required) => true,
            Some(TaskSupport::Optional) => mode == TaskMode::Handle,
            _ => false,
        };
        if wanted && out.last() == Some(&b'}') {
            out.pop();
            out.extend_from_slice(br#","task":{}}"#);
        }
        Ok(wanted)
    }
}

fn refusal(reason: &'static str) -> serde_json::Error {
    serde::ser::Error::custom(reason)
}
