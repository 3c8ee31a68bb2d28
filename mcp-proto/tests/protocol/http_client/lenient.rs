//! A client over HTTP whose server deviates from the specification as servers in use do.

use core::time::Duration;

use crate::common::http_client::{ClientWire, SESSION, config, legacy, legacy_config, modern, scenario};
use crate::common::messages::LEGACY;
use mcp_proto::peer::client::{CloseReason, ConnectError, Diagnostic, State};
use mcp_proto::peer::{InvalidAnswerError, Leniency, Outcome, RequestId, RequestOptions, Strictness};
use mcp_proto::rpc::Id;
use mcp_proto::schema::{CallTool, CallToolParams, ListTools, ListToolsParams, Ping, PingParams, Revision};
use mcp_proto::transport::http::client::HttpClientConfig;
use serde_json::{Value, json};

fn strict_config() -> HttpClientConfig {
    let mut config = config();
    config.client.strictness = Strictness::Strict;
    config
}

fn list(wire: &mut ClientWire) -> RequestId {
    wire.client.at(wire.now).request::<ListTools>(&ListToolsParams::new(), RequestOptions::default()).unwrap()
}

fn empty_page() -> Value {
    json!({"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"})
}

fn take_leniencies(wire: &mut ClientWire) -> Vec<Leniency> {
    let leniency = |diagnostic| match diagnostic {
        Diagnostic::Tolerated(leniency) => Some(leniency),
        _ => None,
    };
    wire.diagnostics().into_iter().filter_map(leniency).collect()
}

fn connect_error(wire: &mut ClientWire) -> ConnectError {
    match wire.closed() {
        Some(CloseReason::Connect(error)) => error,
        other => panic!("expected a failure to connect, not {other:?}"),
    }
}

/// The form of a response.
#[derive(Clone, Copy, Debug)]
enum Carrier {
    Json,
    Stream,
}

const CARRIERS: [Carrier; 2] = [Carrier::Json, Carrier::Stream];

/// Lists the tools and answers with `text`, in which `ID` stands for the id; returns the outcome and the deviations
/// that were tolerated.
fn listed(wire: &mut ClientWire, carrier: Carrier, text: &str) -> (Outcome, Vec<Leniency>) {
    let request = list(wire);
    let exchange = wire.expect("tools/list");
    let text = text.replace("ID", &exchange.id().to_string()).replace("PAGE", &empty_page().to_string());
    match carrier {
        Carrier::Json => wire.reply(&exchange, 200, &[("content-type", "application/json")], &text),
        Carrier::Stream => {
            wire.stream(&exchange);
            wire.body(&exchange, &format!("data: {text}\n\n"));
            wire.end(&exchange);
        }
    }
    let tolerated = take_leniencies(wire);
    (wire.outcome(request), tolerated)
}

// --- Ids ---

