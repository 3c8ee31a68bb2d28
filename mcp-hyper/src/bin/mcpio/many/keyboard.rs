//! What the user types while servers are watched: keys on a terminal, lines elsewhere.

use std::collections::VecDeque;
use std::future::pending;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _};

use smol::Task;

use crate::terminal::{TerminalMode, has_foreground};

/// An action of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Reload,
    Connect,
    LogIn,
    Approve,
    Enable,
    Disable,
    Show,
    Table,
    Help,
    Quit,
    /// The server above the selected one.
    Up,
    /// The server below the selected one.
    Down,
    /// A key or word that has no meaning.
    Unknown,
}

/// The words, of which the first letter is enough.
const WORDS: [(&str, Action); 10] = [
    ("show", Action::Show),
    ("connect", Action::Connect),
    ("login", Action::LogIn),
    ("approve", Action::Approve),
    ("enable", Action::Enable),
    ("disable", Action::Disable),
    ("reload", Action::Reload),
    ("table", Action::Table),
    ("help", Action::Help),
    ("quit", Action::Quit),
];

/// The words with their keys.
pub(super) fn words() -> String {
    let shown = |(word, _): (&str, Action)| {
        let (letter, rest) = word.split_at(1);
        format!("[{letter}]{rest}")
    };
    WORDS.map(shown).join(" ")
}

/// An action that the user has typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) action: Action,
    /// The server that a line names.
    pub(super) server: Option<String>,
}

impl Typed {
    const fn key(action: Action) -> Self {
        Self { action, server: None }
    }

    /// Reads a line: a word or its letter, and for most words a server.
    pub(super) fn line(line: &str) -> Self {
        let (first, server) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        let is_meant = |(word, _): &&(&str, Action)| *word == first || word.get(..1) == Some(first);
        let action = WORDS.iter().find(is_meant).map_or(Action::Unknown, |(_, action)| *action);
        Self { action, server: Some(server.trim().to_owned()).filter(|server| !server.is_empty()) }
    }
}

/// Reads keys from what a terminal sends at once.
fn read_keys(bytes: &[u8]) -> VecDeque<Typed> {
    let mut keys = VecDeque::new();
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        rest = after;
        keys.push_back(Typed::key(match (first, after) {
            // The arrows, in both modes of terminals.
            (0x1b, [b'[' | b'O', arrow, after @ ..]) => {
                rest = after;
                match arrow {
                    b'A' => Action::Up,
                    b'B' => Action::Down,
                    _ => Action::Unknown,
                }
            }
            (0x1b, _) => Action::Table,
            (b'k', _) => Action::Up,
            (b'j', _) => Action::Down,
            (b'\r' | b'\n', _) => Action::Show,
            (b'?', _) => Action::Help,
            (letter, _) => Typed::line(char::from(*letter).encode_utf8(&mut [0; 4])).action,
        }));
    }
    keys
}

/// The longest line to read.
const LONGEST: u64 = 64 * 1024;

/// Where the user types.
#[derive(Debug)]
enum Input {
    /// A terminal that passes on each key.
    Keys(TerminalMode),
    /// A terminal that passes on lines.
    TerminalLines,
    /// Another stream.
    Lines,
    /// It has ended, or is the terminal of another program.
    Nothing,
}

/// Reads what the user types. At most one read is in progress, so that questions can read between two of them.
#[derive(Debug)]
pub(super) struct Keyboard {
    input: Input,
    /// Whether the terminal passes on each key, except during a dialog.
    has_keys: bool,
    reading: Option<Task<io::Result<Vec<u8>>>>,
    typed: VecDeque<Typed>,
}

impl Keyboard {
    /// Keys if `is_live` and standard input is a terminal, else lines.
    pub(super) fn new(is_live: bool) -> Self {
        let is_terminal = io::stdin().is_terminal();
        let keys = if is_live && is_terminal { TerminalMode::keys().ok() } else { None };
        let has_keys = keys.is_some();
        let input = match keys {
            Some(mode) => Input::Keys(mode),
            None if !is_terminal => Input::Lines,
            None if has_foreground() => Input::TerminalLines,
            None => Input::Nothing,
        };
        Self { input, has_keys, reading: None, typed: VecDeque::new() }
    }

