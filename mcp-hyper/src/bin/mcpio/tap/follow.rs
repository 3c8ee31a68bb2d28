//! `mcpio trace --follow`: shows a trace while another program writes it.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::time::Duration;

use mcp_proto::codec::{Line, Lines};
use mcp_proto::trace_file::{Sender, Trace, TraceEvent, TraceHeader, TraceRecord, TracedFrame};
use smol::Timer;

use super::CHUNK;
use crate::error::{CommandError, Result};
use crate::terminal::{BAD, GOOD, NAME, QUIET, Screen, Text, styled};

/// How often to look for new records.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest line that is shown: a record of the longest message, escaped.
const LONGEST: usize = 128 * 1024 * 1024;

/// Shows the records of a trace, and those that follow, also in the files that take its place.
pub(crate) async fn follow(path: &Path, screen: &mut Screen) -> Result {
    let mut view = View { screen, header: None, has_many: false };
    loop {
        let mut trace = match OpenTrace::open(path) {
            Ok(trace) => trace,
            // It is not there yet.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Timer::after(PAUSE).await;
                continue;
            }
            Err(error) => return Err(CommandError::server_of(path.display())(error)),
        };
        let failed = CommandError::server_of(path.display());
        loop {
            // What was written before another file took its place is read first.
            let is_over = trace.is_replaced(path);
            trace.read(&mut view).map_err(&failed)?;
            if is_over {
                break;
            }
            Timer::after(PAUSE).await;
        }
    }
}

/// A file that is read as far as it is written.
struct OpenTrace {
    file: File,
    length: u64,
    lines: Lines,
}

impl OpenTrace {
    fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self { file: File::open(path)?, length: 0, lines: Lines::new(LONGEST) })
    }

    /// Shows the lines that were written since.
    fn read(&mut self, view: &mut View<'_>) -> Result<(), String> {
        let mut buffer = vec![0; CHUNK];
        loop {
            let length = self.file.read(&mut buffer).map_err(|error| error.to_string())?;
            if length == 0 {
                return Ok(());
            }
            self.length = self.length.saturating_add(u64::try_from(length).unwrap_or_default());
            self.lines.handle_input(buffer.get(..length).unwrap_or_default().to_vec().into());
            while let Some(line) = self.lines.poll_line() {
                view.show(&line)?;
            }
        }
    }

    /// Whether another file is at the path, or the file was cut.
    fn is_replaced(&self, path: &Path) -> bool {
        let Ok(found) = fs::metadata(path) else { return false };
        #[cfg(unix)]
        if let Ok(own) = self.file.metadata() {
            use std::os::unix::fs::MetadataExt as _;
            if (own.dev(), own.ino()) != (found.dev(), found.ino()) {
                return true;
            }
        }
        found.len() < self.length
    }
}

/// What shows the records.
struct View<'a> {
    screen: &'a mut Screen,
    header: Option<TraceHeader>,
    /// Whether there is more than one connection.
    has_many: bool,
}

impl View<'_> {
    fn show(&mut self, line: &Line) -> Result<(), String> {
        let line = match line {
            Line::Whole(line) => &**line,
            Line::TooLong { bytes, .. } => {
                return self.print(styled(BAD, format_args!("a line of {bytes} bytes")));
            }
        };
        if self.header.is_none() || line.starts_with(b"{\"mcpTrace\":") {
            return self.begin(line);
        }
        if self.screen.is_json() {
            return self.print(Text::json(&String::from_utf8_lossy(line)));
        }
        match serde_json::from_slice::<TraceRecord>(line) {
            Ok(record) => self.record(&record),
            Err(error) => self.print(styled(BAD, format_args!("a line cannot be read: {error}"))),
        }
    }

    /// Takes the header of a file; the one of a further file of the same trace is not shown.
    fn begin(&mut self, line: &[u8]) -> Result<(), String> {
        let header = Trace::parse(line).map_err(|error| error.to_string())?.header;
        let is_same = self.header.as_ref() == Some(&header);
        let text = format!("a trace of {}", header.program);
        self.has_many &= is_same;
        self.header = Some(header);
        match (is_same, self.screen.is_json()) {
            (true, _) => Ok(()),
            (false, true) => self.print(Text::json(&String::from_utf8_lossy(line))),
            (false, false) => self.print(styled(QUIET, text)),
        }
    }

    fn record(&mut self, record: &TraceRecord) -> Result<(), String> {
        self.has_many |= record.connection > 1;
        let number = if self.has_many { format!("{} ", record.connection) } else { String::new() };
        let Some(text) = described(&record.event) else { return Ok(()) };
        let start = styled(QUIET, format_args!("{:.3} s {number}", record.at().as_secs_f64()));
        self.print(start.and(text))
    }

    fn print(&mut self, text: impl Into<Text>) -> Result<(), String> {
        self.screen.line(text).map_err(|error| error.to_string())
    }
}

/// An event on one line; `None` if it says nothing new.
fn described(event: &TraceEvent) -> Option<Text> {
    let arrow = |sender: Sender| match sender {
        Sender::Client => styled(GOOD, "→ "),
        Sender::Server => styled(NAME, "← "),
    };
    Some(match event {
        TraceEvent::Opened { server, transport } => {
            styled(QUIET, format_args!("opened: {server} over {transport}"))
        }
        TraceEvent::Message { from, frame, .. } => arrow(*from).and(shown(frame)),
        TraceEvent::Request { method, url, frame, .. } => {
            arrow(Sender::Client).and(format!("{method} {url} ")).and(shown(frame))
        }
        TraceEvent::Response { status, .. } => arrow(Sender::Server).and(status.to_string()),
        TraceEvent::Ended { failure, .. } => styled(BAD, format_args!("? {}", failure.as_deref()?)),
        TraceEvent::Stderr { frame } => styled(QUIET, "! ").and(shown(frame)),
        TraceEvent::Closed { reason } => {
            let reason = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
            styled(QUIET, format_args!("closed{reason}"))
        }
        TraceEvent::Lost { records } => styled(BAD, format_args!("? {records} records are missing here")),
        _ => return None,
    })
}

fn shown(frame: &TracedFrame) -> Text {
    let text = String::from_utf8_lossy(frame.as_bytes());
    let length = if frame.is_cut() { format!(" … ({} bytes)", frame.length()) } else { String::new() };
    Text::json(text.trim_end()).and(length)
}
