//! The fields of a request's span when it starts.

use alloc::borrow::Cow;
use alloc::string::{String, ToString as _};
use core::any::Any;
use core::cell::OnceCell;
use core::fmt::Write as _;

use crate::consent::SafeText;
use crate::rpc::{Id, Raw, decode_member, read_members};
use crate::schema::{
    CallTool, CallToolParams, CustomParams, Era, GetPrompt, GetPromptParams, Meta, Method, MethodInfo,
    ReadResource, ReadResourceParams, Revision, SubscribeResource, SubscribeResourceParams, TraceContext,
    UnsubscribeResource, UnsubscribeResourceParams,
};

/// The maximum length of a name in characters, before it is escaped.
const MAX_CHARACTERS: usize = 128;

/// A request as its span describes it. Nothing is computed for a span that is not recorded.
pub(super) struct RequestFields<'a> {
    method: &'a str,
    params: Params<'a>,
    revision: Option<Revision>,
    id: &'a dyn Fn() -> Option<Id>,
    /// Whether the method, or the item of the request, exists. Names that a client makes up name no span.
    serves: &'a dyn Fn(Option<&str>) -> bool,
    item: OnceCell<Option<String>>,
    trace: OnceCell<Option<TraceContext>>,
}

/// The parameters of a request.
enum Params<'a> {
    Own(&'a dyn Any),
    Received(Option<&'a Raw>),
}

impl<'a> RequestFields<'a> {
    /// A request of this side.
    pub(super) fn of_call<M: Method>(
        name: Option<&'a str>,
        params: &'a M::Params,
        revision: Option<Revision>,
    ) -> Self {
        let params = Params::Own(params);
        Self::new(name.unwrap_or(M::NAME), params, revision, &|| None, &|_| true)
    }

    /// A request that this side answers.
    pub(super) fn of_request(
        method: &'a str,
        params: Option<&'a Raw>,
        revision: Option<Revision>,
        id: &'a dyn Fn() -> Option<Id>,
        serves: &'a dyn Fn(Option<&str>) -> bool,
    ) -> Self {
        Self::new(method, Params::Received(params), revision, id, serves)
    }

    fn new(
        method: &'a str,
        params: Params<'a>,
        revision: Option<Revision>,
        id: &'a dyn Fn() -> Option<Id>,
        serves: &'a dyn Fn(Option<&str>) -> bool,
    ) -> Self {
        Self { method, params, revision, id, serves, item: OnceCell::new(), trace: OnceCell::new() }
    }

    /// The method with the tool or prompt, as far as they exist.
    pub(super) fn span_name(&self) -> Cow<'_, str> {
        let exists = MethodInfo::all().any(|info| info.name == self.method) || (self.serves)(None);
        if !exists {
            return Cow::Borrowed("_OTHER");
        }
        let is_named = matches!(self.method, CallTool::NAME | GetPrompt::NAME);
        match self.item().filter(|item| is_named && (self.serves)(Some(item))) {
            Some(item) => Cow::Owned(alloc::format!("{} {}", self.method, shown(item))),
            None => shown(self.method),
        }
    }

    pub(super) fn method(&self) -> Cow<'_, str> {
        shown(self.method)
    }

    pub(super) fn id(&self) -> Option<String> {
        (self.id)().map(|id| match id {
            Id::Number(number) => number.to_string(),
            Id::String(text) => shown(&text).into_owned(),
        })
    }

    pub(super) fn revision(&self) -> Option<&'static str> {
        self.revision.map(Revision::as_str)
    }

    pub(super) fn era(&self) -> Option<&'static str> {
        self.revision.map(era)
    }

    pub(super) fn operation(&self) -> Option<&'static str> {
        (self.method == CallTool::NAME).then_some("execute_tool")
    }

    pub(super) fn tool(&self) -> Option<Cow<'_, str>> {
        self.item_of(&[CallTool::NAME]).map(shown)
    }

    pub(super) fn prompt(&self) -> Option<Cow<'_, str>> {
        self.item_of(&[GetPrompt::NAME]).map(shown)
    }

    pub(super) fn uri(&self) -> Option<Cow<'_, str>> {
        let methods = [ReadResource::NAME, SubscribeResource::NAME, UnsubscribeResource::NAME];
        self.item_of(&methods).map(shown_uri)
    }

    /// The trace context that a received request came with.
    pub(super) fn trace_context(&self) -> Option<&TraceContext> {
        let read = || match self.params {
            Params::Received(Some(params)) => {
                let [meta] = read_members(params.as_str(), ["_meta"]).ok()?;
                decode_member::<Meta>(meta)?.trace_context()
            }
            _ => None,
        };
        self.trace.get_or_init(read).as_ref()
    }

    pub(super) fn traceparent(&self) -> Option<&str> {
        self.trace_context().map(TraceContext::traceparent)
    }

    fn item_of(&self, methods: &[&str]) -> Option<&str> {
        if methods.contains(&self.method) { self.item() } else { None }
    }

    /// The name of the tool or prompt, or the URI of the resource.
    fn item(&self) -> Option<&str> {
        self.item.get_or_init(|| self.params.item(self.method)).as_deref()
    }
}

impl Params<'_> {
    fn item(&self, method: &str) -> Option<String> {
        let member = match method {
            CallTool::NAME | GetPrompt::NAME => "name",
            ReadResource::NAME | SubscribeResource::NAME | UnsubscribeResource::NAME => "uri",
            _ => return None,
        };
        match self {
            Self::Received(params) => {
                let [item] = read_members((*params)?.as_str(), [member]).ok()?;
                decode_member(item)
            }
            Self::Own(params) => own_item(*params, member),
        }
    }
}

fn own_item(params: &dyn Any, member: &str) -> Option<String> {
    if let Some(params) = params.downcast_ref::<CustomParams>() {
        return params.extra.get(member)?.decode().ok();
    }
    let typed = None
        .or_else(|| Some(&params.downcast_ref::<CallToolParams>()?.name))
        .or_else(|| Some(&params.downcast_ref::<GetPromptParams>()?.name))
        .or_else(|| Some(&params.downcast_ref::<ReadResourceParams>()?.uri))
        .or_else(|| Some(&params.downcast_ref::<SubscribeResourceParams>()?.uri))
        .or_else(|| Some(&params.downcast_ref::<UnsubscribeResourceParams>()?.uri));
    typed.cloned()
}

pub(super) fn era(revision: Revision) -> &'static str {
    match revision.era() {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

/// A name, escaped and cut.
fn shown(text: &str) -> Cow<'_, str> {
    let is_plain = |byte| matches!(byte, b' '..=b'~');
    if text.len() <= MAX_CHARACTERS && text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let cut = text.char_indices().nth(MAX_CHARACTERS).and_then(|(end, _)| text.get(..end));
    let mut shown = SafeText::line(cut.unwrap_or(text)).to_string();
    if cut.is_some() {
        let _ = shown.write_char('…');
    }
    Cow::Owned(shown)
}

/// A URI without the parts that can hold secrets: user, query and fragment.
fn shown_uri(uri: &str) -> Cow<'_, str> {
    let uri = uri.split(['?', '#']).next().unwrap_or_default();
    let without_user = uri.split_once("://").and_then(|(scheme, rest)| {
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (_, host) = authority.rsplit_once('@')?;
        Some(alloc::format!("{scheme}://{host}{path}"))
    });
    match without_user {
        Some(uri) => Cow::Owned(shown(&uri).into_owned()),
        None => shown(uri),
    }
}
