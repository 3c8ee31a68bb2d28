//! The layers `Audit` and `Rules`.

use core::time::Duration;
use std::sync::{Arc, Mutex};

use mcp_proto::front::layer::{
    Audit, AuditOutcome, AuditRecord, MessageDirection, NamePattern, RuleMatch, Rules, Side,
};
use mcp_proto::front::tasks::TaskConfig;
use mcp_proto::front::{ClientHandlers, Context, Error, HandlerError, NoArguments, Router};
use mcp_proto::peer::Principal;
use mcp_proto::quota::RateLimit;
use mcp_proto::redact::{Pseudonyms, Redactor};
use mcp_proto::rpc::code;
use mcp_proto::schema::{
    CallToolParams, ElicitParams, ElicitResult, ElicitSchema, Json, Prompt, ResourceTemplate, StringSchema,
    Tool,
};
use mcp_proto::testing::pair;
use serde::Deserialize;
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
        assert_eq!(records[1].outcome, AuditOutcome::ToolError { message: "no".into() });
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

/// An id lets anyone who knows it reach the task.
#[test]
fn audit_records_no_ids_of_tasks() {
    let records = Records::default();
    let key = Pseudonyms::new([7; 16]);
    let sink = records.clone();
    let pseudonymous = Audit::with_redactor(Redactor::new().pseudonyms(key), move |record| {
        sink.lock().unwrap().push(record.clone());
    });
    for (audit, shown) in [(audit(&records), "[redacted]"), (pseudonymous, "[id:")] {
        let handlers = ClientHandlers::new().layer(audit);
        let tasks = router().tasks(TaskConfig::default());
        pair(tasks).handlers(handlers).run(async |client| {
            client.resume_task("786512e2-9e0d-44bd-8f29").status().await.unwrap_err();
        });
        let [record] = taken(&records).try_into().unwrap();
        assert_eq!(record.method, "tasks/get");
        assert!(record.request.contains(&format!(r#""taskId":"{shown}"#)), "{record:?}");
        let AuditOutcome::Error { message, .. } = &record.outcome else { panic!("{record:?}") };
        assert!(message.contains(shown) && !format!("{record:?}").contains("9e0d"), "{record:?}");
    }
}

fn ruled() -> Router {
    router().layer(
        Rules::new()
            .allow(RuleMatch::tool("delete_*").principal("ada"))
            .deny(RuleMatch::tool("delete_*"), "only Ada deletes notes")
            .deny(
                RuleMatch::tool("search").argument("/in/folder", "/private").unwrap(),
                "that folder is private",
            )
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

/// The text of the answer to a call with these arguments, which deny a number and a folder.
fn ruled_call(arguments: &str) -> String {
    let rules = Rules::new()
        .deny(RuleMatch::tool("search").argument("/folder", "/private").unwrap(), "that folder is private")
        .deny(RuleMatch::tool("search").argument("/number", 1).unwrap(), "that number is private");
    let router = Router::new("notes", "1")
        .tool_raw(tool("search"), async |_: CallToolParams, _: Context| "found")
        .layer(rules);
    let mut s = ServerHarness::legacy(router);
    s.send_text(&format!(
        r#"{{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{{"name":"search","arguments":{arguments}}}}}"#
    ));
    s.line()["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn rules_deny_arguments_that_cannot_be_read_or_are_ambiguous() {
    for arguments in [
        r#"{"folder":"/private","x":1e999}"#,
        r#"{"folder":"/private","folder":"/public"}"#,
        r#"{"x":[{"a":1,"\u0061":2}]}"#,
    ] {
        let text = ruled_call(arguments);
        assert!(text.starts_with("the arguments cannot be read: "), "{arguments}: {text}");
    }
    assert_eq!(ruled_call(r#"{"folder":"/public","x":[1,-2,1.5,null,true,"a"]}"#), "found");
}

#[test]
fn rules_compare_numbers_by_value() {
    for number in ["1", "1.0", "1e0", "10E-1"] {
        assert_eq!(ruled_call(&format!(r#"{{"number":{number}}}"#)), "that number is private", "{number}");
    }
    assert_eq!(ruled_call(r#"{"number":2}"#), "found");
}

#[test]
fn pointer_that_cannot_match_is_an_error() {
    let error = |pointer: &str| RuleMatch::any().argument(pointer, 1).err().map(|error| error.to_string());
    assert_eq!(error("folder").unwrap(), r#""folder" is no JSON pointer, such as "/filter/folder""#);
    assert!(error("/a~2").is_some() && error("/a~").is_some());
    assert_eq!((error(""), error("/a~1b~0/")), (None, None));
}

#[derive(Deserialize)]
struct Note {
    name: String,
}

#[test]
fn rules_see_the_uri_that_a_template_decodes() {
    let read = |rules: Rules, uri: &str| {
        let router = Router::new("notes", "1")
            .template(ResourceTemplate::new("note:///{name}", "note"), async |Note { name }, _| name)
            .layer(rules);
        let mut s = ServerHarness::modern(router);
        s.request("resources/read", json!({"uri": uri}))["error"]["message"].as_str().map(str::to_owned)
    };
    let deny = |pattern: &str| Rules::new().deny(RuleMatch::resource(pattern), "private");
    let denied = Some("private".to_owned());
    for uri in ["note:///private", "note:///%70rivate", "note:///p%72iv%61te", "NOTE:///private"] {
        for pattern in ["note:///private", "note:///priv*", "note:///pri%76ate", "NOTE:///priv*"] {
            assert_eq!(read(deny(pattern), uri), denied, "{uri} by {pattern}");
        }
    }
    assert_eq!(read(deny("note:///private!"), "note:///private%21"), denied);
    assert_eq!(read(deny("note:///caf%C3%A9"), "note:///caf%c3%a9"), denied);
    assert_eq!(read(deny("note:///private"), "note:///public"), None);
    assert_eq!(read(deny("note:///private"), "note:///Private"), None);
    // What is allowed has to match as it is written, too.
    let allow = || Rules::new().allow(RuleMatch::resource("note:///a!")).deny(RuleMatch::any(), "private");
    assert_eq!(read(allow(), "note:///a!"), None);
    assert_eq!(read(allow(), "note:///a%21"), denied);
}

#[test]
fn rules_tell_prompts_from_resources() {
    let get = |rules: Rules| {
        let router =
            Router::new("notes", "1").prompt(Prompt::new("draft"), async |NoArguments {}, _| "").layer(rules);
        ServerHarness::modern(router).request("prompts/get", json!({"name": "draft"}))["error"].clone()
    };
    assert_eq!(get(Rules::new().deny(RuleMatch::prompt("dr*"), "secret"))["message"], "secret");
    assert_eq!(get(Rules::new().deny(RuleMatch::resource("draft"), "secret")), Value::Null);
}

/// A server that reads files takes `..` for the folder above.
#[test]
fn rules_see_the_path_without_dot_segments() {
    let read = |rules: Rules, uri: &str| {
        let template = ResourceTemplate::new("file:///{+name}", "file");
        let router = Router::new("files", "1").template(template, async |Note { name }, _| name).layer(rules);
        let mut s = ServerHarness::modern(router);
        s.request("resources/read", json!({"uri": uri}))["error"]["message"].as_str().map(str::to_owned)
    };
    let deny = |pattern: &str| Rules::new().deny(RuleMatch::resource(pattern), "private");
    let denied = Some("private".to_owned());
    for uri in [
        "file:///secret/a",
        "file:///x/../secret/a",
        "file:///./secret/./a",
        "file:///../secret/a",
        "file:///x/%2e%2E/secret/a",
        "file:///x/..%2Fsecret/a",
        "file:///x%2F..%2Fsecret%2Fa",
        "file:///secret/b/../a",
    ] {
        for pattern in ["file:///secret/*", "file:///secret/a", "file:///y/../secret/*", "file:///sec*"] {
            assert_eq!(read(deny(pattern), uri), denied, "{uri} by {pattern}");
        }
    }
    for uri in ["file:///secret/../a", "file:///secret/..", "file:///secrets", "file:///x?/../secret/a"] {
        assert_ne!(read(deny("file:///secret/a"), uri), denied, "{uri}");
    }
    // The last segment of a pattern goes on: these are hidden files, not all files.
    assert_eq!(read(deny("file:///home/.*"), "file:///home/.ssh"), denied);
    assert_ne!(read(deny("file:///home/.*"), "file:///home/a"), denied);
    // What is allowed has to match as it is written, too.
    let allow = || Rules::new().allow(RuleMatch::resource("file:///x/*")).deny(RuleMatch::any(), "private");
    assert_ne!(read(allow(), "file:///x/a"), denied);
    for uri in ["file:///x/../secret/a", "file:///secret/../x/a", "file:///x/..%2Fsecret/a"] {
        assert_eq!(read(allow(), uri), denied, "{uri}");
    }
}

#[test]
fn principal_that_ends_in_a_star_is_matched_as_it_is() {
    let allowed = |requests: RuleMatch, name: &str| {
        let rules = Rules::new().allow(requests).deny(RuleMatch::any(), "no");
        let mut web = HttpHarness::new(router().layer(rules));
        web.principal = Some(Principal::new(name));
        let answer = web.ask("tools/call", json!({"name": "search", "arguments": {}})).json();
        answer["result"]["content"][0]["text"] == "found"
    };
    for (name, by_principal, by_text) in [("ada*", true, true), ("adam", false, true), ("bob", false, false)]
    {
        assert_eq!(
            allowed(RuleMatch::any().principal(&Principal::new("ada*")), name),
            by_principal,
            "{name}"
        );
        assert_eq!(allowed(RuleMatch::any().principal(NamePattern::exact("ada*")), name), by_principal);
        assert_eq!(allowed(RuleMatch::any().principal("ada*"), name), by_text, "{name}");
    }
}

#[test]
fn audit_redacts_and_cuts_the_item_and_cuts_names() {
    let records = Records::default();
    let notes = ResourceTemplate::new("other:///{name}", "note");
    let router = router().template(notes, async |Note { name }, _| name).layer(audit(&records));
    let mut s = ServerHarness::modern(router);
    s.error("resources/read", json!({"uri": "https://ada:hunter22@example.com/x?access_token=abcdefgh12"}));
    s.error("resources/read", json!({"uri": format!("note:///{}", "x".repeat(10_000))}));
    s.error(&format!("com.example/{}", "x".repeat(10_000)), json!({}));
    let records = taken(&records);
    let item = records[0].item.as_deref().unwrap();
    assert!(
        item.contains("example.com") && !item.contains("hunter22") && !item.contains("abcdefgh12"),
        "{item}"
    );
    assert!(records[1].item.as_ref().unwrap().len() < 2000);
    assert!(records[2].method.len() < 2000);
}

#[test]
fn audit_of_either_side_records_why_a_call_was_denied_or_failed() {
    let reason = "the password=hunter22 is not known ".repeat(100);
    let records = Records::default();
    let router =
        router().layer(audit(&records)).layer(Rules::new().deny(RuleMatch::tool("delete_*"), reason));
    pair(router).handlers(ClientHandlers::new().layer(audit(&records))).run(async |client| {
        client.call_tool("delete_all", json!({})).await.unwrap();
        client.call_tool("fail", json!({})).await.unwrap();
    });
    let messages = taken(&records).into_iter().map(|record| match record.outcome {
        AuditOutcome::ToolError { message } => message,
        outcome => panic!("{outcome:?}"),
    });
    let [server, client, failed, seen_failed] = messages.collect::<Vec<_>>().try_into().unwrap();
    assert!(server.starts_with("the password=[redacted] is not known the"), "{server}");
    assert!(server.len() <= 1024 + "…".len());
    assert_eq!((client, &*failed, &*seen_failed), (server, "no", "no"));
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
