//! Fuzzing of the names that tools have for models.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use arbitrary::{Arbitrary, Unstructured};

use crate::host::tools::{Catalogue, NameScheme, ServerSettings};
use crate::schema::{Json, Tool};

/// Names pairs of servers and tools: different pairs have different names, which a catalogue finds again.
pub fn host_names(data: &[u8]) {
    let Ok(pairs) = Vec::<(String, String)>::arbitrary_take_rest(Unstructured::new(data)) else { return };
    let scheme = NameScheme::default();
    let mut owners: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut lists: BTreeMap<String, Vec<Tool>> = BTreeMap::new();
    for (server, tool) in pairs {
        // A server may call its tool by the name that another pair has.
        let imitation = scheme.name(&server, &tool).replacen("mcp__", "", 1);
        for tool in [tool, imitation.rsplit("__").next().unwrap_or_default().into(), imitation.clone()] {
            let name = scheme.name(&server, &tool);
            assert!(name.len() <= NameScheme::MAX_BYTES && name != scheme.search_name());
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{name}");
            let pair = (server.clone(), tool.clone());
            assert_eq!(*owners.entry(name).or_insert_with(|| pair.clone()), pair, "two pairs have one name");
            let list = lists.entry(server.clone()).or_default();
            list.push(Tool::new(tool, "", Json::empty_object()));
        }
    }
    let mut catalogue = Catalogue::default();
    for (server, tools) in lists {
        catalogue.add_server(&server, ServerSettings::default());
        let report = catalogue.update(&server, tools).expect("the server was added");
        assert!(report.collisions.is_empty() && report.changes.is_empty());
    }
    for tool in catalogue.tools() {
        assert_eq!(owners.get(tool.name), Some(&(tool.server.into(), tool.item.name.clone())));
        assert!(catalogue.tool(tool.name).is_ok_and(|found| found.item.name == tool.item.name));
    }
}
