//! The recorded requests of clients, made again: do the answers still say the same?

use alloc::sync::Arc;
use core::fmt;

use serde_json::{Map, Value, json};

use super::{Client, ClientHandlers, Error, HandlerError};
use crate::front::wakers::lock;
use crate::ordered_set::OrderedSet;
use crate::peer::client::ServerInfo;
use crate::peer::{CacheMode, ProgressOption, RequestOptions};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::{
    CallTool, ClientCapabilities, Complete, CreateMessage, CustomParams, CustomResult, Direction, Elicit,
    GetPrompt, ListPrompts, ListResourceTemplates, ListResources, ListRoots, ListTools, Method, MethodInfo,
    Ping, ReadResource, Revision,
};
use crate::sync::Mutex;
use crate::trace_file::{
    Answers, CallKey, Comparison, Difference, RecordedCall, RecordedStep, Recording, comparable_params,
    is_hidden,
};

/// The methods that only read.
const READS: [&str; 8] = [
    Ping::NAME,
    ListTools::NAME,
    ListPrompts::NAME,
    GetPrompt::NAME,
    ListResources::NAME,
    ListResourceTemplates::NAME,
    ReadResource::NAME,
    Complete::NAME,
];

/// The requests of servers that a recorded answer answers.
const INPUT: [&str; 3] = [CreateMessage::NAME, Elicit::NAME, ListRoots::NAME];

/// The members that only one era has.
const OF_ERA: [&str; 5] = [
    "/result/ttlMs",
    "/result/cacheScope",
    "/result/tools/*/execution",
    "/result/capabilities/tasks",
    "/result/capabilities/extensions",
];

/// Makes the recorded requests again with a live client, and compares the answers with the recorded ones by their meaning.
///
/// Requests that only read are made: lists, resources, prompts, completions and pings. Calls of tools, and methods that the
/// protocol does not define, may change something: they need permission. A request with a value that is hidden in the trace,
/// `[redacted]` or a pseudonym, is not made, and neither is one that was not answered. Requests are made one after the other,
/// in their recorded order; [`Recording::client_handlers`] gives the client the recorded answers to requests of the server.
///
/// These may differ: the order of members, of named items of a list, and of notifications; `_meta`; cursors and the other
/// handles of the protocol, and members named as ids if both values are long and have digits: later requests send the live
/// value in the place of the recorded one; times as RFC 3339 writes them; parts that are hidden in the trace; members that
/// mean the same as their absence, such as a `ttlMs` of 0;
/// between the eras members that only one of them has. JSON in a text is compared as JSON.
///
/// ```no_run
/// # use mcp_proto::front::Client;
/// # use mcp_proto::trace_file::{Recording, Trace};
/// # async fn example(client: Client, file: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
/// let recording = Recording::new(&Trace::parse(file)?, None)?;
/// let report = recording.replay().call("search").ignore("/result/structuredContent/elapsedMs").run(&client).await;
/// assert!(report.is_same(), "{report}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a replay does nothing until it runs"]
pub struct Replay {
    recording: Recording,
    ignored: Vec<Vec<String>>,
    calls: OrderedSet<String>,
    read_only_calls: bool,
    all_calls: bool,
    hidden: bool,
}

impl Recording {
    /// A replay of this recording that makes the requests that only read.
    pub fn replay(&self) -> Replay {
        Replay {
            recording: self.clone(),
            ignored: Vec::new(),
            calls: OrderedSet::new(),
            read_only_calls: false,
            all_calls: false,
            hidden: false,
        }
    }

