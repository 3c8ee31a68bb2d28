//! Where results go: standard output, with colours and a width if it is a terminal.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use terminal_size::{Width, terminal_size};
use unicode_width::UnicodeWidthChar as _;

pub(crate) const HEADING: Style = AnsiColor::Cyan.on_default().bold();
pub(crate) const NAME: Style = Style::new().bold();
pub(crate) const QUIET: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();

/// The width of a terminal that does not tell it.
const USUAL: usize = 80;
/// Narrower than this, lines are not wrapped: the result would be a ladder of words.
const NARROWEST: usize = 24;

/// Standard output. Styles are stripped where it is no terminal, or where NO_COLOR asks for it.
pub(crate) struct Screen {
    out: anstream::Stdout,
    columns: Option<usize>,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let told = || terminal_size().map(|(Width(columns), _)| columns.into());
        let columns = io::stdout().is_terminal().then(|| told().unwrap_or(USUAL));
        Self { out: anstream::stdout(), columns }
    }

    /// The width to fill, if there is one.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.columns
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.columns.is_some()
    }

    pub(crate) fn line(&mut self, line: impl Display) -> io::Result<()> {
        writeln!(self.out, "{line}")
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    }
}

/// `text` in a style.
pub(crate) fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// How many columns a text without styles fills.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(|char| char.width().unwrap_or(0)).sum()
}

/// `text` without what could move the cursor or change colours: what servers send is shown, not obeyed.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().filter(|char| !char.is_control() || matches!(char, '\n' | '\t')).collect()
}

/// The words of `text`, in lines of at most `columns` columns where a word fits.
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

    #[test]
    fn what_a_server_sends_does_not_steer_the_terminal() {
        assert_eq!(harmless("a\x1b[31mb\r\x07\u{9b}c\td\n"), "a[31mbc\td\n");
    }
}
