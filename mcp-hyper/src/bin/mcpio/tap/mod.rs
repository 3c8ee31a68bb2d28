//! `mcpio tap`: stands between a client and a server, and writes what passes into a trace file.

mod follow;
mod install;
mod proxy;

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, Read, Write};
#[cfg(target_os = "linux")]
use std::os::fd::AsFd as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mcp_hyper::host::{ConnectionTrace, TraceFile};
use mcp_proto::redact::{Redactor, is_secret_header};
use mcp_smol::WireDirection;
use smol::future::or;

use crate::connect::{self, redactor_of, server_name};
use crate::error::{CommandError, Interrupts, Result};
use crate::options::{CommonOptions, LoginOptions};
#[cfg(unix)]
use crate::terminal::is_in_foreground_group;
use crate::terminal::{Screen, close_input, close_output, own_streams};

pub(crate) use follow::follow;
pub(crate) use install::{TapEdit, edit};

/// The help of `mcpio tap`.
pub(crate) const TAP: &str = "\
Stand between a client and a server, and write what passes into the file of --trace-file

In the configuration of an application, it comes before the command of a server. `mcpio tap install` puts it there, and \
`mcpio tap remove` takes it out:

    mcpio tap install --dry-run cursor NAME
    mcpio tap install cursor NAME
    mcpio tap remove cursor NAME

Bytes pass unchanged, also those that are no messages, with the server's standard error and exit code; the file has them \
without secrets. `mcpio trace FILE` shows it.

For a server at a URL it prints another URL, to give to the client, whose requests are passed on:

    mcpio tap --trace-file /tmp/NAME.trace https://example.com/mcp

Only clients on this machine that were given it can use that URL. If the server requires a login, the page of this \
program's own opens: a client would get a token for the URL that it knows. A fixed token, by --header-env, or one that the \
client's configuration has, needs none.";

/// How much is read at a time, in bytes.
const CHUNK: usize = 64 * 1024;

/// How many bytes are read into the same memory. What passes stays there until it is recorded.
const BLOCK: usize = 1024 * 1024;

/// How much the pipes hold, in bytes, where the system lets it be set: so the programs run longer at a time. All pipes of a
/// user share a limit, by default 64 MiB. The server's output is left as it is: what lies there when the server has ended
/// may be lost.
#[cfg(target_os = "linux")]
const PIPE: usize = 256 * 1024;

/// How long to wait for output after the end of the server, which its own children may keep open.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to go on recording after the end of the server.
const RECORDING_TIMEOUT: Duration = Duration::from_secs(2);

/// Stands before the server of a command or at a URL.
pub(crate) async fn run(
    server: &[OsString],
    login: &LoginOptions,
    common: &CommonOptions,
    screen: &mut Screen,
) -> Result {
    let Some(trace) = &common.traced else {
        return Err(CommandError::usage("name the file to write by --trace-file FILE"));
    };
    match connect::url(server) {
        Some(url) => proxy::run(url, login, common, screen).await,
        None => run_command(server, trace, common).await,
    }
}

