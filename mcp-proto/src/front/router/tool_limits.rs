//! The limits of tool calls: the scopes that they require, their rate, and the time that they may take.

use alloc::sync::Arc;
use core::time::Duration;

use super::{Context, HandlerMode, Router, RouterError};
#[cfg(feature = "auth")]
use crate::auth::server::parse_scopes;
#[cfg(not(feature = "auth"))]
use crate::front::handler::access::ChecksScopes;
use crate::front::params::decode_params;
use crate::front::reply::Reply;
use crate::ordered_map::OrderedMap;
use crate::peer::Principal;
use crate::prelude::*;
use crate::quota::SharedLimiter;
use crate::quota::{QuotaOwner, RateLimit};
use crate::rpc::{Raw, code};
use crate::schema::{CallTool, CallToolResult, Complete, Method as _};
use crate::{HumanDuration, UnixTime};

/// A value for each of some tools, by name. Clones of a router share it.
#[derive(Clone)]
pub(super) struct ByTool<T>(Arc<OrderedMap<String, T>>);

impl<T: Clone> ByTool<T> {
    pub(super) fn remove(&mut self, tool: &str) {
        if self.0.contains_key(tool) {
            Arc::make_mut(&mut self.0).remove(tool);
        }
    }

    /// Adds the values of another router, whose tools have other names here.
    pub(super) fn absorb(&mut self, other: &Self, name: impl Fn(&str) -> String) {
        if !other.0.is_empty() {
            let renamed = other.0.iter().map(|(tool, value)| (name(tool), value.clone()));
            Arc::make_mut(&mut self.0).extend(renamed);
        }
    }

    fn insert(&mut self, tool: String, value: T) {
        Arc::make_mut(&mut self.0).insert(tool, value);
    }

    /// Returns a tool that has a value but is not registered with the router: most likely it has another name.
    pub(super) fn missing_tool<M: HandlerMode, S: 'static>(
        &self,
        router: &Router<M, S>,
    ) -> Option<RouterError> {
        router.unregistered_tool(self.0.keys())
    }
}

impl<T> Default for ByTool<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// Scopes.
#[cfg(feature = "auth")]
impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Sets the scopes that calls of a tool require.
    ///
    /// They add to the scopes of [every request](crate::auth::server::Protection::required). They are checked before
    /// anything else of the call, and before a task starts. Scopes that depend on the arguments are
    /// [required](Context::require) by the handler.
    ///
    /// Where the server requires no tokens, such as on standard input and output, everything is allowed.
    ///
    /// ```
    /// use mcp_proto::front::{NoArguments, Router};
    /// use mcp_proto::schema::{Json, Tool};
    ///
    /// let router = Router::new("notes", "1.0.0")
    ///     .tool_with(Tool::new("clear", "Deletes all notes", Json::empty_object()), async |NoArguments {}, _| "done")
    ///     .tool_scopes("clear", ["notes:write"]);
    /// assert!(router.check().is_ok());
    /// ```
    pub fn tool_scopes<'a>(
        mut self,
        tool: impl Into<String>,
        scopes: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let tool = tool.into();
        match parse_scopes(scopes) {
            Ok(scopes) => self.contents.scopes.insert(tool, Arc::new(scopes)),
            Err(scope) => self.record_error(RouterError::Scope { tool, scope }),
        }
        self
    }

    /// Checks the scopes of a request that a handler of its method answers, if it is a tool call.
    pub(super) fn check_call_scopes(
        &self,
        method: &str,
        params: Option<&Raw>,
        context: Context,
    ) -> Result<Context, Reply> {
        if method != CallTool::NAME || self.contents.scopes.0.is_empty() {
            return Ok(context);
        }
        let call = decode_params::<CallTool>(params.cloned())?;
        self.check_scopes(&call.name, context)
    }

    //= S8.8 "access control"
    /// Checks that the token of a call grants the scopes of its tool.
    pub(super) fn check_scopes(&self, tool: &str, context: Context) -> Result<Context, Reply> {
        let Some(scopes) = self.contents.scopes.0.get(tool) else { return Ok(context) };
        let revision = context.revision();
        context.declare(scopes).map_err(|denied| denied.into_reply(revision))
    }
}

