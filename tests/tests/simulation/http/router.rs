//! The server of this workspace, with the tools that the simulated host calls.

use std::sync::Arc;
use std::time::Duration;

use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
use mcp_proto::front::{Context, HandlerError, LiveRouter, ResultOrInput, Router, ServedRouter};
use mcp_proto::peer::server::{Eras, SealKey, Sealer};
use mcp_proto::schema::{
    CacheHint, CallToolParams, ElicitParams, ElicitSchema, ElicitValue, Era, InputRequiredResult,
    ListRootsParams, ListTools, Resource, ServerCapability, StringSchema, Tool, ToolAnnotations,
};
use mcp_proto::testing::SimulatedClock;
use mcp_proto::testing::http::{FrontPeer, HttpPeer, SimulationRng};
use mcp_proto::trace_file::MachineRecorder;
use mcp_proto::transport::http::server::{HttpServerConfig, LegacyPaths};
use serde::Deserialize;
use serde_json::json;

use super::Ledger;
use super::cluster::Cluster;
use super::engine::EngineLink;

/// How long the list of tools may be cached: longer than most runs, so that a stale list is not just an expired one.
const LIST_TTL: Duration = Duration::from_secs(3600);
/// How long tasks are stored: tasks of a server that is gone expire before a run ends.
const TASK_TTL: Duration = Duration::from_secs(90);
/// Prefix of the version in the list of tools.
pub const VERSION_PREFIX: &str = "Leaves a mark, as of version ";
/// The resource that an instance reports to have changed.
pub const RESOURCE: &str = "simulated:///version";

#[derive(Deserialize)]
struct Arguments {
    n: u64,
}

/// How a server is configured.
#[derive(Clone, Debug)]
pub struct ServerSetting {
    pub eras: Eras,
    pub legacy_sse: bool,
    pub recorder: Option<MachineRecorder>,
    /// Whether its instances share an engine with faults.
    pub shares_engine: bool,
}

pub fn server(setting: &ServerSetting, ledger: &Ledger, seed: u64) -> Box<dyn HttpPeer> {
    // Only their path identifies the instance of messages of HTTP+SSE, so it has one instance.
    let many = match setting {
        ServerSetting { legacy_sse: true, .. } => 1,
        ServerSetting { shares_engine: true, .. } => 3,
        _ => 2,
    };
    if setting.shares_engine {
        ledger.engine.start(seed);
    }
    // Their random values must differ: between instances, and from those of earlier servers.
    let mut routers = Vec::new();
    let mut instances = Vec::new();
    for which in 0..many {
        let clock = Arc::new(SimulatedClock::default());
        let link = setting.shares_engine.then(|| ledger.engine.link(&clock));
        let router = router(ledger, &clock, link.as_ref());
        let instance = instance(setting, router.clone(), &clock, (seed << 24) | (which << 60));
        instances.push(match link {
            Some(link) => instance.relay_changes(Arc::new(link)),
            None => instance,
        });
        routers.push((router, clock));
    }
    ledger.set_routers(routers);
    Box::new(Cluster::new(instances, ledger.clone(), seed))
}

fn instance(
    setting: &ServerSetting,
    router: LiveRouter,
    clock: &Arc<SimulatedClock>,
    seed: u64,
) -> FrontPeer {
    let router = ServedRouter::from(router);
    let mut config = router.router().config();
    config.eras = setting.eras;
    config.recorder = setting.recorder.clone();
    let mut config = HttpServerConfig::new(config);
    if setting.legacy_sse {
        config.path = Some("/new".into());
        config.legacy_sse = Some(LegacyPaths { events: "/mcp".into(), messages: "/messages".into() });
    }
    FrontPeer::new(router, config, clock.clone(), seed)
}

fn router(ledger: &Ledger, clock: &Arc<SimulatedClock>, link: Option<&EngineLink>) -> LiveRouter {
    let mut tasks = TaskConfig::default();
    tasks.store = ledger.tasks.clone();
    tasks.ttl = TASK_TTL;
    let mut router = Router::new("simulated", "1")
        .seal(Sealer::new(SealKey::new([7; 32]), []))
        .cache::<ListTools>(CacheHint::private(LIST_TTL));
    if let Some(link) = link {
        tasks.store = Arc::new(link.clone());
        let shared = ledger.clone();
        router = router
            .single_use(Arc::new(link.clone()))
            .declare(ServerCapability::ResourcesSubscribe)
            .resource(Resource::new(RESOURCE, "version"), move |_, _| {
                let version = shared.resource_version().to_string();
                async { version }
            });
    }
    with_tools(router.tasks(tasks), ledger, clock).live()
}

/// Replaces the tools by those of the ledger's version.
pub fn change_tools(live: &LiveRouter, ledger: &Ledger, clock: &Arc<SimulatedClock>) {
    let changed = live.update(|router| {
        let removed = tools("").iter().fold(router, |router, tool| router.remove_tool(&tool.name));
        with_tools(removed, ledger, clock)
    });
    changed.expect("valid tools");
}

