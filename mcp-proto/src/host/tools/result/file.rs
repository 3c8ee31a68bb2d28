//! Parts of a result that go to files.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

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
pub(super) struct SpillNote {
    /// Description of the contents.
    pub(super) what: String,
    /// Index of the host's part to which the note is added; `None` for a part at the end.
    pub(super) part: Option<usize>,
    /// Why it is not saved, if it is not even a spill.
    pub(super) unsaved: Option<&'static str>,
}

/// Numbered names of files.
pub(super) struct FileNames {
    stem: String,
    count: usize,
}

impl FileNames {
    pub(super) fn new(name: &str) -> Self {
        let clean = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
        Self { stem: name.chars().take(64).map(clean).collect(), count: 0 }
    }

    pub(super) fn next(&mut self, mime_type: &str) -> String {
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
