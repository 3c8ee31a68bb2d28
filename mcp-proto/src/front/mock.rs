//! A server that gives recorded answers.

use alloc::sync::Arc;
use core::future::pending;
use core::iter;

use serde_json::Map;

use super::{Context, CustomRequest, HandlerError, Progress, Router};
use crate::front::wakers::lock;
use crate::ordered_set::OrderedSet;
use crate::peer::server::ListKind;
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::{
    CreateMessage, CustomMethod, CustomParams, CustomResult, Elicit, Era, Implementation, ListRoots,
    LoggingMessage, LoggingMessageParams, Method, Notification, ProgressParams, PromptListChanged,
    ResourceListChanged, ResourceUpdated, ResourceUpdatedParams, ServerCapabilities, ServerCapability,
    ToolListChanged, tasks,
};
use crate::sync::Mutex;
use crate::trace_file::{
    Answers, CallKey, InputRequest, RecordedCall, RecordedStep, Recording, comparable_params,
};

/// How many items of a recording an error names.
const MOST_NAMED: usize = 5;

impl Recording {
    /// A router that plays the recorded server, for tests of clients: it describes itself as the server did, and gives the
    /// recorded answers. Clients of either era are served, whatever the era of the recording.
    ///
    /// - A request is looked up by its method and its parameters, without `_meta`; the order of members does not count. Equal
    ///   requests get their answers in the recorded order, and then the last one again.
    /// - Before an answer come the notifications, and the requests to the client or for input, that came before it then. The
    ///   client's answers to these change nothing.
    /// - A request that was never answered, or was cancelled, is not answered here either, unless an equal one was. A call that
    ///   became a task is answered by the result of the task.
    /// - A request that is not recorded is answered with [`METHOD_NOT_FOUND`](code::METHOD_NOT_FOUND), or with
    ///   [`INVALID_PARAMS`](code::INVALID_PARAMS) if the method is: the message lists recorded ones.
    ///
    /// All connections of the router and of its clones share the order of equal requests. Requests for input of clients of
    /// 2026-07-28 need the feature `seal`.
    ///
    /// ```
    /// use mcp_proto::trace_file::{Recording, Trace};
    ///
    /// # fn example(file: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
    /// let router = Recording::new(&Trace::parse(file)?, None)?.router();
    /// # drop(router);
    /// # Ok(())
    /// # }
    /// ```
    pub fn router(&self) -> Router {
        let (info, capabilities, instructions) = self.description();
        let mut router = Router::with_info(info).with_capabilities(capabilities);
        if let Some(instructions) = instructions {
            router = router.instructions(instructions);
        }
        let mock = Arc::new(Mock::new(self.clone()));
        let recorded = self.calls.iter().map(|call| call.method.clone());
        let recorded = recorded.filter(|method| !method.starts_with("tasks/") && *method != LISTEN);
        for method in recorded.chain(CustomMethod::known().map(String::from)).collect::<OrderedSet<_>>() {
            let mock = mock.clone();
            router = router.custom(method.clone(), move |params: CustomParams, cx: Context| {
                mock.clone().answer(method.clone(), params, cx)
            });
        }
        router.fallback(move |CustomRequest { method, params, .. }: CustomRequest, cx: Context| {
            mock.clone().answer(method, params, cx)
        })
    }

    /// The server's description of itself; without a recorded one, capabilities that fit the recorded requests.
    fn description(&self) -> (Implementation, ServerCapabilities, Option<String>) {
        let unnamed = || Implementation::new("unknown", "unknown");
        if let Some((info, capabilities, instructions)) = self.handshake() {
            return (info.unwrap_or_else(unnamed), capabilities.without_tasks(), instructions);
        }
        let capabilities = self.calls.iter().filter_map(|call| match call.method.split('/').next()? {
            "tools" => Some(ServerCapability::Tools),
            "prompts" => Some(ServerCapability::Prompts),
            "resources" => Some(ServerCapability::Resources),
            "completion" => Some(ServerCapability::Completions),
            _ => None,
        });
        (unnamed(), capabilities.fold(ServerCapabilities::new(), ServerCapabilities::with), None)
    }
}

const LISTEN: &str = "subscriptions/listen";

impl ServerCapabilities {
    /// Calls are answered at once.
    fn without_tasks(mut self) -> Self {
        self.tasks = None;
        if let Some(extensions) = &mut self.extensions {
            extensions.remove(tasks::EXTENSION);
        }
        self
    }
}

/// The handlers' view of a recording.
struct Mock {
    recording: Recording,
    /// The positions of the calls.
    next: Mutex<Answers<usize>>,
}

impl Mock {
    fn new(recording: Recording) -> Self {
        let key = |call: &RecordedCall| CallKey::new(&call.method, &call.params);
        let finished = recording.calls.iter().filter(|call| call.is_finished());
        let finished: OrderedSet<_> = finished.map(key).collect();
        // A request that was made again until it had an answer, as after a login, has one at once.
        let calls = iter::zip(&recording.calls, 0..).map(|(call, position)| (call, key(call), position));
        let calls = calls.filter(|(call, key, _)| call.is_finished() || !finished.contains(key));
        let next = Mutex::new(Answers::new(calls.map(|(_, key, position)| (key, position))));
        Self { recording, next }
    }

