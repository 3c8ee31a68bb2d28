//! Sampling: a server asks the client's model.

use core::slice;

use super::object::{from_variants, names, object, tagged};
use super::read::{Read, ReadResult, UnexpectedJson};
use super::tasks::legacy::TaskMetadata;
use super::write::serde_impls;
use super::{
    AudioContent, ContentBlock, ImageContent, Json, List, Meta, Number, Projection, Revision, Role,
    TextContent, Tool, WriteAt, lines, may_be_structured, stand_in,
};
use crate::ordered_set::OrderedSet;
use crate::prelude::*;
use crate::rpc::json_reader::{NotJson, Reader};

object! {
    /// The parameters of `sampling/createMessage`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/sampling>
    pub params CreateMessageParams {
        required {
            /// The conversation so far.
            messages: List<SamplingMessage> = "messages";
            /// Maximum number of tokens in the answer.
            max_tokens: u64 = "maxTokens";
        }
        optional {
            /// The system prompt.
            system_prompt: Option<String> = "systemPrompt";
            /// The server's preferences among models.
            model_preferences: Option<ModelPreferences> = "modelPreferences";
            /// Servers whose context to include. Deprecated since 2025-11-25, except `none`.
            include_context: Option<IncludeContext> = "includeContext";
            /// Sampling temperature.
            temperature: Option<Number> = "temperature";
            /// Texts that end the answer.
            stop_sequences: Option<Vec<String>> = "stopSequences";
            /// Further parameters for the model's provider: an object.
            metadata: Option<Json> = "metadata";
            /// The tools that the model may call; the server runs them.
            tools: Option<List<Tool>> = "tools" since V2025_11_25;
            /// Whether the model must call a tool.
            tool_choice: Option<ToolChoice> = "toolChoice" since V2025_11_25;
            /// Asks the client to run the request as a task.
            task: Option<TaskMetadata> = "task" since V2025_11_25 until V2025_11_25;
        }
    }
}

names! {
    /// Servers whose context is included in a sampling request.
    pub enum IncludeContext {
        /// No context.
        None = "none",
        /// Context of the requesting server.
        ThisServer = "thisServer",
        /// Context of all servers.
        AllServers = "allServers",
    }
}

object! {
    /// The server's preferences among models; the client decides.
    ///
    /// Priorities range from 0 (unimportant) to 1 (most important).
    pub struct ModelPreferences {
        optional {
            /// Names of models, in order of preference.
            hints: Option<Vec<ModelHint>> = "hints";
            /// Importance of low cost.
            cost_priority: Option<Number> = "costPriority";
            /// Importance of low latency.
            speed_priority: Option<Number> = "speedPriority";
            /// Importance of capability.
            intelligence_priority: Option<Number> = "intelligencePriority";
        }
    }

    /// A hint at the name of a model.
    pub struct ModelHint {
        optional {
            /// A substring of the name.
            name: Option<String> = "name";
        }
    }

    /// How the model uses tools.
    pub struct ToolChoice {
        optional {
            /// Mode; default `auto`.
            mode: Option<ToolChoiceMode> = "mode";
        }
    }
}

names! {
    /// Mode of tool use.
    pub enum ToolChoiceMode {
        /// The model decides whether to call tools.
        Auto = "auto",
        /// The model must call at least one tool.
        Required = "required",
        /// The model must not call tools.
        None = "none",
    }
}

object! {
    /// A message of a sampling conversation.
    pub struct SamplingMessage {
        required {
            /// Sender of the message.
            role: Role = "role";
            /// Content of the message.
            content: SamplingContent = "content";
        }
        optional {
            /// Metadata attached to it.
            meta: Meta = "_meta" since V2025_11_25;
        }
    }
}

impl SamplingMessage {
    /// Creates a message of the user.
    pub fn user(content: impl Into<SamplingContent>) -> Self {
        Self::new(Role::User, content)
    }

    /// Creates a message of the model.
    pub fn assistant(content: impl Into<SamplingContent>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

object! {
    /// The result of `sampling/createMessage`.
    pub result CreateMessageResult {
        required {
            /// Sender of the message: the model.
            role: Role = "role";
            /// Content of the answer.
            content: SamplingContent = "content";
            /// Name of the model that generated it.
            model: String = "model";
        }
        optional {
            /// Why the model stopped: `endTurn`, `stopSequence`, `maxTokens`, `toolUse` or a reason that its provider
            /// defines.
            stop_reason: Option<String> = "stopReason";
        }
    }
}

impl CreateMessageResult {
    /// Creates the answer of a model that ended its turn with a text.
    ///
    /// ```
    /// use mcp_proto::schema::{CreateMessageResult, Role};
    ///
    /// let answer = CreateMessageResult::text("It rains.", "model-7");
    /// assert_eq!(answer.role, Role::Assistant);
    /// assert_eq!(answer.content.text_content(), "It rains.");
    /// assert_eq!(answer.stop_reason.as_deref(), Some("endTurn"));
    /// ```
    #[must_use]
    pub fn text(text: impl Into<String>, model: impl Into<String>) -> Self {
        Self { stop_reason: Some("endTurn".into()), ..Self::new(Role::Assistant, text.into(), model) }
    }
}

tagged! {
    /// One content block of a sampling message.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/schema#samplingmessagecontentblock>
    pub enum SamplingBlock as SamplingTag {
        /// Text.
        Text(TextContent) = "text",
        /// An image.
        Image(ImageContent) = "image",
        /// Audio.
        Audio(AudioContent) = "audio" since V2025_03_26,
        /// A tool call of the model.
        ToolUse(ToolUseContent) = "tool_use" since V2025_11_25,
        /// The result of a tool call.
        ToolResult(ToolResultContent) = "tool_result" since V2025_11_25,
    } chosen |fields| fields.tag("type")?.and_then(Result::ok)
}

object! {
    /// A tool call of the model (since 2025-11-25).
    pub struct ToolUseContent as "type" = "tool_use" {
        required {
            /// Id of the call, which its result repeats.
            id: String = "id";
            /// Name of the tool.
            name: String = "name";
            /// Arguments of the tool: an object.
            input: Json = "input";
        }
        optional {
            /// Metadata attached to it.
            meta: Meta = "_meta";
        }
    }

    /// The result of a tool call (since 2025-11-25).
    pub struct ToolResultContent as "type" = "tool_result" {
        required {
            /// Id of the call.
            tool_use_id: String = "toolUseId";
            /// Content for the model.
            content: Vec<ContentBlock> = "content";
        }
        optional {
            /// Structured result: any JSON value; before 2026-07-28 it is written only if it is an object.
            structured_content: Option<Json> = "structuredContent" null kept if may_be_structured;
            /// Whether the tool failed.
            is_error: Option<bool> = "isError";
            /// Metadata attached to it.
            meta: Meta = "_meta";
        }
    }
}

impl SamplingBlock {
    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// The text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(content) => Some(&content.text),
            _ => None,
        }
    }

