//! The wire, one line per message, on standard error.

use std::io::Write as _;

use mcp_hyper::WireEvent;
use mcp_proto::Bytes;
use mcp_proto::bind::http::End;
use mcp_proto::codec::{Line, Lines};
use mcp_smol::{StderrLine, Wire};

use crate::terminal::{BAD, GOOD, NAME, QUIET, harmless, styled};

/// The longest message shown whole, in bytes.
const LONGEST: usize = 64 * 1024;

/// Cuts what goes over the wire into messages and prints them.
pub(crate) struct Trace {
    sent: Lines,
    received: Lines,
}

impl Trace {
    pub(crate) fn new() -> Self {
        Self { sent: Lines::new(LONGEST), received: Lines::new(LONGEST) }
    }

    pub(crate) fn show(&mut self, direction: Wire, bytes: &[u8]) {
        let (lines, arrow) = match direction {
            Wire::Sent => (&mut self.sent, styled(GOOD, "→")),
            Wire::Received => (&mut self.received, styled(NAME, "←")),
        };
        lines.handle_input(Bytes::copy_from_slice(bytes));
        while let Some(line) = lines.poll_line() {
            print(&arrow, &readable(&line));
        }
    }
}

/// What goes over HTTP: a line for each request with its message, one for each answer's status, and those of its body.
pub(crate) fn http(event: WireEvent<'_>) {
    let sent = styled(GOOD, "→");
    let received = styled(NAME, "←");
    match event {
        WireEvent::Request { method, url, body, .. } => {
            print(&sent, &format!("{method} {url} {}", shown(body)));
        }
        WireEvent::Head { status, .. } => print(&received, &status.to_string()),
        WireEvent::Body { bytes, .. } => {
            for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
                print(&received, &shown(line));
            }
        }
        WireEvent::End { end, .. } if *end != End::Complete => {
            print(&styled(BAD, "?"), &harmless(&format!("the answer broke off: {end:?}")));
        }
        _ => {}
    }
}

fn shown(bytes: &[u8]) -> String {
    let beginning = bytes.get(..LONGEST).unwrap_or(bytes);
    let text = harmless(&String::from_utf8_lossy(beginning));
    if beginning.len() < bytes.len() { format!("{text} … ({} bytes)", bytes.len()) } else { text }
}

/// A line of the server's standard error.
pub(crate) fn stderr(line: &StderrLine) {
    print(&styled(QUIET, "!"), &styled(QUIET, harmless(&line.text)));
}

/// Something odd about the connection.
pub(crate) fn diagnostic(text: &str) {
    print(&styled(BAD, "?"), &harmless(text));
}

fn print(mark: &str, text: &str) {
    // A trace that nobody can see is no reason to fail.
    let _ = writeln!(anstream::stderr(), "{mark} {text}");
}

fn readable(line: &Line) -> String {
    match line {
        Line::Whole(text) => harmless(&String::from_utf8_lossy(text)),
        Line::TooLong { head, bytes, .. } => {
            format!("{} … ({bytes} bytes)", harmless(&String::from_utf8_lossy(head)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_shown_by_their_beginning() {
        let mut lines = Lines::new(LONGEST);
        lines.handle_input(Bytes::from("x".repeat(LONGEST + 1) + "\n"));
        let shown = readable(&lines.poll_line().unwrap());
        assert!(shown.len() < 5000 && shown.ends_with("(65537 bytes)"), "{shown}");
    }
}