/// Without the feature, the compiler's message names it.
#[cfg(not(feature = "auth"))]
impl<M: HandlerMode, S: 'static> Router<M, S> {
    #[doc(hidden)]
    pub fn tool_scopes<'a>(self, _: impl Into<String>, _: impl IntoIterator<Item = &'a str>) -> Self
    where
        Self: ChecksScopes,
    {
        self
    }
}

/// The default rate of completions: clients send one for each pause in typing, and no person types faster.
const COMPLETIONS: RateLimit = RateLimit::per_second(20).burst(40);

/// The rates of a router's requests. Clones of a router share them.
#[derive(Clone)]
pub(super) struct Rates {
    completions: Option<Arc<SharedLimiter>>,
    tools: Option<Arc<SharedLimiter>>,
    tool_limiter: Option<Arc<ToolLimiter>>,
}

type ToolLimiter = dyn Fn(&LimitedCall<'_>) -> Result<(), RateExceeded> + Send + Sync;

impl Default for Rates {
    fn default() -> Self {
        let completions = Some(Arc::new(SharedLimiter::new(COMPLETIONS)));
        Self { completions, tools: None, tool_limiter: None }
    }
}

/// A tool call, as a [limiter](Router::tool_limiter) sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LimitedCall<'a> {
    /// The name of the tool.
    pub tool: &'a str,
    /// The owner whose quota the call uses: its principal, or the address it came from.
    pub owner: &'a QuotaOwner,
    /// The principal on whose behalf the call is made, if the transport knows one.
    pub principal: Option<&'a Principal>,
    /// The time of day of the call, from the clock of the server.
    pub time: UnixTime,
}

/// Why a call is refused: the caller exceeds a rate. The model sees it as the text of a result with `isError`.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::front::RateExceeded;
///
/// assert_eq!(RateExceeded::from(Duration::from_secs(90)).to_string(), "too many calls: try again in 90 s");
/// assert_eq!(RateExceeded::from("ten reports a day are enough").to_string(), "ten reports a day are enough");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateExceeded(String);

impl From<Duration> for RateExceeded {
    /// Asks to call again after this time.
    fn from(wait: Duration) -> Self {
        Self(alloc::format!("too many calls: try again in {}", HumanDuration(wait)))
    }
}

impl From<String> for RateExceeded {
    fn from(message: String) -> Self {
        Self(message)
    }
}

impl From<&str> for RateExceeded {
    fn from(message: &str) -> Self {
        Self(message.into())
    }
}

display_text! { RateExceeded(message) => "{message}" }

