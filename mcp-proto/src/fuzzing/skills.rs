//! Fuzzing of the entries of skills.

use crate::schema::Json;
use crate::schema::ResourceContents;
use crate::schema::skills::{Skill, uri_within};
use crate::skills::SkillManifest;

/// Reads the first line of the input as the entry of a skill, and each further one as a path in it and as what a server returns.
///
/// Nothing panics. Every file of an entry that is accepted, and every path that is resolved, lies in its folder; the entry is
/// read back as it is written; and nothing is accepted as a file that the entry does not list.
pub fn skill_manifest(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let mut lines = text.lines();
    let Ok(skill) = Json::new(lines.next().unwrap_or_default()).and_then(|json| json.decode::<Skill>())
    else {
        return;
    };
    let Ok(manifest) = SkillManifest::new(skill.clone()) else { return };
    let read: Skill = serde_json::from_str(&serde_json::to_string(manifest.skill()).unwrap()).unwrap();
    assert_eq!(
        (&read, SkillManifest::new(read.clone()).as_ref()),
        (&skill, Ok(&manifest)),
        "it is written differently"
    );
    for file in manifest.skill().files() {
        assert_within(&manifest, &file.uri);
        assert_eq!(manifest.check(&file.uri), Ok(()));
        assert_eq!(manifest.resolve(&file.uri).as_deref(), Ok(&*file.uri));
    }
    for child in manifest.children(manifest.folder()) {
        assert_within(&manifest, &child.uri);
    }
    let _ = manifest.requested_tools();
    for path in lines {
        let Ok(uri) = manifest.resolve(path) else { continue };
        if uri != manifest.folder() {
            assert_within(&manifest, &uri);
        }
        let contents = [ResourceContents::text(&*uri, path)];
        let is_listed = manifest.is_dynamic() || manifest.skill().file(&uri).is_some();
        assert!(manifest.verify(&uri, &contents).is_err() || is_listed, "{uri} is not listed");
    }
}

/// Checks that a URI is that of something below the folder, however it is decoded.
fn assert_within(skill: &SkillManifest, uri: &str) {
    let path = uri.strip_prefix(skill.folder()).and_then(|rest| rest.strip_prefix('/')).unwrap();
    for segment in path.split('/') {
        let decoded = crate::codec::percent_decode(segment).unwrap();
        assert!(
            !matches!(&*decoded, b"" | b"." | b"..") && !decoded.contains(&b'/'),
            "{uri} leaves the folder"
        );
    }
    assert!(!uri.contains(['?', '#', '\\']) && !uri.chars().any(char::is_control), "{uri} hides something");
    // What is within the folder when it is decoded has a URI there.
    assert!(uri_within(skill.folder(), path).is_some(), "{uri}");
}
