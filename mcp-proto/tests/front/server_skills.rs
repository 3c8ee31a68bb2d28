//! Skills of a server, by the sections of the skills extension that the tests name.

use core::future::ready;
use std::sync::Mutex;

use crate::common::front_http::HttpHarness;
use crate::common::router::ServerHarness;
use mcp_proto::front::skills::{InMemorySkill, SkillFuture, SkillPage, SkillSource};
use mcp_proto::front::{HandlerError, Router, RouterError};
use mcp_proto::peer::Principal;
use mcp_proto::rpc::code;
use mcp_proto::schema::skills::{
    Digest, FrontmatterError, GetSkill, InvalidSkill, ListSkills, MAX_BYTES, MAX_FILES, ReadDirectory, Skill,
    SkillFile, SkillFilesError,
};
use mcp_proto::schema::{CacheHint, Resource, ServerCapability};
use serde_json::{Value, json};

const REFUNDS: &str =
    "---\nname: refunds\ndescription: Pays money back\nmetadata:\n  version: 1.10\n---\nAsk first.\n";
const URI: &str = "skill://acme/billing/refunds/SKILL.md";

fn refunds() -> InMemorySkill {
    InMemorySkill::new(REFUNDS)
        .under("acme/billing")
        .file("templates/second email.md", "Again")
        .file("templates/email.md", "Dear customer")
        .file("templates/regional/eu.md", "Dear European")
        .file("seal.png", [0xff, 0xd8])
}

fn named(name: &str) -> InMemorySkill {
    InMemorySkill::new(format!("---\nname: {name}\ndescription: Is {name}\n---\n"))
}

fn router() -> Router {
    Router::new("billing", "1").skill(refunds())
}

fn digest(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}

fn uris(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item["uri"].as_str().unwrap()).collect()
}

/// S12.1: "Capability Negotiation": a server that declares the extension declares `resources`.
#[test]
fn skill_declares_the_extension_and_resources() {
    let mut server = ServerHarness::modern(router());
    let capabilities = server.result("server/discover", json!({}))["capabilities"].clone();
    assert_eq!(
        capabilities["extensions"]["io.modelcontextprotocol/skills"],
        json!({ "directoryRead": true })
    );
    assert!(capabilities["resources"].is_object());
}

/// S12.3, S12.4, S12.5, S12.7, S12.10: "Skill Entries": verbatim frontmatter, and every file with its digest and size.
#[test]
fn skill_is_listed_with_all_its_files() {
    let mut server = ServerHarness::modern(router());
    let file = |path: &str, bytes: &[u8]| json!({ "uri": format!("skill://acme/billing/refunds/{path}"), "digest": digest(bytes), "size": bytes.len() });
    let skill = json!({
        "uri": URI,
        "frontmatter": { "name": "refunds", "description": "Pays money back", "metadata": { "version": 1.1 } },
        "resources": [
            file("SKILL.md", REFUNDS.as_bytes()),
            file("templates/second%20email.md", b"Again"),
            file("templates/email.md", b"Dear customer"),
            file("templates/regional/eu.md", b"Dear European"),
            file("seal.png", &[0xff, 0xd8]),
        ],
    });
    let list = server.result("skills/list", json!({}));
    assert_eq!(list["skills"], json!([skill]));
    assert_eq!(
        (&list["ttlMs"], &list["cacheScope"], list.get("nextCursor")),
        (&json!(0), &json!("private"), None)
    );
    let got = server.result("skills/get", json!({ "uri": URI }));
    assert_eq!((&got["skill"], &got["ttlMs"], &got["resultType"]), (&skill, &json!(0), &json!("complete")));
}

#[test]
fn lifetime_of_a_listing_is_that_of_the_router() {
    let hint = CacheHint::public(core::time::Duration::from_secs(300));
    let mut server = ServerHarness::modern(router().cache::<ListSkills>(hint).cache::<GetSkill>(hint));
    for (method, params) in [("skills/list", json!({})), ("skills/get", json!({ "uri": URI }))] {
        let result = server.result(method, params);
        assert_eq!(
            (&result["ttlMs"], &result["cacheScope"]),
            (&json!(300_000), &json!("public")),
            "{method}"
        );
    }
}

