//! The trace of a connection: what passes waits for the thread of the trace, which reads it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::HeaderMap;
use mcp_proto::redact::{Pseudonyms, Redactor};
use mcp_proto::trace_file::{MachineRecorder, Sender, TraceEvent, TracedFrame};
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId};
use mcp_smol::{StderrLine, WireDirection};

use super::bounded_text::{BoundedText, TextLines};
use super::trace_file::TraceFile;
use super::trace_writer::Entry;
use super::wire::{FrameReader, SharedFrames, WireFrame, WireObserver, lock, read_later};
use crate::WireEvent;

/// A connection of a trace: see [`TraceFile::connection`].
#[must_use = "the connection of a trace is over when it is dropped"]
#[derive(Clone)]
pub struct ConnectionTrace(Arc<OpenConnection>);

struct OpenConnection {
    file: TraceFile,
    number: u64,
    /// The direction of what the client sends.
    of_client: WireDirection,
    frames: SharedFrames,
    texts: Arc<Mutex<TextReader>>,
    pieces: Arc<Pieces>,
    /// Held while a piece gets its number and its place among all records, as several threads may serve a session.
    order: Mutex<()>,
    reason: Mutex<Option<String>>,
}

/// The pieces of each stream.
#[derive(Default)]
struct Pieces {
    sent: PieceCount,
    received: PieceCount,
    errors: PieceCount,
    /// Events of HTTP.
    http: PieceCount,
}

impl Pieces {
    fn of(&self, direction: WireDirection) -> &PieceCount {
        match direction {
            WireDirection::Sent => &self.sent,
            WireDirection::Received => &self.received,
        }
    }
}

/// Counts the pieces of a stream.
#[derive(Default)]
struct PieceCount {
    /// How many came.
    came: AtomicU64,
    /// The number of the next one, if none is lost.
    next: AtomicU64,
}

impl PieceCount {
    /// The number of a piece that came.
    fn count(&self) -> u64 {
        self.came.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether pieces just before the one of this number are lost. Called in order, by the thread that reads them.
    fn follows_gap(&self, number: u64) -> bool {
        self.next.swap(number.wrapping_add(1), Ordering::Relaxed) != number
    }
}

/// Hides the secrets in texts that are no messages.
struct TextReader {
    redactor: Redactor,
    /// The lines of standard error.
    errors: TextLines,
}

impl ConnectionTrace {
    /// Begins the trace of a connection of this number.
    pub(super) fn open(
        file: TraceFile,
        (number, of_client): (u64, WireDirection),
        (server, transport): (&str, &str),
        redactor: Redactor,
        pseudonyms: Pseudonyms,
    ) -> Self {
        let redactor = redactor.pseudonyms(pseudonyms.clone());
        let server = redactor.text(server).into_owned();
        let frames = FrameReader::shared(redactor.clone(), Some(pseudonyms));
        let texts = Arc::new(Mutex::new(TextReader { redactor, errors: TextLines::default() }));
        let (pieces, order, reason) = Default::default();
        let connection =
            Self(Arc::new(OpenConnection { file, number, of_client, frames, texts, pieces, order, reason }));
        connection.record(TraceEvent::Opened { server, transport: transport.into() });
        connection
    }

    /// An observer that traces the connection, without its secrets. All observers of a connection have one redactor.
    pub fn observer(&self) -> WireObserver {
        WireObserver::of_trace(self.0.frames.clone(), self.clone())
    }

    /// A recorder of the machines of the connection, for `ClientConfig::recorder`; `None` if the file is to have no secrets.
    pub fn recorder(&self) -> Option<MachineRecorder> {
        let connection = self.clone();
        let recorder = move |step| connection.record(TraceEvent::Machine(step));
        self.0.file.has_secrets().then(|| MachineRecorder::new(recorder))
    }

    /// Takes bytes of a stream, and writes the messages in them without their secrets; in order if one thread calls it for each
    /// direction. It does not wait: another thread reads them.
    pub fn record_bytes(&self, direction: WireDirection, bytes: Bytes) {
        let (frames, of_client) = (self.0.frames.clone(), self.0.of_client);
        self.0.enqueue(
            move |pieces| pieces.of(direction),
            bytes.len(),
            move |follows_gap, write| {
                let mut frames = lock(&frames);
                if follows_gap {
                    frames.skip_line(direction);
                }
                frames.handle_bytes(direction, &bytes, &mut |frame| write(frame_event(&frame, of_client)));
            },
        );
    }

    /// Takes an event of HTTP, and writes the frames in it without their secrets.
    pub(super) fn record_event(&self, event: WireEvent<'_>) {
        let (frames, of_client) = (self.0.frames.clone(), self.0.of_client);
        let (bytes, read) = read_later(event);
        self.0.enqueue(
            |pieces| &pieces.http,
            bytes,
            move |follows_gap, write| {
                let mut frames = lock(&frames);
                if follows_gap {
                    frames.skip_bodies();
                }
                read(&mut frames, &mut |frame| write(frame_event(&frame, of_client)));
            },
        );
    }

    /// Writes a line of the server's standard error without its secrets, once it has all pieces of it.
    pub fn record_stderr_line(&self, line: &StderrLine) {
        if line.lost > 0 {
            self.record(TraceEvent::Lost { records: 1 });
            self.0.pieces.errors.count();
        }
        let end = if line.goes_on { "" } else { "\n" };
        self.record_stderr(format!("{}{end}", line.text).as_bytes());
    }

