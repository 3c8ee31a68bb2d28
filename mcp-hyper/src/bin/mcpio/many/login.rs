//! `mcpio login` at a server of configuration files.

use mcp_hyper::host::{HostLoginError, LoginPage};
use mcp_proto::host::control::Status;

use super::call::unavailable;
use super::files::Configuration;
use super::options::ConfigOptions;
use super::session::Session;
use crate::error::{CommandError, ErrorReport};
use crate::login::{print_status, show_page};
use crate::options::{CommonOptions, LoginOptions};
use crate::suggestions;
use crate::terminal::Screen;

/// Logs in at the server of this name, with the settings of its entry, and connects to it.
pub(crate) async fn login(
    options: &ConfigOptions,
    common: &CommonOptions,
    name: &str,
    login: &LoginOptions,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let configuration = Configuration::read(options)?;
    let config = configuration.merged_with_messages()?;
    if config.find(name).is_none() {
        let known = config.servers().iter().map(|entry| entry.name());
        let hint = suggestions::suggest(name, known);
        return Err(CommandError::Usage(format!("the configuration has no server {name:?}{hint}")));
    }
    let session = Session { login: Some(login), ..Session::new(options, common, &configuration) };
    session
        .run(configuration.only(&[name]), async |host| {
            let browser = !login.no_browser;
            host.ready().await;
            // Only the user's approval can mend that.
            if let Some(server) = host.server(name)
                && server.status == Status::Unapproved
            {
                return Err(unavailable(server, &config, options));
            }
            let show = move |login: LoginPage| {
                let page = login.page.clone();
                show_page(&page, browser, Box::new(move |redirect| login.finish(redirect)));
            };
            let status = host.log_in(name, show).await?;
            print_status(name, status.as_ref(), screen)
        })
        .await
}

impl From<HostLoginError> for CommandError {
    fn from(error: HostLoginError) -> Self {
        match error {
            HostLoginError::Connection(error) => error.into(),
            HostLoginError::NoAuthorization => Self::Usage(
                "this server takes no login: it is a program, or has the header \"authorization\"".to_owned(),
            ),
            HostLoginError::UnknownServer => Self::Usage(error.to_string()),
            _ => Self::Server(ErrorReport::new(error.to_string())),
        }
    }
}