/// Starts a server and passes on its streams unchanged, until it ends. The exit code is the server's.
async fn run_command(command: &[OsString], trace: &TraceFile, common: &CommonOptions) -> Result {
    let redactor = with_own_secrets(redactor_of(command, common)?);
    let mut child = start(command, common)?;
    // After the start, as the server inherits which signals are ignored; before any output, which a signal may follow.
    let interrupts = Interrupts::listen();
    let connection = trace.connection(&server_name(command), "stdio", redactor);
    // The children of the server may keep its output open after the end of the trace.
    let recording = Arc::new(Mutex::new(Some(connection)));
    // The threads read from this process's own streams, whose buffers would hold messages back.
    let (input, output, errors) = own_streams().map_err(CommandError::server)?;
    let taken = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = taken else {
        return Err(CommandError::server("the server has no standard streams"));
    };
    #[cfg(target_os = "linux")]
    for pipe in [input.as_fd(), output.as_fd(), stdin.as_fd()] {
        // It may be no pipe, or the user may have many.
        let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE);
    }
    let sent = recording.clone();
    spawn(move || {
        pump(input, stdin, |bytes| record(&sent, |to| to.record_bytes(WireDirection::Sent, bytes)));
        close_input();
    })?;
    let received = recording.clone();
    let (running, outputs) = mpsc::channel::<Infallible>();
    let run = running.clone();
    spawn(move || {
        pump(stdout, output, |bytes| record(&received, |to| to.record_bytes(WireDirection::Received, bytes)));
        close_output();
        drop(run);
    })?;
    let written = recording.clone();
    spawn(move || {
        pump(stderr, errors, |bytes| record(&written, |to| to.record_stderr(&bytes)));
        drop(running);
    })?;
    let status = wait(child, interrupts).await.map_err(CommandError::server)?;
    // What they pass on later is not recorded.
    let _ = outputs.recv_timeout(OUTPUT_TIMEOUT);
    let connection = lock(&recording).take();
    // What is not written then is lost, as the trace says.
    let _ = trace.flush_within(RECORDING_TIMEOUT);
    if let Some(connection) = connection {
        connection.close(status.to_string());
    }
    match exit_code(&status) {
        0 => Ok(()),
        code => Err(CommandError::of_server(code)),
    }
}

fn lock(recording: &Mutex<Option<ConnectionTrace>>) -> MutexGuard<'_, Option<ConnectionTrace>> {
    recording.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records something, until the trace of the connection is over.
fn record(recording: &Mutex<Option<ConnectionTrace>>, write: impl FnOnce(&ConnectionTrace)) {
    if let Some(connection) = &*lock(recording) {
        write(connection);
    }
}

/// A redactor that knows the secrets of this process's environment too, which the server has.
pub(crate) fn with_own_secrets(redactor: Redactor) -> Redactor {
    let secrets = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_secret_header));
    secrets.fold(redactor, |redactor, (_, value)| redactor.known(value.as_encoded_bytes()))
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

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    thread::Builder::new().spawn(work).map_err(CommandError::server)
}

/// Passes bytes on until their end, or until they cannot be written: both ends are closed then, so that their sender notices.
fn pump(mut from: impl Read, mut to: impl Write, record: impl Fn(Bytes)) {
    let mut block = BytesMut::new();
    while let Ok(bytes) = read(&mut from, &mut block)
        && !bytes.is_empty()
    {
        // Recorded first: an answer comes after its request.
        record(bytes.clone());
        if to.write_all(&bytes).and_then(|()| to.flush()).is_err() {
            break;
        }
    }
}

/// Reads into the rest of a block, or into a new one.
fn read(from: &mut impl Read, block: &mut BytesMut) -> io::Result<Bytes> {
    if block.len() < CHUNK {
        *block = BytesMut::zeroed(BLOCK);
    }
    loop {
        match from.read(block.get_mut(..CHUNK).unwrap_or_default()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(length) => return Ok(block.split_to(length).freeze()),
        }
    }
}

/// Waits for the end of the server, and passes signals on.
async fn wait(mut child: Child, mut interrupts: Interrupts) -> io::Result<ExitStatus> {
    let server = child.id();
    let forward = async {
        loop {
            let signal = interrupts.next_signal().await;
            pass_on(server, signal);
        }
    };
    or(smol::unblock(move || child.wait()), forward).await
}

/// Sends a signal to the server, unless its terminal has done so.
#[cfg(unix)]
fn pass_on(server: u32, signal: async_signal::Signal) {
    use rustix::process::{Pid, Signal, kill_process};

    let signal = match signal {
        // Ctrl-C reaches the whole foreground group. Any other sender means this process alone.
        async_signal::Signal::Int if !is_in_foreground_group() => Signal::INT,
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