/// S12.6, S12.8: "Error Handling": unknown skills, directories and files are invalid parameters.
#[test]
fn unknown_uri_is_an_invalid_parameter() {
    let mut server = ServerHarness::modern(router());
    let folder = "skill://acme/billing/refunds";
    for (method, uris) in [
        (
            "skills/get",
            &["skill://refunds/SKILL.md", "skill://acme/billing/refunds/templates/email.md", folder][..],
        ),
        (
            "resources/directory/read",
            &[
                URI,
                "skill://acme/billing/refunds/other",
                "skill://acm",
                "skill://acme/billing/refunds/",
                "note:///a",
            ],
        ),
        (
            "resources/read",
            &[
                "skill://acme/billing/refunds/other.md",
                folder,
                "skill://acme/billing/refunds/templates/../SKILL.md",
            ],
        ),
    ] {
        for uri in uris {
            assert_eq!(
                server.error(method, json!({ "uri": uri }))["code"],
                code::INVALID_PARAMS,
                "{method} {uri}"
            );
        }
    }
    for method in ["skills/get", "resources/directory/read"] {
        assert_eq!(server.error(method, json!({}))["code"], code::INVALID_PARAMS);
    }
}

/// S12.9, S12.13: "Resource Metadata": the name and the description of `SKILL.md` are those of the frontmatter.
#[test]
fn file_is_a_resource_for_clients_of_every_revision() {
    for mut server in [ServerHarness::modern(router()), ServerHarness::legacy(router())] {
        let resources = server.result("resources/list", json!({}))["resources"].clone();
        assert_eq!(
            resources[0],
            json!({ "uri": URI, "name": "refunds", "description": "Pays money back", "mimeType": "text/markdown",
                "size": REFUNDS.len() })
        );
        assert_eq!(resources.as_array().unwrap().len(), 5);
        let mut read = |uri: &str| server.result("resources/read", json!({ "uri": uri }))["contents"].clone();
        assert_eq!(read(URI), json!([{ "uri": URI, "mimeType": "text/markdown", "text": REFUNDS }]));
        let uri = "skill://acme/billing/refunds/seal.png";
        assert_eq!(read(uri), json!([{ "uri": uri, "mimeType": "image/png", "blob": "/9g=" }]));
    }
}

/// "Protocol Revision": 2026-07-28 or later.
#[test]
fn legacy_client_has_no_methods_of_skills() {
    let mut server = ServerHarness::legacy(router());
    for method in ["skills/list", "skills/get", "resources/directory/read"] {
        assert_eq!(server.error(method, json!({ "uri": URI }))["code"], code::METHOD_NOT_FOUND, "{method}");
    }
}

/// S12.8: "Reading Directories": files with their metadata, folders as directories, not recursive.
#[test]
fn directory_has_its_direct_children() {
    let mut server = ServerHarness::modern(router());
    let mut read =
        |uri: &str| server.result("resources/directory/read", json!({ "uri": uri }))["resources"].clone();
    let root = read("skill://acme/billing/refunds");
    assert_eq!(
        root,
        json!([
            { "uri": URI, "name": "refunds", "description": "Pays money back", "mimeType": "text/markdown", "size": REFUNDS.len() },
            { "uri": "skill://acme/billing/refunds/seal.png", "name": "seal.png", "mimeType": "image/png", "size": 2 },
            { "uri": "skill://acme/billing/refunds/templates", "name": "templates", "mimeType": "inode/directory" },
        ])
    );
    let templates = read("skill://acme/billing/refunds/templates");
    assert_eq!(
        uris(&templates),
        ["email.md", "regional", "second%20email.md"]
            .map(|name| format!("skill://acme/billing/refunds/templates/{name}"))
    );
    assert_eq!(templates[2]["name"], "second email.md");
    assert_eq!(uris(&read("skill://acme/billing/refunds/templates/regional")).len(), 1);
}

