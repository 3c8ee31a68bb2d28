//! Collects the parts of a result within the limits.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use serde_json::Value;

use super::file::{FileNames, Spill, SpillNote};
use super::{Author, Conversion, ModelContent, ModelPart, ResultLimits, describe, prefix_of, suffix_of};
use crate::host::tools::digest::Digest;
use crate::schema::{
    AudioContent, BlobResourceContents, ContentBlock, ImageContent, Json, ResourceContents, ResourceLink,
    Role,
};

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
pub(super) fn repeats(content: &[ContentBlock], structured: &Json) -> bool {
    let digest = Digest::of_json(structured.as_str());
    let first = structured.as_str().as_bytes().first();
    let value: Value = structured.decode().unwrap_or_default();
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
pub(super) struct Collector<'a> {
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
    pub(super) fn new(limits: &'a mut ResultLimits) -> Self {
        Self { limits, parts: Vec::new(), files: Vec::new(), for_user: Vec::new() }
    }

    /// Adds text of the server, on a line of its own.
    pub(super) fn push_text(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(ModelPart::Text { text: before, .. }) => {
                before.push('\n');
                before.push_str(text);
            }
            _ => self.parts.push(ModelPart::Text { text: text.to_owned(), author: Author::Server }),
        }
    }

    pub(super) fn push_block(&mut self, block: ContentBlock) {
        match block {
            block if is_for_user_only(&block) => self.for_user.push(block),
            ContentBlock::Text(content) => self.push_text(&content.text),
            ContentBlock::Image(image) => self.push_image(image),
            ContentBlock::Audio(audio) => self.push_audio(audio),
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
        let mime_type = blob.mime_type.clone().unwrap_or_default();
        let kind = mime_type.split('/').next().unwrap_or_default();
        self.push_text(&format!("[resource {}]", blob.uri));
        if kind.eq_ignore_ascii_case("image") {
            self.push_image(ImageContent::new(blob.blob, mime_type));
        } else if kind.eq_ignore_ascii_case("audio") {
            self.push_audio(AudioContent::new(blob.blob, mime_type));
        } else {
            let what = describe("blob", &mime_type, &blob.blob);
            self.push_file(what, mime_type, || blob.bytes().ok());
        }
    }

    fn push_image(&mut self, image: ImageContent) {
        if self.shows(&image.data) {
            self.parts.push(ModelPart::Image { data: image.data, mime_type: image.mime_type });
        } else {
            let what = describe("image", &image.mime_type, &image.data);
            self.push_file(what, image.mime_type.clone(), || image.bytes().ok());
        }
    }

    fn push_audio(&mut self, audio: AudioContent) {
        if self.shows(&audio.data) {
            self.parts.push(ModelPart::Audio { data: audio.data, mime_type: audio.mime_type });
        } else {
            let what = describe("audio", &audio.mime_type, &audio.data);
            self.push_file(what, audio.mime_type.clone(), || audio.bytes().ok());
        }
    }

    /// Whether there is room for one more image or sound, which it then takes.
    fn shows(&mut self, data: &str) -> bool {
        let rest = self.limits.media.checked_sub(1).zip(self.limits.media_bytes.checked_sub(data.len()));
        if let Some((media, bytes)) = rest {
            self.limits.media = media;
            self.limits.media_bytes = bytes;
        }
        rest.is_some()
    }

    /// Adds a placeholder, and a file if there is room for one more.
    fn push_file(&mut self, what: String, mime_type: String, contents: impl FnOnce() -> Option<Vec<u8>>) {
        // The last one is for the whole text.
        let Some(rest) = self.limits.files.checked_sub(1).filter(|rest| *rest > 0) else {
            return self.push_text(&format!("{what} is not saved: there are too many files"));
        };
        self.limits.files = rest;
        self.push_text(&what);
        let contents = contents().ok_or("the data is not valid base64");
        self.files.push(PendingFile { what, mime_type, contents });
    }

    /// Cuts the text to the limits.
    pub(super) fn finish(mut self, names: &mut FileNames, is_error: bool) -> Conversion {
        let mut conversion = Conversion {
            content: ModelContent {
                parts: Vec::new(),
                is_error,
                for_user: core::mem::take(&mut self.for_user),
            },
            spills: Vec::new(),
            notes: Vec::new(),
        };
        let by_host = |text: String| ModelPart::Text { text, author: Author::Host };
        let note = match conversion.content.for_user.len() {
            0 => None,
            1 => Some(by_host("A part of the content is for the user and left out here.".into())),
            count => {
                Some(by_host(format!("{count} parts of the content are for the user and left out here.")))
            }
        };
        if self.parts.is_empty() {
            let nothing = || by_host("There is no content.".into());
            conversion.content.parts.push(note.unwrap_or_else(nothing));
            return conversion;
        }
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
        conversion.content.parts.extend(note);
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
        let parts = core::mem::take(&mut self.parts);
        let whole = ModelContent { parts, ..ModelContent::default() };
        let text = whole.joined();
        let head = prefix_of(&text, self.limits.head_bytes.min(self.limits.text_bytes));
        self.limits.text_bytes = self.limits.text_bytes.saturating_sub(head.len());
        let tail = suffix_of(&text, self.limits.tail_bytes.min(self.limits.text_bytes));
        self.limits.text_bytes = self.limits.text_bytes.saturating_sub(tail.len());
        let left_out = text.len().saturating_sub(head.len()).saturating_sub(tail.len());
        let note = format!("{left_out} of {} bytes are left out here.", text.len());

        let by = |text: &str, author| ModelPart::Text { text: text.into(), author };
        let parts = &mut conversion.content.parts;
        if !head.is_empty() {
            parts.push(by(head, Author::Server));
        }
        let part = Some(parts.len());
        parts.push(by(&note, Author::Host));
        if !tail.is_empty() {
            parts.push(by(tail, Author::Server));
        }
        parts.extend(whole.parts.into_iter().filter(|part| !matches!(part, ModelPart::Text { .. })));

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

impl ModelContent {
    /// The whole text of the server, with descriptions of images and audio.
    fn joined(&self) -> String {
        let mut joined = String::new();
        for part in &self.parts {
            if !joined.is_empty() {
                joined.push('\n');
            }
            match part {
                ModelPart::Text { text, .. } => joined.push_str(text),
                ModelPart::Image { data, mime_type } => joined.push_str(&describe("image", mime_type, data)),
                ModelPart::Audio { data, mime_type } => joined.push_str(&describe("audio", mime_type, data)),
            }
        }
        joined
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
