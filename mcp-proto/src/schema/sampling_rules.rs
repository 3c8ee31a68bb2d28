//! Rules for sampling conversations: tool calls, tool results and tool choice.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::content::Role;
use super::sampling::{
    CreateMessageParams, CreateMessageResult, ModelPreferences, SamplingBlock, SamplingMessage,
    ToolChoiceMode,
};

impl CreateMessageParams {
    /// Checks that tool calls and tool results in the conversation match.
    ///
    /// The message after tool calls must have the results of all of them and nothing else. The front checks the
    /// requests of servers with this method before it calls a handler.
    ///
    /// # Errors
    /// The first rule that the conversation breaks; answer the request with invalid parameters.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#message-content-constraints>
    pub fn check(&self) -> Result<(), SamplingError> {
        if let Some(item) = self.messages.invalid().first() {
            return Err(SamplingError::Message { index: item.index });
        }
        let mut open: BTreeSet<&str> = BTreeSet::new();
        for (index, message) in self.messages.iter().enumerate() {
            let results: Vec<&str> = results_of(message).collect();
            let mixed = !results.is_empty() && results.len() != message.content.blocks().len();
            //= C11.4 "tool_result messages contain only tool results"
            if mixed || (!results.is_empty() && message.role != Role::User) {
                return Err(SamplingError::Mixed { index });
            }
            for id in results {
                if !open.remove(id) {
                    return Err(SamplingError::NoCall { id: id.to_string() });
                }
            }
            //= C11.4 "every tool_use is matched"
            if let Some(id) = open.first() {
                return Err(SamplingError::Unanswered { id: id.to_string() });
            }
            for id in calls_of(message) {
                if message.role != Role::Assistant || !open.insert(id) {
                    return Err(SamplingError::Call { id: id.to_string() });
                }
            }
        }
        match open.first() {
            Some(id) => Err(SamplingError::Unanswered { id: id.to_string() }),
            None => Ok(()),
        }
    }

    /// Whether the last message has results of tools, which continue the conversation after the model's calls.
    #[cfg(all(feature = "std", feature = "server"))]
    pub(crate) fn sends_tool_results(&self) -> bool {
        self.messages.iter().last().is_some_and(|message| results_of(message).next().is_some())
    }

    //= R9 "Sampling `toolChoice` required and none honoured"
    /// The rule for tool calls that the answer to this request must follow.
    pub fn tool_rule(&self) -> ToolRule {
        let tools = self.tools.iter().flat_map(|tools| tools.iter());
        let mode = self.tool_choice.as_ref().and_then(|choice| choice.mode);
        let called = self.messages.iter().any(|message| results_of(message).next().is_some());
        ToolRule {
            tools: match mode {
                Some(ToolChoiceMode::None) => BTreeSet::new(),
                _ => tools.map(|tool| tool.name.clone()).collect(),
            },
            required: mode == Some(ToolChoiceMode::Required) && !called,
        }
    }
}

fn results_of(message: &SamplingMessage) -> impl Iterator<Item = &str> {
    message.content.blocks().iter().filter_map(|block| match block {
        SamplingBlock::ToolResult(result) => Some(result.tool_use_id.as_str()),
        _ => None,
    })
}

fn calls_of(message: &SamplingMessage) -> impl Iterator<Item = &str> {
    message.content.blocks().iter().filter_map(|block| match block {
        SamplingBlock::ToolUse(call) => Some(call.id.as_str()),
        _ => None,
    })
}

/// Tools that an answer may call, and whether it must call one.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#tool-choice-modes>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRule {
    tools: BTreeSet<String>,
    required: bool,
}

impl ToolRule {
    /// Checks whether an answer follows this rule. The front checks the answers of handlers with this method.
    ///
    /// `required` is satisfied once the conversation has tool results, and does not apply to an answer cut off by its
    /// token limit.
    ///
    /// # Errors
    /// The rule that the answer breaks.
    pub fn check(&self, answer: &CreateMessageResult) -> Result<(), SamplingError> {
        let mut calls = 0_usize;
        for block in answer.content.blocks() {
            let SamplingBlock::ToolUse(call) = block else { continue };
            calls = calls.saturating_add(1);
            if !self.tools.contains(&call.name) {
                return Err(SamplingError::Tool { name: call.name.clone() });
            }
        }
        let cut_off = answer.stop_reason.as_deref() == Some("maxTokens");
        if self.required && calls == 0 && !cut_off { Err(SamplingError::NoTool) } else { Ok(()) }
    }
}

impl ModelPreferences {
    /// Chooses the model that the server prefers among `models`.
    ///
    /// The first hint that is a substring of a model's name decides; it selects the first such model. Returns `None` if
    /// no hint matches; the priorities can guide the choice then.
    ///
    /// ```
    /// use mcp_proto::schema::{ModelHint, ModelPreferences};
    ///
    /// let hint = |name: &str| ModelHint { name: Some(name.into()), ..ModelHint::new() };
    /// let mut preferences = ModelPreferences::new();
    /// preferences.hints = Some(vec![hint("large"), hint("small")]);
    /// assert_eq!(preferences.choose(["small-1", "small-2"]), Some("small-1"));
    /// assert_eq!(preferences.choose(["small-1", "large-1"]), Some("large-1"));
    /// assert_eq!(preferences.choose(["medium"]), None);
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#model-preferences>
    pub fn choose<'a>(&self, models: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        let models: Vec<&str> = models.into_iter().collect();
        let hints = self.hints.iter().flatten().filter_map(|hint| hint.name.as_deref());
        hints
            .filter(|hint| !hint.is_empty())
            .find_map(|hint| models.iter().copied().find(|model| model.contains(hint)))
    }
}

/// A broken rule of a sampling conversation or of its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SamplingError {
    /// A message is not valid.
    Message {
        /// Index of the message, from 0.
        index: usize,
    },
    /// A message mixes tool results with other content, or has tool results and a role other than `user`.
    Mixed {
        /// Index of the message, from 0.
        index: usize,
    },
    /// A tool call is not in a message of the role `assistant`, or has the id of another call in its message.
    Call {
        /// Id of the call.
        id: String,
    },
    /// The next message has no result for a tool call.
    Unanswered {
        /// Id of the call.
        id: String,
    },
    /// A tool result refers to a call that the previous message does not have.
    NoCall {
        /// Id that the result refers to.
        id: String,
    },
    /// The answer calls a tool that the request does not offer.
    Tool {
        /// Name of the tool.
        name: String,
    },
    /// The answer must call a tool and calls none.
    NoTool,
}

impl fmt::Display for SamplingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message { index } => write!(f, "message {index} is not a valid sampling message"),
            Self::Mixed { index } => {
                write!(
                    f,
                    "message {index} mixes tool results with other content or has a role other than `user`"
                )
            }
            Self::Call { id } => {
                write!(f, "the tool call {id:?} is not in an `assistant` message, or its id occurs twice")
            }
            Self::Unanswered { id } => write!(f, "the next message has no result for the tool call {id:?}"),
            Self::NoCall { id } => {
                write!(f, "a tool result refers to the call {id:?}, which the previous message does not have")
            }
            Self::Tool { name } => {
                write!(f, "the model called the tool {name:?}, which the request does not offer")
            }
            Self::NoTool => {
                f.write_str("the model called no tool, although the request requires a tool call")
            }
        }
    }
}

impl core::error::Error for SamplingError {}
