//! A Redis whose replies a test chooses, on a loopback socket.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _};
use mcp_hyper::redis::{Redis, RedisError, RedisEvent, RedisOptions};
use smol::net::{TcpListener, TcpStream};

use crate::common::runtime::{TestRuntime, within};

/// The output of `INFO` of a Redis that keeps everything.
pub(super) const INFO: &str = "# Server\r\nrun_id:r1\r\n# Memory\r\nmaxmemory_policy:noeviction\r\n# Persistence\r\nloading:0\r\naof_enabled:1\r\n# Replication\r\nrole:master\r\nmaster_replid:p1\r\n";

/// The reaction of the peer to a command.
pub(super) enum PeerAction {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes, and closes the connection.
    Close(Vec<u8>),
    /// Sends nothing.
    Wait,
}

impl PeerAction {
    pub(super) fn send(bytes: impl AsRef<[u8]>) -> Self {
        Self::Send(bytes.as_ref().to_vec())
    }

    pub(super) fn close(bytes: impl AsRef<[u8]>) -> Self {
        Self::Close(bytes.as_ref().to_vec())
    }
}

pub(super) fn bulk(text: &str) -> Vec<u8> {
    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
}

/// A command: its name and its arguments.
pub(super) type Command = Vec<String>;

/// The script: the number of the connection, and the command, in; what to do, out. `None` for the usual greeting.
type Script = dyn Fn(usize, &Command) -> Option<PeerAction> + Send + Sync;

/// A scripted Redis, and the commands that it has received.
pub(super) struct Peer {
    pub(super) url: String,
    received: Arc<Mutex<Vec<(usize, Command)>>>,
    _serving: smol::Task<()>,
}

impl Peer {
    pub(super) async fn start(
        script: impl Fn(usize, &Command) -> Option<PeerAction> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let (script, received) = (Arc::new(script), Arc::default());
        let log: Arc<Mutex<Vec<_>>> = Arc::clone(&received);
        let serving = smol::spawn(async move {
            let mut connections = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                let number = connections.len();
                connections.push(smol::spawn(serve(stream, number, script.clone(), log.clone())));
            }
        });
        Self { url, received, _serving: serving }
    }

    /// The commands received so far, each with the number of its connection.
    pub(super) fn received(&self) -> Vec<(usize, Command)> {
        self.received.lock().unwrap().clone()
    }

    /// The number of received commands of this name.
    pub(super) fn count(&self, name: &str) -> usize {
        self.received().iter().filter(|(_, command)| command[0] == name).count()
    }
}

async fn serve(
    mut stream: TcpStream,
    number: usize,
    script: Arc<Script>,
    log: Arc<Mutex<Vec<(usize, Command)>>>,
) {
    let (mut input, mut buffer) = (VecDeque::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        input.extend(&buffer[..count]);
        while let Some(command) = take_command(&mut input) {
            log.lock().unwrap().push((number, command.clone()));
            let act = script(number, &command).unwrap_or_else(|| greet(&command));
            let (PeerAction::Send(bytes) | PeerAction::Close(bytes)) = &act else { continue };
            if stream.write_all(bytes).await.is_err() || matches!(act, PeerAction::Close(_)) {
                return;
            }
        }
    }
}

/// The replies of a Redis that keeps everything, and has no tasks.
fn greet(command: &Command) -> PeerAction {
    PeerAction::Send(match command[0].as_str() {
        "PING" => b"+PONG\r\n".to_vec(),
        "INFO" => bulk(INFO),
        "CONFIG" => [&b"*2\r\n"[..], &bulk("appendfsync"), &bulk("always")].concat(),
        "EVAL" if is_identification(command) => [&b"*2\r\n:0\r\n"[..], &bulk("1700000000000")].concat(),
        "HGET" => b"$-1\r\n".to_vec(),
        _ => b"+OK\r\n".to_vec(),
    })
}

/// Whether the command asks since when this Redis has the records.
pub(super) fn is_identification(command: &Command) -> bool {
    command[0] == "EVAL" && command.last().is_some_and(|identity| identity.starts_with('r'))
}

/// Takes a whole command off the input.
fn take_command(input: &mut VecDeque<u8>) -> Option<Command> {
    let bytes = input.make_contiguous();
    let (mut at, count) = read_length(bytes, 0, '*')?;
    let mut command = Command::new();
    for _ in 0..count {
        let (start, length) = read_length(bytes, at, '$')?;
        let argument = bytes.get(start..start + length + 2)?;
        command.push(String::from_utf8(argument[..length].to_vec()).unwrap());
        at = start + length + 2;
    }
    input.drain(..at);
    Some(command)
}

/// Reads a line with a length; returns where the next begins.
fn read_length(bytes: &[u8], at: usize, kind: char) -> Option<(usize, usize)> {
    let end = at + bytes.get(at..)?.windows(2).position(|pair| pair == b"\r\n")?;
    let line = std::str::from_utf8(&bytes[at..end]).unwrap();
    Some((end + 2, line.strip_prefix(kind).unwrap().parse().unwrap()))
}

/// A connection to a peer, with a time limit that no reply of a loopback needs.
pub(super) struct Connection {
    pub(super) redis: Redis,
    pub(super) events: Arc<Mutex<Vec<RedisEvent>>>,
    _driver: smol::Task<()>,
}

impl Connection {
    pub(super) fn open(url: &str) -> Self {
        Self::with(RedisOptions::new(url).unwrap().timeout(Duration::from_secs(5)))
    }

    pub(super) fn with(options: RedisOptions) -> Self {
        let events = Arc::default();
        let log: Arc<Mutex<Vec<RedisEvent>>> = Arc::clone(&events);
        let options = options.runtime(TestRuntime).on_event(move |event| log.lock().unwrap().push(event));
        let connecting = within(async { options.connect() });
        let (redis, driver) = smol::block_on(connecting).unwrap();
        Self { redis, events, _driver: smol::spawn(within(driver)) }
    }

    pub(super) async fn ready(&self) -> Result<(), RedisError> {
        within(self.redis.ready()).await
    }

    pub(super) fn events(&self) -> Vec<RedisEvent> {
        self.events.lock().unwrap().clone()
    }
}