/// S12.8: "Directory Listing": every level above a skill is a directory, of all skills that lie there.
#[test]
fn directory_above_skills_has_the_directories_of_all() {
    let router =
        Router::new("x", "1").skill(named("taxes").under("acme/billing")).skill(named("knots").under("acme"));
    let router = router.skill(refunds()).skills_from(Rooted("gen://a/b/")).skills_from(Rooted("whole://"));
    let mut server = ServerHarness::modern(router);
    for (directory, expected) in [
        ("skill://acme", &["skill://acme/billing", "skill://acme/knots"][..]),
        ("skill://acme/billing", &["skill://acme/billing/refunds", "skill://acme/billing/taxes"]),
        ("gen://a", &["gen://a/b"]),
    ] {
        let children =
            server.result("resources/directory/read", json!({ "uri": directory }))["resources"].clone();
        assert_eq!(uris(&children), expected, "{directory}");
        assert_eq!(children[0]["mimeType"], "inode/directory");
    }
    for uri in ["skill://acm", "skill://acme/", "skill://", "skill:/", "skill:", "gen://b", "whole:/"] {
        let error = server.error("resources/directory/read", json!({ "uri": uri }));
        assert_eq!(error["code"], code::INVALID_PARAMS, "{uri}");
    }
}

/// S12.7
#[test]
fn lists_and_directories_have_pages() {
    let router = Router::new("many", "1").page_size(2);
    let router = ["c", "a", "b", "d", "e"].into_iter().fold(router, |router, name| router.skill(named(name)));
    let files = named("files").file("1", "").file("2", "").file("3", "");
    let mut server = ServerHarness::modern(router.skill(files));
    let mut pages = |method: &str, field: &str, mut params: Value| {
        let mut pages: Vec<Vec<String>> = Vec::new();
        loop {
            let page = server.result(method, params.clone());
            pages.push(
                uris(&page[field])
                    .into_iter()
                    .map(|uri| uri.trim_start_matches("skill://").to_owned())
                    .collect(),
            );
            match page.get("nextCursor") {
                Some(cursor) => params["cursor"] = cursor.clone(),
                None => return pages,
            }
        }
    };
    let expected: [&[&str]; 3] =
        [&["c/SKILL.md", "a/SKILL.md"], &["b/SKILL.md", "d/SKILL.md"], &["e/SKILL.md", "files/SKILL.md"]];
    assert_eq!(pages("skills/list", "skills", json!({})), expected);
    let folder = json!({ "uri": "skill://files" });
    let expected: [&[&str]; 2] = [&["files/1", "files/2"], &["files/3", "files/SKILL.md"]];
    assert_eq!(pages("resources/directory/read", "resources", folder), expected);
    for (method, params) in [
        ("skills/list", json!({ "cursor": "skill://other/SKILL.md" })),
        ("skills/list", json!({ "cursor": "" })),
        ("resources/directory/read", json!({ "uri": "skill://files", "cursor": "skill://files/9" })),
    ] {
        assert_eq!(server.error(method, params)["code"], code::INVALID_PARAMS);
    }
}

/// S12.4, S12.14: "Nested Skills": the outer entry has the files of the inner one, which has an entry of its own.
#[test]
fn nested_skill_has_an_entry_of_its_own() {
    let inner = "---\nname: inner\ndescription: Within\n---\n";
    let outer = named("outer").file("inner/SKILL.md", inner).file("inner/a.md", "a").file("b.md", "b");
    let mut server = ServerHarness::modern(Router::new("nested", "1").skill(outer));
    let list = server.result("skills/list", json!({}));
    assert_eq!(uris(&list["skills"]), ["skill://outer/SKILL.md", "skill://outer/inner/SKILL.md"]);
    let files: Vec<_> =
        list["skills"].as_array().unwrap().iter().map(|skill| uris(&skill["resources"]).len()).collect();
    assert_eq!(files, [4, 2]);
    let resources = server.result("resources/list", json!({}))["resources"].clone();
    let inner =
        resources.as_array().unwrap().iter().find(|it| it["uri"] == "skill://outer/inner/SKILL.md").unwrap();
    assert_eq!(inner["description"], "Within");
}

fn invalid(skill: InMemorySkill) -> SkillFilesError {
    match Router::new("x", "1").skill(skill).check() {
        Err(RouterError::Skill { error, .. }) => error,
        other => panic!("{other:?}"),
    }
}

