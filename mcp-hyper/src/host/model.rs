//! Results for a model, of tools, prompts and resources, within the host's limits, and errors as text; the question before
//! each call of a tool.

use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::Boxed;
use mcp_proto::front::Error;
use mcp_proto::front::layer::{Layer, LayerFuture, LayerRequest, MessageDirection, Next};
use mcp_proto::host::control::Repeat;
use mcp_proto::host::tools::{Conversion, ModelContent, ResultLimits};
use mcp_proto::schema::{
    CallTool, CallToolParams, CallToolResult, GetPrompt, GetPromptResult, Json, Meta, Method, ProgressParams,
    ReadResource, ReadResourceResult, Role, TraceContext,
};

use super::calls::HostRequest;
use super::events::CallError;
use super::settings::Settings;
use crate::runtime::Runtime as _;

/// A method whose result a model reads: `tools/call`, `prompts/get` or `resources/read`.
pub trait ModelMethod: Method<Params: Send + Sync, Result: Send> {
    /// The converted result: [`ModelContent`], or the [`ModelMessage`]s of a prompt.
    type Content: 'static;

    /// Whether an error can be content. A prompt is the user's command, so that its error is for the user.
    #[doc(hidden)]
    const ERRORS_ARE_CONTENT: bool;

    #[doc(hidden)]
    fn convert(name: &str, result: Self::Result, limits: &ResultLimits) -> Vec<(Role, Conversion)>;

    #[doc(hidden)]
    fn content(messages: Vec<ModelMessage>) -> Self::Content;
}

/// A message of a prompt for a model: see [`Host::get_prompt_for_model`](super::Host::get_prompt_for_model).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelMessage {
    /// Sender of the message.
    pub role: Role,
    /// Its content.
    pub content: ModelContent,
}

/// The content of a result that is one message.
fn single_content(messages: Vec<ModelMessage>) -> ModelContent {
    messages.into_iter().next().map(|message| message.content).unwrap_or_default()
}

impl ModelMethod for CallTool {
    type Content = ModelContent;
    const ERRORS_ARE_CONTENT: bool = true;

    fn convert(name: &str, result: CallToolResult, limits: &ResultLimits) -> Vec<(Role, Conversion)> {
        vec![(Role::User, Conversion::of_tool_result(name, result, limits))]
    }

    fn content(messages: Vec<ModelMessage>) -> ModelContent {
        single_content(messages)
    }
}

impl ModelMethod for ReadResource {
    type Content = ModelContent;
    const ERRORS_ARE_CONTENT: bool = true;

    fn convert(name: &str, result: ReadResourceResult, limits: &ResultLimits) -> Vec<(Role, Conversion)> {
        vec![(Role::User, Conversion::of_resource(name, result, limits))]
    }

    fn content(messages: Vec<ModelMessage>) -> ModelContent {
        single_content(messages)
    }
}

impl ModelMethod for GetPrompt {
    type Content = Vec<ModelMessage>;
    const ERRORS_ARE_CONTENT: bool = false;

    fn convert(name: &str, result: GetPromptResult, limits: &ResultLimits) -> Vec<(Role, Conversion)> {
        let messages = Conversion::of_prompt(name, result, limits);
        messages.into_iter().map(|message| (message.role, message.content)).collect()
    }

    fn content(messages: Vec<ModelMessage>) -> Vec<ModelMessage> {
        messages
    }
}

/// A [`HostRequest`] whose result is converted for a model. It is made when it is first polled.
///
/// ```no_run
/// use std::time::Duration;
///
/// use mcp_hyper::host::{CallError, Host};
/// use serde_json::json;
///
/// # async fn example(host: Host) -> Result<(), CallError> {
/// let content = host
///     .call_for_model("mcp__files__search", json!({ "text": "MCP" }))
///     .timeout(Duration::from_secs(300))
///     .on_progress(|progress| println!("{}", progress.progress))
///     .await?;
/// println!("{}", content.to_text());
/// # Ok(())
/// # }
/// ```
#[must_use = "a request is made when it is awaited"]
pub struct ModelRequest<M: ModelMethod> {
    request: HostRequest<M>,
    name: String,
    settings: Arc<Settings>,
}

impl<M: ModelMethod> ModelRequest<M> {
    pub(super) fn new(request: HostRequest<M>, name: &str, settings: Arc<Settings>) -> Self {
        Self { request, name: name.to_owned(), settings }
    }

    setters! {
        /// Sets how long the call may take: see [`HostRequest::timeout`].
        pub fn timeout(self, timeout: Duration) { self.request = self.request.timeout(timeout) }

        /// Sets when the call is sent again after its connection broke: see [`HostRequest::repeat`].
        pub fn repeat(self, repeat: Repeat) { self.request = self.request.repeat(repeat) }

        /// Requests progress, and calls `follow` with each report: see [`HostRequest::on_progress`].
        pub fn on_progress(self, follow: impl FnMut(ProgressParams) + Send + 'static) {
            self.request = self.request.on_progress(follow)
        }

        /// Sets the `_meta` entries of the call: see [`HostRequest::meta`].
        pub fn meta(self, meta: Meta) { self.request = self.request.meta(meta) }

        /// Sets the trace context of the call: see [`HostRequest::trace_context`].
        pub fn trace_context(self, context: impl Into<Option<TraceContext>>) {
            self.request = self.request.trace_context(context)
        }
    }

