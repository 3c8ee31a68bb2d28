//! Logins: the authorization of a command, by stored tokens or on a page, and the token store.

use std::borrow::Cow;
use std::env;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mcp_hyper::auth::{AuthHandle, Authorization, FileStore, LoopbackRedirects, TokenStore as _};
use mcp_proto::HumanDuration;
use mcp_proto::adapter::{Clock as _, SystemClock};
use mcp_proto::auth::client::{
    AuthConfig, AuthorizationPage, ClientCredentials, DpopKey, Event, FinishError, Preregistration, Redirect,
    TokenStatus,
};
use mcp_proto::auth::{PrivateNetworks, Scopes, Secret, TokenKind, canonical_resource};
use mcp_proto::host::config::ResolvedHttp;

use crate::error::{CommandError, Result};
use crate::options::{CommonOptions, LoginOptions};
use crate::server_requests::{TerminalPrompt, is_person_present};
use crate::show;
use crate::terminal::{GOOD, NAME, QUIET, Screen, Text, styled};

/// A login on a page, while it goes on.
#[derive(Default)]
pub(crate) struct PageLogin {
    /// The driver's handle, once there is one: for a redirect that the user pastes.
    pub(crate) handle: OnceLock<AuthHandle>,
    /// Why its tokens could not be stored.
    pub(crate) save_error: OnceLock<String>,
}

/// Authorization that opens the page of a login in a browser, or only prints it.
pub(crate) fn on_page(
    login: &LoginOptions,
    common: &CommonOptions,
) -> Result<(Authorization, Arc<PageLogin>)> {
    let listening = CommandError::server_of("could not listen for the redirect");
    let redirects = LoopbackRedirects::bind_port(login.port).map_err(listening)?;
    let mut config = config(common, redirects.uri())?;
    config.scopes = login.scope.as_deref().map(Scopes::parse);
    let browser = !login.no_browser;
    let login = Arc::new(PageLogin::default());
    let of_events = login.clone();
    let authorization =
        Authorization::new(config).store(store(common)?).redirects(redirects).on_event(move |event| {
            if let Event::SaveFailed(why) = event {
                of_events.save_error.get_or_init(|| why.clone());
            }
            let login = of_events.clone();
            let finish = move |redirect: &str| {
                let handle = login.handle.get().ok_or(FinishError::NoPage)?;
                handle.finish(Redirect::parse(redirect))
            };
            print_event(event, browser, Box::new(finish));
        });
    Ok((authorization, login))
}

/// Prints the end of a login at a server.
pub(crate) fn print_status(server: &str, status: Option<&TokenStatus>, screen: &mut Screen) -> Result {
    match status {
        Some(status) => {
            screen.line(styled(GOOD, "Logged in").and(" ").and(styled(QUIET, server)))?;
            show::facts(screen, &token_facts(status))?;
        }
        None => {
            screen.line(format!("{server} does not require authorization: there is no need to log in."))?;
        }
    }
    Ok(())
}

pub(crate) fn token_facts(status: &TokenStatus) -> Vec<(&'static str, String)> {
    let mut facts = vec![("issuer", status.issuer.clone()), ("client", status.client_id.clone())];
    facts.extend(status.scopes.as_ref().map(|scopes| ("scope", scopes.to_string())));
    let now = SystemClock::new().unix_time().since_epoch();
    let ends = match status.expires.map(|end| end.since_epoch()) {
        None => "at an unknown time".to_owned(),
        Some(end) if end <= now => "it has expired".to_owned(),
        Some(end) => format!("in {}", HumanDuration(Duration::from_secs((end - now).as_secs()))),
    };
    let renewable = if status.has_refresh { ", and is renewed automatically" } else { "" };
    facts.push(("ends", format!("{ends}{renewable}")));
    facts.push(("token", token_kind(status).to_owned()));
    facts
}

pub(crate) fn token_kind(status: &TokenStatus) -> &'static str {
    match status.kind {
        TokenKind::Dpop => "DPoP",
        _ => "Bearer",
    }
}

