//! The application's requests, passed on to the server; and the rounds in which an application of 2026-07-28 answers
//! the requests of an older server.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcp_proto::front::{
    Call, ClientHandlers, Context, CustomRequest, Error, HandlerError, Notification, Progress, Router,
};
use mcp_proto::peer::client::ServerInfo;
use mcp_proto::peer::server::Cancellation;
use mcp_proto::peer::{CacheMode, InputMode, ProgressOption, RequestOptions, TaskMode, TaskReport};
use mcp_proto::rpc::{ErrorObject, Id, Raw, code};
use mcp_proto::schema::{
    CallTool, ClientCapabilities, ClientCapability, ClientProgress, CreateMessage, CustomMethod,
    CustomParams, CustomResult, Elicit, Era, GetPrompt, Implementation, Json, ListRoots, LoggingLevel,
    Method as _, Notification as _, ProgressParams, ReadResource, ResultType, Revision, RootsListChanged,
    ServerCapability, meta,
};
use serde_json::{Value, json};
use smol::channel::{self, Sender};
use smol::future::or;

use super::{Bridge, handler_error};

/// The answer to a request that is passed on.
type Answer = Result<CustomResult, HandlerError>;

/// The requests whose results may ask the application for input.
const MAY_ASK: [&str; 3] = [CallTool::NAME, GetPrompt::NAME, ReadResource::NAME];

/// How many calls may wait for the application's answers. An application that gives none leaves them behind.
const MAX_SUSPENDED: usize = 64;

/// The router of the application's requests to this server, but for those that the machine of this side answers: the
/// handshake, subscriptions, the level of log messages.
pub(super) fn router(bridge: &Arc<Bridge>, server: &ServerInfo) -> Router {
    let unnamed = || Implementation::new("unknown", "unknown");
    let mut router = Router::with_info(server.implementation.clone().unwrap_or_else(unnamed));
    if let Some(instructions) = &server.instructions {
        router = router.instructions(instructions);
    }
    for method in CustomMethod::known() {
        let bridge = bridge.clone();
        router = router.custom(method, move |params: CustomParams, cx: Context| {
            pass(bridge.clone(), method.to_owned(), params, cx)
        });
    }
    let (others, roots, custom) = (bridge.clone(), bridge.clone(), bridge.clone());
    router
        .fallback(move |CustomRequest { method, params, .. }: CustomRequest, cx: Context| {
            pass(others.clone(), method, params, cx)
        })
        .on_notification(RootsListChanged::NAME, move |_: CustomParams, _| {
            // A server to which the application declared nothing of the kind gets none.
            let _ = roots.server().map(|(client, _)| client.roots_changed());
            async {}
        })
        .notification_fallback(move |Notification { method, params, .. }: Notification, _| {
            // A server that is lost gets no notification.
            let _ = custom.server().map(|(client, _)| client.notify_custom(&method, &params));
            async {}
        })
}

/// Passes a request on, and returns its result in the application's revision.
async fn pass(bridge: Arc<Bridge>, method: String, params: CustomParams, cx: Context) -> Answer {
    let (_, server) = bridge.server()?;
    let result = bridge.call(server, &method, params, &cx).await?;
    match [server.revision, Revision::LATEST].contains(&cx.revision()) {
        true => Ok(result),
        false => Ok(CustomMethod::result_at(&method, &result, cx.revision())?),
    }
}

/// A call that waits until the application has answered the requests of the server.
pub(super) struct SuspendedCall {
    call: Call<CustomMethod>,
    /// The requests, by the keys of their answers.
    asked: Vec<(String, Sender<CustomResult>)>,
}

/// A call of the server on behalf of a request, which ends with it.
struct PassedCall<'a> {
    call: Option<Call<CustomMethod>>,
    bridge: &'a Bridge,
    cx: &'a Context,
}

impl<'a> PassedCall<'a> {
    fn new(bridge: &'a Bridge, cx: &'a Context) -> Self {
        if cx.era() == Era::Modern {
            bridge.state().running.insert(cx.id(), cx.clone());
        }
        Self { call: None, bridge, cx }
    }
}

impl Drop for PassedCall<'_> {
    /// Cancels the call, if it has not ended, for the application's reason.
    fn drop(&mut self) {
        let request = self.bridge.state().running.remove(&self.cx.id());
        drop(request);
        if let (Some(call), Some(Cancellation::Client { reason: Some(reason) })) =
            (self.call.take(), self.cx.cancellation())
        {
            call.cancel(&reason);
        }
    }
}

enum Step {
    Ended(Result<CustomResult, Error>),
    Asked(QueuedRequest),
}

