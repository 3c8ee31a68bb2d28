use mcp_proto::host::tools::{
    Catalogue, CatalogueSnapshot, Change, ItemKind, LookupError, Member, PinPolicy, ServerSettings,
};
use mcp_proto::schema::{ListToolsResult, Prompt, ResourceTemplate};
use serde_json::json;

use super::{described, names, read};

fn blocking() -> Catalogue {
    let mut catalogue = Catalogue::default();
    catalogue.add_server("a", ServerSettings { pins: PinPolicy::Block, ..ServerSettings::default() });
    let report = catalogue.update("a", vec![described("x", "one"), described("y", "one")]).unwrap();
    assert!(report.changes.is_empty() && report.pins_changed, "the first list counts as approved");
    catalogue
}

fn lines(changes: &[mcp_proto::host::tools::PinChange]) -> Vec<String> {
    changes.iter().map(ToString::to_string).collect()
}

#[test]
fn changed_tool_is_hidden_until_it_is_approved() {
    let mut catalogue = blocking();
    let report = catalogue.update("a", vec![described("x", "two"), described("y", "one")]).unwrap();
    assert_eq!(lines(&report.changes), ["tool `x` changed: description"]);
    assert!(!report.pins_changed);
    assert_eq!(report.changes[0].change, Change::Changed(vec![Member::Description]));
    assert_eq!(names(&catalogue), ["mcp__a__y"]);
    assert_eq!(catalogue.tool("mcp__a__x").unwrap_err(), LookupError::Blocked);

    assert_eq!(catalogue.approve("a", &report.changes), 1);
    assert_eq!(names(&catalogue), ["mcp__a__x", "mcp__a__y"]);
    assert_eq!(catalogue.approve("a", &report.changes), 0);
    let again = catalogue.update("a", vec![described("x", "two"), described("y", "one")]).unwrap();
    assert!(again.changes.is_empty());
}

#[test]
fn approval_covers_only_the_definition_that_the_user_saw() {
    let mut catalogue = blocking();
    let seen = catalogue.update("a", vec![described("x", "two")]).unwrap().changes;
    let report = catalogue.update("a", vec![described("x", "three")]).unwrap();
    assert_eq!(lines(&report.changes), ["tool `x` changed: description"]);
    assert_eq!(lines(&seen), ["tool `x` changed: description", "tool `y` removed"]);
    assert_eq!(catalogue.approve("a", &seen), 1, "only the removal");
    assert_eq!(names(&catalogue).len(), 0);
    assert_eq!(lines(&catalogue.pending_changes("a").cloned().collect::<Vec<_>>()), lines(&report.changes));
}

#[test]
fn added_tool_is_hidden_and_the_change_is_reported_once() {
    let mut catalogue = blocking();
    let list = || vec![described("x", "one"), described("y", "one"), described("z\u{1b}[2J", "new")];
    let report = catalogue.update("a", list()).unwrap();
    assert_eq!(lines(&report.changes), ["tool `z\\u{1b}[2J` added"]);
    assert!(catalogue.update("a", list()).unwrap().changes.is_empty());
    assert_eq!(names(&catalogue).len(), 2);
}

#[test]
fn tool_that_returns_unchanged_needs_no_approval() {
    let mut catalogue = blocking();
    let report = catalogue.update("a", vec![described("y", "one")]).unwrap();
    assert_eq!(lines(&report.changes), ["tool `x` removed"]);
    let report = catalogue.update("a", vec![described("x", "one"), described("y", "one")]).unwrap();
    assert!(report.changes.is_empty());
    assert_eq!(names(&catalogue).len(), 2);
    assert_eq!(catalogue.pending_changes("a").count(), 0);
}

#[test]
fn order_of_members_and_tools_is_no_change() {
    let mut catalogue = Catalogue::default();
    catalogue.add_server("a", ServerSettings { pins: PinPolicy::Block, ..ServerSettings::default() });
    for text in [
        r#"{"tools":[{"name":"x","inputSchema":{"type":"object","properties":{"a":{"type":"string"},"b":{}}},
            "_meta":{"k":{"l":1,"m":2}},"annotations":{"readOnlyHint":true,"other":1}},{"name":"y"}]}"#,
        r#"{"tools":[{"name":"y"},{"annotations":{"other":1,"readOnlyHint":true},"_meta":{"k":{"m":2,"l":1}},
            "inputSchema":{"properties":{"b":{},"a":{"type":"string"}},"type":"object"},"name":"x"}]}"#,
    ] {
        let list: ListToolsResult = serde_json::from_str(text).unwrap();
        assert!(catalogue.update("a", list.tools).unwrap().changes.is_empty());
        assert_eq!(names(&catalogue).len(), 2);
    }
}

