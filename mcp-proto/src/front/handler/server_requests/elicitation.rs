//! Elicitation: questions to the user of the client, by a form or on a web page.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::future::ready;

use super::elicitation_completion::ElicitationCompletion;
use super::input_future::InputFuture;
use crate::consent::{UrlConsent, UrlWarning};
use crate::front::handler::context::Context;
use crate::front::handler::error::HandlerError;
use crate::peer::RequestError;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::{At, ClientCapability, Elicit, ElicitParams, ElicitUrlParams, UrlElicitationData};

impl Context {
    /// Asks the person who uses the client. The answer says whether they accepted.
    ///
    /// The same code asks clients of either era. A legacy client is asked by a request, for which the handler waits. One of
    /// 2026-07-28 is asked by the result of its own request, and sends that again with the answers: the handler **is
    /// dropped where it waits, and run again from its start**, on whichever instance of the server the request comes to.
    /// Questions that were answered are answered at once then. Therefore
    ///
    /// - what has an effect, costs much or may turn out differently goes into [`run_once`](Self::run_once), where it comes before
    ///   an answer;
    /// - `key` names the question: each question of a handler has a key of its own, the same in each run, and what is asked
    ///   under it follows from the request and from the answers before;
    /// - what can be asked at once is better asked at once, by joining the futures, than in one round after the other.
    ///
    /// ```
    /// use mcp_proto::front::{Context, HandlerError};
    /// use mcp_proto::schema::{BooleanSchema, ElicitAction, ElicitParams, ElicitSchema};
    ///
    /// async fn delete(cx: Context, path: String) -> Result<String, HandlerError> {
    ///     let form = ElicitSchema::new([("sure", BooleanSchema::new().into())]);
    ///     let answer = cx.elicit("sure", ElicitParams::form(format!("Really delete {path}?"), form)).await?;
    ///     if answer.action != ElicitAction::Accept {
    ///         return Ok("Nothing was deleted.".to_owned());
    ///     }
    ///     // …
    ///     Ok(format!("{path} is deleted."))
    /// }
    /// ```
    ///
    /// Never ask for a password or the like by a form: the client sees it. That is what [`elicit_url`](Self::elicit_url) is for.
    ///
    /// A modern client that has not declared what is asked for is answered by
    /// [`MISSING_REQUIRED_CLIENT_CAPABILITY`](crate::rpc::code::MISSING_REQUIRED_CLIENT_CAPABILITY), and one whose answer
    /// is none, or whose request state is not its own any more, by
    /// [`INVALID_PARAMS`](crate::rpc::code::INVALID_PARAMS): the handler does not come back from there.
    ///
    /// Modern clients can be asked while a tool is called, a prompt is got or a resource is read, and with the feature
    /// `seal`; the answers so far are sealed (`Router::seal`) and kept by the client.
    ///
    /// # Errors
    /// If the client can not be asked, and from legacy clients whatever comes of a [request](Self::request).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation>
    pub fn elicit(&self, key: impl Into<String>, params: ElicitParams) -> InputFuture<Elicit> {
        InputFuture::elicit(self, key.into(), params)
    }

    /// Asks the person to visit a page on the web, for what the client must not see: a password, a payment, the consent
    /// to something that a third party guards. As [`elicit`](Self::elicit).
    ///
    /// The answer says whether the person agreed to open the page, not what they did there: that is for whoever serves
    /// the page to find out, who must make sure as well that it is the same person. The address is seen by the client and
    /// by whoever it shows it to: it must not contain secrets, nor be good without logging in, and should begin with
    /// `https`. One that no client could open, or that holds credentials, is refused.
    ///
    /// ```
    /// use mcp_proto::front::{Context, HandlerError};
    /// use mcp_proto::schema::ElicitAction;
    ///
    /// # async fn is_linked(cx: &Context) -> bool { true }
    /// async fn calendar(cx: Context) -> Result<&'static str, HandlerError> {
    ///     if !is_linked(&cx).await {
    ///         let page = cx.elicit_url("link", "Please link your calendar.", "https://mcp.example/link");
    ///         if page.await?.action != ElicitAction::Accept || !is_linked(&cx).await {
    ///             return Ok("The calendar is not linked.");
    ///         }
    ///     }
    ///     Ok("Nothing today.")
    /// }
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#url-mode-elicitation-requests>
    pub fn elicit_url(
        &self,
        key: impl Into<String>,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> InputFuture<Elicit> {
        self.elicit(key, ElicitParams::url(message, url))
    }

    /// What to answer where a request is not worth waiting for until the person has visited a page (2025-11-25): the
    /// client shows the page, and makes the request again once it is [told](ElicitationCompletion) that the person is done. At other
    /// revisions, and of a client without pages, it is a failure in words, and nobody is to be told.
    ///
    /// [`elicit_url`](Self::elicit_url) does for every revision.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error>
    pub fn require_url(
        &self,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> (HandlerError, Option<ElicitationCompletion>) {
        let (message, url) = (message.into(), url.into());
        if let Err(why) = check_url(&url) {
            return (HandlerError::new(why), None);
        }
        let needed = ClientCapability::ElicitationUrl;
        if !self.revision().differences().url_elicitation_error || !self.client_capabilities().has(needed) {
            return (HandlerError::new(message), None);
        }
        let id = self.inbound_request().random_id();
        let mut page = ElicitUrlParams::new(message.as_str(), url);
        page.elicitation_id = Some(id.clone());
        let error = ErrorObject::new(code::URL_ELICITATION_REQUIRED, message);
        let error = match Raw::encode(&At(&UrlElicitationData::new([page]), self.revision())) {
            Ok(data) => error.with_data(data),
            Err(_) => error,
        };
        (error.into(), Some(ElicitationCompletion { connection: self.connection().clone(), id }))
    }
}

impl InputFuture<Elicit> {
    /// As [`new`](Self::new); a page on the web gets an id, where the revision has them, and a form must be filled in as
    /// it asks.
    pub(super) fn elicit(context: &Context, key: String, mut params: ElicitParams) -> Self {
        let mut completion = None;
        if let ElicitParams::Url(page) = &params
            && let Err(why) = check_url(&page.url)
        {
            let refused = Box::pin(ready(Err(RequestError::UnsafePage(why).into())));
            return Self { future: refused, completion };
        }
        if let ElicitParams::Url(page) = &mut params
            && context.revision().differences().url_elicitation_error
        {
            let id = page.elicitation_id.get_or_insert_with(|| context.inbound_request().random_id()).clone();
            completion = Some(ElicitationCompletion { connection: context.connection().clone(), id });
        }
        let (asked, revision) = (params.clone(), context.revision());
        let asking =
            Self::with_check(context, key, params, move |answer| asked.take_answer(answer, revision));
        Self { completion, ..asking }
    }

    /// What tells the client that the person is done with the page (2025-11-25); nothing where clients are not told:
    /// those of 2026-07-28 find out by sending their request again.
    ///
    /// It may be kept for whoever serves the page, longer than the handler runs.
    pub fn completion(&self) -> Option<ElicitationCompletion> {
        self.completion.clone()
    }
}

/// Whether a person may be sent to a page: only where a client could open it, and never with credentials in its address.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#safe-url-handling>
fn check_url(url: &str) -> Result<(), String> {
    let page = UrlConsent::new(url).map_err(|fault| fault.to_string())?;
    if page.warnings().contains(&UrlWarning::UserInfo) {
        return Err("the address of the page holds credentials".into());
    }
    Ok(())
}
