//! Logins at the servers of a running host.

use std::future::pending;
use std::sync::{Arc, OnceLock};

use futures_lite::future::or;
use http::Uri;
use mcp_proto::auth::client::{AuthorizationPage, Event, FinishError, Redirect, TokenStatus};
use mcp_proto::front::Error;
use mcp_proto::host::config::{Answers, ResolvedHttp, ResolvedSpec, ServerEntry};
use mcp_proto::host::control::Failure;

#[cfg(feature = "seal")]
use mcp_proto::auth::{Scopes, Sealer};

use super::Host;
use super::events::HostEvent;
use super::settings::{options_failure, permanent_failure};
#[cfg(feature = "seal")]
use crate::auth::{AuthDriver, SealedLogin};
use crate::auth::{AuthHandle, Authorization, LoginError, LoopbackRedirects};

/// An authorization page of a server, which the user opens in a browser: see [`Host::log_in`].
#[derive(Clone)]
#[non_exhaustive]
pub struct LoginPage {
    /// The server's name in the configuration.
    pub server: Arc<str>,
    /// The page. Show its issuer before opening it.
    pub page: AuthorizationPage,
    /// Set before the login starts.
    handle: Arc<OnceLock<AuthHandle>>,
}

impl LoginPage {
    /// Completes the login with the URL that the page has led to, such as one that the user pasted: where the browser is
    /// on another machine, it shows an error at that URL, as nothing listens there.
    ///
    /// # Errors
    /// [`FinishError`], if the URL is not one that this page leads to, or the login is over.
    pub fn finish(&self, redirect: &str) -> Result<(), FinishError> {
        let handle = self.handle.get().ok_or(FinishError::NoPage)?;
        handle.finish(Redirect::parse(redirect.trim()))
    }

    /// Ends the login without a token.
    pub fn cancel(&self) {
        if let Some(handle) = self.handle.get() {
            handle.cancel_page();
        }
    }
}

debug_fields! { LoginPage { server, page } }

/// Why a login at a server of a host failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum HostLoginError {
    /// No such server is configured, or the host was closed.
    UnknownServer,
    /// The server is a program, or [`HostOptions::authorization`](super::HostOptions::authorization) makes none for it.
    NoAuthorization,
    /// The login could not start: the server is not approved, a value of its entry is missing, or the port of the
    /// redirect is in use.
    NotStarted(Failure),
    /// The connection for the login failed. A login that the user or the authorization server refused is such an error
    /// too.
    Connection(Error),
    /// The login ended without a token.
    Login(LoginError),
}

error_text! { HostLoginError:
    UnknownServer => "no such server is configured";
    NoAuthorization => "the host has no authorization for this server";
    NotStarted(failure) => "{}", failure.reason;
    Connection(error) => "{error}";
    Login(error) => "{error}";
}

/// # Logins
impl Host {
    /// Logs in at a server at a URL: connects to it apart from the host's own connection, calls `show` with the
    /// authorization page if one is needed, waits until the user has agreed, and then reconnects the server. Returns the
    /// status of the token; `None` if the server requires no authorization. A token in the store is enough if it is [what
    /// the configuration demands](mcp_proto::auth::client::AuthClient::has_configured_token): of the configured client,
    /// issuer and resource, with the configured scopes.
    ///
    /// The page leads back to a listener on 127.0.0.1, which completes the login, or to a URL that is passed to
    /// [`LoginPage::finish`]. The listener has the port of the [redirect
    /// URI](crate::auth::AuthConfig::redirect_uri), else the `callbackPort` of the entry, else any free one; there is none
    /// if the redirect URI is `https`, or the [authorization](super::HostOptions::authorization) has its own.
    ///
    /// `show` must return quickly. Dropping the future ends the login; a page ends after 10
    /// minutes.
    ///
    /// ```no_run
    /// # async fn example(host: mcp_hyper::host::Host) -> Result<(), mcp_hyper::host::HostLoginError> {
    /// host.log_in("tracker", |login| {
    ///     println!("To log in at {} with {}, open {}", login.server, login.page.issuer, login.page.url);
    /// })
    /// .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`HostLoginError`]. The server stays as it is then.
    pub async fn log_in(
        &self,
        name: &str,
        show: impl FnMut(LoginPage) + Send + 'static,
    ) -> Result<Option<TokenStatus>, HostLoginError> {
        let entry = self.entry(name).ok_or(HostLoginError::UnknownServer)?;
        let closed = async {
            self.shared().wait(|_| false).await;
            Err(HostLoginError::UnknownServer)
        };
        let status = or(self.run_login(&entry, show), closed).await?;
        self.reconnect_after_login(&entry)?;
        Ok(status)
    }

