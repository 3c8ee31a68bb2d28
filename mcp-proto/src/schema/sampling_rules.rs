//! What a conversation with a model must keep to.

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
    /// Whether the conversation is one that a model can be given: each call of a tool is answered by the message that
    /// follows, which has the results of those calls and nothing else.
    ///
    /// The front checks this of what servers send before a handler sees it.
    ///
    /// # Errors
    /// The first thing that is wrong, to be answered with invalid parameters.
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
            if mixed || (!results.is_empty() && message.role != Role::User) {
                return Err(SamplingError::Mixed { index });
            }
            for id in results {
                if !open.remove(id) {
                    return Err(SamplingError::NoCall { id: id.to_string() });
                }
            }
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

    /// What an answer must keep to.
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

/// Which tools an answer may call, and whether it must.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#tool-choice-modes>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRule {
    tools: BTreeSet<String>,
    required: bool,
}

impl ToolRule {
    /// Whether an answer keeps to it. The front checks this of what handlers return.
    ///
    /// A model that must call a tool has done so if the conversation has results of tools already; one that was cut off
    /// by its limit of tokens is not to blame.
    ///
    /// # Errors
    /// What it breaks.
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
    /// The model that the server would like best among those there are: the first hint that is a part of a model's name
    /// decides, and among several such models the first. `None` if no hint fits; then the priorities can tell.
    ///
    /// ```
    /// use mcp_proto::schema::{ModelHint, ModelPreferences};
    ///
    /// let hint = |name: &str| ModelHint { name: Some(name.into()), ..ModelHint::new() };
    /// let mut preferences = ModelPreferences::new();
    /// preferences.hints = Some(vec![with_hint("large"), with_hint("small")]);
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

/// What is wrong with a conversation, or with an answer to one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SamplingError {
    /// A message is none.
    Message {
        /// Its place, from 0.
        index: usize,
    },
    /// A message has results of tools and something else, or is not the user's.
    Mixed {
        /// Its place, from 0.
        index: usize,
    },
    /// A call of a tool is not the model's, or has an id that another has.
    Call {
        /// The id.
        id: String,
    },
    /// A call of a tool is not answered by the next message.
    Unanswered {
        /// The id of the call.
        id: String,
    },
    /// The result of a tool answers no call of the message before.
    NoCall {
        /// The id that it names.
        id: String,
    },
    /// The answer calls a tool that it may not call.
    Tool {
        /// The tool.
        name: String,
    },
    /// The answer must call a tool, and calls none.
    NoTool,
}

impl fmt::Display for SamplingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message { index } => write!(f, "message {index} is not readable"),
            Self::Mixed { index } => {
                write!(f, "message {index} has results of tools, and is not the user's or has something else")
            }
            Self::Call { id } => write!(f, "the call {id:?} is not the model's, or its id is used twice"),
            Self::Unanswered { id } => write!(f, "the call {id:?} is not answered by the next message"),
            Self::NoCall { id } => {
                write!(f, "a result answers the call {id:?}, which is not in the message before")
            }
            Self::Tool { name } => write!(f, "the model called the tool {name:?}, which it was not offered"),
            Self::NoTool => f.write_str("the model had to call a tool, and did not"),
        }
    }
}

impl core::error::Error for SamplingError {}
