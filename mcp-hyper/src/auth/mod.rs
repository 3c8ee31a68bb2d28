//! OAuth: the client's authorization and token stores, and what servers that require tokens need.

mod authorizer;
mod handle;
mod redirects;
mod store;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_lite::future::Boxed;
use mcp_proto::auth::client::{AssertionRequest, RedirectPaths};

pub(crate) use authorizer::{Authorizer, ExchangeAction};
pub use handle::{AuthHandle, LoginError};
pub use mcp_proto::auth::Secret;
pub use mcp_proto::auth::client::{AuthConfig, Event};
#[cfg(feature = "auth-jwt")]
pub use mcp_proto::auth::server::JwtConfig;
#[cfg(feature = "server")]
pub use mcp_proto::auth::server::{IntrospectionConfig, Protection};
#[cfg(feature = "auth-jwt")]
pub use mcp_proto::front::guard::JwtVerifier;
#[cfg(feature = "server")]
pub use mcp_proto::front::guard::{Guard, IntrospectionVerifier};
pub use redirects::LoopbackRedirects;
pub use store::{FileStore, MemoryStore, StoreFuture, TokenStore};

type OnEvent = Box<dyn FnMut(&Event) + Send>;
type Assert = Box<dyn FnMut(AssertionRequest) -> Boxed<Result<Secret, String>> + Send>;

/// How a client gets tokens for its server, and where it keeps them.
///
/// Requests that the server refuses with 401, or with 403 because they need more scopes, wait until there is a token, and
/// go out again with it. Whatever else goes to the server carries the token as well, and no other server is ever sent
/// it. Discovery, registration and token requests go over connections of their own: only to addresses that the machine
/// [allows](mcp_proto::auth::FetchPolicy::allows), each looked up once and connected to as it was found. Where a
/// [proxy](crate::Proxy) carries them it is the proxy that looks names up, and what it may reach is for the proxy to say.
///
/// ```no_run
/// use mcp_hyper::auth::{Authorization, FileStore, LoopbackRedirects};
/// use mcp_hyper::ClientOptions;
/// use mcp_proto::auth::client::{AuthConfig, Event};
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
#[must_use = "nobody is asked for tokens unless a client is given this"]
pub struct Authorization {
    config: AuthConfig,
    store: Arc<dyn TokenStore>,
    account: Option<String>,
    on_event: Option<OnEvent>,
    assert: Option<Assert>,
    redirects: Option<LoopbackRedirects>,
}

impl Authorization {
    /// Tokens as the configuration says, kept in memory. Nobody opens a page unless [events](Self::on_event) are heard.
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

    /// Where tokens are kept, under the server's URL as
    /// [`canonical_resource`](mcp_proto::auth::canonical_resource) has it. Default: a [`MemoryStore`] of this client's own.
    pub fn store(mut self, store: impl TokenStore) -> Self {
        self.store = Arc::new(store);
        self
    }

    /// Whose tokens these are, where one store has several of one server: they are kept under the server's URL, `#` and
    /// this. Default: nobody's in particular.
    pub fn account(mut self, account: impl Into<String>) -> Self {
        self.account = Some(account.into());
        self
    }

    /// Is told what happens; above all which [page](Event::NeedsAuthorization) a person has to agree on. It is called by
    /// the driver, and should be quick.
    pub fn on_event(mut self, tell: impl FnMut(&Event) + Send + 'static) -> Self {
        self.on_event = Some(Box::new(tell));
        self
    }

    /// Listens for where pages lead back to, while one is open. Without it [`AuthHandle::finish`] is to be told.
    ///
    /// If the [redirect URI](AuthConfig::redirect_uri) is the [listener's own](LoopbackRedirects::uri), every issuer that
    /// does not name itself in its answers gets [a path of its own](RedirectPaths::PerIssuer) below it.
    pub fn redirects(mut self, redirects: LoopbackRedirects) -> Self {
        if self.config.redirect_uri == redirects.uri() {
            self.config.redirect_paths = RedirectPaths::PerIssuer;
        }
        self.redirects = Some(redirects);
        self
    }

    /// Gets assertions that only the host has, for the grants that need them. An error is shown to people.
    pub fn assertions<F>(mut self, mut ask: impl FnMut(AssertionRequest) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<Secret, String>> + Send + 'static,
    {
        self.assert = Some(Box::new(move |request| Box::pin(ask(request))));
        self
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization")
            .field("config", &self.config)
            .field("account", &self.account)
            .field("redirects", &self.redirects)
            .finish_non_exhaustive()
    }
}
