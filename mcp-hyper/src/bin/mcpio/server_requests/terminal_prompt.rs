//! Questions to the user on the terminal.

use std::io::{self, BufRead};

use crate::terminal::{DEFAULT_WIDTH, Screen};
use crate::text::Text;

/// The input has ended, or the user cancelled.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoAnswerError;

/// Asks the user questions, line by line.
pub(crate) struct TerminalPrompt<R> {
    answers: R,
    questions: Screen,
}

impl TerminalPrompt<io::BufReader<io::Stdin>> {
    pub(crate) fn from_terminal() -> Self {
        // Reads one byte at a time, so that unread input is left for the next question.
        Self { answers: io::BufReader::with_capacity(1, io::stdin()), questions: Screen::messages() }
    }
}

impl<R: BufRead> TerminalPrompt<R> {
    #[cfg(test)]
    pub(crate) fn new(answers: R, questions: Screen) -> Self {
        Self { answers, questions }
    }

    /// Prints a line, or the lines of a block. Write errors show when the user is asked.
    pub(crate) fn print(&mut self, text: impl Into<Text>) {
        let _ = self.questions.line(text);
    }

    /// The width of the terminal, or the usual one.
    pub(crate) fn columns(&self) -> usize {
        self.questions.columns().unwrap_or(DEFAULT_WIDTH)
    }

    /// Prints a block from another party, indented under a label.
    pub(crate) fn print_block(&mut self, label: impl Into<Text>, block: &str) {
        let _ = self.questions.labelled(label, Text::block(block));
    }

    /// Asks a question and reads a line, trimmed.
    pub(crate) fn ask(&mut self, question: impl Into<Text>) -> Result<String, NoAnswerError> {
        let _ = self.questions.prompt(question);
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(0) | Err(_) => Err(NoAnswerError),
            Ok(_) => Ok(line.trim().to_owned()),
        }
    }
}
