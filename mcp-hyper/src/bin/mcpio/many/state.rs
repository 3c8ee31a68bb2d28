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

/// Changes the stored approvals, which no other process changes meanwhile. Those that cannot be read are none.
pub(super) async fn change_approvals<T: Send + 'static>(
    storage: &FileStorage,
    change: impl FnOnce(&mut Approvals) -> T + Send + 'static,
) -> Result<T, CommandError> {
    let changed = storage.update(APPROVALS, |stored| {
        let stored = stored.map(|stored| Approvals::from_json(&stored).unwrap_or_default());
        let mut approvals = stored.unwrap_or_default();
        let result = change(&mut approvals);
        (approvals.to_json().into_bytes(), result)
    });
    changed.await.map_err(|error| CommandError::server(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use mcp_proto::host::config::{ConfigFile, Source};
    use mcp_proto::host::consent::ApprovalRequest;

    use super::*;

    #[test]
    fn approvals_of_several_processes_at_once_are_all_kept() {
        let folder = std::env::temp_dir().join(format!("mcpio-approvals-{}", std::process::id()));
        // Each process has a storage of its own.
        let approve = |number: usize| {
            let storage = FileStorage::in_folder(&folder);
            thread::spawn(move || {
                let path = format!("/srv/{number}/.mcp.json");
                let text = br#"{ "mcpServers": { "a": { "command": "x" } } }"#;
                let file = ConfigFile::parse(Source::project(path), text);
                let approval = ApprovalRequest::new(&file.servers[0]).approve();
                let changed = change_approvals(&storage, move |approvals| approvals.insert(approval));
                smol::block_on(changed).unwrap();
            })
        };
        let threads: Vec<_> = (0..16).map(approve).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let kept = smol::block_on(approvals(&FileStorage::in_folder(&folder))).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(kept.iter().count(), 16);
    }
}