/// S12.2, S12.11
#[test]
fn files_that_are_no_skill_are_refused_by_check() {
    let missing = SkillFilesError::Frontmatter(FrontmatterError::Missing);
    assert_eq!(invalid(InMemorySkill::new("# Title\n")), missing);
    assert_eq!(invalid(named("ok").file("in/SKILL.md", "# Title\n")), missing);
    assert_eq!(invalid(named("Upper")), SkillFilesError::Entry(InvalidSkill::Name));
    assert_eq!(
        invalid(named("ok").file("in/SKILL.md", "---\nname: other\ndescription: d\n---\n")),
        SkillFilesError::Entry(InvalidSkill::Uri)
    );
    // A number in YAML, and so in a listing.
    assert_eq!(invalid(named("12")), SkillFilesError::Frontmatter(FrontmatterError::Field { field: "name" }));
    for path in ["", "/a", "a//b", "../a", "a/./b", "a\\b"] {
        assert_eq!(invalid(named("ok").file(path, "")), SkillFilesError::Path { path: path.into() });
    }
    let described = |text: &str| InMemorySkill::new(format!("---\nname: ok\ndescription: '{text}'\n---\n"));
    assert_eq!(Router::new("x", "1").skill(described(&"é".repeat(1024))).check(), Ok(()));
    for text in ["é".repeat(1025), " ".to_owned()] {
        assert_eq!(invalid(described(&text)), SkillFilesError::Description, "{text}");
    }
    for (path, encoded) in [("a\nb".to_owned(), "a%0Ab".to_owned()), ("a".repeat(2040), "a".repeat(2040))] {
        let uri = format!("skill://ok/{encoded}");
        assert_eq!(invalid(named("ok").file(path, "")), SkillFilesError::UnsafeUri { uri });
    }
    assert_eq!(invalid(named("ok").under("a//b")), SkillFilesError::Path { path: "a//b".into() });
    let twice = InvalidSkill::Duplicate { uri: "skill://ok/a".into() };
    assert_eq!(invalid(named("ok").file("a", "1").file("a", "2")), SkillFilesError::Entry(twice));
    let with_files =
        |count: usize| (1..count).fold(named("ok"), |skill, number| skill.file(number.to_string(), ""));
    assert_eq!(invalid(with_files(MAX_FILES + 1)), SkillFilesError::TooManyFiles { count: MAX_FILES + 1 });
    assert_eq!(Router::new("x", "1").skill(with_files(MAX_FILES)).check(), Ok(()));
    let size = MAX_BYTES + 36;
    assert_eq!(
        invalid(named("ok").file("a", vec![0; MAX_BYTES as usize])),
        SkillFilesError::TooLarge { size }
    );
}

#[test]
fn skills_within_each_other_are_refused_by_check() {
    let outer = "skill://outer/".to_owned();
    let router = Router::new("x", "1").skill(named("outer")).skill(named("inner").under("outer/more"));
    let overlap =
        RouterError::SkillOverlap { root: "skill://outer/more/inner/".into(), other: outer.clone() };
    assert_eq!(router.check(), Err(overlap));
    // Its files are resources with the same URIs.
    assert!(Router::new("x", "1").skill(named("outer")).skill(named("outer")).check().is_err());
    assert_eq!(Router::new("x", "1").skill(named("outer")).skill(named("outer-2")).check(), Ok(()));
}

/// S12.1: "Capability Negotiation": the extension without `resources`, and without its methods.
#[test]
fn skills_without_resources_are_refused_by_check() {
    let router = || Router::new("x", "1").declare(ServerCapability::SkillsExtension);
    assert_eq!(router().check(), Err(RouterError::NoResources));
    assert_eq!(router().declare(ServerCapability::Resources).check(), Ok(()));
    let by_hand =
        Router::new("x", "1").handler::<ListSkills, _, _>(async |_, _| Err(HandlerError::new("never")));
    assert_eq!(by_hand.check(), Err(RouterError::NoResources));
    let shadowed = |method| RouterError::Shadowed {
        kind: "skill",
        name: "skill://acme/billing/refunds/".into(),
        method,
    };
    let hidden = router()
        .skill(refunds())
        .handler::<ReadDirectory, _, _>(async |_, _| Err(HandlerError::new("never")));
    assert_eq!(hidden.check(), Err(shadowed("resources/directory/read")));
}

