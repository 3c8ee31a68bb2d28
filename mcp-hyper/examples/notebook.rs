//! A notebook: a server whose tools and resources change while it serves, with state, an extension, rates, rules and logs.
//! It writes an audit of its requests to standard error.
//!
//! `cargo run -p mcp-hyper --features cli --example notebook` serves standard input and output; with `-- 127.0.0.1:8080`
//! it serves HTTP at `/mcp`, and with `-- --stateless 127.0.0.1:8080` it serves older clients without sessions. If the
//! variable `TRACE` names a folder, it writes the steps of its machines into a trace there.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use mcp_hyper::host::TraceFile;
use mcp_hyper::{CallToolResult, Context, HandlerError, LiveRouter, Router, ServerOptions};
use mcp_proto::Instant;
use mcp_proto::consent::SafeText;
use mcp_proto::front::layer::{Audit, InvalidPointer, RuleMatch, Rules};
use mcp_proto::front::{LimitedCall, NoArguments, NotificationContext, Progress, SendHandlers, Structured};
use mcp_proto::quota::{RateLimit, RateLimiter};
use mcp_proto::redact::Redactor;
use mcp_proto::schema::{
    CompleteParams, CustomParams, CustomResult, Extension, ExtensionMethod, LoggingLevel, Prompt,
    PromptArgument, Resource, ResultType, ServerCapability,
};
use mcp_proto::trace_file::MachineRecorder;
use mcp_proto::transport::http::server::HttpServerConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use smol::Timer;

const EXTENSION: &str = "com.example/notebook";
const DRAFT: &str = "com.example/draft";
const STYLES: [&str; 3] = ["formal", "friendly", "short"];

/// The state that handlers share.
#[derive(Default)]
struct Notebook {
    notes: Mutex<BTreeMap<String, String>>,
    added: AtomicU64,
    touched: AtomicU64,
    /// Why the last call of `wait` ended.
    cancelled: Mutex<Option<String>>,
    /// The router of the handlers; unset in a server whose lists do not change.
    live: OnceLock<LiveRouter<SendHandlers, State>>,
}

type State = Arc<Notebook>;

impl Notebook {
    fn notes(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> Result<&LiveRouter<SendHandlers, State>, HandlerError> {
        self.live.get().ok_or_else(|| HandlerError::new("this notebook is read-only"))
    }
}

#[derive(Deserialize, JsonSchema)]
struct Note {
    /// A word or two.
    name: String,
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    /// The name of a note.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Pages {
    #[schemars(range(min = 1, max = 100_000))]
    pages: u32,
}

#[derive(Serialize, JsonSchema)]
struct Caller {
    /// The client's `com.example/trace`, from the metadata of its request.
    trace: Option<String>,
    /// The `user-agent` of its HTTP request.
    agent: Option<String>,
}

fn uri(name: &str) -> String {
    format!("note://{name}")
}

// --- Notes: tools and resources that come and go ---

async fn add_note(note: Note, cx: Context<State>) -> Result<String, HandlerError> {
    let (notebook, live) = (cx.state(), cx.state().live()?);
    let is_known = notebook.notes().contains_key(&note.name);
    if !is_known {
        let is_first = notebook.notes().is_empty();
        // Fails if the name does not fit into a URI. Then nothing has changed.
        live.update(|router| {
            let router = router.resource(Resource::new(uri(&note.name), &note.name), read_note);
            if is_first { router.enable_tool("remove_note") } else { router }
        })
        .map_err(HandlerError::new)?;
        notebook.added.fetch_add(1, Ordering::Relaxed);
    }
    notebook.notes().insert(note.name.clone(), note.text);
    if is_known {
        live.resource_updated(uri(&note.name));
    }
    // A notification of this server's own, on the stream of the request.
    cx.notify_custom("com.example/saved", json!({ "name": note.name }))?;
    Ok(format!("saved {}", note.name))
}

async fn remove_note(Name { name }: Name, cx: Context<State>) -> Result<String, HandlerError> {
    let (notebook, live) = (cx.state(), cx.state().live()?);
    if notebook.notes().remove(&name).is_none() {
        return Err(HandlerError::new(format!("there is no note {name:?}")));
    }
    let is_last = notebook.notes().is_empty();
    live.update(|router| {
        let router = router.remove_resource(&uri(&name));
        if is_last { router.disable_tool("remove_note") } else { router }
    })
    .map_err(HandlerError::new)?;
    Ok(format!("removed {name}"))
}

async fn read_note(uri: String, cx: Context<State>) -> Result<String, HandlerError> {
    let name = uri.strip_prefix("note://").unwrap_or_default();
    let text = cx.state().notes().get(name).cloned();
    text.ok_or_else(|| HandlerError::no_resource(uri))
}

// --- What handlers know of their request ---

async fn whoami(NoArguments {}: NoArguments, cx: Context<State>) -> Structured<Caller> {
    cx.log_as(LoggingLevel::Info, "db", "asked");
    // Of an HTTP request; a request on standard input has no such attachment.
    let head = cx.attachments().get::<http::request::Parts>();
    let agent = head.and_then(|head| head.headers.get("user-agent")?.to_str().ok());
    let trace = cx.meta().get("com.example/trace").and_then(|trace| trace.decode().ok());
    Structured(Caller { trace, agent: agent.map(str::to_owned) })
}

/// Reports far more progress than a client can show: at most 50 reports a second are sent, the first and the last always.
async fn index(Pages { pages }: Pages, cx: Context<State>) -> String {
    for page in 1..=pages {
        cx.progress(Progress::new(page).total(pages));
        if page % 100 == 0 {
            Timer::after(Duration::from_millis(10)).await;
        }
    }
    format!("{pages} pages")
}

/// Waits until it is cancelled, and notes the reason.
async fn wait(NoArguments {}: NoArguments, cx: Context<State>) -> &'static str {
    struct Waiting(Context<State>);

