//! Tools: `tools/list` and `tools/call`.

use super::object::{names, object};
use super::tasks::legacy::TaskMetadata;
use super::{
    ContentBlock, Icon, InputResponses, Json, List, Meta, PaginatedParams, Projection, Revision, lines,
};
use crate::prelude::*;
use crate::rpc::json_value::JsonValue;

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
    }

    /// A tool that the model can call. Create it with [`Tool::new`].
    ///
    /// ```
    /// use mcp_proto::schema::Tool;
    /// use serde_json::json;
    ///
    /// let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    /// let tool = Tool::new("weather", "Tells the weather", schema).with_title("Weather");
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool>
    pub struct Tool made by undescribed {
        required {
            /// Name for programmatic use.
            name: String = "name";
            /// JSON Schema of the arguments; its `type` is `object`. If the server sends none, a schema that accepts
            /// any object is used.
            input_schema: Json = "inputSchema" check is_object else schema_of_objects;
        }
        optional {
            /// Human-readable title; see [`display_name`](Self::display_name).
            title: Option<String> = "title" since V2025_06_18;
            /// Description for the model.
            description: Option<String> = "description";
            /// Icons to display.
            icons: Option<Vec<Icon>> = "icons" since V2025_11_25;
            /// JSON Schema of the structured result. Before 2026-07-28 it is written only if its `type` is `object`.
            output_schema: Option<Json> = "outputSchema" since V2025_06_18 if describes_object;
            /// Behaviour of the tool as declared by the server: untrusted unless the server is trusted.
            annotations: Option<ToolAnnotations> = "annotations" since V2025_03_26;
            /// Whether the tool can run as a task.
            execution: Option<ToolExecution> = "execution" since V2025_11_25 until V2025_11_25;
            /// Metadata attached to it.
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
        let read = schema.decode::<JsonValue<false>>();
        read.is_ok_and(|JsonValue(schema)| schema.get("type") == Some(&"object".into()))
    };
    view.since(Revision::V2026_07_28) || schema.as_ref().is_some_and(is_object)
}

/// Structured content must be an object before 2026-07-28.
pub(crate) fn may_be_structured(value: &Option<Json>, view: Projection) -> bool {
    view.since(Revision::V2026_07_28) || value.as_ref().is_some_and(Json::is_object)
}

impl Tool {
    /// Creates a tool with a description and the JSON Schema of its arguments.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: impl Into<Json>,
    ) -> Self {
        Self { description: Some(description.into()), ..Self::undescribed(name, input_schema) }
    }

    setters! {
        /// Sets the human-readable title.
        #[must_use]
        pub fn with_title(self, title: impl Into<String>) { self.title = Some(title.into()) }

        /// Sets the JSON Schema of the structured result.
        #[must_use]
        pub fn with_output_schema(self, schema: impl Into<Json>) { self.output_schema = Some(schema.into()) }

        /// Sets the declared behaviour.
        #[must_use]
        pub fn with_annotations(self, annotations: ToolAnnotations) { self.annotations = Some(annotations) }
    }

    /// Name to display: the title, the title of the annotations, or the name.
    pub fn display_name(&self) -> &str {
        let annotated = || self.annotations.as_ref().and_then(|annotations| annotations.title.as_deref());
        self.title.as_deref().or_else(annotated).unwrap_or(&self.name)
    }
}

object! {
    /// Behaviour of a tool as declared by its server.
    pub struct ToolAnnotations {
        optional {
            /// Human-readable title.
            title: Option<String> = "title";
            /// Whether the tool changes nothing in its environment. Default: it may.
            read_only_hint: Option<bool> = "readOnlyHint";
            /// Whether the tool may destroy or overwrite something, rather than only add. Default: it may.
            destructive_hint: Option<bool> = "destructiveHint";
            /// Whether another call with the same arguments has no further effect. Default: it may have one.
            idempotent_hint: Option<bool> = "idempotentHint";
            /// Whether the tool deals with an open world of external entities, such as the web. Default: it does.
            open_world_hint: Option<bool> = "openWorldHint";
        }
    }