/// Rates.
///
/// An owner's rate holds on all connections of the router together. The time is the time of day of the server's clock,
/// which all connections share.
impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Limits how often each owner calls tools: its principal, or the address it came from. Default: no limit, because
    /// what a call costs is known only to its author.
    ///
    /// A call beyond the rate is answered before its arguments are looked at, by a result with `isError` that says when
    /// to call again: the model reads it. A call that the client repeats with the input that the server requested counts
    /// again.
    ///
    /// ```
    /// use mcp_proto::front::{NoArguments, Router};
    /// use mcp_proto::quota::RateLimit;
    /// use mcp_proto::schema::{Json, Tool};
    ///
    /// let router = Router::new("notes", "1.0.0")
    ///     .tool_with(Tool::new("clear", "Deletes all notes", Json::empty_object()), async |NoArguments {}, _| "done")
    ///     .tool_rate(RateLimit::per_second(20).burst(40));
    /// # drop(router);
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#security-considerations>
    pub fn tool_rate(mut self, limit: RateLimit) -> Self {
        self.contents.rates.tools = Some(Arc::new(SharedLimiter::new(limit)));
        self
    }

    /// Sets a limiter of tool calls, for rates that differ by tool or caller, or that several servers share.
    ///
    /// It is called before the arguments of a call are looked at. If it returns an error (a time to wait, or a message),
    /// the call is answered by a result with `isError` and that text. It must not block. It adds to
    /// [`tool_rate`](Self::tool_rate).
    ///
    /// ```
    /// use core::time::Duration;
    /// use mcp_proto::front::{LimitedCall, NoArguments, Router};
    /// use mcp_proto::schema::{Json, Tool};
    ///
    /// let router = Router::new("notes", "1.0.0")
    ///     .tool_with(Tool::new("clear", "Deletes all notes", Json::empty_object()), async |NoArguments {}, _| "done")
    ///     .tool_limiter(|call: &LimitedCall<'_>| match (call.tool, call.principal) {
    ///         ("clear", None) => Err(Duration::from_secs(60)),
    ///         _ => Ok(()),
    ///     });
    /// # drop(router);
    /// ```
    pub fn tool_limiter<E: Into<RateExceeded>>(
        mut self,
        limiter: impl Fn(&LimitedCall<'_>) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        self.contents.rates.tool_limiter = Some(Arc::new(move |call| limiter(call).map_err(Into::into)));
        self
    }

    /// Sets how often each owner requests completions; `None` is no limit. Default: 20 a second, and 40 at once, which
    /// is more than a person types.
    ///
    /// A request beyond the rate is answered by an error of the code [`INTERNAL_ERROR`](code::INTERNAL_ERROR). An empty
    /// completion would be an answer: clients should cache those, and would go on to show that nothing fits.
    ///
    /// ```
    /// use mcp_proto::front::Router;
    /// use mcp_proto::quota::RateLimit;
    ///
    /// let router = Router::new("notes", "1.0.0").completion_rate(RateLimit::per_second(5));
    /// # drop(router);
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion#security>
    pub fn completion_rate(mut self, limit: impl Into<Option<RateLimit>>) -> Self {
        self.contents.rates.completions = limit.into().map(|limit| Arc::new(SharedLimiter::new(limit)));
        self
    }

    /// Checks the rate of a request that a handler of its method answers.
    pub(super) fn check_rate(
        &self,
        method: &str,
        params: Option<&Raw>,
        context: &Context,
    ) -> Result<(), Reply> {
        let contents = &self.contents;
        contents.rates.check(method, params, context)?;
        let mut of_parts = contents.call_rates.iter().filter(|_| method == CallTool::NAME);
        of_parts.try_for_each(|rates| rates.check(method, params, context))
    }
}

