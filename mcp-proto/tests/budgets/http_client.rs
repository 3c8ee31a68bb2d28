//! Attacks of a server over HTTP on its client.

use mcp_proto::peer::RequestOptions;
use mcp_proto::peer::client::EraPolicy;
use mcp_proto::schema::{CallTool, CallToolParams, ListTools, PaginatedParams};
use mcp_proto::transport::http::client::{Action, HttpClient, HttpClientConfig, HttpRequest};
use mcp_proto::transport::http::{ExchangeEnd, ExchangeId, SentState, Verb};
use mcp_proto::{Bytes, Instant, Limits};
use serde_json::{Value, json};

use crate::common::http_client::{SESSION, config};
use crate::common::messages::{LEGACY, answer, discover_result, initialize_result, notification, request};
use crate::stream::endless;
use crate::{Attack, BYTES, ENTRIES, HeapUse, KIB, measure_connection, uncounted};

const NOW: Instant = Instant::ORIGIN;
const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
const EVENTS: &[(&str, &str)] = &[("content-type", "text/event-stream")];

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        limit: "Limits::message_bytes",
        name: "a body without an end",
        value: BYTES,
        bound: 3 * BYTES,
        run: |limit, sent| {
            modern(
                |limits| limits.message_bytes = limit,
                |wire| {
                    let call = wire.call();
                    wire.head(call, 200, JSON);
                    endless(sent, |piece| wire.client.handle_body(NOW, call, piece));
                },
            )
        },
    },
    Attack {
        limit: "Limits::message_bytes",
        name: "an event with a line without an end",
        value: BYTES,
        bound: 3 * BYTES,
        run: |limit, sent| {
            modern(
                |limits| limits.message_bytes = limit,
                |wire| {
                    let call = wire.call();
                    wire.head(call, 200, EVENTS);
                    wire.body(call, "data: ");
                    endless(sent, |piece| wire.client.handle_body(NOW, call, piece));
                },
            )
        },
    },
    Attack {
        limit: "Limits::message_bytes",
        name: "an event of lines without an end",
        value: BYTES,
        bound: 3 * BYTES,
        run: |limit, sent| {
            modern(
                |limits| limits.message_bytes = limit,
                |wire| {
                    let call = wire.call();
                    wire.head(call, 200, EVENTS);
                    let lines = uncounted(|| "data: x\ndata\n:\n".repeat(64).leak());
                    (0..sent / 256).for_each(|_| wire.body(call, lines));
                },
            )
        },
    },
    Attack {
        limit: "Limits::message_bytes",
        name: "lists of tools with mirrored parameters",
        value: BYTES,
        bound: 5 * BYTES,
        run: |limit, sent| {
            modern(
                |limits| limits.message_bytes = limit,
                |wire| {
                    for page in 0..sent / (4 * KIB) {
                        let name = |number: usize| format!("{page}/{number}/{}", "x".repeat(500));
                        let schema = json!({"type": "object", "properties": {"p": {"type": "string", "x-mcp-header": "P"}}});
                        let tool = |number| json!({"name": name(number), "inputSchema": schema});
                        wire.list((0..8).map(tool).collect());
                    }
                },
            )
        },
    },
    Attack {
        limit: "Limits::event_bytes",
        name: "notifications that the application does not take",
        value: BYTES,
        bound: 2 * BYTES,
        run: |limit, sent| {
            modern(
                |limits| limits.event_bytes = limit,
                |wire| {
                    let call = wire.call();
                    wire.head(call, 200, EVENTS);
                    for _ in 0..sent / KIB {
                        wire.event(
                            call,
                            &notification(
                                "notifications/message",
                                json!({"level": "info", "data": "x".repeat(KIB)}),
                            ),
                        );
                    }
                },
            )
        },
    },
    Attack {
        limit: "Limits::header_bytes",
        name: "a session with a long id",
        value: BYTES,
        bound: 3 * BYTES,
        run: |limit, sent| {
            http(legacy_config(|limits| limits.header_bytes = limit), |wire| {
                wire.initialize(uncounted(|| "x".repeat(sent / 8).leak()));
            })
        },
    },
    Attack {
        limit: "Limits::reply_bytes",
        name: "pings whose answers the server does not take",
        value: BYTES,
        bound: 8 * BYTES,
        run: |limit, sent| {
            let small = |limits: &mut Limits| {
                (limits.queued_bytes, limits.reply_bytes, limits.exchanges) = (limit, limit, 4)
            };
            legacy(small, |wire, stream| {
                for id in 0..sent / 64 {
                    wire.event(
                        stream,
                        &request(&format!("{id}{}", "x".repeat(100)).into(), "ping", json!({})),
                    );
                }
            })
        },
    },
    Attack {
        limit: "Limits::exchanges",
        name: "pings whose answers do not reach the server",
        value: ENTRIES,
        bound: ENTRIES * 4 * KIB,
        run: |limit, sent| {
            legacy(
                |limits| limits.exchanges = limit,
                |wire, stream| {
                    for id in 0..sent {
                        wire.event(
                            stream,
                            &request(&format!("{id}{}", "x".repeat(900)).into(), "ping", json!({})),
                        );
                        while let Some(post) = wire.next() {
                            let (sent, detail) = (SentState::NotSent, "refused".into());
                            wire.client.handle_end(NOW, post.exchange, ExchangeEnd::Failed { sent, detail });
                        }
                        wire.discard();
                    }
                },
            )
        },
    },
    Attack {
        limit: "Limits::requests_in",
        name: "requests that the application does not answer",
        value: ENTRIES,
        bound: ENTRIES * KIB / 2,
        run: |limit, sent| {
            legacy(
                |limits| limits.requests_in = limit,
                |wire, stream| {
                    for id in 0..sent {
                        wire.event(stream, &request(&id.into(), "roots/list", json!({})));
                        wire.accept_posts();
                    }
                },
            )
        },
    },
];

