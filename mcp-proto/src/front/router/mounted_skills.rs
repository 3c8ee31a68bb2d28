//! The skills of a router that is mounted in another.

use alloc::sync::Arc;

use super::origin::Prefix;
use crate::front::skills::{SkillFuture, SkillPage, SkillSource};
use crate::peer::Principal;
use crate::prelude::*;
use crate::schema::Resource;
use crate::schema::skills::{Skill, SkillFiles};

/// A source of skills under a prefix.
pub(super) struct MountedSkills {
    source: Arc<dyn SkillSource>,
    prefix: Prefix,
    root: String,
}

impl MountedSkills {
    /// The source as it is in another router.
    pub(super) fn of(source: &Arc<dyn SkillSource>, prefix: &Prefix) -> Arc<dyn SkillSource> {
        if prefix.as_str().is_none() {
            return source.clone();
        }
        let root = prefix.uri(source.root());
        Arc::new(Self { source: source.clone(), prefix: prefix.clone(), root })
    }

    fn rename(&self, skill: &mut Skill) {
        skill.uri = self.prefix.uri(&skill.uri);
        if let SkillFiles::Listed(files) = &mut skill.resources {
            files.iter_mut().for_each(|file| file.uri = self.prefix.uri(&file.uri));
        }
    }
}

impl SkillSource for MountedSkills {
    fn root(&self) -> &str {
        &self.root
    }

    fn list<'a>(
        &'a self,
        principal: Option<&'a Principal>,
        mut page: SkillPage,
    ) -> SkillFuture<'a, SkillPage> {
        Box::pin(async move {
            let others = page.skills.len();
            page.after = page.after.map(|uri| self.prefix.registered_uri(&uri));
            let mut page = self.source.list(principal, page).await?;
            page.skills.iter_mut().skip(others).for_each(|skill| self.rename(skill));
            Ok(page)
        })
    }

    fn skill<'a>(&'a self, principal: Option<&'a Principal>, uri: &'a str) -> SkillFuture<'a, Option<Skill>> {
        Box::pin(async move {
            let mut found = self.source.skill(principal, &self.prefix.registered_uri(uri)).await?;
            found.iter_mut().for_each(|skill| self.rename(skill));
            Ok(found)
        })
    }

    fn read<'a>(
        &'a self,
        principal: Option<&'a Principal>,
        uri: &'a str,
    ) -> SkillFuture<'a, Option<Vec<u8>>> {
        Box::pin(async move { self.source.read(principal, &self.prefix.registered_uri(uri)).await })
    }

    fn directory<'a>(
        &'a self,
        principal: Option<&'a Principal>,
        uri: &'a str,
    ) -> SkillFuture<'a, Option<Vec<Resource>>> {
        Box::pin(async move {
            let mut children = self.source.directory(principal, &self.prefix.registered_uri(uri)).await?;
            children.iter_mut().flatten().for_each(|child| child.uri = self.prefix.uri(&child.uri));
            Ok(children)
        })
    }
}
