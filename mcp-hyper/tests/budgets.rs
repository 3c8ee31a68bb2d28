//! Every limit of memory of a server under attack, on real sockets: HTTP/1.1, HTTP/2 and WebSocket (contract 8). The bytes
//! on the heap stay below the bound of the limit, they do not grow with the attack, and they are given back when the
//! attacker disconnects. `tests/budgets` of mcp-proto has the limits of the machines.
//!
//! `cargo test -p mcp-hyper --all-features --test budgets -- --nocapture` prints the figures. A program of its own, because
//! it counts the allocations of the whole process.
#![cfg(all(feature = "server", feature = "http2", feature = "websocket"))]
#![allow(missing_docs)]

mod common;
#[path = "common/heap.rs"]
mod heap;

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use common::server::*;
use heap::{live, settle, take_peak};
use mcp_hyper::ServerOptions;
use mcp_hyper::mcp_proto::transport::http::server::HttpServerConfig;
use serde_json::json;

/// After this time without an allocation the server has read all that it will.
const QUIET: Duration = Duration::from_millis(100);
const KIB: usize = 1024;
/// The connections of attacks on something else than the number of connections.
const CONNECTIONS: usize = 16;
/// The bytes of a connection and its buffers.
const CONNECTION: usize = 32 * KIB;
/// The bytes that may stay when the attacker has disconnected: capacities of tables.
const LEFT: usize = 64 * KIB;

/// What one attack tries to exceed.
struct Attack {
    limit: &'static str,
    name: &'static str,
    /// The value of the limit, in bytes or entries.
    value: usize,
    /// The most bytes that the server may hold at that value.
    bound: usize,
    /// A server with that limit.
    options: fn(ServerOptions, usize) -> ServerOptions,
    /// Sends this many bytes or entries.
    run: fn(SocketAddr, usize) -> Vec<RawClient>,
}

const ATTACKS: &[Attack] = &[
    Attack {
        limit: "ServerLimits::header_bytes",
        name: "HTTP/1.1: a header without an end",
        value: 128 * KIB,
        bound: 3 * 128 * KIB,
        options: |options, limit| options.limits(|limits| limits.header_bytes = limit as u32),
        run: |address, sent| {
            let mut client = RawClient::connect(address);
            client.send("POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: ");
            flood(&mut client, &[b'x'; KIB], sent);
            vec![client]
        },
    },
    Attack {
        limit: "ServerLimits::connections",
        name: "HTTP/1.1: heads that do not end",
        value: 16,
        bound: 24 * CONNECTION,
        options: |options, limit| options.limits(|limits| limits.connections = limit),
        run: |address, sent| {
            (0..sent)
                .map(|_| {
                    let mut client = RawClient::connect(address);
                    flood(&mut client, b"POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: x", 1);
                    client
                })
                .collect()
        },
    },
    Attack {
        limit: "ByteLimits::owner",
        name: "HTTP/1.1: bodies that do not end",
        value: 256 * KIB,
        bound: 2 * 256 * KIB + CONNECTIONS * 3 * CONNECTION,
        options: owner,
        run: |address, sent| {
            connections(address, |client| {
                client.send(
                    "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                accept: application/json, text/event-stream\r\ncontent-length: 4000000\r\n\r\n",
                );
                flood(client, &[b' '; KIB], sent / CONNECTIONS);
            })
        },
    },
    Attack {
        limit: "ServerLimits::header_bytes",
        name: "HTTP/2: headers without an end",
        value: 32 * KIB,
        bound: 4 * 32 * KIB + CONNECTION,
        options: |options, limit| options.limits(|limits| limits.header_bytes = limit as u32),
        run: |address, sent| {
            let mut client = http2(address);
            client.send(frame(HEADERS, 0, 1, &[0x83, 0x86, 0x84]));
            let more = field("x", &"x".repeat(8 * KIB));
            flood(&mut client, &frame(CONTINUATION, 0, 1, &more), sent);
            vec![client]
        },
    },
    Attack {
        limit: "ByteLimits::owner",
        name: "HTTP/2: answers without a window",
        value: 256 * KIB,
        bound: 4 * 256 * KIB + CONNECTION,
        options: owner,
        run: |address, sent| {
            let mut client = http2(address);
            let call = call("big", &json!({ "bytes": sent / 100 }), Progress::Unwanted);
            (0..100).for_each(|number| flood(&mut client, &http2_request(number, &call), 1));
            vec![client]
        },
    },
    Attack {
        limit: "HttpServerConfig::body_bytes",
        name: "WebSocket: a message of fragments without an end",
        value: 128 * KIB,
        bound: 3 * 128 * KIB + CONNECTION,
        options: |options, limit| options.configure(|config| config.body_bytes = limit),
        run: |address, sent| {
            let mut client = websocket(address);
            let fragment = [websocket_frame(0, KIB), vec![b' '; KIB]].concat();
            client.send(websocket_frame(1, 0));
            flood(&mut client, &fragment, sent);
            vec![client]
        },
    },
    Attack {
        limit: "ByteLimits::owner",
        name: "WebSocket: messages that do not end",
        value: 256 * KIB,
        bound: 2 * 256 * KIB + CONNECTIONS * 2 * CONNECTION,
        options: owner,
        run: |address, sent| {
            websockets(address, |client| {
                client.send(websocket_frame(0x81, sent / CONNECTIONS + 1));
                flood(client, &[b' '; KIB], sent / CONNECTIONS);
            })
        },
    },
    Attack {
        limit: "ByteLimits::owner",
        name: "WebSocket: frames of which only the head arrives",
        value: 256 * KIB,
        bound: 2 * 256 * KIB + CONNECTIONS * 2 * CONNECTION,
        options: owner,
        run: |address, sent| {
            websockets(address, |client| {
                client.send(websocket_frame(0x81, sent / CONNECTIONS));
                client.send(" ");
            })
        },
    },
];

