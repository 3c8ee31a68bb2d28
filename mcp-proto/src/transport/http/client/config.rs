//! Configuration of an HTTP client.

use core::time::Duration;

use crate::backoff::Backoff;
use crate::consent::Trust;
use crate::peer::client::ClientConfig;
use crate::prelude::*;
use crate::redact::url_without_secrets;

config! {
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
    #[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
    pub struct HttpClientConfig {
        /// The configuration of the client independent of HTTP.
        pub client: ClientConfig = client,
        /// The URL of the server's endpoint: `http` or `https`. A fragment is omitted.
        pub url: String = url.into(),
        /// The seed for the jitter of delays; two clients should not use the same. Default 0.
        pub seed: u64 = 0,
        /// Whether to open a stream for the messages that a legacy server sends outside requests. Default: yes, if
        /// offered.
        pub listen: ListenPolicy = ListenPolicy::default(),
        /// What to do if the server demands authorization. Default: the request ends with the refusal.
        pub authorization: UnauthorizedPolicy = UnauthorizedPolicy::default(),
        /// The delays between retries, and the number of attempts.
        pub backoff: Backoff = Backoff::default(),
        /// The delay before the client resumes a stream that broke off, if the server did not set one.
        ///
        /// Default 1 s, as in other clients.
        pub retry: Duration = Duration::from_secs(1),
        /// Whether an unreachable server is retried while connecting.
        ///
        /// A server is unreachable while its host is unknown, refuses connections or presents an invalid certificate.
        ///
        /// Default: no, since a mistake in the URL is the most likely cause and should be reported at once. Connecting
        /// to a host that was reached before is always retried.
        pub retry_unreachable: bool = false,
        /// Whether to read event streams that consist of `result` fragments and end with `complete` or `error`.
        ///
        /// No revision of the protocol defines them. Default: no.
        pub chunked_results: bool = false,
        /// Whether the annotations of the server's tools are believed: then a lost call of a tool that is declared
        /// read-only or idempotent is sent again ([`ReissuePolicy::WhereSafe`](crate::peer::ReissuePolicy::WhereSafe)).
        ///
        /// Default: untrusted, as the specification requires of a server that the application does not know.
        pub annotations: Trust = Trust::Untrusted,
        /// Whether a [known modern era](ClientConfig::known_era) is believed without the probe, which saves a round
        /// trip.
        ///
        /// The capabilities of the server are then unknown, and no request is refused for a missing one. A server that
        /// answers as no modern server does is detected again.
        ///
        /// Default: no.
        pub skip_known_probe: bool = false,
    }

    /// Creates a configuration with every default.
    pub fn new(client: ClientConfig, url: impl Into<String>);
}

debug_fields! { HttpClientConfig(self) {
    client = self.client,
    // Parts of it may be secret.
    url = url_without_secrets(&self.url),
    seed = self.seed,
    listen = self.listen,
    authorization = self.authorization,
    backoff = self.backoff,
    retry = self.retry,
    retry_unreachable = self.retry_unreachable,
    chunked_results = self.chunked_results,
    annotations = self.annotations,
    skip_known_probe = self.skip_known_probe,
} }

/// Whether to keep a stream open for the messages that a legacy server sends outside requests.
///
/// <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#listening-for-messages-from-the-server>
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum ListenPolicy {
    /// Request the stream once the session is open. A server that does not offer it works just as well.
    #[default]
    IfOffered,
    /// Never request the stream.
    Never,
}

/// How the client handles an exchange that the server refuses for lack of authorization.
///
/// Such a refusal is a 401, or a 403 with a challenge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum UnauthorizedPolicy {
    /// End the request with the refusal.
    #[default]
    Report,
    /// Park the exchange and report it as [`Action::AuthorizationRequired`](super::Action::AuthorizationRequired).
    ///
    /// It stays parked until [`resume`](super::HttpClient::resume) or [`refuse`](super::HttpClient::refuse). The hard
    /// timeout of the request still counts.
    Park,
}
