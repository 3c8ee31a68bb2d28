//! Results of tools, prompts and resources, converted to content for a model within limits.

use core::fmt::Write as _;

use serde_json::Value;

use super::{Author, ModelContent, ModelPart, describe, prefix_of, suffix_of};
use crate::host::digest::Digest;
use crate::prelude::*;
use crate::rpc::json_value::JsonValue;
use crate::schema::{
    BlobResourceContents, CallToolResult, ContentBlock, EmbeddedResource, GetPromptResult, ImageContent,
    Json, ReadResourceResult, ResourceContents, ResourceLink, Role,
};

/// The longest media type of an image or sound that is shown: two names of RFC 6838 and a slash.
const MEDIA_TYPE_BYTES: usize = 255;

config! {
    /// How much of a result is shown to a model. The rest goes to files.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ResultLimits {
        /// How many bytes of text are shown. Of a longer text the beginning and the end are shown, and the whole goes
        /// to a file. Default 100 KiB.
        pub text_bytes: usize = 100 * 1024,
        /// How many bytes of the beginning of a longer text are shown. Default 16 KiB.
        pub head_bytes: usize = 16 * 1024,
        /// How many bytes of the end of a longer text are shown. Default 8 KiB.
        pub tail_bytes: usize = 8 * 1024,
        /// How many images and sounds are shown; the others go to files. Default 20.
        pub media: usize = 20,
        /// How many bytes of base64 they have together. Default 8 MiB.
        pub media_bytes: usize = 8 * 1024 * 1024,
        /// How many files one result may fill, the last of them with a text that is too long. What exceeds them is lost
        /// to the model, and a note says so. Default 32.
        pub files: usize = 32,
        /// How many messages of a prompt are shown; with 0, one message says how many are left out. Default 1,000.
        pub messages: usize = 1_000,
    }
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
        let structured = result.structured_content.filter(|json| !repeats(&result.content, json));
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

    //= F99 "Prompt messages are converted for the model"
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
        if messages.is_empty() && total.max(unreadable) > 0 {
            let content = Collector::new(&mut limits).finish(&mut files, false);
            messages.push(MessageConversion { role: Role::User, content });
        }
        if let Some(last) = messages.last_mut() {
            let mut note = |text| last.content.content.parts.push(ModelPart::by(Author::Host, text));
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
            let path = match note.unsaved {
                Some(reason) => Err(reason.into()),
                None => saved.next().unwrap_or_else(|| Err("nothing wrote it".into())),
            };
            let place = path.unwrap_or_else(|reason| format!("not saved: {reason}"));
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
            content.parts.push(ModelPart::by(Author::Host, lines));
        }
        content
    }
}

/// A part of a result that the caller writes to a file.
///
/// Its bytes come from a server: the file must not be executable, and must not replace another one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spill {
    /// A suggested name of ASCII letters, digits, `_`, `-` and one dot; the same name returns with other results.
    pub file_name: String,
    /// The bytes.
    pub contents: Vec<u8>,
}

/// A note to the model about one spill.
#[derive(Clone, Debug)]
struct SpillNote {
    /// Description of the contents.
    what: String,
    /// Index of the host's part to which the note is added; `None` for a part at the end.
    part: Option<usize>,
    /// Why it is not saved, if it is not even a spill.
    unsaved: Option<&'static str>,
}

/// Numbered names of files.
struct FileNames {
    stem: String,
    count: usize,
}

impl FileNames {
    fn new(name: &str) -> Self {
        let clean = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
        Self { stem: name.chars().take(64).map(clean).collect(), count: 0 }
    }

    fn next(&mut self, mime_type: &str) -> String {
        self.count = self.count.saturating_add(1);
        format!("{}-{}.{}", self.stem, self.count, extension(mime_type))
    }
}

/// The extension of files of a media type. HTML becomes text, so that no browser runs a server's file.
fn extension(mime_type: &str) -> &'static str {
    let essence = mime_type.split(';').next().unwrap_or_default().trim();
    let known = [
        ("image/png", "png"),
        ("image/jpeg", "jpg"),
        ("image/gif", "gif"),
        ("image/webp", "webp"),
        ("audio/wav", "wav"),
        ("audio/mpeg", "mp3"),
        ("audio/ogg", "ogg"),
        ("application/json", "json"),
        ("application/pdf", "pdf"),
        ("application/zip", "zip"),
    ];
    let is_text = || essence.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("text/"));
    match known.iter().find(|(mime_type, _)| essence.eq_ignore_ascii_case(mime_type)) {
        Some((_, extension)) => extension,
        None if is_text() => "txt",
        None => "bin",
    }
}

/// Whether the server addresses the block to the user and not to the model.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#annotations>
fn is_for_user_only(block: &ContentBlock) -> bool {
    let annotations = match block {
        ContentBlock::Text(content) => &content.annotations,
        ContentBlock::Image(image) => &image.annotations,
        ContentBlock::Audio(audio) => &audio.annotations,
        ContentBlock::ResourceLink(link) => &link.annotations,
        ContentBlock::Resource(embedded) => &embedded.annotations,
        ContentBlock::Unknown(_) => return false,
    };
    let audience = annotations.as_ref().and_then(|annotations| annotations.audience.as_deref());
    audience.is_some_and(|roles| roles.contains(&Role::User) && !roles.contains(&Role::Assistant))
}

