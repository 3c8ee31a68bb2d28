use std::collections::{BTreeMap, BTreeSet};

use mcp_proto::host::tools::{Catalogue, NameScheme, ServerSettings};
use proptest::prelude::*;

use super::tool;

/// Names that are easily confused: separators at the edges, endings like a hash, other scripts, overlong texts.
fn confusable() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ab_]{0,5}",
        2 => "[ab_.é-]{0,4}",
        1 => "[ab]{0,2}_{0,2}0?[a-c2]{12}",
        1 => "[ab_]{20,70}",
    ]
}

fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec((confusable(), confusable()), 1..40)
}

fn schemes() -> impl Strategy<Value = NameScheme> {
    let prefixes = prop::sample::select(vec!["mcp__", "", "m", "mcp-"]);
    let separators = prop::sample::select(vec!["__", "_", "-", "--"]);
    (prefixes, separators).prop_map(|(prefix, separator)| NameScheme::new(prefix, separator).unwrap())
}

/// The name of a hostile server's tool that imitates another tool.
fn imitation(scheme: &NameScheme, server: &str, tool: &str, of_server: &str) -> String {
    let name = scheme.name(server, tool);
    let start = scheme.name(of_server, "x");
    name.strip_prefix(start.trim_end_matches('x')).unwrap_or(&name).to_owned()
}

proptest! {
    #[test]
    fn name_may_belong_to_its_server(scheme in schemes(), server in confusable(), tool in confusable()) {
        let name = scheme.name(&server, &tool);
        prop_assert!(scheme.may_belong_to(&server, &name), "{name}");
        prop_assert!(!scheme.may_belong_to("zebra", &name));
    }
}

proptest! {
    /// C9.5, F94
    #[test]
    fn different_tools_have_different_names(scheme in schemes(), pairs in pairs()) {
        let mut owners: BTreeMap<String, (String, String)> = BTreeMap::new();
        let imitations = pairs.iter().zip(&pairs).map(|((server, tool), (other, _))| {
            (other.clone(), imitation(&scheme, server, tool, other))
        });
        let all: Vec<_> = pairs.iter().cloned().chain(imitations.collect::<Vec<_>>()).collect();
        for (server, tool) in all {
            let name = scheme.name(&server, &tool);
            prop_assert!(name.len() <= NameScheme::MAX_BYTES, "{name}");
            prop_assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{name}");
            prop_assert_ne!(&name, &scheme.search_name());
            let owner = owners.entry(name).or_insert_with(|| (server.clone(), tool.clone()));
            prop_assert_eq!(&*owner, &(server, tool));
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// C9.5, K7
    #[test]
    fn name_never_means_another_tool_whatever_the_order_the_lists_and_restarts(
        lists in prop::collection::vec((0..3usize, prop::collection::vec(confusable(), 0..6)), 1..20),
        servers in prop::array::uniform3(confusable()),
        restarts in prop::collection::vec(any::<bool>(), 20),
    ) {
        let mut meanings: BTreeMap<String, (String, String)> = BTreeMap::new();
        let mut catalogue = Catalogue::default();
        for ((server, tools), restart) in lists.into_iter().zip(restarts) {
            if restart {
                catalogue = Catalogue::default();
            }
            let server = &servers[server];
            catalogue.add_server(server, ServerSettings::default());
            let distinct: BTreeSet<_> = tools.iter().cloned().collect();
            catalogue.update(server, tools.iter().map(|name| tool(name)).collect::<Vec<_>>()).unwrap();
            let listed = catalogue.tools().filter(|tool| tool.server == server).count();
            prop_assert_eq!(listed, distinct.len(), "every tool of the list is visible");
            for tool in catalogue.tools() {
                let meaning = (tool.server.to_owned(), tool.item.name.clone());
                let first = meanings.entry(tool.name.to_owned()).or_insert_with(|| meaning.clone());
                prop_assert_eq!(&*first, &meaning);
                prop_assert_eq!(&*catalogue.tool(tool.name).unwrap().item.name, &*meaning.1);
            }
        }
    }
}

/// The names are kept in permissions and conversations: they must not change with a release.
#[test]
fn names_are_the_same_in_every_release() {
    let scheme = NameScheme::default();
    for (server, tool, name) in [
        ("github", "create_issue", "mcp__github__create_issue"),
        ("my server", "read.file", "mcp__my_server__read_file_0hzouwaqoaltw"),
        ("", "", "mcp__server__item_0g5dqr77xogo5"),
    ] {
        assert_eq!(scheme.name(server, tool), name);
    }
}
