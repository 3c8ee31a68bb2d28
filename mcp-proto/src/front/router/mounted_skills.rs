//! The skills of a router that is mounted in another.

use alloc::sync::Arc;

use super::origin::Prefix;
use crate::front::skills::{SkillFuture, SkillSource};
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

    fn renamed(&self, mut skill: Skill) -> Skill {
        skill.uri = self.prefix.uri(&skill.uri);
        if let SkillFiles::Listed(files) = &mut skill.resources {
            files.iter_mut().for_each(|file| file.uri = self.prefix.uri(&file.uri));
        }
        skill
    }
}

impl SkillSource for MountedSkills {
    fn root(&self) -> &str {
        &self.root
    }

    fn uris(&self) -> SkillFuture<'_, Vec<String>> {
        Box::pin(async move {
            let uris = self.source.uris().await?;
            Ok(uris.iter().map(|uri| self.prefix.uri(uri)).collect())
        })
    }

    fn skill<'a>(&'a self, uri: &'a str) -> SkillFuture<'a, Option<Skill>> {
        Box::pin(async move {
            let found = self.source.skill(&self.prefix.registered_uri(uri)).await?;
            Ok(found.map(|skill| self.renamed(skill)))
        })
    }

    fn read<'a>(&'a self, uri: &'a str) -> SkillFuture<'a, Option<Vec<u8>>> {
        Box::pin(async move { self.source.read(&self.prefix.registered_uri(uri)).await })
    }

    fn directory<'a>(&'a self, uri: &'a str) -> SkillFuture<'a, Option<Vec<Resource>>> {
        Box::pin(async move {
            let mut children = self.source.directory(&self.prefix.registered_uri(uri)).await?;
            children.iter_mut().flatten().for_each(|child| child.uri = self.prefix.uri(&child.uri));
            Ok(children)
        })
    }
}
