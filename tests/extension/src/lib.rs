//! Printing, as an extension of the protocol: servers with printers, and clients that print resources.
//!
//! A package of an extension has one declaration, which both halves register ([`extension`]); the types of its messages; and
//! for each side the functions that an application adds to its own client or server: [`client`] and [`server`]. Both say
//! what remains where the other side does not know the extension.

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
pub mod server;

use mcp_proto::schema::{Direction, Extension, ExtensionMethod, InvalidExtensionError, ServerCapability};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The identifier of the extension.
pub const IDENTIFIER: &str = "com.example/printing";
/// The method that prints a resource.
pub const PRINT: &str = "com.example/print";
/// The notification of a printer that is about to run out of paper.
pub const PAPER_LOW: &str = "com.example/paperLow";
/// The result type of a job that waits for its turn.
pub const QUEUED: &str = "com.example/queued";

/// The declaration, which is the same in clients and in servers.
///
/// # Errors
/// Never: the identifier is valid.
pub fn extension() -> Result<Extension, InvalidExtensionError> {
    Ok(Extension::new(IDENTIFIER)?
        // Over HTTP, a proxy sees in the header `Mcp-Name` which printer is meant.
        .with_method(ExtensionMethod::new(PRINT).with_name_param("printer"))
        .with_notification(PAPER_LOW, Direction::ServerToClient)
        .with_result_type(QUEUED)
        // What is printed is a resource of the server.
        .with_need(ServerCapability::Resources))
}

/// What to print: the parameters of [`PRINT`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The name of the printer.
    pub printer: String,
    /// The URI of the resource.
    pub uri: String,
}

/// What became of a job: the result of [`PRINT`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is printed.
    Printed {
        /// The number of its pages.
        pages: u32,
    },
    /// It waits: the result has the type [`QUEUED`].
    Queued {
        /// The number of jobs before it.
        position: u32,
    },
}

/// The parameters of [`PAPER_LOW`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaperLow {
    /// The name of the printer.
    pub printer: String,
    /// The number of sheets that are left.
    pub sheets: u32,
}

/// Reads the members of a message into a type of this package, or writes those of such a type.
fn convert<T: DeserializeOwned>(members: &impl Serialize) -> Result<T, serde_json::Error> {
    serde_json::from_str(&serde_json::to_string(members)?)
}
