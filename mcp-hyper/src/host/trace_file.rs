//! Writes trace files: the traffic of connections without its secrets.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mcp_proto::UnixTime;
use mcp_proto::redact::{Pseudonyms, Redactor};
use mcp_proto::trace_file::TraceHeader;
use mcp_smol::WireDirection;

use super::connection_trace::ConnectionTrace;
use super::http_server_trace::HttpServerTrace;
use super::trace_writer::{Queue, Writer};
use super::wire::WireObserver;

/// A trace file that is being written: see [`mcp_proto::trace_file`] for its format.
///
/// A thread of low priority removes the secrets and writes it, some milliseconds later: at most 64 MiB wait for it in memory,
/// and 64 MiB more if connections end meanwhile. The file is readable for its owner alone; a trace that is there is replaced.
/// At 64 MiB, unless [`max_bytes`](Self::with_max_bytes) says otherwise, it begins anew, and the file before has `.1` behind
/// its name. While another trace file is being written at the same path, by this program or another one, this one has a name
/// beside it, `session.2.trace`: see [`path`](Self::path). (On Windows, the last one takes the place of the other.) What does not
/// fit into memory, or cannot be written, is lost: the file says how many pieces, and [`flush`](Self::flush) why. The connections
/// go on.
///
/// ```no_run
/// use mcp_hyper::ClientOptions;
/// use mcp_hyper::host::TraceFile;
///
/// let trace = TraceFile::create("session.trace", "my-agent 1.0.0")?;
/// let mut observer = trace.observer("example", "http");
/// let options = ClientOptions::new("my-agent", "1.0.0").on_wire(move |event| observer.handle_event(event));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct TraceFile {
    shared: Arc<Shared>,
}

struct Shared {
    path: Option<PathBuf>,
    has_secrets: bool,
    start: Instant,
    connections: AtomicU64,
    pseudonyms: Pseudonyms,
    queue: Arc<Queue>,
}

impl TraceFile {
    /// Creates a trace file of 64 MiB at most, and one before it; `program` is the name of the application and its version.
    ///
    /// # Errors
    /// If the file cannot be created, or there is one that is no trace.
    pub fn create(path: impl Into<PathBuf>, program: &str) -> io::Result<Self> {
        Self::with_max_bytes(path, program, 64 * 1024 * 1024)
    }

    /// Creates a trace file of 1 GiB at most with **all secrets**: beside the messages, which are without secrets here too,
    /// it has each step of the machines that the program runs, with credentials, texts of the user and random values.
    /// [`replay_machines`](mcp_proto::transport::replay_machines) runs them again, bit for bit, if it has not begun anew.
    ///
    /// # Errors
    /// If the file cannot be created, or there is one that is no trace.
    pub fn with_secrets(path: impl Into<PathBuf>, program: &str) -> io::Result<Self> {
        Self::at(path.into(), program, 1024 * 1024 * 1024, true)
    }

    /// Creates a trace file that begins anew at `max_bytes`.
    ///
    /// # Errors
    /// If the file cannot be created, or there is one that is no trace.
    pub fn with_max_bytes(path: impl Into<PathBuf>, program: &str, max_bytes: u64) -> io::Result<Self> {
        Self::at(path.into(), program, max_bytes, false)
    }

    fn at(path: PathBuf, program: &str, max_bytes: u64, has_secrets: bool) -> io::Result<Self> {
        let (writer, path) = Writer::to_file(path, header(program, has_secrets), max_bytes)?;
        Self::start(Some(path), writer, has_secrets)
    }

    /// Writes a trace to a sink of the application, which a thread calls: each call has whole lines of
    /// [JSON](mcp_proto::trace_file), the first the header.
    ///
    /// ```
    /// use mcp_hyper::host::TraceFile;
    ///
    /// let trace = TraceFile::to_sink(std::io::stderr(), "my-agent 1.0.0")?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the sink does not take the header.
    pub fn to_sink(sink: impl Write + Send + 'static, program: &str) -> io::Result<Self> {
        Self::start(None, Writer::to_sink(Box::new(sink), &header(program, false))?, false)
    }

    fn start(path: Option<PathBuf>, writer: Writer, has_secrets: bool) -> io::Result<Self> {
        let mut key = [0; 16];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        let queue = writer.start()?;
        let (start, connections) = (Instant::now(), AtomicU64::new(0));
        let pseudonyms = Pseudonyms::new(key);
        Ok(Self { shared: Arc::new(Shared { path, has_secrets, start, connections, pseudonyms, queue }) })
    }