/// Attacks that exceed no limit of the configuration, or that hold no more if the limit is higher.
const FLOODS: &[Attack] = &[
    Attack {
        limit: "ServerLimits::header_bytes",
        name: "HTTP/2: headers that refer to a long one",
        value: 32 * KIB,
        bound: 2 * CONNECTION,
        options: |options, limit| options.limits(|limits| limits.header_bytes = limit as u32),
        run: |address, sent| {
            let mut client = http2(address);
            let mut block = vec![0x83, 0x86, 0x84, 0x40];
            block.extend([string("x"), string(&"x".repeat(3000))].concat());
            block.resize(block.len() + sent / 3000, 0x80 | 62);
            client.send(frame(HEADERS, END_HEADERS, 1, &block));
            vec![client]
        },
    },
    Attack {
        limit: "PING",
        name: "HTTP/2: pings whose answers are not read",
        value: 16 * KIB,
        bound: 4 * CONNECTION,
        options: |options, _| options,
        run: |address, sent| {
            let mut client = http2(address);
            flood(&mut client, &frame(PING, 0, 0, &[0; 8]).repeat(64), sent);
            vec![client]
        },
    },
    Attack {
        limit: "SETTINGS",
        name: "HTTP/2: settings whose answers are not read",
        value: 16 * KIB,
        bound: 4 * CONNECTION,
        options: |options, _| options,
        run: |address, sent| {
            let mut client = http2(address);
            flood(&mut client, &frame(SETTINGS, 0, 0, &[]).repeat(64), sent);
            vec![client]
        },
    },
    Attack {
        limit: "RST_STREAM",
        name: "HTTP/2: calls that are cancelled at once",
        value: 200,
        bound: 20 * CONNECTION,
        options: |options, _| options,
        run: |address, sent| {
            let mut client = http2(address);
            let call = call("wait", &json!({}), Progress::Unwanted);
            for number in 0..sent {
                flood(&mut client, &http2_request(number, &call), 1);
                flood(&mut client, &frame(RST_STREAM, 0, stream(number), &[0, 0, 0, 8]), 1);
            }
            vec![client]
        },
    },
    Attack {
        limit: "Ping",
        name: "WebSocket: pings whose answers are not read",
        value: 128 * KIB,
        bound: 4 * CONNECTION,
        options: |options, _| options,
        run: |address, sent| {
            let mut client = websocket(address);
            let ping = [b"\x89\xfd\0\0\0\0".as_slice(), &[0; 125]].concat();
            flood(&mut client, &ping.repeat(16), sent);
            vec![client]
        },
    },
];

#[derive(Debug)]
struct HeapUse {
    /// The highest number of bytes during the attack.
    peak: usize,
    /// The number after the attack.
    held: usize,
    /// The number after the attacker has disconnected.
    left: usize,
}

