//! The server of this workspace, with the tools that the host of the simulation calls.

use std::sync::Arc;
use std::time::Duration;

use mcp_proto::bind::http::server::{HttpServerConfig, LegacyPaths};
use mcp_proto::front::{Answered, Multi, Router};
use mcp_proto::peer::server::Eras;
use mcp_proto::schema::{
    CallToolParams, Era, InputRequiredResult, ListRootsParams, ServerCapability, Tool, ToolAnnotations,
};
use mcp_proto::testing::http::{Dice, FrontPeer, HttpPeer, SimulatedClock};
use serde::Deserialize;
use serde_json::json;

use super::Ledger;

#[derive(Deserialize)]
struct Arguments {
    n: u64,
}

pub fn server(eras: Eras, legacy_sse: bool, ledger: &Ledger, seed: u64) -> Box<dyn HttpPeer> {
    let clock = Arc::new(SimulatedClock::default());
    let router = router(ledger, &clock);
    let mut config = router.config();
    config.eras = eras;
    let mut config = HttpServerConfig::new(config);
    if legacy_sse {
        config.path = Some("/new".into());
        config.legacy_sse = Some(LegacyPaths { events: "/mcp".into(), messages: "/messages".into() });
    }
    let peer = FrontPeer::new(router, config, clock, seed);
    ledger.serve(peer.server.handle().clone());
    Box::new(peer)
}

fn router(ledger: &Ledger, clock: &Arc<SimulatedClock>) -> Router<Multi> {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let read_only = ToolAnnotations { read_only_hint: Some(true), ..ToolAnnotations::default() };
    let idempotent = ToolAnnotations { idempotent_hint: Some(true), ..ToolAnnotations::default() };
    let plain = ToolAnnotations::default;
    let mut router = Router::new("simulated", "1").declare(ServerCapability::ToolsListChanged);
    for (name, annotations) in [("pay", plain()), ("look", read_only), ("set", idempotent), ("ask", plain())]
    {
        let tool = Tool::new(name, "Leaves a mark", schema.clone()).with_annotations(annotations);
        let (ledger, clock) = (ledger.clone(), clock.clone());
        router = router.tool_raw(tool, move |call, context| {
            let (ledger, clock) = (ledger.clone(), clock.clone());
            async move {
                let Arguments { n } = call.arguments.as_ref().unwrap().decode().unwrap();
                if name == "ask"
                    && context.era() == Era::Modern
                    && let Some(needed) = needed(n, &call)
                {
                    return Answered::InputRequired(needed);
                }
                ledger.run(n);
                let mut dice = Dice::new(n);
                if dice.chance(300) {
                    context.release_stream();
                }
                for progress in 1..=dice.below(4) {
                    clock.sleep(Duration::from_millis(dice.below(4000))).await;
                    context.progress(progress);
                }
                clock.sleep(Duration::from_millis(dice.below(3000))).await;
                if name == "ask" && context.era() == Era::Legacy {
                    let _ = context.roots("roots").await;
                }
                Answered::Result(format!("done {n}"))
            }
        });
    }
    router
}

/// What a call is asked for first: the roots, and some of them to come once more. Each has a state of its own.
fn needed(n: u64, call: &CallToolParams) -> Option<InputRequiredResult> {
    let state = |word: &str| Some(format!("{n} {word}"));
    let mut needed = InputRequiredResult::new();
    if call.request_state.is_none() {
        needed.input_requests = Some([("roots", ListRootsParams::new().into())].into_iter().collect());
        needed.request_state = state("asked");
        return Some(needed);
    }
    let answered = call.input_responses.as_ref().is_some_and(|responses| responses.get("roots").is_some());
    if call.request_state == state("asked") && answered {
        needed.request_state = state("again");
        return n.is_multiple_of(2).then_some(needed);
    }
    assert_eq!((&call.request_state, answered), (&state("again"), false), "somebody else's state or answers");
    None
}
