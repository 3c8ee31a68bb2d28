//! The return values of a server's handlers, their checks, and work of a tool that continues as a task.

use core::future::Future;

use super::context::Context;
use crate::front::handler_error::HandlerError;
use crate::front::wakers::SendFuture;
use crate::prelude::*;
use crate::schema::tasks::legacy::TaskMetadata;
use crate::schema::{
    BlobResourceContents, Cached, CallToolResult, CompleteResult, Completion, ContentBlock, GetPromptResult,
    InputRequiredResult, IntoResult, Json, PromptMessage, ReadResourceResult, ResourceContents,
};
#[cfg(feature = "schema-validate")]
use crate::{
    alloc::{format, sync::Arc},
    rpc::{ErrorObject, code},
    validate::{Schema, check_structured},
};

/// A result, or the input that the client must supply before the server returns one (2026-07-28).
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>
#[derive(Clone, Debug, PartialEq)]
pub enum ResultOrInput<R> {
    /// The result.
    Result(R),
    /// The required input.
    InputRequired(InputRequiredResult),
}

impl<R> ResultOrInput<R> {
    /// Converts a result; an input request stays as it is.
    pub(in crate::front) fn and_then<T>(
        self,
        convert: impl FnOnce(R) -> Result<ResultOrInput<T>, HandlerError>,
    ) -> Result<ResultOrInput<T>, HandlerError> {
        match self {
            Self::Result(result) => convert(result),
            Self::InputRequired(needed) => Ok(ResultOrInput::InputRequired(needed)),
        }
    }
}

/// The result of a tool's handler, converted from the type that it returned.
pub(in crate::front) type ToolResult = Result<ResultOrInput<CallToolResult>, HandlerError>;
type ReadResult = Result<ResultOrInput<ReadResourceResult>, HandlerError>;
type PromptResult = Result<ResultOrInput<GetPromptResult>, HandlerError>;

/// The return value of a tool's handler.
///
/// - a `String` or `&str`: one block of text
/// - a number or a `bool`: its text
/// - `()`: an empty success
/// - a [`ContentBlock`]
/// - a `Vec` of what converts into one: content blocks, texts, images
/// - a [`CallToolResult`]
/// - `Structured`, with the feature `schemars`: structured content whose schema is declared
/// - [`ResultOrInput`], to request input from the client first (2026-07-28)
/// - a `Result` of any of these and a [`HandlerError`], which the model sees
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "the handler of a tool returns `{Self}`",
    note = "return text (`String`), a number or `bool`, `()`, a `ContentBlock`, a `Vec` of texts or blocks, or a `CallToolResult`",
    note = "for structured content, derive `serde::Serialize` and `schemars::JsonSchema` and return `Structured(value)`, with the feature `schemars`; or return `CallToolResult::from_structured(&value)`",
    note = "in place of an `Option`, say what `None` means: `value.ok_or_else(|| HandlerError::new(\"not found\"))`",
    note = "if the handler can fail, return a `Result` of one of these and a `HandlerError`: other errors convert with `?`, or with `map_err(HandlerError::new)`"
)]
pub trait ToolOutput: Sized {
    /// The schema of the structured content, if the type has one.
    fn output_schema() -> Option<Json> {
        None
    }

    /// Converts the return value into the tool's result.
    ///
    /// # Errors
    /// The error that the handler returned.
    fn into_tool_result(self) -> ToolResult;
}

impl ToolOutput for CallToolResult {
    fn into_tool_result(self) -> ToolResult {
        Ok(ResultOrInput::Result(self))
    }
}

impl ToolOutput for () {
    fn into_tool_result(self) -> ToolResult {
        CallToolResult::new().into_tool_result()
    }
}

impl ToolOutput for String {
    fn into_tool_result(self) -> ToolResult {
        CallToolResult::text(self).into_tool_result()
    }
}

impl ToolOutput for ContentBlock {
    fn into_tool_result(self) -> ToolResult {
        vec![self].into_tool_result()
    }
}

impl<B: Into<ContentBlock>> ToolOutput for Vec<B> {
    fn into_tool_result(self) -> ToolResult {
        let mut result = CallToolResult::new();
        result.content = self.into_iter().map(Into::into).collect();
        result.into_tool_result()
    }
}

macro_rules! text_output {
    ($($type:ty)*) => { $(
        impl ToolOutput for $type {
            fn into_tool_result(self) -> ToolResult {
                self.to_string().into_tool_result()
            }
        }
    )* };
}

