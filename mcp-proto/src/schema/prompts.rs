//! Prompts: listing and getting them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::content::{ContentBlock, Role};
use super::input::InputResponses;
use super::list::List;
use super::map::Map;
use super::meta::Meta;
use super::object::object;
use crate::schema::{Icon, PaginatedParams};

/// The parameters of `prompts/list`.
pub type ListPromptsParams = PaginatedParams;

object! {
    /// The result of `prompts/list`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/prompts#listing-prompts>
    pub page ListPromptsResult {
        required {
            /// One page of prompts.
            prompts: List<Prompt> = "prompts";
        }
        optional {
            /// Where the next page begins; absent on the last one. The empty string is a cursor like any other.
            next_cursor: Option<String> = "nextCursor";
        }
    }
}

object! {
    /// A prompt that a person can pick.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/prompts#prompt>
    pub struct Prompt {
        required {
            /// Its name for programs.
            name: String = "name";
        }
        optional {
            /// Its name for people; see [`display_name`](Self::display_name).
            title: Option<String> = "title" since V2025_06_18;
            /// What it is for.
            description: Option<String> = "description";
            /// Pictures of it.
            icons: Option<Vec<Icon>> = "icons" since V2025_11_25;
            /// What it can be given.
            arguments: Option<Vec<PromptArgument>> = "arguments";
            /// What else goes with it.
            meta: Meta = "_meta" since V2025_06_18;
        }
    }
}

impl Prompt {
    /// What to show people: the title, then the name.
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

object! {
    /// Something that a prompt can be given.
    pub struct PromptArgument {
        required {
            /// Its name for programs.
            name: String = "name";
        }
        optional {
            /// Its name for people; see [`display_name`](Self::display_name).
            title: Option<String> = "title" since V2025_06_18;
            /// What it is for.
            description: Option<String> = "description";
            /// Whether the prompt can't do without.
            required: Option<bool> = "required";
        }
    }
}

impl PromptArgument {
    /// What to show people: the title, then the name.
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

object! {
    /// The parameters of `prompts/get`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/prompts#getting-a-prompt>
    pub params GetPromptParams {
        required {
            /// The prompt.
            name: String = "name";
        }
        optional {
            /// Its arguments.
            arguments: Option<Map<String>> = "arguments" odd refused;
            /// Answers to what an earlier attempt asked for.
            input_responses: Option<InputResponses> = "inputResponses" since V2026_07_28 odd refused;
            /// What an earlier attempt gave to be handed back.
            request_state: Option<String> = "requestState" since V2026_07_28 odd refused;
        }
    }
}

object! {
    /// The result of `prompts/get`.
    pub result GetPromptResult {
        required {
            /// What to begin the conversation with.
            /// One that is not valid, such as one of an unknown role, fails the whole result: without it the others mean
            /// something else.
            messages: List<PromptMessage> = "messages" check all_valid;
        }
        optional {
            /// What the prompt is for.
            description: Option<String> = "description";
        }
    }
}

/// Whether every message could be read.
fn all_valid(messages: &List<PromptMessage>) -> Result<(), String> {
    match messages.invalid().first() {
        Some(odd) => Err(format!("valid messages, but item {}: {}", odd.index, odd.reason)),
        None => Ok(()),
    }
}

object! {
    /// One message of a prompt.
    pub struct PromptMessage {
        required {
            /// Who speaks.
            role: Role = "role";
            /// What is said.
            content: ContentBlock = "content";
        }
        optional {}
    }
}

impl PromptMessage {
    /// What the person says.
    pub fn user(content: impl Into<ContentBlock>) -> Self {
        Self::new(Role::User, content)
    }

    /// What the model says.
    pub fn assistant(content: impl Into<ContentBlock>) -> Self {
        Self::new(Role::Assistant, content)
    }
}