    fn exists(&self, view: Projection) -> bool {
        match self {
            Self::Audio(_) => view.since(Revision::V2025_03_26),
            Self::ToolUse(_) | Self::ToolResult(_) => view.since(SamplingContent::MANY_SINCE),
            // It is unknown which revisions have an unknown block, so it is never withheld.
            _ => true,
        }
    }
}

impl ToolUseContent {
    fn stand_in(&self) -> TextContent {
        stand_in(format!("[call of tool {}]", self.name), None)
    }
}

impl ToolResultContent {
    fn stand_in(&self) -> TextContent {
        stand_in(format!("[result of call {}]", self.tool_use_id), None)
    }
}

/// Content of a sampling message: one block or, since 2025-11-25, several.
///
/// For older revisions, which allow one block only, all text blocks are joined; if there are none, the first block that
/// the revision has is written. A `&str` or `String` converts into one block of text:
///
/// ```
/// use mcp_proto::schema::SamplingMessage;
///
/// let question = SamplingMessage::user("How is the weather?");
/// assert_eq!(question.content.text_content(), "How is the weather?");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)]
pub enum SamplingContent {
    /// One block.
    One(SamplingBlock),
    /// A list of blocks.
    Many(Vec<SamplingBlock>),
}

impl SamplingContent {
    /// The first revision with several blocks and with tools.
    const MANY_SINCE: Revision = Revision::V2025_11_25;

    /// The blocks.
    pub fn blocks(&self) -> &[SamplingBlock] {
        match self {
            Self::One(block) => slice::from_ref(block),
            Self::Many(blocks) => blocks,
        }
    }

    /// The text blocks, joined by newlines.
    pub fn text_content(&self) -> String {
        lines(self.blocks().iter().filter_map(SamplingBlock::as_text))
    }
}

from_variants!(SamplingContent { One(SamplingBlock), Many(Vec<SamplingBlock>) });

impl From<&str> for SamplingContent {
    fn from(text: &str) -> Self {
        Self::One(SamplingBlock::text(text))
    }
}

impl From<String> for SamplingContent {
    fn from(text: String) -> Self {
        Self::One(SamplingBlock::text(text))
    }
}

impl Read for SamplingContent {
    const EXPECTED: &'static str = "an object or a list";

    fn read(reader: &mut Reader<'_>) -> Result<ReadResult<Self>, NotJson> {
        match reader.first_byte()? {
            b'{' => SamplingBlock::read(reader).map(|read| read.map(Self::One)),
            b'[' => Vec::read(reader).map(|read| read.map(Self::Many)),
            _ => {
                let reason = format!("expected {}", Self::EXPECTED).into();
                Ok(Err(UnexpectedJson { json: Json::read_text(reader)?, reason }))
            }
        }
    }
}

impl WriteAt for SamplingContent {
    fn write(&self, view: Projection, out: &mut Vec<u8>) {
        match self {
            Self::One(block) => block.write(view, out),
            Self::Many(blocks) if view.since(Self::MANY_SINCE) => blocks.write(view, out),
            Self::Many(blocks) => {
                let text = self.text_content();
                let first = blocks.iter().find(|block| block.exists(view)).or(blocks.first());
                match first {
                    Some(block) if text.is_empty() => block.write(view, out),
                    _ => TextContent::new(text).write(view, out),
                }
            }
        }
    }
}

serde_impls!(SamplingContent);

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
        let mut open: OrderedSet<&str> = OrderedSet::new();
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
                Some(ToolChoiceMode::None) => OrderedSet::new(),
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
    tools: OrderedSet<String>,
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

error_text! { SamplingError:
    Message { index } => "message {index} is not a valid sampling message";
    Mixed { index } =>
        "message {index} mixes tool results with other content or has a role other than `user`";
    Call { id } => "the tool call {id:?} is not in an `assistant` message, or its id occurs twice";
    Unanswered { id } => "the next message has no result for the tool call {id:?}";
    NoCall { id } => "a tool result refers to the call {id:?}, which the previous message does not have";
    Tool { name } => "the model called the tool {name:?}, which the request does not offer";
    NoTool => "the model called no tool, although the request requires a tool call";
}
