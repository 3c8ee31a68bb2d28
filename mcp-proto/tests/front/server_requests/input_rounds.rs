//! Input rounds: the requests, the answers and the state between them.

use super::*;

/// S4.3: one result carries all requests that can be sent at once.
#[test]
fn handler_sends_concurrent_requests_in_one_result() {
    let mut web = HttpHarness::new(router());
    let first = attempt(&mut web, "three", None, None);
    let (keys, state) = required_input(&first);
    assert_eq!(keys, ["name", "roots", "word"]);
    let requests = &first["result"]["inputRequests"];
    assert_eq!(requests["word"]["method"], "sampling/createMessage");
    assert_eq!(requests["roots"]["method"], "roots/list");
    let responses = json!({
        "name": accepted("name", "Alice"),
        "word": {"role": "assistant", "content": {"type": "text", "text": "tree"}, "model": "m"},
        "roots": {"roots": []},
    });
    assert_eq!(text_of(&attempt(&mut web, "three", Some(&state), Some(responses))), "Alice tree 0");
}

/// S4.8: the state keeps the received answers, and the handler requests the rest again.
#[test]
fn handler_requests_missing_answers_again() {
    let mut web = HttpHarness::new(router());
    let (_, state) = required_input(&attempt(&mut web, "three", None, None));
    let (keys, state) =
        required_input(&attempt(&mut web, "three", Some(&state), Some(json!({"roots": {"roots": []}}))));
    assert_eq!(keys, ["name", "word"]);
    let (keys, state) = required_input(&attempt(&mut web, "three", Some(&state), None));
    assert_eq!(keys, ["name", "word"]);
    let (keys, state) = required_input(&attempt(&mut web, "three", Some(&state), alice()));
    assert_eq!(keys, ["word"]);
    let word = json!({"role": "assistant", "content": {"type": "text", "text": "tree"}, "model": "m"});
    assert_eq!(
        text_of(&attempt(&mut web, "three", Some(&state), Some(json!({"word": word})))),
        "Alice tree 0"
    );
}

/// S4.7: each round is self-contained; the server stores nothing for a client that never comes back.
#[test]
fn one_answer_can_lead_to_the_next_request() {
    let mut web = HttpHarness::new(router());
    let (keys, state) = required_input(&attempt(&mut web, "steps", None, None));
    assert_eq!(keys, ["first"]);
    let responses = json!({"first": accepted("first", "1")});
    let (keys, state) = required_input(&attempt(&mut web, "steps", Some(&state), Some(responses)));
    assert_eq!(keys, ["second"]);
    let responses = json!({"second": accepted("second", "2")});
    let (keys, state) = required_input(&attempt(&mut web, "steps", Some(&state), Some(responses)));
    assert_eq!(keys, ["third"]);
    let responses = json!({"third": accepted("third", "3")});
    assert_eq!(text_of(&attempt(&mut web, "steps", Some(&state), Some(responses))), "1 2 3");
}

/// S4.8
#[test]
fn server_ignores_unneeded_answers() {
    let mut web = HttpHarness::new(router());
    let (_, state) = required_input(&attempt(&mut web, "steps", None, None));
    let responses = json!({"first": accepted("first", "1"), "fourth": 4});
    let (keys, state) = required_input(&attempt(&mut web, "steps", Some(&state), Some(responses)));
    assert_eq!(keys, ["second"]);
    // What was answered cannot be taken back.
    let late = json!({"first": accepted("first", "x"), "second": accepted("second", "2")});
    let (_, state) = required_input(&attempt(&mut web, "steps", Some(&state), Some(late)));
    let last = json!({"third": accepted("third", "3")});
    assert_eq!(text_of(&attempt(&mut web, "steps", Some(&state), Some(last))), "1 2 3");
}

/// A client that knows the requests need not wait for them.
#[test]
fn client_may_answer_before_the_request() {
    let mut web = HttpHarness::new(router());
    assert_eq!(text_of(&attempt(&mut web, "greet", None, alice())), "Hello, Alice!");
    let early = json!({"second": accepted("second", "2"), "third": accepted("third", "3")});
    assert_eq!(required_input(&attempt(&mut web, "steps", None, Some(early))).0, ["first"]);
}