    /// The path of the file, which may be another one than was asked for; `None` of a sink.
    pub fn path(&self) -> Option<&Path> {
        self.shared.path.as_deref()
    }

    /// Begins the trace of a connection; `transport` is `stdio`, `http` or `websocket`, and `redactor` hides the secrets of
    /// the connection. It is over when the last clone of this trace of it is dropped.
    pub fn connection(&self, server: &str, transport: &str, redactor: Redactor) -> ConnectionTrace {
        self.open(WireDirection::Sent, (server, transport), redactor)
    }

    /// Begins the trace of a connection to a server of this program: what it receives was sent by the client. The arguments are
    /// those of [`connection`](Self::connection).
    pub fn connection_of_server(&self, server: &str, transport: &str, redactor: Redactor) -> ConnectionTrace {
        self.open(WireDirection::Received, (server, transport), redactor)
    }

    /// Makes the trace of a server of this program over HTTP. In it, each session is a connection, by whichever sockets its requests
    /// come; requests without a session are in a connection of their socket. Each has a clone of the redactor: that
    /// [of the router](mcp_proto::front::Router::redactor) knows its tools' passwords, also if they were listed on another connection.
    ///
    /// ```no_run
    /// use mcp_hyper::ServerOptions;
    /// use mcp_hyper::host::TraceFile;
    /// use mcp_hyper::mcp_proto::front::Router;
    ///
    /// let trace = TraceFile::create("server.trace", "notes 1.0.0")?;
    /// let router = Router::new("notes", "1.0.0");
    /// let trace = trace.http_server("notes", "http", router.redactor());
    /// let options = ServerOptions::new(router).on_wire(move |_client| Some(trace.observer()));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn http_server(&self, server: &str, transport: &str, redactor: Redactor) -> HttpServerTrace {
        HttpServerTrace::new(self.clone(), (server, transport), redactor)
    }

    /// Begins the trace of a connection, on which what has this direction is sent by the client.
    fn open(&self, of_client: WireDirection, names: (&str, &str), redactor: Redactor) -> ConnectionTrace {
        let number = self.shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let pseudonyms = self.shared.pseudonyms.clone();
        ConnectionTrace::open(self.clone(), (number, of_client), names, redactor, pseudonyms)
    }

    /// An observer that traces a connection, without the secrets that [`Redactor::new`] finds.
    pub fn observer(&self, server: &str, transport: &str) -> WireObserver {
        self.connection(server, transport, Redactor::new()).observer()
    }

    /// The time since the beginning of the trace.
    pub(super) fn now(&self) -> Duration {
        self.shared.start.elapsed()
    }

    pub(super) fn queue(&self) -> &Queue {
        &self.shared.queue
    }

    pub(super) fn has_secrets(&self) -> bool {
        self.shared.has_secrets
    }

    /// Waits until all records so far are written. It blocks the thread.
    ///
    /// # Errors
    /// The first error of writing, after which nothing was written.
    pub fn flush(&self) -> io::Result<()> {
        self.shared.queue.flush()
    }

    /// Waits for so long until all records so far are written; those that are not are lost. It blocks the thread.
    ///
    /// # Errors
    /// The first error of writing, or that the time is over.
    pub fn flush_within(&self, time: Duration) -> io::Result<()> {
        self.shared.queue.flush_within(time)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.queue.close();
    }
}

debug_fields! { TraceFile(self) { path = self.shared.path } }

