//! Checks of the input that a server requests of users and models, in its answers or by requests of its own.

use super::{Diagnostic, Server};
use crate::consent::{UrlConsent, UrlWarning};
use crate::peer::{RequestError, Strictness};
use crate::prelude::*;
use crate::schema::{ClientCapability, ElicitParams, IncludeContext, InputRequest};

/// Checks the content of an input request, or of a server request to a legacy client.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#security-considerations>,
/// <https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#message-content-constraints>
pub(crate) fn check_content(request: &InputRequest) -> Result<(), RequestError> {
    match request {
        //= S9.1 "No secrets by form mode; URL mode for secrets"
        InputRequest::Elicit(ElicitParams::Form(form)) => {
            if let Some(field) = form.requested_schema.secret_field() {
                return Err(RequestError::Content(format!(
                    "the form requests a secret in the field {field:?}: use a page (`elicit_url`), which the client does not see"
                )));
            }
            //= S9.10 "Forms hold only the primitive definitions, multi-select included"
            match form.requested_schema.unsupported_field() {
                Some((field, why)) => Err(RequestError::Content(format!(
                    "the field {field:?} of the form is not one that clients know, because {why}: use `PrimitiveSchema`"
                ))),
                None => Ok(()),
            }
        }
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

impl Server {
    /// Reports a form whose texts contain a URL, which clients could make clickable; with [`Strictness::Strict`] it is
    /// an error.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#safe-url-handling>
    pub(super) fn check_texts(&mut self, request: &InputRequest) -> Result<(), RequestError> {
        let InputRequest::Elicit(ElicitParams::Form(form)) = request else { return Ok(()) };
        let Some(text) = form.text_with_url() else { return Ok(()) };
        let diagnostic = Diagnostic::UrlInForm { text: text.into() };
        //= S9.11 "No clickable URL in a field of a form"
        match self.config.strictness {
            Strictness::Strict => Err(RequestError::Content(diagnostic.to_string())),
            Strictness::Lenient => {
                self.diagnose(diagnostic);
                Ok(())
            }
        }
    }
}

/// The client capability that an input request needs; `None` if the protocol does not define its method.
pub(super) fn required_capability(request: &InputRequest) -> Option<ClientCapability> {
    Some(match request {
        //= S9.1 "only declared modes"
        InputRequest::Elicit(ElicitParams::Url(_)) => ClientCapability::ElicitationUrl,
        InputRequest::Elicit(_) => ClientCapability::ElicitationForm,
        //= S9.8 "Tool-enabled sampling only if sampling.tools"
        InputRequest::CreateMessage(params) if params.tools.is_some() || params.tool_choice.is_some() => {
            ClientCapability::SamplingTools
        }
        InputRequest::CreateMessage(_) => ClientCapability::Sampling,
        InputRequest::ListRoots(_) => ClientCapability::Roots,
        InputRequest::Unknown(_) => return None,
    })
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
    required_capability(request).into_iter().chain(context)
}
