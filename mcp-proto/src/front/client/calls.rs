//! The client's calls, one method per request of the protocol.

use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;

use serde::Serialize;

use super::{Client, Pages, Subscription};
use crate::front::params::{custom_params, request_params};
use crate::front::{Error, Request};
use crate::peer::RequestError;
use crate::prelude::*;
use crate::schema::{
    CallTool, CallToolParams, CallToolResult, Complete, CompleteParams, CompletionArgument, CustomMethod,
    Era, GetPrompt, GetPromptParams, Json, ListPrompts, ListResourceTemplates, ListResources, ListTools,
    LoggingLevel, Map, PaginatedParams, Ping, PingParams, ReadResource, ReadResourceParams, Reference,
    RootsListChanged, SetLoggingLevel, SetLoggingLevelParams, SubscribeResource, SubscribeResourceParams,
    SubscriptionFilter, UnsubscribeResource, UnsubscribeResourceParams,
};

//= F3 "Light single call of one HTTP server"
/// Calls one tool of a server, and closes the connection. `connection` is what the adapters' `connect` returns; it is
/// driven here, so nothing is spawned. `arguments` is any value that serializes to a JSON object.
///
/// For more than one call, or for progress, keep the client and its driver.
///
/// ```
/// # use mcp_proto::front::{Client, Error, call_once};
/// # use serde_json::json;
/// # async fn example(connection: (Client, impl Future<Output = Result<(), Error>>)) -> Result<(), Error> {
/// let sum = call_once(connection, "add", json!({ "a": 2, "b": 3 })).await?;
/// println!("{}", sum.text_content());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the server cannot be reached, or the call fails. A tool reports its failure in its result.
pub async fn call_once(
    connection: (Client, impl Future),
    tool: impl Into<String>,
    arguments: impl Serialize,
) -> Result<CallToolResult, Error> {
    let (client, driver) = connection;
    let call = async move {
        let called = client.call_tool(tool, arguments).await;
        client.close().await;
        called
    };
    let (mut driver, mut call) = (pin!(Some(driver)), pin!(call));
    let mut called = None;
    // The driver goes on after the end of the call, until the connection is closed.
    poll_fn(move |cx| {
        // Dropped once it has ended, so that the call ends too if it did not release the connection.
        if driver.as_mut().as_pin_mut().is_some_and(|driver| driver.poll(cx).is_ready()) {
            driver.set(None);
        }
        if called.is_none()
            && let Poll::Ready(ended) = call.as_mut().poll(cx)
        {
            called = Some(ended);
        }
        match called.take_if(|_| driver.is_none()) {
            Some(called) => Poll::Ready(called),
            None => Poll::Pending,
        }
    })
    .await
}

impl Client {
    /// Lists the tools of the server, over all pages.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#listing-tools>
    pub fn list_tools(&self) -> Pages<ListTools> {
        Pages::new(self.clone(), PaginatedParams::new())
    }

    /// Lists one page of the tools; the first page if `cursor` is `None`.
    pub fn list_tools_page(&self, cursor: Option<&str>) -> Request<ListTools> {
        self.request(page(cursor))
    }

    /// Calls a tool. `arguments` is any value that serializes to a JSON object: a `json!`, a map or a struct.
    ///
    /// A tool reports its failure in its result: see [`CallToolResult::failed`](crate::schema::CallToolResult::failed).
    ///
    /// ```
    /// # use mcp_proto::front::{Client, Error};
    /// # use serde_json::json;
    /// # async fn example(client: Client) -> Result<(), Error> {
    /// let sum = client.call_tool("add", json!({ "a": 2, "b": 3 })).await?;
    /// assert_eq!(sum.text_content(), "5");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#calling-tools>
    pub fn call_tool(&self, name: impl Into<String>, arguments: impl Serialize) -> Request<CallTool> {
        let arguments =
            Json::encode(&arguments).map_err(|error| error.to_string()).and_then(|json| {
                match json.is_object() {
                    true => Ok(json),
                    false => Err("the arguments of a tool must be a JSON object".to_string()),
                }
            });
        self.prepare(match arguments {
            Ok(json) => Ok(CallToolParams::new(name).with_arguments(json)),
            Err(why) => Err(Error::NotSent(RequestError::Encode(why))),
        })
    }

    //= F101 "List and read resources, subscribe, list and get prompts"
    /// Lists the resources of the server, over all pages.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#listing-resources>
    pub fn list_resources(&self) -> Pages<ListResources> {
        Pages::new(self.clone(), PaginatedParams::new())
    }

    /// Lists one page of the resources; the first page if `cursor` is `None`.
    pub fn list_resources_page(&self, cursor: Option<&str>) -> Request<ListResources> {
        self.request(page(cursor))
    }

