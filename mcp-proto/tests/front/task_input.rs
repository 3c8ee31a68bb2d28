//! Input of tasks: by the task itself, and by requests in 2025-11-25.

use crate::common::front_http::{HttpHarness, settle};
use crate::common::router::ServerHarness;
use crate::common::tools::{accept, name_form, named, tool};
use futures_lite::future::try_zip;
use mcp_proto::front::tasks::{DetachedWork, TaskChoice, TaskConfig};
use mcp_proto::front::{Context, HandlerError, NoArguments, Router, ServerEvent};
use mcp_proto::peer::server::Diagnostic;
use mcp_proto::schema::{CreateMessageParams, ElicitParams, ElicitSchema, SamplingMessage, StringSchema};
use serde_json::{Value, json};

/// A server that offers
/// - `two`, which requests two names at once, then another under a key that it has used;
/// - `model`, which sends a sampling request;
/// - `first`, which requests a name before it becomes a task, and another one then.
fn router() -> Router {
    Router::new("curious", "1")
        .tasks(TaskConfig::default())
        .task_tool(tool("two"), TaskChoice::Optional, async |NoArguments {}, cx: Context| {
            let (one, other) =
                try_zip(cx.elicit("one", name_form()), cx.elicit("other", name_form())).await?;
            let again = cx.elicit("one", name_form()).await?;
            Ok::<_, HandlerError>(format!("{}, {}, {}", named(&one), named(&other), named(&again)))
        })
        .task_tool(tool("model"), TaskChoice::Optional, async |NoArguments {}, cx: Context| {
            let question = CreateMessageParams::new([SamplingMessage::user("Well?")], 10_u64);
            let answer = cx.sample("question", question).await?;
            Ok::<_, HandlerError>(answer.content.text_content())
        })
        .detaching_tool(tool("first"), TaskChoice::Optional, async |NoArguments {}, cx: Context| {
            let first = named(&cx.elicit("who", name_form()).await?);
            Ok(DetachedWork::new(async move |cx: Context| {
                let then = cx.elicit("who", name_form()).await?;
                Ok::<_, HandlerError>(format!("{first}, then {}", named(&then)))
            }))
        })
}

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn capabilities() -> Value {
    json!({"elicitation": {}, "extensions": {(EXTENSION): {}}})
}

fn modern() -> ServerHarness {
    ServerHarness::modern_with(router(), capabilities())
}

#[track_caller]
fn begin(s: &mut ServerHarness, tool: &str) -> Value {
    let created = s.result("tools/call", json!({"name": tool}));
    assert_eq!(created["resultType"], "task", "{created}");
    s.turn();
    created["taskId"].clone()
}

#[track_caller]
fn get(s: &mut ServerHarness, id: &Value) -> Value {
    s.turn();
    s.result("tasks/get", json!({"taskId": id}))
}

fn update(s: &mut ServerHarness, id: &Value, responses: Value) -> Value {
    let line = s.request("tasks/update", json!({"taskId": id, "inputResponses": responses}));
    s.turn();
    line
}

fn keys(task: &Value) -> Vec<&str> {
    let requests = task["inputRequests"].as_object();
    requests.into_iter().flatten().map(|(key, _)| key.as_str()).collect()
}

// --- 2026-07-28 ---

/// S11.3, S11.5, S11.8
#[test]
fn task_requests_input_and_takes_partial_answers() {
    let mut s = modern();
    let id = begin(&mut s, "two");
    let task = get(&mut s, &id);
    assert_eq!((&task["status"], keys(&task)), (&json!("input_required"), vec!["one", "other"]));
    assert_eq!(task["inputRequests"]["one"]["method"], "elicitation/create");
    assert_eq!(task["inputRequests"]["one"]["params"]["message"], "Your name?");

    let ack = update(&mut s, &id, json!({"one": accept("Ada")}));
    assert_eq!(ack["result"]["resultType"], "complete");
    assert!(ack["result"].get("inputRequests").is_none());
    let task = get(&mut s, &id);
    assert_eq!((&task["status"], keys(&task)), (&json!("input_required"), vec!["other"]));
    // It has been answered: another answer has no effect.
    update(&mut s, &id, json!({"one": accept("Eve"), "nonesuch": {"action": "accept"}}));

    update(&mut s, &id, json!({"other": accept("Bob")}));
    // The key was used before, and is not used again.
    let task = get(&mut s, &id);
    assert_eq!((&task["status"], keys(&task)), (&json!("input_required"), vec!["one-2"]));
    update(&mut s, &id, json!({"one": accept("Eve")}));
    assert_eq!(get(&mut s, &id)["status"], "input_required");
    update(&mut s, &id, json!({"one-2": accept("Cy")}));

    let task = get(&mut s, &id);
    assert_eq!(task["status"], "completed");
    assert_eq!(task["result"]["content"][0]["text"], "Ada, Bob, Cy");
    assert!(task.get("inputRequests").is_none());
}

