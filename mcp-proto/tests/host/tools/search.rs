use mcp_proto::host::tools::{Catalogue, ToolIndex};
use mcp_proto::schema::Tool;
use proptest::prelude::*;
use serde_json::json;

use super::{add, described, tool};

fn catalogue() -> Catalogue {
    let mut catalogue = Catalogue::default();
    add(
        &mut catalogue,
        "github",
        vec![
            described("create_issue", "Opens a new issue in a repository"),
            described("list_branches", "Lists the branches of a repository; see also issues"),
            described("getPullRequest", "Reads one pull request"),
        ],
    );
    let weather =
        Tool::new("forecast", "天气预报", json!({ "type": "object", "properties": { "postalCode": {} } }));
    add(&mut catalogue, "weather", vec![weather]);
    catalogue
}

fn search(query: &str) -> Vec<String> {
    let mut index = ToolIndex::default();
    index.refresh(&catalogue());
    index.search(query, 10, |_| true).into_iter().map(|hit| hit.name).collect()
}

#[test]
fn names_count_more_than_descriptions() {
    assert_eq!(search("issues"), ["mcp__github__create_issue", "mcp__github__list_branches"]);
}

#[test]
fn rare_words_count_more_than_frequent_ones() {
    assert_eq!(search("repository branch")[0], "mcp__github__list_branches");
}

/// The word of the name has the weight 5, and the rarity 1/3, as every tool has it; the length is the mean.
#[test]
fn score_is_that_of_bm25() {
    let (mut catalogue, mut index) = (Catalogue::default(), ToolIndex::default());
    add(&mut catalogue, "s", vec![tool("find")]);
    index.refresh(&catalogue);
    let score = index.search("find", 1, |_| true)[0].score;
    let expected: f32 = 5.0 * 2.2 / (5.0 + 1.2) / 3.0;
    assert!((score - expected).abs() < 0.001, "{score}");
}

#[test]
fn search_finds_identifiers_arguments_servers_and_beginnings_of_words() {
    assert_eq!(search("pull requests"), ["mcp__github__getPullRequest"]);
    assert_eq!(search("postal"), ["mcp__weather__forecast"]);
    assert_eq!(search("天气"), ["mcp__weather__forecast"]);
    assert_eq!(search("weather"), ["mcp__weather__forecast"]);
    assert_eq!(search("fore"), ["mcp__weather__forecast"]);
    assert_eq!(search("github").len(), 3);
    assert_eq!(search("zebra ?!"), [""; 0]);
    assert_eq!(search(""), [""; 0]);
}

#[test]
fn index_follows_its_catalogue() {
    let (mut catalogue, mut index) = (catalogue(), ToolIndex::default());
    index.refresh(&catalogue);
    catalogue.remove_server("github");
    catalogue.update("weather", vec![tool("moon")]).unwrap();
    index.refresh(&catalogue);
    assert_eq!(index.search("issue", 10, |_| true), []);
    assert_eq!(index.search("moon", 10, |_| true)[0].name, "mcp__weather__moon");
}

#[test]
fn search_returns_accepted_tools_up_to_the_limit() {
    let mut index = ToolIndex::default();
    index.refresh(&catalogue());
    let hits = index.search("github", 1, |name| !name.contains("create"));
    assert_eq!(hits.len(), 1);
    assert!(!hits[0].name.contains("create"));
}

/// The words of one server do not crowd out those of the others, and its names are found all the same.
#[test]
fn server_with_endless_descriptions_is_indexed_by_its_names() {
    let mut catalogue = Catalogue::default();
    let endless = |n: usize| (0..5000).map(|word| format!("w{n}x{word} ")).collect::<String>();
    let tools = (0..20).map(|n| described(&format!("tool{n}"), &endless(n))).collect();
    add(&mut catalogue, "endless", tools);
    add(&mut catalogue, "small", vec![described("x", "needle")]);
    let mut index = ToolIndex::default();
    index.refresh(&catalogue);
    assert_eq!(index.search("needle", 5, |_| true)[0].name, "mcp__small__x");
    assert_eq!(index.search("tool19", 5, |_| true)[0].name, "mcp__endless__tool19");
    assert_eq!(index.search("w19x7", 5, |_| true), []);
}

#[test]
fn server_does_not_crowd_out_the_longer_words_of_others() {
    let mut catalogue = catalogue();
    let words: String = (0..2000).map(|n| format!("fore{n} ")).collect();
    add(&mut catalogue, "crowd", vec![described("x", &words)]);
    let mut index = ToolIndex::default();
    index.refresh(&catalogue);
    let hits = index.search("fore", 5, |_| true);
    assert!(hits.iter().any(|hit| hit.name == "mcp__weather__forecast"), "{hits:?}");
}

#[test]
fn server_has_at_most_half_of_the_hits_while_others_have_any() {
    let mut catalogue = Catalogue::default();
    add(&mut catalogue, "crowd", (0..50).map(|n| tool(&format!("issue_{n}"))).collect());
    for server in ["a", "b", "c"] {
        add(&mut catalogue, server, vec![described("x", "Something long that ends with an issue")]);
    }
    let mut index = ToolIndex::default();
    index.refresh(&catalogue);
    let hits = index.search("issue", 5, |_| true);
    let names: Vec<_> = hits.iter().map(|hit| &*hit.name).collect();
    assert_eq!(names[3..], ["mcp__a__x", "mcp__b__x"], "{names:?}");
    assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score));
    // It has the rest if others have too few.
    assert_eq!(index.search("issue", 20, |_| true).len(), 20);
}

proptest! {
    #[test]
    fn every_tool_is_found_by_its_own_name(names in prop::collection::btree_set("[a-zA-Z0-9_]{1,12}", 1..20)) {
        let mut catalogue = Catalogue::default();
        add(&mut catalogue, "s", names.iter().map(|name| tool(name)).collect());
        let mut index = ToolIndex::default();
        index.refresh(&catalogue);
        for name in names.iter().filter(|name| name.chars().any(char::is_alphanumeric)) {
            let hits = index.search(name, usize::MAX, |_| true);
            let found = hits.iter().any(|hit| catalogue.tool(&hit.name).unwrap().item.name == *name);
            prop_assert!(found, "{name}");
            prop_assert!(hits.iter().all(|hit| hit.score.is_finite() && hit.score > 0.0));
            prop_assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score));
        }
    }
}
