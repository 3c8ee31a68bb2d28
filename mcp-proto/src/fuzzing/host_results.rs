//! Fuzzing of the conversion of results for models.

use alloc::vec::Vec;

use crate::host::tools::{Author, Conversion, ModelContent, ModelPart, ResultLimits};
use crate::schema::{CallToolResult, GetPromptResult, ReadResourceResult};

/// Converts the input as a result of a tool, a resource and a prompt, within limits from its first six bytes.
pub fn host_results(data: &[u8]) {
    let Some((&[text, head, tail, media, files, messages], json)) = data.split_first_chunk() else { return };
    let limits = ResultLimits {
        text_bytes: text.into(),
        head_bytes: head.into(),
        tail_bytes: tail.into(),
        media: usize::from(media) % 4,
        media_bytes: media.into(),
        files: usize::from(files) % 4,
        messages: usize::from(messages) % 4,
    };
    if let Ok(result) = serde_json::from_slice::<CallToolResult>(json) {
        let failed = result.failed();
        let content = check([Conversion::of_tool_result("tool", result, &limits)], &limits);
        assert_eq!(content[0].is_error, failed);
    }
    if let Ok(result) = serde_json::from_slice::<ReadResourceResult>(json) {
        check([Conversion::of_resource("resource", result, &limits)], &limits);
    }
    if let Ok(result) = serde_json::from_slice::<GetPromptResult>(json) {
        let messages = Conversion::of_prompt("prompt", result, &limits);
        assert!(messages.len() <= limits.messages);
        check(messages.into_iter().map(|message| message.content), &limits);
    }
}

/// Checks that the conversions of one result are within the limits together.
fn check(conversions: impl IntoIterator<Item = Conversion>, limits: &ResultLimits) -> Vec<ModelContent> {
    let (mut text, mut media, mut media_bytes, mut files) = (0, 0, 0, 0);
    let mut contents = Vec::new();
    for mut conversion in conversions {
        let spills = conversion.take_spills();
        files += spills.len();
        for spill in &spills {
            assert!(
                spill.file_name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
            );
        }
        let content = conversion.finish(spills.into_iter().map(|spill| Ok(spill.file_name)));
        assert!(!content.parts.is_empty(), "no result is empty");
        for part in &content.parts {
            match part {
                ModelPart::Text { text: own, author: Author::Server } => text += own.len(),
                ModelPart::Text { .. } => {}
                ModelPart::Image { data, .. } | ModelPart::Audio { data, .. } => {
                    media += 1;
                    media_bytes += data.len();
                }
            }
        }
        assert!(!content.is_error || content.to_text().starts_with("Tool error: "));
        contents.push(content);
    }
    assert!(text <= limits.text_bytes && files <= limits.files);
    assert!(media <= limits.media && media_bytes <= limits.media_bytes);
    contents
}