/// S11.8, S4.8
#[test]
fn server_refuses_an_invalid_answer_and_accepts_another() {
    let mut s = modern();
    let id = begin(&mut s, "two");
    let odd_field = json!({"action": "accept", "content": {"name": 7}});
    for odd in [json!({"roots": []}), json!(7), json!({}), json!({"action": "perhaps"}), odd_field] {
        let answered = update(&mut s, &id, json!({"other": accept("Bob"), "one": odd}));
        assert_eq!(answered["error"]["code"], -32602, "{answered}");
        // Nor is the valid answer beside it accepted.
        assert_eq!(keys(&get(&mut s, &id)), ["one", "other"]);
    }
    assert_eq!(update(&mut s, &id, json!({"one": accept("Ada")}))["result"]["resultType"], "complete");
}

/// S11.10
#[test]
fn subscriptions_receive_the_input_requests_of_a_task() {
    let mut s = modern();
    let id = begin(&mut s, "two");
    s.send("subscriptions/listen", json!({"notifications": {"taskIds": [id]}}));
    s.line();
    s.send("tasks/update", json!({"taskId": id, "inputResponses": {"one": accept("Ada")}}));
    let lines = [s.line(), s.line()];
    let told = lines.iter().find(|line| line["method"] == "notifications/tasks").expect("told");
    assert_eq!((&told["params"]["status"], keys(&told["params"])), (&json!("input_required"), vec!["other"]));
}

/// S11.1: the client must have declared the capability of the input request as well.
#[test]
fn task_does_not_request_undeclared_input() {
    let mut s = modern();
    let id = begin(&mut s, "model");
    let task = get(&mut s, &id);
    assert_eq!((&task["status"], &task["result"]["isError"]), (&json!("completed"), &json!(true)));
}

