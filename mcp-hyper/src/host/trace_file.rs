//! Writes trace files: the traffic of connections without its secrets.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use mcp_proto::UnixTime;
use mcp_proto::redact::{Pseudonyms, Redactor};
use mcp_proto::trace_file::{MachineRecorder, Sender, TraceEvent, TraceHeader, TraceRecord, TracedFrame};
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId};
use mcp_smol::{StderrLine, WireDirection};

use super::bounded_text::{BoundedText, TextLines};
use super::trace_writer::{Queue, Writer};
use super::wire::{WireFrame, WireObserver};

/// A trace file that is being written: see [`mcp_proto::trace_file`] for its format.
///
/// A thread writes it, some milliseconds later. The file is readable for its owner alone; a trace that is there is replaced.
/// At 64 MiB, unless [`max_bytes`](Self::with_max_bytes) says otherwise, it begins anew, and the file before has `.1` behind
/// its name. While another trace file is being written at the same path, by this program or another one, this one has a name
/// beside it, `session.2.trace`: see [`path`](Self::path). (On Windows, the last one takes the place of the other.) What cannot be written, since the disk is slow or full, is lost: the file says how many records, and
/// [`flush`](Self::flush) why. The connections go on.
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
        let number = self.shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let redactor = redactor.pseudonyms(self.shared.pseudonyms.clone());
        let server = redactor.text(server).into_owned();
        let (file, errors, reason) = (self.clone(), Mutex::default(), Mutex::default());
        let open =
            OpenConnection { file, number, redactor, errors, skips_stderr: AtomicBool::default(), reason };
        let connection = ConnectionTrace(Arc::new(open));
        connection.record(TraceEvent::Opened { server, transport: transport.into() });
        connection
    }

    /// An observer that traces a connection, without the secrets that [`Redactor::new`] finds.
    pub fn observer(&self, server: &str, transport: &str) -> WireObserver {
        self.connection(server, transport, Redactor::new()).observer()
    }

    /// Waits until all records so far are written. It blocks the thread.
    ///
    /// # Errors
    /// The first error of writing, after which nothing was written.
    pub fn flush(&self) -> io::Result<()> {
        self.shared.queue.flush()
    }

    fn write(&self, connection: u64, event: TraceEvent) {
        let at = self.shared.start.elapsed();
        self.shared.queue.push(TraceRecord::new(at, connection, event));
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.queue.close();
    }
}

debug_fields! { TraceFile(self) { path = self.shared.path } }

/// A connection of a trace: see [`TraceFile::connection`].
#[must_use = "the connection of a trace is over when it is dropped"]
#[derive(Clone)]
pub struct ConnectionTrace(Arc<OpenConnection>);

struct OpenConnection {
    file: TraceFile,
    number: u64,
    redactor: Redactor,
    /// The lines of standard error.
    errors: Mutex<TextLines>,
    /// Whether the next piece of standard error belongs to a line whose beginning is lost.
    skips_stderr: AtomicBool,
    reason: Mutex<Option<String>>,
}

impl ConnectionTrace {
    /// An observer that traces the connection, without its secrets.
    pub fn observer(&self) -> WireObserver {
        let connection = self.clone();
        let open = &*self.0;
        WireObserver::new(move |frame| connection.record_frame(&frame))
            .pseudonyms(open.file.shared.pseudonyms.clone())
            .redactor(open.redactor.clone())
    }

    /// A recorder of the machines of the connection, for `ClientConfig::recorder`; `None` if the file is to have no secrets.
    pub fn recorder(&self) -> Option<MachineRecorder> {
        let connection = self.clone();
        let recorder = move |step| connection.record(TraceEvent::Machine(step));
        self.0.file.shared.has_secrets.then(|| MachineRecorder::new(recorder))
    }

    /// Writes a line of the server's standard error without its secrets, once it has all pieces of it.
    pub fn record_stderr_line(&self, line: &StderrLine) {
        // A line whose beginning is lost may begin within a secret.
        let is_cut = line.lost > 0;
        if is_cut {
            *self.0.errors() = TextLines::default();
            self.record(TraceEvent::Lost { records: 1 });
        }
        let skips = is_cut || self.0.skips_stderr.load(Ordering::Relaxed);
        self.0.skips_stderr.store(skips && line.goes_on, Ordering::Relaxed);
        if skips {
            return;
        }
        self.record_stderr(line.text.as_bytes());
        if !line.goes_on {
            self.record_stderr(b"\n");
        }
    }

    /// Writes the lines of the server's standard error without their secrets. Their bytes may come in pieces.
    pub fn record_stderr(&self, mut bytes: &[u8]) {
        let mut lines = self.0.errors();
        while let Some(line) = lines.next(&mut bytes, Some(&self.0.redactor)) {
            self.0.record_stderr(&line);
        }
    }

    /// Writes what happened. Its texts are written as they are: hide secrets before.
    pub fn record(&self, event: TraceEvent) {
        self.0.file.write(self.0.number, event);
    }

    /// Writes a frame, from which a [`WireObserver`] has removed the secrets.
    pub fn record_frame(&self, frame: &WireFrame<'_>) {
        let text = |text: &[u8]| TracedFrame::new(text, frame.cut_bytes().unwrap_or_default());
        self.record(match frame {
            WireFrame::Message { direction, exchange, text: message, .. } => TraceEvent::Message {
                from: match direction {
                    WireDirection::Sent => Sender::Client,
                    WireDirection::Received => Sender::Server,
                },
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
        });
    }

    /// Sets why the connection is over, for the record of its end, without its secrets.
    pub fn close(self, reason: impl AsRef<str>) {
        let reason = self.0.redactor.text(reason.as_ref()).into_owned();
        *self.0.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }
}

impl OpenConnection {
    fn errors(&self) -> MutexGuard<'_, TextLines> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_stderr(&self, line: &BoundedText<'_>) {
        let frame = match line.whole() {
            Some(text) => TracedFrame::new(self.redactor.text(&String::from_utf8_lossy(text)).as_bytes(), 0),
            // It learns from none of these lines.
            None => TracedFrame::new(line.redacted(Some(&mut self.redactor.clone())), line.bytes()),
        };
        self.file.write(self.number, TraceEvent::Stderr { frame });
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let last = self.errors().end();
        if let Some(line) = last {
            self.record_stderr(&line);
        }
        let reason = self.reason.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        self.file.write(self.number, TraceEvent::Closed { reason });
    }
}

debug_fields! { ConnectionTrace(self) { number = self.0.number } }

fn pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

fn header(program: &str, has_secrets: bool) -> Vec<u8> {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TraceHeader::new(program, UnixTime::from_epoch(started), !has_secrets).to_line()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use mcp_proto::trace_file::Trace;

    use super::*;

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
    #[cfg(unix)]
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