/// Whether a text block for the model repeats structured content: it has the same JSON value, as the specification
/// recommends, or it is the only string of a value that holds nothing else, such as `{"result": "the text"}`.
fn repeats(content: &[ContentBlock], structured: &Json) -> bool {
    let digest = Digest::of_json(structured.as_str());
    let first = structured.as_str().as_bytes().first();
    let JsonValue::<false>(value) = structured.decode().unwrap_or(JsonValue(Value::Null));
    let mut leaves = Vec::new();
    collect_leaves(&value, &mut leaves);
    let only_string = match leaves.as_slice() {
        [Value::String(text)] => Some(text.trim_ascii()),
        _ => None,
    };
    let shown = content.iter().filter(|block| !is_for_user_only(block));
    let mut texts = shown.filter_map(ContentBlock::as_text).map(str::trim_ascii);
    texts.any(|text| {
        only_string == Some(text) || text.as_bytes().first() == first && Digest::of_json(text) == digest
    })
}

/// Collects the strings, numbers and booleans of a value. The parser bounds its depth.
fn collect_leaves<'a>(value: &'a Value, leaves: &mut Vec<&'a Value>) {
    match value {
        Value::Null => {}
        Value::Array(values) => values.iter().for_each(|value| collect_leaves(value, leaves)),
        Value::Object(members) => members.values().for_each(|value| collect_leaves(value, leaves)),
        Value::String(_) | Value::Number(_) | Value::Bool(_) => leaves.push(value),
    }
}

/// The parts of a result so far. Each shown part lowers the limits.
struct Collector<'a> {
    limits: &'a mut ResultLimits,
    parts: Vec<ModelPart>,
    files: Vec<PendingFile>,
    for_user: Vec<ContentBlock>,
}

/// Contents for a file.
struct PendingFile {
    what: String,
    mime_type: String,
    /// Decoded when the file is certain.
    contents: Result<Vec<u8>, &'static str>,
}

impl<'a> Collector<'a> {
    fn new(limits: &'a mut ResultLimits) -> Self {
        Self { limits, parts: Vec::new(), files: Vec::new(), for_user: Vec::new() }
    }