impl Bridge {
    async fn call(
        &self,
        server: &ServerInfo,
        method: &str,
        mut params: CustomParams,
        cx: &Context,
    ) -> Answer {
        let may_ask = cx.era() == Era::Modern && server.era == Era::Legacy && MAY_ASK.contains(&method);
        let resumed = if may_ask { self.resume(&mut params)? } else { None };
        let mut passed = PassedCall::new(self, cx);
        let call = match resumed {
            Some(call) => call,
            None => {
                self.wait_for_notifications().await;
                self.start(server, method, params, cx)?
            }
        };
        let call = passed.call.insert(call);
        match self.step(call, may_ask, cx).await {
            Step::Ended(result) => {
                passed.call = None;
                self.wait_for_notifications().await;
                answer(result)
            }
            Step::Asked(request) => self.suspend(passed.call.take(), request),
        }
    }

    /// Sends a request to the server.
    fn start(
        &self,
        server: &ServerInfo,
        method: &str,
        params: CustomParams,
        cx: &Context,
    ) -> Result<Call<CustomMethod>, HandlerError> {
        let (client, _) = self.server()?;
        let level = cx.log_level();
        if let (Some(level), Era::Modern, Era::Legacy) = (level, cx.era(), server.era) {
            self.lower_level(level);
        }
        let request = client.request_custom(method, params).options(options(server, level, cx));
        request.start().map_err(handler_error)
    }

    /// Waits for the answer, and passes progress on; or, if the application can be asked, for a request of the server.
    async fn step(&self, call: &mut Call<CustomMethod>, may_ask: bool, cx: &Context) -> Step {
        let ended = async {
            while let Some(report) = call.progress().await {
                cx.progress(progress(report));
            }
            Step::Ended((&mut *call).await)
        };
        let asked = async {
            while may_ask && let Ok(request) = self.server_requests.1.recv().await {
                // The server may have cancelled it.
                if !request.answer.is_closed() {
                    return Step::Asked(request);
                }
            }
            std::future::pending().await
        };
        or(ended, asked).await
    }

    /// Answers the application's request with the server's requests that wait; the call goes on.
    fn suspend(&self, call: Option<Call<CustomMethod>>, request: QueuedRequest) -> Answer {
        let more = std::iter::from_fn(|| self.server_requests.1.try_recv().ok());
        let more = more.filter(|request| !request.answer.is_closed());
        let (mut requests, mut asked) = (serde_json::Map::new(), Vec::new());
        for (number, QueuedRequest { method, params, answer }) in
            std::iter::once(request).chain(more).enumerate()
        {
            let key = format!("request-{number}");
            requests.insert(key.clone(), json!({ "method": method, "params": plain(params)? }));
            asked.push((key, answer));
        }
        let mut state = self.state();
        state.count += 1;
        let name = format!("mcpio-{}", state.count);
        state.suspended.extend(call.map(|call| (name.clone(), SuspendedCall { call, asked })));
        let forgotten = (state.suspended.len() > MAX_SUSPENDED).then(|| state.suspended.pop_front());
        drop(state);
        // Outside of the lock: it cancels its call.
        drop(forgotten);
        result(&json!({ "resultType": "input_required", "inputRequests": requests, "requestState": name }))
    }

    /// Takes the call that the request goes on with, and gives the server the application's answers.
    fn resume(&self, params: &mut CustomParams) -> Result<Option<Call<CustomMethod>>, HandlerError> {
        let answers = params.extra.remove("inputResponses");
        let Some(name) = params.extra.remove("requestState") else { return Ok(None) };
        let name: String = name.decode().unwrap_or_default();
        let mut state = self.state();
        let found = state.suspended.iter().position(|(suspended, _)| *suspended == name);
        let suspended = found.and_then(|at| state.suspended.remove(at));
        drop(state);
        let Some((_, SuspendedCall { call, asked })) = suspended else {
            return Err(HandlerError::invalid_params("the request state is unknown, or was used before"));
        };
        let mut answers: BTreeMap<String, Json> =
            answers.and_then(|answers| answers.decode().ok()).unwrap_or_default();
        for (key, request) in asked {
            if let Some(Ok(answer)) = answers.remove(&key).map(|answer| answer.decode()) {
                // The server may have cancelled the request.
                let _ = request.try_send(answer);
            }
        }
        Ok(Some(call))
    }
}

/// The options of a request that the application decides on: its own timeouts, its cache, its tasks, its input.
fn options(server: &ServerInfo, level: Option<LoggingLevel>, cx: &Context) -> RequestOptions {
    let progress = if cx.wants_progress() { ProgressOption::Always } else { ProgressOption::Never };
    let mut options = RequestOptions::default().cache(CacheMode::Bypass).progress(progress);
    if cx.era() == server.era {
        let takes_tasks =
            cx.era() == Era::Modern && cx.client_capabilities().has(ClientCapability::TasksExtension);
        let tasks = if takes_tasks { TaskMode::Handle } else { TaskMode::Never };
        options = options.input(InputMode::Manual).task(tasks);
    }
    // A legacy server sends the more severe messages unasked.
    let logs = server.capabilities.as_ref().is_some_and(|declared| declared.has(ServerCapability::Logging));
    options.log_level = level.or((logs && cx.era() == Era::Legacy).then_some(LoggingLevel::Info));
    options
}

