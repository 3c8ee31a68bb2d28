//! The `_meta` of the client's requests.

use alloc::borrow::Cow;

use crate::peer::encode::{MetaEntries, ProtocolMeta};
use crate::peer::{RequestOptions, TaskMode};
use crate::schema::{ClientCapability, Era, LoggingLevel, Revision};

use super::ClientConfig;

/// The entries that the client adds to the `_meta` of its requests.
#[derive(Debug)]
pub(super) struct RequestMeta {
    /// The defaults of requests that set no option of their own.
    tasks: TaskMode,
    log_level: Option<LoggingLevel>,
    /// The protocol's entries, if the server is a modern one.
    protocol: Option<ModernMeta>,
}

#[derive(Debug)]
struct ModernMeta {
    /// For requests that may become tasks.
    tasks: ProtocolMeta,
    /// For all others.
    no_tasks: ProtocolMeta,
}

impl RequestMeta {
    pub(super) fn new(config: &ClientConfig) -> Self {
        Self { tasks: config.tasks, log_level: config.log_level, protocol: None }
    }

    /// Encodes the entries for a server that is now known.
    pub(super) fn set_server(&mut self, config: &ClientConfig, era: Era, revision: Revision) {
        self.protocol = (era == Era::Modern).then(|| ModernMeta {
            tasks: protocol_meta(config, revision, true),
            no_tasks: protocol_meta(config, revision, false),
        });
    }

    /// The entries of a request with these options; `progress` is its progress token.
    pub(super) fn entries<'a>(
        &'a self,
        progress: Option<i64>,
        options: &'a RequestOptions,
    ) -> MetaEntries<'a> {
        let never = options.task.unwrap_or(self.tasks) == TaskMode::Never;
        MetaEntries {
            protocol: self.protocol.as_ref().map(|meta| if never { &meta.no_tasks } else { &meta.tasks }),
            progress,
            //= C9.14 "Log messages only if asked by `_meta["io.modelcontextprotocol/logLevel"]` on that request"
            log_level: options.log_level.or(self.log_level),
            options: Some(&options.meta),
            subscription: None,
        }
    }
}

/// Encodes the protocol's entries of a modern request that may become a task, or may not.
pub(super) fn protocol_meta(config: &ClientConfig, revision: Revision, tasks: bool) -> ProtocolMeta {
    let ClientConfig { info, send_info, capabilities, .. } = config;
    let mut capabilities = Cow::Borrowed(capabilities);
    if tasks {
        //= C14.1 "Declare `io.modelcontextprotocol/tasks` on each request"
        capabilities = Cow::Owned(capabilities.into_owned().with(ClientCapability::TasksExtension));
    }
    ProtocolMeta::new(revision, send_info.then_some(info), &capabilities)
}
