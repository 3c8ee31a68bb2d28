//! Escaping of a peer's text for terminals, logs, dialogs and shells.

use core::fmt::{self, Write as _};

use crate::prelude::*;

/// Displays a peer's text safely: it cannot control a terminal, reorder the text around it or hide in it.
///
/// A host shows names, descriptions, results and errors of peers through this type, in terminals, logs and dialogs.
/// [`is_unsafe`](Self::is_unsafe) defines the characters that are written as escapes. Colour sequences (`ESC [ … m`)
/// are left out, as they are not content; a line break `\r\n` is shown as `\n`. All other text is unchanged. Escaping a
/// safe text again does not change it.
///
/// ```
/// use mcp_proto::consent::SafeText;
///
/// let name = "invoice\u{202e}fdp.exe\n\u{1b}]0;title\u{7}";
/// assert_eq!(SafeText::line(name).to_string(), r"invoice\u{202e}fdp.exe\n\u{1b}]0;title\u{7}");
/// assert_eq!(SafeText::block("\u{1b}[31mred\u{1b}[0m\r\nplain").to_string(), "red\nplain");
/// assert_eq!(SafeText::json("{\"a\":\"\u{202e}\"}").to_string(), r#"{"a":"\u202e"}"#);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SafeText<'a> {
    text: &'a str,
    form: TextForm,
}

/// The context in which the text is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextForm {
    Line,
    Block,
    Json,
}

impl<'a> SafeText<'a> {
    /// Displays a text within a line, such as a name: line breaks and tabs are escaped too.
    pub const fn line(text: &'a str) -> Self {
        Self { text, form: TextForm::Line }
    }

    /// Displays a text of several lines: `\n` and tabs are kept.
    pub const fn block(text: &'a str) -> Self {
        Self { text, form: TextForm::Block }
    }

    /// Displays a JSON text: unsafe characters become `\u` escapes of JSON, which a JSON parser reads as the same
    /// value. Line breaks and tabs between the values are kept. Text that is not JSON is escaped in the same way.
    pub const fn json(text: &'a str) -> Self {
        Self { text, form: TextForm::Json }
    }

    /// Splits a [line](Self::line) into pieces for the rows of a terminal: the first fills at most `first` columns, each
    /// other at most `next`. A first piece without room is empty.
    ///
    /// A terminal wraps a long line so that padded text within it passes for a line of the program. A program that
    /// shows the pieces in rows of their own, each but the first behind a mark, shows whose text they are. Short words
    /// are not split. Characters beyond ASCII count as two columns.
    ///
    /// ```
    /// use mcp_proto::consent::SafeText;
    ///
    /// assert_eq!(SafeText::wrap_line("one two three", 10, 8), ["one two ", "three"]);
    /// assert_eq!(SafeText::wrap_line("one twenty-two", 10, 8), ["one twenty", "-two"]);
    /// ```
    pub fn wrap_line(text: &str, first: usize, next: usize) -> Vec<String> {
        let next = next.max(2);
        let (mut rows, mut row) = (Vec::new(), String::new());
        let (mut room, mut filled) = (first, 0_usize);
        for character in SafeText::line(text).to_string().chars() {
            filled = filled.saturating_add(columns(character));
            if filled > room {
                // The beginning of a word goes to the next row, unless it is long.
                let word = row.rfind(' ').map_or(row.len(), |space| space.saturating_add(1));
                let word = row.split_off(word);
                let length = word.chars().map(columns).fold(0, usize::saturating_add);
                let is_short = length.saturating_mul(2).saturating_add(columns(character)) <= next;
                if !is_short {
                    row.push_str(&word);
                }
                rows.push(core::mem::take(&mut row));
                room = next;
                filled = columns(character);
                if is_short {
                    row = word;
                    filled = filled.saturating_add(length);
                }
            }
            row.push(character);
        }
        rows.push(row);
        rows
    }

