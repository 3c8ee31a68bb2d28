//! Tools: listing and calling them.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::content::ContentBlock;
use super::input::InputResponses;
use super::json::Json;
use super::list::List;
use super::meta::Meta;
use super::object::{names, object};
use super::revision::Revision;
use super::tasks::legacy::TaskMetadata;
use super::write::Projection;
use crate::schema::{Icon, PaginatedParams};

/// The parameters of `tools/list`.
pub type ListToolsParams = PaginatedParams;

object! {
    /// The result of `tools/list`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#listing-tools>
    pub page ListToolsResult {
        required {
            /// One page of tools.
            tools: List<Tool> = "tools";
        }
        optional {
            /// Where the next page begins; absent on the last one. The empty string is a cursor like any other.
            next_cursor: Option<String> = "nextCursor";
        }
    }
}

object! {
    /// A tool that the model can call.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool>
    pub struct Tool made by undescribed {
        required {
            /// Its name for programs.
            name: String = "name";
            /// What its arguments must look like: a JSON Schema whose `type` is `object`. Where the server sends none, the
            /// schema of any object.
            input_schema: Json = "inputSchema" check is_object else schema_of_objects;
        }
        optional {
            /// Its name for people; see [`display_name`](Self::display_name).
            title: Option<String> = "title" since V2025_06_18;
            /// What it does, for the model.
            description: Option<String> = "description";
            /// Pictures of it.
            icons: Option<Vec<Icon>> = "icons" since V2025_11_25;
            /// What its structured results look like: a JSON Schema. Before 2026-07-28 only those whose `type` is
            /// `object` are written.
            output_schema: Option<Json> = "outputSchema" since V2025_06_18 if describes_object;
            /// How it behaves, as its server has it: not to be relied upon.
            annotations: Option<ToolAnnotations> = "annotations" since V2025_03_26;
            /// How it can be run.
            execution: Option<ToolExecution> = "execution" since V2025_11_25 until V2025_11_25;
            /// What else goes with it.
            meta: Meta = "_meta" since V2025_06_18;
        }
    }
}

/// The schema that every object satisfies.
fn schema_of_objects() -> Json {
    #[derive(serde::Serialize)]
    struct Schema {
        r#type: &'static str,
    }
    Json::encode(&Schema { r#type: "object" }).unwrap_or_else(|_| Json::empty_object())
}

pub(crate) fn is_object(json: &Json) -> Result<(), &'static str> {
    if json.is_object() { Ok(()) } else { Err("an object") }
}

fn describes_object(schema: &Option<Json>, view: Projection) -> bool {
    let is_object = |schema: &Json| {
        schema.decode::<serde_json::Value>().is_ok_and(|schema| schema.get("type") == Some(&"object".into()))
    };
    view.since(Revision::V2026_07_28) || schema.as_ref().is_some_and(is_object)
}

/// Structured content was an object at first.
pub(crate) fn may_be_structured(value: &Option<Json>, view: Projection) -> bool {
    view.since(Revision::V2026_07_28) || value.as_ref().is_some_and(Json::is_object)
}

impl Tool {
    /// A tool with a description, its input described by a JSON Schema.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: impl Into<Json>,
    ) -> Self {
        Self { description: Some(description.into()), ..Self::undescribed(name, input_schema) }
    }

    /// The same tool with a name for people.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// The same tool with a schema of its structured results.
    #[must_use]
    pub fn with_output_schema(mut self, schema: impl Into<Json>) -> Self {
        self.output_schema = Some(schema.into());
        self
    }

    /// The same tool with a description of its behaviour.
    #[must_use]
    pub fn with_annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.annotations = Some(annotations);
        self
    }

    /// What to show people: the title, then that of the annotations, then the name.
    pub fn display_name(&self) -> &str {
        let annotated = || self.annotations.as_ref().and_then(|annotations| annotations.title.as_deref());
        self.title.as_deref().or_else(annotated).unwrap_or(&self.name)
    }
}

