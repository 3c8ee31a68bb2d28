//! Handlers that ask: by one code, clients of either era.
#![cfg(all(feature = "std", feature = "client", feature = "server", feature = "http", feature = "seal"))]

mod front_common;
mod http_front_common;
mod router_common;

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context as TaskContext, Poll, Waker};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use front_common::{Counter, TestClock};
use futures_lite::future::{poll_once, yield_now, zip};
use http_front_common::Web;
use mcp_proto::UnixTime;
use mcp_proto::bind::{StreamClient, StreamServer};
use mcp_proto::front::{self, ClientHandlers};
use mcp_proto::front::{
    Answered, Completion, Context, Error, HandlerError, NoArguments, Router, SingleUse, StateId, StateUse,
    UsedStates,
};
use mcp_proto::peer::client::{LinkAction, Mode};
use mcp_proto::peer::server::{SealKey, Sealer};
use mcp_proto::peer::{Principal, Refusal};
use mcp_proto::schema::ElicitResult;
use mcp_proto::schema::{
    CallToolParams, CompleteParams, CreateMessageParams, ElicitParams, ElicitSchema, ElicitValue,
    InputRequiredResult, NumberKind, NumberSchema, Prompt, Resource, SamplingMessage, StringSchema, Tool,
};
use router_common::Served;
use serde_json::{Value, json};

fn tool(name: &str) -> Tool {
    Tool::new(name, "A tool", json!({"type": "object"}))
}

fn form(field: &str) -> ElicitParams {
    ElicitParams::form(format!("Your {field}?"), ElicitSchema::new([(field, StringSchema::new().into())]))
}

/// Asks for one thing, and says what was answered.
async fn question(cx: &Context, field: &str) -> Result<String, HandlerError> {
    let answer = cx.elicit(field, form(field)).await?;
    Ok(match answer.content.as_ref().and_then(|content| content.get(field)) {
        Some(ElicitValue::String(text)) => text.clone(),
        _ => answer.action.as_str().to_owned(),
    })
}

fn sampling(text: &str) -> CreateMessageParams {
    CreateMessageParams::new([SamplingMessage::user(text)], 10_u64)
}

/// A server with a tool for each way to ask.
fn router() -> Router {
    Router::new("asker", "1")
        .tool_with(tool("greet"), async |NoArguments {}, cx: Context| {
            Ok::<_, HandlerError>(format!("Hello, {}!", question(&cx, "name").await?))
        })
        .tool_with(tool("other"), async |NoArguments {}, cx: Context| question(&cx, "name").await)
        .tool_with(tool("three"), async |NoArguments {}, cx: Context| {
            let (name, (word, roots)) =
                zip(question(&cx, "name"), zip(cx.sample("word", sampling("A word?")), cx.roots("roots")))
                    .await;
            Ok::<_, HandlerError>(format!(
                "{} {} {}",
                name?,
                word?.content.text_content(),
                roots?.roots.len()
            ))
        })
        .tool_with(tool("steps"), async |NoArguments {}, cx: Context| {
            let first = question(&cx, "first").await?;
            let second = question(&cx, "second").await?;
            let third = question(&cx, "third").await?;
            Ok::<_, HandlerError>(format!("{first} {second} {third}"))
        })
}

fn everything() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

/// One attempt at a call: the whole answer.
fn attempt(web: &mut Web, tool: &str, state: Option<&Value>, responses: Option<Value>) -> Value {
    attempt_with(web, json!({"name": tool, "arguments": {}}), state, responses)
}

fn attempt_with(web: &mut Web, mut params: Value, state: Option<&Value>, responses: Option<Value>) -> Value {
    if let Some(state) = state {
        params["requestState"] = state.clone();
    }
    if let Some(responses) = responses {
        params["inputResponses"] = responses;
    }
    web.ask_with("tools/call", params, everything()).json()
}

fn accepted(field: &str, text: &str) -> Value {
    json!({"action": "accept", "content": {field: text}})
}

/// What is asked for, and the state that goes with it.
#[track_caller]
fn asked(answer: &Value) -> (Vec<String>, Value) {
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    assert!(result["requestState"].is_string(), "{answer}");
    let requests = result["inputRequests"].as_object().expect("requests");
    let mut keys: Vec<_> = requests.keys().cloned().collect();
    keys.sort();
    (keys, result["requestState"].clone())
}

#[track_caller]
fn told(answer: &Value) -> &str {
    let result = &answer["result"];
    assert_eq!(result["resultType"], "complete", "{answer}");
    result["content"][0]["text"].as_str().unwrap()
}

#[track_caller]
fn refused(answer: &Value) -> &str {
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    answer["error"]["message"].as_str().unwrap()
}

/// The state of `greet` after its first attempt.
#[track_caller]
fn begun(web: &mut Web) -> Value {
    asked(&attempt(web, "greet", None, None)).1
}

fn alice() -> Option<Value> {
    Some(json!({"name": accepted("name", "Alice")}))
}

// --- One code, two eras ---

