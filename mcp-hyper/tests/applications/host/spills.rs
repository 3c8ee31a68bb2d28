//! Results that are too long for a model.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use mcp_hyper::host::SpillFolder;
use mcp_hyper::mcp_proto::host::tools::ResultLimits;
use serde_json::json;

use super::testbed::*;
use crate::common::runtime::within;
use crate::common::server::*;

#[test]
fn long_results_go_to_private_files_within_their_quota() {
    bounded(async {
        let folder = Folder::new();
        let (listener, address) = listener();
        let (_server, driver) = serving(router(&HandlerLog::default())).listen(listener);
        let _serving = smol::spawn(within(driver));
        let servers = json!({ "web": { "url": format!("http://{address}/mcp") } });
        let limits = ResultLimits { head_bytes: 1_000, tail_bytes: 500, ..ResultLimits::default() };
        let path = folder.path().join("results");
        let mut spills = SpillFolder::new(&path);
        spills.quota = 250_000;
        let (host, _driver) = start(options(config(servers)).spill_folder(spills).result_limits(limits));
        host.ready().await;
        let short = host.call_for_model("mcp__web__echo", json!({ "message": "short" })).await.unwrap();
        assert_eq!((short.to_text(), path.exists()), ("short".to_owned(), false));

        for _ in 0..4 {
            let long = host.call_for_model("mcp__web__big", json!({ "bytes": 120_000 })).await.unwrap();
            let text = long.to_text();
            assert!(text.len() < limits.head_bytes + limits.tail_bytes + 500, "{}", text.len());
            let file = text.split(" All: ").nth(1).unwrap().lines().next().unwrap();
            assert_eq!(fs::read_to_string(file).unwrap(), "x".repeat(120_000));
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let results =
            fs::read_dir(&path).unwrap().filter(|file| file.as_ref().unwrap().file_name() != ".lock");
        assert_eq!(results.count(), 2);

        // What does not fit at all is not silently lost.
        let huge = host.call_for_model("mcp__web__big", json!({ "bytes": 300_000 })).await.unwrap();
        assert!(huge.to_text().contains("not saved: it is longer than all files together may be"));
        // An error that the model can mend is content.
        let invalid = host.call_for_model("mcp__web__big", json!({ "bytes": "many" })).await.unwrap();
        assert!(invalid.is_error, "{invalid:?}");
    });
}
