//! Trace files: what went over the wire of one or more connections.
//!
//! A trace is lines of JSON. The first line is the [header](TraceHeader):
//!
//! ```json
//! {"mcpTrace":1,"started":1764169200000,"program":"mcpio 0.1.0","redacted":true}
//! ```
//!
//! `started` is the time of the clock in milliseconds since 1970. Each other line is a [record](TraceRecord): the time `at`
//! in microseconds since then, the number of its `connection`, and its `event`:
//!
//! | event | members | meaning |
//! |---|---|---|
//! | `opened` | `server`, `transport` | A connection begins: the name of the server, and `stdio`, `http` or `websocket`. |
//! | `message` | `from`, `frame`, `exchange`? | A line of a stream, a message on a WebSocket, or a line or the whole of the body of a response; `from` is `client` or `server`. |
//! | `request` | `exchange`, `method`, `url`, `headers`, `frame` | A request over HTTP, with its body. |
//! | `response` | `exchange`, `status`, `headers` | The head of a response. |
//! | `ended` | `exchange`, `failure`? | The end of an exchange, and why it failed. |
//! | `stderr` | `frame` | A line that the server wrote to its standard error. |
//! | `closed` | `reason`? | A connection is over. |
//! | `lost` | `records` | So many records were not written here: the file could not keep up. |
//! | `machine` | `machine`, `step`, `now`?, `due`? | A step of a machine: see [`MachineRecord`]. Only in a trace that is not `redacted`. |
//!
//! A `frame` is the text as it was on the wire, even if it is not JSON. One that is cut or is not UTF-8 is an object with
//! `text` or `base64`, and `length`: the number of bytes of the whole. In a redacted trace `[redacted]` stands for a secret, and
//! `[id:4f1c25d0a3b1e8f2]` for an identifier: of a session, task, event, cursor or state of a request, and for a text above
//! 64 KiB that is not JSON, as its digest. The same identifier has the same number everywhere in a trace, and another one in other
//! traces. Readers ignore members and events that they do not know; a change that they could not ignore has another number in
//! `mcpTrace`. A trace with secrets has the seed of a client's pauses, which is no secret, and never has keys. The header of a
//! file that `mcpio bundle` wrote has a member `bundle`: versions, and names of variables. [`SCHEMA`] describes each line.
//!
//! [`Recording`] takes the requests of a server's clients from a trace, with its answers: to play that server
//! (`Recording::router`, with the feature `server`), and to make the requests again (`Recording::replay`, with `client`).
//!
//! ```
//! use mcp_proto::trace_file::{RequestOutcome, Trace};
//!
//! let lines = br#"{"mcpTrace":1,"started":1764169200000,"program":"test","redacted":true}
//! {"at":10,"connection":1,"event":"opened","server":"demo","transport":"stdio"}
//! {"at":20,"connection":1,"event":"message","from":"client","frame":"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"}
//! {"at":95,"connection":1,"event":"message","from":"server","frame":"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"}
//! "#;
//! let report = Trace::parse(lines)?.report();
//! assert_eq!(report.requests[0].method, "ping");
//! assert_eq!(report.requests[0].outcome, RequestOutcome::Answered);
//! assert_eq!(report.requests[0].duration().unwrap().as_micros(), 75);
//! # Ok::<(), mcp_proto::trace_file::TraceError>(())
//! ```

#[cfg(all(feature = "std", feature = "client"))]
mod difference;
mod har;
#[cfg_attr(not(feature = "server"), allow(dead_code, reason = "only servers use all of it"))]
mod machine;
mod otlp;
#[cfg_attr(
    not(all(feature = "std", feature = "client", feature = "server")),
    allow(dead_code, reason = "clients and servers use parts of it")
)]
mod recording;
mod report;

use core::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

#[cfg(all(feature = "std", feature = "client"))]
pub use self::difference::Difference;
#[cfg(all(feature = "std", feature = "client"))]
pub(crate) use self::difference::{Comparison, is_hidden};
pub(crate) use self::machine::json;
pub use self::machine::{MachineOrigin, MachineRecord, MachineRecorder, MachineStep};
#[cfg(all(feature = "std", feature = "server"))]
pub(crate) use self::recording::InputRequest;
#[cfg(all(feature = "std", any(feature = "client", feature = "server")))]
pub(crate) use self::recording::{Answers, CallKey, RecordedCall, RecordedStep, comparable_params};
pub use self::recording::{Recording, RecordingError};
pub use self::report::{
    Breach, Finding, RequestOutcome, TraceReport, TracedConnection, TracedNotification, TracedRequest,
};
use crate::UnixTime;
use crate::prelude::*;