fn progress(report: ProgressParams) -> Progress {
    let ProgressParams { progress, total, message, .. } = report;
    let mut passed = Progress::new(progress);
    if let Some(total) = total {
        passed = passed.total(total);
    }
    match message {
        Some(message) => passed.message(message),
        None => passed,
    }
}

/// The answer to the application's request, from the outcome of the server's.
fn answer(outcome: Result<CustomResult, Error>) -> Answer {
    match outcome {
        Ok(result) => Ok(result),
        Err(Error::InputRequired(required)) => {
            let mut required: CustomResult = required.decode()?;
            required.result_type = Some(ResultType::InputRequired);
            Ok(required)
        }
        Err(Error::Task(report)) => task(&report),
        Err(error) => Err(handler_error(error)),
    }
}

/// The result that tells the application of a task (2026-07-28).
fn task(report: &TaskReport) -> Answer {
    let millis = |time: Option<std::time::Duration>| time.map(|time| u64::try_from(time.as_millis()).ok());
    let mut task = json!({
        "resultType": "task",
        "taskId": report.id,
        "status": report.status.as_str(),
        "createdAt": report.created_at,
        "lastUpdatedAt": report.last_updated_at,
        "ttlMs": millis(report.ttl),
    });
    if let Some(message) = &report.message {
        task["statusMessage"] = json!(message);
    }
    if let Some(interval) = millis(report.poll_interval) {
        task["pollIntervalMs"] = json!(interval);
    }
    result(&task)
}

/// A result of these members. The types of the protocol are read from text alone.
fn result(members: &Value) -> Answer {
    Ok(serde_json::from_str(&members.to_string())?)
}

/// Parameters without the progress token, for which there is no one to report to.
fn plain(mut params: CustomParams) -> Result<Value, HandlerError> {
    params.meta.remove(mcp_proto::schema::meta::PROGRESS_TOKEN);
    Ok(serde_json::from_str(Raw::encode(&params)?.as_str())?)
}

// The server's requests to the application: sampling, elicitation, roots, and those that the protocol does not define.

/// The requests that an application of 2026-07-28 takes in the results of its own.
const INPUT: [&str; 3] = [CreateMessage::NAME, Elicit::NAME, ListRoots::NAME];

/// A request of the server that waits for the application's answer.
pub(super) struct QueuedRequest {
    pub(super) method: String,
    pub(super) params: CustomParams,
    /// Dropped without an answer if the application gives none.
    pub(super) answer: Sender<CustomResult>,
}

/// The handlers of the server's requests. The client declares what the application does.
pub(super) fn handlers(bridge: &Arc<Bridge>, declared: ClientCapabilities) -> ClientHandlers {
    let mut handlers = ClientHandlers::new();
    for method in INPUT {
        let bridge = bridge.clone();
        handlers = handlers
            .custom(method, move |params: CustomParams, _| ask(bridge.clone(), method.to_owned(), params));
    }
    let bridge = bridge.clone();
    let fallback =
        move |CustomRequest { method, params, .. }: CustomRequest, _| ask(bridge.clone(), method, params);
    handlers.fallback(fallback).declare(|capabilities| *capabilities = declared)
}

async fn ask(bridge: Arc<Bridge>, method: String, params: CustomParams) -> Answer {
    if bridge.began_modern && !bridge.session.is_initialized() {
        return ask_in_result(&bridge, method, params).await;
    }
    let token: Option<Id> = params.meta.get(meta::PROGRESS_TOKEN).and_then(|token| token.decode().ok());
    // The server may ask before the application is ready.
    let mut asking = bridge.session.wait().await.request_custom(method, params);
    if let Some(token) = token {
        let (client, _) = bridge.server()?;
        let client = client.clone();
        asking = asking.on_progress(move |report| {
            // A report that cannot be sent is lost, as any notification.
            let _ =
                client.notify::<ClientProgress>(&ProgressParams { progress_token: token.clone(), ..report });
        });
    }
    asking.await.map_err(handler_error)
}

/// Asks in the result of the next request of the application that may ask for input.
async fn ask_in_result(bridge: &Bridge, method: String, params: CustomParams) -> Answer {
    if !INPUT.contains(&&*method) {
        let message = format!("clients of 2026-07-28 take no request {method}");
        return Err(ErrorObject::new(code::METHOD_NOT_FOUND, message).into());
    }
    let (answer, answered) = channel::bounded(1);
    let _ = bridge.server_requests.0.send(QueuedRequest { method, params, answer }).await;
    answered.recv().await.map_err(|_| HandlerError::new("the client has not answered"))
}
