//! Prints the messages sent and received, one per line, to standard error.

use mcp_hyper::WireEvent;
use mcp_proto::Bytes;
use mcp_proto::codec::{Line, Lines};
use mcp_proto::transport::http::ExchangeEnd;
use mcp_smol::{StderrLine, WireDirection};

use crate::terminal::Screen;
use crate::text::{BAD, GOOD, NAME, QUIET, Text, styled};

/// The longest message shown completely, in bytes.
const LONGEST: usize = 64 * 1024;

/// Prints messages as they are sent and received, the server's standard error, and diagnostics.
pub(crate) struct Trace {
    screen: Screen,
    sent: Lines,
    received: Lines,
}

impl Trace {
    pub(crate) fn new(screen: Screen) -> Self {
        Self { screen, sent: Lines::new(LONGEST), received: Lines::new(LONGEST) }
    }

    /// Splits the bytes of a stream into messages, one per line.
    pub(crate) fn show(&mut self, direction: WireDirection, bytes: &[u8]) {
        let (lines, arrow) = match direction {
            WireDirection::Sent => (&mut self.sent, sent()),
            WireDirection::Received => (&mut self.received, received()),
        };
        lines.handle_input(Bytes::copy_from_slice(bytes));
        while let Some(line) = lines.poll_line() {
            print(&mut self.screen, arrow.clone(), readable(&line));
        }
    }

    /// Prints HTTP traffic: a line for each request with its message, one for each response's status, and those of its
    /// body.
    pub(crate) fn http(&mut self, event: WireEvent<'_>) {
        let screen = &mut self.screen;
        match event {
            WireEvent::Request { method, url, body, .. } => {
                print(
                    screen,
                    sent(),
                    Text::from(format!("{method} {} ", without_query(url))).and(shown(body)),
                );
            }
            WireEvent::Head { status, .. } => print(screen, received(), Text::from(status.to_string())),
            WireEvent::Body { bytes, .. } => {
                for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
                    print(screen, received(), shown(without_session(line)));
                }
            }
            WireEvent::MessageSent(text) => print(screen, sent(), shown(text)),
            WireEvent::MessageReceived(text) => print(screen, received(), shown(text)),
            WireEvent::End { end, .. } if *end != ExchangeEnd::Complete => {
                diagnostic(screen, &format!("the response ended early: {end:?}"));
            }
            _ => {}
        }
    }
}

fn sent() -> Text {
    styled(GOOD, "→")
}

fn received() -> Text {
    styled(NAME, "←")
}

/// A URL without user, password and query: they may be secret, and the query of HTTP+SSE names the session.
fn without_query(url: &str) -> String {
    let (url, query) = url.split_once('?').map_or((url, ""), |(url, _)| (url, "?…"));
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{path}{query}")
        }
        None => format!("{url}{query}"),
    }
}

/// A line of an event stream, up to the query of the URI that an `endpoint` event of HTTP+SSE has for its data.
fn without_session(line: &[u8]) -> &[u8] {
    let data = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii_start);
    match data.filter(|data| !data.starts_with(b"{") && !data.starts_with(b"[")) {
        Some(_) => line.split_inclusive(|byte| *byte == b'?').next().unwrap_or(line),
        None => line,
    }
}

fn shown(bytes: &[u8]) -> Text {
    let beginning = bytes.get(..LONGEST).unwrap_or(bytes);
    let text = Text::json(String::from_utf8_lossy(beginning).trim_end_matches('\r'));
    if beginning.len() < bytes.len() { text.and(format!(" … ({} bytes)", bytes.len())) } else { text }
}

/// A line of the server's standard error.
pub(crate) fn stderr(screen: &mut Screen, line: &StderrLine) {
    print(screen, styled(QUIET, "!"), styled(QUIET, line.text.trim_end_matches('\r')));
}

/// Prints a diagnostic about the connection.
pub(crate) fn diagnostic(screen: &mut Screen, text: &str) {
    print(screen, styled(BAD, "?"), Text::from(text));
}

fn print(screen: &mut Screen, mark: Text, text: Text) {
    // Failing to write the trace does not fail the command.
    let _ = screen.line(mark.and(" ").and(text));
}

fn readable(line: &Line) -> Text {
    match line {
        Line::Whole(text) => Text::json(&String::from_utf8_lossy(text)),
        Line::TooLong { head, bytes, .. } => {
            Text::json(&String::from_utf8_lossy(head)).and(format!(" … ({bytes} bytes)"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_shows_no_session_and_no_password() {
        assert_eq!(
            without_query("https://me:marker@example.com/mcp?key=marker"),
            "https://example.com/mcp?…"
        );
        assert_eq!(without_query("http://[::1]:8080/mcp"), "http://[::1]:8080/mcp");
        let endpoint = b"data: /messages?session=marker";
        assert_eq!(without_session(endpoint), b"data: /messages?");
        let message = br#"data: {"method":"a?b"}"#;
        assert_eq!(without_session(message), message);
    }

    #[test]
    fn trace_shows_only_the_beginning_of_long_messages() {
        let mut lines = Lines::new(LONGEST);
        lines.handle_input(Bytes::from("x".repeat(LONGEST + 1) + "\n"));
        let shown = readable(&lines.poll_line().unwrap()).plain();
        assert!(shown.len() < 5000 && shown.ends_with("(65537 bytes)"), "{shown}");
    }

    #[test]
    fn trace_escapes_unsafe_characters_as_json_does() {
        let (screen, record) = Screen::recorded(Some(80));
        let mut trace = Trace::new(screen);
        trace.show(WireDirection::Received, "{\"text\":\"\u{9b}2J\u{202e}\"}\n\x1b[2Jnoise\n".as_bytes());
        assert_eq!(record.plain(), "← {\"text\":\"\\u009b2J\\u202e\"}\n← \\u001b[2Jnoise\n");
    }
}
