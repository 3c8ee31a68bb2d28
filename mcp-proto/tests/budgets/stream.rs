//! Attacks over a byte stream: a client on a server, a server on a client.

use mcp_proto::Bytes;
use mcp_proto::peer::RequestOptions;
use mcp_proto::peer::client::{ClientConfig, EraPolicy};
use mcp_proto::peer::server::{Answer, Event, ServerConfig};
use mcp_proto::schema::{
    CallTool, CallToolParams, CallToolResult, ListTools, PaginatedParams, ReadResource, ReadResourceParams,
};
use serde_json::{Value, json};

use crate::common::client::{self, ClientHarness};
use crate::common::messages::{LEGACY, answer, initialize_result, progress, request, text};
use crate::common::server::{self, ServerHarness};
use crate::{Attack, BYTES, ENTRIES, HeapUse, KIB, measure_connection, uncounted};

pub(crate) const SERVER: &[Attack] = &[
    Attack {
        limit: "Limits::message_bytes",
        name: "a line without an end",
        value: BYTES,
        bound: 2 * BYTES,
        run: |limit, sent| {
            server(
                |config| config.limits.message_bytes = limit,
                |s| endless(sent, |piece| s.server.handle_input(s.now, piece)),
            )
        },
    },
    Attack {
        limit: "Limits::queued_bytes",
        name: "requests whose answers are not read",
        value: BYTES,
        bound: 4 * BYTES,
        run: |limit, sent| {
            let small = |config: &mut ServerConfig| {
                let limits = &mut config.limits;
                (limits.queued_bytes, limits.reply_bytes, limits.message_bytes) = (limit, limit, limit);
            };
            server(small, |s| {
                for id in 0..sent / KIB {
                    // A driver reads no further.
                    if s.server.wants_read() {
                        ask(s, id);
                        answer_all(s, &"x".repeat(KIB));
                    }
                }
            })
        },
    },
    Attack {
        limit: "Limits::reply_bytes",
        name: "pings whose answers are not read",
        value: BYTES,
        bound: 5 * BYTES,
        run: |limit, sent| {
            let small = |config: &mut ServerConfig| {
                (config.limits.queued_bytes, config.limits.reply_bytes) = (limit, limit)
            };
            legacy_server(small, |s| {
                for id in 0..sent / 32 {
                    s.request_with_id(id, "ping", json!({}))
                }
            })
        },
    },
    Attack {
        limit: "Limits::reply_bytes",
        name: "batches with a call that does not end",
        value: BYTES,
        bound: 6 * BYTES,
        run: |limit, sent| {
            let small = |config: &mut ServerConfig| {
                (config.limits.queued_bytes, config.limits.reply_bytes) = (limit, limit)
            };
            server_at("2025-03-26", small, |s| {
                for number in 0..sent / (8 * KIB) {
                    let ping = |id: usize| {
                        request(&format!("{number}/{id}{}", "x".repeat(900)).into(), "ping", json!({}))
                    };
                    let call = request(&number.into(), "tools/call", json!({"name": "t", "arguments": {}}));
                    s.send(&Value::from_iter((0..8).map(ping).chain([call])).to_string());
                    drop((s.lines(), s.events()));
                }
            })
        },
    },
    Attack {
        limit: "Limits::event_bytes",
        name: "notifications that the application does not take",
        value: BYTES,
        bound: 2 * BYTES,
        run: |limit, sent| {
            legacy_server(
                |config| config.limits.event_bytes = limit,
                |s| {
                    for id in 0..sent / KIB {
                        s.notify(
                            "notifications/roots/list_changed",
                            json!({"_meta": {"x": "x".repeat(KIB), "n": id}}),
                        );
                    }
                },
            )
        },
    },
    Attack {
        limit: "Limits::event_bytes",
        name: "requests that the application does not answer",
        value: BYTES,
        bound: 3 * BYTES,
        run: |limit, sent| {
            server(
                |config| config.limits.event_bytes = limit,
                |s| {
                    for id in 0..sent / KIB {
                        s.modern(format!("{id}{}", "x".repeat(900)), "tools/list", json!({}));
                        drop((s.lines(), s.events()));
                    }
                },
            )
        },
    },
    Attack {
        limit: "Limits::event_bytes",
        name: "subscriptions to long URIs",
        value: BYTES,
        bound: 3 * BYTES,
        run: |limit, sent| {
            server(
                |config| config.limits.event_bytes = limit,
                |s| {
                    for id in 0..sent / KIB {
                        let uris = json!([format!("x://{id}{}", "x".repeat(KIB))]);
                        s.modern(
                            id,
                            "subscriptions/listen",
                            json!({"notifications": {"resourceSubscriptions": uris}}),
                        );
                        drop((s.lines(), s.events()));
                    }
                },
            )
        },
    },
    Attack {
        limit: "Limits::events",
        name: "small notifications that the application does not take",
        value: ENTRIES,
        bound: ENTRIES * KIB,
        run: |limit, sent| {
            legacy_server(
                |config| config.limits.events = limit,
                |s| {
                    for _ in 0..sent {
                        s.notify("notifications/roots/list_changed", json!({}));
                    }
                },
            )
        },
    },
    Attack {
        limit: "Limits::requests_in",
        name: "requests that the application does not answer",
        value: ENTRIES,
        bound: ENTRIES * KIB,
        run: |limit, sent| {
            server(
                |config| config.limits.requests_in = limit,
                |s| {
                    for id in 0..sent {
                        ask(s, id);
                        drop((s.lines(), s.events()));
                    }
                },
            )
        },
    },
    Attack {
        limit: "Limits::events",
        name: "requests that are cancelled at once",
        value: ENTRIES,
        bound: ENTRIES * 2 * KIB,
        run: |limit, sent| {
            server(
                |config| config.limits.events = limit,
                |s| {
                    for id in 0..sent {
                        ask(s, id);
                        s.notify("notifications/cancelled", json!({"requestId": id}));
                        drop(s.lines());
                    }
                },
            )
        },
    },
    Attack {
        limit: "Limits::subscriptions",
        name: "subscriptions of 2026-07-28",
        value: ENTRIES,
        bound: ENTRIES * 2 * KIB,
        run: |limit, sent| {
            server(
                |config| config.limits.subscriptions = limit,
                |s| {
                    for id in 0..sent {
                        let uris = json!([format!("x://{id}")]);
                        s.modern(
                            id,
                            "subscriptions/listen",
                            json!({"notifications": {"resourceSubscriptions": uris}}),
                        );
                        drop((s.lines(), s.events()));
                    }
                },
            )
        },
    },
    Attack {
        limit: "Limits::subscriptions",
        name: "subscriptions of a session",
        value: ENTRIES,
        bound: ENTRIES * KIB,
        run: |limit, sent| {
            legacy_server(
                |config| config.limits.subscriptions = limit,
                |s| {
                    for id in 0..sent {
                        s.request_with_id(
                            id,
                            "resources/subscribe",
                            json!({"uri": format!("x://{id}/{}", "x".repeat(100))}),
                        );
                        drop((s.lines(), s.events()));
                    }
                },
            )
        },
    },
    Attack {
        limit: "Limits::requests_out",
        name: "requests of a handler that the client does not answer",
        value: ENTRIES,
        bound: ENTRIES * KIB / 2,
        run: |limit, sent| {
            legacy_server(
                |config| config.limits.requests_out = limit,
                |s| {
                    for _ in 0..sent {
                        let _ = s.server.at(s.now).request::<mcp_proto::schema::ListRoots>(
                            &Default::default(),
                            RequestOptions::default(),
                        );
                        drop(s.lines());
                    }
                },
            )
        },
    },
];

