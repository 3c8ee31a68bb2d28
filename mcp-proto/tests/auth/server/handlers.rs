//! What handlers know of tokens and demand of them; to whom sessions and states belong.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use mcp_proto::auth::server::{Access, PresentedToken, Protection, VerifyError};
use mcp_proto::auth::{Requirement, Scopes, Secret};
use mcp_proto::front::guard::Guard;
use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
use mcp_proto::front::{Context, HandlerError, NoArguments, Progress, Router, RouterError};
use mcp_proto::peer::Principal;
use mcp_proto::schema::{Json, Resource, Tool};
use mcp_proto::transport::http::server::ResponseHead;
use serde_json::{Value, json};

use super::{ISSUER, METADATA, RESOURCE};
use crate::http_front_common::{HttpHarness, field};

fn tool(name: &str) -> Tool {
    Tool::new(name, "A tool", Json::empty_object())
}

/// Tools, and how often one of them began.
fn router() -> (Router, Arc<AtomicUsize>) {
    let begun = Arc::new(AtomicUsize::new(0));
    let begins = begun.clone();
    let router = Router::new("files", "1")
        .tool_with(tool("who"), async |NoArguments {}, cx: Context| match cx.access() {
            Some(access) => format!("{} by {:?}", access.principal.as_str(), access.client_id),
            None => "nobody".to_owned(),
        })
        .tool_with(tool("write"), async |NoArguments {}, cx: Context| {
            cx.require(["files:write", "files:lock"])?;
            Ok::<_, HandlerError>("written")
        })
        .tool_with(tool("late"), async |NoArguments {}, cx: Context| {
            cx.progress(Progress::new(1));
            cx.require(["files:write"])?;
            Ok::<_, HandlerError>("written")
        })
        .tool_with(tool("odd"), async |NoArguments {}, cx: Context| {
            cx.require(["files write"])?;
            Ok::<_, HandlerError>("written")
        })
        .tool_with(tool("declared"), move |NoArguments {}, cx: Context| {
            begins.fetch_add(1, Ordering::Relaxed);
            async move {
                cx.require(["files:purge"])?;
                Ok::<_, HandlerError>("done")
            }
        })
        .tool_scopes("declared", ["files:admin"])
        .tasks(TaskConfig::default())
        .task_tool(tool("bake"), TaskChoice::Optional, async |NoArguments {}, _| "baked")
        .tool_scopes("bake", ["kitchen"])
        .resource(Resource::new("file:///a", "a"), async |_, cx: Context| {
            cx.require(["files:read"])?;
            Ok::<_, HandlerError>("text")
        });
    (router, begun)
}

/// Tokens are `PRINCIPAL~SCOPE+SCOPE`, with `_` for `:`, as nobody should make them.
fn guard() -> Guard {
    let protection = Protection::new(RESOURCE, ISSUER)
        .and_then(|protection| protection.required(["mcp"]))
        .unwrap()
        .implies(|granted, needed| granted == "files:admin" && needed.starts_with("files:"));
    Guard::new(protection, async |presented: PresentedToken| {
        let token = presented.token.expose();
        let (name, scopes) = token.split_once('~').ok_or(VerifyError::invalid("it is not known"))?;
        let mut access = Access::new(Principal::new(name), RESOURCE);
        access.scopes = Scopes::parse(&scopes.replace('+', " ").replace('_', ":"));
        access.client_id = Some("tester".into());
        Ok(access)
    })
}

fn web(token: &str) -> HttpHarness {
    let mut web = HttpHarness::new(router().0);
    web.guard = Some(guard());
    web.token = Some(token.into());
    web
}

#[track_caller]
fn demand(head: &ResponseHead) -> Requirement {
    Requirement::parse(field(head, "www-authenticate").expect("a challenge")).expect("one of bearer tokens")
}

#[track_caller]
fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn a_request_without_a_token_does_not_get_in() {
    let mut web = web("");
    web.token = None;
    let head = web.call("who", json!({})).head();
    assert_eq!(head.status, 401);
    assert_eq!(demand(&head).resource_metadata.as_deref(), Some(METADATA));
    web.token = Some("unknown".into());
    let head = web.call("who", json!({})).head();
    assert_eq!((head.status, demand(&head).error.as_deref()), (401, Some("invalid_token")));
}

