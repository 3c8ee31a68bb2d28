//! MCP Apps: tools with a page that the host shows in the conversation.
//!
//! A server declares the extension, registers the page as a resource at a `ui:` URI, and names it in the tool's
//! `_meta`. A host that declares the extension reads the resource and renders it in a sandbox, with a content security
//! policy that allows only what the resource asks for and the host grants. Other hosts show the tool's text result, so
//! every tool must have one. Both sides declare the extension at every revision.
//!
//! <https://modelcontextprotocol.io/extensions/apps/overview>

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::{ClientCapabilities, Json, Meta, Resource, ResourceContents, ServerCapabilities, Tool};
use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::rpc::{decode_member, read_members};

/// Identifier of the MCP Apps extension.
pub const EXTENSION: &str = "io.modelcontextprotocol/ui";
/// Media type of a page.
pub const MEDIA_TYPE: &str = "text/html;profile=mcp-app";
/// Key in `_meta` of a tool and of a page's contents.
pub const META: &str = "ui";

/// Flat `_meta` key that early servers used for the URI of a tool's page.
const FLAT: &str = "ui/resourceUri";

/// Settings that a host declares the extension with: the media types that it renders.
pub fn settings() -> Json {
    Json::from(serde_json::json!({ "mimeTypes": [MEDIA_TYPE] }))
}

impl ClientCapabilities {
    /// Declares MCP Apps: the host renders pages.
    #[must_use]
    pub fn with_apps(mut self) -> Self {
        //= C14.11 "Declare `io.modelcontextprotocol/ui` with mimeTypes `text/html;profile=mcp-app`"
        self.extensions.get_or_insert_default().insert(EXTENSION, settings());
        self
    }

    /// Whether the client renders the pages of MCP Apps.
    pub fn renders_apps(&self) -> bool {
        let settings = self
            .extension(EXTENSION)
            .and_then(|settings| read_members(settings.as_str(), ["mimeTypes"]).ok());
        let media_types: Option<Vec<String>> = settings.and_then(|[types]| decode_member(types));
        media_types.is_some_and(|types| types.iter().any(|media_type| is_page(media_type)))
    }
}

impl ServerCapabilities {
    /// Declares MCP Apps: the server has tools with pages.
    #[must_use]
    pub fn with_apps(mut self) -> Self {
        self.extensions.get_or_insert_default().insert(EXTENSION, Json::empty_object());
        self
    }
}

impl Tool {
    /// Adds a page: the resource at this `ui:` URI.
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

    /// URI of the tool's page; `None` if it has no page or the URI is not a `ui:` URI.
    pub fn page(&self) -> Option<String> {
        //= C14.11 "read `_meta.ui.resourceUri` (`ui://`)"
        self.named_page().filter(|uri| is_page_uri(uri))
    }

    /// A member of the tool's `ui`, if it can be read; a mistake in another one does not matter.
    fn ui<T: DeserializeOwned>(&self, member: &str) -> Option<T> {
        let [value] = read_members(self.meta.get(META)?.as_str(), [member]).ok()?;
        decode_member(value)
    }

    /// The URI that the tool names as its page, whatever its scheme.
    pub(crate) fn named_page(&self) -> Option<String> {
        self.ui("resourceUri").or_else(|| self.meta.get(FLAT)?.decode().ok())
    }

    /// Changes the URI that the tool names as its page; `rename` returns `None` for one that stays.
    #[cfg(all(feature = "std", feature = "server"))]
    pub(crate) fn rename_page(&mut self, rename: impl Fn(&str) -> Option<String>) {
        let members: Option<serde_json::Map<_, _>> = self.meta.get(META).and_then(|ui| ui.decode().ok());
        if let Some(mut members) = members
            && let Some(serde_json::Value::String(uri)) = members.get_mut("resourceUri")
            && let Some(renamed) = rename(uri)
        {
            *uri = renamed;
            self.meta.insert(META, serde_json::Value::Object(members));
        }
        let flat: Option<String> = self.meta.get(FLAT).and_then(|uri| uri.decode().ok());
        if let Some(renamed) = flat.and_then(|uri| rename(&uri)) {
            self.meta.insert(FLAT, renamed.as_str());
        }
    }

