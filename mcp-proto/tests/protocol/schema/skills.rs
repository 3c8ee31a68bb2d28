//! The entries of skills, by "Skill Entries" and "Capability Negotiation" of the skills extension.

use mcp_proto::schema::Method;
use mcp_proto::schema::skills::{
    Digest, EXTENSION, GetSkill, InvalidSkill, ListSkills, ListSkillsResult, ReadDirectory, Skill, SkillFiles,
};
use mcp_proto::schema::{Direction, Json, MethodInfo, Revision, ServerCapabilities, ServerCapability};
use serde_json::{Value, json};

const URI: &str = "skill://acme/refunds/SKILL.md";

fn digest(digit: char) -> String {
    format!("sha256:{}", digit.to_string().repeat(64))
}

fn entry() -> Value {
    json!({
        "uri": URI,
        "frontmatter": { "name": "refunds", "description": "Pays back", "metadata": { "version": "1.0" } },
        "resources": [
            { "uri": URI, "digest": digest('a'), "size": 3871 },
            { "uri": "skill://acme/refunds/examples/email.md", "digest": digest('0'), "size": 962.0 },
        ],
    })
}

fn read(entry: Value) -> Result<Skill, serde_json::Error> {
    serde_json::from_str(&entry.to_string())
}

#[test]
fn entry_is_read_with_every_field() {
    let skill = read(entry()).unwrap();
    assert_eq!((skill.name(), skill.description()), ("refunds".to_owned(), "Pays back".to_owned()));
    assert_eq!(skill.folder(), Some("skill://acme/refunds"));
    assert_eq!((skill.files().len(), skill.size()), (2, 4833));
    assert_eq!(skill.file(URI).unwrap().digest, Digest::new([0xaa; 32]));
    assert_eq!(skill.file("skill://acme/refunds/other.md"), None);
    assert_eq!(skill.frontmatter.get("metadata").unwrap().as_str(), r#"{"version":"1.0"}"#);
    let mut written = entry();
    written["resources"][1]["size"] = 962.into();
    assert_eq!(serde_json::to_value(&skill).unwrap(), written);
}

#[test]
fn generated_content_is_a_word() {
    let mut generated = entry();
    generated["resources"] = "dynamic".into();
    let skill = read(generated.clone()).unwrap();
    assert_eq!((&skill.resources, skill.files(), skill.check()), (&SkillFiles::Dynamic, &[][..], Ok(())));
    assert_eq!(serde_json::to_value(&skill).unwrap(), generated);
}

/// C15.3: "An entry with no `resources` at all, or with any value other than an array or `dynamic`, is invalid".
#[test]
fn invalid_entry_is_set_apart_from_the_others() {
    let changed = |pointer: &str, value: Value| {
        let mut changed = entry();
        *changed.pointer_mut(pointer).unwrap() = value;
        changed
    };
    let mut skills = vec![
        changed("/resources", Value::Null),
        changed("/resources", "static".into()),
        changed("/resources/0/digest", digest('A').into()),
        changed("/resources/0/digest", digest('a')[..70].into()),
        changed("/resources/0/size", (-1).into()),
        changed("/frontmatter/name", 7.into()),
        changed("/frontmatter", json!({ "name": "refunds" })),
    ];
    skills[0].as_object_mut().unwrap().remove("resources");
    let count = skills.len();
    skills.push(entry());
    let listing = json!({ "resultType": "complete", "skills": skills, "ttlMs": 5, "cacheScope": "public" });
    let listing: ListSkillsResult = serde_json::from_str(&listing.to_string()).unwrap();
    assert_eq!((listing.skills.len(), listing.skills.invalid().len()), (1, count));
    assert_eq!(listing.ttl_ms, Some(5));
}

/// S12.2, S12.5
#[test]
fn entry_that_breaks_a_rule_is_refused() {
    let outside = |uri: &str| InvalidSkill::Outside { uri: uri.into() };
    let duplicate = InvalidSkill::Duplicate { uri: URI.into() };
    for (pointer, value, error) in [
        ("/uri", "skill://acme/other/SKILL.md", InvalidSkill::Uri),
        ("/uri", "skill://acme/refunds/README.md", InvalidSkill::Uri),
        ("/uri", "skill://acme/refunds/SKILL.md?refunds/SKILL.md", InvalidSkill::Uri),
        ("/frontmatter/name", "refunds-", InvalidSkill::Uri),
        ("/resources/0/uri", "skill://acme/refunds/other.md", InvalidSkill::NoMainFile),
        ("/resources/1/uri", URI, duplicate),
        ("/resources/1/uri", "skill://acme/refunds-2/a.md", outside("skill://acme/refunds-2/a.md")),
        ("/resources/1/uri", "skill://acme/refunds/../a.md", outside("skill://acme/refunds/../a.md")),
        ("/resources/1/uri", "skill://acme/refunds/b/%2E./a.md", outside("skill://acme/refunds/b/%2E./a.md")),
        ("/resources/1/uri", "skill://acme/refunds/", outside("skill://acme/refunds/")),
        ("/resources/1/uri", "skill://acme/refunds/a#b", outside("skill://acme/refunds/a#b")),
    ] {
        let mut changed = entry();
        *changed.pointer_mut(pointer).unwrap() = value.into();
        assert_eq!(read(changed).unwrap().check(), Err(error), "{pointer} {value}");
    }
    for name in ["Refunds", "re--funds", "-refunds", "", &"a".repeat(65), "re_funds"] {
        let mut changed = entry();
        changed["frontmatter"]["name"] = name.into();
        changed["uri"] = format!("skill://acme/{name}/SKILL.md").into();
        assert_eq!(read(changed).unwrap().check(), Err(InvalidSkill::Name), "{name}");
    }
    assert_eq!(read(entry()).unwrap().check(), Ok(()));
}

#[test]
fn capability_has_one_setting() {
    let both = [ServerCapability::SkillsExtension, ServerCapability::DirectoryRead];
    let declared = |settings: Value| {
        let declared = ServerCapabilities::new().with_extension(EXTENSION, settings).unwrap();
        both.map(|capability| declared.has(capability))
    };
    assert_eq!(declared(json!({})), [true, false]);
    assert_eq!(declared(json!({ "directoryRead": true })), [true, true]);
    assert_eq!(declared(json!({ "directoryRead": "true" })), [true, false]);
    let settings = |first, second| {
        let declared = ServerCapabilities::new().with_extension(EXTENSION, json!({ "more": 1 })).unwrap();
        declared.with(first).with(second).extension(EXTENSION).map(Json::as_str).unwrap().to_owned()
    };
    let [skills, directories] = both;
    assert_eq!(settings(skills, directories), r#"{"more":1,"directoryRead":true}"#);
    assert_eq!(settings(directories, skills), r#"{"more":1,"directoryRead":true}"#);
    assert_eq!(
        ServerCapabilities::new().with(directories).extension(EXTENSION).unwrap().as_str(),
        r#"{"directoryRead":true}"#
    );
}

#[test]
fn methods_exist_since_2026_07_28() {
    for info in [ListSkills::INFO, GetSkill::INFO, ReadDirectory::INFO] {
        let at = |revision| MethodInfo::find(info.name, Direction::ClientToServer, revision);
        assert_eq!((at(Revision::V2026_07_28), at(Revision::V2025_11_25)), (Some(info), None));
    }
}