    /// Handlers for the client of a [`Replay`], which answer requests of the server, and for input, as the recorded client
    /// did: those that mean the same in the recorded order, and then by the last answer again. The client declares what the
    /// recorded one declared, since some servers offer more to a client that can be asked.
    ///
    /// A request that is not recorded is refused, and so is one whose answer is hidden in the trace.
    pub fn client_handlers(&self) -> ClientHandlers {
        let inputs = self.calls.iter().flat_map(|call| &call.steps).filter_map(|step| match step {
            RecordedStep::Request(request) => Some(request),
            RecordedStep::Notification { .. } => None,
        });
        let answers = inputs.chain(&self.others).filter_map(|input| {
            let params = input.params.as_ref().and_then(|params| params.decode().ok()).unwrap_or_default();
            Some((input_key(&input.method, params), input.answer.clone()?))
        });
        let answers = Arc::new(Mutex::new(Answers::new(answers)));
        let mut handlers = ClientHandlers::new();
        for method in INPUT {
            let answers = answers.clone();
            handlers = handlers.custom(method, move |params: CustomParams, _| {
                let answer = input_answer(&answers, method, &params);
                async { answer }
            });
        }
        let declared: Option<ClientCapabilities> = self.client.as_ref().and_then(|it| it.decode().ok());
        handlers.declare(|capabilities| *capabilities = declared.unwrap_or_default())
    }
}

fn input_key(method: &str, params: Map<String, Value>) -> CallKey {
    let mut params = comparable_params(params);
    params.remove("elicitationId");
    CallKey::new(method, &params)
}

type InputAnswers = Mutex<Answers<Result<Raw, ErrorObject>>>;

/// The recorded answer to a request of the server.
fn input_answer(
    answers: &InputAnswers,
    method: &str,
    params: &CustomParams,
) -> Result<CustomResult, HandlerError> {
    let params = Raw::encode(params)?.decode()?;
    match lock(answers).take(&input_key(method, params)) {
        Some(Ok(result)) if result.decode().is_ok_and(|result| is_hidden(&result)) => {
            Err(HandlerError::new("the answer is hidden in the trace"))
        }
        Some(Ok(result)) => Ok(result.decode()?),
        Some(Err(error)) => Err(error.into()),
        None => Err(HandlerError::new("the trace has no answer to this request")),
    }
}

impl Replay {
    setters! {
        /// Makes all calls of tools too, and the requests of methods that the protocol does not define. For servers on which
        /// they do no harm, such as one that a test starts.
        pub fn all_calls(self) { self.all_calls = true }

        /// Makes the calls of tools that the live server declares to be read-only
        /// ([`ToolAnnotations::read_only_hint`](crate::schema::ToolAnnotations::read_only_hint)).
        pub fn read_only_calls(self) { self.read_only_calls = true }

        /// Makes the calls of this tool, or the requests of this method that the protocol does not define.
        pub fn call(self, name: impl Into<String>) { self.calls.insert(name.into()) }
    }

    /// Lets answers differ at this [JSON pointer](https://www.rfc-editor.org/rfc/rfc6901) and below; `*` stands for any
    /// member or item. It begins with `/result` or `/error`.
    pub fn ignore(mut self, pointer: &str) -> Self {
        self.ignored.push(segments(pointer));
        self
    }

    /// Makes all requests, also with values that are hidden in the trace, as they stand there: of a server that plays the
    /// same trace (`Recording::router`), which declares no tasks.
    pub fn to_recorded_server(mut self) -> Self {
        (self.hidden, self.all_calls) = (true, true);
        self
    }