/// The JSON Schema of each line of a trace: its first line is a header, the others are records.
///
/// ```
/// # #[cfg(feature = "schema-validate")] {
/// use mcp_proto::schema::Json;
/// use mcp_proto::trace_file::SCHEMA;
/// use mcp_proto::validate::{Bounds, Schema};
///
/// let schema = Schema::compile(&Json::new(SCHEMA)?, &Bounds::default())?;
/// assert!(schema.check(&Json::new(r#"{"at":1,"connection":1,"event":"closed"}"#)?).is_ok());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub const SCHEMA: &str = include_str!("schema.json");

/// The version of the format.
const VERSION: u32 = 1;

/// The first line of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TraceHeader {
    #[serde(rename = "mcpTrace")]
    version: u32,
    started: u64,
    /// The program that wrote it, and its version.
    pub program: String,
    /// Whether secrets are hidden in it.
    pub redacted: bool,
}

impl TraceHeader {
    /// The header of a trace that begins at this time.
    pub fn new(program: impl Into<String>, started: UnixTime, redacted: bool) -> Self {
        let started = u64::try_from(started.since_epoch().as_millis()).unwrap_or(u64::MAX);
        Self { version: VERSION, started, program: program.into(), redacted }
    }

    /// The time at which the trace begins, to the millisecond.
    pub fn started(&self) -> UnixTime {
        UnixTime::from_epoch(Duration::from_millis(self.started))
    }

    /// The name of the program, and its version if it has one.
    fn program_and_version(&self) -> (&str, &str) {
        let is_version = |version: &str| version.starts_with(|first: char| first.is_ascii_digit());
        let parts = self.program.rsplit_once(' ').filter(|(_, version)| is_version(version));
        parts.unwrap_or((&self.program, ""))
    }

    /// The header as a line, with its line feed.
    pub fn to_line(&self) -> Vec<u8> {
        line(self)
    }
}

/// A line of a trace: something that happened on a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TraceRecord {
    at: u64,
    /// The number of the connection in the trace.
    pub connection: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: TraceEvent,
}

impl TraceRecord {
    /// A record of an event, `at` after the beginning of the trace.
    pub fn new(at: Duration, connection: u64, event: TraceEvent) -> Self {
        Self { at: u64::try_from(at.as_micros()).unwrap_or(u64::MAX), connection, event }
    }

    /// The time since the beginning of the trace, to the microsecond.
    pub fn at(&self) -> Duration {
        Duration::from_micros(self.at)
    }

    /// The record as a line, with its line feed.
    pub fn to_line(&self) -> Vec<u8> {
        line(self)
    }
}

fn line(value: &impl Serialize) -> Vec<u8> {
    // Texts and numbers have no errors; an empty line is ignored.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Something that happened on a connection: see the table of the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
#[non_exhaustive]
#[expect(missing_docs, reason = "the table of the module describes the members")]
pub enum TraceEvent {
    Opened {
        server: String,
        transport: String,
    },
    Message {
        from: Sender,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exchange: Option<u64>,
        frame: TracedFrame,
    },
    Request {
        exchange: u64,
        method: String,
        url: String,
        headers: Vec<(String, String)>,
        frame: TracedFrame,
    },
    Response {
        exchange: u64,
        status: u16,
        headers: Vec<(String, String)>,
    },
    Ended {
        exchange: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<String>,
    },
    Stderr {
        frame: TracedFrame,
    },
    Closed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    Lost {
        records: u64,
    },
    Machine(MachineRecord),
    /// An event of a later version.
    #[serde(other)]
    Unknown,
}

/// The side that sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sender {
    /// The client.
    Client,
    /// The server.
    Server,
}