/// S4.8
#[test]
fn server_refuses_an_invalid_answer() {
    let mut web = HttpHarness::new(router());
    let state = greet_state(&mut web);
    for answer in [json!({}), json!({"action": "maybe"}), json!(5), json!({"roots": []}), Value::Null] {
        let answer = attempt(&mut web, "greet", Some(&state), Some(json!({"name": answer})));
        assert!(refused(&answer).contains("\"name\""), "{answer}");
    }
    for responses in [json!([]), json!("name"), json!(7)] {
        refused(&attempt(&mut web, "greet", Some(&state), Some(responses)));
    }
    assert_eq!(text_of(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
}

#[test]
fn run_once_runs_its_work_once() {
    let done = Arc::new(AtomicUsize::new(0));
    let runs = Arc::new(AtomicUsize::new(0));
    let router = {
        let (done, runs) = (done.clone(), runs.clone());
        Router::new("x", "1").tool_with(tool("work"), move |NoArguments {}, cx: Context| {
            let (done, runs) = (done.clone(), runs.clone());
            async move {
                runs.fetch_add(1, Ordering::Relaxed);
                let number = cx.run_once("number", async { done.fetch_add(1, Ordering::Relaxed) + 41 }).await;
                let first = question(&cx, "first").await?;
                let list = cx.run_once("list", async { vec![done.fetch_add(1, Ordering::Relaxed)] }).await;
                let second = question(&cx, "second").await?;
                Ok::<_, HandlerError>(format!("{number} {first} {list:?} {second}"))
            }
        })
    };
    let mut web = HttpHarness::new(router);
    let (_, state) = required_input(&attempt(&mut web, "work", None, None));
    let responses = json!({"first": accepted("first", "a")});
    let (_, state) = required_input(&attempt(&mut web, "work", Some(&state), Some(responses)));
    let responses = json!({"second": accepted("second", "b")});
    assert_eq!(text_of(&attempt(&mut web, "work", Some(&state), Some(responses))), "41 a [1] b");
    assert_eq!((done.load(Ordering::Relaxed), runs.load(Ordering::Relaxed)), (2, 3));
}

/// Work in progress is not dropped half done.
#[test]
fn run_once_finishes_before_the_round_ends() {
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
                let (name, n) = zip(question(&cx, "name"), cx.run_once("n", work)).await;
                Ok::<_, HandlerError>(format!("{} {n}", name?))
            }
        })
    };
    let mut web = HttpHarness::new(router);
    let mut caller = web.ask_with("tools/call", json!({"name": "work", "arguments": {}}), everything());
    caller.expect_silence();
    released.store(7, Ordering::Relaxed);
    waker.lock().unwrap().take().unwrap().wake();
    let (_, state) = required_input(&caller.json());
    released.store(0, Ordering::Relaxed);
    assert_eq!(text_of(&attempt(&mut web, "work", Some(&state), alice())), "Alice 7");
}

#[test]
fn round_waits_for_a_handler_that_wakes_itself() {
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
    let mut web = HttpHarness::new(router);
    assert_eq!(required_input(&attempt(&mut web, "slow", None, None)).0, ["first", "second"]);
}

#[test]
fn dropped_request_is_not_sent() {
    let router = Router::new("x", "1").tool_with(tool("fickle"), async |NoArguments {}, cx: Context| {
        assert!(poll_once(cx.elicit("first", form("first"))).await.is_none());
        question(&cx, "second").await
    });
    assert_eq!(required_input(&attempt(&mut HttpHarness::new(router), "fickle", None, None)).0, ["second"]);
}

/// S4.3: a key names one request.
#[test]
fn two_requests_cannot_share_a_key() {
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
    let mut web = HttpHarness::new(router);
    let (keys, state) = required_input(&attempt(&mut web, "same", None, None));
    assert_eq!(keys, ["name"]);
    assert_eq!(text_of(&attempt(&mut web, "same", Some(&state), alice())), "Alice Alice");
    assert_eq!(attempt(&mut web, "differ", None, None)["error"]["code"], -32603);
}

/// Another task may send a request for the handler; it ends with the attempt.
#[test]
fn another_task_can_send_a_request() {
    let (router, held) = crate::common::front_http::router();
    let mut web = HttpHarness::new(router);
    let params = json!({"name": "hold", "arguments": {}});
    let mut caller = web.ask_with("tools/call", params, everything());
    caller.expect_silence();
    let cx = held.context();
    let mut asking = pin!(cx.elicit("name", form("name")));
    let mut task = TaskContext::from_waker(Waker::noop());
    assert!(asking.as_mut().poll(&mut task).is_pending());
    assert_eq!(required_input(&caller.json()).0, ["name"]);
    assert_eq!(held.dropped_count(), 1);
    assert!(matches!(asking.poll(&mut task), Poll::Ready(Err(Error::Cancelled))));
}

/// A raw handler that returns its own `input_required` result has its own state.
#[test]
fn raw_handler_can_return_its_own_input_required_result() {
    let router =
        router().tool_raw(tool("raw"), async |call: CallToolParams, _: Context| match call.request_state {
            Some(state) => ResultOrInput::Result(state),
            None => ResultOrInput::InputRequired(InputRequiredResult {
                request_state: Some("mine".to_owned()),
                ..InputRequiredResult::new()
            }),
        });
    let mut web = HttpHarness::new(router);
    let first = attempt(&mut web, "raw", None, None);
    assert_eq!(first["result"]["requestState"], "mine", "{first}");
    assert_eq!(text_of(&attempt(&mut web, "raw", Some(&json!("mine")), None)), "mine");
}