fn with_tools(router: Router, ledger: &Ledger, clock: &Arc<SimulatedClock>) -> Router {
    let description = format!("{VERSION_PREFIX}{}", ledger.version());
    tools(&description).into_iter().fold(router, |router, tool| {
        let (ledger, clock) = (ledger.clone(), clock.clone());
        match &*tool.name {
            "form" => router.tool_with(tool, move |Arguments { n }, context: Context| {
                form(n, ledger.clone(), clock.clone(), context)
            }),
            "job" => {
                router.task_tool(tool, TaskChoice::Optional, move |Arguments { n }, context: Context| {
                    job(n, ledger.clone(), clock.clone(), context)
                })
            }
            name => {
                let asks = name == "ask";
                router.tool_raw(tool, move |call, context| {
                    plain(asks, call, ledger.clone(), clock.clone(), context)
                })
            }
        }
    })
}

fn tools(description: &str) -> Vec<Tool> {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let read_only = ToolAnnotations { read_only_hint: Some(true), ..ToolAnnotations::default() };
    let idempotent = ToolAnnotations { idempotent_hint: Some(true), ..ToolAnnotations::default() };
    let plain = ToolAnnotations::default;
    let all = [
        ("pay", plain()),
        ("look", read_only),
        ("set", idempotent),
        ("ask", plain()),
        ("form", plain()),
        ("job", plain()),
    ];
    all.map(|(name, hints)| Tool::new(name, description, schema.clone()).with_annotations(hints)).into()
}

async fn plain(
    asks: bool,
    call: CallToolParams,
    ledger: Ledger,
    clock: Arc<SimulatedClock>,
    context: Context,
) -> ResultOrInput<String> {
    let Arguments { n } = call.arguments.as_ref().unwrap().decode().unwrap();
    if asks
        && context.era() == Era::Modern
        && let Some(needed) = needed(n, &call)
    {
        return ResultOrInput::InputRequired(needed);
    }
    ledger.note_run(n);
    let mut dice = SimulationRng::new(n);
    if dice.chance(300) {
        context.close_sse_stream();
    }
    for progress in 1..=dice.below(4) {
        clock.sleep(Duration::from_millis(dice.below(4000))).await;
        context.progress(progress);
    }
    clock.sleep(Duration::from_millis(dice.below(3000))).await;
    if asks && context.era() == Era::Legacy {
        let _ = context.roots("roots").await;
    }
    ResultOrInput::Result(format!("done {n}"))
}

/// Input that a call needs first: the roots, and for some calls the roots again. Each request has a state of its own.
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
    assert_eq!((&call.request_state, answered), (&state("again"), false), "state or answers of another call");
    None
}

/// Asks a question that only the host that made this call can answer.
async fn question(n: u64, key: &str, ledger: &Ledger, context: &Context) -> Result<(), HandlerError> {
    let question = format!("{n} {key}");
    let schema = ElicitSchema::new([("answer", StringSchema::new().into())]);
    let answer = context.elicit(key, ElicitParams::form(question.clone(), schema)).await?;
    match answer.content.as_ref().map(|content| content.get("answer")) {
        None => {}
        Some(Some(ElicitValue::String(said))) if *said == question => {}
        Some(said) => ledger.report_violation(format!("answer of another call: {said:?} to {question:?}")),
    }
    Ok(())
}

/// Asks by sealed states, once or twice, and stores a value between the rounds.
async fn form(
    n: u64,
    ledger: Ledger,
    clock: Arc<SimulatedClock>,
    context: Context,
) -> Result<String, HandlerError> {
    question(n, "first", &ledger, &context).await?;
    let kept = context.run_once("kept", async { n }).await;
    if n.is_multiple_of(2) {
        question(n, "second", &ledger, &context).await?;
    }
    if kept != n {
        ledger.report_violation(format!("the value stored for {kept} is returned to {n}"));
    }
    match context.era() {
        Era::Modern => ledger.note_run_by_state(n),
        Era::Legacy => ledger.note_run(n),
    }
    clock.sleep(Duration::from_millis(SimulationRng::new(n).below(3000))).await;
    Ok(format!("done {n}"))
}

/// Runs for some time, and asks for input or not.
async fn job(
    n: u64,
    ledger: Ledger,
    clock: Arc<SimulatedClock>,
    context: Context,
) -> Result<String, HandlerError> {
    let mut dice = SimulationRng::new(n);
    if dice.chance(600) {
        question(n, "job", &ledger, &context).await?;
    }
    // A resumed handler starts from the beginning: `run_once` prevents a second execution.
    context.run_once("run", async { ledger.note_run(n) }).await;
    context.status("working on it");
    clock.sleep(Duration::from_millis(dice.below(8000))).await;
    if dice.chance(300) {
        question(n, "late", &ledger, &context).await?;
    }
    Ok(format!("done {n}"))
}