impl Sender {
    /// The other side.
    fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// A text as it was on the wire, or its beginning.
#[derive(Clone, PartialEq, Eq)]
pub struct TracedFrame {
    bytes: Vec<u8>,
    length: usize,
}

impl TracedFrame {
    /// The whole of a text.
    pub(crate) fn whole(bytes: &[u8]) -> Self {
        Self::new(bytes, bytes.len())
    }

    /// The whole of a text, or the beginning of one that has `length` bytes.
    pub fn new(bytes: impl Into<Vec<u8>>, length: usize) -> Self {
        let bytes = bytes.into();
        Self { length: length.max(bytes.len()), bytes }
    }

    /// The bytes that the trace has.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of bytes of the whole.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Whether the trace has the beginning alone.
    pub fn is_cut(&self) -> bool {
        self.length > self.bytes.len()
    }
}

debug_fields! { TracedFrame(self) { length, text = String::from_utf8_lossy(&self.bytes) } }

/// The JSON of a frame that is not a string alone.
#[derive(Serialize, Deserialize)]
struct FrameParts<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    length: usize,
}

impl Serialize for TracedFrame {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = str::from_utf8(&self.bytes).ok();
        if let Some(text) = text.filter(|_| !self.is_cut()) {
            return serializer.serialize_str(text);
        }
        let base64 = text.is_none().then(|| BASE64_STANDARD.encode(&self.bytes));
        FrameParts { text, base64, length: self.length }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TracedFrame {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Whole(String),
            Parts { text: Option<String>, base64: Option<String>, length: usize },
        }
        match Form::deserialize(deserializer)? {
            Form::Whole(text) => Ok(Self { length: text.len(), bytes: text.into_bytes() }),
            Form::Parts { text: Some(text), base64: None, length } => Ok(Self::new(text, length)),
            Form::Parts { text: None, base64: Some(base64), length } => {
                let bytes = BASE64_STANDARD.decode(base64).map_err(de::Error::custom)?;
                Ok(Self::new(bytes, length))
            }
            Form::Parts { .. } => Err(de::Error::custom("a frame has either text or base64")),
        }
    }
}

/// Bytes within another type, as a frame.
pub(crate) mod frame {
    use super::{Deserialize as _, Deserializer, Serialize as _, Serializer, TracedFrame, Vec};

    pub(crate) fn serialize<S: Serializer>(
        bytes: &impl AsRef<[u8]>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        TracedFrame::whole(bytes.as_ref()).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T: From<Vec<u8>>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        Ok(TracedFrame::deserialize(deserializer)?.bytes.into())
    }
}

/// A trace that was read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Trace {
    /// Its first line.
    pub header: TraceHeader,
    /// Its records, in their order in the file.
    pub records: Vec<TraceRecord>,
    /// Lines that are no records, such as the last one of a program that was killed.
    pub unread: Vec<UnreadLine>,
}

/// A line of a trace that is no record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnreadLine {
    /// Its number, from 1.
    pub number: usize,
    /// Why it cannot be read.
    pub reason: String,
}

impl Trace {
    /// Reads a trace. Each line that is no record is in [`unread`](Self::unread).
    ///
    /// # Errors
    /// If the first line is not the header of a trace, or of one in another version of the format.
    pub fn parse(file: &[u8]) -> Result<Self, TraceError> {
        let mut lines = file.split(|byte| *byte == b'\n').zip(1_usize..);
        let first = lines.next().map(|(line, _)| line).unwrap_or_default();
        let header: TraceHeader = serde_json::from_slice(first).map_err(|_| TraceError::NotATrace)?;
        if header.version != VERSION {
            return Err(TraceError::Version { version: header.version });
        }
        let mut trace = Self { header, records: Vec::new(), unread: Vec::new() };
        for (line, number) in lines.filter(|(line, _)| !line.trim_ascii().is_empty()) {
            match serde_json::from_slice(line) {
                Ok(record) => trace.records.push(record),
                Err(error) => trace.unread.push(UnreadLine { number, reason: error.to_string() }),
            }
        }
        Ok(trace)
    }

    /// The trace without the steps of machines, which have all secrets: what it has besides is redacted.
    pub fn without_machines(mut self) -> Self {
        self.records.retain(|record| !matches!(record.event, TraceEvent::Machine(_)));
        self.header.redacted = true;
        self
    }