text_output!(&str bool i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64);

impl<T: ToolOutput> ToolOutput for ResultOrInput<T> {
    fn output_schema() -> Option<Json> {
        T::output_schema()
    }

    fn into_tool_result(self) -> ToolResult {
        self.and_then(T::into_tool_result)
    }
}

impl<T: ToolOutput> ToolOutput for Result<T, HandlerError> {
    fn output_schema() -> Option<Json> {
        T::output_schema()
    }

    fn into_tool_result(self) -> ToolResult {
        self?.into_tool_result()
    }
}

/// The return value of a resource's handler.
///
/// - a `String` or `&str`: text of the resource's media type
/// - a `Vec<u8>`: bytes of the resource's media type
/// - [`ResourceContents`], or a `Vec` of them
/// - a [`ReadResourceResult`]
/// - [`Cached`](crate::schema::Cached), with any of these, to set how long it may be cached; the default is
///   [`Router::cache`](crate::front::Router::cache)
/// - [`ResultOrInput`], to request input from the client first (2026-07-28)
/// - a `Result` of any of these and a [`HandlerError`]
#[diagnostic::on_unimplemented(
    message = "a resource cannot be read as `{Self}`",
    label = "the handler of a resource returns `{Self}`",
    note = "return text (`String`), bytes (`Vec<u8>`), `ResourceContents`, a `Vec` of them, or a `ReadResourceResult`",
    note = "JSON is text: `serde_json::to_string(&value)`",
    note = "for a resource that does not exist, return `Err(HandlerError::no_resource(uri))`",
    note = "if the handler can fail, return a `Result` of one of these and a `HandlerError`: other errors convert with `?`, or with `map_err(HandlerError::new)`"
)]
pub trait ResourceOutput: Sized {
    /// Converts the return value into the result of `resources/read`.
    ///
    /// # Errors
    /// The error that the handler returned.
    fn into_read_result(self, uri: &str, mime_type: Option<&str>) -> ReadResult;
}

impl ResourceOutput for ReadResourceResult {
    fn into_read_result(self, _: &str, _: Option<&str>) -> ReadResult {
        Ok(ResultOrInput::Result(self))
    }
}

impl ResourceOutput for String {
    fn into_read_result(self, uri: &str, mime_type: Option<&str>) -> ReadResult {
        let mut text = crate::schema::TextResourceContents::new(uri, self);
        text.mime_type = mime_type.map(String::from);
        ResourceContents::from(text).into_read_result(uri, mime_type)
    }
}

impl ResourceOutput for &str {
    fn into_read_result(self, uri: &str, mime_type: Option<&str>) -> ReadResult {
        String::from(self).into_read_result(uri, mime_type)
    }
}

impl ResourceOutput for Vec<u8> {
    fn into_read_result(self, uri: &str, mime_type: Option<&str>) -> ReadResult {
        let mut blob = BlobResourceContents::from_bytes(uri, self);
        blob.mime_type = mime_type.map(String::from);
        ResourceContents::from(blob).into_read_result(uri, mime_type)
    }
}

impl ResourceOutput for ResourceContents {
    fn into_read_result(self, uri: &str, mime_type: Option<&str>) -> ReadResult {
        vec![self].into_read_result(uri, mime_type)
    }
}

impl ResourceOutput for Vec<ResourceContents> {
    fn into_read_result(self, _: &str, _: Option<&str>) -> ReadResult {
        Ok(ResultOrInput::Result(ReadResourceResult::new(self)))
    }
}

impl<T: ResourceOutput> ResourceOutput for ResultOrInput<T> {
    fn into_read_result(self, uri: &str, mime_type: Option<&str>) -> ReadResult {
        self.and_then(|result| result.into_read_result(uri, mime_type))
    }
}

impl<T: ResourceOutput> ResourceOutput for Result<T, HandlerError> {
    fn into_read_result(self, uri: &str, mime_type: Option<&str>) -> ReadResult {
        self?.into_read_result(uri, mime_type)
    }
}

impl<T: ResourceOutput> ResourceOutput for Cached<T> {
    fn into_read_result(self, uri: &str, mime_type: Option<&str>) -> ReadResult {
        let hinted = |result| ResultOrInput::Result(Cached::new(self.hint, result).into_result());
        self.result.into_read_result(uri, mime_type)?.and_then(|result| Ok(hinted(result)))
    }
}