    /// Lists the server's resource templates, over all pages.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#resource-templates>
    pub fn list_resource_templates(&self) -> Pages<ListResourceTemplates> {
        Pages::new(self.clone(), PaginatedParams::new())
    }

    /// Lists one page of the resource templates; the first page if `cursor` is `None`.
    pub fn list_resource_templates_page(&self, cursor: Option<&str>) -> Request<ListResourceTemplates> {
        self.request(page(cursor))
    }

    /// Reads a resource.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#reading-resources>
    pub fn read_resource(&self, uri: impl Into<String>) -> Request<ReadResource> {
        self.request(ReadResourceParams::new(uri))
    }

    /// Subscribes to changes of a resource, which arrive in [`events`](Self::events): 2025-11-25 and earlier. For newer
    /// servers, use [`listen`](Self::listen).
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions>
    pub fn subscribe(&self, uri: impl Into<String>) -> Request<SubscribeResource> {
        self.request(SubscribeResourceParams::new(uri))
    }

    /// Ends the subscription to a resource (2025-11-25 and earlier).
    pub fn unsubscribe(&self, uri: impl Into<String>) -> Request<UnsubscribeResource> {
        self.request(UnsubscribeResourceParams::new(uri))
    }

    /// Opens a subscription to change notifications (2026-07-28). The request is sent at once.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>
    ///
    /// # Errors
    /// If it cannot be sent.
    pub fn listen(&self, filter: SubscriptionFilter) -> Result<Subscription, Error> {
        Subscription::open(self.clone(), filter)
    }

    /// Lists the prompts of the server, over all pages.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/prompts#listing-prompts>
    pub fn list_prompts(&self) -> Pages<ListPrompts> {
        Pages::new(self.clone(), PaginatedParams::new())
    }

    /// Lists one page of the prompts; the first page if `cursor` is `None`.
    pub fn list_prompts_page(&self, cursor: Option<&str>) -> Request<ListPrompts> {
        self.request(page(cursor))
    }

    /// Gets a prompt, filled in with `arguments`.
    ///
    /// ```
    /// # use mcp_proto::front::{Client, Error};
    /// # async fn example(client: Client) -> Result<(), Error> {
    /// let prompt = client.get_prompt("review", [("language", "Rust")]).await?;
    /// # drop(prompt);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/prompts#getting-a-prompt>
    pub fn get_prompt<K, V>(
        &self,
        name: impl Into<String>,
        arguments: impl IntoIterator<Item = (K, V)>,
    ) -> Request<GetPrompt>
    where
        K: Into<String>,
        V: Into<String>,
    {
        let arguments: Map<String> =
            arguments.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let mut params = GetPromptParams::new(name);
        params.arguments = Some(arguments).filter(|arguments| !arguments.is_empty());
        self.request(params)
    }

    /// Requests completions of an argument whose value begins with `typed`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion>
    pub fn complete(
        &self,
        reference: impl Into<Reference>,
        argument: impl Into<String>,
        typed: impl Into<String>,
    ) -> Request<Complete> {
        self.request(CompleteParams::new(reference, CompletionArgument::new(argument, typed)))
    }

    /// Sends `ping` (2025-11-25 and earlier).
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/ping>
    pub fn ping(&self) -> Request<Ping> {
        self.request(PingParams::new())
    }

    /// Sets the least severe level of log messages in [`events`](Self::events): 2025-11-25 and earlier. For newer
    /// servers each request sets its own level: see [`Request::log_level`].
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging>
    pub fn set_level(&self, level: LoggingLevel) -> Request<SetLoggingLevel> {
        self.request(SetLoggingLevelParams::new(level))
    }
}

pub(super) fn page(cursor: Option<&str>) -> PaginatedParams {
    match cursor {
        Some(cursor) => PaginatedParams::at(cursor),
        None => PaginatedParams::new(),
    }
}

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
        let request = Request::by_name(self.inner.clone(), method.into(), request_params(params));
        request.skip_layers(self.skips_layers)
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
        self.inner.checked(|_, mut client| client.notify_custom(method, &params))
    }

    /// Notifies the server that the roots have changed, so that it can request them again.
    ///
    /// Modern servers request the roots each time they need them and receive no notification.
    ///
    /// # Errors
    /// If the client does not declare `roots.listChanged`
    /// ([`ClientHandlers::roots_change`](super::ClientHandlers::roots_change)), or is not connected.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/client/roots#root-list-changes>
    pub fn roots_changed(&self) -> Result<(), Error> {
        match self.server() {
            Some(server) if server.era == Era::Modern => Ok(()),
            _ => {
                //= C11.8 "roots/list_changed sent if `listChanged` declared"
                self.notify::<RootsListChanged>(
                    &<RootsListChanged as crate::schema::Notification>::Params::new(),
                )
            }
        }
    }
}