    /// Execution options of a tool (2025-11-25).
    pub struct ToolExecution {
        optional {
            /// Whether the tool can run as a task. Default: it cannot.
            task_support: Option<TaskSupport> = "taskSupport";
        }
    }
}

names! {
    /// Whether a tool can run as a task (2025-11-25).
    pub enum TaskSupport {
        /// It cannot run as a task.
        Forbidden = "forbidden",
        /// It can run as a task.
        Optional = "optional",
        /// It can run only as a task.
        Required = "required",
    }
}

object! {
    /// The parameters of `tools/call`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#calling-tools>
    pub params CallToolParams {
        required {
            /// Name of the tool.
            name: String = "name";
        }
        optional {
            /// Its arguments: a JSON object.
            arguments: Option<Json> = "arguments" type strict check is_object_if_any;
            /// Answers to the input requests of an earlier attempt.
            input_responses: Option<InputResponses> = "inputResponses" since V2026_07_28 type strict;
            /// The `requestState` of an earlier attempt's result, unchanged.
            request_state: Option<String> = "requestState" since V2026_07_28 type strict;
            /// Asks the server to run the call as a task.
            task: Option<TaskMetadata> = "task" since V2025_11_25 until V2025_11_25;
        }
    }
}

pub(crate) fn is_object_if_any(json: &Option<Json>) -> Result<(), &'static str> {
    json.as_ref().map_or(Ok(()), is_object)
}

impl CallToolParams {
    /// Sets the arguments: a JSON object.
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
    pub called CallToolResult {
        optional {
            //= K16 "A result may have empty content, or structured content alone"
            /// Content for the model. A missing list is read as an empty one.
            content: Vec<ContentBlock> = "content" type strict;
            /// Structured result: any JSON value; before 2026-07-28 it is written only if it is an object.
            structured_content: Option<Json> = "structuredContent" since V2025_06_18 null kept if may_be_structured;
            /// Whether the tool failed.
            is_error: Option<bool> = "isError";
        }
    }
}

impl CallToolResult {
    /// Creates a result with one text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![ContentBlock::text(text)], ..Self::new() }
    }

    /// Creates a failure that the model can read, so that it can try something else.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: Some(true), ..Self::text(text) }
    }

    /// Creates a structured result, with its JSON as a text block for clients that do not read structured results.
    ///
    /// # Errors
    /// If `value` does not serialize.
    pub fn from_structured<T: serde::Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        let json = Json::encode(value)?;
        Ok(Self { structured_content: Some(json.clone()), ..Self::text(json.as_str()) })
    }

    /// Deserializes the structured content, borrowing from its text where `T` borrows.
    ///
    /// ```
    /// use mcp_proto::schema::CallToolResult;
    /// use serde_json::json;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Weather {
    ///     degrees: f64,
    /// }
    ///
    /// let result = CallToolResult::from_structured(&json!({ "degrees": 21.5 }))?;
    /// assert_eq!(result.structured::<Weather>()?.degrees, 21.5);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// Servers of revisions before 2025-06-18 send none, and tools that fail often send only text:
    /// [`structured_content`](Self::structured_content) says whether there is any.
    ///
    /// # Errors
    /// If the result has no structured content, or it is not a `T`.
    pub fn structured<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        use serde::de::Error as _;

        match &self.structured_content {
            Some(value) => value.decode(),
            None if self.failed() => {
                Err(serde_json::Error::custom("the tool failed, and its result has no structured content"))
            }
            None => Err(serde_json::Error::custom("the result has no structured content")),
        }
    }

    /// Whether the tool failed.
    pub fn failed(&self) -> bool {
        self.is_error == Some(true)
    }

    /// The text blocks, joined by newlines.
    pub fn text_content(&self) -> String {
        lines(self.content.iter().filter_map(ContentBlock::as_text))
    }
}