/// "Listing Skills": the result may be empty.
#[test]
fn declared_skills_are_listed_even_if_there_are_none() {
    let router =
        Router::new("x", "1").declare(ServerCapability::Resources).declare(ServerCapability::SkillsExtension);
    let mut server = ServerHarness::modern(router);
    assert_eq!(server.result("skills/list", json!({}))["skills"], json!([]));
    assert_eq!(server.error("skills/get", json!({ "uri": URI }))["code"], code::INVALID_PARAMS);
    assert_eq!(
        server.error("resources/directory/read", json!({ "uri": URI }))["code"],
        code::METHOD_NOT_FOUND
    );
}

#[test]
fn skill_of_a_live_router_comes_and_goes() {
    let declared =
        Router::new("x", "1").declare(ServerCapability::Resources).declare(ServerCapability::DirectoryRead);
    let live = declared.live();
    let mut server = ServerHarness::modern_with(live.clone(), json!({}));
    server.send("subscriptions/listen", json!({ "notifications": { "resourcesListChanged": true } }));
    assert_eq!(server.line()["method"], "notifications/subscriptions/acknowledged");
    live.update(|router| router.skill(refunds())).unwrap();
    assert_eq!(server.line()["method"], "notifications/resources/list_changed");
    assert_eq!(uris(&server.result("skills/list", json!({}))["skills"]), [URI]);
    live.update(|router| router.remove_skill("skill://acme/billing/refunds")).unwrap();
    assert_eq!(server.line()["method"], "notifications/resources/list_changed");
    assert_eq!(server.result("skills/list", json!({}))["skills"], json!([]));
    assert_eq!(server.error("resources/read", json!({ "uri": URI }))["code"], code::INVALID_PARAMS);
    let unknown = live.update(|router| router.remove_skill("skill://acme/billing/refunds"));
    assert!(matches!(unknown, Err(RouterError::NotRegistered { kind: "skill", .. })));
    let undeclared = Router::new("x", "1").live().update(|router| router.skill(refunds()));
    assert!(matches!(undeclared, Err(RouterError::Undeclared { .. })));
}

#[test]
fn skills_are_removed_by_their_root_with_their_own_files_alone() {
    let kept = "skill://acme/billing/refunds/log/1";
    let with_log = |router: Router| router.resource(Resource::new(kept, "log"), async |_, _| "kept");
    let mut server = ServerHarness::modern(with_log(router()).remove_skill("skill://acme/billing/refunds/"));
    assert_eq!(uris(&server.result("resources/list", json!({}))["resources"]), [kept]);
    for (root, folder) in [("skill://", "skill://"), ("gen://a/", "gen://a"), ("gen://a/", "gen://a/")] {
        let router = with_log(Router::new("x", "1")).skills_from(Rooted(root)).remove_skill(folder);
        assert_eq!(router.check(), Ok(()), "{root} {folder}");
        let mut server = ServerHarness::modern(router);
        assert_eq!(uris(&server.result("resources/list", json!({}))["resources"]), [kept]);
    }
}

/// A mounted skill has other URIs than where it was registered.
#[test]
fn mounted_skill_is_removed_with_its_files() {
    let mounted = Router::new("x", "1").mount("inner", router());
    let uri = mounted_uri(&mounted);
    let router = mounted.remove_skill(uri.trim_end_matches("/SKILL.md"));
    let mut server = ServerHarness::modern(router);
    assert_eq!(server.result("skills/list", json!({}))["skills"], json!([]));
    assert_eq!(server.result("resources/list", json!({}))["resources"], json!([]));
}

fn mounted_uri(router: &Router) -> String {
    let mut server = ServerHarness::modern(router.clone());
    uris(&server.result("skills/list", json!({}))["skills"])[0].to_owned()
}

/// No skills at a root.
struct Rooted(&'static str);

impl SkillSource for Rooted {
    fn root(&self) -> &str {
        self.0
    }

    fn list<'a>(&'a self, _: Option<&'a Principal>, page: SkillPage) -> SkillFuture<'a, SkillPage> {
        Box::pin(ready(Ok(page)))
    }

    fn skill<'a>(&'a self, _: Option<&'a Principal>, _: &'a str) -> SkillFuture<'a, Option<Skill>> {
        Box::pin(ready(Ok(None)))
    }

    fn read<'a>(&'a self, _: Option<&'a Principal>, _: &'a str) -> SkillFuture<'a, Option<Vec<u8>>> {
        Box::pin(ready(Ok(None)))
    }

    fn directory<'a>(
        &'a self,
        _: Option<&'a Principal>,
        _: &'a str,
    ) -> SkillFuture<'a, Option<Vec<Resource>>> {
        Box::pin(ready(Ok(Some(Vec::new()))))
    }
}

