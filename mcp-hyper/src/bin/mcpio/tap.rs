//! `mcpio tap`: stands between a client and a server, and writes what passes into a trace file.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mcp_hyper::host::{TracedConnection, WireObserver};
use mcp_proto::codec::{Line, Lines};
use mcp_proto::redact::Redactor;
use mcp_proto::trace_file::{TraceEvent, TracedFrame};
use mcp_smol::WireDirection;
use smol::future::or;

use crate::connect::{self, redactor, server_name};
use crate::error::{CommandError, Interrupts, Result};
use crate::options::CommonOptions;

/// How much is read at a time, in bytes.
const CHUNK: usize = 64 * 1024;

/// The most bytes that wait to be recorded. Of more than these the trace has a part only: what passes is never held up.
const MAX_WAITING: usize = 64 * 1024 * 1024;

/// The longest line of standard error that is recorded completely.
const LONGEST: usize = 64 * 1024;

/// How long to wait for output after the end of the server, which its own children may keep open.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts a server and passes on its streams unchanged, until it ends. The exit code is the server's.
pub(crate) async fn run(command: &[OsString], common: &CommonOptions) -> Result {
    let Some(trace) = &common.traced else {
        return Err(CommandError::usage("name the file to write by --trace-file FILE"));
    };
    let mut child = start(command, common)?;
    let connection = Arc::new(trace.connection(&server_name(command, &redactor(common)?), "stdio"));
    let (recorder, recording) = Recorder::start(connection.clone(), &redactor(common)?)?;
    // The threads read from this process's own streams, whose buffers would hold messages back.
    let (input, output, errors) = own_streams().map_err(CommandError::server)?;
    let taken = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = taken else {
        return Err(CommandError::server("the server has no standard streams"));
    };
    let sent = recorder.clone();
    spawn(move || pump(input, stdin, |bytes| sent.bytes(WireDirection::Sent, bytes)))?;
    let received = recorder.clone();
    let output = spawn(move || pump(stdout, output, |bytes| received.bytes(WireDirection::Received, bytes)))?;
    let errors = spawn(move || pump(stderr, errors, |bytes| recorder.stderr(bytes)))?;
    let status = wait(child).await.map_err(CommandError::server)?;
    let end = Instant::now() + OUTPUT_TIMEOUT;
    for thread in [output, errors] {
        while !thread.is_finished() && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
    }
    recording.finish(connection, &status);
    match exit_code(&status) {
        0 => Ok(()),
        code => Err(CommandError::of_server(code)),
    }
}

fn start(command: &[OsString], common: &CommonOptions) -> Result<Child> {
    let Some((program, args)) = command.split_first() else {
        return Err(CommandError::usage("no server command: put it after `--`"));
    };
    let mut started = Command::new(program);
    started.args(args).envs(connect::variables(common)?);
    if let Some(directory) = &common.cwd {
        started.current_dir(directory);
    }
    started.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    started.spawn().map_err(CommandError::server_of(program.display()))
}

#[cfg(unix)]
fn own_streams() -> io::Result<(std::fs::File, std::fs::File, std::fs::File)> {
    use std::os::fd::AsFd as _;

    let stream = |stream: std::os::fd::BorrowedFd<'_>| stream.try_clone_to_owned().map(Into::into);
    Ok((stream(io::stdin().as_fd())?, stream(io::stdout().as_fd())?, stream(io::stderr().as_fd())?))
}

#[cfg(windows)]
fn own_streams() -> io::Result<(std::fs::File, std::fs::File, std::fs::File)> {
    use std::os::windows::io::AsHandle as _;

    let stream =
        |stream: std::os::windows::io::BorrowedHandle<'_>| stream.try_clone_to_owned().map(Into::into);
    Ok((
        stream(io::stdin().as_handle())?,
        stream(io::stdout().as_handle())?,
        stream(io::stderr().as_handle())?,
    ))
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    thread::Builder::new().spawn(work).map_err(CommandError::server)
}

/// Passes bytes on until their end. If nobody takes them any more, they are still read, so that their sender goes on.
fn pump(mut from: impl Read, to: impl Write, record: impl Fn(&[u8])) {
    let (mut buffer, mut to) = (vec![0; CHUNK], Some(to));
    while let Ok(bytes) = read(&mut from, &mut buffer)
        && !bytes.is_empty()
    {
        // Recorded first: an answer comes after its request.
        record(bytes);
        let written = to.as_mut().is_some_and(|to| to.write_all(bytes).and_then(|()| to.flush()).is_ok());
        to = to.filter(|_| written);
    }
}

fn read<'a>(from: &mut impl Read, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    loop {
        match from.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(length) => return Ok(buffer.get(..length).unwrap_or_default()),
        }
    }
}

/// Waits for the end of the server, and passes on what this process is asked to do by signals. An interrupt of a terminal
/// reaches the server by itself.
async fn wait(mut child: Child) -> io::Result<ExitStatus> {
    let server = child.id();
    let forward = async {
        let mut interrupts = Interrupts::listen();
        loop {
            let signal = interrupts.next_signal().await;
            pass_on(server, signal);
        }
    };
    or(smol::unblock(move || child.wait()), forward).await
}

