//! Warnings about the login, the folder and the variables of a server.

use alloc::vec::Vec;

use super::ApprovalWarning;
use crate::host::config::{Answers, HttpSpec, Lookup, Resolver, Scope, ServerEntry, TransportSpec};

/// The parts of an entry that deserve a second look, beside its program or URL.
pub(super) fn warnings(entry: &ServerEntry) -> Vec<ApprovalWarning> {
    let mut warnings = Vec::new();
    if let TransportSpec::Http(http) = &entry.spec().transport {
        match entry.source().scope {
            Scope::Project => {
                warnings.extend(chosen_members(http).map(ApprovalWarning::ChoosesLogin));
                warnings.extend((!http.url.is_literal()).then_some(ApprovalWarning::MayHaveLogin));
            }
            Scope::User => {
                let foreign = entry.spec().foreign_resource();
                warnings.extend(foreign.map(|resource| ApprovalWarning::ForeignResource(resource.into())));
            }
        }
    }
    warnings
}

/// The file of variables that the request shows.
pub(super) fn env_file(entry: &ServerEntry) -> Option<Lookup> {
    Resolver::new(entry, &Answers::new()).project_env_file()
}

/// The members by which an entry decides where and as what the user logs in.
fn chosen_members(http: &HttpSpec) -> impl Iterator<Item = &'static str> {
    let oauth = http.oauth.as_ref();
    let member = |name, is_written| Some(name).filter(|_| is_written);
    [
        member("issuer", oauth.is_some_and(|oauth| oauth.issuer.is_some())),
        member("clientId", oauth.is_some_and(|oauth| oauth.client_id.is_some())),
        member("resource", oauth.is_some_and(|oauth| oauth.resource.is_some())),
    ]
    .into_iter()
    .flatten()
}