/// S4.1, S4.2, S4.3, S9.4: a modern client is asked by the result, and asks again with the answer.
#[test]
fn a_modern_client_is_asked_by_the_result() {
    let mut web = Web::new(router());
    let first = attempt(&mut web, "greet", None, None);
    let (keys, state) = asked(&first);
    assert_eq!(keys, ["name"]);
    let request = &first["result"]["inputRequests"]["name"];
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"]["message"], "Your name?");
    assert_eq!(told(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
}

/// S4.1: the same handler, by a request.
#[test]
fn a_legacy_client_is_asked_by_a_request_of_the_same_handler() {
    let mut s = Served::legacy_with(router(), "2025-06-18", everything());
    let id = s.send("tools/call", json!({"name": "greet"}));
    let question = s.line();
    assert_eq!(question["method"], "elicitation/create");
    s.say(&json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted("name", "Alice")}));
    let answer = s.line();
    assert_eq!(
        (&answer["id"], &answer["result"]["content"][0]["text"]),
        (&json!(id), &json!("Hello, Alice!"))
    );
}

/// S4.1, C5.1: the front's own client and server, in either era, over two buffers.
#[test]
fn a_client_is_asked_whatever_its_era() {
    for mode in [Mode::ModernOnly, Mode::LegacyOnly] {
        let clock = Arc::new(TestClock::default());
        let machine = StreamServer::new(router().config());
        let (_, mut server) = front::server(machine, clock.clone(), Arc::new(Counter::default()), router());
        let handlers = ClientHandlers::new().elicitation(async |asked: ElicitParams, _| {
            let ElicitParams::Form(form) = asked else { return ElicitResult::decline() };
            let (field, _) = form.requested_schema.properties.iter().next().unwrap();
            let answer: ElicitResult = serde_json::from_value(accepted(field, field)).unwrap();
            answer
        });
        let mut config = front_common::config();
        config.mode = mode;
        config.capabilities = handlers.capabilities().clone();
        let (client, mut driver) = front::client(StreamClient::new(config), clock, handlers);
        let mut call = client.call_tool("steps", json!({})).start().unwrap();
        let mut cx = TaskContext::from_waker(Waker::noop());
        let (mut up, mut down) = (Vec::new(), Vec::new());
        let mut said = None;
        for _ in 0..100 {
            let _: Poll<()> = driver.poll(&mut cx, |machine, now| {
                if let Some(LinkAction::Open) = machine.poll_link() {
                    machine.handle_open(now);
                }
                machine.handle_input(now, core::mem::take(&mut down).into());
                let _ = machine.poll_transmit(&mut up);
                machine.handle_timeout(now);
                Poll::Pending
            });
            let _: Poll<()> = server.poll(&mut cx, |machine, now| {
                machine.handle_input(now, core::mem::take(&mut up).into());
                let _ = machine.poll_transmit(&mut down);
                Poll::Pending
            });
            if let Poll::Ready(result) = pin!(&mut call).poll(&mut cx) {
                said = Some(result.unwrap().text_content());
                break;
            }
        }
        assert_eq!(said.as_deref(), Some("first second third"), "{mode:?}");
    }
}

#[test]
fn a_legacy_client_is_asked_several_things_at_once() {
    let mut s = Served::legacy_with(router(), "2025-11-25", everything());
    s.send("tools/call", json!({"name": "three"}));
    for _ in 0..3 {
        let question = s.line();
        let result = match question["method"].as_str().unwrap() {
            "elicitation/create" => accepted("name", "Alice"),
            "sampling/createMessage" => {
                json!({"role": "assistant", "content": {"type": "text", "text": "tree"}, "model": "m"})
            }
            _ => json!({"roots": [{"uri": "file:///a"}]}),
        };
        s.say(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}));
    }
    assert_eq!(s.line()["result"]["content"][0]["text"], "Alice tree 1");
}

#[test]
fn a_modern_client_on_a_stream_is_asked_as_well() {
    let mut s = Served::modern_with(router(), everything());
    let first = s.request("tools/call", json!({"name": "greet"}));
    let (_, state) = asked(&first);
    let again = json!({"name": "greet", "requestState": state, "inputResponses": alice().unwrap()});
    assert_eq!(told(&s.request("tools/call", again)), "Hello, Alice!");
}

/// S4.1: prompts and resources can ask as well.
#[test]
fn prompts_and_resources_can_ask() {
    let router = Router::new("x", "1")
        .prompt(Prompt::new("p"), async |NoArguments {}, cx: Context| question(&cx, "name").await)
        .resource(Resource::new("r:1", "r"), async |_, cx: Context| question(&cx, "name").await);
    let mut web = Web::new(router);
    for (method, mut params) in
        [("prompts/get", json!({"name": "p"})), ("resources/read", json!({"uri": "r:1"}))]
    {
        let (_, state) = asked(&web.ask_with(method, params.clone(), everything()).json());
        params["requestState"] = state;
        params["inputResponses"] = alice().unwrap();
        let answer = web.ask_with(method, params, everything()).json();
        assert!(answer["result"].to_string().contains("Alice"), "{answer}");
    }
}

