//! A skill, an extension, with its files as resources.

use std::fmt::Write as _;

use mcp_proto::front::{HandlerError, Router};
use mcp_proto::schema::{CustomParams, EmptyResult, Json, Resource};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const EXTENSION: &str = "io.modelcontextprotocol/skills";
const NAME: &str = "pressing-flowers";
const DESCRIPTION: &str = "Press flowers between sheets of paper, and keep them";
const FOLDER: &str = "skill://pressing-flowers";

/// A file of the skill.
struct File {
    path: &'static str,
    name: &'static str,
    description: &'static str,
    text: &'static str,
}

const FILES: [File; 2] = [
    File {
        path: "SKILL.md",
        name: NAME,
        description: DESCRIPTION,
        text: "---\nname: pressing-flowers\ndescription: Press flowers between sheets of paper, and keep them\n---\n\n\
               Lay the flower between two sheets. Which paper to take is in references/PAPER.md.\n",
    },
    File {
        path: "references/PAPER.md",
        name: "PAPER.md",
        description: "Which paper to take",
        text: "Blotting paper, or any that has no coating.\n",
    },
];

impl File {
    fn uri(&self) -> String {
        format!("{FOLDER}/{}", self.path)
    }

    fn digest(&self) -> String {
        Sha256::digest(self.text).iter().fold("sha256:".to_owned(), |mut digest, byte| {
            let _ = write!(digest, "{byte:02x}");
            digest
        })
    }
}

pub(crate) fn add(mut router: Router) -> Router {
    for file in &FILES {
        let mut resource = Resource::new(file.uri(), file.name);
        resource.description = Some(file.description.to_owned());
        resource.mime_type = Some("text/markdown".to_owned());
        router = router.resource(resource, async |_, _| file.text);
    }
    router
        .extension(EXTENSION, json!({ "directoryRead": true }))
        .custom("skills/list", async |_, _| cacheable([("skills", json!([skill()]))]))
        .custom("skills/get", async |params: CustomParams, _| {
            let wanted = uri(&params)?;
            if wanted != FILES[0].uri() {
                return Err(HandlerError::invalid_params(format!("unknown skill {wanted}")));
            }
            Ok(cacheable([("skill", skill())]))
        })
        .custom("resources/directory/read", async |params: CustomParams, _| {
            let wanted = uri(&params)?;
            let Some(children) = children(&wanted) else {
                return Err(HandlerError::invalid_params(format!("unknown folder {wanted}")));
            };
            Ok(cacheable([("resources", children)]))
        })
}

fn uri(params: &CustomParams) -> Result<String, HandlerError> {
    let uri = params.extra.get("uri").and_then(|uri| uri.decode().ok());
    uri.ok_or_else(|| HandlerError::invalid_params("the parameter uri is missing"))
}

/// A result that must not be cached.
fn cacheable<const N: usize>(fields: [(&str, Value); N]) -> EmptyResult {
    let mut result = EmptyResult::new();
    for (name, value) in fields.into_iter().chain([("ttlMs", json!(0)), ("cacheScope", json!("public"))]) {
        result.extra.insert(name, Json::from(value));
    }
    result
}

fn skill() -> Value {
    let files = FILES.iter();
    let files =
        files.map(|file| json!({ "uri": file.uri(), "digest": file.digest(), "size": file.text.len() }));
    json!({
        "uri": FILES[0].uri(),
        "frontmatter": { "name": NAME, "description": DESCRIPTION },
        "resources": files.collect::<Vec<_>>(),
    })
}

/// The direct children of a folder.
fn children(folder: &str) -> Option<Value> {
    let within = |file: &File| match folder.strip_prefix(FOLDER) {
        Some("") => !file.path.contains('/'),
        Some(path) => file.path.rsplit_once('/').is_some_and(|(it, _)| path.strip_prefix('/') == Some(it)),
        None => false,
    };
    let files = FILES.iter().filter(|file| within(file));
    let mut children: Vec<_> = files
        .map(|file| json!({ "uri": file.uri(), "name": file.name, "mimeType": "text/markdown" }))
        .collect();
    if folder == FOLDER {
        let references = format!("{FOLDER}/references");
        children.push(json!({ "uri": references, "name": "references", "mimeType": "inode/directory" }));
    }
    (!children.is_empty()).then(|| children.into())
}
