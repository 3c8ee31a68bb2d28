//! Fuzzing of the frontmatter of skills.

use crate::prelude::*;
use crate::schema::Json;
use crate::schema::skills::Frontmatter;

/// Reads the input as the frontmatter of a skill, and as further fields of one.
///
/// Nothing panics, the JSON of each field is valid, and the fields equal it.
pub fn frontmatter(data: &[u8]) {
    let Ok(yaml) = str::from_utf8(data) else { return };
    for main_file in [yaml.to_owned(), format!("---\nname: knots\ndescription: Ties\n{yaml}\n---\n")] {
        let Ok(frontmatter) = Frontmatter::parse(&main_file) else { continue };
        let listed = frontmatter.to_json();
        for (name, value) in &listed {
            assert_eq!(Json::new(value.as_str()).as_ref().ok(), Some(value), "{name:?} is no JSON");
        }
        assert_eq!(frontmatter.compare(&listed), Ok(()), "the fields differ from their JSON");
    }
}