/// Skills that are made at each request: each has one file, with the number of the request.
#[derive(Default)]
struct Generated(Mutex<u32>);

impl Generated {
    fn skill(&self, uri: &str) -> Option<Skill> {
        let name = uri.strip_prefix("gen://daily/")?.strip_suffix("/SKILL.md")?;
        let main_file = format!("---\nname: {name}\ndescription: Number {}\n---\n", self.0.lock().unwrap());
        Skill::describe(uri, main_file.as_bytes(), vec![SkillFile::of(uri, main_file.as_bytes())]).ok()
    }
}

impl SkillSource for Generated {
    fn root(&self) -> &str {
        "gen://daily/"
    }

    fn list<'a>(&'a self, _: Option<&'a Principal>, mut page: SkillPage) -> SkillFuture<'a, SkillPage> {
        *self.0.lock().unwrap() += 1;
        if *self.0.lock().unwrap() > 2 {
            return Box::pin(ready(Err(HandlerError::new("the index is gone"))));
        }
        // Those before the page, and those that it has no room for, are left out.
        for name in ["a", "c"] {
            page.push(Generated::skill(self, &format!("gen://daily/{name}/SKILL.md")).unwrap());
        }
        Box::pin(ready(Ok(page)))
    }

    fn skill<'a>(&'a self, _: Option<&'a Principal>, uri: &'a str) -> SkillFuture<'a, Option<Skill>> {
        Box::pin(ready(Ok(Generated::skill(self, uri).filter(|_| !uri.contains("/b/")))))
    }

    fn read<'a>(&'a self, _: Option<&'a Principal>, uri: &'a str) -> SkillFuture<'a, Option<Vec<u8>>> {
        Box::pin(ready(Ok(uri.ends_with("/a/SKILL.md").then(|| b"made".to_vec()))))
    }

    fn directory<'a>(
        &'a self,
        _: Option<&'a Principal>,
        uri: &'a str,
    ) -> SkillFuture<'a, Option<Vec<Resource>>> {
        Box::pin(ready(if uri.ends_with("/a") {
            Ok(Some(Vec::new()))
        } else {
            Err(HandlerError::new("broken"))
        }))
    }
}

/// S12.13
#[test]
fn source_is_asked_at_each_request() {
    let mut server = ServerHarness::modern(router().page_size(2).skills_from(Generated::default()));
    let list = server.result("skills/list", json!({}));
    assert_eq!(uris(&list["skills"]), [URI, "gen://daily/a/SKILL.md"]);
    let list = server.result("skills/list", json!({ "cursor": list["nextCursor"] }));
    assert_eq!(uris(&list["skills"]), ["gen://daily/c/SKILL.md"]);
    assert_eq!(list["skills"][0]["frontmatter"]["description"], "Number 2");
    assert_eq!(list.get("nextCursor"), None);
    let error = server.error("skills/list", json!({}));
    assert_eq!(
        (&error["code"], &error["message"]),
        (&json!(code::INTERNAL_ERROR), &json!("the index is gone"))
    );
    let read = server.result("resources/read", json!({ "uri": "gen://daily/a/SKILL.md" }));
    assert_eq!(read["contents"][0]["text"], "made");
    // An empty directory is one.
    let empty = server.result("resources/directory/read", json!({ "uri": "gen://daily/a" }));
    assert_eq!(empty["resources"], json!([]));
    let broken = server.error("resources/directory/read", json!({ "uri": "gen://daily" }));
    assert_eq!(broken["code"], code::INTERNAL_ERROR);
}

