//! The person at the terminal.

use std::io::{self, BufRead};

use crate::terminal::Screen;
use crate::text::Text;

/// Nobody answers, or the person does not want to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoAnswerError;

/// A person who is asked line by line.
pub(super) struct TerminalPrompt<R> {
    answers: R,
    questions: Screen,
}

impl TerminalPrompt<io::BufReader<io::Stdin>> {
    pub(super) fn from_terminal() -> Self {
        // One byte at a time: what is not read here is for the next question.
        Self { answers: io::BufReader::with_capacity(1, io::stdin()), questions: Screen::messages() }
    }
}

impl<R: BufRead> TerminalPrompt<R> {
    #[cfg(test)]
    pub(super) fn new(answers: R, questions: Screen) -> Self {
        Self { answers, questions }
    }

    /// Shows a line, or the lines of a block. Whether it can be read shows when the person is asked.
    pub(super) fn print(&mut self, text: impl Into<Text>) {
        let _ = self.questions.line(text);
    }

    /// Shows a block that another party wrote, indented under a label.
    pub(super) fn print_block(&mut self, label: impl Into<Text>, block: &str) {
        let _ = self.questions.labelled(label, Text::block(block));
    }

    /// Asks, and reads a line without the space around it.
    pub(super) fn ask(&mut self, question: impl Into<Text>) -> Result<String, NoAnswerError> {
        let _ = self.questions.prompt(question);
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(0) | Err(_) => Err(NoAnswerError),
            Ok(_) => Ok(line.trim().to_owned()),
        }
    }
}
