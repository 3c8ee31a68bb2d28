//! Resources that results name.

use super::*;

/// Blocks that name resources of the router, and others.
fn blocks() -> Vec<ContentBlock> {
    let link = |uri: &str| ResourceLink::new(uri, "a").into();
    vec![
        link("note:///today"),
        link("note:///by-id/7"),
        link("https://example.com/"),
        ContentBlock::resource(ResourceContents::text("note:///today", "Buy milk")),
        ContentBlock::resource(ResourceContents::text("note:///unknown", "")),
        ContentBlock::text("note:///today"),
    ]
}

fn linking() -> Router {
    notes()
        .tasks(TaskConfig::default())
        .tool_with(tool("links"), async |NoArguments {}, _| {
            let mut result = CallToolResult::new();
            result.content = blocks();
            result.structured_content = Some(json!({"uri": "note:///today"}).into());
            result
        })
        .detaching_tool(tool("later"), TaskChoice::Optional, async |NoArguments {}, _: Context| {
            Ok(DetachedWork::new(async |_| blocks()))
        })
        .prompt(Prompt::new("links"), async |NoArguments {}, _| {
            blocks().into_iter().map(PromptMessage::user).collect::<Vec<_>>()
        })
        .resource(Resource::new("note:///all", "all"), async |_, _| {
            ["note:///all", "note:///by-id/1", "note:///unknown"]
                .map(|uri| ResourceContents::from(TextResourceContents::new(uri, "text")))
                .to_vec()
        })
}

fn uri_of(block: &Value) -> &str {
    let uri = block.get("uri").or_else(|| block["resource"].get("uri")).unwrap_or(&block["text"]);
    uri.as_str().unwrap()
}

const RENAMED: [&str; 6] = [
    "notes+note:///today",
    "notes+note:///by-id/7",
    "https://example.com/",
    "notes+note:///today",
    "note:///unknown",
    "note:///today",
];

#[test]
fn results_name_the_resources_of_a_mounted_router_by_their_new_uris() {
    for mut s in both_eras(&desk().mount("notes", linking())) {
        for tool in ["notes_links", "notes_later"] {
            let result = s.call(tool, json!({}));
            let uris: Vec<_> = result["content"].as_array().unwrap().iter().map(uri_of).collect();
            assert_eq!(uris, RENAMED, "{tool}");
            if tool == "notes_links" {
                assert_eq!(result["structuredContent"], json!({"uri": "note:///today"}));
            }
        }
        let got = s.result("prompts/get", json!({"name": "notes_links"}));
        let messages = got["messages"].as_array().unwrap();
        assert_eq!(messages.iter().map(|message| uri_of(&message["content"])).collect::<Vec<_>>(), RENAMED);
        let read = s.result("resources/read", json!({"uri": "notes+note:///all"}));
        let expected = ["notes+note:///all", "notes+note:///by-id/1", "note:///unknown"];
        assert_eq!(members(&read, "contents", "uri"), expected);
    }
}

#[test]
fn merged_results_are_not_changed() {
    let mut s = ServerHarness::modern(desk().merge(linking()));
    let result = s.call("links", json!({}));
    assert_eq!(uri_of(&result["content"][0]), "note:///today");
}

#[test]
fn links_are_renamed_once_for_each_router_between() {
    let mut s =
        ServerHarness::modern(Router::new("house", "1").mount("desk", desk().mount("notes", linking())));
    let result = s.call("desk_notes_links", json!({}));
    assert_eq!(uri_of(&result["content"][0]), "desk+notes+note:///today");
    assert_eq!(uri_of(&result["content"][2]), "https://example.com/");
}

/// S11.12
#[test]
fn tools_of_a_mounted_router_keep_their_pages() {
    let mut clock = tool("clock").with_page("ui://clock/page.html");
    clock.meta.insert("ui", json!({"resourceUri": "ui://clock/page.html", "visibility": ["app"]}));
    let router = Router::new("clock", "1")
        .page("ui://clock/page.html", "clock", async |uri, _| uri)
        .tool_with(clock, async |NoArguments {}, _| "ten o'clock");
    let router = desk().mount("hall", router);
    assert_eq!(router.check(), Ok(()));
    assert!(router.capabilities().has_extension(apps::EXTENSION));
    let mut s = ServerHarness::modern(router);
    let listed = s.result("tools/list", json!({}))["tools"][1].clone();
    let page = json!({"resourceUri": "ui://hall/clock/page.html", "visibility": ["app"]});
    assert_eq!((&listed["name"], &listed["_meta"]["ui"]), (&json!("hall_clock"), &page));
    let read = s.result("resources/read", json!({"uri": "ui://hall/clock/page.html"}));
    assert_eq!(read["contents"][0]["uri"], "ui://hall/clock/page.html");
    assert_eq!(read["contents"][0]["text"], "ui://clock/page.html");
}

#[test]
fn mounted_uris_of_any_form_are_told_apart() {
    for (uri, mounted) in [
        ("note:a", "p+note:a"),
        ("https://example.com/", "p+https://example.com/"),
        ("file:///a", "p+file:///a"),
        ("q+note:///a", "p+q+note:///a"),
        ("ui://a/b", "ui://p/a/b"),
        ("UI:///b", "UI://p//b"),
        ("skill://git/SKILL.md", "skill://p/git/SKILL.md"),
        ("ui:a", "p+ui:a"),
        ("{+uri}", "p+{+uri}"),
    ] {
        assert_eq!(mounted_uri("p", uri), mounted);
    }
}

#[cfg(feature = "skills")]
#[test]
fn skills_of_a_mounted_router_are_renamed_with_their_files() {
    use mcp_proto::front::skills::InMemorySkill;

    let skill = || {
        let main_file = "---\nname: refunds\ndescription: Pays money back\n---\nAsk first.\n";
        InMemorySkill::new(main_file).under("acme").file("templates/email.md", "Dear customer")
    };
    let part = || Router::new("billing", "1").skill(skill());
    let router = desk().merge(part()).mount("b", part());
    let declaring = json!({"extensions": {"io.modelcontextprotocol/skills": {}}});
    let mut s = ServerHarness::modern_with(router.clone(), declaring);
    let listed = s.result("skills/list", json!({}));
    let uris = ["skill://acme/refunds/SKILL.md", "skill://b/acme/refunds/SKILL.md"];
    assert_eq!(members(&listed, "skills", "uri"), uris);
    let got = s.result("skills/get", json!({"uri": uris[1]}));
    let files = ["skill://b/acme/refunds/SKILL.md", "skill://b/acme/refunds/templates/email.md"];
    assert_eq!(members(&got["skill"], "resources", "uri"), files);
    for uri in files {
        let read = s.result("resources/read", json!({"uri": uri}));
        assert_eq!(read["contents"][0]["uri"], uri);
    }
    let directory = s.result("resources/directory/read", json!({"uri": "skill://b/acme/refunds/templates"}));
    assert_eq!(members(&directory, "resources", "uri"), [files[1]]);
    let twice = router.merge(part()).check();
    assert!(matches!(twice, Err(RouterError::Duplicate { kind: "resource", .. })), "{twice:?}");
}