impl<M: HandlerMode> Router<M> {
    /// Checks the rates of the part that the tool, the prompt or the template of a request comes from.
    pub(super) fn check_part_rates(
        &self,
        method: &str,
        params: Option<&Raw>,
        context: &Context,
    ) -> Result<(), Reply> {
        // Requests that cannot be read are refused later: layers see them.
        match method {
            CallTool::NAME if self.contents.limits_parts => {
                let Ok(call) = decode_params::<CallTool>(params.cloned()) else { return Ok(()) };
                let origin = self.contents.tools.get(&call.name).and_then(|entry| entry.origin.as_ref());
                origin.map_or(Ok(()), |origin| origin.check_tool_rates(&call.name, context))
            }
            Complete::NAME => match self.completed_item(method, params) {
                Ok(Some((origin, _))) => origin.check_completion_rates(context),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

impl Rates {
    /// Checks the rate of a request that a handler of its method answers.
    pub(super) fn check(&self, method: &str, params: Option<&Raw>, context: &Context) -> Result<(), Reply> {
        match method {
            Complete::NAME => self.check_completion(context),
            CallTool::NAME if self.limits_tools() => {
                let call = decode_params::<CallTool>(params.cloned())?;
                self.check_tool(&call.name, context)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn limits_tools(&self) -> bool {
        self.tools.is_some() || self.tool_limiter.is_some()
    }

    //= S8.17 "rate limit"
    pub(super) fn check_completion(&self, context: &Context) -> Result<(), Reply> {
        take(self.completions.as_deref(), context).map_err(|wait| {
            let wait = HumanDuration(wait);
            let message = alloc::format!("too many completion requests: try again in {wait}");
            Reply::error(code::INTERNAL_ERROR, message)
        })
    }

    /// Checks the rate of a tool call.
    //= S8.8 "rate limit"
    pub(super) fn check_tool(&self, tool: &str, context: &Context) -> Result<(), Reply> {
        let exceeded = match (take(self.tools.as_deref(), context), &self.tool_limiter) {
            (Err(wait), _) => Err(RateExceeded::from(wait)),
            (Ok(()), None) => return Ok(()),
            (Ok(()), Some(limiter)) => limiter(&LimitedCall {
                tool,
                owner: &context.owner(),
                principal: context.principal(),
                time: context.connection().unix_time(),
            }),
        };
        exceeded.map_err(|RateExceeded(message)| Reply::result(CallToolResult::error(message)))
    }
}

/// Takes a token of the request's owner.
fn take(limiter: Option<&SharedLimiter>, context: &Context) -> Result<(), Duration> {
    limiter.map_or(Ok(()), |limiter| limiter.take(&context.owner(), context.connection().unix_time()))
}

/// The timeout of one call.
pub(in crate::front) struct ToolTimeout {
    tool: String,
    pub(in crate::front) time: Duration,
}

impl ToolTimeout {
    /// The reply to the call whose time is over.
    pub(in crate::front) fn into_reply(self) -> Reply {
        let Self { tool, time } = self;
        let time = HumanDuration(time);
        let message = format!("the tool {tool:?} did not finish within {time}, the limit of this server");
        Reply::result(CallToolResult::error(message))
    }
}

/// Timeouts.
impl<M: HandlerMode, S: 'static> Router<M, S> {
    /// Limits how long a handler of this tool may take for a call. Default: no limit; a client stops waiting by its own
    /// timeout, and mostly cancels the call.
    ///
    /// When the time is over, the handler's future is dropped at the `await` where it waits, and the call is answered by a
    /// result with `isError` that names the limit, which the model reads: the same in every revision and over every
    /// transport.
    ///
    /// ```
    /// use core::time::Duration;
    /// use mcp_proto::front::{NoArguments, Router};
    /// use mcp_proto::schema::{Json, Tool};
    ///
    /// let tool = Tool::new("report", "Writes a report", Json::empty_object());
    /// let router = Router::new("reports", "1.0.0")
    ///     .tool_with(tool, async |NoArguments {}, _| core::future::pending::<String>().await)
    ///     .tool_timeout("report", Duration::from_secs(20));
    /// assert!(router.check().is_ok());
    /// ```
    ///
    /// | The handler | Its time |
    /// |---|---|
    /// | asks a client of 2025-11-25 or earlier ([`Context::elicit`](super::Context::elicit)) | starts again while the client has not answered |
    /// | asks a client of 2026-07-28 | starts again with the handler, once the client has answered |
    /// | returns [`DetachedWork`](crate::front::tasks::DetachedWork) that is done before the answer | goes on |
    /// | works for a [task](Self::task_tool) | is not limited: [`TaskConfig`](crate::front::tasks::TaskConfig) limits the task's life |
    /// | is called in place of another one, by a [layer](Self::layer) | starts then |
    /// | blocks its thread | ends once it lets go of the thread |
    pub fn tool_timeout(mut self, tool: impl Into<String>, time: Duration) -> Self {
        self.contents.tool_timeouts.insert(tool.into(), time);
        self
    }

    /// The timeout of a request, if it is the call of a tool that has one.
    pub(in crate::front) fn timeout_of(&self, method: &str, params: Option<&Raw>) -> Option<ToolTimeout> {
        if self.contents.tool_timeouts.0.is_empty() || method != CallTool::NAME {
            return None;
        }
        self.tool_timeout_of(decode_params::<CallTool>(params.cloned()).ok()?.name)
    }

    /// The timeout of a call of this tool, if it has one.
    pub(in crate::front) fn tool_timeout_of(&self, tool: String) -> Option<ToolTimeout> {
        let time = *self.contents.tool_timeouts.0.get(&tool)?;
        Some(ToolTimeout { tool, time })
    }
}