object! {
    /// How a tool behaves, as its server has it.
    pub struct ToolAnnotations {
        required {}
        optional {
            /// Its name for people.
            title: Option<String> = "title";
            /// Whether it changes nothing. Otherwise, or if absent, it may.
            read_only_hint: Option<bool> = "readOnlyHint";
            /// Whether it may destroy something rather than only add. If absent, it may.
            destructive_hint: Option<bool> = "destructiveHint";
            /// Whether calling it again with the same arguments changes nothing more. If absent, it may.
            idempotent_hint: Option<bool> = "idempotentHint";
            /// Whether it deals with an open world, such as the web. If absent, it does.
            open_world_hint: Option<bool> = "openWorldHint";
        }
    }
}

object! {
    /// How a tool can be run (2025-11-25).
    pub struct ToolExecution {
        required {}
        optional {
            /// Whether it can run as a task; if absent, it can't.
            task_support: Option<TaskSupport> = "taskSupport";
        }
    }
}

names! {
    /// Whether a tool can run as a task (2025-11-25).
    pub enum TaskSupport {
        /// It can't.
        Forbidden = "forbidden",
        /// It can.
        Optional = "optional",
        /// It runs in no other way.
        Required = "required",
    }
}

object! {
    /// The parameters of `tools/call`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#calling-tools>
    pub params CallToolParams {
        required {
            /// The tool.
            name: String = "name";
        }
        optional {
            /// Its arguments: a JSON object.
            arguments: Option<Json> = "arguments" odd refused check is_object_if_any;
            /// Answers to what an earlier attempt asked for.
            input_responses: Option<InputResponses> = "inputResponses" since V2026_07_28 odd refused;
            /// What an earlier attempt gave to be handed back.
            request_state: Option<String> = "requestState" since V2026_07_28 odd refused;
            /// Asks for the call to become a task.
            task: Option<TaskMetadata> = "task" since V2025_11_25 until V2025_11_25;
        }
    }
}

pub(crate) fn is_object_if_any(json: &Option<Json>) -> Result<(), &'static str> {
    json.as_ref().map_or(Ok(()), is_object)
}

impl CallToolParams {
    /// The same call with arguments: a JSON object.
    #[must_use]
    pub fn with_arguments(mut self, arguments: impl Into<Json>) -> Self {
        self.arguments = Some(arguments.into());
        self
    }
}

object! {
    /// The result of `tools/call`.
    ///
    /// ```
    /// use mcp_proto::schema::CallToolResult;
    ///
    /// let result: CallToolResult = serde_json::from_str(r#"{"content":[{"type":"text","text":"5"}]}"#)?;
    /// assert_eq!(result, CallToolResult::text("5"));
    /// assert_eq!(result.text_content(), "5");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-result>
    pub result CallToolResult {
        required {}
        optional {
            /// What the model is shown. Servers that leave it out are read as having sent none.
            content: Vec<ContentBlock> = "content" odd refused;
            /// The result for programs: any JSON value; before 2026-07-28 only objects are written.
            structured_content: Option<Json> = "structuredContent" since V2025_06_18 null kept if may_be_structured;
            /// Whether the tool failed.
            is_error: Option<bool> = "isError";
        }
    }
}

impl CallToolResult {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![ContentBlock::text(text)], ..Self::new() }
    }

    /// A failure that the model is told of, so that it can try something else.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: Some(true), ..Self::text(text) }
    }

    /// A result for programs, with its JSON as text for those that read no structured results.
    ///
    /// # Errors
    /// If `value` does not serialize.
    pub fn structured<T: serde::Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        let json = Json::encode(value)?;
        Ok(Self { structured_content: Some(json.clone()), ..Self::text(json.as_str()) })
    }

    /// Whether the tool failed.
    pub fn failed(&self) -> bool {
        self.is_error == Some(true)
    }

    /// The text blocks, joined by newlines.
    pub fn text_content(&self) -> String {
        let mut texts = self.content.iter().filter_map(ContentBlock::as_text);
        let mut joined = texts.next().unwrap_or_default().to_owned();
        for text in texts {
            joined.push('\n');
            joined.push_str(text);
        }
        joined
    }
}