fn print_event(event: &Event, browser: bool, finish: Finish) {
    let mut screen = Screen::messages();
    // If this fails, nothing can be done about it.
    let _ = match event {
        Event::NeedsAuthorization(page) => return show_page(page, browser, finish),
        Event::Tolerated(deviation) => screen.line(deviation.to_string()),
        Event::SaveFailed(why) => screen.line(format!("The tokens could not be stored: {why}")),
        _ => Ok(()),
    };
}

/// Completes a login with the URL that its page has led to.
type Finish = Box<dyn Fn(&str) -> Result<(), FinishError> + Send>;

/// Prints a page, and opens it in a browser. Without a browser here, reads the URL that the page has led to.
pub(crate) fn show_page(page: &AuthorizationPage, browser: bool, finish: Finish) {
    if browser {
        open(page);
    }
    // Without this output the user cannot log in, and the page times out.
    let _ = ask_to_agree(&mut Screen::messages(), page, browser);
    if !browser && is_person_present() {
        // The page may be completed otherwise: nothing waits for this thread.
        smol::unblock(move || read_redirect(&mut TerminalPrompt::from_terminal(), finish)).detach();
    }
}

/// Reads URLs until one completes the login.
fn read_redirect(person: &mut TerminalPrompt, finish: Finish) {
    person.print("If the browser is on another machine, it shows an error at the end: paste the URL of that page here.");
    while let Ok(redirect) = person.ask("") {
        match finish(&redirect) {
            Err(error @ FinishError::StateMismatch) => person.print(format!("{error}: paste the whole URL.")),
            _ => return,
        }
    }
}

fn ask_to_agree(screen: &mut Screen, page: &AuthorizationPage, browser: bool) -> std::io::Result<()> {
    let opens = if browser { ", which should open automatically" } else { "" };
    let request = Text::from("To log in with ").and(styled(NAME, &page.issuer));
    screen.line(request.and(format!(", give your consent on this page{opens}:")))?;
    screen.line("")?;
    screen.line(format!("    {}", page.url))?;
    screen.line("")
}

/// Opens a page in the browser that `BROWSER` names, else in the system's. If there is none, the user can open the
/// printed URL elsewhere.
fn open(page: &AuthorizationPage) {
    let url = page.url.clone();
    let named = env::var_os("BROWSER").unwrap_or_default();
    //= C12.25 "open without a shell"
    let open = move || {
        let mut named =
            env::split_paths(&named).filter_map(|browser| browser.into_os_string().into_string().ok());
        if !named.any(|browser| !browser.is_empty() && open::with_detached(&url, browser).is_ok()) {
            drop(open::that_detached(&url));
        }
    };
    smol::unblock(open).detach();
}

// The stored tokens that commands send, and the settings of their authorization.

/// Redirect URI of commands that open no page, so nothing listens there.
pub(crate) const UNUSED_REDIRECT: &str = "http://127.0.0.1/callback";
/// Variable with the client secret, which other users could read on the command line.
const SECRET: &str = "MCP_CLIENT_SECRET";

/// Authorization of commands other than `login`: the stored tokens, if any. It opens no page.
pub(crate) async fn stored_authorization(url: &str, common: &CommonOptions) -> Result<Option<Authorization>> {
    let store = store(common)?;
    let Ok(key) = canonical_resource(&upgrade_url(url)) else { return Ok(None) };
    let kept = store.load(&key).await.map_err(CommandError::server)?;
    match kept {
        Some(_) => Ok(Some(Authorization::new(config(common, UNUSED_REDIRECT.to_owned())?).store(store))),
        None => Ok(None),
    }
}

/// The HTTP URL by which tokens are kept: that of the upgrade, for the URL of a WebSocket.
fn upgrade_url(url: &str) -> Cow<'_, str> {
    match url.split_once(':') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("ws") => format!("http:{rest}").into(),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("wss") => format!("https:{rest}").into(),
        _ => url.into(),
    }
}

