//! Results of tools, prompts and resources as content for a model.

mod collect;
mod file;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use super::text::{prefix_of, suffix_of};
use crate::consent::{SafeText, is_opening_bracket, prototype};
use crate::schema::{
    CallToolResult, ContentBlock, EmbeddedResource, GetPromptResult, ReadResourceResult, Role,
};
use collect::Collector;
pub use file::Spill;
use file::{FileNames, SpillNote};

/// How lines of the host begin where its words and those of a server are one text.
const HOST_MARK: &str = "[host] ";

/// How much of a result is shown to a model. The rest goes to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultLimits {
    /// How many bytes of text are shown. Of a longer text the beginning and the end are shown, and the whole goes to a
    /// file. Default 100 KiB.
    pub text_bytes: usize,
    /// How many bytes of the beginning of a longer text are shown. Default 16 KiB.
    pub head_bytes: usize,
    /// How many bytes of the end of a longer text are shown. Default 8 KiB.
    pub tail_bytes: usize,
    /// How many images and sounds are shown; the others go to files. Default 20.
    pub media: usize,
    /// How many bytes of base64 they have together. Default 8 MiB.
    pub media_bytes: usize,
    /// How many files one result may fill, the last of them with a text that is too long. What exceeds them is lost to
    /// the model, and a note says so. Default 32.
    pub files: usize,
    /// How many messages of a prompt are shown. Default 1,000.
    pub messages: usize,
}

impl Default for ResultLimits {
    fn default() -> Self {
        Self {
            text_bytes: 100 * 1024,
            head_bytes: 16 * 1024,
            tail_bytes: 8 * 1024,
            media: 20,
            media_bytes: 8 * 1024 * 1024,
            files: 32,
            messages: 1_000,
        }
    }
}

/// The author of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Author {
    /// The server.
    Server,
    /// The host, in notes to the model about omitted content.
    Host,
}

/// One part of the content for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelPart {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// Its author.
        author: Author,
    },
    /// An image.
    Image {
        /// The image, in base64, as the server sent it.
        data: String,
        /// Its media type, as the server declared it.
        mime_type: String,
    },
    /// Audio.
    Audio {
        /// The audio, in base64, as the server sent it.
        data: String,
        /// Its media type, as the server declared it.
        mime_type: String,
    },
}

/// Content for a model.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ModelContent {
    /// The parts, in order.
    pub parts: Vec<ModelPart>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// Content that the server addresses to the user and not to the model
    /// ([`audience`](crate::schema::Annotations::audience)), as the server sent it, outside of the limits. Show it to the
    /// user; a note in the parts says that it exists.
    pub for_user: Vec<ContentBlock>,
}

impl ModelContent {
    /// How many images and sounds there are.
    pub fn media(&self) -> usize {
        self.parts.iter().filter(|part| !matches!(part, ModelPart::Text { .. })).count()
    }

    /// The content as one text, for models that read nothing else.
    ///
    /// Images and audio are described. A failure begins with `Tool error: `. Lines of the host begin with `[host] `;
    /// where a server writes that, or something that looks like it, `> ` is put before it.
    pub fn to_text(&self) -> String {
        let mut text = String::from(if self.is_error { "Tool error: " } else { "" });
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                text.push('\n');
            }
            match part {
                ModelPart::Text { text: own, author: Author::Server } => {
                    push_quoted(&mut text, own);
                }
                ModelPart::Text { text: own, author: Author::Host } => {
                    for line in own.split_inclusive('\n') {
                        text.push_str(HOST_MARK);
                        text.push_str(line);
                    }
                }
                ModelPart::Image { data, mime_type } => text.push_str(&describe("image", mime_type, data)),
                ModelPart::Audio { data, mime_type } => text.push_str(&describe("audio", mime_type, data)),
            }
        }
        text
    }
}

/// Adds a server's text, with `> ` before whatever looks like the mark of the host.
fn push_quoted(text: &mut String, own: &str) {
    let mut copied = 0;
    // Whether only spaces and marks of quotes and lists stand before on the line.
    let mut begins_line = true;
    for (at, character) in own.char_indices() {
        if is_opening_bracket(character)
            && let Some((before, imitation)) = own.split_at_checked(at)
            && let Some(after) = after_host_mark(imitation)
            && (begins_line
                || after.starts_with(|next: char| next.is_whitespace() || SafeText::is_unsafe(next)))
        {
            text.push_str(before.get(copied..).unwrap_or_default());
            text.push_str("> ");
            copied = at;
        }
        begins_line = match character {
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => true,
            _ => begins_line && prototype(character).all(|it| " >*-#".contains(it)),
        };
    }
    text.push_str(own.get(copied..).unwrap_or_default());
}

/// The text behind the mark of the host, or what looks like it, with which this text begins.
fn after_host_mark(text: &str) -> Option<&str> {
    let mut characters = text.chars();
    let mut expected = HOST_MARK.trim_end().chars();
    while !expected.as_str().is_empty() {
        for character in prototype(characters.next()?).filter(|character| *character != ' ') {
            if expected.next() != Some(character) {
                return None;
            }
        }
    }
    Some(characters.as_str())
}

/// A placeholder for an image, audio or a blob. It is the host's: a media type that could say more is not repeated.
fn describe(kind: &str, mime_type: &str, data: &str) -> String {
    let essence = mime_type.split(';').next().unwrap_or_default().trim();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/+-._".contains(&byte);
    let shown = match essence.len() {
        1..=100 if essence.bytes().all(is_plain) => essence,
        _ => "of unknown type",
    };
    format!("[{kind} {shown}, {} bytes of base64]", data.len())
}

