//! MCP Apps: tools that come with a page to show in the conversation.
//!
//! A server declares the extension, registers the page as a resource at a `ui:` URI, and names it in the tool's `_meta`.
//! A host that declares the extension reads the resource and renders it: in a sandbox, with a content security policy
//! that forbids everything but what the resource asks for and the host grants. To others the tool's text is all there
//! is, so there always is one.
//!
//! <https://modelcontextprotocol.io/extensions/apps/overview>

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::json::Json;
use super::resources::{Resource, ResourceContents};
use super::tools::Tool;
use super::{ClientCapabilities, Meta, ServerCapabilities};

/// The identifier of the extension.
pub const EXTENSION: &str = "io.modelcontextprotocol/ui";
/// The media type of a page.
pub const MEDIA_TYPE: &str = "text/html;profile=mcp-app";
/// What stands in `_meta` of a tool and of a page's contents.
pub const META: &str = "ui";

/// Under which early servers named the page of a tool.
const FLAT: &str = "ui/resourceUri";

/// The settings that a host declares the extension with: that it renders pages.
pub fn settings() -> Json {
    Json::from(serde_json::json!({ "mimeTypes": [MEDIA_TYPE] }))
}

impl ClientCapabilities {
    /// The same with MCP Apps declared: the host renders pages.
    #[must_use]
    pub fn with_apps(mut self) -> Self {
        self.extensions.get_or_insert_default().insert(EXTENSION, settings());
        self
    }

    /// Whether the client renders the pages of MCP Apps.
    pub fn renders_apps(&self) -> bool {
        #[derive(Deserialize)]
        struct Settings {
            #[serde(rename = "mimeTypes")]
            media_types: Vec<String>,
        }
        let declared = self.extensions.as_ref().and_then(|extensions| extensions.get(EXTENSION));
        let settings = declared.and_then(|settings| settings.decode::<Settings>().ok());
        settings.is_some_and(|settings| settings.media_types.iter().any(|media_type| is_page(media_type)))
    }
}

impl ServerCapabilities {
    /// The same with MCP Apps declared: there are tools with pages.
    #[must_use]
    pub fn with_apps(mut self) -> Self {
        self.extensions.get_or_insert_default().insert(EXTENSION, Json::empty_object());
        self
    }
}

impl Tool {
    /// The same tool with a page: the resource at this `ui:` URI.
    ///
    /// ```
    /// use mcp_proto::schema::{Tool, apps};
    /// use serde_json::json;
    ///
    /// let tool = Tool::new("clock", "Shows the time", json!({"type": "object"})).with_page("ui://clock/page.html");
    /// assert_eq!(tool.page().as_deref(), Some("ui://clock/page.html"));
    /// ```
    #[must_use]
    pub fn with_page(mut self, uri: impl Into<String>) -> Self {
        self.meta.insert(META, serde_json::json!({ "resourceUri": uri.into() }));
        self
    }

    /// The `ui:` URI of its page. Any other URI is none.
    pub fn page(&self) -> Option<String> {
        let nested = self.meta.get(META).and_then(|ui| ui.decode::<ToolUi>().ok()?.resource_uri);
        let uri = nested.or_else(|| self.meta.get(FLAT)?.decode().ok())?;
        is_page_uri(&uri).then_some(uri)
    }

    /// Whether the model may call it; a tool may be there for its page alone.
    pub fn is_for_model(&self) -> bool {
        let ui = self.meta.get(META).and_then(|ui| ui.decode::<ToolUi>().ok());
        ui.and_then(|ui| ui.visibility).is_none_or(|who| who.iter().any(|who| who == "model"))
    }
}

#[derive(Deserialize)]
struct ToolUi {
    #[serde(rename = "resourceUri", default)]
    resource_uri: Option<String>,
    #[serde(default)]
    visibility: Option<Vec<String>>,
}

/// Whether a URI is one of a page.
pub fn is_page_uri(uri: &str) -> bool {
    uri.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("ui://")) && uri.len() > 5
}

impl Resource {
    /// A page of MCP Apps at this `ui:` URI.
    pub fn page(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { mime_type: Some(MEDIA_TYPE.to_owned()), ..Self::new(uri, name) }
    }
}

fn is_page(media_type: &str) -> bool {
    let mut parts = media_type.split(';').map(str::trim);
    parts.next().is_some_and(|html| html.eq_ignore_ascii_case("text/html"))
        && parts.any(|parameter| parameter.eq_ignore_ascii_case("profile=mcp-app"))
}

