//! Rules: which requests are allowed, and how often.

mod values;

use serde_json::Value;

pub use self::values::{InvalidPointer, NamePattern};
use self::values::{check_pointer, is_same_value, uri_forms};
use super::{Layer, LayerRequest, Next, Reply};
use crate::HumanDuration;
use crate::front::HandlerMode;
use crate::prelude::*;
use crate::quota::RateLimit;
use crate::quota::SharedLimiter;
use crate::rpc::json_value::JsonValue;
use crate::schema::{CallTool, CallToolParams, GetPrompt, Json, Method as _, ReadResource};

/// A [layer](super) of rules, which allow, deny and limit requests.
///
/// The rules are asked in their order. The first that allows or denies a request decides; a rate counts each request that
/// reaches it, and denies one beyond it. What no rule decides is allowed: end with a rule that denies
/// [everything](RuleMatch::any) for a list of what is allowed. A server then denies discovery of its tools, too, unless a rule
/// allows `tools/list`.
///
/// A denied call of a tool is answered as [`LayerRequest::deny`] says: by a result with `isError` that the model reads. So is a
/// call whose arguments cannot be read, such as one with the number `1e999`, or repeat a member: another reader could
/// understand them differently.
///
/// ```
/// use mcp_proto::front::Router;
/// use mcp_proto::front::layer::{RuleMatch, Rules};
/// use mcp_proto::quota::RateLimit;
///
/// # fn main() -> Result<(), mcp_proto::front::layer::InvalidPointer> {
/// let rules = Rules::new()
///     .allow(RuleMatch::tool("delete_*").principal("ada"))
///     .deny(RuleMatch::tool("delete_*"), "only Ada deletes notes")
///     .deny(RuleMatch::tool("search").argument("/folder", "/private")?, "that folder is private")
///     .rate(RuleMatch::tool("search"), RateLimit::per_second(5));
/// let router = Router::new("notes", "1.0.0").layer(rules);
/// # drop(router);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Rules(Vec<(RuleMatch, Effect)>);

#[derive(Debug)]
enum Effect {
    Allow,
    Deny(String),
    Rate(SharedLimiter),
}

impl Rules {
    /// Creates an empty list, which allows everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows the requests that match, whatever the rules after it say.
    #[must_use]
    pub fn allow(self, requests: RuleMatch) -> Self {
        self.with(requests, Effect::Allow)
    }

    /// Denies the requests that match, for a reason that the caller reads.
    #[must_use]
    pub fn deny(self, requests: RuleMatch, reason: impl Into<String>) -> Self {
        self.with(requests, Effect::Deny(reason.into()))
    }

    /// Denies the requests that match beyond a rate of each owner: a principal, or the address that a client's requests come
    /// from; the application of a client or host is one owner. [`RateLimit`] counts by the second or by the minute, with a burst.
    ///
    /// The caller reads `too many requests: try again in 12 s`, with the time until the next one passes.
    #[must_use]
    pub fn rate(self, requests: RuleMatch, limit: RateLimit) -> Self {
        self.with(requests, Effect::Rate(SharedLimiter::new(limit)))
    }

    fn with(mut self, requests: RuleMatch, effect: Effect) -> Self {
        self.0.push((requests, effect));
        self
    }

    /// Returns the reply to a request that the rules deny.
    fn check(&self, request: &LayerRequest) -> Option<Reply> {
        let facts = match Facts::of(request) {
            Ok(facts) => facts,
            Err(reply) => return Some(reply),
        };
        for (requests, effect) in &self.0 {
            if !requests.matches(request, &facts, matches!(effect, Effect::Allow)) {
                continue;
            }
            match effect {
                Effect::Allow => return None,
                Effect::Deny(reason) => return Some(request.deny(reason)),
                Effect::Rate(limiter) => {
                    if let Err(wait) = limiter.take(&request.owner(), request.clock().unix_time()) {
                        return Some(
                            request.deny(format!("too many requests: try again in {}", HumanDuration(wait))),
                        );
                    }
                }
            }
        }
        None
    }
}

impl<M: HandlerMode> Layer<M> for Rules {
    fn request(&self, request: LayerRequest, next: Next<M>) -> M::HandlerFuture {
        match self.check(&request) {
            Some(denied) => next.answer(denied),
            None => next.run(request),
        }
    }
}

/// The part of a request's parameters that rules look at.
#[derive(Default)]
struct Facts {
    tool: Option<String>,
    /// The name of a prompt, or the forms of a URI.
    item: Option<Vec<String>>,
    arguments: Value,
}

impl Facts {
    /// Reads them; an error is the reply to a tool call that cannot be read, which rules must not let pass by mistake.
    fn of(request: &LayerRequest) -> Result<Self, Reply> {
        if request.method() != CallTool::NAME {
            let forms = |item: String| item_forms(&NamePattern::exact(item), request);
            return Ok(Self { item: request.item().map(forms), ..Self::default() });
        }
        let call = request.decode::<CallToolParams>()?;
        let arguments = read_arguments(call.arguments.as_ref())
            .map_err(|error| request.deny(format!("the arguments cannot be read: {error}")))?;
        Ok(Self { tool: Some(call.name), item: None, arguments })
    }
}