    /// Whether the user can type.
    pub(super) fn is_usable(&self) -> bool {
        !matches!(self.input, Input::Nothing)
    }

    /// Gives keys their usual meaning for a dialog, until [`resume`](Self::resume). What was typed before its question is
    /// no answer.
    pub(super) fn pause(&mut self) {
        if let Input::Keys(_) = self.input {
            self.input = Input::TerminalLines;
            self.typed.clear();
        }
    }

    /// Reads keys again after a dialog.
    pub(super) fn resume(&mut self) {
        if let Input::TerminalLines = self.input
            && self.has_keys
            && let Ok(mode) = TerminalMode::keys()
        {
            self.input = Input::Keys(mode);
        }
    }

    /// Reads keys again after the program was suspended.
    pub(super) fn renew(&self) {
        if let Input::Keys(mode) = &self.input {
            // If this fails, the keys need an Enter.
            let _ = mode.renew();
        }
    }

    /// What the user types next. Never ready once the input has ended.
    pub(super) async fn next(&mut self) -> Typed {
        loop {
            if let Some(typed) = self.typed.pop_front() {
                return typed;
            }
            let bytes = self.read().await;
            match &self.input {
                Input::Keys(_) => self.typed = read_keys(&bytes),
                _ => {
                    let line = String::from_utf8_lossy(&bytes);
                    if !line.trim().is_empty() {
                        self.typed.push_back(Typed::line(&line));
                    }
                }
            }
        }
    }

    /// The next line, within a dialog. Never ready once the input has ended.
    pub(super) async fn line(&mut self) -> String {
        String::from_utf8_lossy(&self.read().await).trim().to_owned()
    }

    /// Takes this for what the user types next.
    pub(super) fn push(&mut self, typed: Typed) {
        self.typed.push_back(typed);
    }

    async fn read(&mut self) -> Vec<u8> {
        let is_terminal = match &self.input {
            Input::Nothing => return pending().await,
            Input::Keys(_) | Input::TerminalLines => true,
            Input::Lines => false,
        };
        let read = move || if is_terminal { read_terminal() } else { read_line() };
        let reading = self.reading.get_or_insert_with(|| smol::unblock(read));
        let bytes = reading.await;
        self.reading = None;
        match bytes {
            Ok(bytes) if !bytes.is_empty() => bytes,
            _ => {
                self.input = Input::Nothing;
                pending().await
            }
        }
    }
}

/// All that a terminal has: keys, or one line, whichever its mode was meanwhile.
fn read_terminal() -> io::Result<Vec<u8>> {
    let mut input = io::stdin().lock();
    let bytes = input.fill_buf()?.to_vec();
    input.consume(bytes.len());
    Ok(bytes)
}

/// One line, so that the next ones are left for questions.
fn read_line() -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    io::stdin().lock().take(LONGEST).read_until(b'\n', &mut line)?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_letters_and_arrows() {
        let read = |bytes: &[u8]| read_keys(bytes).into_iter().map(|typed| typed.action).collect::<Vec<_>>();
        assert_eq!(read(b"\x1b[A\x1bOBkj"), [Action::Up, Action::Down, Action::Up, Action::Down]);
        assert_eq!(read(b"\ra\x1b"), [Action::Show, Action::Approve, Action::Table]);
        assert_eq!(read(b"x\xff\x1b["), [Action::Unknown, Action::Unknown, Action::Table, Action::Unknown]);
        let letters: String = WORDS.iter().map(|(word, _)| &word[..1]).collect();
        assert_eq!(read(letters.as_bytes()), WORDS.map(|(_, action)| action), "one letter for each");
    }

    #[test]
    fn line_is_a_word_and_a_server() {
        let typed = |action, server: Option<&str>| Typed { action, server: server.map(str::to_owned) };
        assert_eq!(Typed::line(" show  my files \n"), typed(Action::Show, Some("my files")));
        assert_eq!(Typed::line("r"), typed(Action::Reload, None));
        assert_eq!(Typed::line("reloa"), typed(Action::Unknown, None));
        assert_eq!(Typed::line(""), typed(Action::Unknown, None));
    }
}
