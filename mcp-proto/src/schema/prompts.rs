//! Prompts: `prompts/list` and `prompts/get`.

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
            /// Cursor of the next page; absent on the last page. The empty string is a valid cursor.
            next_cursor: Option<String> = "nextCursor";
        }
    }
}

object! {
    /// A prompt that a user can choose.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/prompts#prompt>
    pub struct Prompt {
        required {
            /// Name for programmatic use.
            name: String = "name";
        }
        optional {
            /// Human-readable title; see [`display_name`](Self::display_name).
            title: Option<String> = "title" since V2025_06_18;
            /// Description of the prompt.
            description: Option<String> = "description";
            /// Icons to display.
            icons: Option<Vec<Icon>> = "icons" since V2025_11_25;
            /// Arguments that the prompt accepts.
            arguments: Option<Vec<PromptArgument>> = "arguments";
            /// Metadata attached to it.
            meta: Meta = "_meta" since V2025_06_18;
        }
    }
}

impl Prompt {
    /// Name to display: the title, or the name if there is no title.
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

object! {
    /// An argument that a prompt accepts.
    pub struct PromptArgument {
        required {
            /// Name for programmatic use.
            name: String = "name";
        }
        optional {
            /// Human-readable title; see [`display_name`](Self::display_name).
            title: Option<String> = "title" since V2025_06_18;
            /// Description of the argument.
            description: Option<String> = "description";
            /// Whether the argument must be given.
            required: Option<bool> = "required";
        }
    }
}

impl PromptArgument {
    /// Name to display: the title, or the name if there is no title.
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
            /// Name of the prompt.
            name: String = "name";
        }
        optional {
            /// Its arguments.
            arguments: Option<Map<String>> = "arguments" type strict;
            /// Answers to the input requests of an earlier attempt.
            input_responses: Option<InputResponses> = "inputResponses" since V2026_07_28 type strict;
            /// The `requestState` of an earlier attempt's result, unchanged.
            request_state: Option<String> = "requestState" since V2026_07_28 type strict;
        }
    }
}

object! {
    /// The result of `prompts/get`.
    pub result GetPromptResult {
        required {
            /// The messages that begin the conversation.
            ///
            /// An invalid message, such as one with an unknown role, is among its [`invalid`](List::invalid) items.
            messages: List<PromptMessage> = "messages";
        }
        optional {
            /// Description of the prompt.
            description: Option<String> = "description";
        }
    }
}

object! {
    /// One message of a prompt.
    pub struct PromptMessage {
        required {
            /// Sender of the message.
            role: Role = "role";
            /// Content of the message.
            content: ContentBlock = "content";
        }
        optional {}
    }
}

impl PromptMessage {
    /// Creates a message of the user.
    pub fn user(content: impl Into<ContentBlock>) -> Self {
        Self::new(Role::User, content)
    }

    /// Creates a message of the model.
    pub fn assistant(content: impl Into<ContentBlock>) -> Self {
        Self::new(Role::Assistant, content)
    }
}
