//! Client capabilities that a request needs beyond its method's own: modes and tools.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::rpc::Raw;
use crate::schema::{ClientCapabilities, ClientCapability, CreateMessage, Elicit, Method, MethodInfo};

/// The capability that a request with these parameters needs, if `declared` lacks it.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#capabilities>
pub(crate) fn undeclared(
    declared: &ClientCapabilities,
    info: &MethodInfo,
    params: Option<&Raw>,
) -> Option<ClientCapability> {
    #[derive(Deserialize)]
    struct CapabilityFields<'a> {
        #[serde(borrow)]
        mode: Option<&'a RawValue>,
        #[serde(borrow)]
        tools: Option<&'a RawValue>,
        #[serde(borrow, rename = "toolChoice")]
        tool_choice: Option<&'a RawValue>,
    }
    let asked: CapabilityFields<'_> = params?.decode().ok()?;
    let needed = match info.name {
        Elicit::NAME if asked.mode.is_some_and(|mode| mode.get() == r#""url""#) => {
            ClientCapability::ElicitationUrl
        }
        Elicit::NAME => ClientCapability::ElicitationForm,
        CreateMessage::NAME if asked.tools.is_some() || asked.tool_choice.is_some() => {
            ClientCapability::SamplingTools
        }
        _ => return None,
    };
    (!declared.has(needed)).then_some(needed)
}
