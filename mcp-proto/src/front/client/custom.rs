//! Requests and notifications of a client that are known by their names alone.

use alloc::string::String;

use serde::Serialize;

use super::Client;
use crate::front::custom::{custom_params, request_params};
use crate::front::{Error, Request};
use crate::schema::CustomMethod;

impl Client {
    /// Makes a request by its name: for methods that are known at run time only, as in a proxy or an inspector. `params`
    /// is any value that serializes to a JSON object, or to `null` for none; they are sent unchanged, except for
    /// `_meta`. The result is passed on undecoded.
    ///
    /// If the protocol defines a method of this name in the revision in use, its rules apply: the capability that it
    /// needs, the cache, input rounds. `initialize` and `subscriptions/listen` are rejected with
    /// [`RequestError::Reserved`](crate::peer::RequestError::Reserved): the connection performs the handshake, and
    /// [`subscribe`](Self::subscribe) subscribes.
    ///
    /// ```
    /// # use mcp_proto::front::{Client, Error};
    /// # use serde_json::json;
    /// # async fn example(client: Client) -> Result<(), Error> {
    /// let status = client.request_custom("com.example/status", json!({ "printer": "hall" })).await?;
    /// println!("{:?}", status.extra.get("paper"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn request_custom(&self, method: impl Into<String>, params: impl Serialize) -> Request<CustomMethod> {
        Request::by_name(self.inner.clone(), method.into(), request_params(params))
    }

    /// Sends a notification by its name. `params` is any value that serializes to a JSON object, or to `null` for none.
    ///
    /// A name that the program knows can have a type instead: see [`notify`](Self::notify) and
    /// [`NotificationInfo::custom`](crate::schema::NotificationInfo::custom).
    ///
    /// ```
    /// # use mcp_proto::front::{Client, Error};
    /// # use serde_json::json;
    /// # fn example(client: &Client) -> Result<(), Error> {
    /// client.notify_custom("com.example/paperAdded", json!({ "sheets": 500 }))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If it cannot be sent: the connection is not ready or has ended, or the name is one of the protocol's that other
    /// methods send ([`RequestError::Reserved`](crate::peer::RequestError::Reserved)): `notifications/initialized`,
    /// `notifications/cancelled`, `notifications/progress`.
    pub fn notify_custom(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        let params = custom_params(params)?;
        self.inner.connection.command(|core, machine, now, _| {
            core.check_open()?;
            Ok(machine.at(now).notify_custom(method, &params)?)
        })
    }
}