#[cfg(unix)]
fn pass_on(server: u32, signal: async_signal::Signal) {
    use rustix::process::{Pid, Signal, kill_process};

    let signal = match signal {
        async_signal::Signal::Term => Signal::TERM,
        async_signal::Signal::Hup => Signal::HUP,
        _ => return,
    };
    if let Some(server) = i32::try_from(server).ok().and_then(Pid::from_raw) {
        // It may have ended.
        let _ = kill_process(server, signal);
    }
}

#[cfg(not(unix))]
fn pass_on(_: u32, _: async_signal::Signal) {}

fn exit_code(status: &ExitStatus) -> u8 {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(status).map(|signal| signal + 128);
    #[cfg(not(unix))]
    let signal = None;
    let code = status.code().or(signal).unwrap_or(1);
    // Windows has larger codes than other programs can return.
    u8::try_from(code & 0xff).unwrap_or(1)
}

/// Takes copies of what passes, for the thread that records them.
#[derive(Clone)]
struct Recorder {
    pieces: Sender<Piece>,
    waiting: Arc<AtomicUsize>,
}

enum Piece {
    Bytes(WireDirection, Vec<u8>),
    Stderr(Vec<u8>),
    /// Bytes that are not recorded.
    Gap(WireDirection),
    End,
}

impl Recorder {
    fn start(connection: Arc<TracedConnection>, redactor: &Redactor) -> Result<(Self, Recording)> {
        let (pieces, received) = mpsc::channel();
        let recorder = Self { pieces, waiting: Arc::default() };
        let (waiting, redactor) = (recorder.waiting.clone(), redactor.clone());
        let thread = spawn(move || record(&received, &waiting, &connection, &redactor))?;
        let recording = Recording { end: recorder.pieces.clone(), thread };
        Ok((recorder, recording))
    }

    fn bytes(&self, direction: WireDirection, bytes: &[u8]) {
        let piece = match self.waiting.load(Ordering::Relaxed) > MAX_WAITING {
            true => Piece::Gap(direction),
            false => Piece::Bytes(direction, bytes.to_vec()),
        };
        self.take(piece);
    }

    fn stderr(&self, bytes: &[u8]) {
        if self.waiting.load(Ordering::Relaxed) <= MAX_WAITING {
            self.take(Piece::Stderr(bytes.to_vec()));
        }
    }

    fn take(&self, piece: Piece) {
        self.waiting.fetch_add(piece.length(), Ordering::Relaxed);
        // The thread ends after the threads that pass bytes on.
        let _ = self.pieces.send(piece);
    }
}

impl Piece {
    fn length(&self) -> usize {
        match self {
            Self::Bytes(_, bytes) | Self::Stderr(bytes) => bytes.len(),
            Self::Gap(_) | Self::End => 0,
        }
    }
}

/// The thread that records.
struct Recording {
    end: Sender<Piece>,
    thread: JoinHandle<()>,
}

impl Recording {
    /// Waits until everything is recorded.
    fn finish(self, connection: Arc<TracedConnection>, status: &ExitStatus) {
        let _ = self.end.send(Piece::End);
        // A panic is on standard error already.
        let _ = self.thread.join();
        if let Some(connection) = Arc::into_inner(connection) {
            connection.close(status.to_string());
        }
    }
}

fn record(
    pieces: &Receiver<Piece>,
    waiting: &AtomicUsize,
    connection: &Arc<TracedConnection>,
    redactor: &Redactor,
) {
    let frames = connection.clone();
    let mut observer = WireObserver::new(move |frame| frames.record_frame(&frame)).redactor(redactor.clone());
    let mut errors = Lines::new(LONGEST);
    // Whether the beginning of the present line is missing, of either direction.
    let mut gaps = [false; 2];
    while let Ok(piece) = pieces.recv() {
        let length = piece.length();
        match piece {
            Piece::Bytes(direction, bytes) => {
                let gap = &mut gaps[direction as usize];
                observer.handle_bytes(direction, after_gap(gap, &bytes));
            }
            Piece::Gap(direction) => {
                let gap = &mut gaps[direction as usize];
                if !std::mem::replace(gap, true) {
                    observer.handle_bytes(direction, b"\n");
                    connection.record(TraceEvent::Lost { records: 1 });
                }
            }
            Piece::Stderr(bytes) => {
                errors.handle_input(bytes.into());
                while let Some(line) = errors.poll_line() {
                    record_error(connection, redactor, &line);
                }
            }
            Piece::End => break,
        }
        waiting.fetch_sub(length, Ordering::Relaxed);
    }
    if let Some(line) = errors.handle_eof() {
        record_error(connection, redactor, &line);
    }
}

/// The bytes behind the line whose beginning is missing.
fn after_gap<'a>(gap: &mut bool, bytes: &'a [u8]) -> &'a [u8] {
    if !*gap {
        return bytes;
    }
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return &[] };
    *gap = false;
    bytes.get(end + 1..).unwrap_or_default()
}

fn record_error(connection: &TracedConnection, redactor: &Redactor, line: &Line) {
    let (text, length) = match line {
        Line::Whole(text) => (text, text.len()),
        Line::TooLong { head, bytes, .. } => (head, *bytes),
    };
    let whole = String::from_utf8_lossy(text);
    let shown = redactor.cut_text(&whole);
    let length = if length > text.len() { length } else { shown.len() };
    connection.record(TraceEvent::Stderr { frame: TracedFrame::new(shown.as_bytes(), length) });
}
