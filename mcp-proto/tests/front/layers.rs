//! Layers around the requests that a router answers.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Poll, Waker};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use futures_lite::future::{or, pending};
use mcp_proto::front::layer::{Decision, Layer, LayerFuture, LayerMessage, LayerRequest, Next, Reply};
use mcp_proto::front::tasks::{DetachedWork, TaskChoice, TaskConfig};
use mcp_proto::front::{
    ClientHandlers, Context, Error, HandlerError, HandlerMode, LimitedCall, LocalHandlers, NoArguments,
    Router, SpawnedHandler, ToolCallOutcome,
};
use mcp_proto::peer::InputMode;
use mcp_proto::rpc::code;
use mcp_proto::schema::{
    CallToolParams, CallToolResult, ElicitParams, ElicitResult, ElicitSchema, Era, Json, ServerCapability,
    StringSchema, Tool,
};
use mcp_proto::testing::pair;
use serde_json::json;

use crate::common::router::ServerHarness;

type Log = Arc<Mutex<Vec<String>>>;

/// Records what it sees before and after each request.
#[derive(Clone)]
struct Record {
    name: &'static str,
    log: Log,
}

impl Record {
    fn new(name: &'static str, log: &Log) -> Self {
        Self { name, log: log.clone() }
    }

    fn note(&self, what: impl AsRef<str>) {
        self.log.lock().unwrap().push(format!("{} {}", self.name, what.as_ref()));
    }
}

impl<M: HandlerMode> Layer<M> for Record {
    fn request(&self, request: LayerRequest, next: Next<M>) -> M::HandlerFuture {
        let this = self.clone();
        let what = match request.item() {
            Some(item) => format!("{} {item}", request.method()),
            None => request.method().to_owned(),
        };
        this.note(format!("before {what}{}", if request.is_retry() { " again" } else { "" }));
        next.run_then(request, move |reply| {
            let how = match &reply {
                reply if reply.is_input_required() => "input",
                reply if reply.is_failure() => "failure",
                _ => "success",
            };
            this.note(format!("after {what}: {how}"));
            reply
        })
    }
}

fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap())
}

fn tool(name: &str) -> Tool {
    Tool::new(name, "", Json::empty_object())
}

fn router(log: &Log) -> Router {
    Router::new("test", "1")
        .layer(Record::new("outer", log))
        .layer(Record::new("inner", log))
        .tool_with(tool("greet"), async |NoArguments {}, _| "hello")
        .tool_with(tool("panic"), async |NoArguments {}, _| -> String { panic!("for the test") })
}

#[test]
fn first_layer_is_outermost_and_sees_each_request_once() {
    for legacy in [false, true] {
        for http in [false, true] {
            let log = Log::default();
            let mut pair = pair(router(&log));
            if legacy {
                pair = pair.legacy();
            }
            if http {
                pair = pair.http();
            }
            let text =
                pair.run(async |client| client.call_tool("greet", json!({})).await.unwrap().text_content());
            assert_eq!(text, "hello");
            let expected = [
                "outer before tools/call greet",
                "inner before tools/call greet",
                "inner after tools/call greet: success",
                "outer after tools/call greet: success",
            ];
            assert_eq!(taken(&log), expected, "legacy {legacy}, HTTP {http}");
        }
    }
}

/// Calls a tool of each kind of connection.
fn each_connection(make: impl Fn() -> Router, check: impl AsyncFn(&mcp_proto::front::Client, Era)) {
    for (legacy, http) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut pair = pair(make());
        if legacy {
            pair = pair.legacy();
        }
        if http {
            pair = pair.http();
        }
        pair.run(async |client| {
            let era = client.ready().await.unwrap().era;
            check(&client, era).await;
        });
    }
}

/// A layer made of a closure.
struct ClosureLayer<F>(F);

fn act<F: Fn(LayerRequest, Next) -> LayerFuture + Send + Sync + 'static>(act: F) -> ClosureLayer<F> {
    ClosureLayer(act)
}

impl<F: Fn(LayerRequest, Next) -> LayerFuture + Send + Sync + 'static> Layer for ClosureLayer<F> {
    fn request(&self, request: LayerRequest, next: Next) -> LayerFuture {
        (self.0)(request, next)
    }
}

fn form() -> ElicitParams {
    ElicitParams::form("Your name?", ElicitSchema::new([("name", StringSchema::new().into())]))
}