/// S10.3
#[test]
fn every_request_of_either_era_is_looked_at() {
    let mut web = web("ada~mcp");
    let session = web.open();
    web.token = None;
    for (method, headers) in [
        ("POST", &[][..]),
        ("GET", &[("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")]),
        ("DELETE", &[("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")]),
        ("PUT", &[]),
    ] {
        assert_eq!(web.send(method, headers, "{}").head().status, 401, "{method}");
    }
}

#[test]
fn handlers_know_who_asks_by_which_client() {
    let mut web = web("ada~mcp");
    assert_eq!(text(&web.call("who", json!({})).json()), "ada by Some(\"tester\")");
    web.guard = None;
    web.token = None;
    assert_eq!(text(&web.call("who", json!({})).json()), "nobody");
}

/// S10.4
#[test]
fn what_a_handler_demands_in_vain_is_403_with_all_that_is_needed() {
    let mut web = web("ada~mcp+files_lock");
    let mut caller = web.call("write", json!({}));
    let head = caller.head();
    assert_eq!((head.status, field(&head, "content-type")), (403, Some("application/json")));
    let demand = demand(&head);
    assert!(demand.is_insufficient_scope());
    assert_eq!(demand.scope, Some(Scopes::parse("mcp files:write files:lock")));
    assert_eq!(demand.resource_metadata.as_deref(), Some(METADATA));
    let answer = caller.json();
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert!(answer["id"].is_number());
    web.token = Some("ada~mcp+files_lock+files_write".into());
    let mut caller = web.call("write", json!({}));
    assert_eq!((caller.head().status, text(&caller.json())), (200, "written"));
}

/// S10.5
#[test]
fn broader_scopes_do_for_handlers_as_well() {
    assert_eq!(text(&web("ada~mcp+files_admin").call("write", json!({})).json()), "written");
}

#[test]
fn resources_may_demand_scopes_too() {
    let mut caller = web("ada~mcp").ask("resources/read", json!({"uri": "file:///a"}));
    assert_eq!(demand(&caller.head()).scope, Some(Scopes::parse("mcp files:read")));
}

/// The first output decides what the answer is.
#[test]
fn once_something_was_sent_a_demand_in_vain_is_an_error() {
    let mut caller = web("ada~mcp").ask("tools/call", json!({"name": "late", "_meta": {"progressToken": 1}}));
    let head = caller.head();
    assert_eq!((head.status, field(&head, "www-authenticate")), (200, None));
    assert_eq!(caller.message()["method"], "notifications/progress");
    assert_eq!(caller.message()["error"]["code"], -32600);
    assert!(caller.ended);
}

#[test]
fn what_is_no_scope_is_demanded_of_everybody() {
    let answer = web("ada~mcp").call("odd", json!({})).json();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
}

/// S10.4
#[test]
fn the_scopes_of_a_tool_are_looked_at_before_it_begins() {
    let (router, begun) = router();
    let mut web = HttpHarness::new(router);
    web.guard = Some(guard());
    web.token = Some("ada~mcp".into());
    let head = web.call("declared", json!({})).head();
    assert_eq!((head.status, demand(&head).scope), (403, Some(Scopes::parse("mcp files:admin"))));
    assert_eq!(begun.load(Ordering::Relaxed), 0);
    // What it needs beside comes in one demand with that.
    web.guard = Some(Guard::new(Protection::new(RESOURCE, ISSUER).unwrap(), async |_: PresentedToken| {
        let mut access = Access::new(Principal::new("ada"), RESOURCE);
        access.scopes = Scopes::parse("files:admin");
        Ok(access)
    }));
    let head = web.call("declared", json!({})).head();
    assert_eq!(demand(&head).scope, Some(Scopes::parse("files:admin files:purge")));
    assert_eq!(begun.load(Ordering::Relaxed), 1);
}

/// S10.4
#[test]
fn the_scopes_of_a_tool_are_looked_at_before_it_becomes_a_task() {
    let call = json!({"name": "bake", "arguments": {}});
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut web = web("ada~mcp");
    let head = web.ask_with("tools/call", call.clone(), capabilities.clone()).head();
    assert_eq!((head.status, demand(&head).scope), (403, Some(Scopes::parse("mcp kitchen"))));
    web.token = Some("ada~mcp+kitchen".into());
    let mut caller = web.ask_with("tools/call", call, capabilities);
    caller.poll_exchange();
    web.poll_driver();
    assert_eq!(caller.json()["result"]["resultType"], "task");
}