    fn reconnect_after_login(&self, entry: &ServerEntry) -> Result<(), HostLoginError> {
        let reconnected = self.shared().command(|state, now| state.plane.reconnect(now, entry.id()));
        reconnected.map_err(|_| HostLoginError::UnknownServer)
    }

    /// The server of an entry, with the authorization that the application makes for it.
    async fn authorization(
        &self,
        entry: &Arc<ServerEntry>,
    ) -> Result<(ResolvedHttp, Authorization), HostLoginError> {
        let settings = &self.settings;
        let resolved = settings.resolve(self.shared(), entry, &mut Answers::new()).await;
        let resolved = resolved.map_err(HostLoginError::NotStarted)?;
        let ResolvedSpec::Http(server) = resolved else { return Err(HostLoginError::NoAuthorization) };
        let authorization = settings.authorization(entry, &server).ok_or(HostLoginError::NoAuthorization)?;
        if server.client_secret.is_some() && authorization.config.preregistrations.is_empty() {
            return Err(HostLoginError::NotStarted(permanent_failure(
                "the client secret of the configuration needs the client id and the issuer: write \"clientId\" and \"issuer\" beside it",
            )));
        }
        Ok((server, authorization))
    }

    async fn run_login(
        &self,
        entry: &Arc<ServerEntry>,
        mut show: impl FnMut(LoginPage) + Send + 'static,
    ) -> Result<Option<TokenStatus>, HostLoginError> {
        let (shared, settings) = (self.shared().clone(), &self.settings);
        let (server, authorization) = self.authorization(entry).await?;
        let authorization = with_redirects(authorization, &server).map_err(HostLoginError::NotStarted)?;
        let cell = Arc::new(OnceLock::new());
        let (name, handle_of_page): (Arc<str>, _) = (entry.name().into(), cell.clone());
        let authorization = authorization.on_event(move |event| match event {
            Event::NeedsAuthorization(page) => {
                let (page, handle) = (page.clone(), handle_of_page.clone());
                show(LoginPage { server: name.clone(), page, handle });
            }
            Event::SaveFailed(why) => shared.with(|state, _| {
                let error = format!("the tokens could not be stored: {why}").into();
                state.publish(HostEvent::StorageFailed { error });
            }),
            _ => {}
        });
        let options = settings.url_options(entry, settings.client_config(entry, None), &server, Vec::new());
        let (client, driver) = options
            .authorization(authorization)
            .connect(server.url.expose())
            .map_err(|error| HostLoginError::NotStarted(options_failure(&error)))?;
        let handle = driver.auth().ok_or(HostLoginError::NoAuthorization)?;
        cell.get_or_init(|| handle.clone());
        let logging_in = async {
            let status = match client.ready().await {
                Ok(_) => handle.ensure_token().await.map_err(HostLoginError::Login),
                Err(error) => Err(HostLoginError::Connection(error)),
            };
            client.close().await;
            status
        };
        let driving = async {
            // Its error is the one that the client has.
            let _ = driver.await;
            pending().await
        };
        or(logging_in, driving).await
    }
}

