//! Text for the screen: spans with styles, without any character that could control a terminal.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};
use mcp_proto::consent::{SafeText, shell_word};
use unicode_width::UnicodeWidthChar as _;

pub(crate) const HEADING: Style = AnsiColor::Cyan.on_default().bold();

pub(crate) const NAME: Style = Style::new().bold();

pub(crate) const QUIET: Style = Style::new().dimmed();

pub(crate) const GOOD: Style = AnsiColor::Green.on_default();

pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();

/// Narrower columns are not wrapped: they would hold one word per line.
pub(crate) const NARROWEST: usize = 24;

/// Text for the screen. Every constructor escapes unsafe characters; styles are data, never text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text(Vec<Span>);

#[derive(Clone, Debug)]
struct Span {
    style: Style,
    text: String,
}

impl Text {
    /// A text of several lines.
    pub(crate) fn block(text: &str) -> Self {
        Self::safe(Style::new(), SafeText::block(text).to_string())
    }

    /// A JSON text, or a message that should be one.
    pub(crate) fn json(text: &str) -> Self {
        Self::safe(Style::new(), SafeText::json(text).to_string())
    }

    fn safe(style: Style, text: String) -> Self {
        Self(vec![Span { style, text }])
    }

    /// Appends more text.
    #[must_use]
    pub(crate) fn and(mut self, more: impl Into<Self>) -> Self {
        self.0.append(&mut more.into().0);
        self
    }

    /// The spans for the screen: styles and safe texts.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (Style, &str)> {
        self.0.iter().map(|span| (span.style, span.text.as_str()))
    }

    /// The text without its styles.
    pub(crate) fn plain(&self) -> String {
        self.spans().map(|(_, text)| text).collect()
    }

    /// The beginning of a line that fills at most this many columns.
    #[must_use]
    pub(crate) fn cut(mut self, columns: usize) -> Self {
        let mut left = columns;
        for span in &mut self.0 {
            let end = span.text.char_indices().find(|(_, char)| {
                let fits = left.checked_sub(char.width().unwrap_or(0));
                left = fits.unwrap_or(0);
                fits.is_none()
            });
            if let Some((end, _)) = end {
                span.text.truncate(end);
            }
        }
        self
    }

    /// The lines of the text.
    pub(crate) fn lines(&self) -> Vec<Self> {
        let mut lines = vec![Self::default()];
        for Span { style, text } in &self.0 {
            for (index, part) in text.split('\n').enumerate() {
                if index > 0 {
                    lines.push(Self::default());
                }
                if let (Some(line), false) = (lines.last_mut(), part.is_empty()) {
                    line.0.push(Span { style: *style, text: part.to_owned() });
                }
            }
        }
        lines
    }
}

impl<T: AsRef<str>> From<T> for Text {
    /// A text within a line: line breaks are escaped.
    fn from(text: T) -> Self {
        Self::safe(Style::new(), SafeText::line(text.as_ref()).to_string())
    }
}

/// A text within a line, in a style.
pub(crate) fn styled(style: Style, text: impl Display) -> Text {
    Text::safe(style, SafeText::line(&text.to_string()).to_string())
}

/// A text of several lines, in a style.
pub(crate) fn styled_block(style: Style, text: impl Display) -> Text {
    Text::safe(style, SafeText::block(&text.to_string()).to_string())
}

/// A command to log in, ready to paste; `None` if the URL or the scopes cannot be shown on one line.
pub(crate) fn login_hint(url: &str, scopes: Option<&str>) -> Option<String> {
    let url = quoted_word(url)?;
    Some(match scopes {
        Some(scopes) => format!("To grant these scopes: mcpio login --scope={} {url}", quoted_word(scopes)?),
        None => format!("To log in: mcpio login {url}"),
    })
}

/// Quotes a word for the user's shell. In those of Windows a backslash needs no quotes, and double quotes are for spaces.
pub(crate) fn quoted_word(text: &str) -> Option<String> {
    if cfg!(not(windows)) {
        return shell_word(text);
    }
    let plain = text.replace(['\\', ' '], "/");
    let quote = if text.contains(' ') { "\"" } else { "" };
    (shell_word(&plain)? == plain && !text.ends_with('\\')).then(|| format!("{quote}{text}{quote}"))
}

/// How many columns of a terminal a text fills.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(|char| char.width().unwrap_or(0)).sum()
}

/// Splits `text` into lines of at most `columns` columns where words are short enough.
pub(crate) fn wrap(text: &str, columns: Option<usize>) -> Vec<String> {
    let columns = columns.unwrap_or(usize::MAX).max(NARROWEST);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut filled = 0_usize;
    for word in text.split_whitespace() {
        let length = width(word);
        if !line.is_empty() && filled.saturating_add(1).saturating_add(length) > columns {
            lines.push(std::mem::take(&mut line));
            filled = 0;
        }
        if !line.is_empty() {
            line.push(' ');
            filled += 1;
        }
        line.push_str(word);
        filled += length;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_between_words_and_counted_in_columns() {
        let wrapped = wrap("one two three four five six seven eight", Some(24));
        assert_eq!(wrapped, ["one two three four five", "six seven eight"]);
        assert_eq!(wrap("緑茶緑茶緑茶 緑茶緑茶緑茶緑茶", Some(24)).len(), 2);
        assert_eq!(wrap("a\nb   c", None), ["a b c"]);
        assert_eq!(wrap("", Some(80)), [""]);
    }

    #[cfg(unix)]
    #[test]
    fn login_hint_is_quoted_for_the_shell_or_omitted() {
        let url = "https://example.com/mcp";
        assert_eq!(login_hint(url, None).unwrap(), "To log in: mcpio login https://example.com/mcp");
        let hint = login_hint("https://example.com/a'b;c", Some("x';reboot;'")).unwrap();
        assert_eq!(
            hint,
            r"To grant these scopes: mcpio login --scope='x'\'';reboot;'\''' 'https://example.com/a'\''b;c'"
        );
        assert_eq!(login_hint(url, Some("a\nb")), None);
        assert_eq!(login_hint("https://example.com/\u{202e}", None), None);
    }

    #[test]
    fn every_way_to_make_text_escapes_unsafe_characters() {
        let hostile = "a\x1b[2J\r\u{9b}\u{7f}\u{202e}\u{200b}b";
        for text in [
            Text::from(hostile),
            Text::from(hostile.to_owned()),
            Text::block(hostile),
            Text::json(hostile),
            styled(NAME, hostile),
            styled_block(QUIET, hostile),
        ] {
            let plain = text.plain();
            assert!(!plain.chars().any(SafeText::is_unsafe) && plain.starts_with("a\\u"), "{plain:?}");
        }
        assert_eq!(Text::from("name\nmcpio: forged").lines().len(), 1);
    }

    #[test]
    fn text_is_split_into_lines_that_keep_their_styles() {
        let text = Text::from("a").and(styled_block(BAD, "b\nc")).and("d");
        let lines: Vec<String> = text.lines().iter().map(Text::plain).collect();
        assert_eq!(lines, ["ab", "cd"]);
        assert_eq!(text.lines()[1].spans().next(), Some((BAD, "c")));
    }
}