#[test]
fn layer_sees_each_attempt_of_a_modern_client_and_one_request_of_a_legacy_one() {
    for (legacy, spawned) in [(false, false), (true, false), (false, true), (true, true)] {
        let log = Log::default();
        let mut router = router(&log).tool_with(tool("ask"), async |NoArguments {}, cx: Context| {
            let answer = cx.elicit("name", form()).await?;
            Ok::<_, HandlerError>(answer.action.as_str().to_owned())
        });
        let tasks = Arc::new(Mutex::new((Vec::new(), None::<Waker>)));
        if spawned {
            let tasks = tasks.clone();
            router = router.spawn_handlers(move |task| {
                let mut tasks = tasks.lock().unwrap();
                tasks.0.push(task);
                tasks.1.take().into_iter().for_each(Waker::wake);
            });
        }
        let handlers = ClientHandlers::new().elicitation(async |_, _| ElicitResult::decline());
        let mut pair = pair(router).handlers(handlers);
        if legacy {
            pair = pair.legacy();
        }
        let result = pair.run(async |client| {
            // An executor beside the driver: each turn of the test polls every task.
            let executor = poll_fn(|cx| {
                let mut running = std::mem::take(&mut tasks.lock().unwrap().0);
                running.retain_mut(|task: &mut SpawnedHandler| Pin::new(task).poll(cx).is_pending());
                let mut tasks = tasks.lock().unwrap();
                tasks.0.append(&mut running);
                tasks.1 = Some(cx.waker().clone());
                Poll::Pending
            });
            or(client.call_tool("ask", json!({})), executor).await
        });
        assert_eq!(result.unwrap().text_content(), "decline");
        let modern = [
            "outer before tools/call ask",
            "inner before tools/call ask",
            "inner after tools/call ask: input",
            "outer after tools/call ask: input",
            "outer before tools/call ask again",
            "inner before tools/call ask again",
            "inner after tools/call ask: success",
            "outer after tools/call ask: success",
        ];
        let once = [
            "outer before tools/call ask",
            "inner before tools/call ask",
            "inner after tools/call ask: success",
            "outer after tools/call ask: success",
        ];
        let expected: &[&str] = if legacy { &once } else { &modern };
        assert_eq!(taken(&log), expected, "legacy {legacy}, spawned {spawned}");
    }
}

#[test]
fn layer_knows_the_number_of_the_attempt() {
    for legacy in [false, true] {
        let attempts = Arc::new(Mutex::new(Vec::new()));
        let seen = attempts.clone();
        let layer = act(move |request: LayerRequest, next: Next| {
            seen.lock().unwrap().push((request.attempt(), request.is_retry()));
            next.run(request)
        });
        let router = Router::new("test", "1")
            .tool_with(tool("ask"), async |NoArguments {}, cx: Context| {
                cx.elicit("name", form()).await?;
                cx.elicit("again", form()).await?;
                Ok::<_, HandlerError>("done")
            })
            .layer(layer);
        let handlers = ClientHandlers::new().elicitation(async |_, _| ElicitResult::decline());
        let pair = pair(router).handlers(handlers);
        let mut pair = if legacy { pair.legacy() } else { pair };
        let result = pair.run(async |client| client.call_tool("ask", json!({})).await);
        assert_eq!(result.unwrap().text_content(), "done");
        // A state that is not this server's, and an answer without a state, tell no number.
        pair.run(async |client| {
            for rest in [json!({"requestState": "forged"}), json!({"inputResponses": {"name": {}}})] {
                let mut params = json!({"name": "ask", "arguments": {}});
                params.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
                let _ = client.request_custom("tools/call", params).input(InputMode::Manual).await;
            }
        });
        let attempts = std::mem::take(&mut *attempts.lock().unwrap());
        let (of_call, odd) = attempts.split_at(if legacy { 1 } else { 3 });
        let expected = [(Some(1), false), (Some(2), true), (Some(3), true)];
        assert_eq!(of_call, &expected[..of_call.len()]);
        assert!(odd.len() == 2 && odd.iter().all(|odd| legacy || *odd == (None, true)), "{odd:?}");
    }
}

/// A future whose output another task produces.
fn in_task(tasks: &Tasks, work: impl Future<Output = Reply> + Send + 'static) -> LayerFuture {
    let end = Arc::new(Mutex::new((None::<Reply>, None::<Waker>)));
    let ended = end.clone();
    let mut tasks = tasks.lock().unwrap();
    tasks.0.push(Box::pin(async move {
        let reply = work.await;
        let mut end = ended.lock().unwrap();
        end.0 = Some(reply);
        end.1.take().into_iter().for_each(Waker::wake);
    }));
    tasks.1.take().into_iter().for_each(Waker::wake);
    Box::pin(poll_fn(move |cx| {
        let mut end = end.lock().unwrap();
        end.1 = Some(cx.waker().clone());
        end.0.take().map_or(Poll::Pending, Poll::Ready)
    }))
}