/// # Logins that another process finishes (feature `seal`)
#[cfg(feature = "seal")]
impl Host {
    /// Begins a login at a server at a URL, with the settings of its entry, that this or another process finishes within
    /// ten minutes by [`finish_login`](Self::finish_login): see [`AuthHandle::begin_login`]. The page leads back to the
    /// [redirect URI](crate::auth::AuthConfig::redirect_uri) of the
    /// [authorization](super::HostOptions::authorization), where the application receives it.
    ///
    /// ```no_run
    /// use mcp_hyper::auth::{Redirect, Sealer};
    /// use mcp_hyper::host::{Host, HostLoginError};
    ///
    /// /// Returns where the browser goes, and what the web session keeps.
    /// async fn connect(host: &Host, keys: &Sealer, session: &str) -> Result<(String, String), HostLoginError> {
    ///     let login = host.begin_login("notes", keys, session, None).await?;
    ///     Ok((login.page.url, login.sealed))
    /// }
    ///
    /// /// The browser is back, at this or another instance.
    /// async fn callback(
    ///     host: &Host,
    ///     keys: &Sealer,
    ///     (session, sealed): (&str, &str),
    ///     uri: &str,
    /// ) -> Result<(), HostLoginError> {
    ///     host.finish_login("notes", keys, session, sealed, Redirect::parse(uri)).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`HostLoginError`].
    pub async fn begin_login(
        &self,
        name: &str,
        keys: &Sealer,
        session: &str,
        scopes: Option<Scopes>,
    ) -> Result<SealedLogin, HostLoginError> {
        let (_, auth, driver) = self.authorizer(name).await?;
        let begun = driver.run_until(auth.begin_login(keys, session, scopes)).await;
        begun.map_err(HostLoginError::Login)
    }

    /// Finishes a login that this or another process [began](Self::begin_login), once, and reconnects the server: see
    /// [`AuthHandle::finish_login`]. Hosts of other processes with the same store connect the server too, with the next
    /// call.
    ///
    /// # Errors
    /// [`HostLoginError`]. The server stays as it is then.
    pub async fn finish_login(
        &self,
        name: &str,
        keys: &Sealer,
        session: &str,
        sealed: &str,
        redirect: Redirect,
    ) -> Result<TokenStatus, HostLoginError> {
        let (entry, auth, driver) = self.authorizer(name).await?;
        let finished = driver.run_until(auth.finish_login(keys, session, sealed, redirect)).await;
        let status = finished.map_err(HostLoginError::Login)?;
        self.reconnect_after_login(&entry)?;
        Ok(status)
    }

    async fn authorizer(
        &self,
        name: &str,
    ) -> Result<(Arc<ServerEntry>, AuthHandle, AuthDriver), HostLoginError> {
        let entry = self.entry(name).ok_or(HostLoginError::UnknownServer)?;
        let (server, authorization) = self.authorization(&entry).await?;
        let settings = &self.settings;
        let options = settings.url_options(&entry, settings.client_config(&entry, None), &server, Vec::new());
        let (auth, driver) = options
            .authorization(authorization)
            .authorize(server.url.expose())
            .map_err(|error| HostLoginError::NotStarted(options_failure(&error)))?;
        Ok((entry, auth, driver))
    }
}

/// Adds a listener for the redirect, if it is one to this machine.
fn with_redirects(mut authorization: Authorization, server: &ResolvedHttp) -> Result<Authorization, Failure> {
    let config = &mut authorization.config;
    let uri = config.redirect_uri.parse::<Uri>().ok();
    // Any other URI is wrong, which the client says.
    let local = uri.filter(|uri| uri.scheme_str() == Some("http"));
    let Some(uri) = local.filter(|_| authorization.redirects.is_none()) else { return Ok(authorization) };
    let fixed = uri.port_u16();
    let port = fixed.or_else(|| server.oauth.as_ref()?.callback_port).unwrap_or(0);
    let redirects = LoopbackRedirects::bind_port(port).map_err(|error| {
        permanent_failure(format!("could not listen on port {port} for the redirect: {error}"))
    })?;
    if fixed.is_none() {
        config.redirect_uri = redirects.uri();
    }
    Ok(authorization.redirects(redirects))
}