fn header(program: &str, has_secrets: bool) -> Vec<u8> {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TraceHeader::new(program, UnixTime::from_epoch(started), !has_secrets).to_line()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::AtomicBool;
    use std::sync::{Mutex, mpsc};

    use bytes::Bytes;
    use http::HeaderMap;
    use mcp_proto::trace_file::{Sender, Trace, TraceEvent, TraceRecord, TracedFrame};
    use mcp_proto::transport::http::{ExchangeEnd, ExchangeId};

    use super::*;
    use crate::WireEvent;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("mcp-trace-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir(&folder).unwrap();
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn read(path: &Path) -> Trace {
        Trace::parse(&fs::read(path).unwrap()).unwrap()
    }

    fn closed(reason: &str) -> TraceEvent {
        TraceEvent::Closed { reason: Some(reason.into()) }
    }

    #[test]
    fn file_is_private_and_replaces_one_that_is_there() {
        let folder = Folder::new("private");
        let path = folder.0.join("a.trace");
        fs::write(&path, "{\"mcpTrace\":1} old").unwrap();
        let file = TraceFile::create(&path, "test").unwrap();
        file.connection("demo", "stdio", Redactor::new()).close("done");
        file.flush().unwrap();
        let trace = read(&path);
        assert_eq!(trace.header.program, "test");
        let opened = TraceEvent::Opened { server: "demo".into(), transport: "stdio".into() };
        assert_eq!(trace.records.iter().map(|it| &it.event).collect::<Vec<_>>(), [&opened, &closed("done")]);
        for (name, text) in [("b.trace", "text of a user"), ("c.trace", "{\"mcp\":1}")] {
            let path = folder.0.join(name);
            fs::write(&path, text).unwrap();
            assert_eq!(TraceFile::create(&path, "test").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert!(TraceFile::create(&folder.0, "test").is_err());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            // A device is no file to replace.
            assert!(TraceFile::create("/dev/null", "test").is_err());
            let link = folder.0.join("link");
            std::os::unix::fs::symlink(&path, &link).unwrap();
            assert!(TraceFile::create(&link, "test").is_err());
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    /// Both are whole, also where a file begins anew in between.
    #[test]
    fn trace_of_a_second_session_stands_beside_that_of_the_first() {
        let folder = Folder::new("beside");
        let path = folder.0.join("a.trace");
        fs::write(folder.0.join("a.2.trace"), "text of a user").unwrap();
        let files = [(); 2].map(|()| TraceFile::with_max_bytes(&path, "test", 1000).unwrap());
        let paths = ["a.trace", "a.3.trace"].map(|name| folder.0.join(name));
        for (number, (file, path)) in files.iter().zip(&paths).enumerate() {
            assert_eq!(file.path(), Some(&**path));
            let connection = file.connection("demo", "stdio", Redactor::new());
            (0..20).for_each(|_| connection.record(closed(&number.to_string())));
            file.flush().unwrap();
        }
        for (number, path) in paths.iter().enumerate() {
            assert!(fs::exists(path.with_extension("trace.1")).unwrap(), "{path:?}");
            let trace = read(path);
            let own = |it: &&TraceRecord| it.event == closed(&number.to_string());
            assert!(
                trace.records.len() > 1 && trace.records.iter().filter(own).count() + 2 > trace.records.len()
            );
        }
        // The end of a session frees its name.
        drop(files);
        assert_eq!(TraceFile::create(&path, "test").unwrap().path(), Some(&*path));
        assert_eq!(fs::read_to_string(folder.0.join("a.2.trace")).unwrap(), "text of a user");
    }

    #[test]
    fn full_file_begins_anew_and_the_one_before_stays() {
        let folder = Folder::new("full");
        let path = folder.0.join("a.trace");
        let file = TraceFile::with_max_bytes(&path, "test", 1000).unwrap();
        let connection = file.connection("demo", "stdio", Redactor::new());
        for number in 0..100 {
            connection.record(closed(&number.to_string()));
        }
        file.flush().unwrap();
        let (before, now) = (read(&folder.0.join("a.trace.1")), read(&path));
        assert!(fs::metadata(&path).unwrap().len() < 1200);
        assert_eq!(now.records.last().unwrap().event, closed("99"));
        let TraceEvent::Closed { reason: Some(first) } = &now.records[0].event else { panic!("{now:?}") };
        let first: u32 = first.parse().unwrap();
        assert_eq!(before.records.last().unwrap().event, closed(&(first - 1).to_string()));
    }

    #[test]
    fn failure_to_write_ends_the_trace_alone() {
        let folder = Folder::new("failure");
        let path = folder.0.join("a.trace");
        // The old file cannot have this name.
        fs::create_dir(folder.0.join("a.trace.1")).unwrap();
        let file = TraceFile::with_max_bytes(&path, "test", 200).unwrap();
        let connection = file.connection("demo", "stdio", Redactor::new());
        for _ in 0..10 {
            connection.record(closed("over"));
        }
        assert!(file.flush().is_err());
        connection.record(closed("over"));
        assert!(file.flush().is_err());
        assert!(TraceFile::create(folder.0.join("none/a.trace"), "test").is_err());
    }

    /// A sink that is full after some bytes.
    #[derive(Clone)]
    struct Full(Arc<Mutex<Vec<Vec<u8>>>>, usize);

    impl Write for Full {
        fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
            let mut written = self.0.lock().unwrap();
            if written.concat().len() + lines.len() > self.1 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            written.push(lines.to_vec());
            Ok(lines.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Panics(bool);

    impl Write for Panics {
        fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
            assert!(!std::mem::replace(&mut self.0, true), "the sink of the application panics");
            Ok(lines.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written_by_a_sink_that_panics() -> io::Error {
        let file = TraceFile::to_sink(Panics(false), "test").unwrap();
        let connection = file.connection("demo", "stdio", Redactor::new());
        connection.record(closed("over"));
        file.flush().unwrap_err()
    }

    #[test]
    fn sink_takes_whole_lines_until_it_is_full() {
        let sink = Full(Arc::default(), 4000);
        let file = TraceFile::to_sink(sink.clone(), "test").unwrap();
        assert_eq!(file.path(), None);
        let connection = file.connection("demo", "stdio", Redactor::new());
        for number in 0..10 {
            connection.record(closed(&number.to_string()));
        }
        file.flush().unwrap();
        connection.record(closed(&"x".repeat(4000)));
        assert_eq!(file.flush().unwrap_err().kind(), io::ErrorKind::StorageFull);
        // Nothing follows what is missing, and nobody else notices.
        connection.record(closed("over"));
        connection.close("done");
        assert_eq!(file.flush().unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(written_by_a_sink_that_panics().kind(), io::ErrorKind::Other);
        let written = sink.0.lock().unwrap();
        assert!(written.iter().all(|lines| lines.ends_with(b"\n")));
        let trace = Trace::parse(&written.concat()).unwrap();
        assert_eq!(trace.records.last().unwrap().event, closed("9"));
        assert_eq!((trace.records.len(), trace.unread.len()), (11, 0));
    }

    /// A sink that, once it is closed, says when it has a record, and takes it when it may.
    struct Gate {
        sink: Full,
        is_closed: Arc<AtomicBool>,
        is_waiting: mpsc::Sender<()>,
        opened: mpsc::Receiver<()>,
    }

    impl Write for Gate {
        fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
            if self.is_closed.swap(false, Ordering::SeqCst) {
                self.is_waiting.send(()).unwrap();
                self.opened.recv().unwrap();
            }
            self.sink.write(lines)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The test's side of a gate, and the file behind it.
    struct Gated {
        sink: Full,
        file: TraceFile,
        is_closed: Arc<AtomicBool>,
        waiting: mpsc::Receiver<()>,
        open: mpsc::Sender<()>,
    }

    impl Gated {
        fn new() -> Self {
            let ((is_waiting, waiting), (open, opened)) = (mpsc::channel(), mpsc::channel());
            let (sink, is_closed) = (Full(Arc::default(), 100_000), Arc::new(AtomicBool::new(false)));
            let gate = Gate { sink: sink.clone(), is_closed: is_closed.clone(), is_waiting, opened };
            let file = TraceFile::to_sink(gate, "test").unwrap();
            Self { sink, file, is_closed, waiting, open }
        }

        /// Has the thread wait with a record in its hands.
        fn close(&self) {
            self.is_closed.store(true, Ordering::SeqCst);
            let connection = self.file.connection("gate", "stdio", Redactor::new());
            self.waiting.recv_timeout(Duration::from_secs(10)).unwrap();
            drop(connection);
        }

        /// Drops what waits.
        fn lose(&self) {
            let error = self.file.flush_within(Duration::ZERO).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        }

        /// Writes the rest; returns the events of this connection.
        fn events(&self, connection: u64) -> Vec<TraceEvent> {
            self.open.send(()).unwrap();
            self.file.flush().unwrap();
            let trace = Trace::parse(&self.sink.0.lock().unwrap().concat()).unwrap();
            let own = trace.records.into_iter().filter(|record| record.connection == connection);
            own.map(|record| record.event).collect()
        }
    }

    /// What follows a gap may be the rest of a secret, and what is before it the beginning of one.
    #[test]
    fn line_that_has_lost_a_part_is_left_out_of_each_stream() {
        // Pieces are lost since the queue is full, or while they wait.
        for chunks_before in [65, 0] {
            let gated = Gated::new();
            let connection = gated.file.connection("demo", "stdio", Redactor::new());
            gated.file.flush().unwrap();
            gated.close();
            let pass = |text: &'static str| {
                for direction in [WireDirection::Sent, WireDirection::Received] {
                    connection.record_bytes(direction, Bytes::from_static(text.as_bytes()));
                }
                connection.record_stderr(text.as_bytes());
            };
            // Blanks are no line.
            let blanks = Bytes::from(vec![b' '; 1024 * 1024]);
            (0..chunks_before).for_each(|_| connection.record_bytes(WireDirection::Sent, blanks.clone()));
            pass("lost, pass");
            gated.lose();
            pass("word=hunter2\n{\"id\":1}\npass");
            // It fills the queue: the last pieces are lost.
            connection.record_stderr(&[b' '; 64 * 1024 * 1024]);
            pass("word=hunter2");
            connection.close("done");
            let events = gated.events(1);
            assert!(matches!(events[1], TraceEvent::Lost { records: 3.. }), "{events:?}");
            let frame = || TracedFrame::new(*b"{\"id\":1}", 0);
            let message = |from| TraceEvent::Message { from, exchange: None, frame: frame() };
            let expected = [
                message(Sender::Client),
                message(Sender::Server),
                TraceEvent::Stderr { frame: frame() },
                TraceEvent::Lost { records: 3 },
                closed("done"),
            ];
            assert_eq!(events[2..], expected);
        }
    }

    #[test]
    fn response_that_has_lost_a_part_is_left_out() {
        let gated = Gated::new();
        let mut observer = gated.file.observer("web", "http");
        let (exchange, headers) = (ExchangeId::new(1), &HeaderMap::new());
        observer.handle_event(WireEvent::Head { exchange, status: http::StatusCode::OK, headers });
        gated.file.flush().unwrap();
        gated.close();
        observer.handle_event(WireEvent::Body { exchange, bytes: b"{\"password\":\"correct " });
        gated.lose();
        observer.handle_event(WireEvent::Body { exchange, bytes: b"horse\"}" });
        observer.handle_event(WireEvent::End { exchange, end: &ExchangeEnd::Complete });
        let events = gated.events(1);
        let ended = TraceEvent::Ended { exchange: 1, failure: None };
        assert_eq!((events.len(), events.last()), (4, Some(&ended)), "{events:?}");
    }

    #[test]
    fn trace_goes_on_after_a_flush_whose_time_was_over() {
        let file = TraceFile::to_sink(Full(Arc::default(), 1_000_000), "test").unwrap();
        for _ in 0..100 {
            let connection = file.connection("demo", "stdio", Redactor::new());
            // It may be in time.
            let _ = file.flush_within(Duration::ZERO);
            connection.close("done");
            file.flush().unwrap();
        }
    }

    /// Frames of HTTP come after those of streams whose identifiers they name.
    #[test]
    fn identifier_of_a_stream_has_its_pseudonym_in_a_text_over_http() {
        let id = "abcdef0123456789abcdef01";
        let sink = Full(Arc::default(), 1_000_000);
        let file = TraceFile::to_sink(sink.clone(), "test").unwrap();
        let stream = file.connection("demo", "stdio", Redactor::new());
        let mut observer = file.observer("web", "http");
        let frame = format!("{{\"id\":1,\"result\":{{\"taskId\":\"{id}\"}}}}\n");
        stream.record_bytes(WireDirection::Received, frame.into());
        let body = format!("{{\"id\":1,\"params\":{{\"text\":\"about {id}\"}}}}");
        let (exchange, method, headers) = (ExchangeId::new(1), &http::Method::POST, &HeaderMap::new());
        let (url, body) = ("http://localhost/", body.as_bytes());
        observer.handle_event(WireEvent::Request { exchange, method, url, headers, body });
        file.flush().unwrap();
        let written = String::from_utf8(sink.0.lock().unwrap().concat()).unwrap();
        assert!(!written.contains(id) && written.contains("about [id:"), "{written}");
    }

    #[test]
    fn known_secrets_are_in_no_file_in_any_spelling() {
        let folder = Folder::new("secret");
        let path = folder.0.join("a.trace");
        let file = TraceFile::create(&path, "test").unwrap();
        let secret = "tr\"ücky/secret";
        let mut observer = file.observer("demo", "stdio").redactor(Redactor::new().known(secret));
        let spelled = [
            "tr\\\"ücky/secret",
            "tr\\\"\\u00fccky\\/secret",
            "tr%22%C3%BCcky%2Fsecret",
            "dHIiw7xja3kvc2VjcmV0",
        ];
        for text in spelled {
            let line =
                format!("{{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":{{\"text\":\"<{text}>\"}}}}\n");
            for direction in [WireDirection::Sent, WireDirection::Received] {
                for chunk in line.as_bytes().chunks(3) {
                    observer.handle_bytes(direction, chunk);
                }
            }
        }
        observer.handle_bytes(WireDirection::Received, format!("not a message: {secret}").as_bytes());
        drop(observer);
        file.flush().unwrap();
        let written = fs::read_to_string(&path).unwrap();
        assert_eq!(written.matches("[redacted]").count(), 9, "{written}");
        for text in ["ücky", "u00fccky", "C3%BCcky", "w7xja3"] {
            assert!(!written.contains(text), "{text}: {written}");
        }
    }
}