/// S4.1: no other request is answered by asking.
#[test]
fn nothing_else_can_ask() {
    let router = Router::new("x", "1").completion(async |_: CompleteParams, cx: Context| {
        let error = cx.elicit("name", form("name")).await.unwrap_err();
        assert!(matches!(error, Error::Refused(Refusal::Revision { .. })), "{error}");
        vec![error.to_string()]
    });
    let params = json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "b"}});
    let answer = Web::new(router).ask_with("completion/complete", params, everything()).json();
    assert_eq!(answer["result"]["completion"]["values"].as_array().unwrap().len(), 1, "{answer}");
}

/// S9.6
#[test]
fn whoever_declines_or_cancels_is_heard() {
    for action in ["decline", "cancel"] {
        let mut web = Web::new(router());
        let state = begun(&mut web);
        let answer = attempt(&mut web, "greet", Some(&state), Some(json!({"name": {"action": action}})));
        assert_eq!(told(&answer), format!("Hello, {action}!"));
    }
}

// --- Rounds ---

/// S4.3: one result asks for all that can be asked at once.
#[test]
fn what_is_asked_at_once_goes_out_at_once() {
    let mut web = Web::new(router());
    let first = attempt(&mut web, "three", None, None);
    let (keys, state) = asked(&first);
    assert_eq!(keys, ["name", "roots", "word"]);
    let requests = &first["result"]["inputRequests"];
    assert_eq!(requests["word"]["method"], "sampling/createMessage");
    assert_eq!(requests["roots"]["method"], "roots/list");
    let responses = json!({
        "name": accepted("name", "Alice"),
        "word": {"role": "assistant", "content": {"type": "text", "text": "tree"}, "model": "m"},
        "roots": {"roots": []},
    });
    assert_eq!(told(&attempt(&mut web, "three", Some(&state), Some(responses))), "Alice tree 0");
}

/// S4.8: what was answered is kept, and the rest asked for again.
#[test]
fn what_is_missing_is_asked_for_again() {
    let mut web = Web::new(router());
    let (_, state) = asked(&attempt(&mut web, "three", None, None));
    let (keys, state) =
        asked(&attempt(&mut web, "three", Some(&state), Some(json!({"roots": {"roots": []}}))));
    assert_eq!(keys, ["name", "word"]);
    let (keys, state) = asked(&attempt(&mut web, "three", Some(&state), None));
    assert_eq!(keys, ["name", "word"]);
    let (keys, state) = asked(&attempt(&mut web, "three", Some(&state), alice()));
    assert_eq!(keys, ["word"]);
    let word = json!({"role": "assistant", "content": {"type": "text", "text": "tree"}, "model": "m"});
    assert_eq!(told(&attempt(&mut web, "three", Some(&state), Some(json!({"word": word})))), "Alice tree 0");
}

/// S4.7: each round stands for itself; nothing is kept here for a client that never comes back.
#[test]
fn one_answer_can_lead_to_the_next_question() {
    let mut web = Web::new(router());
    let (keys, state) = asked(&attempt(&mut web, "steps", None, None));
    assert_eq!(keys, ["first"]);
    let responses = json!({"first": accepted("first", "1")});
    let (keys, state) = asked(&attempt(&mut web, "steps", Some(&state), Some(responses)));
    assert_eq!(keys, ["second"]);
    let responses = json!({"second": accepted("second", "2")});
    let (keys, state) = asked(&attempt(&mut web, "steps", Some(&state), Some(responses)));
    assert_eq!(keys, ["third"]);
    let responses = json!({"third": accepted("third", "3")});
    assert_eq!(told(&attempt(&mut web, "steps", Some(&state), Some(responses))), "1 2 3");
}

/// S4.8
#[test]
fn what_is_not_needed_is_ignored() {
    let mut web = Web::new(router());
    let (_, state) = asked(&attempt(&mut web, "steps", None, None));
    let responses = json!({"first": accepted("first", "1"), "fourth": 4});
    let (keys, state) = asked(&attempt(&mut web, "steps", Some(&state), Some(responses)));
    assert_eq!(keys, ["second"]);
    // What was answered can not be taken back.
    let late = json!({"first": accepted("first", "x"), "second": accepted("second", "2")});
    let (_, state) = asked(&attempt(&mut web, "steps", Some(&state), Some(late)));
    let last = json!({"third": accepted("third", "3")});
    assert_eq!(told(&attempt(&mut web, "steps", Some(&state), Some(last))), "1 2 3");
}

/// A client that knows the questions need not wait for them.
#[test]
fn a_client_may_answer_before_it_is_asked() {
    let mut web = Web::new(router());
    assert_eq!(told(&attempt(&mut web, "greet", None, alice())), "Hello, Alice!");
    let early = json!({"second": accepted("second", "2"), "third": accepted("third", "3")});
    assert_eq!(asked(&attempt(&mut web, "steps", None, Some(early))).0, ["first"]);
}