    impl Drop for Waiting {
        fn drop(&mut self) {
            let why = self.0.cancellation().map(|why| why.to_string());
            *self.0.state().cancelled.lock().unwrap_or_else(PoisonError::into_inner) = why;
        }
    }

    let waiting = Waiting(cx);
    waiting.0.progress(1);
    Timer::never().await;
    "nothing happened"
}

// --- The extension, and methods of this server's own ---

fn extension() -> Result<Extension, Box<dyn Error>> {
    Ok(Extension::new(EXTENSION)?
        .with_settings(json!({ "drafts": true }))
        .with_method(ExtensionMethod::new("com.example/rename").with_name_param("note"))
        .with_result_type(DRAFT))
}

/// Returns a result type of the extension to clients that declare to know it, and the text to others.
async fn draft(NoArguments {}: NoArguments, cx: Context<State>) -> CallToolResult {
    #[derive(Deserialize)]
    struct Settings {
        #[serde(default)]
        drafts: bool,
    }

    let settings = cx.extension(EXTENSION).and_then(|settings| settings.decode().ok());
    if !settings.is_some_and(|Settings { drafts }| drafts) {
        return CallToolResult::text("Dear all,");
    }
    let mut result = CallToolResult::new();
    result.result_type = Some(ResultType::Other(DRAFT.into()));
    result.extra.insert("draft", "Dear all,");
    result
}

async fn rename(params: CustomParams, cx: Context<State>) -> Result<CustomResult, HandlerError> {
    let text = |name| params.extra.get(name).and_then(|value| value.decode::<String>().ok());
    let (Some(note), Some(to)) = (text("note"), text("to")) else {
        return Err(HandlerError::new("`note` and `to` are names"));
    };
    let (notebook, live) = (cx.state(), cx.state().live()?);
    live.update(|router| {
        router.remove_resource(&uri(&note)).resource(Resource::new(uri(&to), &to), read_note)
    })
    .map_err(HandlerError::new)?;
    let mut notes = notebook.notes();
    if let Some(text) = notes.remove(&note) {
        notes.insert(to, text);
    }
    drop(notes);
    Ok(CustomResult::new())
}

async fn stats(_: CustomParams, cx: Context<State>) -> CustomResult {
    let notebook = cx.state();
    let mut result = CustomResult::new();
    result.extra.insert("added", json!(notebook.added.load(Ordering::Relaxed)));
    result.extra.insert("touched", json!(notebook.touched.load(Ordering::Relaxed)));
    let cancelled = notebook.cancelled.lock().unwrap_or_else(PoisonError::into_inner).clone();
    result.extra.insert("cancelled", json!(cancelled.unwrap_or_default()));
    result
}

async fn touched(_: CustomParams, cx: NotificationContext<State>) {
    cx.state().touched.fetch_add(1, Ordering::Relaxed);
}

// --- Layers: rules, and an audit of all requests ---

/// Writes a line for each request when it ends: the client, the request without its secrets, and the outcome.
fn audit() -> Audit {
    Audit::new(|record| {
        let line = json!({
            "peer": record.peer,
            "method": record.method,
            "item": record.item,
            "request": record.request,
            "outcome": format!("{:?}", record.outcome),
        });
        eprintln!("audit: {}", SafeText::json(&line.to_string()));
    })
}

fn rules() -> Result<Rules, InvalidPointer> {
    Ok(Rules::new()
        .allow(RuleMatch::tool("whoami"))
        .deny(RuleMatch::tool("burn"), "this notebook does not burn")
        .deny(RuleMatch::tool("add_note").argument("/name", "secret")?, "that name is taken")
        .deny(RuleMatch::resource("note://secret"), "that note is secret")
        .rate(RuleMatch::tool("draft"), RateLimit::per_minute(2)))
}

// --- The router ---

