//! One instance of the server.

use std::fs::OpenOptions;
use std::future::pending;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_signal::{Signal, Signals};
use mcp_hyper::redis::{Redis, RedisOptions};
use mcp_hyper::{ServerOptions, SharedFolder};
use mcp_proto::front::http::{ChangeRelay, HttpHandle};
use mcp_proto::front::tasks::{TaskChoice, TaskConfig};
use mcp_proto::front::{Context, HandlerError, NoArguments, Progress, Router, SingleUse};
use mcp_proto::peer::server::{ListKind, SealKey, Sealer};
use mcp_proto::schema::{
    ElicitParams, ElicitSchema, ElicitValue, PrimitiveSchema, ServerCapability, StringSchema, Tool,
};
use mcp_proto::transport::http::server::SessionPrefix;
use serde::Deserialize;
use serde_json::json;
use smol::Timer;
use smol::future::or;
use smol::net::TcpListener;
use smol::stream::StreamExt as _;

use crate::Outcome;
use crate::proofs::guard;

/// How long an instance serves after SIGTERM: several intervals of the balancer's checks.
const NOTICE: Duration = Duration::from_secs(1);
/// The pause after a step of `count`.
const STEP: Duration = Duration::from_millis(100);

/// Serves at an address, and prints it, until SIGTERM. The store is a folder, or a Redis by its URL.
pub(crate) async fn serve(name: &str, key: &Path, store: &str, address: &str) -> Outcome {
    let finished = key.with_file_name("finished");
    let key: [u8; 32] = std::fs::read(key)?.try_into().map_err(|_| "the key does not have 32 bytes")?;
    let mut tasks = TaskConfig::default();
    let single_use: Arc<dyn SingleUse>;
    let mut relay: Option<Arc<dyn ChangeRelay>> = None;
    if store.starts_with("redis:") {
        let redis = connect_redis(store).await?;
        relay = Some(Arc::new(redis.clone()));
        (tasks.store, single_use) = (Arc::new(redis.clone()), Arc::new(redis));
    } else {
        let folder = SharedFolder::new(store).on_error(|error| eprintln!("{error}"));
        (tasks.store, single_use) = (Arc::new(folder.clone()), Arc::new(folder));
    }
    tasks.poll_interval = Duration::from_millis(100);
    let sealer = Sealer::new(SealKey::new(key), []);
    let listener = TcpListener::bind(address).await?;
    println!("{}", listener.local_addr()?);
    let handle = Arc::new(OnceLock::new());
    let guard = guard(key, single_use.clone())?;
    let router = router(name, sealer, tasks, finished, handle.clone()).single_use(single_use);
    let prefix = SessionPrefix::new(name)?;
    let mut options = ServerOptions::new(router)
        .configure(|config| config.session_prefix = Some(prefix))
        .protect(guard)
        .health("/healthz", || true)
        .on_error(|error| eprintln!("{error}"));
    if let Some(relay) = relay {
        options = options.relay_changes(relay);
    }
    let (server, driver) = options.listen(listener);
    let _ = handle.set(server.handle().clone());
    let mut signals = Signals::new([Signal::Term])?;
    let draining = async {
        signals.next().await;
        server.drain(NOTICE);
        pending().await
    };
    or(driver, draining).await?;
    Ok(())
}

async fn connect_redis(url: &str) -> Outcome<Redis> {
    let options = RedisOptions::new(url)?.on_event(|event| eprintln!("{event:?}"));
    let (redis, driver) = options.connect()?;
    smol::spawn(driver).detach();
    redis.ready().await?;
    Ok(redis)
}

#[derive(Deserialize)]
struct NumberArguments {
    n: u32,
    #[serde(default)]
    steps: u32,
}