fn item_forms(item: &NamePattern, request: &LayerRequest) -> Vec<String> {
    match request.method() == ReadResource::NAME {
        true => uri_forms(&item.text, item.is_start).into(),
        false => vec![item.text.clone()],
    }
}

fn read_arguments(arguments: Option<&Json>) -> Result<Value, serde_json::Error> {
    let read = arguments.map(Json::decode::<JsonValue<true>>).transpose()?;
    Ok(read.map_or(Value::Null, |JsonValue::<true>(value)| value))
}

/// The requests that a rule concerns: those that match all of its conditions.
///
/// ```
/// use mcp_proto::front::layer::{NamePattern, RuleMatch};
/// use mcp_proto::peer::Principal;
///
/// let all_of_them = RuleMatch::tool("delete_*");
/// let that_one = RuleMatch::tool(NamePattern::exact("delete_*"));
/// // A principal is matched as it is, whatever an authorization server may have named it.
/// let hers = RuleMatch::any().principal(&Principal::new("ada"));
/// # drop((all_of_them, that_one, hers));
/// ```
#[derive(Clone, Debug, Default)]
pub struct RuleMatch {
    method: Option<NamePattern>,
    tool: Option<NamePattern>,
    item: Option<NamePattern>,
    principal: Option<NamePattern>,
    server: Option<NamePattern>,
    arguments: Vec<(String, Value)>,
}

impl RuleMatch {
    /// Matches every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Matches requests of a method.
    pub fn method(method: impl Into<NamePattern>) -> Self {
        Self { method: Some(method.into()), ..Self::default() }
    }

    /// Matches calls of a tool.
    pub fn tool(tool: impl Into<NamePattern>) -> Self {
        Self { tool: Some(tool.into()), ..Self::default() }
    }

    /// Matches requests for a prompt, by its name.
    pub fn prompt(name: impl Into<NamePattern>) -> Self {
        Self { item: Some(name.into()), ..Self::method(NamePattern::exact(GetPrompt::NAME)) }
    }

    /// Matches requests that read a resource, by its URI.
    ///
    /// URIs are compared in their normal form: scheme and authority in lower case, percent-encoding decoded where it needs
    /// none. They are also compared wholly decoded, as templates decode their variables; and both without `.` and `..`
    /// segments, as paths of files are read. A rule that denies or limits needs to match in one of these ways, and a rule
    /// that allows in all.
    pub fn resource(uri: impl Into<NamePattern>) -> Self {
        Self { item: Some(uri.into()), ..Self::method(NamePattern::exact(ReadResource::NAME)) }
    }

    /// Matches only requests on behalf of a principal. A request without a principal does not match.
    #[must_use]
    pub fn principal(self, principal: impl Into<NamePattern>) -> Self {
        Self { principal: Some(principal.into()), ..self }
    }

    /// Matches only requests to or of a server of a host, by its name in the configuration.
    #[must_use]
    pub fn server(self, server: impl Into<NamePattern>) -> Self {
        Self { server: Some(server.into()), ..self }
    }

    /// Matches only calls whose arguments have this value at a [JSON pointer](https://www.rfc-editor.org/rfc/rfc6901) such as
    /// `/filter/folder`. Numbers are compared by value: `1`, `1.0` and `1e0` are the same.
    ///
    /// # Errors
    /// If the text is no JSON pointer: one begins with `/`, or is empty and means all arguments.
    pub fn argument(
        mut self,
        pointer: impl Into<String>,
        value: impl Into<Value>,
    ) -> Result<Self, InvalidPointer> {
        self.arguments.push((check_pointer(pointer.into())?, value.into()));
        Ok(self)
    }

    /// Whether a request matches; in each form of its item, or in one of them.
    fn matches(&self, request: &LayerRequest, facts: &Facts, in_each_form: bool) -> bool {
        let fits = |pattern: &Option<NamePattern>, name: Option<&str>| match pattern {
            None => true,
            Some(pattern) => name.is_some_and(|name| pattern.fits(name)),
        };
        let has = |(pointer, value): &(String, Value)| {
            facts.arguments.pointer(pointer).is_some_and(|present| is_same_value(present, value))
        };
        fits(&self.method, Some(request.method()))
            && fits(&self.tool, facts.tool.as_deref())
            && self.fits_item(request, facts, in_each_form)
            && fits(&self.principal, request.principal().map(|principal| principal.as_str()))
            && fits(&self.server, request.server_name())
            && self.arguments.iter().all(has)
    }

    fn fits_item(&self, request: &LayerRequest, facts: &Facts, in_each_form: bool) -> bool {
        let Some(pattern) = &self.item else { return true };
        let Some(forms) = &facts.item else { return false };
        let patterns = item_forms(pattern, request).into_iter();
        let patterns = patterns.map(|text| NamePattern { text, ..*pattern });
        let mut compared = patterns.zip(forms).map(|(pattern, form)| pattern.fits(form));
        if in_each_form { compared.all(|fits| fits) } else { compared.any(|fits| fits) }
    }
}