/// Makes the authorization of each of many servers, by the command line's options. Only a login opens pages.
pub(crate) fn authorizations(
    common: &CommonOptions,
    login: Option<&LoginOptions>,
) -> Result<impl Fn(&ResolvedHttp) -> Option<Authorization> + Send + Sync + 'static> {
    let redirect = match login {
        Some(login) if login.port != 0 => format!("http://127.0.0.1:{}/callback", login.port),
        _ => UNUSED_REDIRECT.to_owned(),
    };
    let (store, mut config) = (store(common)?, config(common, redirect)?);
    config.scopes = login.and_then(|login| login.scope.as_deref()).map(Scopes::parse);
    let issuer = common.issuer.clone();
    Ok(move |server: &ResolvedHttp| {
        let mut config = config.clone();
        let id = server.oauth.as_ref().and_then(|oauth| oauth.client_id.as_deref());
        if let (Some(issuer), Some(id), Some(secret)) = (&issuer, id, &server.client_secret)
            && config.preregistrations.is_empty()
        {
            config = config.client_secret(issuer, id, secret.clone());
        }
        // A header of the configuration is another login.
        let has_header = server.headers.contains_key("authorization");
        (!has_header).then(|| Authorization::new(config).store(store.clone()))
    })
}

pub(crate) fn config(common: &CommonOptions, redirect_uri: String) -> Result<AuthConfig> {
    let mut config = AuthConfig::new("mcpio", redirect_uri);
    // Binds the token to a key, so that a stolen token alone is useless.
    config.dpop = Some(DpopKey::Generated);
    if common.private_networks {
        config.private_networks = PrivateNetworks::Allowed;
    }
    if let Some(id) = &common.client_id {
        config.preregistrations.push(registered(id, common.issuer.as_deref(), env::var(SECRET))?);
    }
    Ok(config)
}

/// A pre-registered client. Its secret is for one issuer alone: a server could name another one.
fn registered(
    id: &str,
    issuer: Option<&str>,
    secret: Result<String, env::VarError>,
) -> Result<Preregistration> {
    match (secret, issuer) {
        (Ok(secret), Some(issuer)) => {
            Ok(Preregistration::for_issuer(issuer, ClientCredentials::with_secret(id, Secret::new(secret))))
        }
        (Ok(_), None) => {
            let wanted =
                format_args!("{SECRET} is sent to one authorization server only: name it by --issuer URL");
            Err(CommandError::usage(wanted))
        }
        (Err(env::VarError::NotPresent), Some(issuer)) => {
            Ok(Preregistration::for_issuer(issuer, ClientCredentials::new(id)))
        }
        (Err(env::VarError::NotPresent), None) => Ok(Preregistration::public(id)),
        (Err(error), _) => Err(CommandError::usage_of(SECRET)(error)),
    }
}

/// The token store: `--tokens`, or a folder below the system's folder for application state.
pub(crate) fn store(common: &CommonOptions) -> Result<FileStore> {
    let none = || CommandError::usage("no home folder for the token store: name a folder by --tokens");
    common.tokens.clone().or_else(|| state_folder("tokens")).map(FileStore::new).ok_or_else(none)
}

/// This program's folder of this name below the system's folder for application state.
pub(crate) fn state_folder(name: &str) -> Option<PathBuf> {
    // One that is relative would be a folder of the project.
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let below = folder("XDG_STATE_HOME")
        .or_else(|| folder("LOCALAPPDATA"))
        .or_else(|| Some(env::home_dir()?.join(".local").join("state")));
    below.map(|below| below.join("mcpio").join(name))
}

#[cfg(test)]
mod tokens_tests {
    use super::*;

    #[test]
    fn client_secret_requires_its_issuer() {
        let secret = || Ok("hidden".to_owned());
        let refused = registered("me", None, secret());
        assert!(refused.unwrap_err().usage_message().contains("--issuer"));
        let issuer = "https://login.example";
        assert_eq!(registered("me", Some(issuer), secret()).unwrap().issuer(), Some(issuer));
        assert_eq!(registered("me", None, Err(env::VarError::NotPresent)).unwrap().issuer(), None);
    }
}
