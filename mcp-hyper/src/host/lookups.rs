//! The values that configurations refer to.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcp_proto::Secret;
use mcp_proto::host::config::{
    Answers, ENV_FILE_BYTES, Lookup, PredefinedVariable, ResolveError, ResolveErrorKind, ResolvedSpec, Scope,
    ServerEntry,
};
use mcp_proto::host::consent::ApprovalRequest;
use mcp_proto::host::control::Failure;

use super::failure;
use super::files::read_file;
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
        let resolved = permit.resolve(&answers);
        if let Err(ResolveError { kind: ResolveErrorKind::UnapprovedEnvFile, .. }) = &resolved {
            let request = permit.env_file_request(&answers, random_key()?);
            let request = request.map_err(|error| failure::of_resolution(&error))?;
            shared.command(|state, now| state.ask_again(now, entry, request));
        }
        resolved.map_err(|error| failure::of_resolution(&error))
    }
}

impl Settings {
    /// Adds the names in the project's file of variables, if it can be read.
    pub(super) async fn show_env_file(
        &self,
        entry: &Arc<ServerEntry>,
        request: ApprovalRequest,
    ) -> ApprovalRequest {
        let Some(file) = request.env_file().cloned() else { return request };
        let Some(content) = self.look_up(entry.clone(), file).await else { return request };
        let Ok(key) = random_key() else { return request };
        // A mistake in it is an error of the start.
        request.clone().with_env_file(&content, key).unwrap_or(request)
    }
}

/// The key under which the values of a file of variables are hashed.
fn random_key() -> Result<[u8; 16], Failure> {
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(|error| failure::permanent(error.to_string()))?;
    Ok(key)
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
    pub(super) async fn find(self, scope: Scope, lookup: Lookup) -> Option<Secret> {
        match lookup {
            Lookup::Variable(name) => env::var(name).ok().map(Secret::new),
            Lookup::Predefined(variable) => self.predefined(variable).map(Secret::new),
            Lookup::EnvFile(path) => {
                let path = self.folder.unwrap_or_default().join(path);
                self.runtime.blocking(move || read_bounded(&path, scope)).await.ok()?.map(Secret::new)
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

/// The content of a file that is not too long.
fn read_bounded(path: &Path, scope: Scope) -> Option<String> {
    let content = read_file(path, scope, ENV_FILE_BYTES).ok()?;
    String::from_utf8(content).ok().filter(|text| text.len() <= ENV_FILE_BYTES)
}
