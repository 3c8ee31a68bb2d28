//! Checks of a server's requests before their handlers run, and of the handlers' answers.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;

use super::{ClientContext, ClientHandlers};
use crate::consent::UrlConsent;
use crate::front::handler_error::IntoAnswer;
use crate::front::params::decode_params;
use crate::front::reply::Reply;
use crate::front::{Handler, HandlerMode};
use crate::peer::AnyResult;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::{
    CreateMessage, Elicit, ElicitFormParams, ElicitParams, ListRoots, Method, Revision, ToolRule,
};

/// A method with rules that its types do not express.
pub(super) trait MethodRules: Method {
    /// The rule that the answer must satisfy.
    type Rule: Send + 'static;

    /// Checks a request before its handler runs. Returns the rule for its answer.
    fn check_request(params: &Self::Params) -> Result<Self::Rule, ErrorObject>;

    /// Checks an answer before it is sent.
    fn check_response(kept: &Self::Rule, result: &Self::Result) -> Result<(), ErrorObject>;
}

fn invalid(what: &dyn core::fmt::Display) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, what.to_string())
}

fn failed(what: &dyn core::fmt::Display) -> ErrorObject {
    ErrorObject::new(code::INTERNAL_ERROR, what.to_string())
}

/// Checks that a model accepts the conversation, and that the answer calls only allowed tools.
impl MethodRules for CreateMessage {
    type Rule = ToolRule;

    fn check_request(params: &Self::Params) -> Result<ToolRule, ErrorObject> {
        //= C11.4 "otherwise -32602"
        params.check().map_err(|fault| invalid(&fault))?;
        Ok(params.tool_rule())
    }

    fn check_response(rule: &ToolRule, result: &Self::Result) -> Result<(), ErrorObject> {
        rule.check(result).map_err(|fault| failed(&fault))
    }
}

/// Checks that a page can be shown to the user before it opens, and that answers match their form.
impl MethodRules for Elicit {
    type Rule = Option<ElicitFormParams>;

    fn check_request(params: &Self::Params) -> Result<Self::Rule, ErrorObject> {
        match params {
            ElicitParams::Form(form) => Ok(Some(form.clone())),
            ElicitParams::Url(url) => {
                UrlConsent::from_params(url).map(|_| None).map_err(|fault| invalid(&fault))
            }
        }
    }

    fn check_response(form: &Self::Rule, result: &Self::Result) -> Result<(), ErrorObject> {
        form.as_ref().map_or(Ok(()), |form| form.check(result)).map_err(|fault| {
            // Neither the user nor the server is at fault: the client did not check the answer.
            failed(&format!("the form was not filled in correctly: {fault}"))
        })
    }
}

/// Checks that roots are directories of this machine.
impl MethodRules for ListRoots {
    type Rule = ();

    fn check_request(_: &Self::Params) -> Result<(), ErrorObject> {
        Ok(())
    }

    fn check_response((): &(), result: &Self::Result) -> Result<(), ErrorObject> {
        //= C11.7 "Roots: `file://` URIs only"
        result.roots.iter().try_for_each(|root| root.check().map_err(|fault| failed(&fault)))
    }
}

/// The rule for the answer to a request whose handler was registered by its method or name.
pub(super) enum AnswerRule {
    None,
    Sampling(<CreateMessage as MethodRules>::Rule),
    Elicitation(Box<<Elicit as MethodRules>::Rule>),
    Roots,
}

impl AnswerRule {
    /// Checks a request before its handler runs. Returns the rule for its answer.
    pub(super) fn of(method: &str, params: Option<&Raw>) -> Result<Self, ErrorObject> {
        let params = params.cloned();
        match method {
            CreateMessage::NAME => {
                CreateMessage::check_request(&decode_params::<CreateMessage>(params)?).map(Self::Sampling)
            }
            Elicit::NAME => {
                let form = Elicit::check_request(&decode_params::<Elicit>(params)?)?;
                Ok(Self::Elicitation(Box::new(form)))
            }
            ListRoots::NAME => Ok(Self::Roots),
            _ => Ok(Self::None),
        }
    }

    /// Checks an answer before it is sent.
    pub(super) fn check(&self, result: &dyn AnyResult) -> Result<(), ErrorObject> {
        match self {
            Self::None => Ok(()),
            Self::Sampling(rule) => CreateMessage::check_response(rule, &typed::<CreateMessage>(result)?),
            Self::Elicitation(form) => Elicit::check_response(form, &typed::<Elicit>(result)?),
            Self::Roots => ListRoots::check_response(&(), &typed::<ListRoots>(result)?),
        }
    }
}

/// The result of a method, from a value that may be of another type.
fn typed<T: Method>(result: &dyn AnyResult) -> Result<T::Result, ErrorObject> {
    let mut text = Vec::new();
    let written = result.write_result(&mut text, Revision::LATEST, None);
    written.and_then(|()| serde_json::from_slice(&text)).map_err(|fault| failed(&fault))
}

impl<M: HandlerMode> ClientHandlers<M> {
    /// Wraps a handler with the checks of its requests and answers.
    pub(super) fn checked_handler<T, F, H>(mut self, handler: H) -> Self
    where
        T: MethodRules<Result: Send>,
        F: Future<Output: IntoAnswer<T::Result>> + 'static,
        H: Fn(T::Params, ClientContext) -> F + Handler<M, T::Params, ClientContext, F>,
    {
        let erased = handler.erase(
            Arc::default(),
            |params: Option<Raw>, _: &ClientContext| {
                let params = decode_params::<T>(params).map_err(Reply::Error)?;
                let kept = T::check_request(&params).map_err(Reply::Error)?;
                Ok((params, kept))
            },
            |kept: T::Rule, output: F::Output| match output.into_answer() {
                Ok(result) => match T::check_response(&kept, &result) {
                    Ok(()) => Reply::result(result),
                    Err(error) => Reply::Error(error),
                },
                Err(error) => Reply::Error(error.into_object(|uri| {
                    ErrorObject::new(code::INTERNAL_ERROR, format!("there is no resource {uri}"))
                })),
            },
        );
        self.handlers.insert(T::NAME.into(), erased);
        self.declare_tasks();
        self
    }
}