pub(crate) const CLIENT: &[Attack] = &[
    Attack {
        limit: "Limits::message_bytes",
        name: "a line without an end",
        value: BYTES,
        bound: 2 * BYTES,
        run: |limit, sent| {
            client(
                |config| config.limits.message_bytes = limit,
                |s| endless(sent, |piece| s.client.handle_input(s.now, piece)),
            )
        },
    },
    Attack {
        limit: "Limits::event_bytes",
        name: "notifications that the application does not take",
        value: BYTES,
        bound: 2 * BYTES,
        run: |limit, sent| {
            client(
                |config| config.limits.event_bytes = limit,
                |s| {
                    for _ in 0..sent / KIB {
                        s.notify("notifications/message", json!({"level": "info", "data": "x".repeat(KIB)}));
                    }
                },
            )
        },
    },
    Attack {
        limit: "Limits::event_bytes",
        name: "progress reports that the application does not take",
        value: BYTES,
        bound: 2 * BYTES,
        run: |limit, sent| {
            let small = |config: &mut ClientConfig| {
                (config.limits.event_bytes, config.limits.progress_in) = (limit, u32::MAX)
            };
            client(small, |s| {
                s.client
                    .at(s.now)
                    .request::<CallTool>(&CallToolParams::new("t"), RequestOptions::default())
                    .unwrap();
                let id = s.expect("tools/call");
                for value in 0..sent / KIB {
                    s.send(&report(&id, value as u32, KIB));
                }
            })
        },
    },
    Attack {
        limit: "Limits::event_bytes",
        name: "results that the application does not take",
        value: 4 * BYTES,
        bound: 12 * BYTES,
        run: |limit, sent| {
            client(
                |config| config.limits.event_bytes = limit,
                |s| {
                    let ids = calls(s, 256);
                    ids.iter().for_each(|id| receive(s, || answer(id, text(&"x".repeat(sent / 256)))));
                },
            )
        },
    },
    Attack {
        limit: "Limits::event_bytes",
        name: "progress reports that wait for their turn",
        value: 4 * BYTES,
        bound: 12 * BYTES,
        run: |limit, sent| {
            let small = |config: &mut ClientConfig| {
                (config.limits.event_bytes, config.limits.progress_in) = (limit, 1)
            };
            client(small, |s| {
                for id in calls(s, 256) {
                    for value in 0..2 {
                        receive(s, || report(&id, value, sent / 512));
                    }
                    drop(s.take_events());
                }
            })
        },
    },
    Attack {
        limit: "Limits::events",
        name: "small notifications that the application does not take",
        value: ENTRIES,
        bound: ENTRIES * KIB,
        run: |limit, sent| {
            client(
                |config| config.limits.events = limit,
                |s| {
                    for _ in 0..sent {
                        s.notify("notifications/message", json!({"level": "info", "data": 1}));
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
            legacy_client(
                |config| config.limits.requests_in = limit,
                |s| {
                    for id in 0..sent {
                        s.send(&request(&id.into(), "roots/list", json!({})));
                        discard(s);
                    }
                },
            )
        },
    },
    Attack {
        limit: "Limits::reply_bytes",
        name: "pings whose answers are not read",
        value: BYTES,
        bound: 5 * BYTES,
        run: |limit, sent| {
            let small = |config: &mut ClientConfig| {
                (config.limits.queued_bytes, config.limits.reply_bytes) = (limit, limit)
            };
            legacy_client(small, |s| {
                for id in 0..sent / 32 {
                    s.send(&request(&id.into(), "ping", json!({})));
                }
            })
        },
    },
    Attack {
        limit: "Limits::queued_bytes",
        name: "requests that the server does not read",
        value: BYTES,
        bound: 3 * BYTES,
        run: |limit, sent| {
            client(
                |config| config.limits.queued_bytes = limit,
                |s| {
                    for _ in 0..sent / KIB {
                        let mut params = CallToolParams::new("t");
                        params.name = "x".repeat(KIB);
                        let _ = s.client.at(s.now).request::<CallTool>(&params, RequestOptions::default());
                    }
                },
            )
        },
    },
    Attack {
        limit: "Limits::requests_out",
        name: "requests that the server does not answer",
        value: ENTRIES,
        bound: ENTRIES * 2 * KIB,
        run: |limit, sent| {
            client(
                |config| config.limits.requests_out = limit,
                |s| {
                    for _ in 0..sent {
                        let _ = s
                            .client
                            .at(s.now)
                            .request::<CallTool>(&CallToolParams::new("t"), RequestOptions::default());
                        discard(s);
                    }
                },
            )
        },
    },
    Attack {
        limit: "Limits::task_tools",
        name: "lists of tools that run as tasks",
        value: ENTRIES,
        bound: 2 * ENTRIES * KIB,
        run: |limit, sent| {
            legacy_client(
                |config| config.limits.task_tools = limit,
                |s| {
                    for page in 0..sent / 8 {
                        s.client
                            .at(s.now)
                            .request::<ListTools>(&PaginatedParams::default(), RequestOptions::default())
                            .unwrap();
                        let id = s.expect("tools/list");
                        let tool = |number| {
                            json!({
                                "name": format!("{page}/{number}{}", "x".repeat(500)), "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"},
                            })
                        };
                        s.answer(&id, json!({"tools": (0..8).map(tool).collect::<Value>()}));
                        discard(s);
                    }
                },
            )
        },
    },
    Attack {
        limit: "CacheConfig::bytes",
        name: "resources that may be cached",
        value: BYTES,
        bound: 2 * BYTES,
        run: |limit, sent| {
            client(
                |config| config.cache.bytes = limit,
                |s| {
                    for number in 0..sent / (4 * KIB) {
                        read(s, number, 4 * KIB);
                    }
                },
            )
        },
    },
    Attack {
        limit: "CacheConfig::entries",
        name: "small resources that may be cached",
        value: ENTRIES,
        bound: ENTRIES * 2 * KIB,
        run: |limit, sent| {
            client(
                |config| config.cache.entries = limit,
                |s| {
                    for number in 0..sent {
                        read(s, number, 1);
                    }
                },
            )
        },
    },
];

fn server(change: impl FnOnce(&mut ServerConfig), attack: impl FnOnce(&mut ServerHarness)) -> HeapUse {
    let mut config = server::config();
    change(&mut config);
    measure_connection(|| ServerHarness::new(config), attack)
}

fn legacy_server(change: impl FnOnce(&mut ServerConfig), attack: impl FnOnce(&mut ServerHarness)) -> HeapUse {
    server_at(LEGACY, change, attack)
}

fn server_at(
    version: &str,
    change: impl FnOnce(&mut ServerConfig),
    attack: impl FnOnce(&mut ServerHarness),
) -> HeapUse {
    let mut config = server::config();
    change(&mut config);
    measure_connection(|| ServerHarness::legacy_with(config, version, json!({"roots": {}})), attack)
}

fn client(change: impl FnOnce(&mut ClientConfig), attack: impl FnOnce(&mut ClientHarness)) -> HeapUse {
    let mut config = client::config();
    change(&mut config);
    measure_connection(|| ClientHarness::modern(config), attack)
}

fn legacy_client(change: impl FnOnce(&mut ClientConfig), attack: impl FnOnce(&mut ClientHarness)) -> HeapUse {
    let mut config = client::config();
    config.capabilities = config.capabilities.with(mcp_proto::schema::ClientCapability::Roots);
    change(&mut config);
    config.era_policy = EraPolicy::LegacyOnly;
    let make = || {
        let mut s = ClientHarness::open(config);
        let id = s.expect("initialize");
        let mut result = initialize_result(LEGACY);
        result["capabilities"]["tasks"] = json!({"requests": {"tools": {"call": {}}}});
        s.answer(&id, result);
        discard(&mut s);
        s
    };
    measure_connection(make, attack)
}

/// Sends this many bytes of one message that does not end.
pub(crate) fn endless(bytes: usize, mut send: impl FnMut(Bytes)) {
    send(Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"x\":\""));
    for _ in 0..bytes / KIB {
        send(Bytes::from(vec![b'x'; KIB]));
    }
}

fn ask(s: &mut ServerHarness, id: usize) {
    s.modern(id, "tools/call", json!({"name": "t", "arguments": {}}));
}

fn answer_all(s: &mut ServerHarness, text: &str) {
    while let Some(event) = s.server.poll_event() {
        if let Event::Request { id, .. } = event {
            s.server.at(s.now).respond(id, Answer::Result(&CallToolResult::text(text)));
        }
    }
}

/// Makes calls; returns their ids.
fn calls(s: &mut ClientHarness, count: usize) -> Vec<Value> {
    let mut call = || {
        s.client.at(s.now).request::<CallTool>(&CallToolParams::new("t"), RequestOptions::default()).unwrap();
        s.expect("tools/call")
    };
    (0..count).map(|_| call()).collect()
}

/// Sends a message. Of its memory, only the bytes on the wire are counted.
fn receive(s: &mut ClientHarness, message: impl FnOnce() -> Value) {
    let text = uncounted(|| format!("{}\n", message()));
    s.client.handle_input(s.now, Bytes::copy_from_slice(text.as_bytes()));
    uncounted(|| drop(text));
}

fn report(id: &Value, value: u32, bytes: usize) -> Value {
    let mut report = progress(id, value);
    report["params"]["message"] = "x".repeat(bytes).into();
    report
}

/// Discards the messages and events of the client.
fn discard(s: &mut ClientHarness) {
    while s.try_line().is_some() {}
    drop(s.take_events());
}

fn read(s: &mut ClientHarness, number: usize, bytes: usize) {
    let params = ReadResourceParams::new(format!("x://{number}"));
    s.client.at(s.now).request::<ReadResource>(&params, RequestOptions::default()).unwrap();
    let id = s.expect("resources/read");
    let contents = json!([{"uri": format!("x://{number}"), "text": "x".repeat(bytes)}]);
    s.answer(
        &id,
        json!({"resultType": "complete", "contents": contents, "ttlMs": 600_000, "cacheScope": "public"}),
    );
    discard(s);
}