/// S4.8
#[test]
fn an_answer_that_is_none_is_refused() {
    let mut web = Web::new(router());
    let state = begun(&mut web);
    for answer in [json!({}), json!({"action": "maybe"}), json!(5), json!({"roots": []}), Value::Null] {
        let answer = attempt(&mut web, "greet", Some(&state), Some(json!({"name": answer})));
        assert!(refused(&answer).contains("\"name\""), "{answer}");
    }
    for responses in [json!([]), json!("name"), json!(7)] {
        refused(&attempt(&mut web, "greet", Some(&state), Some(responses)));
    }
    assert_eq!(told(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
}

#[test]
fn what_is_kept_is_done_once() {
    let done = Arc::new(AtomicUsize::new(0));
    let runs = Arc::new(AtomicUsize::new(0));
    let router = {
        let (done, runs) = (done.clone(), runs.clone());
        Router::new("x", "1").tool_with(tool("work"), move |NoArguments {}, cx: Context| {
            let (done, runs) = (done.clone(), runs.clone());
            async move {
                runs.fetch_add(1, Ordering::Relaxed);
                let number = cx.keep("number", async { done.fetch_add(1, Ordering::Relaxed) + 41 }).await;
                let first = question(&cx, "first").await?;
                let list = cx.keep("list", async { vec![done.fetch_add(1, Ordering::Relaxed)] }).await;
                let second = question(&cx, "second").await?;
                Ok::<_, HandlerError>(format!("{number} {first} {list:?} {second}"))
            }
        })
    };
    let mut web = Web::new(router);
    let (_, state) = asked(&attempt(&mut web, "work", None, None));
    let responses = json!({"first": accepted("first", "a")});
    let (_, state) = asked(&attempt(&mut web, "work", Some(&state), Some(responses)));
    let responses = json!({"second": accepted("second", "b")});
    assert_eq!(told(&attempt(&mut web, "work", Some(&state), Some(responses))), "41 a [1] b");
    assert_eq!((done.load(Ordering::Relaxed), runs.load(Ordering::Relaxed)), (2, 3));
}

/// What is under way is not dropped half done.
#[test]
fn what_is_to_be_kept_is_finished_first() {
    let waker: Arc<Mutex<Option<Waker>>> = Arc::default();
    let released = Arc::new(AtomicUsize::new(0));
    let router = {
        let (waker, released) = (waker.clone(), released.clone());
        Router::new("x", "1").tool_with(tool("work"), move |NoArguments {}, cx: Context| {
            let (waker, released) = (waker.clone(), released.clone());
            async move {
                let work = poll_fn(|cx| {
                    *waker.lock().unwrap() = Some(cx.waker().clone());
                    match released.load(Ordering::Relaxed) {
                        0 => Poll::Pending,
                        n => Poll::Ready(n),
                    }
                });
                let (name, n) = zip(question(&cx, "name"), cx.keep("n", work)).await;
                Ok::<_, HandlerError>(format!("{} {n}", name?))
            }
        })
    };
    let mut web = Web::new(router);
    let mut caller = web.ask_with("tools/call", json!({"name": "work", "arguments": {}}), everything());
    caller.expect_silence();
    released.store(7, Ordering::Relaxed);
    waker.lock().unwrap().take().unwrap().wake();
    let (_, state) = asked(&caller.json());
    released.store(0, Ordering::Relaxed);
    assert_eq!(told(&attempt(&mut web, "work", Some(&state), alice())), "Alice 7");
}

#[test]
fn a_handler_that_wakes_itself_is_not_done_asking() {
    let router = Router::new("x", "1").tool_with(tool("slow"), async |NoArguments {}, cx: Context| {
        let later = async {
            for _ in 0..3 {
                yield_now().await;
            }
            question(&cx, "second").await
        };
        let (first, second) = zip(question(&cx, "first"), later).await;
        Ok::<_, HandlerError>(format!("{} {}", first?, second?))
    });
    let mut web = Web::new(router);
    assert_eq!(asked(&attempt(&mut web, "slow", None, None)).0, ["first", "second"]);
}

#[test]
fn a_question_that_was_dropped_is_not_asked() {
    let router = Router::new("x", "1").tool_with(tool("fickle"), async |NoArguments {}, cx: Context| {
        assert!(poll_once(cx.elicit("first", form("first"))).await.is_none());
        question(&cx, "second").await
    });
    assert_eq!(asked(&attempt(&mut Web::new(router), "fickle", None, None)).0, ["second"]);
}

/// S4.3: a key names one question.
#[test]
fn two_questions_can_not_share_a_key() {
    let router = Router::new("x", "1")
        .tool_with(tool("same"), async |NoArguments {}, cx: Context| {
            let (one, other) = zip(question(&cx, "name"), question(&cx, "name")).await;
            Ok::<_, HandlerError>(format!("{} {}", one?, other?))
        })
        .tool_with(tool("differ"), async |NoArguments {}, cx: Context| {
            let (one, other) = zip(cx.elicit("k", form("a")), cx.elicit("k", form("b"))).await;
            drop((one?, other?));
            Ok::<_, HandlerError>("")
        });
    let mut web = Web::new(router);
    let (keys, state) = asked(&attempt(&mut web, "same", None, None));
    assert_eq!(keys, ["name"]);
    assert_eq!(told(&attempt(&mut web, "same", Some(&state), alice())), "Alice Alice");
    assert_eq!(attempt(&mut web, "differ", None, None)["error"]["code"], -32603);
}

/// A question may be asked by another task than the handler's; it ends with the attempt.
#[test]
fn another_task_can_ask() {
    let (router, held) = http_front_common::router();
    let mut web = Web::new(router);
    let params = json!({"name": "hold", "arguments": {}});
    let mut caller = web.ask_with("tools/call", params, everything());
    caller.expect_silence();
    let cx = held.context();
    let mut asking = pin!(cx.elicit("name", form("name")));
    let mut task = TaskContext::from_waker(Waker::noop());
    assert!(asking.as_mut().poll(&mut task).is_pending());
    assert_eq!(asked(&caller.json()).0, ["name"]);
    assert_eq!(held.dropped(), 1);
    assert!(matches!(asking.poll(&mut task), Poll::Ready(Err(Error::Cancelled))));
}

/// The raw way: a handler that asks by its own result has its own state.
#[test]
fn a_handler_may_ask_by_hand() {
    let router =
        router().tool_raw(tool("raw"), async |call: CallToolParams, _: Context| match call.request_state {
            Some(state) => Answered::Result(state),
            None => Answered::InputRequired(InputRequiredResult {
                request_state: Some("mine".to_owned()),
                ..InputRequiredResult::new()
            }),
        });
    let mut web = Web::new(router);
    let first = attempt(&mut web, "raw", None, None);
    assert_eq!(first["result"]["requestState"], "mine", "{first}");
    assert_eq!(told(&attempt(&mut web, "raw", Some(&json!("mine")), None)), "mine");
}

// --- States ---

/// S4.4: whatever of a state is changed, the request is refused.
#[test]
fn a_state_that_was_tampered_with_is_refused() {
    let mut web = Web::new(router());
    let state = begun(&mut web);
    let text = state.as_str().unwrap();
    for at in 0..text.len() {
        let other = if &text[at..=at] == "A" { "B" } else { "A" };
        let changed = json!(format!("{}{other}{}", &text[..at], &text[at + 1..]));
        let answer = attempt(&mut web, "greet", Some(&changed), alice());
        refused(&answer);
    }
    for made_up in ["", "1.", "name:Alice", &format!("{text}-TAMPERED")] {
        refused(&attempt(&mut web, "greet", Some(&json!(made_up)), alice()));
    }
    assert_eq!(told(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
}

/// S4.5, S9.3, S10.9
#[test]
fn a_state_of_another_principal_is_refused() {
    let mut web = Web::new(router());
    web.principal = Some(Principal::new("alice"));
    let state = begun(&mut web);
    for other in [Some(Principal::new("mallory")), Some(Principal::new("")), None] {
        web.principal = other;
        refused(&attempt(&mut web, "greet", Some(&state), alice()));
    }
    web.principal = Some(Principal::new("alice"));
    assert_eq!(told(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
}

/// S4.5
#[test]
fn a_state_of_another_request_is_refused() {
    let mut web = Web::new(router());
    let state = begun(&mut web);
    refused(&attempt(&mut web, "other", Some(&state), alice()));
    for params in [
        json!({"name": "greet", "arguments": {"x": 1}}),
        json!({"name": "greet"}),
        json!({"name": "greet", "arguments": {}, "more": true}),
    ] {
        refused(&attempt_with(&mut web, params, Some(&state), alice()));
    }
    assert_eq!(told(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
}

/// S4.5
#[test]
fn a_state_that_has_lapsed_is_refused() {
    let mut web = Web::new(router());
    let state = begun(&mut web);
    web.advance(Duration::from_secs(599));
    assert_eq!(told(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
    web.advance(Duration::from_secs(1));
    assert!(refused(&attempt(&mut web, "greet", Some(&state), alice())).contains("lapsed"));

    let mut web = Web::new(router().answer_within(Duration::from_secs(5)));
    let state = begun(&mut web);
    web.advance(Duration::from_secs(5));
    refused(&attempt(&mut web, "greet", Some(&state), alice()));
}

fn key(byte: u8) -> SealKey {
    SealKey::new([byte; 32])
}

/// S4.9: two instances that share the keys and nothing else.
#[test]
fn another_instance_goes_on_where_one_has_stopped() {
    let instance = || Web::new(router().seal(Sealer::new(key(1), [])));
    let (mut one, mut other) = (instance(), instance());
    let (_, state) = asked(&attempt(&mut one, "steps", None, None));
    let responses = json!({"first": accepted("first", "1")});
    let (_, state) = asked(&attempt(&mut other, "steps", Some(&state), Some(responses)));
    let responses = json!({"second": accepted("second", "2")});
    let (_, state) = asked(&attempt(&mut one, "steps", Some(&state), Some(responses)));
    let responses = json!({"third": accepted("third", "3")});
    assert_eq!(told(&attempt(&mut other, "steps", Some(&state), Some(responses))), "1 2 3");
}

/// S4.9
#[test]
fn keys_can_be_changed_between_rounds() {
    let mut old = Web::new(router().seal(Sealer::new(key(1), [])));
    let mut new = Web::new(router().seal(Sealer::new(key(2), [key(1)])));
    let (_, state) = asked(&attempt(&mut old, "steps", None, None));
    let responses = json!({"first": accepted("first", "1")});
    let (_, state) = asked(&attempt(&mut new, "steps", Some(&state), Some(responses)));
    refused(&attempt(&mut old, "steps", Some(&state), None));
}

#[test]
fn servers_that_share_no_key_or_no_name_refuse_each_others_states() {
    // Each test server counts its random numbers alike: only their keys differ.
    let mut one = Web::new(router().seal(Sealer::new(key(1), [])));
    let state = begun(&mut one);
    refused(&attempt(&mut Web::new(router().seal(Sealer::new(key(2), []))), "greet", Some(&state), alice()));
    refused(&attempt(&mut Web::new(router()), "greet", Some(&state), alice()));
    let namesake = Router::new("another", "1")
        .seal(Sealer::new(key(1), []))
        .tool_with(tool("greet"), async |NoArguments {}, cx: Context| question(&cx, "name").await);
    refused(&attempt(&mut Web::new(namesake), "greet", Some(&state), alice()));
}

// --- Single use ---

/// S4.6
#[test]
fn a_state_is_good_once_where_the_store_says_so() {
    let store = Arc::new(UsedStates::default());
    let instance = || Web::new(router().seal(Sealer::new(key(1), [])).single_use(store.clone()));
    let (mut one, mut other) = (instance(), instance());
    // Their random numbers are alike here, and states are told apart by them.
    (0..4).for_each(|_| drop(begun(&mut other)));
    let state = begun(&mut one);
    assert_eq!(told(&attempt(&mut one, "greet", Some(&state), alice())), "Hello, Alice!");
    for web in [&mut one, &mut other] {
        assert!(refused(&attempt(web, "greet", Some(&state), alice())).contains("used before"));
    }
    // Each round has a state of its own.
    let (_, state) = asked(&attempt(&mut one, "steps", None, None));
    let responses = json!({"first": accepted("first", "1")});
    let (_, next) = asked(&attempt(&mut other, "steps", Some(&state), Some(responses.clone())));
    refused(&attempt(&mut other, "steps", Some(&state), Some(responses)));
    let responses = json!({"second": accepted("second", "2")});
    assert_eq!(asked(&attempt(&mut one, "steps", Some(&next), Some(responses))).0, ["third"]);
}

/// S4.4: only what is in order is noted down, and what is not can not use a state up.
#[test]
fn a_state_that_is_refused_is_not_used_up() {
    let mut web = Web::new(router().single_use(Arc::new(UsedStates::new(1))));
    let state = begun(&mut web);
    refused(&attempt(&mut web, "other", Some(&state), alice()));
    refused(&attempt(&mut web, "greet", Some(&json!(format!("{}A", state.as_str().unwrap()))), alice()));
    assert_eq!(told(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
}

#[test]
fn without_a_store_a_state_is_good_until_it_lapses() {
    let mut web = Web::new(router());
    let state = begun(&mut web);
    for _ in 0..2 {
        assert_eq!(told(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
    }
}

/// A store that answers when it is told to.
struct Slow(Arc<Mutex<Desk>>);

#[derive(Default)]
struct Desk {
    says: Option<Result<StateUse, String>>,
    waker: Option<Waker>,
}

impl SingleUse for Slow {
    fn claim(
        &self,
        _: StateId,
        _: UnixTime,
        _: UnixTime,
    ) -> core::pin::Pin<Box<dyn Future<Output = Result<StateUse, HandlerError>> + Send>> {
        let shared = self.0.clone();
        Box::pin(poll_fn(move |cx| {
            let mut shared = shared.lock().unwrap();
            match shared.says.take() {
                Some(said) => Poll::Ready(said.map_err(HandlerError::new)),
                None => {
                    shared.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        }))
    }
}

/// A server with a tool that asks for a number of at least 18.
fn adults() -> Router {
    let age = NumberSchema { minimum: Some(18.into()), ..NumberSchema::new(NumberKind::Integer) };
    let form = ElicitParams::form("How old?", ElicitSchema::new([("age", age.into())]));
    Router::new("asker", "1").tool_with(tool("age"), move |NoArguments {}, cx: Context| {
        let form = form.clone();
        async move { Ok::<_, HandlerError>(cx.elicit("age", form).await?.action.as_str()) }
    })
}

/// S4.8, C10.5
#[test]
fn a_form_that_is_not_filled_in_as_it_asks_ends_the_request() {
    let mut web = Web::new(adults());
    let (_, state) = asked(&attempt(&mut web, "age", None, None));
    let filled = |age: Value| json!({"age": {"action": "accept", "content": {"age": age}}});
    let wrong = attempt(&mut web, "age", Some(&state), Some(filled(json!(17))));
    assert!(refused(&wrong).contains(r#"the field "age" is too small"#), "{wrong}");
    let (_, state) = asked(&attempt(&mut web, "age", None, None));
    assert_eq!(told(&attempt(&mut web, "age", Some(&state), Some(filled(json!(18))))), "accept");
    let (_, state) = asked(&attempt(&mut web, "age", None, None));
    let declined = json!({"age": {"action": "decline"}});
    assert_eq!(told(&attempt(&mut web, "age", Some(&state), Some(declined))), "decline");
}

/// C10.5
#[test]
fn a_legacy_client_that_fills_a_form_in_otherwise_is_an_error_of_the_question() {
    let mut s = Served::legacy_with(adults(), "2025-11-25", everything());
    let call = s.send("tools/call", json!({"name": "age", "arguments": {}}));
    let ask = s.line();
    s.say(&json!({"jsonrpc": "2.0", "id": ask["id"], "result": {"action": "accept", "content": {"age": "old"}}}));
    let line = s.line();
    assert_eq!((&line["id"], &line["result"]["isError"]), (&json!(call), &json!(true)));
    let text = line["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(r#"the field "age" is not a whole number"#), "{text}");
}

/// S4.6: nothing is done before the store has answered.
#[test]
fn the_store_may_take_its_time_and_fail() {
    for (said, told_or_code) in [
        (Ok(StateUse::First), Ok("Hello, Alice!")),
        (Ok(StateUse::Again), Err(-32602)),
        (Err("the database at 10.0.0.1 is down".to_owned()), Err(-32603)),
    ] {
        let shared = Arc::new(Mutex::new(Desk::default()));
        let mut web = Web::new(router().single_use(Arc::new(Slow(shared.clone()))));
        let state = begun(&mut web);
        let params =
            json!({"name": "greet", "arguments": {}, "requestState": state, "inputResponses": alice()});
        let mut caller = web.ask_with("tools/call", params, everything());
        caller.expect_silence();
        let waker = {
            let mut shared = shared.lock().unwrap();
            shared.says = Some(said);
            shared.waker.take().expect("the store was asked")
        };
        waker.wake();
        let answer = caller.json();
        match told_or_code {
            Ok(text) => assert_eq!(told(&answer), text),
            Err(code) => {
                assert_eq!(answer["error"]["code"], code, "{answer}");
                assert!(!answer.to_string().contains("10.0.0.1"), "{answer}");
            }
        }
    }
}

// --- Capabilities ---

/// S1.6, S4.3, C1.11
#[test]
fn a_client_that_can_not_be_asked_is_told_what_is_missing() {
    let mut web = Web::new(router());
    let call = |web: &mut Web, tool: &str, capabilities: Value| {
        let mut caller = web.ask_with("tools/call", json!({"name": tool, "arguments": {}}), capabilities);
        (caller.head().status, caller.json())
    };
    let (status, answer) =
        call(&mut web, "greet", json!({"sampling": {}, "roots": {}, "elicitation": {"url": {}}}));
    assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32021)), "{answer}");
    assert_eq!(answer["error"]["data"]["requiredCapabilities"], json!({"elicitation": {"form": {}}}));
    let (status, answer) = call(&mut web, "three", json!({"elicitation": {}}));
    assert_eq!(status, 400);
    let required = &answer["error"]["data"]["requiredCapabilities"];
    assert_eq!(required, &json!({"sampling": {}, "roots": {}}), "{answer}");
}

/// S1.6: what was declared with one attempt does not count for the next.
#[test]
fn capabilities_are_those_of_the_attempt() {
    let mut web = Web::new(router());
    let (_, state) = asked(&attempt(&mut web, "steps", None, None));
    let responses = json!({"first": accepted("first", "1")});
    let params =
        json!({"name": "steps", "arguments": {}, "requestState": state, "inputResponses": responses});
    let answer = web.ask_with("tools/call", params, json!({})).json();
    assert_eq!(answer["error"]["code"], -32021, "{answer}");
}

// --- Pages on the web ---

fn visiting(completions: &Arc<Mutex<Vec<Option<Completion>>>>) -> Router {
    let completions = completions.clone();
    Router::new("x", "1").tool_with(tool("visit"), move |NoArguments {}, cx: Context| {
        let completions = completions.clone();
        async move {
            let page = cx.ask_url("page", "Please log in.", "https://mcp.example/login");
            completions.lock().unwrap().push(page.completion());
            Ok::<_, HandlerError>(page.await?.action.as_str().to_owned())
        }
    })
}

/// S9.1, S9.4: no id, no notification; the client shows how it went by asking again.
#[test]
fn a_modern_client_is_sent_to_a_page() {
    let completions = Arc::default();
    let mut web = Web::new(visiting(&completions));
    let first = attempt(&mut web, "visit", None, None);
    let (_, state) = asked(&first);
    let params = &first["result"]["inputRequests"]["page"]["params"];
    assert_eq!((&params["mode"], &params["url"]), (&json!("url"), &json!("https://mcp.example/login")));
    assert!(params.get("elicitationId").is_none(), "{params}");
    let answer = attempt(&mut web, "visit", Some(&state), Some(json!({"page": {"action": "accept"}})));
    assert_eq!(told(&answer), "accept");
    assert!(completions.lock().unwrap().iter().all(Option::is_none));
}

/// S9.1
#[test]
fn a_client_without_pages_is_not_sent_to_one() {
    let mut web = Web::new(visiting(&Arc::default()));
    let params = json!({"name": "visit", "arguments": {}});
    let answer = web.ask_with("tools/call", params, json!({"elicitation": {}})).json();
    assert_eq!(
        answer["error"]["data"]["requiredCapabilities"],
        json!({"elicitation": {"url": {}}}),
        "{answer}"
    );
    let mut s =
        Served::legacy_with(visiting(&Arc::default()), "2025-11-25", json!({"elicitation": {"form": {}}}));
    assert_eq!(s.call("visit", json!({}))["isError"], true);
}

/// S9.2
#[test]
fn nobody_is_sent_where_no_page_is_or_with_credentials() {
    let router = Router::new("x", "1").tool_raw(tool("visit"), async |call: CallToolParams, cx: Context| {
        let url: Value = call.arguments.unwrap().decode()?;
        let url = url["url"].as_str().unwrap();
        assert!(cx.visit_first("Look.", url).1.is_none());
        let error = cx.ask_url("page", "Look.", url).await.unwrap_err();
        assert!(matches!(error, Error::Refused(Refusal::Page(_))), "{error}");
        Ok::<_, HandlerError>(error.to_string())
    });
    let router = Arc::new(router);
    for url in [
        "javascript:alert(1)",
        "login",
        "https://",
        "https://alice:secret@mcp.example/",
        "https://a b.example/",
    ] {
        let arguments = json!({"url": url});
        Served::modern_with(router.clone(), everything()).call("visit", arguments.clone());
        Served::legacy_shared(router.clone(), "2025-11-25", everything()).call("visit", arguments);
    }
}

/// S9.7: the client that was sent there is told, by the id that it was given.
#[test]
fn a_legacy_client_is_told_when_the_person_is_done() {
    let completions = Arc::default();
    let router = Arc::new(visiting(&completions));
    let mut s = Served::legacy_shared(router.clone(), "2025-11-25", everything());
    let mut bystander = Served::legacy_shared(router, "2025-11-25", everything());
    s.send("tools/call", json!({"name": "visit"}));
    let question = s.line();
    assert_eq!(question["params"]["mode"], "url");
    let id = question["params"]["elicitationId"].as_str().unwrap().to_owned();
    assert_eq!(id.len(), 32);
    s.say(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}}));
    assert_eq!(s.line()["result"]["content"][0]["text"], "accept");
    let completion = completions.lock().unwrap().pop().unwrap().expect("an id");
    assert_eq!(completion.id(), id);
    assert!(completion.tell());
    let told = s.line();
    assert_eq!(told["method"], "notifications/elicitation/complete");
    assert_eq!(told["params"], json!({"elicitationId": id}));
    bystander.expect_silence();
    drop(s);
    assert!(!completion.tell());
}

/// S9.7: the error names the page with its id; whoever made the request is told when the person is done.
#[test]
fn a_legacy_client_may_be_told_to_show_a_page_first() {
    let completions: Arc<Mutex<Vec<Option<Completion>>>> = Arc::default();
    let kept = completions.clone();
    let router = Router::new("x", "1").tool_with(tool("pay"), move |NoArguments {}, cx: Context| {
        let (error, completion) = cx.visit_first("Please pay.", "https://mcp.example/pay");
        kept.lock().unwrap().push(completion);
        core::future::ready(Err::<(), _>(error))
    });
    let router = Arc::new(router);
    let mut s = Served::legacy_shared(router.clone(), "2025-11-25", everything());
    let error = s.error("tools/call", json!({"name": "pay"}));
    assert_eq!(error["code"], -32042, "{error}");
    let completion = completions.lock().unwrap().pop().unwrap().unwrap();
    let page = json!({
        "mode": "url", "message": "Please pay.", "url": "https://mcp.example/pay", "elicitationId": completion.id(),
    });
    assert_eq!(error["data"], json!({"elicitations": [page]}));
    assert!(completion.tell());
    assert_eq!(s.line()["params"]["elicitationId"], completion.id());
    for mut other in [
        Served::legacy_shared(router.clone(), "2025-11-25", json!({"elicitation": {}})),
        Served::legacy_shared(router.clone(), "2025-06-18", everything()),
    ] {
        assert_eq!(other.call("pay", json!({}))["isError"], true);
        assert!(completions.lock().unwrap().pop().unwrap().is_none());
    }
}

/// S9.8
#[test]
fn a_model_is_given_tools_only_where_the_client_says_so() {
    let router = Router::new("x", "1").tool_with(tool("think"), async |NoArguments {}, cx: Context| {
        let mut params = sampling("What time is it?");
        params.tools = Some([tool("clock")].into());
        Ok::<_, HandlerError>(cx.sample("time", params).await?.content.text_content())
    });
    let mut web = Web::new(router);
    let params = json!({"name": "think", "arguments": {}});
    let answer = web.ask_with("tools/call", params.clone(), json!({"sampling": {}})).json();
    assert_eq!(
        answer["error"]["data"]["requiredCapabilities"],
        json!({"sampling": {"tools": {}}}),
        "{answer}"
    );
    let answer = web.ask_with("tools/call", params, json!({"sampling": {"tools": {}}})).json();
    assert_eq!(asked(&answer).0, ["time"]);
}
