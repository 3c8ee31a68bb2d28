//! Writes trace files: the traffic of connections without its secrets.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use mcp_proto::UnixTime;
use mcp_proto::redact::Redactor;
use mcp_proto::trace_file::{Sender, TraceEvent, TraceHeader, TraceRecord, TracedFrame};
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId};
use mcp_smol::WireDirection;

use super::wire::{WireFrame, WireObserver};
use crate::private_files::private_file;

/// The most bytes of records that wait to be written.
const MAX_WAITING: usize = 64 * 1024 * 1024;

/// A trace file that is being written: see [`mcp_proto::trace_file`] for its format.
///
/// A thread writes it. The file is readable for its owner alone; a trace that is there is replaced. At 64 MiB, unless
/// [`max_bytes`](Self::with_max_bytes) says otherwise, it begins anew, and the file before has `.1` behind its name. What
/// cannot be written, since the disk is slow or full, is lost: the file says how many records, and [`flush`](Self::flush)
/// why. The connections go on.
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
    path: PathBuf,
    start: Instant,
    connections: AtomicU64,
    /// The bytes of records that wait to be written.
    waiting: Arc<AtomicUsize>,
    /// The number of records that did not fit.
    lost: AtomicU64,
    commands: Mutex<mpsc::Sender<WriterCommand>>,
}

enum WriterCommand {
    Write(Vec<u8>),
    Flush(SyncSender<io::Result<()>>),
}

impl TraceFile {
    /// Creates a trace file of 64 MiB at most, and one before it; `program` is the name of the application and its version.
    ///
    /// # Errors
    /// If the file cannot be created, or there is one that is no trace.
    pub fn create(path: impl Into<PathBuf>, program: &str) -> io::Result<Self> {
        Self::with_max_bytes(path, program, 64 * 1024 * 1024)
    }