    /// Pairs requests with their answers, and looks for breaches of the protocol.
    pub fn report(&self) -> TraceReport {
        TraceReport::new(self)
    }

    /// The exchanges over HTTP, as an archive in the format [HAR 1.2], which the tools of browsers show.
    ///
    /// The comment of the log names the connections that are left out, as they are on standard streams or WebSockets. The
    /// body of an event stream has its lines as far as they were read; the trace does not tell which version of HTTP was
    /// spoken.
    ///
    /// [HAR 1.2]: http://www.softwareishard.com/blog/har-12-spec/
    pub fn to_har(&self) -> Value {
        har::archive(self)
    }

    /// The requests as spans of OpenTelemetry: an `ExportTraceServiceRequest` in the [JSON of OTLP], which collectors take
    /// at `/v1/traces`.
    ///
    /// Names and attributes follow the [conventions for MCP]; `outcome` and `sender` are besides them. The parent of a
    /// request is the span that its `_meta` names by `traceparent`, else the span of its connection, which has broken
    /// requirements as events. Ids are digests, so that a file always gives the same ones. A request without an answer
    /// lasts as long as its connection.
    ///
    /// [JSON of OTLP]: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
    /// [conventions for MCP]: https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md
    pub fn to_otlp(&self) -> Value {
        otlp::spans(self, &self.report())
    }
}

/// Reason why a file is no trace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceError {
    /// Its first line is not the header of a trace.
    NotATrace,
    /// It has another version of the format.
    Version {
        /// The version.
        version: u32,
    },
}