/// A handler in place of what the router would do does not let anybody past the scopes of tools.
#[test]
fn scopes_of_tools_hold_for_a_handler_of_every_call() {
    use mcp_proto::schema::{CallTool, CallToolResult};

    let router = router().0.handler::<CallTool, _, _>(async |_, _| CallToolResult::text("anything"));
    let mut web = HttpHarness::new(router);
    web.guard = Some(guard());
    web.token = Some("ada~mcp".into());
    assert_eq!(web.call("declared", json!({})).head().status, 403);
    assert_eq!(web.call("who", json!({})).head().status, 200);
}

#[test]
fn scopes_of_a_tool_that_is_not_there_are_a_mistake() {
    let router = Router::new("a", "1").tool_scopes("nothing", ["a"]);
    assert_eq!(router.check(), Err(RouterError::NoTool { tool: "nothing".into() }));
    let router =
        Router::new("a", "1").tool_with(tool("t"), async |NoArguments {}, _| "").tool_scopes("t", ["a b"]);
    assert!(matches!(router.check(), Err(RouterError::Scope { .. })));
}

/// S10.10: on standard input and output there are no tokens, and whoever started the server may do everything.
#[test]
fn where_no_token_is_demanded_everything_is_allowed() {
    let mut web = HttpHarness::new(router().0);
    assert_eq!(text(&web.call("write", json!({})).json()), "written");
    assert_eq!(text(&web.call("declared", json!({})).json()), "done");
}

// --- Sessions ---

#[test]
fn each_request_in_a_session_is_allowed_what_its_own_token_allows() {
    let mut web = web("ada~mcp+files_write+files_lock");
    let session = web.open();
    let call = json!({"name": "write", "arguments": {}});
    let mut caller = web.post_request(&session, "tools/call", call.clone());
    assert_eq!(text(&caller.json()), "written");
    web.token = Some("ada~mcp".into());
    let mut caller = web.post_request(&session, "tools/call", call.clone());
    let head = caller.head();
    assert_eq!(head.status, 403, "{:?}", caller.json());
    assert_eq!(demand(&head).scope, Some(Scopes::parse("mcp files:write files:lock")));
    assert_eq!(caller.json()["error"]["code"], -32600);
    web.token = Some("ada~mcp+files_admin".into());
    assert_eq!(text(&web.post_request(&session, "tools/call", call).json()), "written");
}

/// The first output decides: an answer that is one of several has no status of its own.
#[test]
fn in_a_batch_a_demand_in_vain_is_an_error_among_answers() {
    let mut web = web("ada~mcp");
    let session = web.open_with("2025-03-26", json!({}));
    let call = |id: i64, tool: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}});
    let batch = json!([call(1, "write"), call(2, "who")]).to_string();
    let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-03-26")];
    let mut caller = web.send("POST", &headers, &batch);
    web.poll_driver();
    let head = caller.head();
    assert_eq!((head.status, field(&head, "www-authenticate")), (200, None));
    let answers = caller.json();
    let codes: Vec<&Value> =
        answers.as_array().unwrap().iter().map(|answer| &answer["error"]["code"]).collect();
    assert!(codes.contains(&&json!(-32600)) && codes.contains(&&Value::Null), "{answers}");
}

/// A refusal is no stream, whatever a client takes.
#[test]
fn a_client_that_takes_streams_alone_is_refused_by_the_status_as_well() {
    let mut web = web("ada~mcp");
    let session = web.open();
    let call = json!({"name": "write", "arguments": {}});
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call});
    let headers = [
        ("mcp-session-id", session.as_str()),
        ("mcp-protocol-version", "2025-11-25"),
        ("accept", "text/event-stream"),
    ];
    let mut caller = web.send("POST", &headers, &message.to_string());
    web.poll_driver();
    let head = caller.head();
    assert_eq!((head.status, field(&head, "content-type")), (403, Some("application/json")));
    assert!(demand(&head).is_insufficient_scope());
    assert_eq!(caller.json()["id"], 7);
}

