//! Content rules for input requests and server requests, beyond the types of their parameters.

use alloc::format;
use alloc::string::{String, ToString};

use crate::consent::{UrlConsent, UrlWarning};
use crate::peer::RequestError;
use crate::schema::{ClientCapability, ElicitParams, IncludeContext, InputRequest};

/// Checks the content of an input request, or of a server request to a legacy client.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#security-considerations>,
/// <https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#message-content-constraints>
pub(crate) fn check_content(request: &InputRequest) -> Result<(), RequestError> {
    match request {
        //= S9.1 "No secrets by form mode; URL mode for secrets"
        InputRequest::Elicit(ElicitParams::Form(form)) => match form.requested_schema.secret_field() {
            Some(field) => Err(RequestError::Content(format!(
                "the form requests a secret in the field {field:?}: use a page (`elicit_url`), which the client does not see"
            ))),
            None => Ok(()),
        },
        //= S9.2 "URL: valid"
        InputRequest::Elicit(ElicitParams::Url(page)) => {
            check_page_url(&page.url).map_err(RequestError::UnsafePage)
        }
        //= S9.8 "every toolUse answered by a tool result"
        InputRequest::CreateMessage(params) => {
            params.check().map_err(|error| RequestError::Content(error.to_string()))
        }
        InputRequest::ListRoots(_) | InputRequest::Unknown(_) => Ok(()),
    }
}

/// Checks that a client could open the URL of a page, that it contains no credentials, and that it is encrypted unless
/// it leads to this machine.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#safe-url-handling>
//= S9.2 "SHOULD https"
pub(crate) fn check_page_url(url: &str) -> Result<(), String> {
    let page = UrlConsent::new(url).map_err(|error| error.to_string())?;
    if page.warnings().contains(&UrlWarning::UserInfo) {
        return Err("the URL of the page contains credentials".into());
    }
    if page.warnings().contains(&UrlWarning::Unencrypted) {
        return Err("the URL of the page is not https: plain http is only for pages of this machine".into());
    }
    Ok(())
}

/// The client capabilities that an input request needs.
pub(crate) fn required_capabilities(request: &InputRequest) -> impl Iterator<Item = ClientCapability> {
    //= S8.20 "includeContext thisServer/allServers not used"
    let context = match request {
        InputRequest::CreateMessage(params) => match params.include_context {
            Some(IncludeContext::ThisServer | IncludeContext::AllServers) => {
                Some(ClientCapability::SamplingContext)
            }
            _ => None,
        },
        _ => None,
    };
    super::commands::required_capability(request).into_iter().chain(context)
}