    /// Adds text of the server, on a line of its own.
    fn push_text(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(ModelPart::Text { text: before, .. }) => {
                before.push('\n');
                before.push_str(text);
            }
            _ => self.parts.push(ModelPart::by(Author::Server, text)),
        }
    }

    //= F97 "no block disappears"
    fn push_block(&mut self, block: ContentBlock) {
        match block {
            block if is_for_user_only(&block) => self.for_user.push(block),
            ContentBlock::Text(content) => self.push_text(&content.text),
            ContentBlock::Image(image) => {
                self.push_media(ModelPart::Image { data: image.data, mime_type: image.mime_type });
            }
            ContentBlock::Audio(audio) => {
                self.push_media(ModelPart::Audio { data: audio.data, mime_type: audio.mime_type });
            }
            ContentBlock::ResourceLink(link) => self.push_text(&describe_link(&link)),
            ContentBlock::Resource(embedded) => self.push_resource(embedded.resource),
            ContentBlock::Unknown(json) => {
                self.push_text(&format!("[content of an unknown kind] {}", json.as_str()));
            }
        }
    }

    fn push_resource(&mut self, resource: ResourceContents) {
        match resource {
            ResourceContents::Text(contents) => {
                self.push_text(&format!("[resource {}]\n{}", contents.uri, contents.text));
            }
            ResourceContents::Blob(contents) => self.push_blob(contents),
            ResourceContents::Unknown(json) => {
                self.push_text(&format!("[resource of an unknown kind] {}", json.as_str()));
            }
        }
    }

    fn push_blob(&mut self, blob: BlobResourceContents) {
        let (data, mime_type) = (blob.blob, blob.mime_type.unwrap_or_default());
        let kind = mime_type.split('/').next().unwrap_or_default();
        self.push_text(&format!("[resource {}]", blob.uri));
        if kind.eq_ignore_ascii_case("image") {
            self.push_media(ModelPart::Image { data, mime_type });
        } else if kind.eq_ignore_ascii_case("audio") {
            self.push_media(ModelPart::Audio { data, mime_type });
        } else {
            self.push_file(describe("blob", &mime_type, &data), mime_type, data);
        }
    }

    /// Shows an image or audio if there is room for one more, else sends it to a file.
    fn push_media(&mut self, part: ModelPart) {
        let (ModelPart::Image { data, mime_type } | ModelPart::Audio { data, mime_type }) = &part else {
            return;
        };
        let rest = self.limits.media.checked_sub(1).zip(self.limits.media_bytes.checked_sub(data.len()));
        let rest = rest.filter(|_| mime_type.len() <= MEDIA_TYPE_BYTES);
        if let Some((media, bytes)) = rest {
            (self.limits.media, self.limits.media_bytes) = (media, bytes);
            return self.parts.push(part);
        }
        let what = part.described().into_owned();
        if let ModelPart::Image { data, mime_type } | ModelPart::Audio { data, mime_type } = part {
            self.push_file(what, mime_type, data);
        }
    }

    /// Adds a placeholder, and a file if there is room for one more.
    fn push_file(&mut self, what: String, mime_type: String, data: String) {
        // The last one is for the whole text.
        let Some(rest) = self.limits.files.checked_sub(1).filter(|rest| *rest > 0) else {
            return self.push_text(&format!("{what} is not saved: there are too many files"));
        };
        self.limits.files = rest;
        self.push_text(&what);
        // All base64 is decoded alike.
        let contents = ImageContent::new(data, "").bytes().map_err(|_| "the data is not valid base64");
        self.files.push(PendingFile { what, mime_type, contents });
    }

    /// Cuts the text to the limits.
    fn finish(mut self, names: &mut FileNames, is_error: bool) -> Conversion {
        let mut conversion = Conversion {
            content: ModelContent {
                parts: Vec::new(),
                is_error,
                is_call_error: false,
                for_user: core::mem::take(&mut self.for_user),
            },
            spills: Vec::new(),
            notes: Vec::new(),
        };
        let note = match conversion.content.for_user.len() {
            0 if self.parts.is_empty() => Some("There is no content.".into()),
            0 => None,
            1 => Some("A part of the content is for the user and left out here.".into()),
            count => Some(format!("{count} parts of the content are for the user and left out here.")),
        };
        let text_bytes = self.parts.iter().map(|part| match part {
            ModelPart::Text { text, .. } => text.len(),
            _ => 0,
        });
        let text_bytes = text_bytes.fold(0, usize::saturating_add);
        match self.limits.text_bytes.checked_sub(text_bytes) {
            Some(rest) => {
                self.limits.text_bytes = rest;
                conversion.content.parts = self.parts;
            }
            None => self.cut(&mut conversion, names),
        }
        conversion.content.parts.extend(note.map(|note: String| ModelPart::by(Author::Host, note)));
        for file in self.files {
            let unsaved = file.contents.as_ref().err().copied();
            if let Ok(contents) = file.contents {
                conversion.spills.push(Spill { file_name: names.next(&file.mime_type), contents });
            }
            conversion.notes.push(SpillNote { what: file.what, part: None, unsaved });
        }
        conversion
    }

    /// Shows the beginning and the end of the text, and sends the whole to a file. Images and audio follow.
    fn cut(&mut self, conversion: &mut Conversion, names: &mut FileNames) {
        let whole = core::mem::take(&mut self.parts);
        let described = whole.iter().map(ModelPart::described).skip_while(|text| text.is_empty());
        let text = described.collect::<Vec<_>>().join("\n");
        let head = prefix_of(&text, self.limits.head_bytes.min(self.limits.text_bytes));
        self.limits.text_bytes = self.limits.text_bytes.saturating_sub(head.len());
        let tail = suffix_of(&text, self.limits.tail_bytes.min(self.limits.text_bytes));
        self.limits.text_bytes = self.limits.text_bytes.saturating_sub(tail.len());
        let left_out = text.len().saturating_sub(head.len()).saturating_sub(tail.len());
        let note = format!("{left_out} of {} bytes are left out here.", text.len());

        let parts = &mut conversion.content.parts;
        if !head.is_empty() {
            parts.push(ModelPart::by(Author::Server, head));
        }
        let part = Some(parts.len());
        parts.push(ModelPart::by(Author::Host, note));
        if !tail.is_empty() {
            parts.push(ModelPart::by(Author::Server, tail));
        }
        parts.extend(whole.into_iter().filter(|part| !matches!(part, ModelPart::Text { .. })));

        let room = self.limits.files.checked_sub(1);
        if let Some(rest) = room {
            self.limits.files = rest;
            let file_name = names.next("text/plain");
            conversion.spills.push(Spill { file_name, contents: text.into_bytes() });
        }
        let unsaved = room.is_none().then_some("the result has too many files");
        conversion.notes.push(SpillNote { what: "All".into(), part, unsaved });
    }
}

fn describe_link(link: &ResourceLink) -> String {
    let mut text = format!("[resource {}] {}", link.uri, link.display_name());
    // A string takes any text.
    if let Some(mime_type) = &link.mime_type {
        let _ = write!(text, ", {mime_type}");
    }
    if let Some(size) = link.size {
        let _ = write!(text, ", {size} bytes");
    }
    if let Some(description) = &link.description {
        let _ = write!(text, ": {description}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_have_no_path_and_no_active_extension() {
        let mut names = FileNames::new("../a b\\\u{e9}");
        assert_eq!(names.next("text/html; charset=utf-8"), "___a_b__-1.txt");
        assert_eq!(names.next("IMAGE/PNG"), "___a_b__-2.png");
        assert_eq!(names.next("application/x-sh"), "___a_b__-3.bin");
        assert_eq!(names.next("image/../../x"), "___a_b__-4.bin");
    }
}