#[test]
fn client_takes_the_decimal_string_and_the_float_of_its_id() {
    for carrier in CARRIERS {
        modern(config(), |wire| {
            let (outcome, tolerated) = listed(wire, carrier, r#"{"jsonrpc":"2.0","id":"ID","result":PAGE}"#);
            assert!(matches!(outcome, Outcome::Result(_)), "{outcome:?}");
            assert!(
                matches!(&tolerated[..], [Leniency::NumberAsString { id: Id::String(_) }]),
                "{tolerated:?}"
            );
            let (outcome, tolerated) = listed(wire, carrier, r#"{"jsonrpc":"2.0","id":ID.0,"result":PAGE}"#);
            assert!(matches!(outcome, Outcome::Result(_)), "{outcome:?}");
            assert!(matches!(&tolerated[..], [Leniency::Response(_)]), "{tolerated:?}");
        });
        for form in ["\"ID\"", "ID.0"] {
            modern(strict_config(), |wire| {
                let text = r#"{"jsonrpc":"2.0","id":FORM,"result":PAGE}"#.replace("FORM", form);
                let request = list(wire);
                let exchange = wire.expect("tools/list");
                let text =
                    text.replace("ID", &exchange.id().to_string()).replace("PAGE", &empty_page().to_string());
                match carrier {
                    Carrier::Json => {
                        wire.reply(&exchange, 200, &[("content-type", "application/json")], &text);
                        assert!(matches!(wire.outcome(request), Outcome::Invalid(_)));
                    }
                    Carrier::Stream => {
                        wire.stream(&exchange);
                        wire.body(&exchange, &format!("data: {text}\n\n"));
                    }
                }
                assert!(take_leniencies(wire).is_empty());
            });
        }
    }
}

#[test]
fn client_never_takes_a_result_with_the_id_of_another_request() {
    for id in ["\"own\"", "\"0ID\"", "\"\"", "4711"] {
        let text = r#"{"jsonrpc":"2.0","id":FORM,"result":PAGE}"#.replace("FORM", id);
        modern(config(), |wire| {
            let (outcome, _) = listed(wire, Carrier::Json, &text);
            let Outcome::Invalid(InvalidAnswerError::Malformed(what)) = outcome else {
                panic!("{id}: {outcome:?}")
            };
            assert!(what.contains("another request"), "{what}");
        });
        modern(config(), |wire| {
            let request = list(wire);
            let exchange = wire.expect("tools/list");
            wire.stream(&exchange);
            let text = text.replace("ID", &exchange.id().to_string()).replace("PAGE", "{}");
            wire.body(&exchange, &format!("data: {text}\n\n"));
            if id.starts_with('"') {
                assert!(matches!(wire.outcome(request), Outcome::Invalid(_)), "{id}");
            } else {
                wire.expect_pending(request);
                let [Diagnostic::UnknownAnswer(id)] = &wire.diagnostics()[..] else { panic!("{id}") };
                assert_eq!(*id, Id::from(4711));
            }
        });
    }
}

#[test]
fn log_line_on_a_stream_does_not_end_its_request() {
    modern(config(), |wire| {
        let request = list(wire);
        let exchange = wire.expect("tools/list");
        wire.stream(&exchange);
        wire.body(&exchange, &format!("data: {{\"level\":\"info\",\"id\":{}}}\n\n", exchange.id()));
        wire.expect_pending(request);
        wire.event_answer(&exchange, &exchange.id(), empty_page());
        assert_eq!(wire.result(request)["tools"], json!([]));
    });
}

// --- Errors ---

#[test]
fn malformed_error_keeps_the_message_of_the_server() {
    for carrier in CARRIERS {
        modern(config(), |wire| {
            let (outcome, tolerated) =
                listed(wire, carrier, r#"{"jsonrpc":"2.0","id":ID,"error":"out of paper"}"#);
            let Outcome::Error(error) = outcome else { panic!("{outcome:?}") };
            assert_eq!(error.to_string(), "out of paper");
            assert!(matches!(tolerated[..], [Leniency::Response(_)]));
        });
        modern(strict_config(), |wire| {
            let (outcome, _) = listed(wire, carrier, r#"{"jsonrpc":"2.0","id":ID,"error":"out of paper"}"#);
            assert!(matches!(outcome, Outcome::Invalid(_)), "{outcome:?}");
        });
    }
}

/// H0
#[test]
fn an_error_without_id_belongs_to_its_exchange() {
    for carrier in CARRIERS {
        modern(config(), |wire| {
            let text = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}"#;
            let (outcome, tolerated) = listed(wire, carrier, text);
            assert!(matches!(&outcome, Outcome::Error(error) if error.code == -32000), "{outcome:?}");
            assert!(tolerated.is_empty());
        });
    }
}

// --- The handshake ---

#[test]
fn connect_error_shows_a_handshake_error_with_status_200() {
    for stream in [false, true] {
        scenario(legacy_config(), |wire| {
            let initialize = wire.expect("initialize");
            let error = json!({"code": -32000, "message": "license expired"});
            let message = json!({"jsonrpc": "2.0", "id": initialize.id(), "error": error});
            if stream {
                wire.stream(&initialize);
                wire.event(&initialize, &message);
            } else {
                wire.reply_json(&initialize, 200, &message);
            }
            let error = connect_error(wire);
            assert!(error.to_string().contains("license expired (-32000)"), "{error}");
        });
    }
}

#[test]
fn client_offers_initialize_once_more_at_a_version_that_the_refusal_lists() {
    for status in [200, 400] {
        scenario(legacy_config(), |wire| {
            let initialize = wire.expect("initialize");
            let data = json!({"supported": ["2025-03-26", "2025-06-18"], "requested": LEGACY});
            wire.refuse(&initialize, status, -32602, Some(data));
            let again = wire.expect("initialize");
            assert_eq!(again.body["params"]["protocolVersion"], "2025-06-18");
            let offered = Revision::V2025_06_18;
            assert_eq!(
                take_leniencies(wire),
                [Leniency::VersionRetried { refused: Revision::LATEST_LEGACY, offered }]
            );
            wire.answer_initialize(&again, "2025-06-18", SESSION);
            assert_eq!(wire.client.state(), State::Ready);
        });
    }
}

#[test]
fn client_does_not_cross_the_eras_nor_repeat_itself_for_a_refusal_that_is_not_modern() {
    for data in [json!({"supported": ["2026-07-28"]}), json!({"supported": [LEGACY]})] {
        scenario(legacy_config(), |wire| {
            let initialize = wire.expect("initialize");
            wire.refuse(&initialize, 200, -32602, Some(data.clone()));
            connect_error(wire);
            wire.expect_silence();
        });
    }
    scenario(legacy_config(), |wire| {
        let initialize = wire.expect("initialize");
        wire.refuse(&initialize, 200, -32602, Some(json!({"supported": ["2025-06-18"]})));
        let again = wire.expect("initialize");
        wire.refuse(&again, 200, -32602, Some(json!({"supported": ["2024-11-05"]})));
        connect_error(wire);
        wire.expect_silence();
    });
    let mut strict = legacy_config();
    strict.client.strictness = Strictness::Strict;
    scenario(strict, |wire| {
        let initialize = wire.expect("initialize");
        wire.refuse(&initialize, 200, -32602, Some(json!({"supported": ["2025-06-18"]})));
        connect_error(wire);
    });
}

// --- Answers ---

#[test]
fn client_waits_on_the_event_stream_for_the_answer_to_a_request_with_status_202() {
    legacy(config(), |wire, listener| {
        let request = list(wire);
        let exchange = wire.expect("tools/list");
        wire.reply(&exchange, 202, &[], "");
        wire.expect_pending(request);
        assert_eq!(take_leniencies(wire), [Leniency::AnswerOnEventStream { method: "tools/list".into() }]);
        wire.event_answer(&listener, &exchange.id(), json!({"tools": []}));
        assert_eq!(wire.result(request)["tools"], json!([]));

        let request = list(wire);
        let exchange = wire.expect("tools/list");
        wire.reply(&exchange, 202, &[], "");
        wire.advance(Duration::from_secs(30));
        assert!(matches!(wire.outcome(request), Outcome::TimedOut { .. }));
        wire.expect("notifications/cancelled");
    });
}

#[test]
fn status_202_is_an_error_where_no_stream_can_bring_the_answer() {
    let fail = |wire: &mut ClientWire| {
        let request = list(wire);
        let exchange = wire.expect("tools/list");
        wire.reply(&exchange, 202, &[], "");
        let outcome = wire.outcome(request);
        assert!(matches!(&outcome, Outcome::Transport(error) if error.status == 202), "{outcome:?}");
    };
    modern(config(), fail);
    legacy(strict_config(), |wire, _| fail(wire));
    scenario(legacy_config(), |wire| {
        wire.open_session(LEGACY, SESSION);
        let listener = wire.expect_get();
        wire.reply(&listener, 405, &[], "");
        fail(wire);
    });
    scenario(legacy_config(), |wire| {
        wire.open_session(LEGACY, SESSION);
        let listener = wire.expect_get();
        let params = CallToolParams::new("pay");
        let request =
            wire.client.at(wire.now).request::<CallTool>(&params, RequestOptions::default()).unwrap();
        let call = wire.expect("tools/call");
        wire.reply(&call, 202, &[], "");
        wire.expect_pending(request);
        wire.reply(&listener, 405, &[], "");
        let outcome = wire.outcome(request);
        assert!(matches!(outcome, Outcome::Lost(_)), "{outcome:?}");
    });
}

// --- Bodies ---

#[test]
fn client_takes_a_message_without_content_type_to_the_message_limit() {
    let long = "x".repeat(100_000);
    modern(config(), |wire| {
        let request = list(wire);
        let exchange = wire.expect("tools/list");
        let mut page = empty_page();
        page["long"] = json!(long);
        let body = json!({"jsonrpc": "2.0", "id": exchange.id(), "result": page}).to_string();
        wire.reply(&exchange, 200, &[], &format!(" \n{body}"));
        assert_eq!(wire.result(request)["tools"], json!([]));
        assert_eq!(take_leniencies(wire), [Leniency::ContentType { found: None }]);
    });
    modern(config(), |wire| {
        let request = list(wire);
        let exchange = wire.expect("tools/list");
        let body = json!({"jsonrpc": "2.0", "id": exchange.id(), "result": empty_page()}).to_string();
        wire.reply(&exchange, 200, &[("content-type", "text/plain")], &body);
        assert_eq!(wire.result(request)["tools"], json!([]));
        assert_eq!(take_leniencies(wire), [Leniency::ContentType { found: Some("text/plain".into()) }]);
    });
    for headers in [&[][..], &[("content-type", "text/plain")]] {
        modern(strict_config(), |wire| {
            let request = list(wire);
            let exchange = wire.expect("tools/list");
            let body = json!({"jsonrpc": "2.0", "id": exchange.id(), "result": empty_page()}).to_string();
            wire.reply(&exchange, 200, headers, &body);
            assert!(matches!(wire.outcome(request), Outcome::Transport(error) if error.status == 200));
        });
    }
}

#[test]
fn client_takes_nothing_else_without_content_type() {
    for body in ["<html>", "\"text\"", "", &" ".repeat(70_000)] {
        modern(config(), |wire| {
            let request = list(wire);
            let exchange = wire.expect("tools/list");
            wire.reply(&exchange, 200, &[], body);
            let outcome = wire.outcome(request);
            let Outcome::Transport(error) = outcome else { panic!("{outcome:?}") };
            assert!(error.detail.trim().starts_with(body.trim()), "{error:?}");
            assert!(take_leniencies(wire).is_empty());
        });
    }
}

#[test]
fn client_ignores_a_byte_order_mark_before_a_body() {
    let reply = |wire: &mut ClientWire| {
        let request = list(wire);
        let exchange = wire.expect("tools/list");
        let body = json!({"jsonrpc": "2.0", "id": exchange.id(), "result": empty_page()}).to_string();
        wire.reply(&exchange, 200, &[("content-type", "application/json")], &format!("\u{feff}{body}"));
        request
    };
    modern(config(), |wire| {
        let request = reply(wire);
        assert_eq!(wire.result(request)["tools"], json!([]));
        assert_eq!(take_leniencies(wire), [Leniency::ByteOrderMark]);
    });
    modern(strict_config(), |wire| {
        let request = reply(wire);
        assert!(matches!(wire.outcome(request), Outcome::Invalid(_)));
    });
}

#[test]
fn client_replaces_a_lone_surrogate_in_a_result() {
    for carrier in CARRIERS {
        modern(config(), |wire| {
            let text = r#"{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","a":"\ud83d"}}"#;
            let (outcome, tolerated) = listed(wire, carrier, text);
            let Outcome::Result(result) = outcome else { panic!("{outcome:?}") };
            assert!(result.as_str().contains("\\ufffd"), "{result:?}");
            assert!(matches!(&tolerated[..], [Leniency::Response(_)]), "{tolerated:?}");
        });
    }
}

#[test]
fn client_replaces_text_that_is_not_unicode_in_results_in_parts() {
    let chunked = |mut config: HttpClientConfig| {
        config.chunked_results = true;
        config
    };
    let receive = |wire: &mut ClientWire, events: &[(&str, &[u8])]| {
        let request = list(wire);
        let exchange = wire.expect("tools/list");
        wire.stream(&exchange);
        for (event, data) in events {
            let text = [b"event: ", event.as_bytes(), b"\ndata: ", data, b"\n\n"].concat();
            wire.client.handle_body(wire.now, exchange.exchange(), text.into());
        }
        wire.drain();
        (wire.outcome(request), take_leniencies(wire))
    };
    let (whole, part) = (br#"{"result":{"a":"\ud83d","requestState":"\ud83d"}}"#, br#"{"b":"\ud83d"}"#);
    modern(chunked(config()), |wire| {
        let (outcome, tolerated) = receive(wire, &[("result", part), ("complete", whole)]);
        let Outcome::Result(result) = outcome else { panic!("{outcome:?}") };
        for member in [r#""a":"\ufffd""#, r#""b":"\ufffd""#, r#""requestState":"\ud83d""#] {
            assert!(result.as_str().contains(member), "{result:?}");
        }
        assert!(matches!(&tolerated[..], [Leniency::Response(_), Leniency::Response(_)]), "{tolerated:?}");

        let (outcome, tolerated) = receive(wire, &[("complete", b"{\"a\":\"\xff\"}")]);
        let Outcome::Result(result) = outcome else { panic!("{outcome:?}") };
        assert!(result.as_str().contains('\u{fffd}'), "{result:?}");
        assert!(matches!(&tolerated[..], [Leniency::Response(_)]), "{tolerated:?}");

        let error = br#"{"error":{"code":-32050,"message":"out of \ud83d"}}"#;
        let (outcome, tolerated) = receive(wire, &[("error", error)]);
        assert!(
            matches!(&outcome, Outcome::Error(error) if error.message == "out of \u{fffd}"),
            "{outcome:?}"
        );
        assert!(matches!(&tolerated[..], [Leniency::Response(_)]), "{tolerated:?}");

        let (outcome, _) = receive(wire, &[("complete", b"{\"requestState\":\"\xff\"}")]);
        assert!(matches!(outcome, Outcome::Invalid(_)), "{outcome:?}");
    });
    modern(chunked(strict_config()), |wire| {
        let (outcome, tolerated) = receive(wire, &[("complete", whole)]);
        assert!(matches!(outcome, Outcome::Invalid(_)), "{outcome:?}");
        assert!(tolerated.is_empty(), "{tolerated:?}");
    });
}

#[test]
fn client_takes_a_null_result_of_ping_as_an_empty_object() {
    legacy(config(), |wire, _| {
        let request =
            wire.client.at(wire.now).request::<Ping>(&PingParams::new(), RequestOptions::default()).unwrap();
        let exchange = wire.expect("ping");
        wire.answer(&exchange, json!(null));
        assert_eq!(wire.result(request), json!({}));
        assert_eq!(take_leniencies(wire), [Leniency::NullResult { method: "ping" }]);
    });
}
