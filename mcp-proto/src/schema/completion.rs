//! Completion: what could be typed next into an argument.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::de::{Deserializer, MapAccess};
use serde::ser::Serializer;

use super::content::tagged;
use super::json::Json;
use super::map::Map;
use super::object::{Object as _, names, object};
use super::read::{Attempt, Fields, Odd, Read};
use super::write::{Projection, WriteAt, serde_impls};

object! {
    /// The parameters of `completion/complete`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion>
    pub params CompleteParams {
        required {
            /// Whose argument it is.
            reference: Reference = "ref";
            /// The argument, as far as it is typed.
            argument: CompletionArgument = "argument";
        }
        optional {
            /// What is already settled.
            context: Option<CompletionContext> = "context" since V2025_06_18;
        }
    }
}

object! {
    /// An argument, as far as it is typed.
    pub struct CompletionArgument {
        required {
            /// Its name.
            name: String = "name";
            /// What is typed so far.
            value: String = "value";
        }
        optional {}
    }
}

object! {
    /// What is already settled while an argument is typed.
    pub struct CompletionContext {
        required {}
        optional {
            /// The other arguments.
            arguments: Option<Map<String>> = "arguments";
        }
    }
}

tagged! {
    /// What has an argument to complete.
    pub enum Reference by "type" as ReferenceTag {
        /// A prompt.
        Prompt(PromptReference) = "ref/prompt",
        /// A resource or a template of resources.
        Resource(ResourceReference) = "ref/resource",
    }
}

impl WriteAt for Reference {
    fn write<S: Serializer>(&self, view: Projection, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Prompt(prompt) => prompt.write(view, serializer),
            Self::Resource(resource) => resource.write(view, serializer),
            Self::Unknown(json) => json.write(view, serializer),
        }
    }
}

object! {
    /// A prompt whose argument is completed.
    pub struct PromptReference as "type" = "ref/prompt" {
        required {
            /// The prompt.
            name: String = "name";
        }
        optional {
            /// Its name for people.
            title: Option<String> = "title" since V2025_06_18;
        }
    }
}

object! {
    /// A resource or template whose variable is completed.
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
            /// What could be typed.
            completion: Completion = "completion";
        }
        optional {}
    }
}

object! {
    /// What could be typed.
    pub struct Completion {
        required {
            /// The values, the best first: at most 100.
            values: Vec<String> = "values";
        }
        optional {
            /// How many there are in all.
            total: Option<u64> = "total";
            /// Whether there are more than were sent.
            has_more: Option<bool> = "hasMore";
        }
    }
}
