//! States that can be used once.

use super::*;

/// S4.6
#[test]
fn state_can_be_used_once_with_a_store() {
    let store = Arc::new(UsedIds::default());
    let instance = || HttpHarness::new(router().seal(Sealer::new(key(1), [])).single_use(store.clone()));
    let (mut one, mut other) = (instance(), instance());
    // Their random numbers are equal here, and states are identified by them.
    (0..4).for_each(|_| drop(greet_state(&mut other)));
    let state = greet_state(&mut one);
    assert_eq!(text_of(&attempt(&mut one, "greet", Some(&state), alice())), "Hello, Alice!");
    for web in [&mut one, &mut other] {
        assert!(refused(&attempt(web, "greet", Some(&state), alice())).contains("used before"));
    }
    // Each round has its own state.
    let (_, state) = required_input(&attempt(&mut one, "steps", None, None));
    let responses = json!({"first": accepted("first", "1")});
    let (_, next) = required_input(&attempt(&mut other, "steps", Some(&state), Some(responses.clone())));
    refused(&attempt(&mut other, "steps", Some(&state), Some(responses)));
    let responses = json!({"second": accepted("second", "2")});
    assert_eq!(required_input(&attempt(&mut one, "steps", Some(&next), Some(responses))).0, ["third"]);
}

/// S4.4: only what is in order is noted down, and what is not cannot use a state up.
#[test]
fn refused_state_is_not_used_up() {
    let mut web = HttpHarness::new(router().single_use(Arc::new(UsedIds::new(1))));
    let state = greet_state(&mut web);
    refused(&attempt(&mut web, "other", Some(&state), alice()));
    refused(&attempt(&mut web, "greet", Some(&json!(format!("{}A", state.as_str().unwrap()))), alice()));
    assert_eq!(text_of(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
}

#[test]
fn state_can_be_reused_until_it_expires_without_a_store() {
    let mut web = HttpHarness::new(router());
    let state = greet_state(&mut web);
    for _ in 0..2 {
        assert_eq!(text_of(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
    }
}

/// A store that answers when the test lets it.
struct ControlledStore(Arc<Mutex<ControlledState>>);

#[derive(Default)]
struct ControlledState {
    answer: Option<Result<ClaimOutcome, ClaimError>>,
    claim: Option<Claim>,
    waker: Option<Waker>,
}

impl SingleUse for ControlledStore {
    fn claim(&self, claim: Claim) -> ClaimFuture {
        let shared = self.0.clone();
        shared.lock().unwrap().claim = Some(claim);
        Box::pin(poll_fn(move |cx| {
            let mut shared = shared.lock().unwrap();
            match shared.answer.take() {
                Some(answer) => Poll::Ready(answer),
                None => {
                    shared.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        }))
    }
}

/// A server with a tool that requests a number of at least 18.
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
fn invalid_form_content_ends_the_request() {
    let mut web = HttpHarness::new(adults());
    let (_, state) = required_input(&attempt(&mut web, "age", None, None));
    let filled = |age: Value| json!({"age": {"action": "accept", "content": {"age": age}}});
    let wrong = attempt(&mut web, "age", Some(&state), Some(filled(json!(17))));
    assert!(refused(&wrong).contains(r#"the field "age" is too small"#), "{wrong}");
    let (_, state) = required_input(&attempt(&mut web, "age", None, None));
    assert_eq!(text_of(&attempt(&mut web, "age", Some(&state), Some(filled(json!(18))))), "accept");
    let (_, state) = required_input(&attempt(&mut web, "age", None, None));
    let declined = json!({"age": {"action": "decline"}});
    assert_eq!(text_of(&attempt(&mut web, "age", Some(&state), Some(declined))), "decline");
}

/// C10.5
#[test]
fn invalid_form_content_of_a_legacy_client_is_an_error_of_the_request() {
    let mut s = ServerHarness::legacy_with(adults(), "2025-11-25", everything());
    let call = s.send("tools/call", json!({"name": "age", "arguments": {}}));
    let ask = s.line();
    s.send_message(&json!({"jsonrpc": "2.0", "id": ask["id"], "result": {"action": "accept", "content": {"age": "old"}}}));
    let line = s.line();
    assert_eq!((&line["id"], &line["result"]["isError"]), (&json!(call), &json!(true)));
    let text = line["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(r#"the field "age" is not a whole number"#), "{text}");
}

/// S4.6: the handler does not run before the store has answered.
#[test]
fn store_may_be_slow_and_fail() {
    let forgotten = ClaimOutcome::Forgotten { before: UnixTime::from_epoch(Duration::MAX) };
    let failed = ClaimError::Failed("the database at 10.0.0.1 is down".to_owned());
    for (said, told_or_code) in [
        (Ok(ClaimOutcome::First), Ok("Hello, Alice!")),
        (Ok(ClaimOutcome::Repeated), Err(-32602)),
        (Ok(forgotten), Err(-32602)),
        (Err(failed), Err(-32603)),
        (Err(ClaimError::Full), Err(-32603)),
    ] {
        let shared = Arc::new(Mutex::new(ControlledState::default()));
        let mut web = HttpHarness::new(router().single_use(Arc::new(ControlledStore(shared.clone()))));
        let state = greet_state(&mut web);
        let params =
            json!({"name": "greet", "arguments": {}, "requestState": state, "inputResponses": alice()});
        let mut caller = web.ask_with("tools/call", params, everything());
        caller.expect_silence();
        let waker = {
            let mut shared = shared.lock().unwrap();
            shared.answer = Some(said);
            shared.waker.take().expect("the store received the claim")
        };
        waker.wake();
        let head = caller.head();
        let answer = caller.json();
        match told_or_code {
            Ok(text) => assert_eq!(text_of(&answer), text),
            Err(code) => {
                assert_eq!(answer["error"]["code"], code, "{answer}");
                let is_unavailable = code == -32603;
                assert_eq!(head.status == 503, is_unavailable, "{answer}");
                assert_eq!(field(&head, "retry-after").is_some(), is_unavailable, "{answer}");
                assert!(!answer.to_string().contains("10.0.0.1"), "{answer}");
            }
        }
    }
}

/// After a failover, a store needs the time before which the state cannot have been used.
#[test]
fn claim_of_a_state_says_since_when_it_can_be_used() {
    let shared = Arc::new(Mutex::new(ControlledState::default()));
    let store = Arc::new(ControlledStore(shared.clone()));
    let mut web = HttpHarness::new(router().state_lifetime(Duration::from_secs(60)).single_use(store));
    let state = greet_state(&mut web);
    web.advance(Duration::from_secs(5));
    shared.lock().unwrap().answer = Some(Ok(ClaimOutcome::First));
    assert_eq!(text_of(&attempt(&mut web, "greet", Some(&state), alice())), "Hello, Alice!");
    let claim = shared.lock().unwrap().claim.take().unwrap();
    assert_eq!(claim.now, claim.since + Duration::from_secs(5));
    // The lifetime, and half a minute in which a request that opened the state claims it.
    assert_eq!(claim.expires, claim.since + Duration::from_secs(60 + 30));
}
