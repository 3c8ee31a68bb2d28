//! Helpers of the tests with real processes.
#![allow(dead_code, unreachable_pub)]

use std::fs;
use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_lite::future::or;
use futures_lite::{AsyncRead, AsyncReadExt as _};
use mcp_smol::{Command, ShutdownTimeouts};
use smol::Timer;

/// A shell script as a child with enough time to exit by itself, even on a busy machine.
pub fn sh(script: &str) -> Command {
    Command::new("sh").args(["-c", script]).shutdown(times(10_000, 200))
}

pub fn times(close: u64, terminate: u64) -> ShutdownTimeouts {
    ShutdownTimeouts { close: Duration::from_millis(close), terminate: Duration::from_millis(terminate) }
}

/// Runs a future under smol's own `block_on`, for ten seconds at most.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    smol::block_on(bounded(future))
}

/// Spawns a future on smol's threads.
pub fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> smol::Task<T> {
    smol::spawn(in_runtime(future))
}

/// Runs a future inside of the crate's default runtime, on whatever executor polls it: async-io needs nothing.
#[cfg(feature = "smol")]
pub async fn in_runtime<T>(future: impl Future<Output = T>) -> T {
    future.await
}

/// Enters the crate's default runtime for this scope.
#[cfg(feature = "smol")]
pub fn enter() -> impl Sized {}

/// Runs a future inside of the crate's default runtime, on whatever executor polls it.
#[cfg(not(feature = "smol"))]
pub async fn in_runtime<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| {
        let _entered = enter();
        future.as_mut().poll(cx)
    })
    .await
}

/// Enters the crate's default runtime for this scope: tokio, on a thread of its own.
#[cfg(not(feature = "smol"))]
pub fn enter() -> impl Sized {
    use std::sync::OnceLock;

    static RUNTIME: OnceLock<tokio::runtime::Handle> = OnceLock::new();
    let start = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        handle
    };
    RUNTIME.get_or_init(start).enter()
}

#[cfg(windows)]
pub use smol::net::TcpStream as Socket;
#[cfg(unix)]
pub use smol::net::unix::UnixStream as Socket;
#[cfg(windows)]
pub use std::net::TcpStream as BlockingSocket;
#[cfg(unix)]
pub use std::os::unix::net::UnixStream as BlockingSocket;

/// A connected pair of sockets for threads: Unix sockets, or loopback connections on Windows, which has no pairs.
pub fn blocking_pair() -> (BlockingSocket, BlockingSocket) {
    #[cfg(unix)]
    return BlockingSocket::pair().unwrap();
    #[cfg(windows)]
    {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = BlockingSocket::connect(listener.local_addr().unwrap()).unwrap();
        (ours, listener.accept().unwrap().0)
    }
}

/// A socket of a pair, for an executor.
pub fn polled(socket: BlockingSocket) -> Socket {
    smol::Async::new(socket).unwrap().into()
}

/// A connected pair of sockets for an executor.
pub fn pair() -> (Socket, Socket) {
    let (ours, theirs) = blocking_pair();
    (polled(ours), polled(theirs))
}

/// Limits a future to ten seconds.
pub async fn bounded<T>(future: impl Future<Output = T>) -> T {
    or(in_runtime(future), async {
        Timer::after(Duration::from_secs(10)).await;
        panic!("still not done after ten seconds")
    })
    .await
}

/// The next line, without its end.
pub async fn line(reader: &mut (impl AsyncRead + Unpin)) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while reader.read(&mut byte).await.unwrap() == 1 && byte != *b"\n" {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// The state letter of a process, or `None` if no process has this id.
pub fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Whether a process runs; a zombie that its own parent has not reaped does not.
pub fn runs(pid: u32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Polls a condition that no event announces.
pub fn eventually(goal: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(10), "not within ten seconds: {goal}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A temporary directory, removed when the value is dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mcp-smol-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a file, whose permissions count on Unix.
    #[cfg_attr(windows, expect(unused_variables))]
    pub fn file(&self, name: &str, content: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            // A process that another thread starts meanwhile has this file open until its exec, and no file that is open
            // for writing can be executed: it is written by a process that starts none.
            let written = path.with_extension("written");
            fs::rename(&path, &written).unwrap();
            let copied =
                std::process::Command::new("cp").arg("-p").arg(&written).arg(&path).status().unwrap();
            assert!(copied.success());
        }
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