type Tasks = Arc<Mutex<(Vec<Pin<Box<dyn Future<Output = ()> + Send>>>, Option<Waker>)>>;

#[test]
fn layer_may_run_the_rest_in_another_task() {
    let tasks = Tasks::default();
    let spawning = tasks.clone();
    let router = Router::new("test", "1")
        .layer(act(move |request, next| in_task(&spawning, next.run(request))))
        .tool_with(tool("ask"), async |NoArguments {}, cx: Context| {
            let answer = cx.elicit("name", form()).await?;
            Ok::<_, HandlerError>(answer.action.as_str().to_owned())
        });
    let handlers = ClientHandlers::new().elicitation(async |_, _| ElicitResult::decline());
    let result = pair(router).handlers(handlers).run(async |client| {
        let executor = poll_fn(|cx| {
            let mut running = std::mem::take(&mut tasks.lock().unwrap().0);
            running.retain_mut(|task| task.as_mut().poll(cx).is_pending());
            let mut tasks = tasks.lock().unwrap();
            tasks.0.append(&mut running);
            tasks.1 = Some(cx.waker().clone());
            Poll::Pending
        });
        or(client.call_tool("ask", json!({})), executor).await
    });
    assert_eq!(result.unwrap().text_content(), "decline");
}

#[test]
fn panic_of_a_handler_is_a_failure_for_its_layers() {
    let log = Log::default();
    let mut pair = pair(router(&log));
    let result = pair.run(async |client| client.call_tool("panic", json!({})).await.unwrap());
    assert!(result.failed());
    assert_eq!(taken(&log).last().unwrap(), "outer after tools/call panic: failure");
}

#[test]
fn layer_that_panics_ends_its_request_alone() {
    let make = || {
        let log = Log::default();
        router(&log).layer(act(|request: LayerRequest, next: Next| match request.item().as_deref() {
            Some("panic") => panic!("before its future"),
            Some("late") => Box::pin(async { panic!("in its future") }),
            _ => next.run(request),
        }))
    };
    each_connection(make, async |client, _| {
        assert!(client.call_tool("panic", json!({})).await.unwrap().failed());
        assert!(client.call_tool("late", json!({})).await.unwrap().failed());
        assert_eq!(client.call_tool("greet", json!({})).await.unwrap().text_content(), "hello");
    });
}

