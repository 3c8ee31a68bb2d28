//! The headers of a server at a URL, whose variables are looked up again after status 401.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_proto::Secret;
use mcp_proto::front::SendHandlers;
use mcp_proto::host::config::{Answers, Lookup, ResolvedHttp, ResolvedSpec, ServerEntry, TransportSpec};

use super::settings::Settings;
use super::shared::Shared;
use crate::ClientOptions;
use crate::runtime::AnyRuntime;

/// The values of one connection, and what looks them up again.
pub(super) struct FreshHeaders {
    pub(super) shared: Arc<Shared>,
    pub(super) settings: Arc<Settings>,
    pub(super) entry: Arc<ServerEntry>,
    /// The values with which the connection was made.
    pub(super) answers: Answers,
}

impl FreshHeaders {
    /// Makes a client look the variables of its headers up after status 401, if they have any.
    pub(super) fn add_to(
        self,
        options: ClientOptions<SendHandlers, AnyRuntime>,
        server: &ResolvedHttp,
    ) -> ClientOptions<SendHandlers, AnyRuntime> {
        let variables: Arc<[Lookup]> = self.variables().into();
        if variables.is_empty() {
            return options;
        }
        let mut first = header_map(server);
        let source = Arc::new(self);
        options.headers_from(move || {
            let (first, source, variables) = (first.take(), source.clone(), variables.clone());
            async move {
                match first {
                    Some(headers) => Ok(headers),
                    None => source.look_up(&variables).await,
                }
            }
        })
    }

    /// The variables in the headers. An input is not among them: only a start asks the user.
    fn variables(&self) -> Vec<Lookup> {
        let TransportSpec::Http(http) = &self.entry.spec().transport else { return Vec::new() };
        let lookups = http.headers.values().flat_map(|value| value.lookups());
        let variables = lookups.filter(|lookup| matches!(lookup, Lookup::Variable(_)));
        // A project's file may give a variable its value.
        variables.filter(|lookup| self.answers.contains(lookup)).cloned().collect()
    }

    async fn look_up(&self, variables: &[Lookup]) -> Result<HeaderMap, String> {
        let mut answers = self.answers.clone();
        for variable in variables {
            let value = self.settings.look_up(self.entry.clone(), variable.clone()).await;
            answers.insert(variable.clone(), value);
        }
        let resolved = self.settings.resolve_with(&self.shared, &self.entry, &mut answers).await;
        match resolved.map_err(|failure| failure.reason)? {
            ResolvedSpec::Http(server) => {
                header_map(&server).ok_or_else(|| "a header is not valid in HTTP".to_owned())
            }
            ResolvedSpec::Stdio(_) => Err("the server is a program".to_owned()),
        }
    }
}

/// The headers of a server; `None` if one is not valid in HTTP.
fn header_map(server: &ResolvedHttp) -> Option<HeaderMap> {
    let convert = |(name, value): (&String, &Secret)| {
        Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value.expose()).ok()?))
    };
    server.headers.iter().map(convert).collect()
}
