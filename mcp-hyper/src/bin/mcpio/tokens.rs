//! The stored tokens that commands send, and the settings of their authorization.

use std::borrow::Cow;
use std::env;
use std::path::PathBuf;

use mcp_hyper::auth::{Authorization, FileStore, TokenStore as _};
use mcp_proto::auth::client::{AuthConfig, ClientCredentials, DpopKey, Preregistration};
use mcp_proto::auth::{PrivateNetworks, Scopes, Secret, canonical_resource};
use mcp_proto::host::config::ResolvedHttp;

use crate::error::{CommandError, Result};
use crate::options::{CommonOptions, LoginOptions};

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
mod tests {
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
