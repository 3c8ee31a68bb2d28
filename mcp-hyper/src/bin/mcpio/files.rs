//! Saves the parts of results in files: `--output`.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mcp_proto::schema::{ContentBlock, ResourceContents};

use crate::error::{CommandError, Result};
use crate::terminal::Screen;
use crate::text::{QUIET, styled};

/// The bytes of a part, unless they are invalid, and its media type.
type Content<'a> = (Option<Cow<'a, [u8]>>, Option<&'a str>);

/// A part of a resource.
pub(crate) fn content_of(contents: &ResourceContents) -> Content<'_> {
    let bytes = match contents {
        ResourceContents::Text(text) => Some(text.text.as_bytes().into()),
        ResourceContents::Blob(blob) => decoded(&blob.blob).map(Cow::from),
        ResourceContents::Unknown(json) => Some(json.as_str().as_bytes().into()),
    };
    (bytes, contents.mime_type())
}

/// A part of a tool's result that is no text for the screen.
pub(crate) fn content_in(block: &ContentBlock) -> Option<Content<'_>> {
    match block {
        ContentBlock::Image(image) => Some((decoded(&image.data).map(Cow::from), Some(&image.mime_type))),
        ContentBlock::Audio(audio) => Some((decoded(&audio.data).map(Cow::from), Some(&audio.mime_type))),
        ContentBlock::Resource(embedded) => Some(content_of(&embedded.resource)),
        _ => None,
    }
}

/// Decodes base64; `None` if it is invalid.
fn decoded(base64: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(base64).ok()
}

/// The number of bytes that base64 stands for, in words.
pub(crate) fn size_of(base64: &str) -> String {
    decoded(base64).map_or("invalid base64".into(), |bytes| format!("{} bytes", bytes.len()))
}

/// The server sent bytes that cannot be read.
pub(crate) fn invalid_base64() -> CommandError {
    CommandError::server("the server sent a part that is not valid base64").with_kind("invalid")
}

/// Saves the first part in this file, and further ones beside it. The user chose the name, so that a file which is there
/// is replaced.
///
/// # Errors
/// If there is no part, or one is invalid or cannot be written.
pub(crate) fn save<'a>(output: &Path, parts: impl Iterator<Item = Content<'a>>) -> Result {
    let mut messages = Screen::messages();
    let mut count = 0;
    for (bytes, mime_type) in parts {
        count += 1;
        let bytes = bytes.ok_or_else(invalid_base64)?;
        let path = numbered(output, count);
        let failed = CommandError::server_of(format!("--output {}", path.display()));
        fs::write(&path, &bytes).map_err(failed)?;
        let (path, mime_type) = (path.display(), mime_type.unwrap_or("no media type"));
        messages.line(styled(QUIET, format_args!("saved {path}: {mime_type}, {} bytes", bytes.len())))?;
    }
    match count {
        0 => Err(CommandError::server("the result has nothing to save in a file")),
        _ => Ok(()),
    }
}

/// `logo.png`, `logo-2.png` and so on.
fn numbered(output: &Path, number: usize) -> PathBuf {
    if number < 2 {
        return output.to_owned();
    }
    let mut name = output.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    if let Some(extension) = output.extension() {
        name.push(".");
        name.push(extension);
    }
    output.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_parts_are_numbered_before_the_extension() {
        let names = |output: &str| [1, 2].map(|number| numbered(Path::new(output), number));
        assert_eq!(names("a/logo.png"), ["a/logo.png", "a/logo-2.png"].map(PathBuf::from));
        assert_eq!(names("logo"), ["logo", "logo-2"].map(PathBuf::from));
    }
}