#[test]
fn layer_changes_parameters_and_results_answers_and_denies() {
    let make = || {
        Router::new("test", "1")
            .tool_raw(tool("echo"), async |call: CallToolParams, cx: Context| {
                let by = cx.meta().get("com.example/by").map_or("nobody".into(), |by| by.as_str().to_owned());
                format!("{} for {by}", call.arguments.unwrap_or_else(Json::empty_object).as_str())
            })
            .layer(act(|mut request: LayerRequest, next: Next| match request.item().as_deref() {
                Some("denied") => {
                    let reply = request.deny("not today");
                    next.answer(reply)
                }
                Some("early") => next.answer(Reply::result(CallToolResult::text("early"))),
                Some("echo") => {
                    request
                        .set_params(&CallToolParams::new("echo").with_arguments(json!({"changed": true})))
                        .unwrap();
                    request.set_meta("com.example/by", "layer").unwrap();
                    Box::pin(async {
                        let reply = next.run(request).await;
                        let mut result: CallToolResult = reply.decode().unwrap();
                        result.content.push(format!("and {}", reply.is_failure()).into());
                        Reply::result(result)
                    })
                }
                _ if request.method() == "com.example/x" => {
                    let reply = request.deny("no such thing");
                    next.answer(reply)
                }
                _ => next.run(request),
            }))
    };
    each_connection(make, async |client, _| {
        let denied = client.call_tool("denied", json!({})).await.unwrap();
        assert_eq!((denied.failed(), denied.text_content().as_str()), (true, "not today"));
        assert_eq!(client.call_tool("early", json!({})).await.unwrap().text_content(), "early");
        let echo = client.call_tool("echo", json!({"changed": false})).await.unwrap();
        assert!(
            echo.text_content().starts_with(r#"{"changed":true} for "layer""#),
            "{}",
            echo.text_content()
        );
        assert!(echo.text_content().ends_with("and false"));
        let error = client.request_custom("com.example/x", json!({})).await.unwrap_err();
        assert!(matches!(&error, Error::Peer(error) if error.code == code::INVALID_REQUEST), "{error}");
    });
}

#[test]
fn meta_of_a_layer_reaches_the_handler_although_it_was_read_before() {
    let make = || {
        Router::new("test", "1")
            .tool_with(tool("by"), async |NoArguments {}, cx: Context| {
                cx.meta().get("com.example/by").map_or("nobody".into(), |by| by.as_str().to_owned())
            })
            .layer(act(|mut request: LayerRequest, next: Next| {
                assert!(request.context().unwrap().meta().get("com.example/by").is_none());
                request.set_meta("com.example/by", "layer").unwrap();
                next.run(request)
            }))
    };
    each_connection(make, async |client, _| {
        assert_eq!(client.call_tool("by", json!({})).await.unwrap().text_content(), r#""layer""#);
    });
}

#[test]
fn layers_see_lists_and_methods_that_do_not_exist() {
    let log = Log::default();
    let make = || router(&log);
    each_connection(make, async |client, _| {
        client.list_tools().await.unwrap();
        let error = client.request_custom("com.example/x", json!({})).await.unwrap_err();
        assert_eq!(error.code(), Some(code::METHOD_NOT_FOUND), "{error}");
        let seen = taken(&log);
        assert!(seen.contains(&"outer after tools/list: success".into()), "{seen:?}");
        assert!(seen.contains(&"outer after com.example/x: failure".into()), "{seen:?}");
        assert!(seen.iter().all(|line| !line.contains("initialize") && !line.contains("discover")));
    });
}

#[test]
fn changed_call_is_checked_against_the_schema_and_the_rates_of_its_tool() {
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = calls.clone();
    let router = Router::new("test", "1")
        .tool_with(Tool::new("count", "", schema), async |NoArguments {}, _| "counted")
        .tool_with(tool("plain"), async |NoArguments {}, _| "plain")
        .tool_limiter(move |call: &LimitedCall<'_>| -> Result<(), String> {
            seen.lock().unwrap().push(call.tool.to_owned());
            Ok(())
        })
        .layer(act(|mut request: LayerRequest, next: Next| {
            let mut call: CallToolParams = request.decode().unwrap();
            match call.name.as_str() {
                "plain" => call.name = "count".into(),
                _ => call.arguments = Some(json!({"n": "three"}).into()),
            }
            request.set_params(&call).unwrap();
            next.run(request)
        }));
    pair(router).run(async |client| {
        let other = client.call_tool("plain", json!({"n": 3})).await.unwrap();
        assert_eq!(other.text_content(), "counted");
        let invalid = client.call_tool("count", json!({"n": 3})).await.unwrap();
        assert!(invalid.failed() && invalid.text_content().contains("do not fit"), "{invalid:?}");
    });
    // A call of another tool counts for that, too; a call with other arguments counts once.
    assert_eq!(*calls.lock().unwrap(), ["plain", "count", "count"]);
}

struct Dropped(Log);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.lock().unwrap().push("dropped".into());
    }
}

#[test]
fn cancelled_request_drops_the_future_of_its_layer() {
    let log = Log::default();
    let dropped = log.clone();
    let router = Router::new("test", "1")
        .tool_with(tool("wait"), async |NoArguments {}, _| pending::<String>().await)
        .layer(act(move |request: LayerRequest, next: Next| {
            let guard = Dropped(dropped.clone());
            Box::pin(async move {
                let reply = next.run(request).await;
                drop(guard);
                reply
            })
        }));
    let mut s = ServerHarness::modern(router);
    let id = s.send("tools/call", json!({"name": "wait", "arguments": {}}));
    assert!(taken(&log).is_empty());
    s.notify("notifications/cancelled", json!({"requestId": id}));
    assert_eq!(taken(&log), ["dropped"]);
}

