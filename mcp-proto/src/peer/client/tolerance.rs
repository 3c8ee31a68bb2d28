//! Deviations of the server that a lenient client tolerates and reports.

use serde_json::value::RawValue;

use crate::peer::{InvalidAnswerError, Leniency, RequestError, RequiredCapability, Strictness};
use crate::prelude::*;
use crate::rpc::{Id, Raw, decode_member, read_members};
use crate::schema::{
    CallTool, Era, GetPrompt, GetPromptResult, ListPrompts, ListResourceTemplates, ListResources, ListTools,
    Method, MethodInfo, ReadResource, ServerCapabilities,
};

use super::{Client, Diagnostic};

/// The methods that the application may call on a legacy server that declares no capability.
const UNDECLARED_METHODS: [&str; 7] = [
    ListTools::NAME,
    CallTool::NAME,
    ListPrompts::NAME,
    GetPrompt::NAME,
    ListResources::NAME,
    ListResourceTemplates::NAME,
    ReadResource::NAME,
];

impl Client {
    /// Reports a deviation, if the configuration tolerates deviations. Returns whether it does.
    pub(crate) fn tolerate(&mut self, leniency: Leniency) -> bool {
        let lenient = self.config.strictness == Strictness::Lenient;
        if lenient {
            self.report(Diagnostic::Tolerated(leniency));
        }
        lenient
    }

    /// Reports that the result of this tool lacks its structured content, if the configuration tolerates that. Returns
    /// whether it does.
    #[cfg(feature = "schema-validate")]
    pub(crate) fn tolerate_missing_output(&mut self, tool: &str) -> bool {
        self.config.tolerate_missing_output && self.tolerate(Leniency::MissingOutput { tool: tool.into() })
    }

    /// Reports a tolerated deviation if the server has written the number of a request of this side as a string.
    pub(crate) fn note_number_as_string(&mut self, id: &Id) {
        if matches!(id, Id::String(_)) {
            self.report(Diagnostic::Tolerated(Leniency::NumberAsString { id: id.clone() }));
        }
    }

    /// Checks a result for the deviations that no decoder reports, and repairs the result of `ping`.
    pub(super) fn tolerate_result(
        &mut self,
        info: Option<&'static MethodInfo>,
        result: Raw,
    ) -> Result<Raw, InvalidAnswerError> {
        let strictness = self.config.strictness;
        if let Some((empty, leniency)) = strictness.empty_result(info, &result) {
            self.report(Diagnostic::Tolerated(leniency));
            return Ok(empty);
        }
        if strictness == Strictness::Strict
            && info.is_some_and(|info| info.name == GetPrompt::NAME)
            && let Ok(prompt) = result.decode::<GetPromptResult>()
            && let Some(item) = prompt.messages.invalid().first()
        {
            let what = format!("message {} of the prompt: {}", item.index, item.reason);
            return Err(InvalidAnswerError::Malformed(what));
        }
        if info.is_some_and(|info| info.name == ListTools::NAME) {
            for tool in tools_without_schema(&result) {
                let leniency = Leniency::MissingInputSchema { tool };
                if !self.tolerate(leniency.clone()) {
                    return Err(InvalidAnswerError::Malformed(leniency.to_string()));
                }
            }
        }
        Ok(result)
    }

    /// Checks that the application may call a method. Some legacy servers declare no capability at all and still serve
    /// their methods: the application may call them, but the machine itself does not.
    pub(super) fn admit_application(
        &mut self,
        method: &str,
        info: Option<&'static MethodInfo>,
    ) -> Result<(), RequestError> {
        let refusal = match self.admit(method, info) {
            Err(refusal) => refusal,
            Ok(()) => return Ok(()),
        };
        let (&RequestError::Capability { needed: RequiredCapability::Server(needed), .. }, Some(info)) =
            (&refusal, info)
        else {
            return Err(refusal);
        };
        let silent = self.server.as_ref().is_some_and(|server| {
            let none = ServerCapabilities::default();
            server.era == Era::Legacy
                && server.capabilities.as_ref().is_some_and(|declared| *declared == none)
        });
        if !silent || self.config.strictness == Strictness::Strict || !UNDECLARED_METHODS.contains(&info.name)
        {
            return Err(refusal);
        }
        self.report(Diagnostic::Tolerated(Leniency::Undeclared { method: info.name, needed }));
        Ok(())
    }
}

/// The names of the tools on a page that have no `inputSchema`.
fn tools_without_schema(page: &Raw) -> Vec<String> {
    let tools = read_members(page.as_str(), ["tools"]).ok().and_then(|[tools]| decode_member(tools));
    let tools: Vec<&RawValue> = tools.unwrap_or_default();
    let members = tools.iter().filter_map(|tool| read_members(tool.get(), ["name", "inputSchema"]).ok());
    members.filter(|[_, schema]| schema.is_none()).filter_map(|[name, _]| decode_member(name)).collect()
}
