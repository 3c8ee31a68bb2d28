//! How a client behaves over HTTP.

use alloc::string::String;
use core::fmt;
use core::time::Duration;

use crate::backoff::Backoff;
use crate::peer::client::ClientConfig;

use super::address::RedactedUrl;
use super::authorization::UnauthorizedPolicy;

/// The configuration of an [`HttpClient`](super::HttpClient).
///
/// ```
/// use mcp_proto::transport::http::client::{HttpClientConfig, ListenPolicy};
/// use mcp_proto::peer::client::ClientConfig;
/// use mcp_proto::schema::Implementation;
///
/// let client = ClientConfig::new(Implementation::new("my-host", "1.0.0"));
/// let mut config = HttpClientConfig::new(client, "https://example.com/mcp");
/// config.listen = ListenPolicy::Never;
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpClientConfig {
    /// What does not depend on the transport.
    pub client: ClientConfig,
    /// The server's endpoint: `http` or `https`. A fragment is left out.
    pub url: String,
    /// What the jitter of the pauses is derived from; two clients should not have the same. Default 0.
    pub seed: u64,
    /// Whether to listen to what a legacy server says of its own accord. Default: yes.
    pub listen: ListenPolicy,
    /// What to do where the server wants to know more of who asks. Default: the request ends with that.
    pub authorization: UnauthorizedPolicy,
    /// The pauses before something is tried again, and how often that is.
    pub backoff: Backoff,
    /// How long to wait before a stream that broke off is asked for again, if the server did not say. Default 1 s, as
    /// other clients do.
    pub retry: Duration,
    /// How long the GET of HTTP+SSE (2024-11-05) waits for the head of its answer, and then again for the `endpoint`
    /// event. Default 5 s.
    pub legacy_sse_timeout: Duration,
    /// Whether connecting is retried while the server's host is unknown, refuses connections or shows a certificate that
    /// is not accepted. Default: no, since a mistake in the URL is the most likely cause and should be reported at once.
    /// A host that was reached before is always retried.
    pub retry_unreachable: bool,
    /// Whether to understand event streams that consist of `result` fragments and end with `complete` or `error`, which
    /// no revision of the protocol has. Default: no.
    pub chunked_results: bool,
}

impl HttpClientConfig {
    /// A configuration with every default.
    pub fn new(client: ClientConfig, url: impl Into<String>) -> Self {
        Self {
            client,
            url: url.into(),
            seed: 0,
            listen: ListenPolicy::default(),
            authorization: UnauthorizedPolicy::default(),
            backoff: Backoff::default(),
            retry: Duration::from_secs(1),
            legacy_sse_timeout: Duration::from_secs(5),
            retry_unreachable: false,
            chunked_results: false,
        }
    }
}

impl fmt::Debug for HttpClientConfig {
    /// Without the parts of the URL that may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            client,
            url,
            seed,
            listen,
            authorization,
            backoff,
            retry,
            legacy_sse_timeout: events_timeout,
            retry_unreachable,
            chunked_results: dialect_002,
        } = self;
        f.debug_struct("HttpClientConfig")
            .field("client", client)
            .field("url", &RedactedUrl(url))
            .field("seed", seed)
            .field("listen", listen)
            .field("authorization", authorization)
            .field("backoff", backoff)
            .field("retry", retry)
            .field("events_timeout", events_timeout)
            .field("retry_unreachable", retry_unreachable)
            .field("dialect_002", dialect_002)
            .finish()
    }
}

/// Whether a stream is kept open for what a legacy server says of its own accord.
///
/// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#listening-for-messages-from-the-server>
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListenPolicy {
    /// It is asked for once the session is open; a server that does not offer it is no worse for it.
    #[default]
    IfOffered,
    /// It is never asked for.
    Never,
}