/// S12.7: A page ends after 4,096 files, so that its size is bounded; no entry is divided.
#[test]
fn page_ends_before_it_is_too_large() {
    let large =
        |name: &str| (1..MAX_FILES).fold(named(name), |skill, number| skill.file(number.to_string(), ""));
    let router =
        (0..9).fold(Router::new("large", "1"), |router, number| router.skill(large(&format!("s{number}"))));
    let mut server = ServerHarness::modern(router);
    let list = server.result("skills/list", json!({}));
    assert_eq!(list["skills"].as_array().unwrap().len(), 8);
    let list = server.result("skills/list", json!({ "cursor": list["nextCursor"] }));
    assert_eq!(list["skills"].as_array().unwrap().len(), 1);
}

/// One skill for each principal.
struct Personal;

impl Personal {
    fn uri(principal: Option<&Principal>) -> Option<String> {
        Some(format!("gen://own/{}/SKILL.md", principal?.as_str()))
    }

    fn text(principal: Option<&Principal>) -> Option<String> {
        let name = principal?.as_str();
        Some(format!("---\nname: {name}\ndescription: Is {name}\n---\n"))
    }

    fn entry(principal: Option<&Principal>) -> Option<Skill> {
        let (uri, text) = (Self::uri(principal)?, Self::text(principal)?);
        Skill::describe(&*uri, text.as_bytes(), vec![SkillFile::of(&*uri, text.as_bytes())]).ok()
    }
}

impl SkillSource for Personal {
    fn root(&self) -> &str {
        "gen://own/"
    }

    fn list<'a>(&'a self, by: Option<&'a Principal>, mut page: SkillPage) -> SkillFuture<'a, SkillPage> {
        Self::entry(by).into_iter().for_each(|skill| page.push(skill));
        Box::pin(ready(Ok(page)))
    }

    fn skill<'a>(&'a self, by: Option<&'a Principal>, uri: &'a str) -> SkillFuture<'a, Option<Skill>> {
        Box::pin(ready(Ok(Self::entry(by).filter(|skill| skill.uri == uri))))
    }

    fn read<'a>(&'a self, by: Option<&'a Principal>, uri: &'a str) -> SkillFuture<'a, Option<Vec<u8>>> {
        let text = Self::text(by).filter(|_| Self::uri(by).is_some_and(|own| own == uri));
        Box::pin(ready(Ok(text.map(String::into_bytes))))
    }

    fn directory<'a>(
        &'a self,
        by: Option<&'a Principal>,
        uri: &'a str,
    ) -> SkillFuture<'a, Option<Vec<Resource>>> {
        Box::pin(ready(Ok(Self::entry(by).and_then(|skill| skill.children(uri)))))
    }
}

/// S12.13: each principal lists, gets and reads its own skills alone, and the results are cached for it alone.
#[test]
fn skills_differ_by_principal() {
    let mut web = HttpHarness::new(Router::new("own", "1").skills_from(Personal));
    let mut ask = |by: Option<&str>, method: &str, params: Value| {
        web.principal = by.map(Principal::new);
        web.ask(method, params).json()
    };
    for name in ["ada", "bob"] {
        let other = if name == "ada" { "bob" } else { "ada" };
        let uri = |name: &str| json!({ "uri": format!("gen://own/{name}/SKILL.md") });
        let listed = ask(Some(name), "skills/list", json!({}));
        assert_eq!(uris(&listed["result"]["skills"]), [uri(name)["uri"].as_str().unwrap()]);
        assert_eq!(listed["result"]["cacheScope"], "private");
        let got = ask(Some(name), "skills/get", uri(name));
        assert_eq!(got["result"]["skill"]["frontmatter"]["name"], name);
        let read = ask(Some(name), "resources/read", uri(name));
        assert!(read["result"]["contents"][0]["text"].as_str().unwrap().contains(name));
        assert_eq!(read["result"]["cacheScope"], "private");
        let folder = |name: &str| json!({ "uri": format!("gen://own/{name}") });
        let children = ask(Some(name), "resources/directory/read", folder(name));
        assert!(children["result"].is_object(), "{children}");
        for (method, params) in [
            ("skills/get", uri(other)),
            ("resources/read", uri(other)),
            ("resources/directory/read", folder(other)),
        ] {
            let refused = ask(Some(name), method, params);
            assert_eq!(refused["error"]["code"], code::INVALID_PARAMS, "{method}: {refused}");
        }
    }
    assert_eq!(ask(None, "skills/list", json!({}))["result"]["skills"], json!([]));
}
