//! Resources: listing, reading and subscribing.

use super::object::{object, tagged};
use super::{Annotations, InputResponses, List, Meta, PaginatedParams};
use crate::prelude::*;

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
    }

    /// The result of `resources/templates/list`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#resource-templates>
    pub page ListResourceTemplatesResult {
        required {
            /// One page of templates.
            resource_templates: List<ResourceTemplate> = "resourceTemplates";
        }
    }

    /// A resource that a client can read.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#resource>
    pub listed Resource {
        required {
            /// URI of the resource.
            uri: String = "uri";
            /// Name for programmatic use.
            name: String = "name";
        }
        optional {
            /// Its media type.
            mime_type: Option<String> = "mimeType";
            /// Its size in bytes, before any encoding.
            size: Option<u64> = "size";
            /// Intended audience, priority and time of the last change.
            annotations: Option<Box<Annotations>> = "annotations";
        }
    }

    /// A template of resources.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#resource-templates>
    pub listed ResourceTemplate {
        required {
            /// URI template (RFC 6570) of the resources.
            uri_template: String = "uriTemplate";
            /// Name for programmatic use.
            name: String = "name";
        }
        optional {
            /// Media type of all matching resources.
            mime_type: Option<String> = "mimeType";
            /// Intended audience, priority and time of the last change.
            annotations: Option<Box<Annotations>> = "annotations";
        }
    }

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

    /// The result of `resources/read`.
    pub cacheable ReadResourceResult {
        required {
            /// The contents; a directory, for example, may have several.
            contents: Vec<ResourceContents> = "contents";
        }
    }

    /// The parameters of `resources/subscribe` (2025-11-25 and earlier).
    pub params SubscribeResourceParams {
        required {
            /// URI of the resource.
            uri: String = "uri";
        }
    }
}

/// The parameters of `resources/unsubscribe` (2025-11-25 and earlier).
pub type UnsubscribeResourceParams = SubscribeResourceParams;

/// The parameters of `notifications/resources/updated`.
pub type ResourceUpdatedParams = SubscribeResourceParams;

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
tagged! {
    /// The contents of a resource.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/resources#resource-contents>
    pub enum ResourceContents as ContentsMember {
        /// Text.
        Text(TextResourceContents) = "text",
        /// Bytes.
        Blob(BlobResourceContents) = "blob",
    } chosen |fields| fields.look(ContentsMember::parse)?
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