/// The return value of a prompt's handler.
///
/// - a `String` or `&str`: one message of the user
/// - a [`PromptMessage`], or a `Vec` of them
/// - a [`GetPromptResult`]
/// - [`ResultOrInput`], to request input from the client first (2026-07-28)
/// - a `Result` of any of these and a [`HandlerError`]
#[diagnostic::on_unimplemented(
    message = "a prompt cannot return `{Self}`",
    label = "the handler of a prompt returns `{Self}`",
    note = "return text (`String`), a `PromptMessage`, a `Vec` of them, or a `GetPromptResult`",
    note = "if the handler can fail, return a `Result` of one of these and a `HandlerError`: other errors convert with `?`, or with `map_err(HandlerError::new)`"
)]
pub trait PromptOutput: Sized {
    /// Converts the return value into the result of `prompts/get`.
    ///
    /// # Errors
    /// The error that the handler returned.
    fn into_prompt_result(self) -> PromptResult;
}

impl PromptOutput for GetPromptResult {
    fn into_prompt_result(self) -> PromptResult {
        Ok(ResultOrInput::Result(self))
    }
}

impl PromptOutput for String {
    fn into_prompt_result(self) -> PromptResult {
        PromptMessage::user(ContentBlock::text(self)).into_prompt_result()
    }
}

impl PromptOutput for &str {
    fn into_prompt_result(self) -> PromptResult {
        String::from(self).into_prompt_result()
    }
}

impl PromptOutput for PromptMessage {
    fn into_prompt_result(self) -> PromptResult {
        vec![self].into_prompt_result()
    }
}

impl PromptOutput for Vec<PromptMessage> {
    fn into_prompt_result(self) -> PromptResult {
        Ok(ResultOrInput::Result(GetPromptResult::new(self)))
    }
}

impl<T: PromptOutput> PromptOutput for ResultOrInput<T> {
    fn into_prompt_result(self) -> PromptResult {
        self.and_then(T::into_prompt_result)
    }
}

impl<T: PromptOutput> PromptOutput for Result<T, HandlerError> {
    fn into_prompt_result(self) -> PromptResult {
        self?.into_prompt_result()
    }
}

/// The maximum number of values in a completion result.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion#completion-results>
const MAX_COMPLETIONS: usize = 100;

/// The return value of a completion handler.
///
/// - a `Vec` of `String` or `&str`: the values; the first 100 are sent, and the total is reported
/// - a [`CompleteResult`]
/// - a `Result` of either and a [`HandlerError`]
#[diagnostic::on_unimplemented(
    message = "a completion cannot return `{Self}`",
    label = "the handler of completions returns `{Self}`",
    note = "return the values, a `Vec` of texts, or a `CompleteResult`",
    note = "if the handler can fail, return a `Result` of one of these and a `HandlerError`: other errors convert with `?`, or with `map_err(HandlerError::new)`"
)]
pub trait CompletionOutput: Sized {
    /// Converts the return value into the result of `completion/complete`.
    ///
    /// # Errors
    /// The error that the handler returned.
    fn into_complete_result(self) -> Result<CompleteResult, HandlerError>;
}

impl CompletionOutput for CompleteResult {
    fn into_complete_result(mut self) -> Result<CompleteResult, HandlerError> {
        //= S8.17 "≤100 values"
        if self.completion.values.len() > MAX_COMPLETIONS {
            self.completion.values.truncate(MAX_COMPLETIONS);
            self.completion.has_more = Some(true);
        }
        Ok(self)
    }
}

impl<S: Into<String>> CompletionOutput for Vec<S> {
    fn into_complete_result(self) -> Result<CompleteResult, HandlerError> {
        let total = u64::try_from(self.len()).ok();
        let mut completion = Completion::new(self.into_iter().map(Into::into).collect::<Vec<String>>());
        completion.total = total;
        completion.has_more = Some(false);
        CompleteResult::new(completion).into_complete_result()
    }
}

impl<T: CompletionOutput> CompletionOutput for Result<T, HandlerError> {
    fn into_complete_result(self) -> Result<CompleteResult, HandlerError> {
        self?.into_complete_result()
    }
}

/// The output schema of a tool, if it has one. Without the feature `schema-validate`, results are not checked.
#[cfg(feature = "schema-validate")]
pub(in crate::front) type OutputSchema = Option<Arc<Schema>>;
#[cfg(not(feature = "schema-validate"))]
pub(in crate::front) type OutputSchema = ();

