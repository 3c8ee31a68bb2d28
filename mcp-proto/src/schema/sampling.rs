//! Sampling: a server asks the client's model.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::slice;

use serde::de::{Deserializer, MapAccess, SeqAccess};
use serde::ser::Serializer;

use super::content::{AudioContent, ContentBlock, ImageContent, Role, TextContent, stand_in, tagged};
use super::json::{Json, Number};
use super::list::List;
use super::meta::Meta;
use super::object::{Object as _, names, object};
use super::read::{Attempt, Fields, Odd, Read};
use super::revision::Revision;
use super::tasks::legacy::TaskMetadata;
use super::tools::{Tool, may_be_structured};
use super::write::{Projection, WriteAt, serde_impls};

object! {
    /// The parameters of `sampling/createMessage`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/sampling>
    pub params CreateMessageParams {
        required {
            /// The conversation so far.
            messages: List<SamplingMessage> = "messages";
            /// How many tokens the answer may have.
            max_tokens: u64 = "maxTokens";
        }
        optional {
            /// What the model is told first.
            system_prompt: Option<String> = "systemPrompt";
            /// Which model the server would like.
            model_preferences: Option<ModelPreferences> = "modelPreferences";
            /// Whose context is included. Deprecated in 2025-11-25 and later, but for `none`.
            include_context: Option<IncludeContext> = "includeContext";
            /// How freely the model may choose.
            temperature: Option<Number> = "temperature";
            /// What ends the answer.
            stop_sequences: Option<Vec<String>> = "stopSequences";
            /// What else the model's provider takes: an object.
            metadata: Option<Json> = "metadata";
            /// The tools that the model may call; the server runs them.
            tools: Option<List<Tool>> = "tools" since V2025_11_25;
            /// Whether the model must call one.
            tool_choice: Option<ToolChoice> = "toolChoice" since V2025_11_25;
            /// Asks for the request to become a task.
            task: Option<TaskMetadata> = "task" since V2025_11_25 until V2025_11_25;
        }
    }
}

names! {
    /// Whose context is included.
    pub enum IncludeContext {
        /// Nobody's.
        None = "none",
        /// That of the server that asks.
        ThisServer = "thisServer",
        /// That of all servers.
        AllServers = "allServers",
    }
}

object! {
    /// Which model a server would like, from 0, indifferent, to 1, above all. The client chooses.
    pub struct ModelPreferences {
        required {}
        optional {
            /// Names, the best first.
            hints: Option<Vec<ModelHint>> = "hints";
            /// That it be cheap.
            cost_priority: Option<Number> = "costPriority";
            /// That it be fast.
            speed_priority: Option<Number> = "speedPriority";
            /// That it be clever.
            intelligence_priority: Option<Number> = "intelligencePriority";
        }
    }
}

object! {
    /// A name that a model may have.
    pub struct ModelHint {
        required {}
        optional {
            /// A part of the name.
            name: Option<String> = "name";
        }
    }
}

object! {
    /// Whether the model must call a tool.
    pub struct ToolChoice {
        required {}
        optional {
            /// Whether it must; if absent, as it likes.
            mode: Option<ToolChoiceMode> = "mode";
        }
    }
}

names! {
    /// Whether the model must call a tool.
    pub enum ToolChoiceMode {
        /// As it likes.
        Auto = "auto",
        /// At least one.
        Required = "required",
        /// It must not.
        None = "none",
    }
}

object! {
    /// One message of a conversation with the model.
    pub struct SamplingMessage {
        required {
            /// Who speaks.
            role: Role = "role";
            /// What is said.
            content: SamplingContent = "content";
        }
        optional {
            /// What else goes with it.
            meta: Meta = "_meta" since V2025_11_25;
        }
    }
}

impl SamplingMessage {
    /// What the person says.
    pub fn user(content: impl Into<SamplingContent>) -> Self {
        Self::new(Role::User, content)
    }

