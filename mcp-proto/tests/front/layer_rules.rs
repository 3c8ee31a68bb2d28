//! The layers `Audit` and `Rules`.

use core::time::Duration;
use std::sync::{Arc, Mutex};

use mcp_proto::front::layer::{Audit, AuditOutcome, AuditRecord, MessageDirection, RuleMatch, Rules, Side};
use mcp_proto::front::{ClientHandlers, Context, Error, HandlerError, NoArguments, Router};
use mcp_proto::peer::Principal;
use mcp_proto::quota::RateLimit;
use mcp_proto::rpc::code;
use mcp_proto::schema::{ElicitParams, ElicitResult, ElicitSchema, Json, StringSchema, Tool};
use mcp_proto::testing::pair;
use serde_json::{Value, json};

use crate::common::front_http::HttpHarness;
use crate::common::router::ServerHarness;

type Records = Arc<Mutex<Vec<AuditRecord>>>;

fn audit(records: &Records) -> Audit {
    let records = records.clone();
    Audit::new(move |record| records.lock().unwrap().push(record.clone()))
}

fn taken(records: &Records) -> Vec<AuditRecord> {
    std::mem::take(&mut records.lock().unwrap())
}

fn tool(name: &str) -> Tool {
    Tool::new(name, "", Json::empty_object())
}

fn router() -> Router {
    Router::new("notes", "1")
        .tool_with(tool("search"), async |_: Value, _| "found")
        .tool_with(tool("delete_all"), async |_: Value, _| "deleted")
        .tool_with(tool("fail"), async |_: Value, _| Err::<(), _>(HandlerError::new("no")))
        .tool_with(tool("wait"), async |NoArguments {}, _| futures_lite::future::pending::<()>().await)
        .tool_with(tool("ask"), async |NoArguments {}, cx: Context| {
            let form = ElicitParams::form("Name?", ElicitSchema::new([("name", StringSchema::new().into())]));
            Ok::<_, HandlerError>(cx.elicit("name", form).await?.action.as_str().to_owned())
        })
}

