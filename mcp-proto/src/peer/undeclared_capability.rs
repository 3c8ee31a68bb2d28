//! Client capabilities that a request needs beyond its method's own: modes and tools.

use crate::rpc::{Raw, read_members};
use crate::schema::{ClientCapabilities, ClientCapability, CreateMessage, Elicit, Method, MethodInfo};

/// The capability that a request with these parameters needs, if `declared` lacks it.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#capabilities>
pub(crate) fn undeclared(
    declared: &ClientCapabilities,
    info: &MethodInfo,
    params: Option<&Raw>,
) -> Option<ClientCapability> {
    let [mode, tools, tool_choice] = read_members(params?.as_str(), ["mode", "tools", "toolChoice"]).ok()?;
    let needed = match info.name {
        //= S9.1 "only declared modes"
        Elicit::NAME if mode.is_some_and(|mode| mode == r#""url""#) => ClientCapability::ElicitationUrl,
        Elicit::NAME => ClientCapability::ElicitationForm,
        //= C11.3 "tool fields without declared support → error"
        //= S9.8 "Tool-enabled sampling only if sampling.tools"
        CreateMessage::NAME if tools.is_some() || tool_choice.is_some() => ClientCapability::SamplingTools,
        _ => return None,
    };
    (!declared.has(needed)).then_some(needed)
}
