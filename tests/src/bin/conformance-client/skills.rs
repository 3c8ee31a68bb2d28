//! Skills, an extension: the client fetches only the list before it loads one, and rejects a file that differs from its
//! listing.

use mcp_proto::front::{Client, Error};
use mcp_proto::skills::SkillManifest;

use crate::Outcome;

/// Loads the skills of a server that has tampered with them: each must be rejected.
pub(crate) async fn refuse(client: &Client) -> Outcome {
    for entry in client.list_skills().await? {
        let uri = entry.uri.clone();
        match load(client, SkillManifest::new(entry)?).await {
            Err(Error::Skill(error)) if error.is_mismatch() => {}
            Err(error) => return Err(error.into()),
            Ok(()) => return Err(format!("{uri} was accepted").into()),
        }
    }
    Ok(())
}

/// Fetches the files of a skill, its `SKILL.md` first.
async fn load(client: &Client, skill: SkillManifest) -> Result<(), Error> {
    client.read_skill_file(&skill, skill.uri()).await?;
    for file in skill.skill().files() {
        client.read_skill_file(&skill, &file.uri).await?;
    }
    Ok(())
}