/// For servers whose tokens are checked by something before them.
#[test]
fn a_handler_may_deny_without_a_guard() {
    let router = Router::new("files", "1").tool_with(tool("no"), async |NoArguments {}, _| {
        Err::<String, _>(HandlerError::denied("not you", "Bearer error=\"insufficient_scope\", scope=\"a\""))
    });
    let mut web = HttpHarness::new(router);
    let mut caller = web.call("no", json!({}));
    let head = caller.head();
    assert_eq!((head.status, demand(&head).scope), (403, Some(Scopes::parse("a"))));
    assert_eq!(caller.json()["error"]["message"], "not you");
}

/// S10.9
#[test]
fn the_id_of_a_session_is_no_credential() {
    let mut web = web("ada~mcp");
    let session = web.open();
    web.token = Some("eve~mcp".into());
    let who = json!({"name": "who", "arguments": {}});
    assert_eq!(web.post_request(&session, "tools/call", who.clone()).head().status, 404);
    assert_eq!(web.get(&session, None).head().status, 404);
    assert_eq!(web.delete(&session).status, 404);
    web.token = None;
    assert_eq!(web.post_request(&session, "tools/call", who.clone()).head().status, 401);
    web.token = Some("ada~mcp".into());
    assert_eq!(text(&web.post_request(&session, "tools/call", who).json()), "ada by Some(\"tester\")");
}

/// S10.9
#[test]
fn a_task_belongs_to_whoever_has_begun_it() {
    let mut web = web("ada~mcp+kitchen");
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let call = json!({"name": "bake", "arguments": {}});
    let mut caller = web.ask_with("tools/call", call, capabilities.clone());
    caller.poll_exchange();
    web.poll_driver();
    let task = caller.json()["result"]["taskId"].as_str().unwrap().to_owned();
    let get = json!({"taskId": task});
    web.token = Some("eve~mcp+kitchen".into());
    let answer = web.ask_with("tasks/get", get.clone(), capabilities.clone()).json();
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    web.token = Some("ada~mcp".into());
    let answer = web.ask_with("tasks/get", get, capabilities).json();
    assert_eq!(answer["result"]["taskId"], task, "{answer}");
}

/// S10.9
#[cfg(feature = "seal")]
#[test]
fn a_sealed_state_is_good_for_whoever_it_was_made_for() {
    use mcp_proto::schema::{ElicitParams, ElicitSchema, Map};

    let router = Router::new("asking", "1").tool_with(tool("ask"), async |NoArguments {}, cx: Context| {
        cx.elicit("name", ElicitParams::form("Who?", ElicitSchema::new(Map::new()))).await?;
        Ok::<_, HandlerError>("asked")
    });
    let mut web = HttpHarness::new(router);
    web.guard = Some(guard());
    web.token = Some("ada~mcp".into());
    let capabilities = json!({"elicitation": {"form": {}}});
    let mut call = json!({"name": "ask", "arguments": {}});
    let answer = web.ask_with("tools/call", call.clone(), capabilities.clone()).json();
    call["requestState"] = answer["result"]["requestState"].clone();
    call["inputResponses"] = json!({"name": {"action": "accept", "content": {}}});
    web.token = Some("eve~mcp".into());
    let answer = web.ask_with("tools/call", call.clone(), capabilities.clone()).json();
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    web.token = Some("ada~mcp".into());
    assert_eq!(text(&web.ask_with("tools/call", call, capabilities).json()), "asked");
}

/// S10.10: a server for one program on the same machine may know its token by itself.
#[test]
fn one_token_for_a_local_server_is_compared_in_constant_time() {
    let token = Secret::new("fresh-and-random");
    let mut web = HttpHarness::new(router().0);
    let protection = Protection::new("http://localhost:8080/mcp", "http://localhost:8080").unwrap();
    web.guard = Some(Guard::new(protection, move |presented: PresentedToken| {
        let good = presented.token == token;
        async move {
            good.then(|| Access::new(Principal::new("local"), "http://localhost:8080/mcp"))
                .ok_or(VerifyError::invalid("it is not known"))
        }
    }));
    web.token = Some("fresh-and-random".into());
    assert_eq!(text(&web.call("who", json!({})).json()), "local by None");
    web.token = Some("fresh-and-randon".into());
    assert_eq!(web.call("who", json!({})).head().status, 401);
}
