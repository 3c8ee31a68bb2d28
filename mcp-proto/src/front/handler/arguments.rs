//! Arguments that handlers take.

use serde::de::DeserializeOwned;

/// The arguments of a handler: owned data that implements [`Deserialize`](serde::Deserialize). The trait has a blanket
/// implementation.
#[diagnostic::on_unimplemented(
    message = "a handler cannot take `{Self}` as its arguments",
    label = "the first parameter of the handler is `{Self}`",
    note = "take a struct that derives `serde::Deserialize`, by value (`add: Add`, not `add: &Add`)",
    note = "its fields are owned (`String`, not `&str`)",
    note = "without arguments, take `NoArguments {{}}`"
)]
pub trait Arguments: DeserializeOwned + 'static {}

#[diagnostic::do_not_recommend]
impl<A: DeserializeOwned + 'static> Arguments for A {}

/// The arguments of a tool's handler: [`Arguments`] with a derived JSON Schema. The trait has a blanket implementation.
#[cfg(feature = "schemars")]
#[diagnostic::on_unimplemented(
    message = "the handler of a tool cannot take `{Self}` as its arguments",
    label = "the first parameter of the handler is `{Self}`",
    note = "take a struct that derives `serde::Deserialize` and `schemars::JsonSchema`, by value (`add: Add`, not `add: &Add`)",
    note = "its fields are owned (`String`, not `&str`)",
    note = "without arguments, take `NoArguments {{}}`; to write the schema yourself, use `tool_with`"
)]
pub trait DescribedArguments: Arguments + schemars::JsonSchema {}

#[cfg(feature = "schemars")]
#[diagnostic::do_not_recommend]
impl<A: Arguments + schemars::JsonSchema> DescribedArguments for A {}

/// Has no implementation: without the feature `schemars` the schema of a tool cannot come from the type of its arguments.
#[cfg(not(feature = "schemars"))]
#[diagnostic::on_unimplemented(
    message = "`Router::tool` needs the feature `schemars`",
    label = "the schema of `{Self}` is unknown without the feature",
    note = "in `Cargo.toml`, add `\"schemars\"` to the features of `mcp-smol`, `mcp-hyper` or `mcp-proto`; the first two have it by default",
    note = "to write the schema yourself, use `tool_with`"
)]
pub trait DescribedArguments: Arguments {}

/// The arguments of a tool that takes none. Arguments that a client sends are ignored. [`without_arguments`] registers
/// functions that take only the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub struct NoArguments {}

/// Turns a handler that takes only the context into one of a tool, or a prompt, without arguments.
///
/// ```
/// use mcp_proto::front::{Context, Router, without_arguments};
/// use mcp_proto::schema::{Json, Tool};
///
/// async fn whoami(cx: Context) -> String {
///     cx.principal().map_or("an unknown caller", |principal| principal.as_str()).to_owned()
/// }
///
/// let tool = Tool::new("whoami", "Says who calls", Json::empty_object());
/// let router = Router::new("names", "1.0.0").tool_with(tool, without_arguments(whoami));
/// assert!(router.check().is_ok());
/// ```
pub fn without_arguments<C, F>(handler: impl Fn(C) -> F) -> impl Fn(NoArguments, C) -> F {
    move |NoArguments {}, context| handler(context)
}
