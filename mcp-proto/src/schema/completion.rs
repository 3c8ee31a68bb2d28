//! Completion: suggested values for an argument of a prompt or resource template.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::content::tagged;
use super::json::Json;
use super::map::Map;
use super::object::{Object as _, names, object};
use super::read::{Fields, Fit, Read, ReadResult, UnexpectedJson};
use super::write::{Projection, WriteAt, serde_impls};
use crate::rpc::reader::NotJson;

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
            context: Option<CompletionContext> = "context" since V2025_06_18;
        }
    }
}

object! {
    /// An argument and its value so far.
    pub struct CompletionArgument {
        required {
            /// Name of the argument.
            name: String = "name";
            /// Value so far.
            value: String = "value";
        }
        optional {}
    }
}

object! {
    /// Arguments that already have values.
    pub struct CompletionContext {
        required {}
        optional {
            /// The other arguments by name.
            arguments: Option<Map<String>> = "arguments";
        }
    }
}

tagged! {
    /// The prompt or resource template whose argument is completed.
    pub enum Reference by "type" as ReferenceTag {
        /// A prompt.
        Prompt(PromptReference) = "ref/prompt",
        /// A resource or resource template.
        Resource(ResourceReference) = "ref/resource",
    }
}

impl WriteAt for Reference {
    fn write(&self, view: Projection, out: &mut Vec<u8>) {
        match self {
            Self::Prompt(prompt) => prompt.write(view, out),
            Self::Resource(resource) => resource.write(view, out),
            Self::Unknown(json) => json.write(view, out),
        }
    }
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
}

object! {
    /// The resource or resource template whose variable is completed.
    pub struct ResourceReference as "type" = "ref/resource" {
        required {
            /// The URI or URI template.
            uri: String = "uri";
        }
        optional {}
    }
}

object! {
    /// The result of `completion/complete`.
    pub result CompleteResult {
        required {
            /// The suggested values.
            completion: Completion = "completion";
        }
        optional {}
    }
}

object! {
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
