//! Lines on a server's standard output that are not messages, until the connection is ready.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_proto::Bytes;
use mcp_proto::codec::{Line, Lines};
use serde_json::Value;

/// The longest line to check, in bytes. A longer one counts as a message.
const LONGEST: usize = 64 * 1024;
/// Characters of the first line to quote.
const QUOTED: usize = 200;

/// Counts lines that are not messages until the connection is ready. Clones share the count.
#[derive(Clone)]
pub(crate) struct NonMessageCounter(Arc<Mutex<Option<NonMessageLines>>>);

struct NonMessageLines {
    lines: Lines,
    count: usize,
    first: String,
}

impl NonMessageCounter {
    pub(crate) fn new() -> Self {
        let watched = NonMessageLines { lines: Lines::new(LONGEST), count: 0, first: String::new() };
        Self(Arc::new(Mutex::new(Some(watched))))
    }

    /// Reads output of the server.
    pub(crate) fn handle_input(&self, bytes: &[u8]) {
        let mut state = self.state();
        let Some(watched) = &mut *state else { return };
        watched.lines.handle_input(Bytes::copy_from_slice(bytes));
        while let Some(line) = watched.lines.poll_line() {
            if let Line::Whole(line) = line
                && !line.trim_ascii().is_empty()
                && !is_message(&line)
            {
                watched.count += 1;
                if watched.count == 1 {
                    watched.first = String::from_utf8_lossy(&line).trim().chars().take(QUOTED).collect();
                }
            }
        }
    }

    /// Stops counting, because the connection is ready.
    pub(crate) fn ignore(&self) {
        *self.state() = None;
    }

    /// A sentence about the lines, if any were counted.
    pub(crate) fn summary(&self) -> Option<String> {
        let state = self.state();
        let watched = state.as_ref().filter(|watched| watched.count > 0)?;
        let lines = if watched.count == 1 { "line that is" } else { "lines that are" };
        Some(format!(
            "The server wrote {} {lines} not MCP to its standard output, which must carry messages only. The first one: {:?}",
            watched.count, watched.first
        ))
    }

    /// A poisoned lock is usable: no code under it can panic half-way through a change.
    fn state(&self) -> MutexGuard<'_, Option<NonMessageLines>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_message(line: &[u8]) -> bool {
    match serde_json::from_slice(line) {
        Ok(Value::Object(object)) => object.contains_key("jsonrpc"),
        Ok(Value::Array(_)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_counted_until_the_connection_is_ready() {
        let non_messages = NonMessageCounter::new();
        non_messages.handle_input(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n");
        assert_eq!(non_messages.summary(), None);
        non_messages.handle_input(b"Server \x1b[2Jstarted\n{\"level\":\"info\"}\nunfinished");
        let summary = non_messages.summary().unwrap();
        assert!(
            summary.contains("wrote 2 lines") && summary.ends_with(r#""Server \u{1b}[2Jstarted""#),
            "{summary}"
        );
        non_messages.ignore();
        assert_eq!(non_messages.summary(), None);
    }
}