    /// What the model says.
    pub fn assistant(content: impl Into<SamplingContent>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

object! {
    /// The result of `sampling/createMessage`.
    pub result CreateMessageResult {
        required {
            /// Who speaks: the model.
            role: Role = "role";
            /// What it says.
            content: SamplingContent = "content";
            /// Which model it was.
            model: String = "model";
        }
        optional {
            /// Why it stopped: `endTurn`, `stopSequence`, `maxTokens`, `toolUse` or another reason of its provider.
            stop_reason: Option<String> = "stopReason";
        }
    }
}

tagged! {
    /// One piece of a message of a conversation with the model.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/schema#samplingmessagecontentblock>
    pub enum SamplingBlock by "type" as SamplingTag {
        /// Text.
        Text(TextContent) = "text",
        /// An image.
        Image(ImageContent) = "image",
        /// Sound.
        Audio(AudioContent) = "audio",
        /// The model calls a tool.
        ToolUse(ToolUseContent) = "tool_use",
        /// What the tool said.
        ToolResult(ToolResultContent) = "tool_result",
    }
}

object! {
    /// The model calls a tool (since 2025-11-25).
    pub struct ToolUseContent as "type" = "tool_use" {
        required {
            /// By which the result is matched.
            id: String = "id";
            /// The tool.
            name: String = "name";
            /// Its arguments: an object.
            input: Json = "input";
        }
        optional {
            /// What else goes with it.
            meta: Meta = "_meta";
        }
    }
}

object! {
    /// What a tool said (since 2025-11-25).
    pub struct ToolResultContent as "type" = "tool_result" {
        required {
            /// The call that it answers.
            tool_use_id: String = "toolUseId";
            /// What the model is shown.
            content: Vec<ContentBlock> = "content";
        }
        optional {
            /// The result for programs: any JSON value; before 2026-07-28 only objects are written.
            structured_content: Option<Json> = "structuredContent" null kept if may_be_structured;
            /// Whether the tool failed.
            is_error: Option<bool> = "isError";
            /// What else goes with it.
            meta: Meta = "_meta";
        }
    }
}

impl SamplingBlock {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// The text, if it is text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(content) => Some(&content.text),
            _ => None,
        }
    }

    fn exists(&self, view: Projection) -> bool {
        match self {
            Self::Text(_) | Self::Image(_) => true,
            Self::Audio(_) => view.since(AudioContent::SINCE),
            Self::ToolUse(_) | Self::ToolResult(_) => view.since(SamplingContent::MANY_SINCE),
            // Nobody knows; it is not ours to withhold.
            Self::Unknown(_) => true,
        }
    }
}

impl WriteAt for SamplingBlock {
    fn write<S: Serializer>(&self, view: Projection, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(content) => content.write(view, serializer),
            Self::Image(content) => content.write(view, serializer),
            Self::Audio(content) if self.exists(view) => content.write(view, serializer),
            Self::Audio(content) => content.stand_in().write(view, serializer),
            Self::ToolUse(content) if self.exists(view) => content.write(view, serializer),
            Self::ToolUse(content) => {
                stand_in(format!("[call of tool {}]", content.name), None).write(view, serializer)
            }
            Self::ToolResult(content) if self.exists(view) => content.write(view, serializer),
            Self::ToolResult(content) => {
                stand_in(format!("[result of call {}]", content.tool_use_id), None).write(view, serializer)
            }
            Self::Unknown(json) => json.write(view, serializer),
        }
    }
}

/// What is said in a message: one block, or since 2025-11-25 several.
///
/// Older revisions, which know one block only, get all texts as one; where there is no text, the first block that they
/// have.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)]
pub enum SamplingContent {
    /// One block.
    One(SamplingBlock),
    /// A list of blocks.
    Many(Vec<SamplingBlock>),
}

impl SamplingContent {
    /// The first revision with several blocks, and with tools.
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
        let mut texts = self.blocks().iter().filter_map(SamplingBlock::as_text);
        let mut joined = texts.next().unwrap_or_default().to_owned();
        for text in texts {
            joined.push('\n');
            joined.push_str(text);
        }
        joined
    }
}

impl From<SamplingBlock> for SamplingContent {
    fn from(block: SamplingBlock) -> Self {
        Self::One(block)
    }
}

impl From<Vec<SamplingBlock>> for SamplingContent {
    fn from(blocks: Vec<SamplingBlock>) -> Self {
        Self::Many(blocks)
    }
}

impl From<&str> for SamplingContent {
    fn from(text: &str) -> Self {
        Self::One(SamplingBlock::text(text))
    }
}

impl Read for SamplingContent {
    const EXPECTED: &'static str = "an object or a list";

    fn from_map<'de, A: MapAccess<'de>>(map: A) -> Result<Attempt<Self>, A::Error> {
        let block = SamplingBlock::from_map(map)?;
        Ok(Ok(Self::One(block.unwrap_or_else(|odd| SamplingBlock::Unknown(odd.json)))))
    }

    fn from_seq<'de, A: SeqAccess<'de>>(seq: A) -> Result<Attempt<Self>, A::Error> {
        Vec::from_seq(seq).map(|read| read.map(Self::Many))
    }
}

impl WriteAt for SamplingContent {
    fn write<S: Serializer>(&self, view: Projection, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::One(block) => block.write(view, serializer),
            Self::Many(blocks) if view.since(Self::MANY_SINCE) => blocks.write(view, serializer),
            Self::Many(blocks) => {
                let text = self.text_content();
                let first = blocks.iter().find(|block| block.exists(view)).or(blocks.first());
                match first {
                    Some(block) if text.is_empty() => block.write(view, serializer),
                    _ => TextContent::new(text).write(view, serializer),
                }
            }
        }
    }
}

serde_impls!(SamplingContent);
