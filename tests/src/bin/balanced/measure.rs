//! The cost of calls with stores in Redis, beside that with stores in memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_hyper::redis::Redis;
use mcp_hyper::{ClientOptions, ServerOptions};
use mcp_proto::front::tasks::{MemoryLimits, MemoryStore, TaskChoice, TaskConfig, TaskStore};
use mcp_proto::front::{
    Client, ClientHandlers, Context, HandlerError, NoArguments, Router, SingleUse, ToolCallOutcome, UsedIds,
};
use mcp_proto::peer::client::EraPolicy;
use mcp_proto::peer::server::{SealKey, Sealer};
use mcp_proto::schema::{ElicitParams, ElicitSchema, PrimitiveSchema, StringSchema, Tool};
use serde_json::json;
use smol::Timer;
use smol::net::TcpListener;

use crate::Outcome;
use crate::instance_log::answer;

/// Calls of one round, and how many are in flight.
const CALLS: u32 = 512;
const IN_FLIGHT: u32 = 16;
/// Rounds of each row, of which the median counts.
const ROUNDS: usize = 9;
/// Never reached: the limits are not measured.
const MANY: usize = 1_000_000;

/// Times each kind of call with stores in memory and in the Redis at this URL, in turns.
pub(crate) async fn measure(url: &str) -> Outcome {
    let (redis, driver) = Redis::connect(url)?;
    smol::spawn(driver).detach();
    redis.ready().await?;
    // A state of the first second after the start of Redis is refused: the clocks might differ by that.
    Timer::after(Duration::from_secs(2)).await;
    let memory = MemoryStore::new(MemoryLimits { tasks: MANY, bytes: 1 << 30 });
    let in_memory = serve(Arc::new(memory), Arc::new(UsedIds::new(MANY))).await?;
    let in_redis = serve(Arc::new(redis.clone()), Arc::new(redis)).await?;
    println!("{:42} {:>9} {:>9} {:>6}", "calls a second", "memory", "Redis", "ratio");
    for (name, tool) in [
        ("that need no store", "plain"),
        ("that ask once, with a state used once", "ask"),
        ("that become tasks", "task"),
    ] {
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (client, rates) in [&in_memory, &in_redis].into_iter().zip(&mut rates) {
                rates.push(round(client, tool).await?);
            }
        }
        let [memory, redis] = rates.map(median);
        println!("{name:42} {memory:>9.0} {redis:>9.0} {:>6.2}", redis / memory);
    }
    Ok(())
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Makes the calls of one round; returns how many a second.
async fn round(client: &Client, tool: &'static str) -> Outcome<f64> {
    let begun = Instant::now();
    let callers = (0..IN_FLIGHT).map(|_| {
        let client = client.clone();
        smol::spawn(async move {
            for _ in 0..CALLS / IN_FLIGHT {
                match client.call_tool(tool, json!({})).start_task().await? {
                    ToolCallOutcome::Task(_) if tool == "task" => {}
                    ToolCallOutcome::Completed(result) if tool != "task" && !result.failed() => {}
                    _ => return Err(format!("{tool} has another outcome").into()),
                }
            }
            Outcome::Ok(())
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await?;
    }
    Ok(f64::from(CALLS) / begun.elapsed().as_secs_f64())
}

/// Serves with these stores; returns a client.
async fn serve(store: Arc<dyn TaskStore>, used: Arc<dyn SingleUse>) -> Outcome<Client> {
    let mut tasks = TaskConfig::default();
    tasks.store = store;
    tasks.running = MANY;
    tasks.running_each = MANY;
    let tool = |name: &str| Tool::new(name, "Is measured", json!({"type": "object"}));
    let router = Router::new("measured", env!("CARGO_PKG_VERSION"))
        .seal(Sealer::new(SealKey::new([7; 32]), []))
        .single_use(used)
        .tasks(tasks)
        .tool_with(tool("plain"), async |NoArguments {}, _: Context| "done")
        .tool_with(tool("ask"), async |NoArguments {}, cx: Context| {
            let form = ElicitSchema::new([("city", PrimitiveSchema::from(StringSchema::new()))]);
            let answer = cx.elicit("city", ElicitParams::form("Where to?", form)).await?;
            Ok::<_, HandlerError>(answer.action.as_str())
        })
        .task_tool(tool("task"), TaskChoice::Required, async |NoArguments {}, _: Context| "done");
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let (_, driver) = ServerOptions::new(router).listen(listener);
    smol::spawn(driver).detach();
    let (client, driver) = ClientOptions::new("measured", env!("CARGO_PKG_VERSION"))
        .era_policy(EraPolicy::ModernOnly)
        .handlers(ClientHandlers::new().elicitation(async |params, _| answer(&params)))
        .connect(&url)?;
    smol::spawn(driver).detach();
    client.ready().await?;
    Ok(client)
}