/// Checks a tool's results: against its output schema (with the feature `schema-validate`), and for text beside its
/// page.
#[derive(Clone, Default)]
pub(in crate::front) struct OutputCheck {
    has_page: bool,
    schema: OutputSchema,
}

impl OutputCheck {
    pub(in crate::front) fn new(has_page: bool, schema: OutputSchema) -> Self {
        Self { has_page, schema }
    }

    /// Converts a handler's output into the checked result for the client.
    pub(in crate::front) fn check(&self, output: impl ToolOutput) -> ToolResult {
        let mut output = output.into_tool_result()?;
        if let ResultOrInput::Result(result) = &mut output {
            //= S8.6 "outputSchema declared → structuredContent conforms"
            // The client must not receive a result that breaks the declared schema. The model cannot correct it, so the
            // failure is a protocol error rather than a result with `isError`.
            #[cfg(feature = "schema-validate")]
            if let Some(schema) = &self.schema {
                check_structured(schema, result).map_err(|error| {
                    ErrorObject::new(code::INTERNAL_ERROR, format!("the tool has failed: {error}"))
                })?;
            }
            add_text(result, self.has_page);
        }
        Ok(output)
    }
}

//= S8.6 "SHOULD also serialise as text"
//= S11.12 "text content always present"
/// Adds text to a result that has only structured content, and to every result without text of a tool with a page.
fn add_text(result: &mut CallToolResult, has_page: bool) {
    let wanting = if has_page {
        !result.content.iter().any(|block| block.as_text().is_some())
    } else {
        result.content.is_empty()
    };
    match &result.structured_content {
        Some(structured) if wanting => result.content.push(ContentBlock::text(structured.as_str())),
        None if wanting && has_page => {
            result.content.push(ContentBlock::text("The result is on the tool's page."))
        }
        _ => {}
    }
}

/// The rest of a tool's work, to run as a task: see [`Router::detaching_tool`](crate::front::Router::detaching_tool).
pub struct DetachedWork {
    work: Box<DetachedFn>,
    check: OutputCheck,
}

type DetachedFn = dyn FnOnce(Context, OutputCheck) -> SendFuture<ToolResult> + Send;

impl DetachedWork {
    /// Wraps work that starts with its own context, whose input requests and status reports belong to the task.
    pub fn new<F>(work: impl FnOnce(Context) -> F + Send + 'static) -> Self
    where
        F: Future<Output: ToolOutput> + Send + 'static,
    {
        let work = Box::new(|context, check: OutputCheck| -> SendFuture<ToolResult> {
            let working = work(context);
            Box::pin(async move { check.check(working.await) })
        });
        Self { work, check: OutputCheck::default() }
    }

    /// Makes the work check its result against the output schema of its tool.
    pub(in crate::front) fn with_check(self, check: OutputCheck) -> Self {
        Self { check, ..self }
    }

    /// Makes the work change its result.
    pub(in crate::front) fn with_change(
        self,
        change: impl FnOnce(&mut CallToolResult) + Send + 'static,
    ) -> Self {
        let Self { work, check } = self;
        let work = Box::new(|context, check: OutputCheck| -> SendFuture<ToolResult> {
            let working = work(context, check);
            Box::pin(async move {
                let mut output = working.await;
                if let Ok(ResultOrInput::Result(result)) = &mut output {
                    change(result);
                }
                output
            })
        });
        Self { work, check }
    }

    /// Starts the work.
    pub(in crate::front) fn begin(self, context: Context) -> SendFuture<ToolResult> {
        (self.work)(context, self.check)
    }
}

debug_fields! { DetachedWork {} }

/// Whether calls of a tool become tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskChoice {
    /// They do for clients that support tasks (2026-07-28), or request one (2025-11-25). For other clients the tool
    /// runs like any other.
    Optional,
    /// They always do. Clients without tasks cannot call the tool.
    Required,
}

/// A tool call whose handler has finished the part before its task starts.
#[doc(hidden)]
pub struct DetachedCall {
    pub(in crate::front) tool: String,
    pub(in crate::front) choice: TaskChoice,
    /// The task parameters of the client's call (2025-11-25).
    pub(in crate::front) metadata: Option<TaskMetadata>,
    /// The request that the handler answered.
    pub(in crate::front) context: Context,
    pub(in crate::front) work: DetachedWork,
}