    /// Creates a trace file that begins anew at `max_bytes`.
    ///
    /// # Errors
    /// If the file cannot be created, or there is one that is no trace.
    pub fn with_max_bytes(path: impl Into<PathBuf>, program: &str, max_bytes: u64) -> io::Result<Self> {
        let path = path.into();
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let header = TraceHeader::new(program, UnixTime::from_epoch(started), true).to_line();
        let (commands, received) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let mut writer = Writer {
            file: open(&path, &header)?,
            path: path.clone(),
            header,
            length: 0,
            max_bytes,
            waiting: waiting.clone(),
            failure: None,
        };
        thread::Builder::new().name("mcp-trace".into()).spawn(move || writer.run(&received))?;
        let shared = Shared {
            path,
            start: Instant::now(),
            connections: AtomicU64::new(0),
            waiting,
            lost: AtomicU64::new(0),
            commands: Mutex::new(commands),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Begins the trace of a connection; `transport` is `stdio`, `http` or `websocket`. The connection is over when the last
    /// clone of this trace of it is dropped.
    pub fn connection(&self, server: &str, transport: &str) -> ConnectionTrace {
        let number = self.shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let open = OpenConnection { file: self.clone(), number, reason: Mutex::new(None) };
        let connection = ConnectionTrace(Arc::new(open));
        connection.record(TraceEvent::Opened { server: server.into(), transport: transport.into() });
        connection
    }

    /// An observer that traces a connection, without its secrets.
    pub fn observer(&self, server: &str, transport: &str) -> WireObserver {
        self.connection(server, transport).observer()
    }

    /// Waits until all records so far are written. It blocks the thread.
    ///
    /// # Errors
    /// The first error of writing, after which nothing was written.
    pub fn flush(&self) -> io::Result<()> {
        let (done, wait) = mpsc::sync_channel(1);
        self.send(WriterCommand::Flush(done));
        wait.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that writes the trace has ended")))
    }

    fn send(&self, command: WriterCommand) {
        let commands = self.shared.commands.lock().unwrap_or_else(PoisonError::into_inner);
        // The thread ends after all senders.
        let _ = commands.send(command);
    }

    fn write(&self, connection: u64, event: TraceEvent) {
        let shared = &*self.shared;
        let at = shared.start.elapsed();
        if shared.waiting.load(Ordering::Relaxed) > MAX_WAITING {
            shared.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let records = shared.lost.swap(0, Ordering::Relaxed);
        if records > 0 {
            self.write_record(TraceRecord::new(at, connection, TraceEvent::Lost { records }));
        }
        self.write_record(TraceRecord::new(at, connection, event));
    }

    fn write_record(&self, record: TraceRecord) {
        let line = record.to_line();
        self.shared.waiting.fetch_add(line.len(), Ordering::Relaxed);
        self.send(WriterCommand::Write(line));
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
    reason: Mutex<Option<String>>,
}

impl ConnectionTrace {
    /// An observer that traces the connection, without its secrets.
    pub fn observer(&self) -> WireObserver {
        let connection = self.clone();
        WireObserver::new(move |frame| connection.record_frame(&frame))
    }

    /// Writes a line of the server's standard error, or its beginning if it has `length` bytes; hides the secrets that
    /// `redactor` finds.
    pub fn record_stderr(&self, redactor: &Redactor, line: &[u8], length: usize) {
        let text = String::from_utf8_lossy(line);
        let is_cut = length > line.len();
        let shown = if is_cut { redactor.cut_text(&text) } else { redactor.text(&text) };
        let length = if is_cut { length } else { shown.len() };
        self.record(TraceEvent::Stderr { frame: TracedFrame::new(shown.as_bytes(), length) });
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

    /// Sets why the connection is over, for the record of its end.
    pub fn close(self, reason: impl Into<String>) {
        *self.0.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.into());
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let reason = self.reason.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        self.file.write(self.number, TraceEvent::Closed { reason });
    }
}

debug_fields! { ConnectionTrace(self) { number = self.0.number } }

fn pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

/// Removes the trace at this path. Other files stay, and so do devices, links and folders.
fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if found.is_file() && is_trace(path)? => fs::remove_file(path),
        Ok(_) => {
            let what = format!("{} is there, and is no trace", path.display());
            Err(io::Error::new(io::ErrorKind::AlreadyExists, what))
        }
    }
}

/// Creates the file, in the place of a trace that is there.
fn open(path: &Path, header: &[u8]) -> io::Result<BufWriter<File>> {
    remove(path)?;
    let mut file = private_file().create_new(true).open(path)?;
    file.write_all(header)?;
    Ok(BufWriter::new(file))
}

/// Whether a file is a trace, or empty.
fn is_trace(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?.take(12).read_to_end(&mut start)?;
    Ok(start.is_empty() || start == b"{\"mcpTrace\":")
}

/// The thread's side.
struct Writer {
    file: BufWriter<File>,
    path: PathBuf,
    header: Vec<u8>,
    /// The number of bytes behind the header.
    length: u64,
    max_bytes: u64,
    waiting: Arc<AtomicUsize>,
    failure: Option<(io::ErrorKind, String)>,
}

impl Writer {
    /// Writes until the last sender is gone; flushes whenever nothing waits.
    fn run(&mut self, commands: &Receiver<WriterCommand>) {
        loop {
            let command = match commands.try_recv() {
                Ok(command) => command,
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {
                    self.attempt(|writer| writer.file.flush());
                    let Ok(command) = commands.recv() else { break };
                    command
                }
            };
            match command {
                WriterCommand::Write(line) => {
                    self.attempt(|writer| writer.write(&line));
                    self.waiting.fetch_sub(line.len(), Ordering::Relaxed);
                }
                WriterCommand::Flush(done) => {
                    self.attempt(|writer| writer.file.flush());
                    let failed = |(kind, text): (io::ErrorKind, String)| Err(io::Error::new(kind, text));
                    // If this fails, its receiver is gone.
                    let _ = done.send(self.failure.clone().map_or(Ok(()), failed));
                }
            }
        }
        self.attempt(|writer| writer.file.flush());
    }

    /// Runs a step unless one has failed: after that a line could be incomplete.
    fn attempt(&mut self, step: impl FnOnce(&mut Self) -> io::Result<()>) {
        if self.failure.is_none()
            && let Err(error) = step(self)
        {
            self.failure = Some((error.kind(), error.to_string()));
        }
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if self.length > 0 && self.length.saturating_add(length) > self.max_bytes {
            self.file.flush()?;
            let mut before = self.path.clone().into_os_string();
            before.push(".1");
            remove(before.as_ref())?;
            fs::rename(&self.path, before)?;
            self.file = open(&self.path, &self.header)?;
            self.length = 0;
        }
        self.length = self.length.saturating_add(length);
        self.file.write_all(line)
    }
}

#[cfg(test)]
mod tests {
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
        file.connection("demo", "stdio").close("done");
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

    #[test]
    fn full_file_begins_anew_and_the_one_before_stays() {
        let folder = Folder::new("full");
        let path = folder.0.join("a.trace");
        let file = TraceFile::with_max_bytes(&path, "test", 1000).unwrap();
        let connection = file.connection("demo", "stdio");
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
        let connection = file.connection("demo", "stdio");
        for _ in 0..10 {
            connection.record(closed("over"));
        }
        assert!(file.flush().is_err());
        connection.record(closed("over"));
        assert!(file.flush().is_err());
        assert!(TraceFile::create(folder.0.join("none/a.trace"), "test").is_err());
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