error_text! { TraceError:
    NotATrace => "its first line is not the header of a trace";
    Version { version } => "it has version {version} of the format of traces, and this program reads version {VERSION}";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(event: TraceEvent) -> TraceRecord {
        TraceRecord::new(Duration::from_micros(5), 1, event)
    }

    fn message(frame: TracedFrame) -> TraceRecord {
        at(TraceEvent::Message { from: Sender::Client, exchange: None, frame })
    }

    fn whole(bytes: &[u8]) -> TracedFrame {
        TracedFrame::new(bytes, bytes.len())
    }

    #[test]
    fn each_record_is_read_as_it_was_written() {
        let header =
            TraceHeader::new("test 1", UnixTime::from_epoch(Duration::from_millis(1_764_169_200_123)), true);
        let headers = vec![("accept".to_owned(), "*/*".to_owned())];
        let records = [
            at(TraceEvent::Opened { server: "demo".into(), transport: "stdio".into() }),
            message(whole(b"{\"a\": \"\\n\"} ")),
            message(whole(b"\xff\x00no text\r")),
            message(TracedFrame::new(*b"begin", 70_000)),
            message(TracedFrame::new(*b"\xc3", 70_000)),
            at(TraceEvent::Request {
                exchange: 7,
                method: "POST".into(),
                url: "http://localhost/mcp".into(),
                headers: headers.clone(),
                frame: whole(b"{}"),
            }),
            at(TraceEvent::Response { exchange: 7, status: 200, headers }),
            at(TraceEvent::Ended { exchange: 7, failure: Some("reset".into()) }),
            at(TraceEvent::Stderr { frame: whole(b"ready") }),
            at(TraceEvent::Lost { records: 3 }),
            at(TraceEvent::Machine(MachineRecord {
                machine: 1,
                step: MachineStep::Transmit(Some(whole(b"{}\n"))),
                now: Some(7),
                due: None,
            })),
            at(TraceEvent::Machine(MachineRecord {
                machine: 1,
                step: MachineStep::Open,
                now: None,
                due: Some(u64::MAX),
            })),
            at(TraceEvent::Closed { reason: None }),
        ];
        let file: Vec<u8> =
            header.to_line().into_iter().chain(records.iter().flat_map(TraceRecord::to_line)).collect();
        assert_eq!(file.iter().filter(|byte| **byte == b'\n').count(), 14);
        let trace = Trace::parse(&file).unwrap();
        assert_eq!(trace.header, header);
        assert_eq!(trace.records, records);
        assert_eq!(trace.unread, []);
        #[cfg(feature = "schema-validate")]
        for line in file.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            check_by_schema(str::from_utf8(line).unwrap()).unwrap();
        }
    }

    #[cfg(feature = "schema-validate")]
    fn check_by_schema(line: &str) -> Result<(), crate::validate::CheckError> {
        use crate::schema::Json;
        use crate::validate::{Bounds, Schema};

        let schema = Schema::compile(&Json::new(SCHEMA).unwrap(), &Bounds::default()).unwrap();
        schema.check(&Json::new(line).unwrap())
    }

    #[test]
    #[cfg(feature = "schema-validate")]
    fn schema_takes_what_is_read_and_refuses_what_is_not() {
        for line in [
            r#"{"mcpTrace":2,"started":1,"program":"","redacted":true}"#,
            r#"{"mcpTrace":1,"program":"","redacted":true}"#,
            r#"{"at":-1,"connection":1,"event":"closed"}"#,
            r#"{"connection":1,"event":"closed"}"#,
            r#"{"at":1,"connection":1,"event":"closed","reason":1}"#,
            r#"{"at":1,"connection":1,"event":"opened","server":"a"}"#,
            r#"{"at":1,"connection":1,"event":"message","from":"a","frame":""}"#,
            r#"{"at":1,"connection":1,"event":"message","from":"client","frame":{"length":1}}"#,
            r#"{"at":1,"connection":1,"event":"message","from":"client","frame":{"text":"","base64":"","length":1}}"#,
            r#"{"at":1,"connection":1,"event":"response","exchange":1,"status":200,"headers":[["a"]]}"#,
            r#"{"at":1,"connection":1,"event":"request","exchange":1,"method":"POST","headers":[],"frame":""}"#,
            r#"{"at":1,"connection":1,"event":"ended","failure":"reset"}"#,
            r#"{"at":1,"connection":1,"event":"lost","records":"1"}"#,
            r#"{"at":1,"connection":1,"event":"stderr"}"#,
            r#"{"at":1,"connection":1,"event":"machine","step":"open"}"#,
            r#"{"at":1,"connection":1,"event":"machine","machine":1,"step":{"input":1}}"#,
            r#"{"at":1,"connection":1,"event":"machine","machine":1,"step":{"body":{"exchange":1}}}"#,
            r#"{"at":1,"connection":1,"event":"machine","machine":1,"step":{"body":{"piece":"a"}}}"#,
            r#"{"at":1,"connection":1,"event":"machine","machine":1,"step":{"eof":"","event":""}}"#,
        ] {
            assert!(check_by_schema(line).is_err(), "{line}");
            assert!(serde_json::from_str::<TraceRecord>(line).is_err(), "{line}");
        }
        check_by_schema(r#"{"at":1,"connection":1,"event":"later","frame":1}"#).unwrap();
        check_by_schema(r#"{"mcpTrace":1,"started":1,"program":"","redacted":true,"bundle":{}}"#).unwrap();
        check_by_schema(r#"{"at":1,"connection":1,"event":"closed","later":1}"#).unwrap();
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let header = TraceHeader::new("test", UnixTime::EPOCH, true).to_line();
        let file = |lines: &str| [&*header, lines.as_bytes()].concat();
        let trace = Trace::parse(&file(
            "{\"at\":1,\"connection\":1,\"event\":\"later\",\"x\":1}\n\n{\"at\":1,\"conn",
        ))
        .unwrap();
        assert_eq!(trace.records[0].event, TraceEvent::Unknown);
        assert_eq!(trace.unread[0].number, 4);
        for frame in [
            "1",
            "{\"length\":1}",
            "{\"length\":1,\"base64\":\"%\"}",
            "{\"length\":1,\"base64\":\"\",\"text\":\"\"}",
        ] {
            let line = format!("{{\"at\":1,\"connection\":1,\"event\":\"stderr\",\"frame\":{frame}}}");
            assert_eq!(Trace::parse(&file(&line)).unwrap().unread.len(), 1, "{frame}");
        }
        for file in ["", "{}", "[]", "GET / HTTP/1.1"] {
            assert_eq!(Trace::parse(file.as_bytes()).unwrap_err(), TraceError::NotATrace);
        }
        let later = br#"{"mcpTrace":2,"started":0,"program":"","redacted":false}"#;
        assert_eq!(Trace::parse(later).unwrap_err(), TraceError::Version { version: 2 });
    }
}
