//! Skills of a server, as a client lists, gets and reads them: nothing is read early, and nothing is used that differs from
//! the entry. <https://modelcontextprotocol.io/seps/2640-skills-extension>

use core::task::Poll;

use mcp_proto::front::skills::InMemorySkill;
use mcp_proto::front::{ClientHandlers, Error, PagesError, Router};
use mcp_proto::peer::RequestError;
use mcp_proto::schema::skills::{Digest, InvalidSkill};
use mcp_proto::skills::{SkillError, SkillErrorKind, SkillManifest};
use serde_json::{Value, json};

use crate::common::client::config;
use crate::common::front::ClientHarness;
use crate::common::messages::discover_result;
use crate::common::polling::{boxed, poll};

const URI: &str = "skill://acme/refunds/SKILL.md";
const GUIDE: &str = "skill://acme/refunds/references/GUIDE.md";
const MAIN: &str =
    "---\nname: refunds\ndescription: Refunds a customer\nversion: 1.10\n---\nSee references/GUIDE.md.\n";
const TEXT: &str = "Ask for the receipt.\n";

/// A client of a server that declares the extension with these settings.
fn connected(settings: &Value) -> ClientHarness {
    let mut s = ClientHarness::open(config(), ClientHandlers::new());
    let id = s.expect("server/discover");
    let mut discovered = discover_result();
    discovered["capabilities"]["resources"] = json!({});
    discovered["capabilities"]["extensions"] = json!({ "io.modelcontextprotocol/skills": settings });
    s.answer(&id, discovered);
    s
}

fn file(uri: &str, bytes: &str) -> Value {
    json!({ "uri": uri, "digest": Digest::of(bytes.as_bytes()).to_string(), "size": bytes.len() })
}

fn entry() -> Value {
    json!({
        "uri": URI,
        "frontmatter": { "name": "refunds", "description": "Refunds a customer", "version": "1.10" },
        "resources": [file(URI, MAIN), file(GUIDE, TEXT)],
    })
}

fn cacheable(mut result: Value) -> Value {
    result["resultType"] = json!("complete");
    result["ttlMs"] = json!(60_000);
    result["cacheScope"] = json!("public");
    result
}

fn manifest(entry: Value) -> Result<SkillManifest, SkillError> {
    SkillManifest::new(serde_json::from_str(&entry.to_string()).unwrap())
}

fn contents(uri: &str, text: &str) -> Value {
    cacheable(json!({ "contents": [{ "uri": uri, "text": text }] }))
}

/// Answers each request as the server does, until the future is ready. Returns the requests too.
fn run<T>(
    s: &mut ClientHarness,
    future: impl Future<Output = T>,
    server: impl Fn(&Value) -> Value,
) -> (T, Vec<String>) {
    let (mut future, mut requests) = (boxed(future), Vec::new());
    loop {
        if let Poll::Ready(ended) = poll(&mut future) {
            s.expect_silence();
            return (ended, requests);
        }
        let line = s.line();
        requests.push(line["method"].as_str().unwrap().to_owned());
        s.answer(&line["id"], server(&line));
    }
}

/// Reads a file of the skill from a server that returns this.
fn read(uri: &str, returned: Value) -> (Result<Vec<u8>, Error>, Vec<String>) {
    let mut s = connected(&json!({}));
    let (client, skill) = (s.client.clone(), manifest(entry()).unwrap());
    let read = async { client.read_skill_file(&skill, uri).await.map(|file| file.bytes) };
    run(&mut s, read, |_| returned.clone())
}

#[track_caller]
fn refused<T: core::fmt::Debug>(result: Result<T, Error>) -> SkillErrorKind {
    match result {
        Err(Error::Skill(error)) => error.kind,
        other => panic!("not refused: {other:?}"),
    }
}

/// C15.9: Integrity and verification: nothing is fetched ahead of need.
#[test]
fn client_lists_skills_without_reading_a_file() {
    let mut s = connected(&json!({}));
    let client = s.client.clone();
    let list = async { client.list_skills().await };
    let page = |line: &Value| match line["params"]["cursor"].as_str() {
        None => cacheable(json!({ "skills": [entry()], "nextCursor": "2" })),
        _ => cacheable(json!({ "skills": [entry(), { "uri": URI, "frontmatter": {} }] })),
    };
    let (listed, requests) = run(&mut s, list, page);
    let listed = listed.unwrap();
    assert_eq!(requests, ["skills/list", "skills/list"]);
    assert_eq!((listed.len(), listed.invalid().len()), (2, 1), "an entry without resources cannot be loaded");
    assert_eq!(listed[0].name(), "refunds");
}