    /// Whether a character is unsafe to show, and so written as an escape. Unsafe are:
    ///
    /// - control characters: C0, DEL and C1,
    /// - line and paragraph separators, and characters that change the direction of text,
    /// - characters without width or shape: those that Unicode calls default ignorable, such as zero-width spaces and
    ///   joiners, variation selectors, fillers, tags and the byte order mark.
    ///
    /// Two exceptions depend on the neighbours: line breaks and tabs of a [block](Self::block) are kept, and so is one
    /// variation selector after a symbol, which selects its form as an emoji.
    pub fn is_unsafe(character: char) -> bool {
        character.is_control()
            || matches!(
                character,
                '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
                    | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                    | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
                    | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
                    | '\u{e0000}'..='\u{e0fff}'
            )
    }
}

impl fmt::Display for SafeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.text;
        let mut symbol_before = false;
        loop {
            if self.form != TextForm::Json {
                rest = without_colours(rest);
            }
            let mut characters = rest.chars();
            let Some(character) = characters.next() else { return Ok(()) };
            rest = characters.as_str();
            let selector = matches!(character, '\u{fe00}'..='\u{fe0f}') && symbol_before;
            let kept = match (self.form, character) {
                (TextForm::Line | TextForm::Block, _) if selector => true,
                (TextForm::Block | TextForm::Json, '\n' | '\t') => true,
                (TextForm::Block | TextForm::Json, '\r') if rest.starts_with('\n') => continue,
                _ => !Self::is_unsafe(character),
            };
            symbol_before = kept && !selector && !character.is_ascii() && !character.is_alphanumeric();
            if kept {
                f.write_char(character)?;
            } else if self.form == TextForm::Json {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(f, "\\u{unit:04x}")?;
                }
            } else {
                write!(f, "{}", character.escape_default())?;
            }
        }
    }
}

/// The most columns of a terminal that a character fills.
const fn columns(character: char) -> usize {
    if character.is_ascii() { 1 } else { 2 }
}

/// Strips the colour sequences at the beginning of a text.
fn without_colours(mut text: &str) -> &str {
    while let Some(parameters) = text.strip_prefix("\u{1b}[") {
        let end = parameters.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ';' | ':'));
        match end.strip_prefix('m') {
            Some(rest) => text = rest,
            None => return text,
        }
    }
    text
}

