//! Writing an extension of the protocol: a package with a half for clients and a half for servers.
//!
//! An extension adds methods, notifications and types of results to the protocol of 2026-07-28. Both sides declare it with
//! their capabilities, and use it only with a peer that declares it too; everything else goes on without it. An extension
//! without any of these, such as MCP Apps, is declared to peers of all revisions. The repository
//! has the package of this page in full, with its tests, in `tests/extension`: printing, which depends on `mcp-proto` alone and
//! so works with every adapter.
//!
//! # The declaration
//!
//! One function makes the [`Extension`], which both halves register:
//!
//! ```
//! use mcp_hyper::schema::{
//!     Direction, Extension, ExtensionMethod, InvalidExtensionError, ServerCapability,
//! };
//!
//! pub fn extension() -> Result<Extension, InvalidExtensionError> {
//!     Ok(Extension::new("com.example/printing")?
//!         // Over HTTP, a proxy sees in the header `Mcp-Name` which printer is meant.
//!         .with_method(ExtensionMethod::new("com.example/print").with_name_param("printer"))
//!         .with_notification("com.example/paperLow", Direction::ServerToClient)
//!         .with_result_type("com.example/queued")
//!         // What is printed is a resource of the server.
//!         .with_need(ServerCapability::Resources))
//! }
//! # extension().unwrap();
//! ```
//!
//! The identifier and all names begin with a prefix of yours. What the extension [needs](mcp_proto::schema::Extension::with_need) is a capability
//! of the client or of the server, or another extension; what it [provides](mcp_proto::schema::Extension::with_provided) is declared with it.
//!
//! # The server's half
//!
//! A function returns a router, which the application [merges](crate::Router::merge) into its own:
//!
//! ```
//! # use mcp_hyper::schema::{Direction, Extension, ExtensionMethod, InvalidExtensionError, ServerCapability};
//! # fn extension() -> Result<Extension, InvalidExtensionError> {
//! #     Ok(Extension::new("com.example/printing")?
//! #         .with_method(ExtensionMethod::new("com.example/print").with_name_param("printer"))
//! #         .with_notification("com.example/paperLow", Direction::ServerToClient)
//! #         .with_need(ServerCapability::Resources))
//! # }
//! use mcp_hyper::schema::{CustomParams, CustomResult, Json, Resource};
//! use mcp_hyper::{Context, NoArguments, Router, Tool};
//! use serde_json::json;
//!
//! async fn print(params: CustomParams, cx: Context) -> CustomResult {
//!     // Does nothing for a client that does not declare the extension.
//!     let _ = cx.notify_custom("com.example/paperLow", json!({ "printer": "hall", "sheets": 12 }));
//!     let mut printed = CustomResult::new();
//!     printed.extra.insert("pages", if params.extra.contains("uri") { 2 } else { 0 });
//!     printed.extra.insert("printer", "hall");
//!     printed
//! }
//!
//! pub fn printing() -> Result<Router, InvalidExtensionError> {
//!     Ok(Router::new("printing", "1.0.0")
//!         .with_extension(extension()?)
//!         .custom("com.example/print", print)
//!         // For clients that do not know the extension.
//!         .tool_with(Tool::new("print", "Prints", Json::empty_object()), async |NoArguments {}, _| "printed"))
//! }
//!
//! let router = Router::new("notes", "1.0.0")
//!     .resource(Resource::new("note:///today", "today"), async |_, _| "Buy milk")
//!     .merge(printing()?);
//! assert!(router.check().is_ok());
//! // Without resources, nothing could be printed.
//! assert!(Router::new("notes", "1.0.0").merge(printing()?).check().is_err());
//!
//! /// What a client reads: a value is JSON text until it is decoded.
//! fn printer(printed: &CustomResult) -> serde_json::Result<Option<String>> {
//!     printed.extra.get("printer").map(Json::decode).transpose()
//! }
//! # use mcp_hyper::ClientHandlers;
//! # let mut pair = mcp_proto::testing::pair(router).handlers(ClientHandlers::new().with_extension(extension()?));
//! # let printed = pair.run(async |client| {
//! #     client.request_custom("com.example/print", json!({ "printer": "hall", "uri": "note:///today" })).await
//! # }).unwrap();
//! # assert_eq!(printed.extra.get("pages").unwrap().as_str(), "2");
//! # assert_eq!(printer(&printed).unwrap(), Some("hall".to_owned()));
//! # Ok::<(), InvalidExtensionError>(())
//! ```
//!
//! The handler of the method is called only for clients that declare the extension; others are answered with
//! [`MISSING_REQUIRED_CLIENT_CAPABILITY`](mcp_proto::rpc::code::MISSING_REQUIRED_CLIENT_CAPABILITY). Handlers of the core protocol
//! ask [`Context::extension`](crate::Context::extension).
//!
//! # The client's half
//!
//! A function adds the declaration and the handlers of notifications; others send the requests:
//!
//! ```
//! # use mcp_hyper::schema::{Extension, ExtensionMethod, InvalidExtensionError};
//! # fn extension() -> Result<Extension, InvalidExtensionError> {
//! #     Ok(Extension::new("com.example/printing")?.with_method(ExtensionMethod::new("com.example/print")))
//! # }
//! use mcp_hyper::mcp_proto::peer::RequestError;
//! use mcp_hyper::schema::{CustomParams, CustomResult};
//! use mcp_hyper::{Client, ClientHandlers, Error};
//! use serde_json::json;
//!
//! pub fn install(handlers: ClientHandlers) -> Result<ClientHandlers, InvalidExtensionError> {
//!     let heard = async |low: CustomParams, _| println!("paper is low: {:?}", low.extra);
//!     Ok(handlers.with_extension(extension()?).on_notification("com.example/paperLow", heard))
//! }
//!
//! /// Prints a resource; `None` if the server has no printers.
//! pub async fn print(client: &Client, uri: &str) -> Result<Option<CustomResult>, Error> {
//!     let job = json!({ "printer": "hall", "uri": uri });
//!     match client.request_custom("com.example/print", job).await {
//!         Ok(printed) => Ok(Some(printed)),
//!         // Nothing was sent: the server does not declare the extension, or speaks an older revision.
//!         Err(Error::NotSent(RequestError::Extension { .. })) => Ok(None),
//!         Err(error) => Err(error),
//!     }
//! }
//! # let router = mcp_hyper::Router::new("notes", "1.0.0");
//! # let mut pair = mcp_proto::testing::pair(router).handlers(install(ClientHandlers::new())?);
//! # assert!(pair.run(async |client| print(&client, "note:///today").await).unwrap().is_none());
//! # Ok::<(), InvalidExtensionError>(())
//! ```
//!
//! A result of another type than the method's own has its name in
//! [`result_type`](mcp_proto::schema::EmptyResult::result_type). A typed request of the core protocol ends with
//! [`Error::ExtensionResult`](crate::Error::ExtensionResult) instead.
//!
//! # Several packages
//!
//! The extensions of a client or of a server are checked together, before anything is sent: two that define one name, or a name
//! of the protocol, exclude each other; so do those that [say so](mcp_proto::schema::Extension::with_conflict); what one needs must be declared. The
//! [errors](mcp_proto::schema::ExtensionError) say which. A router with such an error answers no request, and a client does not
//! connect. The extensions that are [built in](mcp_proto::schema::BUILT_IN_EXTENSIONS) are checked with them.
//!
//! | To test | |
//! |---|---|
//! | both halves together | [`testing::pair`](super::testing) with the router, `handlers(install(…))`, and for HTTP `http()` |
//! | peers of older revisions, which have no messages of extensions | `legacy()` |
//! | peers that do not know the extension | a pair with one half |
//!
//! [`Extension`]: mcp_proto::schema::Extension
