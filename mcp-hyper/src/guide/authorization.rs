//! Authorization: a client that logs in, and a server that requires tokens.
//!
//! MCP uses OAuth 2.1 over HTTP. An *authorization server* (the issuer), such as Keycloak, shows the login page and
//! issues tokens. Your server checks them and never sees a password. [The
//! specification](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization) has the details;
//! these crates do the discovery, the registration, the exchange of codes and the refresh.
//!
//! A server with a fixed key needs none of it: [`ClientOptions::header`](crate::ClientOptions::header) sends one.
//!
//! # A client (feature `auth`)
//!
//! ```no_run
//! use mcp_hyper::ClientOptions;
//! use mcp_hyper::auth::{AuthConfig, Authorization, Event, FileStore, LoopbackRedirects};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let redirects = LoopbackRedirects::bind()?;
//! let authorization = Authorization::new(AuthConfig::new("my program", redirects.uri()))
//!     .store(FileStore::new("/home/ann/.local/state/my-program"))
//!     .redirects(redirects)
//!     .on_event(|event| {
//!         if let Event::NeedsAuthorization(page) = event {
//!             println!("{} asks you to agree: {}", page.issuer, page.url);
//!         }
//!     });
//! let (client, driver) =
//!     ClientOptions::new("my-program", "1.0.0").authorization(authorization).connect("https://notes.example.com/mcp")?;
//! # drop((client, driver));
//! # Ok(())
//! # }
//! ```
//!
//! A call that needs a login waits until the user has agreed on the page, and is then sent again. The program opens the
//! page, after it has shown the user whose it is. Tokens are stored and refreshed; several processes may share a store.
//!
//! | Without a user | Use |
//! |---|---|
//! | client credentials, a key of the client, a workload identity | `Grant` of `mcp_proto::auth::client`, in the configuration |
//! | no loopback port | `AuthHandle::finish` with the URL that the user pastes |
//! | from the command line | `mcpio login URL`, `whoami`, `logout` |
//! | a browser that comes back to another process | `AuthHandle::begin_login` and `finish_login`: see below |
//! | an application that only starts programs | the command `mcpio connect URL` in its configuration |
//!
//! | An authorization server that | Needs |
//! |---|---|
//! | must be one that you know | its host in `AuthConfig::allowed_hosts`, or `oauth.allowedHosts` of a host's entry |
//! | demands the granted scopes in each renewal, such as Microsoft Entra | its issuer in `AuthConfig::refresh_scope_issuers` |
//!
//! # A web application (features `auth` and `seal`)
//!
//! A web application calls MCP servers for its users. Its page `/connect` sends the browser to the issuer, which sends it
//! back to `/callback`: to any instance, perhaps after a restart. So no process waits for the login: it is stored in
//! between, sealed.
//!
//! ```
//! use std::error::Error;
//!
//! use mcp_hyper::auth::{
//!     AuthConfig, Authorization, FileStore, Redirect, SealKey, Sealer, TokenStatus,
//! };
//! use mcp_hyper::mcp_proto::auth::client::ApplicationType;
//! use mcp_hyper::ClientOptions;
//!
//! const SERVER: &str = "https://notes.example.com/mcp";
//!
//! /// What all instances have in common.
//! struct App {
//!     /// The key of this month and that of the last one.
//!     keys: Sealer,
//!     /// A folder of all instances, or your own `TokenStore` on their database.
//!     store: FileStore,
//! }
//!
//! /// The web session of a user who is logged in at this application, as its web framework keeps it.
//! struct WebSession {
//!     /// Secret, and only in this browser's cookie.
//!     id: String,
//!     user: String,
//!     pending_login: Option<String>,
//! }
//!
//! impl App {
//!     fn new(key: [u8; 32], last_key: [u8; 32]) -> Self {
//!         Self {
//!             keys: Sealer::new(SealKey::new(key), [SealKey::new(last_key)]),
//!             store: FileStore::new("/var/lib/my-app/tokens"),
//!         }
//!     }
//!
//!     /// Options of a client for this user. It opens no page: a call without a token fails.
//!     fn client(&self, user: &str) -> ClientOptions {
//!         let mut config = AuthConfig::new("My app", "https://my-app.example.com/callback");
//!         config.client.application_type = ApplicationType::Web;
//!         let authorization = Authorization::new(config).store(self.store.clone()).account(user);
//!         ClientOptions::new("my-app", "1.0.0").authorization(authorization)
//!     }
//!
//!     /// `GET /connect`: returns where to redirect the browser.
//!     async fn connect(&self, session: &mut WebSession) -> Result<String, Box<dyn Error>> {
//!         let (auth, driver) = self.client(&session.user).authorize(SERVER)?;
//!         let login = driver.run_until(auth.begin_login(&self.keys, &session.id, None)).await?;
//!         session.pending_login = Some(login.sealed);
//!         Ok(login.page.url)
//!     }
//!
//!     /// `GET /callback`, in any instance: `uri` is the path and the query of the request.
//!     async fn callback(&self, session: &mut WebSession, uri: &str) -> Result<TokenStatus, Box<dyn Error>> {
//!         let sealed = session.pending_login.take().ok_or("no login was begun in this browser")?;
//!         let (auth, driver) = self.client(&session.user).authorize(SERVER)?;
//!         let finished = auth.finish_login(&self.keys, &session.id, &sealed, Redirect::parse(uri));
//!         Ok(driver.run_until(finished).await?)
//!     }
//! }
//! # let app = App::new([1; 32], [2; 32]);
//! # let _ = (App::connect, App::callback, app.client("ann"));
//! ```
//!
//! From then on every client of this user with this store has the token: `self.client(user).connect(SERVER)`. Where a call
//! fails because the server requires a login or more scopes, send the browser to `/connect`, with those scopes as the
//! last argument of `begin_login`.
//!
//! Where users add servers themselves, set `config.redirect_paths` to `RedirectPaths::PerIssuer` and serve every path below
//! `/callback`: an issuer that does not name itself in redirects is then known by its path. `Host::begin_login` and
//! `finish_login` do the same for a server of a host, with the settings of its entry.
//!
//! | A redirect | Ends as |
//! |---|---|
//! | of another browser, or of another server | `LoginError::NotFinished(FinishError::OtherLogin)` |
//! | after ten minutes | `LoginError::NotFinished(FinishError::Expired)` |
//! | of another page | `LoginError::NotFinished(FinishError::StateMismatch)` |
//! | of another issuer (a mix-up attack) | `LoginError::Failed(AuthError::RedirectIssuerMismatch)` |
//! | a second time | `LoginError::Failed(AuthError::LoginUsed)` |
//!
//! The token store guarantees that a login is finished once: its compare-and-swap marks the login as used before the code
//! is sent. So all instances share the store as well as the keys.
//!
//! # A server (feature `auth-jwt`)
//!
//! ```no_run
//! use mcp_hyper::auth::{Guard, JwtConfig, JwtVerifier, Protection};
//! use mcp_hyper::{Context, HandlerError, Router, ServerOptions};
//! # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Note { id: u32 }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let issuer = "https://login.example.com";
//! let protection = Protection::new("https://notes.example.com/mcp", issuer)?.required(["notes:read"])?;
//! let router = Router::new("notes", "1.0.0").tool("erase", "Erases a note", async |note: Note, cx: Context| {
//!     cx.require(["notes:write"])?;
//!     let user = cx.principal().map_or("someone", |principal| principal.as_str());
//!     Ok::<_, HandlerError>(format!("{user} has erased note {}", note.id))
//! });
//! let guard = Guard::new(protection, JwtVerifier::new(JwtConfig::new(issuer)));
//! # smol::block_on(async {
//! let listener = smol::net::TcpListener::bind("127.0.0.1:8080").await?;
//! let (_server, driver) = ServerOptions::new(router).protect(guard).listen(listener);
//! # Ok(driver.await?)
//! # })
//! # }
//! ```
//!
//! Requests without a valid token get 401 with a challenge, whose metadata name the issuer, so that clients find the
//! login page. `Context::require` answers 403 with the required scopes, and the client asks the user again.
//! `Router::tool_scopes` declares them for a whole tool. `Context::principal` is the user: sessions, tasks and
//! quotas are bound to it.
//!
//! | Tokens are | Use |
//! |---|---|
//! | signed (JWT) | `JwtVerifier`: fetches and caches the issuer's keys; feature `auth-jwt` |
//! | opaque | `IntrospectionVerifier`: asks the issuer; feature `auth` |
//! | your own | a function, as `Guard` documents; feature `auth` |
//!
//! Streams of changes and WebSocket connections end when their token expires. `Guard::reverify_every` also ends those of
//! revoked tokens, and of opaque tokens whose issuer names no expiry.
//!
//! The name in `Protection::new` is the URL by which clients know the server. Tokens for another resource are refused.
//! `tests/authorization` runs both sides against a real authorization server.