/// Integrity and verification: a read that matches is used.
#[test]
fn client_returns_the_file_that_the_entry_lists() {
    let (main, requests) = read(URI, contents(URI, MAIN));
    assert_eq!((main.unwrap(), requests), (MAIN.into(), vec!["resources/read".to_owned()]));
    let blob = json!({ "contents": [{ "uri": GUIDE, "blob": "QXNrIGZvciB0aGUgcmVjZWlwdC4K" }] });
    assert_eq!(read(GUIDE, cacheable(blob)).0.unwrap(), TEXT.as_bytes());
}

/// C15.6: Integrity and verification: a mismatch of size, digest or frontmatter must not be used.
#[test]
fn client_refuses_content_that_changed_after_the_listing() {
    let same_size = TEXT.replace("receipt", "card no");
    assert_eq!(refused(read(GUIDE, contents(GUIDE, &same_size)).0), SkillErrorKind::Digest);
    let longer = format!("{TEXT}And for the card.");
    let size = |read: usize| SkillErrorKind::Size { listed: TEXT.len() as u64, read: read as u64 };
    assert_eq!(refused(read(GUIDE, contents(GUIDE, &longer)).0), size(longer.len()));
    assert_eq!(refused(read(GUIDE, contents(GUIDE, "")).0), size(0));
    // Far too long, and not even base64: nothing of it is decoded.
    let blob = json!({ "contents": [{ "uri": GUIDE, "blob": "!".repeat(4000) }] });
    assert!(matches!(refused(read(GUIDE, cacheable(blob)).0), SkillErrorKind::Size { .. }));
}

/// C15.7: Integrity and verification: frontmatter is compared field by field, although the digest matches.
#[test]
fn client_refuses_a_skill_whose_frontmatter_differs_from_the_entry() {
    for (listed, text) in [
        (json!({ "name": "refunds", "description": "Refunds a customer" }), MAIN),
        (json!({ "name": "refunds", "description": "Harmless", "version": "1.10" }), MAIN),
        (entry()["frontmatter"].clone(), "no frontmatter"),
    ] {
        let mut s = connected(&json!({}));
        let skill = json!({ "uri": URI, "frontmatter": listed, "resources": [file(URI, text)] });
        let (client, skill) = (s.client.clone(), manifest(skill).unwrap());
        let load = async { client.read_skill_file(&skill, URI).await };
        let (loaded, _) = run(&mut s, load, |_| contents(URI, text));
        let kind = refused(loaded);
        assert!(matches!(kind, SkillErrorKind::Frontmatter(_)), "{kind:?}");
    }
}

/// Reading: the answer is the file that was asked for.
#[test]
fn client_refuses_an_answer_with_other_contents() {
    let two = json!({ "contents": [{ "uri": GUIDE, "text": TEXT }, { "uri": URI, "text": MAIN }] });
    for returned in [contents(URI, TEXT), cacheable(two), cacheable(json!({ "contents": [] }))] {
        assert_eq!(refused(read(GUIDE, returned).0), SkillErrorKind::Contents);
    }
}

/// C15.8: Integrity and verification: a read of an unlisted file is a failure, and is not even sent.
#[test]
fn client_requests_no_file_that_the_entry_does_not_list() {
    for (uri, kind) in [
        ("skill://acme/refunds/extra.md", SkillErrorKind::Unlisted),
        ("skill://acme/refunds/../payments/SKILL.md", SkillErrorKind::Outside),
        ("skill://acme/refunds/%2e%2e/payments/SKILL.md", SkillErrorKind::Outside),
        ("skill://acme/refunds-2/SKILL.md", SkillErrorKind::Outside),
        ("file:///etc/passwd", SkillErrorKind::Outside),
    ] {
        let (read, requests) = read(uri, json!({}));
        assert_eq!((refused(read), requests.len()), (kind, 0), "{uri}");
    }
}

/// C15.18
/// Integrity and verification: each read is verified, and none is answered from a cache that is older than the entry.
#[test]
fn client_reads_files_and_gets_entries_from_the_server_each_time() {
    let mut s = connected(&json!({}));
    let (client, skill) = (s.client.clone(), manifest(entry()).unwrap());
    let twice = async {
        for _ in 0..2 {
            client.read_skill_file(&skill, GUIDE).await?;
            client.get_skill(URI).await?;
        }
        Ok::<(), Error>(())
    };
    let (ended, requests) = run(&mut s, twice, |line| match line["method"].as_str() {
        Some("skills/get") => cacheable(json!({ "skill": entry() })),
        _ => contents(GUIDE, TEXT),
    });
    ended.unwrap();
    assert_eq!(requests, ["resources/read", "skills/get", "resources/read", "skills/get"]);
}

