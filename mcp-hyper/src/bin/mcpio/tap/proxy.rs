//! `mcpio tap URL`: a server on this machine that passes requests on to the server at a URL.

use std::net::Ipv4Addr;
use std::time::Duration;

use mcp_proto::redact::url_without_secrets;
use serde_json::json;
use smol::Timer;
use smol::future::or;
use smol::net::TcpListener;

use crate::connect::{self, LoginPolicy};
use crate::error::{self, CommandError, Result};
use crate::options::{CommonOptions, LoginOptions};
use crate::show;
use crate::terminal::{QUIET, Screen, styled};

/// How long to wait after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Passes requests on until a signal.
pub(super) async fn run(
    url: &str,
    login: &LoginOptions,
    common: &CommonOptions,
    screen: &mut Screen,
) -> Result {
    let failed = CommandError::server_of("listening on this machine");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(&failed)?;
    let address = listener.local_addr().map_err(&failed)?;
    let (authorization, login) = connect::authorization(url, common, LoginPolicy::Page(login)).await?;
    let mut options = connect::options(url, common)?;
    if let Some(authorization) = authorization {
        options = options.authorization(authorization);
    }
    let (forwarder, driver) = options.forward(url, address).map_err(CommandError::usage)?;
    if let (Some(login), Some(handle)) = (login, driver.auth()) {
        login.handle.get_or_init(|| handle);
    }
    let what =
        format_args!("Passing requests on to {} until Ctrl-C, from:", url_without_secrets(url)).to_string();
    // If this fails, it passes them on all the same.
    let _ = Screen::messages().line(styled(QUIET, what));
    let to_use = forwarder.url();
    show::result(screen, &json!({ "url": to_use }), |screen| screen.line(&to_use))?;
    let accepting = async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => smol::spawn(forwarder.connection(stream)).detach(),
                // Too many files are open, for example.
                Err(_) => _ = Timer::after(PAUSE).await,
            }
        }
    };
    let driving = async { match driver.await {} };
    error::until_signal(or(accepting, driving)).await
}
