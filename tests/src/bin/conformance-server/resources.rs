//! Resources.

use mcp_proto::front::Router;
use mcp_proto::schema::{
    BlobResourceContents, Resource, ResourceContents, ResourceTemplate, ServerCapability,
};
use serde::Deserialize;
use serde_json::json;

use crate::content::PIXEL;

#[derive(Deserialize)]
struct Data {
    id: String,
}

pub(crate) fn add(router: Router) -> Router {
    let mut template = ResourceTemplate::new("test://template/{id}/data", "template-data");
    template.description = Some("Data for any id".to_owned());
    template.mime_type = Some("application/json".to_owned());
    router
        .declare(ServerCapability::ResourcesSubscribe)
        .resource(
            described("test://static-text", "static-text", "A text", "text/plain"),
            async |_, _| "This is the content of the static text resource.",
        )
        .resource(
            described("test://static-binary", "static-binary", "An image", "image/png"),
            async |uri: String, _| {
                let mut contents = BlobResourceContents::new(uri, PIXEL);
                contents.mime_type = Some("image/png".to_owned());
                ResourceContents::from(contents)
            },
        )
        .resource(
            described("test://watched-resource", "watched-resource", "A text to subscribe to", "text/plain"),
            async |_, _| "Watched resource content.",
        )
        .template(template, async |Data { id }, _| {
            json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") }).to_string()
        })
}

fn described(uri: &str, name: &str, description: &str, mime_type: &str) -> Resource {
    let mut resource = Resource::new(uri, name);
    resource.description = Some(description.to_owned());
    resource.mime_type = Some(mime_type.to_owned());
    resource
}
