//! The values that the adapter attached to a request.

use super::context::Context;
use crate::front::Attachments;

impl<S> Context<S> {
    /// The values that the adapter attached to the request, by their types.
    ///
    /// Over HTTP they belong to the request that carried this one: in a legacy session to its POST. `mcp-hyper` attaches
    /// the head of the HTTP request and the address of the client; code around an adapter can attach more. Headers are the
    /// client's claims, like [`meta`](Self::meta); an address is not. A handler of a task reads the values of the call
    /// that became the task.
    ///
    /// ```
    /// use std::net::SocketAddr;
    ///
    /// use mcp_proto::front::Context;
    ///
    /// async fn whoami(cx: Context) -> String {
    ///     match cx.attachments().get::<SocketAddr>() {
    ///         Some(address) => format!("you connected from {address}"),
    ///         None => "you have no address".to_owned(),
    ///     }
    /// }
    /// ```
    pub fn attachments(&self) -> &Attachments {
        &self.inbound_request().caller.attachments
    }
}