    /// Makes the requests, and compares the answers.
    pub async fn run(&self, client: &Client) -> ReplayReport {
        let mut report = ReplayReport::default();
        let server = match client.ready().await {
            Ok(server) => server,
            Err(error) => {
                let failed =
                    Comparison::default().compare(&Value::Null, &json!({ "failure": error.to_string() }));
                report.add("initialize", None, ReplayOutcome::Differs(failed));
                return report;
            }
        };
        let mut ignored = self.ignored.clone();
        let is_other_era = self.recording.revision.map(Revision::era) != Some(server.era);
        if is_other_era || self.hidden {
            ignored.extend(OF_ERA.map(segments));
        }
        let mut comparison = Comparison::new(ignored);
        if let Some(recorded) = self.recording.described() {
            let outcome = ReplayOutcome::of(comparison.compare(&recorded, &described(&server)));
            report.add("initialize", None, outcome);
        }
        let read_only = self.read_only_tools(client).await;
        for call in &self.recording.calls {
            let mut params = Value::Object(call.params.clone());
            comparison.follow("", &mut params);
            let outcome = match self.skip_reason(call, &params, &server, &read_only) {
                Some(reason) => ReplayOutcome::Skipped(reason),
                None => {
                    let (recorded, live) = self.answers(call, params, client, is_other_era).await;
                    ReplayOutcome::of(comparison.compare(&recorded, &live))
                }
            };
            report.add(&call.method, call.name(), outcome);
        }
        report
    }

    /// The tools that the server declares to be read-only, if they may be called.
    async fn read_only_tools(&self, client: &Client) -> OrderedSet<String> {
        if !self.read_only_calls {
            return OrderedSet::new();
        }
        let tools = client.list_tools().await.unwrap_or_default();
        let hint = |tool: &crate::schema::Tool| tool.annotations.as_ref()?.read_only_hint;
        tools.into_iter().filter(|tool| hint(tool) == Some(true)).map(|tool| tool.name).collect()
    }

    fn skip_reason(
        &self,
        call: &RecordedCall,
        params: &Value,
        server: &ServerInfo,
        read_only: &OrderedSet<String>,
    ) -> Option<String> {
        let revision = server.revision;
        let is_known = MethodInfo::all().any(|info| info.name == call.method);
        let name = call.name().unwrap_or_default();
        let may_call = |name: &str| self.all_calls || self.calls.contains(name) || read_only.contains(name);
        if call.answer.is_none() {
            let why =
                if call.is_open() { "it was not answered" } else { "the trace has not all of its answer" };
            return Some(why.into());
        }
        if call.lacks_input() {
            return Some("the trace lacks the client's answer to what the server asks for".into());
        }
        if self.hidden && call.is_unfinished_task() {
            return Some("the trace lacks the result of its task".into());
        }
        if is_known && MethodInfo::find(&call.method, Direction::ClientToServer, revision).is_none() {
            return Some(format!("{} has no such method", revision.as_str()));
        }
        match &*call.method {
            CallTool::NAME if !may_call(&name) => Some("calls of this tool are not allowed".into()),
            CallTool::NAME => None,
            method if READS.contains(&method) => None,
            _ if is_known => Some("it is for its own connection".into()),
            method if !may_call(method) => Some("this method is not allowed".into()),
            _ => None,
        }
        .or_else(|| (!self.hidden && is_hidden(params)).then(|| "a value is hidden in the trace".into()))
    }

    /// Makes a request; the recorded and the live answer, as an object with a result or an error.
    async fn answers(
        &self,
        call: &RecordedCall,
        params: Value,
        client: &Client,
        is_other_era: bool,
    ) -> (Value, Value) {
        let progress = match call.steps.iter().any(|step| matches!(step, RecordedStep::Notification { .. })) {
            true => ProgressOption::Always,
            false => ProgressOption::Never,
        };
        let options = RequestOptions::default().cache(CacheMode::Bypass).progress(progress);
        let live = client.request_custom(call.method.as_str(), params).options(options).await;
        let live = live.map(|result| Raw::encode(&result).and_then(|raw| raw.decode()).unwrap_or_default());
        let document = |answer: Result<Value, Error>| match answer {
            Ok(result) => json!({ "result": plain(result) }),
            Err(Error::Peer(error)) => json!({ "error": object(&error, is_other_era) }),
            Err(error) => json!({ "failure": error.to_string() }),
        };
        let recorded = call.answer.clone().map(|answer| {
            document(answer.map(|result| result.decode().unwrap_or_default()).map_err(Error::Peer))
        });
        (recorded.unwrap_or_default(), document(live))
    }
}