/// Of these the limit is a constant.
pub(crate) const CONSTANTS: &[Attack] = &[
    Attack {
        limit: "FIELD_BYTES",
        name: "a field of an event without an end",
        value: 4 * KIB,
        bound: 16 * KIB,
        run: |_, sent| {
            modern(
                |_| (),
                |wire| {
                    let call = wire.call();
                    wire.head(call, 200, EVENTS);
                    for start in ["id: ", "\nretry: ", "\nother", "\n: "] {
                        wire.body(call, start);
                        (0..sent / KIB).for_each(|_| wire.body(call, &"x".repeat(KIB)));
                    }
                },
            )
        },
    },
    Attack {
        limit: "NON_MESSAGE_BYTES",
        name: "a body of another type without an end",
        value: 64 * KIB,
        bound: 192 * KIB,
        run: |_, sent| {
            modern(
                |_| (),
                |wire| {
                    let call = wire.call();
                    wire.head(call, 500, &[("content-type", "text/html")]);
                    endless(sent, |piece| wire.client.handle_body(NOW, call, piece));
                },
            )
        },
    },
];

/// A client whose server the test plays.
struct Wire {
    client: HttpClient,
    /// The stream on which the server sends its requests.
    stream: Option<ExchangeId>,
}

impl Wire {
    fn new(config: HttpClientConfig) -> Self {
        Self { client: HttpClient::new(config, NOW).unwrap(), stream: None }
    }

    fn next(&mut self) -> Option<HttpRequest> {
        loop {
            match self.client.poll_action()? {
                Action::Open(request) => return Some(request),
                Action::Abort(_) | Action::AuthorizationRequired(_) => {}
            }
        }
    }

    fn head(&mut self, exchange: ExchangeId, status: u16, headers: &[(&str, &str)]) {
        self.client.handle_head(NOW, exchange, status, &headers);
    }

    fn body(&mut self, exchange: ExchangeId, text: &str) {
        self.client.handle_body(NOW, exchange, Bytes::copy_from_slice(text.as_bytes()));
    }

    fn event(&mut self, exchange: ExchangeId, message: &Value) {
        self.body(exchange, &format!("data: {message}\n\n"));
    }

    fn reply(&mut self, exchange: ExchangeId, status: u16, headers: &[(&str, &str)], body: &str) {
        self.head(exchange, status, headers);
        self.body(exchange, body);
        self.client.handle_end(NOW, exchange, ExchangeEnd::Complete);
    }

    /// Answers the next request, whose method must be this.
    fn answer(&mut self, method: &str, headers: &[(&str, &str)], result: Value) {
        let request = self.next().expect(method);
        let body: Value = serde_json::from_slice(&request.body).expect("a body is JSON");
        assert_eq!(body["method"], method);
        self.reply(request.exchange, 200, headers, &answer(&body["id"], result).to_string());
    }

    fn initialize(&mut self, session: &str) {
        let headers = [("content-type", "application/json"), ("mcp-session-id", session)];
        self.answer("initialize", &headers, initialize_result(LEGACY));
    }

    fn call(&mut self) -> ExchangeId {
        self.client
            .at(NOW)
            .request::<CallTool>(&CallToolParams::new("t"), RequestOptions::default())
            .unwrap();
        self.next().expect("tools/call").exchange
    }

    fn list(&mut self, tools: Vec<Value>) {
        self.client
            .at(NOW)
            .request::<ListTools>(&PaginatedParams::default(), RequestOptions::default())
            .unwrap();
        let result = json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"});
        self.answer("tools/list", JSON, result);
        self.discard();
    }

    fn accept_posts(&mut self) {
        while let Some(post) = self.next() {
            self.reply(post.exchange, 202, &[], "");
        }
        self.discard();
    }

    fn discard(&mut self) {
        while self.client.poll_event().is_some() {}
    }
}

fn http(config: HttpClientConfig, attack: impl FnOnce(&mut Wire)) -> HeapUse {
    measure_connection(|| Wire::new(config), attack)
}

fn modern(change: impl FnOnce(&mut Limits), attack: impl FnOnce(&mut Wire)) -> HeapUse {
    let mut config = config();
    change(&mut config.client.limits);
    let make = || {
        let mut wire = Wire::new(config);
        wire.answer("server/discover", JSON, discover_result());
        wire.discard();
        wire
    };
    measure_connection(make, attack)
}

fn legacy_config(change: impl FnOnce(&mut Limits)) -> HttpClientConfig {
    let mut config = config();
    config.client.era_policy = EraPolicy::LegacyOnly;
    config.client.capabilities = config.client.capabilities.with(mcp_proto::schema::ClientCapability::Roots);
    change(&mut config.client.limits);
    config
}

/// A client in a session, with the stream on which the server sends its requests.
fn legacy(change: impl FnOnce(&mut Limits), attack: impl FnOnce(&mut Wire, ExchangeId)) -> HeapUse {
    let config = legacy_config(change);
    let make = || {
        let mut wire = Wire::new(config);
        wire.initialize(SESSION);
        while let Some(request) = wire.next() {
            match request.verb {
                Verb::Get => {
                    wire.head(request.exchange, 200, EVENTS);
                    wire.stream = Some(request.exchange);
                }
                _ => wire.reply(request.exchange, 202, &[], ""),
            }
        }
        wire.discard();
        wire
    };
    measure_connection(make, |wire| {
        let stream = wire.stream.expect("a stream");
        attack(wire, stream);
    })
}