    async fn answer(
        self: Arc<Self>,
        method: String,
        params: CustomParams,
        cx: Context,
    ) -> Result<CustomResult, HandlerError> {
        let params = comparable_params(Raw::encode(&params)?.decode()?);
        // A client of 2026-07-28 that brings input repeats its request.
        let position =
            cx.run_once("call", async { lock(&self.next).take(&CallKey::new(&method, &params)) }).await;
        let call = position.and_then(|position| self.recording.calls.get(position));
        let call = call.ok_or_else(|| self.missing(&method, &params))?;
        call.play(&cx).await?;
        match &call.answer {
            Some(Ok(_)) if call.is_unfinished_task() => {
                Err(HandlerError::new("the recording lacks the result of the task that this call became"))
            }
            Some(Ok(result)) => {
                let result: CustomResult = result.decode()?;
                if self.recording.revision == Some(cx.revision()) {
                    return Ok(result);
                }
                Ok(CustomMethod::result_at(&method, &result, cx.revision()).unwrap_or(result))
            }
            Some(Err(error)) => Err(error.clone().into()),
            None if call.is_open() => pending().await,
            None => Err(HandlerError::new("the recording has only the beginning of this answer")),
        }
    }

    /// The error for a request that is not recorded.
    fn missing(&self, method: &str, params: &Map<String, serde_json::Value>) -> ErrorObject {
        let calls = self.recording.calls.iter().filter(|call| call.method == method);
        let mut known: Vec<String> = calls.map(|call| item(&call.params)).collect();
        known.sort();
        known.dedup();
        let (asked, more) = (item(params), known.len().saturating_sub(MOST_NAMED));
        let (code, has) = match known.len() {
            0 => (code::METHOD_NOT_FOUND, "no request of this method".to_owned()),
            _ if more > 0 => {
                known.truncate(MOST_NAMED);
                (code::INVALID_PARAMS, format!("{}, and {more} more", known.join(", ")))
            }
            _ => (code::INVALID_PARAMS, known.join(", ")),
        };
        ErrorObject::new(code, format!("the recording lacks {method} {asked}: it has {has}"))
    }
}

/// The parameters in an error, shortened.
fn item(params: &Map<String, serde_json::Value>) -> String {
    const LONGEST: usize = 200;
    let mut text = serde_json::to_string(params).unwrap_or_default();
    if let Some((end, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(end);
        text.push('…');
    }
    text
}

impl RecordedCall {
    /// Sends the messages that the server sent before its answer.
    async fn play(&self, cx: &Context) -> Result<(), HandlerError> {
        let attempt = cx.input_rounds().and_then(|rounds| rounds.attempt(cx.inbound_request()));
        // Each attempt adds one answer. The notifications before that answer were sent by earlier attempts.
        let mut answered = attempt.unwrap_or(1).saturating_sub(1);
        for step in &self.steps {
            match step {
                RecordedStep::Notification { method, params } if answered == 0 => {
                    notify(cx, method, params.as_ref());
                }
                RecordedStep::Notification { .. } => {}
                RecordedStep::Request(request) => {
                    request.ask(cx).await?;
                    answered = answered.saturating_sub(1);
                }
            }
        }
        Ok(())
    }
}

impl InputRequest {
    /// Asks the client.
    async fn ask(&self, cx: &Context) -> Result<(), HandlerError> {
        let key = self.key.as_str();
        match &*self.method {
            Elicit::NAME => drop(cx.elicit(key, self.decode()?).await?),
            CreateMessage::NAME => drop(cx.sample(key, self.decode()?).await?),
            ListRoots::NAME => drop(cx.roots(key).await?),
            // A client of 2026-07-28 takes no requests.
            _ if cx.era() == Era::Modern => {}
            method => drop(cx.request_custom(method, &self.params).await?),
        }
        Ok(())
    }

    fn decode<T: for<'a> serde::Deserialize<'a>>(&self) -> Result<T, HandlerError> {
        let params = self.params.as_ref().map_or_else(|| serde_json::from_str("{}"), Raw::decode);
        params.map_err(|error| HandlerError::new(format!("the recorded {} is invalid: {error}", self.method)))
    }
}

/// Sends a notification on behalf of a request. What cannot be read or sent is left out.
fn notify(cx: &Context, method: &str, params: Option<&Raw>) {
    match method {
        crate::schema::Progress::NAME => {
            if let Some(ProgressParams { progress, total, message, .. }) = decode(params) {
                let mut report = Progress::new(progress);
                report = total.into_iter().fold(report, Progress::total);
                cx.progress(message.into_iter().fold(report, Progress::message));
            }
        }
        LoggingMessage::NAME => {
            if let Some(LoggingMessageParams { level, logger, data, .. }) = decode(params) {
                match logger {
                    Some(logger) => cx.log_as(level, logger, data),
                    None => cx.log(level, data),
                }
            }
        }
        ToolListChanged::NAME => list_changed(cx, ListKind::Tools),
        PromptListChanged::NAME => list_changed(cx, ListKind::Prompts),
        ResourceListChanged::NAME => list_changed(cx, ListKind::Resources),
        ResourceUpdated::NAME => {
            if let Some(ResourceUpdatedParams { uri, .. }) = decode(params) {
                cx.connection().act(|mut server| server.resource_updated(&uri));
            }
        }
        _ => _ = cx.notify_custom(method, params),
    }
}

fn list_changed(cx: &Context, list: ListKind) {
    cx.connection().act(|mut server| server.list_changed(list));
}

fn decode<T: for<'a> serde::Deserialize<'a>>(params: Option<&Raw>) -> Option<T> {
    params?.decode().ok()
}