/// Quotes a text as one word of a POSIX shell, for commands that users may paste.
///
/// Returns `None` if the text has characters that are [unsafe](SafeText::is_unsafe) to show, because the user could not
/// judge the command. Words without special characters are unchanged. The program may still take a word for an option:
/// write `--name=WORD`. There is no such form for `cmd.exe`.
///
/// ```
/// use mcp_proto::consent::shell_word;
///
/// assert_eq!(shell_word("https://example.com/mcp").as_deref(), Some("https://example.com/mcp"));
/// assert_eq!(shell_word("a'; rm -rf ~ #").as_deref(), Some(r"'a'\''; rm -rf ~ #'"));
/// assert_eq!(shell_word("two\nlines"), None);
/// ```
pub fn shell_word(text: &str) -> Option<String> {
    if text.chars().any(SafeText::is_unsafe) {
        return None;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "%+,-./:=@_".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return Some(text.into());
    }
    let mut word = String::from("'");
    word.push_str(&text.replace('\'', r"'\''"));
    word.push('\'');
    Some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safe_text_has_no_control_bidi_or_zero_width_character() {
        for unsafe_character in [
            '\0',
            '\u{7}',
            '\u{8}',
            '\r',
            '\u{1b}',
            '\u{7f}',
            '\u{85}',
            '\u{9b}',
            '\u{ad}',
            '\u{61c}',
            '\u{200b}',
            '\u{200d}',
            '\u{200e}',
            '\u{2028}',
            '\u{202e}',
            '\u{2066}',
            '\u{2069}',
            '\u{feff}',
            '\u{fe0f}',
            '\u{e0041}',
        ] {
            let text = alloc::format!("a{unsafe_character}b");
            for shown in [SafeText::line(&text), SafeText::block(&text), SafeText::json(&text)] {
                let shown = shown.to_string();
                assert!(!shown.chars().any(SafeText::is_unsafe), "{shown:?}");
                assert!(shown.starts_with("a\\") && shown.ends_with('b'), "{shown:?}");
            }
        }
        assert_eq!(SafeText::line("Grüße 緑茶 שלום ₤ ⚠\u{fe0f}").to_string(), "Grüße 緑茶 שלום ₤ ⚠\u{fe0f}");
    }

    #[test]
    fn safe_text_keeps_one_selector_after_a_symbol() {
        assert_eq!(SafeText::line("⚠\u{fe0f}\u{fe0f}").to_string(), "⚠\u{fe0f}\\u{fe0f}");
        assert_eq!(SafeText::json("⚠\u{fe0f}").to_string(), "⚠\\ufe0f");
    }

    #[test]
    fn safe_text_keeps_lines_only_in_blocks() {
        assert_eq!(SafeText::block("a\tb\r\nc\rd\n").to_string(), "a\tb\nc\\rd\n");
        assert_eq!(SafeText::line("a\tb\r\nc").to_string(), "a\\tb\\r\\nc");
    }

    #[test]
    fn safe_text_omits_colours_and_escapes_every_other_sequence() {
        assert_eq!(SafeText::line("\u{1b}[1;31m\u{1b}[mred\u{1b}[0m").to_string(), "red");
        assert_eq!(SafeText::line("\u{1b}[2J\u{1b}[").to_string(), "\\u{1b}[2J\\u{1b}[");
        // The text around an omitted sequence must not join to a new sequence.
        assert_eq!(SafeText::line("\u{1b}\u{1b}[m[31mx").to_string(), "\\u{1b}[31mx");
    }

    #[test]
    fn wrapped_line_omits_nothing_and_fits_its_rows() {
        for text in ["", "a", "one two three four", "緑茶緑茶緑茶", "a\n\u{202e}b", &" ".repeat(50)] {
            for (first, next) in [(0, 4), (3, 4), (7, 2), (80, 80)] {
                let rows = SafeText::wrap_line(text, first, next);
                assert_eq!(rows.concat(), SafeText::line(text).to_string());
                let width = |row: &String| row.chars().map(columns).sum::<usize>();
                assert!(width(&rows[0]) <= first && rows[1..].iter().all(|row| width(row) <= next));
            }
        }
    }

    #[test]
    fn safe_json_has_the_same_value() {
        let value = "\u{1b}\u{7f}\u{9b}\u{202e}\u{200b}\u{e0041}é";
        let json = serde_json::to_string(value).unwrap();
        let shown = SafeText::json(&json).to_string();
        assert!(!shown.chars().any(SafeText::is_unsafe), "{shown:?}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), value);
        assert!(shown.contains("\\udb40\\udc41"), "{shown}");
    }

    #[test]
    fn safe_text_does_not_change_when_escaped_again() {
        let text = "a\u{1b}[2J\r\n\u{202e}⚠\u{fe0f}";
        for form in [SafeText::line, SafeText::block, SafeText::json] {
            let once = form(text).to_string();
            assert_eq!(SafeText::block(&once).to_string(), once);
        }
    }

    #[test]
    fn shell_word_quotes_special_characters() {
        for (text, word) in
            [("a:b/c", "a:b/c"), ("", "''"), ("$(x)", "'$(x)'"), ("it's", r"'it'\''s'"), ("~", "'~'")]
        {
            assert_eq!(shell_word(text).as_deref(), Some(word));
        }
        for hidden in ["a\nb", "\u{1b}[m", "a\u{202e}"] {
            assert_eq!(shell_word(hidden), None);
        }
    }
}