/// C15.2: Retrieval via skills/get: the entry is that of the URI, in its valid form.
#[test]
fn client_refuses_the_entry_of_another_skill() {
    let get = |skill: Value| {
        let mut s = connected(&json!({}));
        let client = s.client.clone();
        let get = async { client.get_skill(URI).await };
        run(&mut s, get, |_| cacheable(json!({ "skill": skill }))).0
    };
    assert_eq!(get(entry()).unwrap(), manifest(entry()).unwrap());
    let mut other = entry();
    other["uri"] = GUIDE.into();
    assert_eq!(refused(get(other)), SkillErrorKind::OtherSkill);
    let mut incomplete = entry();
    incomplete["resources"] = json!([file(GUIDE, TEXT)]);
    assert_eq!(refused(get(incomplete)), SkillErrorKind::Entry(InvalidSkill::NoMainFile));
}

/// C15.25: Enumeration via skills/list: an endless listing ends.
#[test]
fn client_ends_an_endless_listing() {
    let mut s = connected(&json!({ "directoryRead": true }));
    let (client, skill) = (s.client.clone(), manifest(entry()).unwrap());
    let list = async { client.list_skills().page_limit(10).await.map(drop) };
    let endless = |line: &Value| {
        let next = line["params"]["cursor"].as_str().map_or(1, |cursor| cursor.parse::<u32>().unwrap() + 1);
        cacheable(json!({ "skills": [], "resources": [], "nextCursor": next.to_string() }))
    };
    let (ended, requests) = run(&mut s, list, endless);
    assert!(matches!(ended.unwrap_err().error, Error::Pages(PagesError::TooMany { limit: 10 })));
    assert_eq!(requests.len(), 10);
    let folder = async { client.read_skill_folder(&skill, "references").await.map(drop) };
    let (ended, _) = run(&mut s, folder, endless);
    assert!(matches!(ended, Err(Error::Pages(PagesError::TooMany { .. }))), "{ended:?}");
}

/// Directory listing: children are directly in the folder, and listed.
#[test]
fn client_refuses_a_child_outside_of_the_folder() {
    let children = |folder: &str, uris: &[&str]| {
        let mut s = connected(&json!({ "directoryRead": true }));
        let (client, skill) = (s.client.clone(), manifest(entry()).unwrap());
        let folder = async { client.read_skill_folder(&skill, folder).await };
        let resources: Vec<_> = uris.iter().map(|uri| json!({ "uri": uri, "name": "x" })).collect();
        let result = json!({ "resultType": "complete", "resources": resources });
        run(&mut s, folder, |_| result.clone()).0.map(|listed| listed.len())
    };
    assert_eq!(children("", &[URI, "skill://acme/refunds/references"]).unwrap(), 2);
    assert_eq!(children("references/", &[GUIDE]).unwrap(), 1);
    // An entry has no empty folders.
    let empty = |uri: &str| -> mcp_proto::schema::Resource {
        let folder = json!({ "uri": uri, "name": "x", "mimeType": "inode/directory" });
        serde_json::from_value(folder).unwrap()
    };
    let skill = manifest(entry()).unwrap();
    let checked = |uri: &str| skill.check_children(skill.folder(), &[empty(uri)]).map_err(|error| error.kind);
    assert_eq!(checked("skill://acme/refunds/empty"), Ok(()));
    assert_eq!(checked("skill://acme/refunds/empty/deep"), Err(SkillErrorKind::Unlisted));
    assert_eq!(checked("skill://acme/payments"), Err(SkillErrorKind::Outside));
    for (folder, uri, kind) in [
        ("", "skill://acme/refunds/new.md", SkillErrorKind::Unlisted),
        ("", GUIDE, SkillErrorKind::Unlisted),
        ("references", "skill://acme/refunds/references/../../payments/SKILL.md", SkillErrorKind::Outside),
        ("references", "file:/etc/passwd", SkillErrorKind::Outside),
        ("../payments", GUIDE, SkillErrorKind::Outside),
    ] {
        assert_eq!(refused(children(folder, &[uri])), kind, "{uri}");
    }
}

/// C15.1: Capability declaration: no request without the declaration, and none for folders without `directoryRead`.
#[test]
fn client_asks_only_servers_that_declare_skills() {
    let mut s = ClientHarness::modern();
    let client = s.client.clone();
    let (listed, requests) = run(&mut s, async { client.list_skills().await }, |_| json!({}));
    let error = Error::from(listed.unwrap_err());
    assert!(matches!(error, Error::NotSent(RequestError::Capability { .. })), "{error}");
    assert!(requests.is_empty());

    let mut s = connected(&json!({ "directoryRead": false }));
    let (client, skill) = (s.client.clone(), manifest(entry()).unwrap());
    let (listed, requests) = run(&mut s, async { client.read_skill_folder(&skill, "").await }, |_| json!({}));
    assert!(matches!(listed, Err(Error::NotSent(RequestError::Capability { .. }))), "{listed:?}");
    assert!(requests.is_empty());
}

