//! The client's half.

use core::fmt;

use mcp_proto::front::{Client, ClientHandlers, Error};
use mcp_proto::peer::RequestError;
use mcp_proto::schema::{InvalidExtensionError, ResultType};
use serde::Deserialize;

use crate::{Job, PAPER_LOW, PRINT, PaperLow, Progress, QUEUED, convert, extension};

/// Adds the extension to the handlers of a client. `on_paper_low` is called for each printer that runs out of paper.
///
/// # Errors
/// Never: the identifier is valid.
pub fn install(
    handlers: ClientHandlers,
    on_paper_low: impl Fn(PaperLow) + Send + Sync + 'static,
) -> Result<ClientHandlers, InvalidExtensionError> {
    let heard = move |params: mcp_proto::schema::CustomParams, _| {
        // Messages that cannot be read are ignored, as those of the protocol are.
        if let Ok(low) = convert(&params) {
            on_paper_low(low);
        }
        core::future::ready(())
    };
    Ok(handlers.with_extension(extension()?).on_notification(PAPER_LOW, heard))
}

/// Prints a resource of the server.
///
/// # Errors
/// [`PrintError::Unsupported`] if the server does not know the extension, or speaks a revision before 2026-07-28: then
/// nothing was sent.
pub async fn print(client: &Client, job: &Job) -> Result<Progress, PrintError> {
    #[derive(Deserialize)]
    struct Printed {
        pages: u32,
    }
    #[derive(Deserialize)]
    struct Queued {
        position: u32,
    }

    let result = client.request_custom(PRINT, job).await?;
    let unreadable = |error: serde_json::Error| PrintError::Unreadable(error);
    match &result.result_type {
        Some(ResultType::Other(name)) if **name == *QUEUED => {
            let Queued { position } = convert(&result).map_err(unreadable)?;
            Ok(Progress::Queued { position })
        }
        _ => {
            let Printed { pages } = convert(&result).map_err(unreadable)?;
            Ok(Progress::Printed { pages })
        }
    }
}

/// Why nothing was printed.
#[derive(Debug)]
pub enum PrintError {
    /// The server does not know the extension.
    Unsupported,
    /// The result of the server is not one of the extension.
    Unreadable(serde_json::Error),
    /// Any other error.
    Failed(Error),
}

impl From<Error> for PrintError {
    fn from(error: Error) -> Self {
        match error {
            Error::NotSent(RequestError::Extension { .. }) => Self::Unsupported,
            error => Self::Failed(error),
        }
    }
}

impl fmt::Display for PrintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => f.write_str("the server has no printers"),
            Self::Unreadable(error) => write!(f, "the answer of the server is not valid: {error}"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for PrintError {}
