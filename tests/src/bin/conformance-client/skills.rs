//! Skills, an extension of its own: what a server lists of them is all that is fetched before one is loaded, and a file
//! that is not what was listed is not used.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mcp_proto::front::Client;
use mcp_proto::schema::{CustomParams, EmptyResult, Method, MethodInfo, ResourceContents};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::Outcome;

enum ListSkills {}

impl Method for ListSkills {
    const INFO: &'static MethodInfo = &MethodInfo::custom("skills/list");
    type Params = CustomParams;
    type Result = EmptyResult;
}

#[derive(Deserialize)]
pub(crate) struct Skill {
    uri: String,
    frontmatter: BTreeMap<String, Value>,
    resources: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    uri: String,
    digest: String,
    size: usize,
}

/// What skills there are. Nothing of them is fetched.
pub(crate) async fn list(client: &Client) -> Outcome<Vec<Skill>> {
    let result = client.request::<ListSkills>(CustomParams::new()).await?;
    Ok(result.extra.get("skills").ok_or("the server lists no skills")?.decode()?)
}

/// Loads the skills of a server that has tampered with them: none may be found good.
pub(crate) async fn refuse(client: &Client) -> Outcome {
    for skill in list(client).await? {
        if load(client, &skill).await.is_ok() {
            return Err(format!("{} was taken for good", skill.uri).into());
        }
    }
    Ok(())
}

/// Fetches the files of a skill, its `SKILL.md` first; one that is not as listed ends it.
async fn load(client: &Client, skill: &Skill) -> Outcome {
    let (first, others): (Vec<_>, Vec<_>) = skill.resources.iter().partition(|file| file.uri == skill.uri);
    let [first] = first.as_slice() else { return Err("the skill does not list its own file once".into()) };
    let text = fetch(client, first).await?;
    if frontmatter(&text)? != skill.frontmatter {
        return Err("the frontmatter is not the listed one".into());
    }
    for file in others {
        fetch(client, file).await?;
    }
    Ok(())
}

async fn fetch(client: &Client, file: &File) -> Outcome<String> {
    let result = client.read_resource(&file.uri).await?;
    let [ResourceContents::Text(contents)] = result.contents.as_slice() else {
        return Err(format!("{} is no text", file.uri).into());
    };
    let digest = Sha256::digest(&contents.text).iter().fold("sha256:".to_owned(), |mut digest, byte| {
        let _ = write!(digest, "{byte:02x}");
        digest
    });
    if contents.text.len() != file.size || digest != file.digest {
        return Err(format!("{} is not what was listed", file.uri).into());
    }
    Ok(contents.text.clone())
}

/// The lines between the dashes, each a key and its value. What YAML can do beyond that is not understood, and so not
/// found to be what was listed.
fn frontmatter(text: &str) -> Outcome<BTreeMap<String, Value>> {
    let (lines, _) = text
        .strip_prefix("---\n")
        .and_then(|rest| rest.split_once("\n---"))
        .ok_or("there is no frontmatter")?;
    let fields = lines.lines().map(|line| {
        let (key, value) = line.split_once(": ")?;
        Some((key.to_owned(), value.trim().into()))
    });
    Ok(fields.collect::<Option<_>>().ok_or("the frontmatter is not plain")?)
}