/// C15.17: Resources: the limits that every host accepts, and URIs in which nothing hides.
#[test]
fn entry_with_unsafe_uris_or_beyond_the_limits_is_refused() {
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut entry = entry();
        change(&mut entry);
        manifest(entry).map(drop).map_err(|error| error.kind)
    };
    let add = |uri: &str, size: u64| {
        let mut added = file(uri, "");
        added["size"] = size.into();
        move |entry: &mut Value| entry["resources"].as_array_mut().unwrap().push(added.clone())
    };
    assert_eq!(changed(&add("skill://acme/refunds/a", 16 << 20)), Err(SkillErrorKind::TooLarge));
    let many = |entry: &mut Value| {
        (0..512).for_each(|number| add(&format!("skill://acme/refunds/{number}"), 0)(entry));
    };
    assert_eq!(changed(&many), Err(SkillErrorKind::TooLarge));
    for uri in ["skill://acme/refunds/a%2fb", "skill://acme/refunds/\u{202e}a", "skill://acme/refunds/a b"] {
        assert_eq!(changed(&add(uri, 0)), Err(SkillErrorKind::UnsafeUri), "{uri}");
    }
    let description =
        |text: String| move |entry: &mut Value| entry["frontmatter"]["description"] = text.clone().into();
    assert_eq!(changed(&description("é".repeat(1024))), Ok(()));
    for text in ["é".repeat(1025), " ".to_owned()] {
        assert_eq!(changed(&description(text)), Err(SkillErrorKind::Description));
    }
    let wide = |entry: &mut Value| entry["frontmatter"]["allowed-tools"] = json!(vec!["Bash"; 30_000]);
    assert_eq!(changed(&wide), Err(SkillErrorKind::TooLarge));
    let elsewhere = |entry: &mut Value| {
        entry["uri"] = "skill://a/../refunds/SKILL.md".into();
        entry["resources"] = json!("dynamic");
    };
    assert_eq!(changed(&elsewhere), Err(SkillErrorKind::UnsafeUri));
    let error = manifest(json!({
        "uri": "skill://x\u{1b}[2J/SKILL.md",
        "frontmatter": { "name": "a", "description": "b" },
        "resources": "dynamic",
    }));
    assert!(!error.unwrap_err().to_string().contains('\u{1b}'));
}

/// Resources: of a dynamic skill the frontmatter alone can be compared, and its files stay in its folder.
#[test]
fn dynamic_skill_has_its_frontmatter_compared() {
    let dynamic = |text: &str, uri: &str| {
        let mut s = connected(&json!({}));
        let mut entry = entry();
        entry["resources"] = json!("dynamic");
        let (client, skill) = (s.client.clone(), manifest(entry).unwrap());
        assert!(skill.is_dynamic());
        let read = async { client.read_skill_file(&skill, uri).await.map(|file| file.bytes) };
        run(&mut s, read, |_| contents(uri, text)).0
    };
    assert_eq!(dynamic(MAIN, URI).unwrap(), MAIN.as_bytes());
    assert_eq!(dynamic("whatever", GUIDE).unwrap(), b"whatever");
    assert!(matches!(refused(dynamic(&MAIN.replace("1.10", "2"), URI)), SkillErrorKind::Frontmatter(_)));
    assert_eq!(refused(dynamic(TEXT, "skill://acme/SKILL.md")), SkillErrorKind::Outside);
}

/// S12.3, S12.13: Frontmatter, Resources: what a router serves is what a client verifies, folders and all.
#[test]
fn client_loads_the_skills_of_a_router() {
    let main = "---\nname: refunds\ndescription: >\n  Refunds\n  a customer\nversion: 1.10\nmetadata: { on: yes }\n---\nBody.\n";
    let skill =
        InMemorySkill::new(main).file("references/GUIDE.md", TEXT).file("logo.png", vec![0xff_u8, 0, 0xfe]);
    let router = Router::new("shop", "1").skill(skill);
    let loaded = mcp_proto::testing::pair(router).run(async |client| {
        let entry = client.list_skills().await?.into_iter().next().unwrap();
        let skill = SkillManifest::new(entry)?;
        let mut sizes = Vec::new();
        for file in skill.skill().files() {
            sizes.push(client.read_skill_file(&skill, &file.uri).await?.bytes.len());
        }
        let folder = client.read_skill_folder(&skill, "").await?;
        assert_eq!(folder.len(), skill.children(skill.folder()).len());
        assert_eq!(client.get_skill(skill.uri()).await?, skill);
        Ok::<_, Error>(sizes)
    });
    let mut sizes = loaded.unwrap();
    sizes.sort_unstable();
    assert_eq!(sizes, [3, TEXT.len(), main.len()]);
}
