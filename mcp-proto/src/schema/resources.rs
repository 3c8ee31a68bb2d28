//! Resources: listing, reading and subscribing.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::containers::List;
use super::content::Annotations;
use super::input::InputResponses;
use super::json::Json;
use super::meta::Meta;
use super::object::{Object as _, from_variants, object};
use super::read::{Fields, Fit, Read, ReadResult, UnexpectedJson};
use super::write::{Projection, WriteAt, serde_impls};
use crate::rpc::json_reader::NotJson;
use crate::schema::{Icon, PaginatedParams};

/// The parameters of `resources/list`.
pub type ListResourcesParams = PaginatedParams;

/// The parameters of `resources/templates/list`.
pub type ListResourceTemplatesParams = PaginatedParams;

object! {
    /// The result of `resources/list`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#listing-resources>
    pub page ListResourcesResult {
        required {
            /// One page of resources.
            resources: List<Resource> = "resources";
        }
        optional {
            /// Cursor of the next page; absent on the last page. The empty string is a valid cursor.
            next_cursor: Option<String> = "nextCursor";
        }
    }
}

object! {
    /// The result of `resources/templates/list`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#resource-templates>
    pub page ListResourceTemplatesResult {
        required {
            /// One page of templates.
            resource_templates: List<ResourceTemplate> = "resourceTemplates";
        }
        optional {
            /// Cursor of the next page; absent on the last page. The empty string is a valid cursor.
            next_cursor: Option<String> = "nextCursor";
        }
    }
}

object! {
    /// A resource that a client can read.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#resource>
    pub struct Resource {
        required {
            /// URI of the resource.
            uri: String = "uri";
            /// Name for programmatic use.
            name: String = "name";
        }
        optional {
            /// Human-readable title; see [`display_name`](Self::display_name).
            title: Option<String> = "title" since V2025_06_18;
            /// Description for the model.
            description: Option<String> = "description";
            /// Icons to display.
            icons: Option<Vec<Icon>> = "icons" since V2025_11_25;
            /// Its media type.
            mime_type: Option<String> = "mimeType";
            /// Its size in bytes, before any encoding.
            size: Option<u64> = "size";
            /// Intended audience, priority and time of the last change.
            annotations: Option<Box<Annotations>> = "annotations";
            /// Metadata attached to it.
            meta: Meta = "_meta" since V2025_06_18;
        }
    }
}

