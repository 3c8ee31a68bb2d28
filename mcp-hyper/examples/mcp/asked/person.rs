//! Whoever sits at the terminal.

use std::io::{self, BufRead, Write};

/// Nobody answers, or somebody does not want to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gone;

/// Somebody who is asked line by line.
pub(super) struct Person<R, W> {
    answers: R,
    questions: W,
}

impl Person<io::BufReader<io::Stdin>, anstream::Stderr> {
    pub(super) fn at_the_terminal() -> Self {
        // One byte at a time: what is not read here is for the next question.
        Self { answers: io::BufReader::with_capacity(1, io::stdin()), questions: anstream::stderr() }
    }
}

impl<R: BufRead, W: Write> Person<R, W> {
    #[cfg(test)]
    pub(super) fn new(answers: R, questions: W) -> Self {
        Self { answers, questions }
    }

    /// Says something. Whether it can be read shows when they are asked.
    pub(super) fn tell(&mut self, text: &str) {
        let _ = self.questions.write_all(text.as_bytes()).and_then(|()| self.questions.flush());
    }

    /// What they type, without the space around it.
    pub(super) fn ask(&mut self, question: &str) -> Result<String, Gone> {
        self.tell(question);
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(0) | Err(_) => Err(Gone),
            Ok(_) => Ok(line.trim().to_owned()),
        }
    }
}
