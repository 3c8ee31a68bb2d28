//! `testing::pair`: a router and a client, joined on simulated time.

use core::cell::Cell;
use core::num::NonZeroUsize;
use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;

use mcp_proto::front::{ClientHandlers, Context, Error, HandlerError, HandlerMode, NoArguments, Router};
use mcp_proto::schema::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, ElicitSchema, Json, Revision,
    SamplingMessage, Tool,
};
use mcp_proto::testing::{self, Network, RouterPair, SimulatedClock};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;

const HOUR: Duration = Duration::from_secs(60 * 60);

#[derive(Deserialize)]
struct Add {
    a: i64,
    b: i64,
}

fn tool(name: &str) -> Tool {
    Tool::new(name, "A tool", Json::empty_object())
}

/// A server that adds, and that asks the user and the model.
fn router() -> Router {
    Router::new("calculator", "1.0.0")
        .tool_with(tool("add"), async |Add { a, b }, _| {
            a.checked_add(b).ok_or_else(|| HandlerError::new("the sum is too large"))
        })
        .tool_with(tool("ask"), async |NoArguments {}, cx: Context| {
            let form = ElicitSchema::empty();
            let answer = cx.elicit("sure", ElicitParams::form("Are you sure?", form)).await?;
            let question = CreateMessageParams::new(vec![SamplingMessage::user("Why?")], 100_u64);
            let reason = cx.sample("why", question).await?;
            Ok(format!("{}: {}", answer.action, reason.content.text_content()))
        })
        .tool_with(tool("never"), async |NoArguments {}, _| core::future::pending::<()>().await)
}

/// The ways to join a pair, with the revision that results.
fn pairs<M: HandlerMode>(router: impl Fn() -> Router<M>) -> [(RouterPair<M>, Revision); 4] {
    let pair = || testing::pair(router());
    [
        (pair(), Revision::V2026_07_28),
        (pair().legacy(), Revision::V2025_11_25),
        (pair().http(), Revision::V2026_07_28),
        (pair().http().legacy(), Revision::V2025_11_25),
    ]
}

/// F1
#[test]
fn client_calls_tool_over_each_transport_in_each_era() {
    for (mut pair, revision) in pairs(router) {
        let sum = pair.run(async |client| client.call_tool("add", json!({"a": 1, "b": 2})).await).unwrap();
        assert_eq!(sum.text_content(), "3");
        // The connection stays open.
        let ready = pair.run(async |client| client.server()).unwrap();
        assert_eq!(ready.revision, revision);
        pair.run(async |client| client.close().await);
    }
}

#[test]
fn client_handlers_answer_over_each_transport_in_each_era() {
    for (pair, _) in pairs(router) {
        let handlers = ClientHandlers::new()
            .elicitation(async |_, _| ElicitResult::decline())
            .sampling(async |_, _| CreateMessageResult::text("I am not.", "model"));
        let mut pair = pair.handlers(handlers);
        let answer = pair.run(async |client| client.call_tool("ask", json!({})).await).unwrap();
        assert_eq!(answer.text_content(), "decline: I am not.");
    }
}

#[test]
fn pair_takes_a_live_router_with_a_state() {
    let live = Router::new("notes", "1")
        .with_state(String::from("kept"))
        .tool_with(tool("read"), async |NoArguments {}, cx: Context<String>| cx.state().clone())
        .live();
    let changing = live.clone();
    let mut pair = testing::pair(live);
    let before = pair.run(async |client| client.call_tool("read", json!({})).await).unwrap();
    assert_eq!(before.text_content(), "kept");
    changing.update(|router| router.remove_tool("read")).unwrap();
    let after = pair.run(async |client| client.list_tools().await).unwrap();
    assert!(after.is_empty());
}

#[test]
fn handlers_of_a_local_pair_need_not_be_send() {
    let count = Rc::new(Cell::new(0));
    let counted = count.clone();
    let router = Router::local("counter", "1.0.0").tool_with(tool("count"), move |NoArguments {}, _| {
        let count = counted.clone();
        async move { count.set(count.get() + 1) }
    });
    let mut pair = testing::pair(router).handlers(ClientHandlers::local());
    pair.run(async |client| client.call_tool("count", json!({})).await).unwrap();
    assert_eq!(count.get(), 1);
}

