//! Requests and notifications of a server that the protocol does not define.

use alloc::string::String;

use serde::Serialize;

use super::ServerHandle;
use crate::front::custom::{custom_params, request_params};
use crate::front::{Error, Request};
use crate::peer::AnyParams;
use crate::schema::{CustomMethod, Notification};

impl ServerHandle {
    /// Sends a request by its name to the client, independently of its requests (2025-11-25 and earlier). `params` is
    /// any value that serializes to a JSON object, or to `null` for none; the result is passed on undecoded.
    ///
    /// If the protocol defines a method of this name, its rules apply.
    pub fn request_custom(&self, method: impl Into<String>, params: impl Serialize) -> Request<CustomMethod> {
        Request::by_name(self.link.clone(), method.into(), request_params(params))
    }

    /// Sends the client a notification that the protocol does not define, independently of its requests (2025-11-25 and
    /// earlier).
    ///
    /// # Errors
    /// If it cannot be sent: no session is ready, the client reads nothing, or the name is one of the protocol's
    /// ([`RequestError::Reserved`](crate::peer::RequestError::Reserved)), which other methods send.
    pub fn notify<N: Notification>(&self, params: &N::Params) -> Result<(), Error> {
        self.send_notification(N::NAME, params)
    }

    /// Sends the client a notification by its name, independently of its requests (2025-11-25 and earlier). `params` is
    /// any value that serializes to a JSON object, or to `null` for none.
    ///
    /// ```
    /// # use mcp_proto::front::{Error, ServerHandle};
    /// # use serde_json::json;
    /// # fn example(handle: &ServerHandle) -> Result<(), Error> {
    /// handle.notify_custom("com.example/paperLow", json!({ "sheets": 12 }))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`notify`](Self::notify).
    pub fn notify_custom(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        self.send_notification(method, &custom_params(params)?)
    }

    fn send_notification(&self, method: &str, params: &dyn AnyParams) -> Result<(), Error> {
        self.link.connection.command(|core, machine, now, _| {
            core.check_open()?;
            Ok(machine.at(now).notify_custom(None, method, params)?)
        })
    }
}