    async fn run(self) -> Result<M::Content, CallError> {
        let Self { request, name, settings } = self;
        let limits = &settings.result_limits;
        let (is_call_error, conversions) = match request.await {
            Ok(result) => (false, M::convert(&name, result, limits)),
            Err(error) if M::ERRORS_ARE_CONTENT && is_content(&error, settings.errors_as_content) => {
                (true, error_conversion(&name, &error, limits))
            }
            Err(error) => return Err(error),
        };
        let mut messages = save(&settings, conversions).await;
        messages.iter_mut().for_each(|message| message.content.is_call_error = is_call_error);
        Ok(M::content(messages))
    }
}

impl<M: ModelMethod> IntoFuture for ModelRequest<M> {
    type Output = Result<M::Content, CallError>;
    type IntoFuture = Boxed<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

debug_fields! { [M: ModelMethod] ModelRequest<M> { request } }

/// An error as content, within the limits: its text may be as long as a peer likes.
//= F96 "for a model, failures are marked as text"
fn error_conversion(name: &str, error: &impl ToString, limits: &ResultLimits) -> Vec<(Role, Conversion)> {
    CallTool::convert(name, CallToolResult::error(error.to_string()), limits)
}

/// The content of an error.
pub(super) async fn error_content(settings: &Settings, name: &str, error: &str) -> ModelContent {
    let conversions = error_conversion(name, &error, &settings.result_limits);
    let mut content = single_content(save(settings, conversions).await);
    content.is_call_error = true;
    content
}

/// The content of one result, of which parts that exceed the limits go to files.
pub(super) async fn content_of(settings: &Settings, conversion: Conversion) -> ModelContent {
    single_content(save(settings, vec![(Role::User, conversion)]).await)
}

/// Whether a model gets the error as content. An end that the application itself caused is for the application.
pub(super) fn is_content(error: &CallError, all: bool) -> bool {
    match error {
        CallError::Call(Error::Peer(_) | Error::Layer(_)) => true,
        CallError::Closed | CallError::Call(Error::Cancelled | Error::Finished) => false,
        _ => all,
    }
}

/// Writes what exceeds the limits to files.
async fn save(settings: &Settings, mut conversions: Vec<(Role, Conversion)>) -> Vec<ModelMessage> {
    let spills: Vec<_> = conversions.iter_mut().map(|(_, conversion)| conversion.take_spills()).collect();
    let counts: Vec<_> = spills.iter().map(Vec::len).collect();
    let spills: Vec<_> = spills.into_iter().flatten().collect();
    let count = spills.len();
    let saved = match settings.spills.clone() {
        _ if count == 0 => Vec::new(),
        Some(folder) => settings
            .runtime
            .blocking(move || folder.write_all(spills))
            .await
            .unwrap_or_else(|error| vec![Err(error.to_string()); count]),
        None => vec![Err("the host has no folder for results".to_owned()); count],
    };
    let mut saved = saved.into_iter();
    let finish = |((role, conversion), count): ((Role, Conversion), usize)| ModelMessage {
        role,
        content: conversion.finish(saved.by_ref().take(count)),
    };
    conversions.into_iter().zip(counts).map(finish).collect()
}

/// A call of a tool that the host is about to make.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolCall {
    /// The name of the server in the configuration.
    pub server: String,
    /// The name of the tool, as the server lists it.
    pub tool: String,
    /// The arguments: a JSON object, or none.
    pub arguments: Option<Json>,
}

/// What becomes of a call: see [`HostOptions::on_tool_call`](super::HostOptions::on_tool_call).
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum ToolCallDecision {
    /// The call is made.
    Allow,
    /// The call is not made, for this reason.
    Deny(String),
    /// The call is made with these arguments: a JSON object.
    Edit(Json),
}

/// The layer that asks.
pub(super) struct ToolCallLayer(Ask);

type Ask = Arc<dyn Fn(ToolCall) -> Boxed<ToolCallDecision> + Send + Sync>;

impl ToolCallLayer {
    pub(super) fn new<F: Future<Output = ToolCallDecision> + Send + 'static>(
        ask: impl Fn(ToolCall) -> F + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |call| Box::pin(ask(call))))
    }
}

impl Layer for ToolCallLayer {
    fn request(&self, mut request: LayerRequest, next: Next) -> LayerFuture {
        if request.method() != CallTool::NAME || request.direction() != MessageDirection::Sent {
            return next.run(request);
        }
        let ask = self.0.clone();
        Box::pin(async move {
            let mut params = match request.decode::<CallToolParams>() {
                Ok(params) => params,
                Err(error) => return error.into(),
            };
            let (server, tool) = (request.server_name().unwrap_or_default().to_owned(), params.name.clone());
            match ask(ToolCall { server, tool, arguments: params.arguments.clone() }).await {
                ToolCallDecision::Allow => {}
                ToolCallDecision::Deny(reason) => return request.deny(reason),
                ToolCallDecision::Edit(arguments) => {
                    params.arguments = Some(arguments);
                    if let Err(error) = request.set_params(&params) {
                        return error.into();
                    }
                }
            }
            next.run(request).await
        })
    }
}