#[test]
fn every_pinned_member_is_noticed() {
    let base = json!({ "name": "x", "title": "T", "description": "D", "inputSchema": { "type": "object" },
        "outputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true }, "_meta": { "a": 1 } });
    for (member, value) in [
        ("title", json!("U")),
        ("description", json!("E")),
        ("inputSchema", json!({ "type": "object", "x": 1 })),
        ("outputSchema", json!({ "type": "object", "x": 1 })),
        ("annotations", json!({ "readOnlyHint": false })),
        ("_meta", json!({ "a": 2 })),
    ] {
        let mut catalogue = Catalogue::default();
        catalogue.add_server("a", ServerSettings { pins: PinPolicy::Block, ..ServerSettings::default() });
        let mut changed = base.clone();
        changed[member] = value;
        for tool in [&base, &changed] {
            let list: ListToolsResult = read(json!({ "tools": [tool] }));
            catalogue.update("a", list.tools).unwrap();
        }
        let changes: Vec<_> = catalogue.pending_changes("a").map(ToString::to_string).collect();
        assert_eq!(changes, [format!("tool `x` changed: {member}")]);
    }
}

#[test]
fn reported_changes_are_shown_and_pinned_at_once() {
    let mut catalogue = Catalogue::default();
    catalogue.add_server("a", ServerSettings::default());
    catalogue.update("a", vec![described("x", "one")]).unwrap();
    let report = catalogue.update("a", vec![described("x", "two"), described("y", "")]).unwrap();
    assert_eq!(lines(&report.changes), ["tool `x` changed: description", "tool `y` added"]);
    assert!(report.pins_changed);
    assert_eq!(names(&catalogue).len(), 2);
    let report = catalogue.update("a", vec![described("x", "two"), described("y", "")]).unwrap();
    assert!(report.changes.is_empty() && !report.pins_changed);
}

#[test]
fn prompts_templates_and_instructions_are_pinned_too() {
    let mut catalogue = blocking();
    let prompt = |text: &str| Prompt { description: Some(text.into()), ..Prompt::new("p") };
    let template =
        |text: &str| ResourceTemplate { mime_type: Some(text.into()), ..ResourceTemplate::new("u", "n") };
    for text in ["one", "two"] {
        catalogue.update("a", vec![prompt(text)]).unwrap();
        catalogue.update("a", vec![template(text)]).unwrap();
        catalogue.set_instructions("a", Some(text)).unwrap();
    }
    let changes: Vec<_> = catalogue.pending_changes("a").cloned().collect();
    assert_eq!(
        lines(&changes),
        [
            "prompt `p` changed: description",
            "resource template `u` changed: mimeType",
            "instructions changed: text",
        ]
    );
    assert_eq!(changes[2].kind, ItemKind::Instructions);
    assert_eq!((catalogue.prompts().count(), catalogue.templates().count()), (0, 0));
    assert_eq!((catalogue.instructions_of("a"), catalogue.instructions(100)), (None, None));
    assert_eq!(catalogue.approve("a", &changes), 3);
    assert_eq!((catalogue.prompts().count(), catalogue.templates().count()), (1, 1));
    assert_eq!(catalogue.instructions_of("a"), Some("two"));
}

#[test]
fn prompts_that_appear_later_are_changes_if_an_empty_list_was_pinned() {
    let mut catalogue = blocking();
    catalogue.update("a", Vec::<Prompt>::new()).unwrap();
    let report = catalogue.update("a", vec![Prompt::new("p")]).unwrap();
    assert_eq!(lines(&report.changes), ["prompt `p` added"]);
    assert_eq!(catalogue.prompts().count(), 0);
}

#[test]
fn change_while_the_host_was_stopped_is_noticed() {
    let pins = blocking().pins("a").unwrap().clone();
    let mut catalogue = Catalogue::default();
    catalogue.add_server("a", ServerSettings { pins: PinPolicy::Block, ..ServerSettings::default() });
    catalogue.restore("a", pins, CatalogueSnapshot::default()).unwrap();
    let report = catalogue.update("a", vec![described("x", "two"), described("y", "one")]).unwrap();
    assert_eq!(lines(&report.changes), ["tool `x` changed: description"]);
    assert_eq!(names(&catalogue), ["mcp__a__y"]);
}
