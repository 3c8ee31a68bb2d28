//! Elicitation: questions to the user of the client, by a form or on a web page.

use alloc::boxed::Box;
use alloc::string::String;
use core::future::ready;

use super::elicitation_completion::ElicitationCompletion;
use super::input_future::InputFuture;
use crate::front::handler::context::Context;
use crate::front::handler_error::HandlerError;
use crate::peer::RequestError;
use crate::peer::server::check_page_url;
use crate::rpc::{ErrorObject, Raw, code};
use crate::schema::{At, ClientCapability, Elicit, ElicitParams, ElicitUrlParams, UrlElicitationData};

impl<S> Context<S> {
    /// Asks the user of the client. The answer tells whether the user accepted.
    ///
    /// The same code works for clients of either era. A legacy client receives a request, and the handler waits for the
    /// answer. A client of 2026-07-28 receives the question in the result of its own request, and sends that again with
    /// the answers: the handler **is dropped where it waits, and runs again from its start**, on any instance of the
    /// server that receives the request. Questions that were answered before resolve at once. Therefore
    ///
    /// - work before an answer that has an effect, costs much or may return different values goes into
    ///   [`run_once`](Self::run_once);
    /// - `key` names the question: each question of a handler has its own key, the same in each run, and its content
    ///   follows from the request and from the answers before;
    /// - independent questions are better asked in one round, by joining the futures, than in one round after the
    ///   other.
    ///
    /// ```
    /// use mcp_proto::front::{Context, HandlerError, Router};
    /// use mcp_proto::schema::{BooleanSchema, ElicitAction, ElicitParams, ElicitSchema, Json, Tool};
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize)]
    /// struct Delete {
    ///     path: String,
    /// }
    ///
    /// async fn delete(Delete { path }: Delete, cx: Context) -> Result<String, HandlerError> {
    ///     let form = ElicitSchema::new([("sure", BooleanSchema::new().into())]);
    ///     let answer = cx.elicit("sure", ElicitParams::form(format!("Really delete {path}?"), form)).await?;
    ///     if answer.action != ElicitAction::Accept {
    ///         return Ok("Nothing was deleted.".to_owned());
    ///     }
    ///     // …
    ///     Ok(format!("{path} is deleted."))
    /// }
    ///
    /// let tool = Tool::new("delete", "Deletes a file", Json::empty_object());
    /// let router = Router::new("files", "1.0.0").tool_with(tool, delete);
    /// # drop(router);
    /// ```
    ///
    /// Never ask for a password or another secret by a form: the client sees it. Use [`elicit_url`](Self::elicit_url). A
    /// form with a field [named like a secret](crate::schema::ElicitSchema::secret_field) is an error.
    ///
    /// A modern client that did not declare the capability is answered by
    /// [`MISSING_REQUIRED_CLIENT_CAPABILITY`](crate::rpc::code::MISSING_REQUIRED_CLIENT_CAPABILITY); one with an
    /// invalid answer, or whose request state is no longer valid for it, by
    /// [`INVALID_PARAMS`](crate::rpc::code::INVALID_PARAMS). In both cases the handler is dropped while it waits.
    ///
    /// Modern clients can be asked during `tools/call`, `prompts/get` and `resources/read`, and with the feature
    /// `seal`; the answers so far are sealed (`Router::seal`) and stored by the client.
    ///
    /// # Errors
    /// If the client cannot be asked; for legacy clients also every error of a [request](Self::request).
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation>
    pub fn elicit(&self, key: impl Into<String>, params: ElicitParams) -> InputFuture<Elicit> {
        InputFuture::elicit(&self.without_state(), key.into(), params)
    }

    /// Asks the user to visit a web page, for data that the client must not see.
    ///
    /// Such data is a password, a payment, or the consent to a third party's access. Works like
    /// [`elicit`](Self::elicit).
    ///
    /// The answer tells whether the user agreed to open the page, not what they did there: the server of the page finds
    /// that out, and must also check that the same user visits it. The client and its user see the URL: it must contain
    /// no secrets, and must not grant access without a login. A URL that no client could open, that holds credentials, or
    /// that is neither `https` nor on this machine is an error.
    ///
    /// ```
    /// use mcp_proto::front::{Context, HandlerError, Router, without_arguments};
    /// use mcp_proto::schema::{ElicitAction, Json, Tool};
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
    ///
    /// let tool = Tool::new("calendar", "Lists today's meetings", Json::empty_object());
    /// let router = Router::new("calendar", "1.0.0").tool_with(tool, without_arguments(calendar));
    /// # drop(router);
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

    /// Returns the error that makes the client show a page and retry (2025-11-25).
    ///
    /// Unlike [`elicit_url`](Self::elicit_url), it does not wait for the user's visit: the client shows the page, and
    /// sends its request again once the server [notifies](ElicitationCompletion) it that the user is done. At other
    /// revisions, and for a client that does not support pages, it is an error with a message, and no completion
    /// follows.
    ///
    /// [`elicit_url`](Self::elicit_url) works at every revision.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error>
    pub fn require_url(
        &self,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> (HandlerError, Option<ElicitationCompletion>) {
        let (message, url) = (message.into(), url.into());
        if let Err(why) = check_page_url(&url) {
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
        //= S9.7 "-32042 lists url elicitations with ids"
        let error = match Raw::encode(&At(&UrlElicitationData::new([page]), self.revision())) {
            Ok(data) => error.with_data(data),
            Err(_) => error,
        };
        (error.into(), Some(ElicitationCompletion { connection: self.connection().clone(), id }))
    }
}

impl InputFuture<Elicit> {
    /// Like [`new`](Self::new), but gives a web page an id, where the revision has them, and checks the content of a
    /// form against its schema.
    pub(super) fn elicit(context: &Context, key: String, mut params: ElicitParams) -> Self {
        let mut completion = None;
        if let ElicitParams::Url(page) = &params
            && let Err(why) = check_page_url(&page.url)
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
            Self::with_check(context, key, params, move |answer| asked.validate_answer(answer, revision));
        Self { completion, ..asking }
    }

    /// Returns the handle that notifies the client when the user is done with the page (2025-11-25). `None` at other
    /// revisions: clients of 2026-07-28 find out by sending their request again.
    ///
    /// The server of the page may keep the handle longer than the handler runs.
    pub fn completion(&self) -> Option<ElicitationCompletion> {
        self.completion.clone()
    }
}