    /// Writes the lines of the server's standard error without their secrets. Their bytes may come in pieces. It does
    /// not wait: another thread reads them.
    pub fn record_stderr(&self, bytes: &[u8]) {
        let (texts, bytes) = (self.0.texts.clone(), bytes.to_vec());
        self.0.enqueue(
            |pieces| &pieces.errors,
            bytes.len(),
            move |follows_gap, write| {
                let mut texts = lock(&texts);
                if follows_gap {
                    // The rest of a line may begin within a secret.
                    texts.errors.skip_line();
                }
                texts.handle_errors(&bytes, write);
            },
        );
    }

    /// Whether this is the same connection.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.0.number == other.0.number
    }

    /// Writes what happened. Its texts are written as they are: hide secrets before.
    pub fn record(&self, event: TraceEvent) {
        let open = &self.0;
        open.file.queue().push(Entry::event(open.file.now(), open.number, event));
    }

    /// Sets why the connection is over, for the record of its end, without its secrets.
    pub fn close(self, reason: impl AsRef<str>) {
        *lock(&self.0.reason) = Some(reason.as_ref().to_owned());
    }
}

impl OpenConnection {
    /// Has the thread of the trace read a piece of a stream; `read` learns whether pieces before it are lost.
    fn enqueue(
        &self,
        stream: impl Fn(&Pieces) -> &PieceCount + Send + 'static,
        bytes: usize,
        read: impl FnOnce(bool, &mut dyn FnMut(TraceEvent)) + Send + 'static,
    ) {
        let pieces = self.pieces.clone();
        let _order = lock(&self.order);
        let number = stream(&pieces).count();
        let events =
            move |write: &mut dyn FnMut(TraceEvent)| read(stream(&pieces).follows_gap(number), write);
        self.file.queue().push(Entry::later(self.file.now(), self.number, bytes, Box::new(events)));
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let (frames, texts, pieces) = (self.frames.clone(), self.texts.clone(), self.pieces.clone());
        let (of_client, reason) = (self.of_client, lock(&self.reason).take());
        let events = move |write: &mut dyn FnMut(TraceEvent)| {
            let is_cut = |stream: &PieceCount| stream.follows_gap(stream.came.load(Ordering::Relaxed));
            let (mut frames, mut texts) = (lock(&frames), lock(&texts));
            // What is left of a line may end within a secret.
            for direction in [WireDirection::Sent, WireDirection::Received] {
                if is_cut(pieces.of(direction)) {
                    frames.skip_line(direction);
                }
            }
            if is_cut(&pieces.errors) {
                texts.errors.skip_line();
            }
            frames.end_streams(&mut |frame| write(frame_event(&frame, of_client)));
            texts.end(reason, write);
        };
        self.file.queue().push_end(Entry::end(self.file.now(), self.number, Box::new(events)));
    }
}

impl TextReader {
    fn handle_errors(&mut self, mut bytes: &[u8], write: &mut dyn FnMut(TraceEvent)) {
        while let Some(line) = self.errors.next(&mut bytes, Some(&self.redactor)) {
            write(self.error(line));
        }
    }

    fn error(&self, mut line: BoundedText<'_>) -> TraceEvent {
        let frame = match line.whole().filter(|text| text.len() <= BoundedText::LONGEST) {
            Some(text) => TracedFrame::new(self.redactor.text(&String::from_utf8_lossy(text)).as_bytes(), 0),
            None => {
                // It learns from none of these lines.
                let (bytes, is_cut, text) = line.redacted(Some(&mut self.redactor.clone()));
                TracedFrame::new(text, if is_cut { bytes } else { 0 })
            }
        };
        TraceEvent::Stderr { frame }
    }

    fn end(&mut self, reason: Option<String>, write: &mut dyn FnMut(TraceEvent)) {
        if let Some(line) = self.errors.end() {
            write(self.error(line));
        }
        write(TraceEvent::Closed { reason: reason.map(|reason| self.redactor.text(&reason).into_owned()) });
    }
}

debug_fields! { ConnectionTrace(self) { number = self.0.number } }

fn frame_event(frame: &WireFrame<'_>, of_client: WireDirection) -> TraceEvent {
    let text = |text: &[u8]| TracedFrame::new(text, frame.cut_bytes().unwrap_or_default());
    match frame {
        WireFrame::Message { direction, exchange, text: message, .. } => TraceEvent::Message {
            // The messages of an exchange are in the response.
            from: if exchange.is_none() && *direction == of_client { Sender::Client } else { Sender::Server },
            exchange: exchange.map(ExchangeId::number),
            frame: text(message),
        },
        WireFrame::Request { exchange, method, url, headers, body, .. } => TraceEvent::Request {
            exchange: exchange.number(),
            method: method.to_string(),
            url: url.to_string(),
            headers: pairs(headers),
            frame: text(body),
        },
        WireFrame::Response { exchange, status, headers } => TraceEvent::Response {
            exchange: exchange.number(),
            status: status.as_u16(),
            headers: pairs(headers),
        },
        WireFrame::End { exchange, end } => TraceEvent::Ended {
            exchange: exchange.number(),
            failure: match end {
                Some(ExchangeEnd::Complete) => None,
                _ => Some(frame.to_string().trim_start_matches(['←', '→', ' ']).to_owned()),
            },
        },
    }
}

fn pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}
