//! Attacks of clients over HTTP on a server.

use core::net::IpAddr;
use core::task::{Context as TaskContext, Poll, Waker};
use core::time::Duration;

use mcp_proto::Bytes;
use mcp_proto::front::http::HttpExchange;
use mcp_proto::front::{Context, NoArguments, Router};
use mcp_proto::peer::Principal;
use mcp_proto::peer::server::ServerConfig;
use mcp_proto::schema::{LoggingLevel, ServerCapability};
use mcp_proto::transport::http::server::{HttpServerConfig, LegacyPaths, RequestHead};
use serde_json::{Value, json};

use crate::common::front_http::{HttpHarness, ParkedHandlers, TestExchange};
use crate::common::messages::request;
use crate::common::tools::tool;
use crate::stream::endless;
use crate::{Attack, BYTES, ENTRIES, HeapUse, KIB, measure_attack};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        limit: "HttpServerConfig::body_bytes",
        name: "a body without an end",
        value: BYTES,
        bound: 2 * BYTES,
        run: |limit, sent| {
            web(
                |config| config.body_bytes = limit,
                |web| {
                    let mut exchange = web.begin(1);
                    endless(sent, |piece| exchange.handle_body(piece));
                    web.open.push(exchange);
                },
            )
        },
    },
    Attack {
        limit: "ByteLimits::owner",
        name: "slow bodies from one address",
        value: BYTES,
        bound: 3 * BYTES,
        run: |limit, sent| {
            web(|config| config.byte_limits.owner = limit, |web| web.slow_bodies(sent, |web, _| web.begin(1)))
        },
    },
    Attack {
        limit: "ByteLimits::unauthenticated",
        name: "slow bodies from many addresses",
        value: BYTES,
        bound: 3 * BYTES,
        run: |limit, sent| {
            web(
                |config| config.byte_limits.unauthenticated = limit,
                |web| web.slow_bodies(sent, |web, n| web.begin(n as u32)),
            )
        },
    },
    Attack {
        limit: "ByteLimits::total",
        name: "slow bodies of many principals",
        value: BYTES,
        bound: 3 * BYTES,
        run: |limit, sent| {
            web(
                |config| config.byte_limits.total = limit,
                |web| {
                    web.slow_bodies(sent, |web, n| {
                        web.http.principal = Some(Principal::new(n.to_string()));
                        web.begin(1)
                    })
                },
            )
        },
    },
    Attack {
        limit: "ByteLimits::owner",
        name: "answers that are not read",
        value: 2 * BYTES,
        bound: 5 * BYTES,
        run: |limit, sent| {
            web(
                |config| config.byte_limits.owner = limit,
                |web| {
                    for _ in 0..sent / (8 * KIB) {
                        let mut exchange = web.http.call("echo", json!({"bytes": 8 * KIB})).exchange;
                        if ready(exchange.poll_head(&mut cx())).status == 200 {
                            web.open.push(exchange);
                        }
                    }
                },
            )
        },
    },
    Attack {
        limit: "ByteLimits::owner",
        name: "answers in a session that are not read",
        value: 2 * BYTES,
        bound: 6 * BYTES,
        run: |limit, sent| {
            web(
                |config| config.byte_limits.owner = limit,
                |web| {
                    let session = web.http.open();
                    for _ in 0..sent / (8 * KIB) {
                        let used = web.http.server.handle().bytes_used();
                        let exchange = web.echo(&session, 8 * KIB).exchange;
                        if web.http.server.handle().bytes_used() > used + 4 * KIB {
                            web.open.push(exchange);
                        }
                    }
                },
            )
        },
    },
    Attack {
        limit: "HttpServerConfig::stored_bytes",
        name: "answers whose streams break off",
        value: BYTES,
        bound: 3 * BYTES,
        run: |limit, sent| {
            web(
                |config| config.stored_bytes = limit,
                |web| {
                    let session = web.http.open();
                    (0..sent / KIB).for_each(|_| drop(web.echo(&session, KIB)));
                },
            )
        },
    },
    Attack {
        limit: "HttpServerConfig::stored_bytes",
        name: "answers that were read",
        value: 4 * BYTES,
        bound: 2 * BYTES,
        run: |limit, sent| {
            web(
                |config| config.stored_bytes = limit,
                |web| {
                    let session = web.http.open();
                    (0..sent / (4 * KIB)).for_each(|_| web.echo(&session, 4 * KIB).poll_exchange());
                },
            )
        },
    },
    Attack {
        limit: "HttpServerConfig::stored_events",
        name: "small answers whose streams break off",
        value: ENTRIES,
        bound: ENTRIES * 2 * KIB,
        run: |limit, sent| {
            web(
                |config| config.stored_events = limit,
                |web| {
                    let session = web.http.open();
                    (0..sent).for_each(|_| drop(web.echo(&session, 1)));
                },
            )
        },
    },
    Attack {
        limit: "HttpServerConfig::max_sessions",
        name: "handshakes",
        value: ENTRIES,
        bound: ENTRIES * 5 * KIB,
        run: |limit, sent| {
            web(|config| config.max_sessions = limit, |web| (0..sent).for_each(|_| drop(web.http.open())))
        },
    },
    Attack {
        limit: "Limits::requests_in",
        name: "calls in a session that do not end",
        value: ENTRIES,
        bound: ENTRIES * 4 * KIB,
        run: |limit, sent| {
            limited(
                |config| config.limits.requests_in = limit,
                |web| {
                    let session = web.http.open();
                    for _ in 0..sent {
                        let mut call = web.http.post_request(
                            &session,
                            "tools/call",
                            json!({"name": "hold", "arguments": {}}),
                        );
                        if call.try_message().is_none() {
                            web.open.push(call.exchange);
                        }
                    }
                },
            )
        },
    },
    Attack {
        limit: "Limits::event_bytes",
        name: "subscriptions of a session to long URIs",
        value: BYTES,
        bound: 4 * BYTES,
        run: |limit, sent| {
            limited(
                |config| config.limits.event_bytes = limit,
                |web| {
                    let session = web.http.open();
                    for number in 0..sent / KIB {
                        let uri = format!("x://{number}{}", "x".repeat(KIB));
                        web.http
                            .post_request(&session, "resources/subscribe", json!({"uri": uri}))
                            .poll_exchange();
                    }
                },
            )
        },
    },
    Attack {
        limit: "Limits::subscriptions",
        name: "subscriptions of a session",
        value: ENTRIES,
        bound: ENTRIES * 2 * KIB,
        run: |limit, sent| {
            limited(
                |config| config.limits.subscriptions = limit,
                |web| {
                    let session = web.http.open();
                    for number in 0..sent {
                        let uri = format!("x://{number}");
                        web.http
                            .post_request(&session, "resources/subscribe", json!({"uri": uri}))
                            .poll_exchange();
                    }
                },
            )
        },
    },
    Attack {
        limit: "Limits::queued_bytes",
        name: "log messages that are not read",
        value: BYTES,
        bound: 3 * BYTES,
        run: |limit, sent| {
            limited(
                |config| config.limits.queued_bytes = limit,
                |web| {
                    let session = web.http.open();
                    web.http
                        .post_request(&session, "logging/setLevel", json!({"level": "debug"}))
                        .poll_exchange();
                    let call = json!({"name": "chatter", "arguments": {"bytes": sent}});
                    let call = web.http.post_request(&session, "tools/call", call);
                    web.open.push(call.exchange);
                },
            )
        },
    },
    Attack {
        limit: "Limits::queued_bytes",
        name: "answers of 2024-11-05 that are not read",
        value: BYTES,
        bound: 6 * BYTES,
        run: |limit, sent| {
            let small = |config: &mut ServerConfig| {
                let limits = &mut config.limits;
                (limits.queued_bytes, limits.reply_bytes, limits.message_bytes) = (limit, limit, limit);
            };
            limited(small, |web| {
                let mut events = web.http.send_to("/sse", "GET", &[], "");
                let endpoint = String::from_utf8(events.raw_event().1).unwrap();
                web.open.push(events.exchange);
                let post = |web: &mut Web, message: &Value| {
                    web.http.send_to(&endpoint, "POST", &[], &message.to_string()).poll_exchange();
                    web.http.poll_driver();
                };
                post(web, &initialize("2024-11-05"));
                for id in 0..sent / KIB {
                    let call = json!({"name": "echo", "arguments": {"bytes": KIB}});
                    post(web, &request(&id.into(), "tools/call", call));
                }
            })
        },
    },
];

