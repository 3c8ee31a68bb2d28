//! Saves the parts of results in files: `--output`.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mcp_proto::schema::{ContentBlock, ResourceContents};

use crate::error::{CommandError, Result};
use crate::terminal::{QUIET, Screen, styled};

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

/// The most parts of a result that are saved: the server chooses how many there are.
const MOST: usize = 100;

/// Saves the first part in this file, and further ones beside it. The user chose the name of the first, so that a file which
/// is there is replaced, but the server chooses how many there are: no other file is.
///
/// # Errors
/// If there is no part, there are too many, or one is invalid or cannot be written.
pub(crate) fn save<'a>(output: &Path, parts: impl Iterator<Item = Content<'a>>) -> Result {
    let mut messages = Screen::messages();
    let mut count = 0;
    for (bytes, mime_type) in parts {
        count += 1;
        if count > MOST {
            let why = format_args!("the result has more than {MOST} parts: the others are not saved");
            return Err(CommandError::server(why));
        }
        let bytes = bytes.ok_or_else(invalid_base64)?;
        let path = numbered(output, count);
        let failed = CommandError::server_of(format!("--output {}", path.display()));
        let mut options = OpenOptions::new();
        match count {
            1 => options.write(true).create(true).truncate(true),
            // Neither a file nor a link that is there is followed.
            _ => options.write(true).create_new(true),
        };
        options.open(&path).and_then(|mut file| file.write_all(&bytes)).map_err(failed)?;
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
    use std::fs;

    use super::*;

    #[test]
    fn server_replaces_no_file_but_the_one_that_the_user_named() {
        let folder = std::env::temp_dir().join(format!("mcp-output-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        let save = |parts: usize| {
            let parts = (0..parts).map(|_| (Some(Cow::from(b"new".as_slice())), None));
            super::save(&folder.join("a.txt"), parts)
        };
        fs::write(folder.join("a.txt"), "old").unwrap();
        fs::write(folder.join("a-2.txt"), "old").unwrap();
        assert!(save(2).is_err());
        assert_eq!((read("a.txt"), read("a-2.txt")), ("new".to_owned(), "old".to_owned()));
        fs::remove_file(folder.join("a-2.txt")).unwrap();
        save(2).unwrap();
        assert_eq!(read("a-2.txt"), "new");
        fs::remove_file(folder.join("a-2.txt")).unwrap();
        assert!(save(1_000).is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), MOST);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn further_parts_are_numbered_before_the_extension() {
        let names = |output: &str| [1, 2].map(|number| numbered(Path::new(output), number));
        assert_eq!(names("a/logo.png"), ["a/logo.png", "a/logo-2.png"].map(PathBuf::from));
        assert_eq!(names("logo"), ["logo", "logo-2"].map(PathBuf::from));
    }
}