impl Resource {
    /// Name to display: the title, or the name if there is no title.
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

object! {
    /// A template of resources.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#resource-templates>
    pub struct ResourceTemplate {
        required {
            /// URI template (RFC 6570) of the resources.
            uri_template: String = "uriTemplate";
            /// Name for programmatic use.
            name: String = "name";
        }
        optional {
            /// Human-readable title; see [`display_name`](Self::display_name).
            title: Option<String> = "title" since V2025_06_18;
            /// Description for the model.
            description: Option<String> = "description";
            /// Icons to display.
            icons: Option<Vec<Icon>> = "icons" since V2025_11_25;
            /// Media type of all matching resources.
            mime_type: Option<String> = "mimeType";
            /// Intended audience, priority and time of the last change.
            annotations: Option<Box<Annotations>> = "annotations";
            /// Metadata attached to it.
            meta: Meta = "_meta" since V2025_06_18;
        }
    }
}

impl ResourceTemplate {
    /// Name to display: the title, or the name if there is no title.
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

object! {
    /// The parameters of `resources/read`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#reading-resources>
    pub params ReadResourceParams {
        required {
            /// URI of the resource.
            uri: String = "uri";
        }
        optional {
            /// Answers to the input requests of an earlier attempt.
            input_responses: Option<InputResponses> = "inputResponses" since V2026_07_28 type strict;
            /// The `requestState` of an earlier attempt's result, unchanged.
            request_state: Option<String> = "requestState" since V2026_07_28 type strict;
        }
    }
}

object! {
    /// The result of `resources/read`.
    pub cacheable ReadResourceResult {
        required {
            /// The contents; a directory, for example, may have several.
            contents: Vec<ResourceContents> = "contents";
        }
        optional {}
    }
}

object! {
    /// The parameters of `resources/subscribe` (2025-11-25 and earlier).
    pub params SubscribeResourceParams {
        required {
            /// URI of the resource.
            uri: String = "uri";
        }
        optional {}
    }
}

/// The parameters of `resources/unsubscribe` (2025-11-25 and earlier).
pub type UnsubscribeResourceParams = SubscribeResourceParams;

object! {
    /// The parameters of `notifications/resources/updated`.
    pub params ResourceUpdatedParams {
        required {
            /// URI of the changed resource.
            uri: String = "uri";
        }
        optional {}
    }
}

object! {
    /// The contents of a resource as text.
    pub struct TextResourceContents {
        required {
            /// URI of the contents.
            uri: String = "uri";
            /// The text.
            text: String = "text";
        }
        optional {
            /// Media type.
            mime_type: Option<String> = "mimeType";
            /// Metadata attached to the contents.
            meta: Meta = "_meta" since V2025_06_18;
        }
    }
}

object! {
    /// The contents of a resource as bytes.
    pub struct BlobResourceContents {
        required {
            /// URI of the contents.
            uri: String = "uri";
            /// The bytes, in base64.
            blob: String = "blob";
        }
        optional {
            /// Media type.
            mime_type: Option<String> = "mimeType";
            /// Metadata attached to the contents.
            meta: Meta = "_meta" since V2025_06_18;
        }
    }
}

//= S8.15 "embedded resource uri + text|blob"
/// The contents of a resource.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#resource-contents>
#[derive(Clone, Debug, PartialEq)]
pub enum ResourceContents {
    /// Text.
    Text(TextResourceContents),
    /// Bytes.
    Blob(BlobResourceContents),
    /// Contents of unknown kind, written back verbatim.
    Unknown(Json),
}

impl ResourceContents {
    /// Creates text contents.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self::Text(TextResourceContents::new(uri, text))
    }

    /// Creates binary contents from base64.
    pub fn blob(uri: impl Into<String>, blob: impl Into<String>) -> Self {
        Self::Blob(BlobResourceContents::new(uri, blob))
    }

    /// URI of the contents; `None` if their kind is unknown.
    pub fn uri(&self) -> Option<&str> {
        match self {
            Self::Text(contents) => Some(&contents.uri),
            Self::Blob(contents) => Some(&contents.uri),
            Self::Unknown(_) => None,
        }
    }

    /// Media type of the contents.
    pub fn mime_type(&self) -> Option<&str> {
        match self {
            Self::Text(contents) => contents.mime_type.as_deref(),
            Self::Blob(contents) => contents.mime_type.as_deref(),
            Self::Unknown(_) => None,
        }
    }
}

from_variants!(ResourceContents { Text(TextResourceContents), Blob(BlobResourceContents) });

enum ContentsKind {
    Text,
    Blob,
}

impl Read for ResourceContents {
    const EXPECTED: &'static str = "an object";
    const LIST_MAY_BE_NULL: bool = true;

    fn or_keep(unexpected: UnexpectedJson) -> ReadResult<Self> {
        Ok(Self::Unknown(unexpected.json))
    }

    fn from_object(fields: Fields<'_, '_>) -> Result<Fit<Self>, NotJson> {
        let kind = fields.look(|name| match name {
            "text" => Some(ContentsKind::Text),
            "blob" => Some(ContentsKind::Blob),
            _ => None,
        })?;
        match kind {
            Some(ContentsKind::Text) => Ok(TextResourceContents::read_fields(fields)?.map(Self::Text)),
            Some(ContentsKind::Blob) => Ok(BlobResourceContents::read_fields(fields)?.map(Self::Blob)),
            None => Ok(Err("neither `text` nor `blob`".into())),
        }
    }
}

impl WriteAt for ResourceContents {
    fn write(&self, view: Projection, out: &mut Vec<u8>) {
        match self {
            Self::Text(contents) => contents.write(view, out),
            Self::Blob(contents) => contents.write(view, out),
            Self::Unknown(json) => json.write(view, out),
        }
    }
}

serde_impls!(ResourceContents);
