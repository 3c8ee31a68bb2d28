//! The context of a client's handlers, and the rules for their answers.

use alloc::sync::Arc;
use core::fmt;

use crate::consent::UrlConsent;
use crate::front::params::{HandlerContext, decode_params};
use crate::peer::client::ServerInfo;
use crate::peer::{AnyResult, RequestId};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::{
    CreateMessage, Elicit, ElicitFormParams, ElicitParams, ListRoots, ListRootsResult, Method, Revision,
    Root, ToolRule,
};

/// The context of a client's handler: the server and the request on whose behalf it runs.
#[derive(Clone, Debug)]
pub struct ClientContext {
    server: Option<Arc<ServerInfo>>,
    request: Option<RequestId>,
    pub(super) root_access: Option<RootAccess>,
}

impl HandlerContext for ClientContext {
    type Plain = Self;
    type State = ();

    fn with_state(plain: Self, _: &Arc<()>) -> Self {
        plain
    }
}

impl ClientContext {
    pub(super) fn new(server: Option<Arc<ServerInfo>>, request: Option<RequestId>) -> Self {
        Self { server, request, root_access: None }
    }

    /// The server that sends the request, as it describes itself.
    //= C10.4 "Show which server asks"
    pub fn server(&self) -> Option<&ServerInfo> {
        self.server.as_deref()
    }

    /// The client's own request that waits for this answer: the [id](crate::front::Call::id) of a call.
    ///
    /// `None` if the server sent a request of its own.
    pub fn request(&self) -> Option<RequestId> {
        self.request
    }
}

/// The rule for the answer to a request, which the types of its method do not express.
pub(super) enum AnswerRule {
    None,
    /// The answer calls only allowed tools.
    Sampling(ToolRule),
    /// The answer matches its form.
    Form(Box<ElicitFormParams>),
    /// Roots are directories of this machine, and accessible.
    Roots(Option<RootAccess>),
}

/// The application's check whether a root is accessible.
#[derive(Clone)]
pub(super) struct RootAccess(Arc<dyn Fn(&Root) -> bool + Send + Sync>);

impl RootAccess {
    pub(super) fn new(is_accessible: impl Fn(&Root) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_accessible))
    }
}

debug_fields! { RootAccess {} }

impl AnswerRule {
    /// Checks a request before its handler runs. Returns the rule for its answer.
    pub(super) fn of(
        method: &str,
        params: Option<&Raw>,
        root_access: Option<&RootAccess>,
    ) -> Result<Self, ErrorObject> {
        let params = params.cloned();
        match method {
            CreateMessage::NAME => {
                let params = decode_params::<CreateMessage>(params)?;
                //= C11.4 "otherwise -32602"
                params.check().map_err(|fault| invalid(&fault))?;
                Ok(Self::Sampling(params.tool_rule()))
            }
            Elicit::NAME => match decode_params::<Elicit>(params)? {
                ElicitParams::Form(form) => Ok(Self::Form(Box::new(form))),
                // The page can be shown to the user before it opens.
                ElicitParams::Url(page) => {
                    UrlConsent::from_params(&page).map(|_| Self::None).map_err(|fault| invalid(&fault))
                }
            },
            ListRoots::NAME => Ok(Self::Roots(root_access.cloned())),
            _ => Ok(Self::None),
        }
    }

    /// Checks an answer before it is sent. Returns the answer to send in its place, once inaccessible roots are left out.
    pub(super) fn check(&self, result: &dyn AnyResult) -> Result<Option<ListRootsResult>, ErrorObject> {
        match self {
            Self::None => {}
            Self::Sampling(rule) => {
                rule.check(&typed::<CreateMessage>(result)?).map_err(|fault| failed(&fault))?;
            }
            Self::Form(form) => form.check(&typed::<Elicit>(result)?).map_err(|fault| {
                // Neither the user nor the server is at fault: the client did not check the answer.
                failed(&format!("the form was not filled in correctly: {fault}"))
            })?,
            Self::Roots(access) => {
                let mut listed = typed::<ListRoots>(result)?;
                //= C11.7 "Roots: `file://` URIs only"
                listed.roots.iter().try_for_each(|root| root.check().map_err(|fault| failed(&fault)))?;
                if let Some(RootAccess(is_accessible)) = access {
                    //= C11.9 "Roots are checked for accessibility before they are exposed"
                    listed.roots = listed.roots.iter().filter(|root| is_accessible(root)).cloned().collect();
                    return Ok(Some(listed));
                }
            }
        }
        Ok(None)
    }
}

fn invalid(what: &dyn fmt::Display) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, what.to_string())
}

fn failed(what: &dyn fmt::Display) -> ErrorObject {
    ErrorObject::new(code::INTERNAL_ERROR, what.to_string())
}

/// The result of a method, from a value that may be of another type: a handler is also set by the method's name.
fn typed<T: Method>(result: &dyn AnyResult) -> Result<T::Result, ErrorObject> {
    let mut text = Vec::new();
    let written = result.write_result(&mut text, Revision::LATEST, None);
    written.and_then(|()| serde_json::from_slice(&text)).map_err(|fault| failed(&fault))
}