/// The segments of a JSON pointer.
fn segments(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|it| it.replace("~1", "/").replace("~0", "~")).collect()
}

/// A result without what its absence means too: that it is complete, that it may not be cached, and that others have no use
/// of what is cached.
fn plain(mut result: Value) -> Value {
    let Some(members) = result.as_object_mut() else { return result };
    members.retain(|name, value| match name.as_str() {
        "resultType" => value != "complete",
        "ttlMs" => value.as_f64() != Some(0.0),
        "cacheScope" => value != "private",
        _ => true,
    });
    if !members.contains_key("ttlMs") {
        members.remove("cacheScope");
    }
    result
}

fn object(error: &ErrorObject, is_other_era: bool) -> Value {
    // The eras have two codes for it.
    let code =
        if is_other_era && error.is_resource_not_found() { code::RESOURCE_NOT_FOUND } else { error.code };
    let data: Value = error.data.as_ref().and_then(|data| data.decode().ok()).unwrap_or_default();
    json!({ "code": code, "message": error.message, "data": data })
}

/// A live server's description of itself.
fn described(server: &ServerInfo) -> Value {
    json!({ "result": {
        "serverInfo": server.implementation,
        "capabilities": server.capabilities,
        "instructions": server.instructions,
    } })
}

impl Recording {
    /// The recorded server's description of itself.
    fn described(&self) -> Option<Value> {
        let (info, capabilities, instructions) = self.handshake()?;
        Some(
            json!({ "result": { "serverInfo": info, "capabilities": capabilities, "instructions": instructions } }),
        )
    }
}

impl RecordedCall {
    /// The tool, prompt or resource that it names.
    fn name(&self) -> Option<String> {
        let name = ["name", "uri"].into_iter().find_map(|member| self.params.get(member)?.as_str());
        name.map(ToOwned::to_owned)
    }
}

/// What became of the recorded requests.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReplayReport {
    /// The requests in their recorded order, after the server's description of itself, as `initialize`.
    pub calls: Vec<ReplayedCall>,
}

/// A recorded request that was made again, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayedCall {
    /// Its method.
    pub method: String,
    /// The tool, prompt or resource that it names.
    pub name: Option<String>,
    /// What became of it.
    pub outcome: ReplayOutcome,
}

/// What became of a recorded request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayOutcome {
    /// The answer says the same.
    Same,
    /// The answer says something else.
    Differs(Vec<Difference>),
    /// The request was not made, for this reason.
    Skipped(String),
}

impl ReplayOutcome {
    fn of(differences: Vec<Difference>) -> Self {
        if differences.is_empty() { Self::Same } else { Self::Differs(differences) }
    }
}

impl ReplayReport {
    fn add(&mut self, method: &str, name: Option<String>, outcome: ReplayOutcome) {
        self.calls.push(ReplayedCall { method: method.to_owned(), name, outcome });
    }

    /// Whether all answers say the same as the recorded ones, and there is at least one.
    pub fn is_same(&self) -> bool {
        self.calls.iter().any(|call| call.outcome == ReplayOutcome::Same)
            && !self.calls.iter().any(|call| matches!(call.outcome, ReplayOutcome::Differs(_)))
    }
}

/// The requests with other answers, and those that were not made, a line each.
impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let same = self.calls.iter().filter(|call| call.outcome == ReplayOutcome::Same).count();
        write!(f, "{same} of {} recorded requests have the same answer", self.calls.len())?;
        for ReplayedCall { method, name, outcome } in &self.calls {
            let name = name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
            match outcome {
                ReplayOutcome::Same => {}
                ReplayOutcome::Skipped(reason) => write!(f, "\n{method}{name}: not made: {reason}")?,
                ReplayOutcome::Differs(differences) => {
                    for difference in differences {
                        write!(f, "\n{method}{name}: {difference}")?;
                    }
                }
            }
        }
        Ok(())
    }
}