    /// Whether the model may call the tool; some tools exist for their page alone.
    pub fn is_for_model(&self) -> bool {
        // A word in place of a list hides the tool too.
        let who: Option<Vec<String>> = self.ui("visibility").or_else(|| Some(vec![self.ui("visibility")?]));
        who.is_none_or(|who| who.iter().any(|who| who == "model"))
    }
}

/// Whether a URI is a page's: `ui://` and at least one more character.
pub fn is_page_uri(uri: &str) -> bool {
    uri.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("ui://")) && uri.len() > 5
}

impl Resource {
    /// Describes a page of MCP Apps at this `ui:` URI.
    pub fn page(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { mime_type: Some(MEDIA_TYPE.to_owned()), ..Self::new(uri, name) }
    }
}

fn is_page(media_type: &str) -> bool {
    let mut parts = media_type.split(';').map(str::trim);
    parts.next().is_some_and(|html| html.eq_ignore_ascii_case("text/html"))
        && parts.any(|parameter| parameter.eq_ignore_ascii_case("profile=mcp-app"))
}

/// A page read from its resource, for a host to render.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Page {
    /// HTML from the server: untrusted.
    pub html: String,
    /// Origins that the page asks to connect to and to load from.
    pub requested_origins: Origins,
    /// Other permissions that the page asks for, such as `camera`, `microphone` or `geolocation`; the user grants them.
    pub permissions: Vec<String>,
}

/// Origins by how a page uses them: `https://api.example.com`, `https://*.example.com`, `wss://…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Origins {
    /// Origins that the page sends requests to.
    pub connect_domains: Vec<String>,
    /// Origins that the page loads scripts, styles, images, fonts and media from.
    pub resource_domains: Vec<String>,
    /// Origins that the page embeds frames of.
    pub frame_domains: Vec<String>,
    /// Origins that the page may use as its base URI.
    pub base_uri_domains: Vec<String>,
}

impl Page {
    /// Reads the page from the contents of a `ui:` resource.
    ///
    /// # Errors
    /// If the contents are not a page: wrong URI, media type or encoding.
    pub fn from_contents(contents: &ResourceContents) -> Result<Self, PageError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Ui {
            csp: Origins,
            permissions: OrderedMap<String, IgnoredAny>,
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
        // Settings that cannot be read grant nothing.
        let ui: Ui = meta.get(META).and_then(|ui| ui.decode().ok()).unwrap_or_default();
        let permissions = ui.permissions.into_keys().collect();
        Ok(Self { html, requested_origins: ui.csp, permissions })
    }
}

impl Origins {
    /// The content security policy that allows these origins and forbids everything else, as the value of a header.
    ///
    /// Leaves out entries that are not an origin, since they could end a directive or begin another.
    ///
    /// ```
    /// use mcp_proto::schema::apps::Origins;
    ///
    /// let policy = Origins::default().content_security_policy();
    /// assert!(policy.starts_with("default-src 'none'; ") && policy.contains("connect-src 'none'"));
    /// ```
    pub fn content_security_policy(&self) -> String {
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

/// Whether `text` is a scheme that a page may use, a host that may begin with `*.`, and an optional port.
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

/// Reason why the contents of a resource are not a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PageError {
    /// The resource has no `ui:` URI.
    Uri,
    /// The resource has another media type.
    MediaType,
    /// The contents are not UTF-8 text, or their base64 is invalid.
    Text,
}

error_text! { PageError:
    Uri => "the resource is not a page: its URI does not begin with ui://";
    MediaType => "the resource is not a page: its media type is not {MEDIA_TYPE}";
    Text => "the page is not UTF-8 text, or its base64 is invalid";
}
