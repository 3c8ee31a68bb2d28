//! The client's calls for skills, each verified.

use super::calls::page;
use super::{Client, Pages};
use crate::front::{Error, Request};
use crate::peer::CacheMode;
use crate::prelude::*;
use crate::schema::skills::{GetSkill, GetSkillParams, ListSkills, ReadDirectory, ReadDirectoryParams};
use crate::schema::{List, PaginatedParams, Resource};
use crate::skills::{SkillError, SkillManifest, VerifiedFile};

/// # Skills (2026-07-28)
///
/// Only of servers that declare the [extension](crate::schema::skills::EXTENSION); others are not asked. The client declares
/// it too, by [`declare_skills`](crate::schema::ClientCapabilities::declare_skills). Nothing of a skill is read before one of these
/// methods is called for it.
impl Client {
    /// Lists the skills of the server, over all pages. It may serve others, which [`get_skill`](Self::get_skill) gets.
    ///
    /// An entry is as the server sent it: make a [`SkillManifest`] of the one to use. Entries that cannot be read are
    /// [invalid](List::invalid).
    ///
    /// ```
    /// # use mcp_proto::front::{Client, Error};
    /// use mcp_proto::skills::SkillManifest;
    ///
    /// # async fn example(client: Client) -> Result<(), Error> {
    /// for entry in client.list_skills().await? {
    ///     println!("{}: {}", entry.name(), entry.description());
    ///     // Once the user wants this one:
    ///     let skill = SkillManifest::new(entry)?;
    ///     let instructions = client.read_skill_file(&skill, skill.uri()).await?;
    ///     println!("{}", instructions.text().unwrap_or_default());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// <https://modelcontextprotocol.io/seps/2640-skills-extension#enumeration-via-skillslist>
    pub fn list_skills(&self) -> Pages<ListSkills> {
        Pages::new(self.clone(), PaginatedParams::new())
    }

    /// Lists one page of the skills; the first page if `cursor` is `None`.
    pub fn list_skills_page(&self, cursor: Option<&str>) -> Request<ListSkills> {
        self.request(page(cursor))
    }

    //= C15.2 "only by `skills/list` or `skills/get`"
    //= C15.18 "A skill can be loaded by its URI alone"
    /// Gets the present entry of a skill by the URI of its `SKILL.md`, listed or not. No cached answer is used, so that it
    /// also replaces an entry that [differs](SkillError::is_mismatch) from the content by now.
    ///
    /// <https://modelcontextprotocol.io/seps/2640-skills-extension#retrieval-via-skillsget>
    ///
    /// # Errors
    /// If the server has no such skill (code -32602), or its entry is not valid ([`Error::Skill`]).
    pub async fn get_skill(&self, uri: impl Into<String>) -> Result<SkillManifest, Error> {
        let uri = uri.into();
        let answer = self.request::<GetSkill>(GetSkillParams::new(uri.clone())).cache(CacheMode::Refresh);
        Ok(SkillManifest::of_answer(&uri, answer.await?.skill)?)
    }

    /// Reads a file of a skill by its URI, and verifies it: see [`SkillManifest::verify`]. No cached answer is used, which
    /// may be older than the entry.
    ///
    /// # Errors
    /// If the entry does not list the file, which is not requested then, or the content differs ([`Error::Skill`]); and if
    /// the request fails.
    pub async fn read_skill_file(&self, skill: &SkillManifest, uri: &str) -> Result<VerifiedFile, Error> {
        skill.check(uri)?;
        let read = self.read_resource(uri).cache(CacheMode::Refresh).await?;
        Ok(skill.verify(uri, &read.contents)?)
    }

    /// Lists the direct children of a folder of a skill, over all pages, if the server declares `directoryRead`. Of a skill
    /// that is not dynamic, [`SkillManifest::children`] says the same without a request.
    ///
    /// <https://modelcontextprotocol.io/seps/2640-skills-extension#directory-listing>
    ///
    /// # Errors
    /// If the folder is not in the skill, or a child is not directly in the folder or not listed ([`Error::Skill`]); and if
    /// the request fails.
    pub async fn read_skill_folder(
        &self,
        skill: &SkillManifest,
        folder: &str,
    ) -> Result<List<Resource>, Error> {
        let folder = skill.resolve(folder)?;
        let children =
            Pages::<ReadDirectory>::new(self.clone(), ReadDirectoryParams::new(folder.clone())).await?;
        skill.check_children(&folder, &children)?;
        Ok(children)
    }
}

impl From<SkillError> for Error {
    fn from(error: SkillError) -> Self {
        Self::Skill(Box::new(error))
    }
}
