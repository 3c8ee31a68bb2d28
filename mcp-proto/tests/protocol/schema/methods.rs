//! The table of methods and notifications, and the differences between revisions.

use mcp_proto::schema::tasks::{self, legacy};
use mcp_proto::schema::{
    CallTool, ClientCapabilities, ClientCapability, CreateMessage, Direction, Discover, Elicit, Era,
    Initialize, ListRoots, Method, MethodInfo, Notification, NotificationInfo, Ping, Progress, ReadResource,
    Revision, ServerCapabilities, ServerCapability, SubscribeResource, SubscriptionsListen,
};

const DIRECTIONS: [Direction; 2] = [Direction::ClientToServer, Direction::ServerToClient];

fn names(direction: Direction, revision: Revision) -> Vec<&'static str> {
    let found =
        MethodInfo::all().filter(|info| info.direction.includes(direction) && info.exists_in(revision));
    found.map(|info| info.name).collect()
}

#[test]
fn method_name_is_unique_per_direction_and_revision() {
    for revision in Revision::ALL.iter().copied() {
        for direction in DIRECTIONS {
            let mut known = names(direction, revision);
            let count = known.len();
            known.sort_unstable();
            known.dedup();
            assert_eq!(known.len(), count, "{direction:?} at {revision}");
            for name in known {
                assert_eq!(MethodInfo::find(name, direction, revision).unwrap().name, name);
            }
        }
    }
}

#[test]
fn notification_name_is_unique_per_direction_and_revision() {
    for revision in Revision::ALL.iter().copied() {
        for direction in DIRECTIONS {
            let found: Vec<_> = NotificationInfo::all()
                .filter(|info| info.direction.includes(direction) && info.exists_in(revision))
                .collect();
            for info in found {
                assert_eq!(NotificationInfo::find(info.name, direction, revision), Some(info));
            }
        }
    }
}

/// R10
#[test]
fn modern_server_sends_no_requests() {
    assert_eq!(names(Direction::ServerToClient, Revision::V2026_07_28), [""; 0]);
    for info in [ListRoots::INFO, CreateMessage::INFO, Elicit::INFO] {
        assert!(info.as_input_request.unwrap().contains(Revision::V2026_07_28), "{}", info.name);
    }
}

#[test]
fn legacy_and_modern_tasks_share_names_but_not_types() {
    let at = |revision| MethodInfo::find("tasks/get", Direction::ClientToServer, revision);
    assert_eq!(at(Revision::V2025_11_25), Some(legacy::GetTask::INFO));
    assert_eq!(at(Revision::V2026_07_28), Some(tasks::GetTask::INFO));
    assert_eq!(at(Revision::V2025_06_18), None);
    let to_client = MethodInfo::find("tasks/get", Direction::ServerToClient, Revision::V2025_11_25);
    assert_eq!(to_client, Some(legacy::GetTask::INFO));
}

#[test]
fn method_is_found_only_in_its_direction() {
    let revision = Revision::V2025_11_25;
    assert_eq!(MethodInfo::find(CallTool::NAME, Direction::ServerToClient, revision), None);
    assert_eq!(MethodInfo::find(Ping::NAME, Direction::ServerToClient, revision), Some(Ping::INFO));
    assert_eq!(MethodInfo::find("tools/destroy", Direction::ClientToServer, revision), None);
    let from_client = |revision| NotificationInfo::find(Progress::NAME, Direction::ClientToServer, revision);
    assert!(from_client(Revision::V2025_11_25).is_some());
    assert_eq!(from_client(Revision::V2026_07_28), None);
}

#[test]
fn methods_of_one_era_are_unknown_to_the_other() {
    for info in [Initialize::INFO, Ping::INFO, SubscribeResource::INFO] {
        assert!(
            Revision::ALL.iter().all(|it| info.exists_in(*it) == (it.era() == Era::Legacy)),
            "{}",
            info.name
        );
    }
    for info in [Discover::INFO, SubscriptionsListen::INFO] {
        assert!(
            Revision::ALL.iter().all(|it| info.exists_in(*it) == (it.era() == Era::Modern)),
            "{}",
            info.name
        );
    }
}

#[test]
fn method_requires_its_declared_capability() {
    let revision = Revision::V2025_11_25;
    let server = ServerCapabilities::new().with(ServerCapability::Resources);
    assert!(ReadResource::INFO.server_allows(&server, revision));
    assert!(!SubscribeResource::INFO.server_allows(&server, revision));
    assert!(!CallTool::INFO.server_allows(&server, revision));
    let client = ClientCapabilities::new().with(ClientCapability::Roots);
    assert!(ListRoots::INFO.client_allows(&client) && Ping::INFO.client_allows(&client));
    assert!(!Elicit::INFO.client_allows(&client));
}

/// C2.15
#[test]
fn only_initialize_cannot_be_cancelled() {
    let never: Vec<_> = MethodInfo::all().filter(|info| !info.cancellable).map(|info| info.name).collect();
    assert_eq!(never, ["initialize"]);
}

/// C5.1
#[test]
fn only_three_methods_may_ask_for_input() {
    let asking: Vec<_> = MethodInfo::all().filter(|info| info.input_required).map(|info| info.name).collect();
    assert_eq!(asking, ["tools/call", "resources/read", "prompts/get"]);
}

#[test]
fn lists_reads_and_discovery_are_cacheable() {
    let mut cacheable: Vec<_> =
        MethodInfo::all().filter(|info| info.cacheable).map(|info| info.name).collect();
    cacheable.sort_unstable();
    let lists =
        ["prompts/list", "resources/list", "resources/read", "resources/templates/list", "server/discover"];
    assert_eq!(cacheable[..5], lists);
    assert_eq!(cacheable[5..], ["skills/get", "skills/list", "tools/list"]);
}

#[test]
fn revisions_are_ordered_by_age_and_by_era() {
    assert!(Revision::ALL.is_sorted_by(|newer, older| newer > older));
    assert_eq!([Revision::MODERN, Revision::LEGACY].concat(), Revision::ALL);
    for revision in Revision::ALL {
        assert_eq!(Revision::parse(revision.as_str()), Some(*revision));
    }
    assert_eq!(Revision::parse("2026-07-29"), None);
}

/// D3, C1.13
#[test]
fn differences_match_the_specification() {
    let batches: Vec<_> = Revision::ALL.iter().filter(|it| it.differences().batches).collect();
    assert_eq!(batches, [&Revision::V2025_03_26]);
    let missing = |revision: Revision| revision.differences().resource_not_found_code;
    assert_eq!((missing(Revision::LATEST_LEGACY), missing(Revision::LATEST)), (-32002, -32602));
    let unsupported = |revision: Revision| revision.differences().unsupported_version_code;
    assert_eq!((unsupported(Revision::LATEST_LEGACY), unsupported(Revision::LATEST)), (-32602, -32022));
}

#[test]
fn method_and_notification_names_come_from_the_table() {
    assert_eq!((CallTool::NAME, <Progress as Notification>::NAME), ("tools/call", "notifications/progress"));
}