impl Attack {
    fn measure(&self, limit: usize, sent: usize) -> HeapUse {
        let (listener, address) = listener();
        let options = (self.options)(serving(router(&HandlerLog::default())).websocket(), limit);
        let (server, driver) = options.listen(listener);
        let driver = run(driver);
        RawClient::connect(address).echo("hello");
        settle("the server is idle", QUIET);
        let before = live();
        take_peak();
        let clients = (self.run)(address, sent);
        settle("the server has read the attack", QUIET);
        let (held, peak) = (live().saturating_sub(before), take_peak().saturating_sub(before));
        drop(clients);
        let mut left = usize::MAX;
        let begin = Instant::now();
        while left > LEFT && begin.elapsed() < PATIENCE {
            // The reactor frees memory on its next event. The server may refuse the connection.
            let mut client = RawClient::connect(address);
            flood(&mut client, b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", 1);
            let _ = client.stream.read(&mut [0; 256]);
            left = live().saturating_sub(before);
        }
        server.handle().close();
        ended(driver).unwrap();
        HeapUse { peak, held, left }
    }

    /// The rules that the attack breaks.
    fn failures(&self, times: [usize; 2]) -> Vec<String> {
        let Self { limit, name, value, bound, .. } = self;
        let [small, large] = times.map(|times| self.measure(*value, times * value));
        println!("{limit} = {value}, {name}: {small:?}, {large:?}, bound {bound}");
        let rules = [
            (small.peak.max(large.peak) <= *bound, "more than the bound"),
            (large.peak.max(large.held) <= small.peak + bound / 2, "it grows with the attack"),
            (small.left.max(large.left) <= LEFT, "it is not given back"),
        ];
        let broken = rules.into_iter().filter(|(holds, _)| !holds);
        broken
            .map(|(_, what)| format!("{limit}, {name}: {what}: {small:?}, {large:?}, bound {bound}"))
            .collect()
    }

    /// With a limit of ten times the value, the larger attack must exceed the bound: otherwise it would prove nothing.
    fn failure_to_bind(&self) -> Option<String> {
        let raised = self.measure(10 * self.value, 40 * self.value);
        (raised.peak <= self.bound)
            .then(|| format!("{}, {}: the limit does not bind: {raised:?}", self.limit, self.name))
    }
}

/// Attacks of ten and forty times their limit.
#[test]
fn server_stays_within_its_limits() {
    let mut failures = Vec::new();
    for attack in ATTACKS.iter().chain(FLOODS) {
        failures.extend(attack.failures([10, 40]));
    }
    for attack in ATTACKS {
        // A server that a busy machine holds up reads too little of an attack.
        failures.extend((0..3).map_while(|_| attack.failure_to_bind()).nth(2));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn owner(options: ServerOptions, limit: usize) -> ServerOptions {
    options.configure(|config: &mut HttpServerConfig| config.byte_limits.owner = limit)
}

/// Sends pieces up to this many bytes, or until the server reads no more.
fn flood(client: &mut RawClient, piece: &[u8], bytes: usize) {
    client.stream.set_write_timeout(Some(2 * QUIET)).unwrap();
    for _ in 0..bytes.div_ceil(piece.len()) {
        if client.stream.write_all(piece).is_err() {
            return;
        }
    }
}

fn connections(address: SocketAddr, attack: impl Fn(&mut RawClient)) -> Vec<RawClient> {
    each((0..CONNECTIONS).map(|_| RawClient::connect(address)).collect(), attack)
}

fn websockets(address: SocketAddr, attack: impl Fn(&mut RawClient)) -> Vec<RawClient> {
    each((0..CONNECTIONS).map(|_| websocket(address)).collect(), attack)
}

fn each(mut clients: Vec<RawClient>, attack: impl Fn(&mut RawClient)) -> Vec<RawClient> {
    clients.iter_mut().for_each(attack);
    clients
}

// HTTP/2, RFC 9113 and RFC 7541.

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// A connection without a window for answers.
fn http2(address: SocketAddr) -> RawClient {
    let mut client = RawClient::connect(address);
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    client.send(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
    client
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
    [&length, [kind, flags].as_slice(), &stream.to_be_bytes(), payload].concat()
}

fn stream(number: usize) -> u32 {
    2 * number as u32 + 1
}

/// A text of HPACK.
fn string(text: &str) -> Vec<u8> {
    let mut encoded = Vec::new();
    match text.len().checked_sub(127) {
        None => encoded.push(text.len() as u8),
        Some(mut rest) => {
            encoded.push(127);
            while rest >= 128 {
                encoded.push(128 | (rest % 128) as u8);
                rest /= 128;
            }
            encoded.push(rest as u8);
        }
    }
    encoded.extend_from_slice(text.as_bytes());
    encoded
}

/// A header that is not indexed.
fn field(name: &str, value: &str) -> Vec<u8> {
    [vec![0], string(name), string(value)].concat()
}

fn http2_request(number: usize, (headers, body): &(String, String)) -> Vec<u8> {
    let more = headers.lines().map(|line| line.split_once(": ").unwrap());
    let all = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/mcp"),
        (":authority", "localhost"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    let block: Vec<u8> = all.into_iter().chain(more).flat_map(|(name, value)| field(name, value)).collect();
    [frame(HEADERS, END_HEADERS, stream(number), &block), frame(0, 1, stream(number), body.as_bytes())]
        .concat()
}

// WebSocket, RFC 6455.

fn websocket(address: SocketAddr) -> RawClient {
    let mut client = RawClient::connect(address);
    client.send(
        "GET /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    assert_eq!(client.head().status, 101);
    client.forget();
    client
}

/// The head of a frame of this length, masked by zeros.
fn websocket_frame(kind: u8, length: usize) -> Vec<u8> {
    [&[kind, 0xff], (length as u64).to_be_bytes().as_slice(), &[0; 4]].concat()
}
