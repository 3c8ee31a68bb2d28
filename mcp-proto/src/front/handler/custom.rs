//! Requests and notifications of a handler that the protocol does not define.

use alloc::string::String;

use serde::Serialize;

use super::context::Context;
use super::task::related_task_meta;
use crate::front::custom::{custom_params, request_params};
use crate::front::{Error, Request};
use crate::peer::{AnyParams, RequestError};
use crate::schema::{CustomMethod, Era, Notification, meta};

impl<S> Context<S> {
    /// Sends a request by its name to the client, where the revision lets servers do that (2025-11-25 and earlier).
    /// `params` is any value that serializes to a JSON object, or to `null` for none.
    ///
    /// The result is passed on undecoded. If the protocol defines a method of this name, its rules apply.
    ///
    /// ```
    /// # use mcp_proto::front::{Context, Error};
    /// # use serde_json::json;
    /// # async fn example(cx: Context) -> Result<(), Error> {
    /// let confirmed = cx.request_custom("com.example/confirm", json!({ "pages": 300 })).await?;
    /// println!("{:?}", confirmed.extra.get("by"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn request_custom(&self, method: impl Into<String>, params: impl Serialize) -> Request<CustomMethod> {
        let method = method.into();
        let params = match self.era() {
            Era::Legacy => request_params(params),
            Era::Modern => Err(Error::NotSent(RequestError::Revision {
                method: method.clone(),
                revision: self.revision(),
            })),
        };
        let link = self.connection().clone().request_link(Some(self.id()));
        let request = Request::by_name(link, method, params);
        match self.task() {
            Some(task) => request.meta(related_task_meta(task.id())),
            None => request,
        }
    }

    /// Sends the client a notification that the protocol does not define, on the stream of the request.
    ///
    /// # Errors
    /// If it cannot be sent: the request is answered or cancelled, the client reads nothing, or the name is one of the
    /// protocol's ([`RequestError::Reserved`]), which other methods send.
    pub fn notify<N: Notification>(&self, params: &N::Params) -> Result<(), Error> {
        self.send_notification(N::NAME, params)
    }

    /// Sends the client a notification by its name, on the stream of the request. `params` is any value that serializes
    /// to a JSON object, or to `null` for none.
    ///
    /// ```
    /// # use mcp_proto::front::{Context, Error};
    /// # use serde_json::json;
    /// # fn example(cx: &Context) -> Result<(), Error> {
    /// cx.notify_custom("com.example/paperLow", json!({ "sheets": 12 }))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`notify`](Self::notify).
    pub fn notify_custom(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        let mut params = custom_params(params)?;
        if let (Some(task), Era::Legacy) = (self.task(), self.era()) {
            params.meta.insert(meta::RELATED_TASK, super::task::related_task(task.id()));
        }
        self.send_notification(method, &params)
    }

    /// The request of a task is answered already: its notifications belong to the session.
    fn send_notification(&self, method: &str, params: &dyn AnyParams) -> Result<(), Error> {
        let request = self.task().is_none().then(|| self.id());
        Ok(self.connection().notify_custom(request, method, params)?)
    }
}
