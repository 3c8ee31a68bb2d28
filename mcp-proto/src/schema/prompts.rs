//! Prompts, and completion: suggested values for an argument of a prompt or resource template.

use super::object::{display_names, object, tagged};
use super::{ContentBlock, InputResponses, List, Map, PaginatedParams, Role};
use crate::prelude::*;

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
    }

    /// A prompt that a user can choose.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/prompts#prompt>
    pub listed Prompt {
        required {
            /// Name for programmatic use.
            name: String = "name";
        }
        optional {
            /// Arguments of the prompt.
            arguments: Option<Vec<PromptArgument>> = "arguments";
        }
    }

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

display_names!(PromptArgument);

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

    /// One message of a prompt.
    pub struct PromptMessage {
        required {
            /// Sender of the message.
            role: Role = "role";
            /// Content of the message.
            content: ContentBlock = "content";
        }
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

object! {
    /// The parameters of `completion/complete`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion>
    pub params CompleteParams {
        required {
            /// The prompt or resource template with the argument.
            reference: Reference = "ref";
            /// The argument and its value so far.
            argument: CompletionArgument = "argument";
        }
        optional {
            /// Arguments that already have values.
            context: Option<CompletionContext> = "context" since V2025_06_18 type strict;
        }
    }

    /// An argument and its value so far.
    pub struct CompletionArgument {
        required {
            /// Name of the argument.
            name: String = "name";
            /// Value so far.
            value: String = "value";
        }
    }

    /// Arguments that already have values.
    pub struct CompletionContext {
        optional {
            /// The other arguments by name.
            arguments: Option<Map<String>> = "arguments" type strict;
        }
    }
}

tagged! {
    /// The prompt or resource template whose argument is completed.
    pub enum Reference as ReferenceTag {
        /// A prompt.
        Prompt(PromptReference) = "ref/prompt",
        /// A resource or resource template.
        Resource(ResourceReference) = "ref/resource",
    } chosen |fields| fields.tag("type")?.and_then(Result::ok)
}

object! {
    /// The prompt whose argument is completed.
    pub struct PromptReference as "type" = "ref/prompt" {
        required {
            /// Name of the prompt.
            name: String = "name";
        }
        optional {
            /// Human-readable title.
            title: Option<String> = "title" since V2025_06_18;
        }
    }

    /// The resource or resource template whose variable is completed.
    pub struct ResourceReference as "type" = "ref/resource" {
        required {
            /// The URI or URI template.
            uri: String = "uri";
        }
    }

    /// The result of `completion/complete`.
    pub result CompleteResult {
        required {
            /// The suggested values.
            completion: Completion = "completion";
        }
    }

    /// Suggested values for an argument.
    pub struct Completion {
        required {
            /// The values, best match first: at most 100.
            values: Vec<String> = "values";
        }
        optional {
            /// Total number of matching values.
            total: Option<u64> = "total";
            /// Whether there are more values than these.
            has_more: Option<bool> = "hasMore";
        }
    }
}