/// A server and the exchanges that its attackers leave open.
struct Web {
    http: HttpHarness,
    open: Vec<HttpExchange>,
    held: ParkedHandlers,
}

#[derive(serde::Deserialize)]
struct Size {
    bytes: usize,
}

impl Web {
    fn new(change: impl FnOnce(&mut HttpServerConfig)) -> Self {
        let held = ParkedHandlers::default();
        let holding = held.clone();
        let router = Router::new("victim", "1")
            .declare(ServerCapability::ResourcesSubscribe)
            .declare(ServerCapability::Logging)
            .tool_with(tool("echo"), async |Size { bytes }, cx: Context| {
                cx.progress(1);
                "x".repeat(bytes)
            })
            .tool_with(tool("chatter"), async |Size { bytes }, cx: Context| {
                (0..bytes / KIB).for_each(|_| cx.log(LoggingLevel::Error, "x".repeat(KIB)));
                "done"
            })
            .tool_with(tool("hold"), move |NoArguments {}, cx: Context| holding.park(cx));
        let change = |config: &mut HttpServerConfig| {
            config.legacy_sse = Some(LegacyPaths::default());
            change(config);
        };
        Self { http: HttpHarness::configured(router, change), open: Vec::new(), held }
    }

    /// A request from this address whose body is missing.
    fn begin(&self, address: u32) -> HttpExchange {
        let headers = [
            ("host", "localhost"),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        let client = Some(IpAddr::from(address.to_be_bytes()));
        let head = RequestHead { method: "POST", path: "/mcp", fields: &headers, client };
        self.http.server.exchange(&head, self.http.principal.clone())
    }

    /// Bodies of 8 KiB that do not end. Those that are refused are given up.
    fn slow_bodies(&mut self, bytes: usize, mut begin: impl FnMut(&mut Self, usize) -> HttpExchange) {
        for number in 0..bytes / (8 * KIB) {
            let mut exchange = begin(self, number);
            (0..8).for_each(|_| exchange.handle_body(Bytes::from(vec![b' '; KIB])));
            if exchange.wants_body() {
                self.open.push(exchange);
            }
        }
    }

    /// A call that is answered by a stream.
    fn echo(&mut self, session: &str, bytes: usize) -> TestExchange {
        let call = json!({"name": "echo", "arguments": {"bytes": bytes}, "_meta": {"progressToken": "t"}});
        self.http.post_request(session, "tools/call", call)
    }

    /// The attackers leave, and their sessions end.
    fn leave(mut self) -> Option<Self> {
        self.open = Vec::new();
        self.held.release("done");
        (0..self.held.started()).for_each(|_| drop(self.held.context()));
        self.http.poll_driver();
        for _ in 0..2 {
            self.http.advance(Duration::from_secs(3600));
        }
        Some(self)
    }
}

fn web(change: impl FnOnce(&mut HttpServerConfig), attack: impl FnOnce(&mut Web)) -> HeapUse {
    measure_attack(|| Web::new(change), attack, Web::leave)
}

/// The same with other limits of messages.
fn limited(change: impl FnOnce(&mut ServerConfig), attack: impl FnOnce(&mut Web)) -> HeapUse {
    let change = |config: &mut HttpServerConfig| {
        let mut server = ServerConfig::clone(&config.server);
        change(&mut server);
        config.server = server.into();
    };
    web(change, attack)
}

fn initialize(version: &str) -> Value {
    let info = json!({"name": "attacker", "version": "1"});
    request(
        &json!(0),
        "initialize",
        json!({"protocolVersion": version, "capabilities": {}, "clientInfo": info}),
    )
}

fn cx() -> TaskContext<'static> {
    TaskContext::from_waker(Waker::noop())
}

fn ready<T>(poll: Poll<T>) -> T {
    match poll {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the server has not answered"),
    }
}