/// S9.1: a task requests no secret either.
#[test]
fn task_requests_no_secret_by_a_form() {
    let router = Router::new("curious", "1").tasks(TaskConfig::default()).task_tool(
        tool("login"),
        TaskChoice::Optional,
        async |NoArguments {}, cx: Context| {
            let form = ElicitSchema::new([("password", StringSchema::new().into())]);
            match cx.elicit("login", ElicitParams::form("Log in.", form)).await {
                Ok(_) => "asked".to_owned(),
                Err(error) => error.to_string(),
            }
        },
    );
    let mut s = ServerHarness::modern_with(router, capabilities());
    let id = begin(&mut s, "login");
    let task = get(&mut s, &id);
    assert_eq!((&task["status"], keys(&task)), (&json!("completed"), vec![]));
    let said = task["result"]["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("elicit_url"), "{said}");
}

/// S9.11: the form of a task is reported like any other.
#[test]
fn task_reports_a_form_that_shows_a_url() {
    let router = Router::new("curious", "1").tasks(TaskConfig::default()).task_tool(
        tool("terms"),
        TaskChoice::Optional,
        async |NoArguments {}, cx: Context| {
            let form = ElicitParams::form("See https://example.com/terms", ElicitSchema::empty());
            Ok::<_, HandlerError>(cx.elicit("terms", form).await?.action.as_str().to_owned())
        },
    );
    let mut s = ServerHarness::modern_with(router, capabilities());
    let mut events = s.handle.events();
    let id = begin(&mut s, "terms");
    assert_eq!(keys(&get(&mut s, &id)).len(), 1);
    let is_reported =
        |event: &ServerEvent| matches!(event, ServerEvent::Diagnostic(Diagnostic::UrlInForm { .. }));
    assert!(events.drain().iter().any(is_reported));
}

#[test]
fn cancelled_task_has_no_input_requests() {
    let mut s = modern();
    let id = begin(&mut s, "two");
    s.result("tasks/cancel", json!({"taskId": id}));
    let task = get(&mut s, &id);
    assert_eq!((&task["status"], keys(&task)), (&json!("cancelled"), vec![]));
    assert_eq!(update(&mut s, &id, json!({"one": accept("Ada")}))["result"]["resultType"], "complete");
}

/// S11.5
#[cfg(feature = "seal")]
#[test]
fn input_requested_before_the_task_exists_is_requested_by_the_call() {
    let mut s = modern();
    let round = s.result("tools/call", json!({"name": "first"}));
    assert_eq!((&round["resultType"], keys(&round)), (&json!("input_required"), vec!["who"]));
    assert!(round.get("taskId").is_none());
    let created = s.result(
        "tools/call",
        json!({
            "name": "first", "inputResponses": {"who": accept("Ada")}, "requestState": round["requestState"],
        }),
    );
    assert_eq!(created["resultType"], "task", "{created}");
    assert!(created.get("requestState").is_none() && created.get("inputRequests").is_none());
    let id = created["taskId"].clone();
    let task = get(&mut s, &id);
    assert_eq!((&task["status"], keys(&task)), (&json!("input_required"), vec!["who"]));
    assert!(task.get("requestState").is_none());
    update(&mut s, &id, json!({"who": accept("Bob")}));
    assert_eq!(get(&mut s, &id)["result"]["content"][0]["text"], "Ada, then Bob");
}

/// S11.5: the call itself requests all input of a client without tasks.
#[cfg(feature = "seal")]
#[test]
fn call_without_a_task_requests_all_input() {
    let mut s = ServerHarness::modern_with(router(), json!({"elicitation": {}}));
    let mut result = s.result("tools/call", json!({"name": "two"}));
    assert_eq!((&result["resultType"], keys(&result)), (&json!("input_required"), vec!["one", "other"]));
    let answers = json!({"one": accept("Ada"), "other": accept("Bob")});
    result = s.result(
        "tools/call",
        json!({"name": "two", "inputResponses": answers, "requestState": result["requestState"]}),
    );
    assert_ne!(result["resultType"], "task");
}

// --- 2025-11-25 ---

fn legacy() -> ServerHarness {
    ServerHarness::legacy_with(router(), "2025-11-25", json!({"elicitation": {}}))
}

/// The task to which a message belongs.
fn related(message: &Value) -> &Value {
    &message["_meta"]["io.modelcontextprotocol/related-task"]["taskId"]
}

/// S11.11, R7: over a byte stream the request is sent at once.
#[test]
fn legacy_task_sends_requests_that_name_it() {
    let mut s = legacy();
    s.send("tools/call", json!({"name": "two", "task": {}}));
    let mut lines = Vec::new();
    while let Some(line) = s.try_line() {
        lines.push(line);
    }
    let id = lines.iter().find_map(|line| line["result"]["task"].get("taskId")).expect("a task").clone();
    let told = lines.iter().find(|line| line["method"] == "notifications/tasks/status").expect("told");
    assert_eq!(told["params"]["status"], "input_required");
    let asked: Vec<&Value> = lines.iter().filter(|line| line["method"] == "elicitation/create").collect();
    assert_eq!(asked.len(), 2);
    for request in &asked {
        assert_eq!(*related(&request["params"]), id);
    }
    assert_eq!(get(&mut s, &id)["status"], "input_required");

    for (request, name) in asked.iter().zip(["Ada", "Bob"]) {
        s.send_message(&json!({"jsonrpc": "2.0", "id": request["id"], "result": accept(name)}));
    }
    let mut third = None;
    while let Some(line) = s.try_line() {
        if line["method"] == "elicitation/create" {
            third = Some(line);
        }
    }
    s.send_message(
        &json!({"jsonrpc": "2.0", "id": third.expect("a third question")["id"], "result": accept("Cy")}),
    );
    while s.try_line().is_some() {}
    let result = s.result("tasks/result", json!({"taskId": id}));
    assert_eq!((&result["content"][0]["text"], related(&result)), (&json!("Ada, Bob, Cy"), &id));
}

/// S11.11, R7: over HTTP it is sent with `tasks/result`, which the client awaits it on.
#[test]
fn legacy_task_over_http_sends_requests_on_the_stream_of_its_result() {
    let mut web = HttpHarness::new(router());
    let session = web.open_with("2025-11-25", json!({"elicitation": {}}));
    let mut caller = web.post_request(&session, "tools/call", json!({"name": "two", "task": {}}));
    settle(&mut web, &mut caller);
    let id = caller.json()["result"]["task"]["taskId"].clone();
    let mut caller = web.post_request(&session, "tasks/get", json!({"taskId": id}));
    settle(&mut web, &mut caller);
    assert_eq!(caller.json()["result"]["status"], "input_required");

    let mut waiting = web.post_request(&session, "tasks/result", json!({"taskId": id}));
    let mut answers = ["Ada", "Bob", "Cy"].into_iter();
    let result = loop {
        settle(&mut web, &mut waiting);
        let message = waiting.message();
        if message.get("result").is_some() {
            break message["result"].clone();
        }
        assert_eq!((&message["method"], related(&message["params"])), (&json!("elicitation/create"), &id));
        let answer =
            json!({"jsonrpc": "2.0", "id": message["id"], "result": accept(answers.next().unwrap())});
        assert_eq!(web.post(&session, &answer).head().status, 202);
        web.poll_driver();
    };
    assert_eq!((&result["content"][0]["text"], related(&result)), (&json!("Ada, Bob, Cy"), &id));
}
