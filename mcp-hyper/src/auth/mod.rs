//! OAuth: client authorization and token stores, and token verification for servers.

mod authorizer;
mod handle;
mod store;

use std::future::Future;
use std::sync::Arc;

use futures_lite::future::Boxed;
#[cfg(feature = "host")]
use mcp_proto::auth::client::Grant;
use mcp_proto::auth::client::{AssertionRequest, RedirectPaths};

pub use authorizer::AuthDriver;
pub(crate) use authorizer::Authorizer;
#[cfg(feature = "seal")]
pub use handle::SealedLogin;
pub use handle::{AuthHandle, LoginError, LoopbackRedirects};
pub use mcp_proto::auth::Secret;
pub use mcp_proto::auth::client::{AuthConfig, Event, Redirect, TokenStatus};
#[cfg(feature = "seal")]
pub use mcp_proto::auth::{SealKey, Sealer};
#[cfg(feature = "auth-jwt")]
pub use mcp_proto::{auth::server::JwtConfig, front::guard::JwtVerifier};
#[cfg(feature = "server")]
pub use mcp_proto::{
    auth::server::{IntrospectionConfig, Protection},
    front::guard::{Guard, IntrospectionVerifier},
};
#[cfg(feature = "host")]
pub(crate) use store::KnownRecord;
pub use store::{FileStore, MemoryStore, StoreFuture, TokenStore};

type OnEvent = Box<dyn FnMut(&Event) + Send>;
type Assert = Box<dyn FnMut(AssertionRequest) -> Boxed<Result<Secret, String>> + Send>;

/// How a client obtains tokens for its server, and where it stores them.
///
/// Requests that the server refuses with 401, or with 403 for missing scopes, wait until there is a token, and are then
/// sent again with it. All other requests to the server carry the token as well; no other server ever receives it.
/// Discovery, registration and token requests use separate connections: only to addresses that the client
/// [allows](mcp_proto::auth::FetchPolicy::allows), each resolved once and connected to as resolved. With a
/// [proxy](crate::Proxy), the proxy resolves the names and decides which addresses it may connect to.
///
/// ```no_run
/// use mcp_hyper::auth::{Authorization, FileStore, LoopbackRedirects};
/// use mcp_hyper::ClientOptions;
/// use mcp_hyper::mcp_proto::auth::client::{AuthConfig, Event};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let redirects = LoopbackRedirects::bind()?;
/// let config = AuthConfig::new("my host", redirects.uri());
/// let authorization = Authorization::new(config)
///     .store(FileStore::new("/home/me/.local/state/my-host/tokens"))
///     .redirects(redirects)
///     .on_event(|event| {
///         if let Event::NeedsAuthorization(page) = event {
///             eprintln!("to log in at {}, open {}", page.issuer, page.url);
///         }
///     });
/// let (client, driver) =
///     ClientOptions::new("my-host", "1.0.0").authorization(authorization).connect("https://example.com/mcp")?;
/// # drop((client, driver));
/// # Ok(())
/// # }
/// ```
#[must_use = "authorization does nothing until a client is given it"]
pub struct Authorization {
    pub(crate) config: AuthConfig,
    store: Arc<dyn TokenStore>,
    account: Option<String>,
    on_event: Option<OnEvent>,
    assert: Option<Assert>,
    pub(crate) redirects: Option<LoopbackRedirects>,
}

impl Authorization {
    /// An authorization with this configuration and in-memory tokens. A login needs [`on_event`](Self::on_event),
    /// through which the application learns which page to open, or [`AuthHandle::begin_login`].
    pub fn new(config: AuthConfig) -> Self {
        Self {
            config,
            store: Arc::new(MemoryStore::new()),
            account: None,
            on_event: None,
            assert: None,
            redirects: None,
        }
    }

    setters! {
        /// Sets the token store. Its keys are server URLs as of
        /// [`canonical_resource`](mcp_proto::auth::canonical_resource). Default: a separate [`MemoryStore`] for this
        /// client.
        pub fn store(self, store: impl TokenStore) { self.store = Arc::new(store) }

        /// Sets the account, where one store has tokens of several accounts at one server: the key is then the server's
        /// URL, `#` and the account. Default: none.
        pub fn account(self, account: impl Into<String>) { self.account = Some(account.into()) }

        /// Sets the function that receives every event, above all the [page](Event::NeedsAuthorization) for the user's
        /// consent. The driver calls `tell`; it must return quickly.
        pub fn on_event(self, tell: impl FnMut(&Event) + Send + 'static) { self.on_event = Some(Box::new(tell)) }
    }

    /// Whether the server at this URL gets tokens without a page for the user: `None` if the store cannot tell, or the
    /// grant has no page.
    #[cfg(feature = "host")]
    pub(crate) async fn has_tokens(self, server: &str) -> Option<bool> {
        let Ok(resource) = mcp_proto::auth::canonical_resource(server) else { return Some(false) };
        let key = store_key(&resource, self.account.as_deref());
        match self.store.load(&key).await {
            Ok(Some(stored)) if stored.record.has_tokens() => Some(true),
            Ok(_) if matches!(self.config.grant, Grant::AuthorizationCode) => Some(false),
            Ok(_) | Err(_) => None,
        }
    }

    /// Receives redirects from login pages on this listener, while a page is open. Without it the application calls
    /// [`AuthHandle::finish`].
    ///
    /// If the [redirect URI](AuthConfig::redirect_uri) is the [listener's own](LoopbackRedirects::uri), every issuer
    /// whose responses do not name it gets [a separate path](RedirectPaths::PerIssuer) below it.
    pub fn redirects(mut self, redirects: LoopbackRedirects) -> Self {
        if self.config.redirect_uri == redirects.uri() {
            self.config.redirect_paths = RedirectPaths::PerIssuer;
        }
        self.redirects = Some(redirects);
        self
    }

    /// Obtains assertions from the host, for the grants that need them. An error's text is shown to the user.
    pub fn assertions<F: Future<Output = Result<Secret, String>> + Send + 'static>(
        mut self,
        mut ask: impl FnMut(AssertionRequest) -> F + Send + 'static,
    ) -> Self {
        self.assert = Some(Box::new(move |request| Box::pin(ask(request))));
        self
    }
}

/// The key of the tokens of an account at the server of this canonical URL.
fn store_key(resource: &str, account: Option<&str>) -> String {
    match account {
        Some(account) => format!("{resource}#{account}"),
        None => resource.to_owned(),
    }
}

debug_fields! { Authorization { config, account, redirects } }