#[test]
fn tests_and_handlers_sleep_on_the_simulated_clock() {
    for legacy in [false, true] {
        let clock = Arc::new(SimulatedClock::default());
        let handlers_clock = clock.clone();
        let router = Router::new("slow", "1.0.0").tool_with(tool("slow"), move |NoArguments {}, _| {
            let clock = handlers_clock.clone();
            async move { clock.sleep(Duration::from_secs(20)).await }
        });
        let pair = testing::pair(router).clock(clock.clone()).http();
        let mut pair = if legacy { pair.legacy() } else { pair };
        let started = pair.run(async |client| {
            clock.sleep(HOUR * 10).await;
            client.call_tool("slow", json!({})).await.unwrap();
            clock.sleep(HOUR * 10).await;
            client.call_tool("slow", json!({})).await
        });
        assert!(started.is_ok(), "{started:?}");
        let elapsed = mcp_proto::adapter::Clock::now(&**pair.time()).since_origin();
        assert!(elapsed >= HOUR * 20 + Duration::from_secs(40) && elapsed < HOUR * 21, "{elapsed:?}");
    }
}

#[test]
fn request_times_out_in_simulated_time() {
    for (mut pair, _) in pairs(router) {
        let outcome = pair.run(async |client| client.call_tool("never", json!({})).timeout(HOUR).await);
        assert!(matches!(outcome, Err(Error::TimedOut { .. })), "{outcome:?}");
    }
}

#[test]
fn same_seed_gives_same_transcript() {
    let transcript = |choose: fn(RouterPair) -> RouterPair, seed: u64| {
        let network = Network { latency: Duration::from_millis(40), chunk: NonZeroUsize::new(7) };
        let mut pair = choose(testing::pair(router())).seed(seed).network(network);
        pair.run(async |client| client.call_tool("add", json!({"a": 1, "b": 2})).await).unwrap();
        pair.transcript()
    };
    let ways: [fn(RouterPair) -> RouterPair; 4] =
        [|pair| pair, RouterPair::legacy, RouterPair::http, |pair| pair.http().legacy()];
    for choose in ways {
        let first = transcript(choose, 7);
        assert!(first.contains("\"name\":\"add\""), "{first}");
        assert_eq!(first, transcript(choose, 7));
    }
    // The ids of sessions follow from the seed.
    assert_ne!(transcript(|pair| pair.http().legacy(), 7), transcript(|pair| pair.http().legacy(), 8));
}

#[test]
#[should_panic(expected = "nothing is in transit, and no timer runs")]
fn test_that_waits_for_nothing_panics() {
    testing::pair(router()).run(async |client| {
        client.ready().await.unwrap();
        core::future::pending::<()>().await;
    });
}

#[test]
fn test_that_waits_for_nothing_panics_over_each_transport() {
    for (mut pair, _) in pairs(router) {
        let waiting = std::panic::AssertUnwindSafe(|| {
            pair.run(async |client| {
                client.call_tool("add", json!({"a": 1, "b": 2})).await.unwrap();
                core::future::pending::<()>().await;
            })
        });
        let panic = std::panic::catch_unwind(waiting).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains("the test waits for something that cannot happen"), "{message}");
        assert!(message.contains("\"name\":\"add\""), "it quotes the transcript: {message}");
    }
}

#[test]
#[should_panic(expected = "the router is invalid")]
fn invalid_router_panics() {
    let router = Router::new("twice", "1.0.0")
        .tool_with(tool("add"), async |NoArguments {}, _| "one")
        .tool_with(tool("add"), async |NoArguments {}, _| "other");
    testing::pair(router);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A property of a handler: for all arguments, the sum is right or the model reads the error.
    #[test]
    fn handler_adds_any_two_numbers_or_reports_overflow(a: i64, b: i64, seed: u64) {
        let mut pair = testing::pair(router()).seed(seed);
        let sum = pair.run(async |client| client.call_tool("add", json!({"a": a, "b": b})).await).unwrap();
        match a.checked_add(b) {
            Some(expected) => prop_assert_eq!(sum.text_content(), expected.to_string()),
            None => prop_assert_eq!(sum.is_error, Some(true)),
        }
    }
}