/// A result on its way to a model, of which the caller writes parts to files first.
///
/// 1. [`take_spills`](Self::take_spills) returns what exceeds the limits: usually nothing.
/// 2. The caller writes each to a file.
/// 3. [`finish`](Self::finish) takes the path of each file, or why it could not be written, and returns the content.
///
/// Nothing disappears silently: content of unknown kinds is shown as JSON, structured content unless a text repeats it,
/// links and resources with their URIs. Content for the user alone is [left to the caller](ModelContent::for_user), and a
/// note says so.
///
/// ```
/// use mcp_proto::host::tools::{Conversion, ResultLimits};
/// use mcp_proto::schema::CallToolResult;
///
/// let limits = ResultLimits { text_bytes: 20, head_bytes: 6, tail_bytes: 5, ..ResultLimits::default() };
/// let result = CallToolResult::text("begin, and so on, and so on, end.");
/// let mut conversion = Conversion::of_tool_result("mcp__files__read", result, &limits);
///
/// let spills = conversion.take_spills();
/// assert_eq!(spills[0].file_name, "mcp__files__read-1.txt");
/// assert_eq!(spills[0].contents, b"begin, and so on, and so on, end.");
/// let content = conversion.finish([Ok("/tmp/1.txt".into())]);
/// let text = "begin,\n[host] 22 of 33 bytes are left out here. All: /tmp/1.txt\n end.";
/// assert_eq!(content.to_text(), text);
/// ```
#[derive(Clone, Debug)]
pub struct Conversion {
    content: ModelContent,
    spills: Vec<Spill>,
    notes: Vec<SpillNote>,
}

/// A message of a prompt on its way to a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MessageConversion {
    /// Sender of the message.
    pub role: Role,
    /// Its content.
    pub content: Conversion,
}

impl Conversion {
    /// Converts the result of a tool. The names of files begin with `name`, the tool's name for a model.
    pub fn of_tool_result(name: &str, result: CallToolResult, limits: &ResultLimits) -> Self {
        let mut limits = *limits;
        let mut collector = Collector::new(&mut limits);
        let is_error = result.failed();
        let structured = result.structured_content.filter(|json| !collect::repeats(&result.content, json));
        result.content.into_iter().for_each(|block| collector.push_block(block));
        if let Some(json) = structured {
            collector.push_text(json.as_str());
        }
        collector.finish(&mut FileNames::new(name), is_error)
    }

    /// Converts the contents of a resource. The names of files begin with `name`, the resource's name for a model.
    pub fn of_resource(name: &str, result: ReadResourceResult, limits: &ResultLimits) -> Self {
        let mut limits = *limits;
        let mut collector = Collector::new(&mut limits);
        for contents in result.contents {
            collector.push_block(ContentBlock::Resource(EmbeddedResource::new(contents)));
        }
        collector.finish(&mut FileNames::new(name), false)
    }

    /// Converts the messages of a prompt, which share the limits. The names of files begin with `name`, the prompt's
    /// name for a model.
    pub fn of_prompt(name: &str, result: GetPromptResult, limits: &ResultLimits) -> Vec<MessageConversion> {
        let mut limits = *limits;
        let mut files = FileNames::new(name);
        let total = result.messages.len();
        let unreadable = result.messages.invalid().len();
        let mut messages: Vec<MessageConversion> = Vec::new();
        for message in result.messages.into_iter().take(limits.messages) {
            let mut collector = Collector::new(&mut limits);
            collector.push_block(message.content);
            messages
                .push(MessageConversion { role: message.role, content: collector.finish(&mut files, false) });
        }
        if let Some(last) = messages.last_mut() {
            let mut note =
                |text| last.content.content.parts.push(ModelPart::Text { text, author: Author::Host });
            if total > limits.messages {
                note(format!("{} further messages are left out.", total.saturating_sub(limits.messages)));
            }
            if unreadable > 0 {
                note(format!("{unreadable} messages of the prompt could not be read and are left out."));
            }
        }
        messages
    }

    /// Takes the contents that the caller writes to files.
    pub fn take_spills(&mut self) -> Vec<Spill> {
        core::mem::take(&mut self.spills)
    }

    /// Returns the content, given for each spill, in order, the path of its file or why it could not be written.
    ///
    /// Missing answers count as failures.
    pub fn finish(self, saved: impl IntoIterator<Item = Result<String, String>>) -> ModelContent {
        let Self { mut content, notes, .. } = self;
        let mut saved = saved.into_iter();
        let mut lines = String::new();
        for note in notes {
            let path = match &note.unsaved {
                Some(reason) => Err(String::from(*reason)),
                None => saved.next().unwrap_or_else(|| Err("nothing wrote it".into())),
            };
            let place = match path {
                Ok(path) => path,
                Err(reason) => format!("not saved: {reason}"),
            };
            match note.part.and_then(|index| content.parts.get_mut(index)) {
                Some(ModelPart::Text { text, author: Author::Host }) => {
                    // A string takes any text.
                    let _ = write!(text, " {}: {place}", note.what);
                }
                _ => {
                    let line_break = if lines.is_empty() { "" } else { "\n" };
                    let _ = write!(lines, "{line_break}{}: {place}", note.what);
                }
            }
        }
        if !lines.is_empty() {
            content.parts.push(ModelPart::Text { text: lines, author: Author::Host });
        }
        content
    }
}