#[test]
fn audit_of_a_server_records_what_was_called_without_secrets_and_how_it_ended() {
    for legacy in [false, true] {
        let records = Records::default();
        let handlers = ClientHandlers::new().elicitation(async |_, _| ElicitResult::decline());
        let mut pair = pair(router().layer(audit(&records))).handlers(handlers);
        if legacy {
            pair = pair.legacy();
        }
        pair.run(async |client| {
            client.call_tool("search", json!({"text": "x", "password": "hunter22"})).await.unwrap();
            client.call_tool("fail", json!({})).await.unwrap();
            client.read_resource("file:///none").await.unwrap_err();
            client.call_tool("nothing", json!({})).await.unwrap_err();
            client.call_tool("ask", json!({})).await.unwrap();
        });
        let records = taken(&records);
        let first = &records[0];
        assert_eq!((first.side, first.direction), (Side::Server, MessageDirection::Received));
        assert_eq!((first.method.as_str(), first.item.as_deref()), ("tools/call", Some("search")));
        assert!(first.peer.is_some() && first.principal.is_none() && first.server.is_none());
        assert!(first.request.contains(r#""password":"[redacted]""#), "{}", first.request);
        assert!(first.request.contains(r#""text":"x""#) && !first.request.contains("hunter22"));
        assert_eq!((&first.outcome, first.is_retry), (&AuditOutcome::Success, false));
        assert_eq!(records[1].outcome, AuditOutcome::ToolError);
        let AuditOutcome::Error { code: Some(code::INVALID_PARAMS), message } = &records[2].outcome else {
            panic!("{:?}", records[2])
        };
        assert_eq!(message, "there is no tool \"nothing\"");
        let rest: Vec<_> = records[3..].iter().map(|record| (record.is_retry, &record.outcome)).collect();
        match legacy {
            true => assert_eq!(rest, [(false, &AuditOutcome::Success)]),
            false => {
                assert_eq!(rest, [(false, &AuditOutcome::InputRequired), (true, &AuditOutcome::Success)])
            }
        }
    }
}

#[test]
fn audit_records_the_time_and_a_cancelled_request() {
    let records = Records::default();
    let mut s = ServerHarness::modern(router().layer(audit(&records)));
    let id = s.send("tools/call", json!({"name": "wait", "arguments": {}}));
    s.advance(Duration::from_secs(3));
    assert!(taken(&records).is_empty());
    s.notify("notifications/cancelled", json!({"requestId": id}));
    let [record] = taken(&records).try_into().unwrap();
    assert_eq!((record.outcome, record.elapsed), (AuditOutcome::Dropped, Duration::from_secs(3)));
}

#[test]
fn audit_of_a_client_records_calls_and_their_errors() {
    let records = Records::default();
    let handlers = ClientHandlers::new()
        .layer(audit(&records))
        .layer(Rules::new().deny(RuleMatch::tool("delete_*"), "not from here"));
    pair(router()).handlers(handlers).run(async |client| {
        client.call_tool("search", json!({"apiKey": "abcdefgh"})).await.unwrap();
        client.call_tool("nothing", json!({})).await.unwrap_err();
        let error = client.call_tool("delete_all", json!({})).await.unwrap_err();
        assert!(matches!(error, Error::Layer(_)), "{error}");
    });
    let records = taken(&records);
    let outcomes: Vec<_> = records
        .iter()
        .map(|record| match &record.outcome {
            AuditOutcome::Error { code, .. } => *code,
            outcome => {
                assert_eq!(*outcome, AuditOutcome::Success);
                None
            }
        })
        .collect();
    assert_eq!(outcomes, [None, Some(code::INVALID_PARAMS), Some(code::INVALID_REQUEST)]);
    assert_eq!((records[0].side, records[0].direction), (Side::Client, MessageDirection::Sent));
    assert!(!records[0].request.contains("abcdefgh"));
}

fn ruled() -> Router {
    router().layer(
        Rules::new()
            .allow(RuleMatch::tool("delete_*").principal("ada"))
            .deny(RuleMatch::tool("delete_*"), "only Ada deletes notes")
            .deny(RuleMatch::tool("search").argument("/in/folder", "/private"), "that folder is private")
            .deny(RuleMatch::method("prompts/*"), "no prompts")
            .rate(RuleMatch::tool("search"), RateLimit::per_second(1).burst(2)),
    )
}

#[test]
fn rules_decide_by_principal_tool_and_arguments_in_their_order() {
    let mut web = HttpHarness::new(ruled());
    let mut call = |principal: Option<&str>, name: &str, arguments: Value| {
        web.principal = principal.map(Principal::new);
        let answer = web.ask("tools/call", json!({"name": name, "arguments": arguments})).json();
        let result = &answer["result"];
        (result["isError"] == true, result["content"][0]["text"].as_str().unwrap_or_default().to_owned())
    };
    let denied = |why: &str| (true, why.to_owned());
    assert_eq!(call(Some("ada"), "delete_all", json!({})), (false, "deleted".into()));
    assert_eq!(call(Some("bob"), "delete_all", json!({})), denied("only Ada deletes notes"));
    assert_eq!(call(None, "delete_all", json!({})), denied("only Ada deletes notes"));
    let private = json!({"in": {"folder": "/private"}});
    assert_eq!(call(Some("ada"), "search", private), denied("that folder is private"));
    // The rate is that of each principal; what was denied before does not count.
    for principal in ["ada", "bob"] {
        for _ in 0..2 {
            assert_eq!(call(Some(principal), "search", json!({})), (false, "found".into()));
        }
        assert_eq!(call(Some(principal), "search", json!({})), denied("too many requests: try again in 1 s"));
    }
    web.clock.advance(Duration::from_secs(1));
    let answer = web.ask("tools/call", json!({"name": "search", "arguments": {}})).json();
    assert_eq!(answer["result"]["content"][0]["text"], "found");
}

#[test]
fn rule_on_a_method_answers_with_an_error() {
    let mut s = ServerHarness::modern(
        ruled().prompt(mcp_proto::schema::Prompt::new("p"), async |NoArguments {}, _| ""),
    );
    let error = s.error("prompts/list", json!({}));
    assert_eq!((&error["code"], &error["message"]), (&json!(code::INVALID_REQUEST), &json!("no prompts")));
    assert!(s.result("tools/list", json!({}))["tools"].is_array());
}

/// A call that rules cannot read is not one that they let pass.
#[test]
fn rules_refuse_calls_that_cannot_be_read() {
    let mut s = ServerHarness::modern(ruled());
    let error = s.error("tools/call", json!({"name": 7, "arguments": {}}));
    assert_eq!(error["code"], code::INVALID_PARAMS);
}

#[test]
fn audit_outside_of_rules_records_what_they_deny() {
    let records = Records::default();
    let router = router()
        .layer(audit(&records))
        .layer(Rules::new().allow(RuleMatch::method("tools/*")).deny(RuleMatch::any(), "only tools"));
    let mut s = ServerHarness::modern(router);
    s.error("com.example/x", json!({}));
    assert_eq!(s.call("search", json!({}))["content"][0]["text"], "found");
    let records = taken(&records);
    assert!(matches!(records[0].outcome, AuditOutcome::Error { code: Some(code::INVALID_REQUEST), .. }));
    assert_eq!(records[1].outcome, AuditOutcome::Success);
}
