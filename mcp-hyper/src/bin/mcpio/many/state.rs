//! State that outlives a command: approvals, and lists and pins of servers.

use mcp_hyper::host::{FileStorage, Storage as _};
use mcp_proto::host::consent::Approvals;

use super::options::ConfigOptions;
use crate::error::CommandError;
use crate::login;
use crate::terminal::Screen;
use crate::text::{BAD, styled};

/// The name of the value with the approvals.
const APPROVALS: &str = "approvals";

/// The folder for state: `--state`, or one beside the folder for tokens. No project can write there.
pub(super) fn storage(options: &ConfigOptions) -> Result<FileStorage, CommandError> {
    let none = || CommandError::Usage("no home folder for approvals: name a folder by --state".to_owned());
    let folder = options.state.clone().or_else(|| login::state_folder("servers")).ok_or_else(none)?;
    Ok(FileStorage::in_folder(folder))
}

/// The user's approvals. What cannot be read is none.
pub(super) async fn approvals(storage: &FileStorage) -> Result<Approvals, CommandError> {
    let stored = storage.get(APPROVALS).await.map_err(|error| CommandError::server(error.to_string()))?;
    let Some(stored) = stored else { return Ok(Approvals::new()) };
    match Approvals::from_json(&stored) {
        Ok(approvals) => Ok(approvals),
        Err(error) => {
            Screen::messages().line(styled(BAD, "mcpio:").and(" ").and(error.to_string()))?;
            Ok(Approvals::new())
        }
    }
}

/// Changes the stored approvals.
pub(super) async fn change_approvals(
    storage: &FileStorage,
    change: impl FnOnce(&mut Approvals),
) -> Result<(), CommandError> {
    let mut approvals = approvals(storage).await?;
    change(&mut approvals);
    let stored = storage.put(APPROVALS, approvals.to_json().into_bytes()).await;
    stored.map_err(|error| CommandError::server(error.to_string()))
}