/// A page as it was read, for a host to render.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Page {
    /// The HTML: a server's, and not to be trusted.
    pub html: String,
    /// The origins that the page would like to talk to and load from.
    pub wants: Origins,
    /// What else the page would like, as `camera`, `microphone` or `geolocation`. For the person to grant.
    pub permissions: Vec<String>,
}

/// Origins by what a page does with them: `https://api.example.com`, `https://*.example.com`, `wss://…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Origins {
    /// Those that it sends requests to.
    pub connect_domains: Vec<String>,
    /// Those that it loads scripts, styles, images, fonts and media from.
    pub resource_domains: Vec<String>,
    /// Those that it shows frames of.
    pub frame_domains: Vec<String>,
    /// Those that its relative links may start from.
    pub base_uri_domains: Vec<String>,
}

impl Page {
    /// The page that was read from a `ui:` resource.
    ///
    /// # Errors
    /// If it is none.
    pub fn of(contents: &ResourceContents) -> Result<Self, PageError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Ui {
            csp: Origins,
            permissions: BTreeMap<String, IgnoredAny>,
        }
        if !contents.uri().is_some_and(is_page_uri) {
            return Err(PageError::Uri);
        }
        if !contents.mime_type().is_some_and(is_page) {
            return Err(PageError::MediaType);
        }
        let (html, meta): (String, &Meta) = match contents {
            ResourceContents::Text(text) => (text.text.clone(), &text.meta),
            ResourceContents::Blob(blob) => {
                let bytes = STANDARD.decode(&blob.blob).map_err(|_| PageError::Text)?;
                (String::from_utf8(bytes).map_err(|_| PageError::Text)?, &blob.meta)
            }
            ResourceContents::Unknown(_) => return Err(PageError::Text),
        };
        // What is not understood is not granted.
        let ui: Ui = meta.get(META).and_then(|ui| ui.decode().ok()).unwrap_or_default();
        let permissions = ui.permissions.into_keys().collect();
        Ok(Self { html, wants: ui.csp, permissions })
    }
}

impl Origins {
    /// The content security policy that grants these origins and forbids everything else, as the value of a header.
    ///
    /// What is no origin, and could end a directive or begin another, is left out.
    ///
    /// ```
    /// use mcp_proto::schema::apps::Origins;
    ///
    /// let policy = Origins::default().policy();
    /// assert!(policy.starts_with("default-src 'none'; ") && policy.contains("connect-src 'none'"));
    /// ```
    pub fn policy(&self) -> String {
        let mut policy = String::from("default-src 'none'; object-src 'none'; form-action 'none'");
        let own = "'self' 'unsafe-inline'";
        for (directive, before, origins) in [
            ("script-src", own, &self.resource_domains),
            ("style-src", own, &self.resource_domains),
            ("img-src", "'self' data:", &self.resource_domains),
            ("font-src", "'self'", &self.resource_domains),
            ("media-src", "'self' data:", &self.resource_domains),
            ("connect-src", "", &self.connect_domains),
            ("frame-src", "", &self.frame_domains),
            ("base-uri", "", &self.base_uri_domains),
        ] {
            policy.push_str("; ");
            policy.push_str(directive);
            let mut sources =
                origins.iter().map(String::as_str).filter(|origin| is_origin(origin)).peekable();
            if before.is_empty() && sources.peek().is_none() {
                policy.push_str(" 'none'");
            }
            for source in Some(before).filter(|before| !before.is_empty()).into_iter().chain(sources) {
                policy.push(' ');
                policy.push_str(source);
            }
        }
        policy
    }
}

/// A scheme that a page may use, a host, possibly with `*.` before it, and possibly a port.
fn is_origin(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let (host, port) = rest.split_once(':').unwrap_or((rest, "0"));
    let host = host.strip_prefix("*.").unwrap_or(host);
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    matches!(scheme, "https" | "wss" | "http" | "ws")
        && host.split('.').all(is_label)
        && !port.is_empty()
        && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Why the contents of a resource are no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PageError {
    /// They are not those of a `ui:` URI.
    Uri,
    /// Their media type is another.
    MediaType,
    /// They are no text.
    Text,
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uri => f.write_str("a page is at a ui: URI"),
            Self::MediaType => write!(f, "the media type of a page is {MEDIA_TYPE}"),
            Self::Text => f.write_str("the page is no text"),
        }
    }
}

impl core::error::Error for PageError {}
