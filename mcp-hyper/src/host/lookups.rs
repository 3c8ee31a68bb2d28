//! The values that configurations refer to.

use std::env;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcp_proto::Secret;
use mcp_proto::host::config::{
    Answers, ENV_FILE_BYTES, Lookup, PredefinedVariable, ResolvedSpec, ServerEntry,
};
use mcp_proto::host::control::Failure;

use super::failure;
use super::options::Settings;
use super::shared::Shared;
use crate::runtime::{AnyRuntime, Runtime as _};

impl Settings {
    /// Resolves an entry that may start, with fresh values of its variables and secrets.
    pub(super) async fn resolve(
        &self,
        shared: &Shared,
        entry: &Arc<ServerEntry>,
    ) -> Result<ResolvedSpec, Failure> {
        let approvals = shared.with(|state, _| state.approvals.clone());
        let permit = entry
            .permit(&approvals)
            .map_err(|_| failure::permanent("the user has not approved this server of a project"))?;
        let mut answers = Answers::new();
        loop {
            let lookups = permit.unanswered(&answers);
            if lookups.is_empty() {
                break;
            }
            for lookup in lookups {
                let value = self.look_up(entry.clone(), lookup.clone()).await;
                answers.insert(lookup, value);
            }
        }
        permit.resolve(&answers).map_err(|error| failure::of_resolution(&error))
    }
}

/// Looks values up in the environment of this process and in files.
#[derive(Clone, Debug, Default)]
pub(super) struct EnvironmentLookups {
    pub(super) runtime: AnyRuntime,
    /// The project's folder.
    pub(super) folder: Option<PathBuf>,
}

impl EnvironmentLookups {
    /// The value; `None` if it does not exist, or only the user knows it.
    pub(super) async fn find(self, lookup: Lookup) -> Option<Secret> {
        match lookup {
            Lookup::Variable(name) => env::var(name).ok().map(Secret::new),
            Lookup::Predefined(variable) => self.predefined(variable).map(Secret::new),
            Lookup::EnvFile(path) => {
                let path = self.folder.unwrap_or_default().join(path);
                self.runtime.blocking(move || read_bounded(&path)).await.ok()?.map(Secret::new)
            }
            _ => None,
        }
    }

    fn predefined(&self, variable: PredefinedVariable) -> Option<String> {
        let path = |path: PathBuf| path.into_os_string().into_string().ok();
        match variable {
            PredefinedVariable::WorkspaceFolder => self.folder.clone().and_then(path),
            PredefinedVariable::WorkspaceFolderBasename => {
                self.folder.as_deref().and_then(Path::file_name)?.to_str().map(str::to_owned)
            }
            PredefinedVariable::UserHome => env::home_dir().and_then(path),
            PredefinedVariable::WorkingDirectory => env::current_dir().ok().and_then(path),
            PredefinedVariable::PathSeparator => Some(std::path::MAIN_SEPARATOR.to_string()),
            _ => None,
        }
    }
}

/// The content of a regular file that is not too long.
fn read_bounded(path: &Path) -> Option<String> {
    // A pipe would block forever.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(ENV_FILE_BYTES as u64 + 1).read_to_string(&mut text).ok()?;
    (text.len() <= ENV_FILE_BYTES).then_some(text)
}
