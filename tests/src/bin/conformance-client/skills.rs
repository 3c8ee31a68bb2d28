//! Skills, an extension: the client fetches only the list before it loads one, and rejects a file that differs from its
//! listing.

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

/// Lists the skills, without fetching their files.
pub(crate) async fn list(client: &Client) -> Outcome<Vec<Skill>> {
    let result = client.request::<ListSkills>(CustomParams::new()).await?;
    Ok(result.extra.get("skills").ok_or("the server lists no skills")?.decode()?)
}

/// Loads the skills of a server that has tampered with them: each must be rejected.
pub(crate) async fn refuse(client: &Client) -> Outcome {
    for skill in list(client).await? {
        if load(client, &skill).await.is_ok() {
            return Err(format!("{} was accepted", skill.uri).into());
        }
    }
    Ok(())
}

/// Fetches the files of a skill, its `SKILL.md` first; fails at the first that differs from its listing.
async fn load(client: &Client, skill: &Skill) -> Outcome {
    let (first, others): (Vec<_>, Vec<_>) = skill.resources.iter().partition(|file| file.uri == skill.uri);
    let [first] = first.as_slice() else {
        return Err("the skill must list its SKILL.md exactly once".into());
    };
    let text = fetch(client, first).await?;
    if frontmatter(&text)? != skill.frontmatter {
        return Err("the frontmatter differs from the listing".into());
    }
    for file in others {
        fetch(client, file).await?;
    }
    Ok(())
}

async fn fetch(client: &Client, file: &File) -> Outcome<String> {
    let result = client.read_resource(&file.uri).await?;
    let [ResourceContents::Text(contents)] = result.contents.as_slice() else {
        return Err(format!("{} is not text", file.uri).into());
    };
    let digest = Sha256::digest(&contents.text).iter().fold("sha256:".to_owned(), |mut digest, byte| {
        let _ = write!(digest, "{byte:02x}");
        digest
    });
    if contents.text.len() != file.size || digest != file.digest {
        return Err(format!("{} differs from its listing", file.uri).into());
    }
    Ok(contents.text.clone())
}

/// The lines between the dashes, each a key and its value. Other YAML is rejected, as it cannot be compared with the
/// listing.
fn frontmatter(text: &str) -> Outcome<BTreeMap<String, Value>> {
    let (lines, _) = text
        .strip_prefix("---\n")
        .and_then(|rest| rest.split_once("\n---"))
        .ok_or("the file has no frontmatter")?;
    let fields = lines.lines().map(|line| {
        let (key, value) = line.split_once(": ")?;
        Some((key.to_owned(), value.trim().into()))
    });
    Ok(fields.collect::<Option<_>>().ok_or("the frontmatter is not a list of keys and values")?)
}
