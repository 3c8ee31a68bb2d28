//! Work that runs once, however often its handler runs.

use core::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::input_future::InputMechanism;
use crate::front::handler::context::Context;

impl<S> Context<S> {
    /// Runs `work` once, however often the handler runs for one request of a client.
    ///
    /// A 2026-07-28 client stores the value, sealed, until the request is answered. Each piece of work has its own key.
    ///
    /// ```
    /// # use mcp_proto::front::{Context, HandlerError, Router};
    /// # use mcp_proto::schema::{ElicitParams, ElicitSchema, Json, Map, Tool};
    /// # #[derive(serde::Deserialize)] struct Book { seat: u32 }
    /// # async fn reserve(seat: u32) -> Result<u64, std::io::Error> { Ok(7) }
    /// async fn book(Book { seat }: Book, cx: Context) -> Result<String, HandlerError> {
    ///     // A failure is a value that serializes, too.
    ///     let reserved = cx.run_once("reservation", async { reserve(seat).await.map_err(|error| error.to_string()) }).await;
    ///     let reservation = reserved.map_err(HandlerError::new)?;
    ///     let form = ElicitParams::form("Who travels?", ElicitSchema::new(Map::new()));
    ///     let traveller = cx.elicit("traveller", form).await?;
    ///     # drop(traveller);
    ///     Ok(format!("Booked: {reservation}"))
    /// }
    /// # drop(Router::new("seats", "1").tool_with(Tool::new("book", "", Json::empty_object()), book));
    /// ```
    ///
    /// The client cannot read or change the value, nor use it for another principal or another request. It can return
    /// it more than once, unless each state is valid once (`Router::single_use`).
    pub async fn run_once<T, F>(&self, key: impl AsRef<str>, work: F) -> T
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = T>,
    {
        match InputMechanism::of(self) {
            InputMechanism::InputRounds(rounds) => {
                rounds.run_once(self.inbound_request(), key.as_ref(), work).await
            }
            InputMechanism::ServerRequests | InputMechanism::Task(_) => work.await,
        }
    }
}