/// The tools:
/// - `trip`, which asks twice within the call;
/// - `parcel`, which asks the same as a task;
/// - `nap`, a task that takes half a second;
/// - `wait`, a task that runs until it is cancelled;
/// - `waiting`, which returns how many `wait` handlers run at this instance;
/// - `count`, which reports so many steps;
/// - `change`, which announces that the list of tools has changed.
///
/// Those that ask or count append their argument `n` to the file `finished` at the end.
fn router(
    name: &str,
    sealer: Sealer,
    tasks: TaskConfig,
    finished: PathBuf,
    server: Arc<OnceLock<HttpHandle>>,
) -> Router {
    let counting = finished.clone();
    let ask_twice = move |NumberArguments { n, .. }: NumberArguments, cx: Context| {
        let finished = finished.clone();
        async move {
            let trip = ask_twice(n, cx).await?;
            record_end(&finished, n)?;
            Ok::<_, HandlerError>(trip)
        }
    };
    let count = move |NumberArguments { n, steps }: NumberArguments, cx: Context| {
        let finished = counting.clone();
        async move {
            for step in 1..=steps {
                cx.progress(Progress::new(step).message(format!("{n}.{step}")));
                Timer::after(STEP).await;
            }
            record_end(&finished, n)?;
            Ok::<_, HandlerError>(format!("{n}: {steps} steps"))
        }
    };
    let numbered = |name: &str, what: &str| {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        Tool::new(name, what, schema)
    };
    let plain = |name: &str, what: &str| Tool::new(name, what, json!({"type": "object"}));
    let waiting = Arc::new(AtomicUsize::new(0));
    let (counted, name) = (waiting.clone(), name.to_owned());
    Router::new("balanced", env!("CARGO_PKG_VERSION"))
        .seal(sealer)
        .tasks(tasks)
        .declare(ServerCapability::ToolsListChanged)
        .tool_with(plain("change", "Changes the list"), move |NoArguments {}, _: Context| {
            if let Some(server) = server.get() {
                server.list_changed(ListKind::Tools);
            }
            async { "changed" }
        })
        .tool_with(numbered("trip", "Asks where to and when"), ask_twice.clone())
        .tool_with(numbered("count", "Reports steps"), count)
        .task_tool(numbered("parcel", "Asks where to and when"), TaskChoice::Optional, ask_twice)
        .task_tool(plain("nap", "Takes a while"), TaskChoice::Optional, async |NoArguments {}, _: Context| {
            Timer::after(Duration::from_millis(500)).await;
            "rested"
        })
        .task_tool(
            plain("wait", "Waits to be cancelled"),
            TaskChoice::Required,
            move |NoArguments {}, _: Context| {
                let one = WaitingGuard::new(waiting.clone());
                async move {
                    let never: String = std::future::pending().await;
                    drop(one);
                    never
                }
            },
        )
        .tool_with(plain("waiting", "How many wait here"), move |NoArguments {}, _: Context| {
            let said = format!("{name} {}", counted.load(Ordering::SeqCst));
            async move { said }
        })
}

/// Records that a call was finished.
fn record_end(finished: &Path, n: u32) -> Result<(), HandlerError> {
    let mut file = OpenOptions::new().append(true).create(true).open(finished).map_err(HandlerError::new)?;
    file.write_all(format!("{n}\n").as_bytes()).map_err(HandlerError::new)
}

async fn ask_twice(n: u32, cx: Context) -> Result<String, HandlerError> {
    let city = ask(&cx, n, "city").await?;
    let day = ask(&cx, n, "day").await?;
    Ok(format!("{n}: {city}, {day}"))
}

async fn ask(cx: &Context, n: u32, field: &str) -> Result<String, HandlerError> {
    let form = ElicitSchema::new([(field, PrimitiveSchema::from(StringSchema::new()))]);
    let answer = cx.elicit(field, ElicitParams::form(format!("call {n}"), form)).await?;
    match answer.content.as_ref().and_then(|content| content.get(field)) {
        Some(ElicitValue::String(text)) => Ok(text.clone()),
        _ => Err(HandlerError::new(format!("the user did not give the {field}"))),
    }
}

/// Counts a waiting handler until it is dropped.
struct WaitingGuard(Arc<AtomicUsize>);

impl WaitingGuard {
    fn new(count: Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for WaitingGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