/// The part that needs no session and never changes.
fn reading_room(notebook: State) -> Result<Router<SendHandlers, State>, Box<dyn Error>> {
    let summaries = Mutex::new(RateLimiter::new(RateLimit::per_minute(2)));
    let mut letter = Prompt::new("letter");
    letter.arguments = Some(vec![PromptArgument::new("style")]);
    Ok(Router::new("notebook", env!("CARGO_PKG_VERSION"))
        .with_state(notebook)
        .with_extension(extension()?)
        // The audit is outermost, so it records denied requests too.
        .layer(audit())
        .layer(rules()?)
        .experimental("com.example/ink", json!({ "colour": "blue" }))
        .tool("whoami", "Shows what the server knows of its caller", whoami)
        .tool("index", "Makes an index, and reports its progress", index)
        .tool("wait", "Waits until it is cancelled", wait)
        .tool("draft", "Begins a letter: twice a minute", draft)
        .tool("burn", "Burns the notebook", async |NoArguments {}, _| "only ashes are left")
        .tool(
            "summarise",
            "Summarises the notes: twice a minute",
            async |NoArguments {}, cx: Context<State>| format!("{} notes", cx.state().notes().len()),
        )
        .tool_limiter(move |call: &LimitedCall<'_>| {
            if call.tool != "summarise" {
                return Ok(());
            }
            let now = Instant::from_origin(call.time.since_epoch());
            summaries.lock().unwrap_or_else(PoisonError::into_inner).try_take(call.owner, now)
        })
        .resource(Resource::new("note://secret", "secret"), async |_, _| "hidden under the table")
        .prompt(letter, async |arguments: BTreeMap<String, String>, _| {
            let style = arguments.get("style").map_or("formal", String::as_str);
            format!("Write a {style} letter.")
        })
        // At most 20 a second for each caller, and 40 at once: the default.
        .completion(async |params: CompleteParams, _| {
            let begins = |style: &&str| style.starts_with(params.argument.value.as_str());
            STYLES.into_iter().filter(begins).collect::<Vec<_>>()
        })
        .custom("com.example/stats", stats)
        .custom("com.example/rename", rename)
        .on_notification("com.example/touched", touched))
}

/// The whole notebook, which changes while it serves.
fn notebook() -> Result<LiveRouter<SendHandlers, State>, Box<dyn Error>> {
    let notebook = State::default();
    let live = reading_room(notebook.clone())?
        .declare(ServerCapability::Logging)
        .declare(ServerCapability::ResourcesSubscribe)
        .subscription_access(|uri, _| uri != "note://secret")
        .tool("add_note", "Adds or changes a note", add_note)
        .tool("remove_note", "Removes a note", remove_note)
        .disable_tool("remove_note")
        .live();
    // The handlers keep their router: it lives as long as the program.
    let _ = notebook.live.set(live.clone());
    Ok(live)
}

/// A recorder for a trace with all secrets, to run the machines again.
fn recorder(transport: &str) -> Result<Option<MachineRecorder>, Box<dyn Error>> {
    let Some(folder) = std::env::var_os("TRACE") else { return Ok(None) };
    let path = std::path::Path::new(&folder).join(format!("notebook-{}.trace", std::process::id()));
    let file = TraceFile::with_secrets(path, "notebook")?;
    Ok(file.connection("notebook", transport, Redactor::new()).recorder())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_stateless = arguments.first().is_some_and(|first| first == "--stateless");
    if is_stateless {
        arguments.remove(0);
    }
    smol::block_on(async {
        let Some(address) = arguments.first() else {
            let recorder = recorder("stdio")?;
            let options = mcp_smol::ServerOptions::new(notebook()?);
            let (handle, driver) = options.configure(|config| config.recorder = recorder).stdio()?;
            let greeting = async {
                Timer::after(Duration::from_secs(1)).await;
                handle.log(LoggingLevel::Info, Some("notebook".into()), "still here");
                std::future::pending().await
            };
            return Ok(smol::future::or(driver, greeting).await?);
        };
        let listener = smol::net::TcpListener::bind(address).await?;
        eprintln!("notebook: http://{}/mcp", listener.local_addr()?);
        let recorder = recorder("http")?;
        let traced = |config: &mut HttpServerConfig| Arc::make_mut(&mut config.server).recorder = recorder;
        if is_stateless {
            let options = ServerOptions::new(reading_room(State::default())?).stateless();
            return Ok(options.configure(traced).listen(listener).1.await?);
        }
        let options = ServerOptions::new(notebook()?).request_rate(RateLimit::per_second(1000));
        let (server, driver) = options.configure(traced).listen(listener);
        let greeting = async {
            loop {
                Timer::after(Duration::from_secs(1)).await;
                server.log(LoggingLevel::Info, Some("notebook".into()), "still here");
            }
        };
        Ok(smol::future::or(driver, greeting).await?)
    })
}