#[test]
fn creation_of_a_task_is_the_answer_that_layers_see() {
    for (legacy, name) in [(false, "task"), (true, "task"), (false, "rest"), (true, "rest")] {
        let log = Log::default();
        let router = router(&log)
            .tasks(TaskConfig::default())
            .task_tool(tool("task"), TaskChoice::Optional, async |NoArguments {}, _| "done")
            .detaching_tool(tool("rest"), TaskChoice::Optional, async |NoArguments {}, _| {
                Ok(DetachedWork::new(async |_| "done"))
            });
        let mut pair = pair(router);
        if legacy {
            pair = pair.legacy();
        }
        pair.run(async |client| {
            client.list_tools().await.unwrap();
            taken(&log);
            let ToolCallOutcome::Task(task) = client.call_tool(name, json!({})).start_task().await.unwrap()
            else {
                panic!("no task")
            };
            let seen = taken(&log);
            assert_eq!(seen.last().unwrap(), &format!("outer after tools/call {name}: success"));
            assert_eq!(seen.len(), 4);
            assert_eq!(task.wait().await.unwrap().text_content(), "done");
        });
    }
}

#[test]
fn layers_of_a_local_router_need_not_be_send() {
    struct Count(Rc<RefCell<u32>>);
    impl Layer<LocalHandlers> for Count {
        fn request(
            &self,
            request: LayerRequest,
            next: Next<LocalHandlers>,
        ) -> <LocalHandlers as HandlerMode>::HandlerFuture {
            let count = self.0.clone();
            Box::pin(async move {
                let reply = next.run(request).await;
                *count.borrow_mut() += 1;
                reply
            })
        }
    }
    let (count, log) = (Rc::new(RefCell::new(0)), Log::default());
    let router = Router::local("test", "1")
        .tool_with(tool("greet"), async |NoArguments {}, _| "hello")
        .layer(Count(count.clone()))
        .layer(Record::new("inner", &log));
    pair(router).run(async |client| client.call_tool("greet", json!({})).await.unwrap());
    assert_eq!((*count.borrow(), taken(&log).len()), (1, 2));
}

#[test]
fn layers_of_a_live_router_change_while_it_serves() {
    let log = Log::default();
    let live = Router::new("test", "1")
        .declare(ServerCapability::Tools)
        .tool_with(tool("greet"), async |NoArguments {}, _| "hello")
        .live();
    let handle = live.clone();
    pair(live).run(async |client| {
        client.call_tool("greet", json!({})).await.unwrap();
        assert!(taken(&log).is_empty());
        handle.update(|router| router.layer(Record::new("late", &log))).unwrap();
        client.call_tool("greet", json!({})).await.unwrap();
        assert_eq!(taken(&log), ["late before tools/call greet", "late after tools/call greet: success"]);
    });
}

/// Denies the call that runs once its handler asks the client for input.
#[derive(Default)]
struct DenyQuestions(Arc<Mutex<(bool, Option<Waker>)>>);

impl Layer for DenyQuestions {
    fn request(&self, request: LayerRequest, next: Next) -> LayerFuture {
        let (asked, denied) = (self.0.clone(), request.deny("no questions"));
        let denial = poll_fn(move |cx| {
            let mut asked = asked.lock().unwrap();
            asked.1 = Some(cx.waker().clone());
            if std::mem::take(&mut asked.0) { Poll::Ready(()) } else { Poll::Pending }
        });
        Box::pin(or(
            async {
                denial.await;
                denied
            },
            next.run(request),
        ))
    }

    fn message(&self, message: &mut LayerMessage<'_>) -> Decision {
        if message.method() == Some("elicitation/create") {
            let mut asked = self.0.lock().unwrap();
            asked.0 = true;
            asked.1.take().into_iter().for_each(Waker::wake);
        }
        Decision::Keep
    }
}

#[test]
fn denial_of_a_call_that_waits_for_the_client_cancels_its_request() {
    for http in [false, true] {
        let dropped = Log::default();
        let log = dropped.clone();
        let router = router(&Log::default())
            .tool_with(tool("ask"), async |NoArguments {}, cx: Context| {
                cx.progress(1);
                let answer = cx.elicit("name", form()).await?;
                Ok::<_, HandlerError>(answer.action.as_str().to_owned())
            })
            .layer(DenyQuestions::default());
        let handlers = ClientHandlers::new().elicitation(move |_, _| {
            let log = Dropped(log.clone());
            async move {
                let _log = log;
                pending::<ElicitResult>().await
            }
        });
        let mut pair = pair(router).handlers(handlers).legacy();
        if http {
            pair = pair.http();
        }
        pair.run(async |client| {
            let denied = client.call_tool("ask", json!({})).await.unwrap();
            assert_eq!(denied.text_content(), "no questions");
            client.list_tools().await.unwrap();
        });
        assert!(pair.transcript().contains("notifications/cancelled"));
        assert_eq!(taken(&dropped), ["dropped"], "the client asks no longer");
    }
}
