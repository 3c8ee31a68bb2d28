//! Watches that outlive the connections of their servers.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use mcp_hyper::host::{CallError, Host, HostWatch};
use mcp_hyper::mcp_proto::front::WatchUpdate;
use mcp_hyper::mcp_proto::host::control::Status;
use mcp_hyper::mcp_proto::peer::client::{Change, ChangeEvidence, WatchFilter};
use serde_json::{Value, json};
use smol::future::or;

use super::calls::soon;
use super::testbed::*;
use crate::common::server::*;

const CLOCK: &str = "demo://clock";

/// The updates until the resource is reported as changed with this evidence, in short.
async fn until_changed(watch: &mut HostWatch, wanted: ChangeEvidence) -> Vec<&'static str> {
    let mut seen = Vec::new();
    loop {
        match watch.next().await.expect("the watch goes on") {
            WatchUpdate::Active { missing } if missing.is_empty() => seen.push("active"),
            WatchUpdate::Interrupted => seen.push("interrupted"),
            WatchUpdate::Changed { change: Change::Resource(uri), evidence } => {
                assert_eq!(&*uri, CLOCK);
                if evidence == wanted {
                    return seen;
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A server of the legacy era that reports the resource as changed once after each subscription.
fn subscribable(folder: &Folder) -> Value {
    let script = crate::common::cli::script(&format!(
        r#"while ask; do case $line in
            *'"initialize"'*) answer '{{"protocolVersion":"2025-11-25","capabilities":{{"resources":{{"subscribe":true}}}},"serverInfo":{{"name":"s","version":"1"}}}}' ;;
            *server/discover*) refuse 'no' ;;
            *resources/list*) answer '{{"resources":[]}}' ;;
            *templates/list*) answer '{{"resourceTemplates":[]}}' ;;
            *resources/subscribe*) answer '{{}}'
                echo '{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"{CLOCK}"}}}}' ;;
            *'"id"'*) answer '{{}}' ;;
        esac; done"#
    ));
    folder.script("one", &script)
}

fn clock(host: &Host) -> HostWatch {
    host.watch("one", WatchFilter::new().resource(CLOCK)).unwrap()
}

/// F74, F88
#[test]
fn watch_lives_on_after_a_crash_a_reload_and_a_pause() {
    bounded(async {
        let folder = Folder::new();
        let (host, _driver) = start(options(config(json!({ "one": subscribable(&folder) }))));
        host.ready().await;
        let mut watch = clock(&host);
        assert_eq!(until_changed(&mut watch, ChangeEvidence::Notified).await, ["active"]);

        kill(folder.last_process("one"));
        assert_eq!(until_changed(&mut watch, ChangeEvidence::MaybeMissed).await, ["interrupted", "active"]);

        let mut other = subscribable(&folder);
        other["env"] = json!({ "OTHER": "1" });
        host.reload(&config(json!({ "one": other })));
        assert_eq!(until_changed(&mut watch, ChangeEvidence::MaybeMissed).await, ["interrupted", "active"]);

        host.set_enabled("one", false).unwrap();
        until_status(&host, "one", Status::Disabled).await;
        host.set_enabled("one", true).unwrap();
        assert_eq!(until_changed(&mut watch, ChangeEvidence::MaybeMissed).await, ["interrupted", "active"]);

        // A server of the other era, which has no subscriptions.
        host.reload(&config(json!({ "one": folder.demo("one") })));
        let update = loop {
            match watch.next().await.unwrap() {
                WatchUpdate::Interrupted | WatchUpdate::Changed { .. } => {}
                update => break update,
            }
        };
        assert!(
            matches!(&update, WatchUpdate::Active { missing } if *missing == *watch.filter()),
            "{update:?}"
        );

        host.reload(&config(json!({})));
        while watch.next().await.is_some() {}
        assert!(matches!(watch.outcome(), Some(Err(CallError::Removed))));
        assert!(host.watch("one", WatchFilter::new()).is_err());
    });
}

#[test]
fn watch_starts_a_lazy_server_and_ends_with_the_host() {
    bounded(async {
        let folder = Folder::new();
        let mut lazy = subscribable(&folder);
        lazy["lazy"] = json!(true);
        let (host, _driver) = start(options(config(json!({ "one": lazy }))));
        host.ready().await;
        let mut watch = clock(&host);
        assert_eq!(until_changed(&mut watch, ChangeEvidence::Notified).await, ["active"]);
        host.close().await;
        while watch.next().await.is_some() {}
        assert!(matches!(watch.outcome(), Some(Err(CallError::Closed))));
    });
}

fn lazy(folder: &Folder) -> serde_json::Value {
    let mut lazy = folder.demo("one");
    lazy["lazy"] = json!(true);
    lazy
}

#[test]
fn watch_of_a_lazy_server_goes_on_or_ends_when_it_is_removed_and_added_again() {
    bounded(async {
        let folder = Folder::new();
        let (host, _driver) = start(options(config(json!({ "one": lazy(&folder) }))));
        host.ready().await;
        let mut watch = clock(&host);
        soon("active", watch.next()).await.unwrap();
        host.reload(&config(json!({})));
        until("it has ended", || folder.processes("one").into_iter().all(|it| !is_running(it))).await;
        let starts = folder.processes("one").len();
        host.reload(&config(json!({ "one": lazy(&folder) })));
        // The first start is to list; it stops by itself only after 5 minutes.
        until("it is started", || folder.processes("one").len() > starts).await;
        let mut updates = Vec::new();
        for _ in 0..2 {
            updates.push(soon(&format!("{updates:?}"), watch.next()).await);
        }
    });
}

struct Count;

impl Wake for Count {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn polls_of_different_tasks_leave_no_wakers_behind() {
    bounded(async {
        let folder = Folder::new();
        let mut off = folder.demo("one");
        off["disabled"] = json!(true);
        let (host, _driver) = start(options(config(json!({ "one": off }))));
        // The driver was polled then: no timer waits for that.
        host.wait_for_gate().await;
        let mut watch = clock(&host);
        let tasks: Vec<_> = (0..1000).map(|_| Arc::new(Count)).collect();
        for task in &tasks {
            let waker = Waker::from(task.clone());
            let next = pin!(watch.next());
            assert!(matches!(next.poll(&mut Context::from_waker(&waker)), Poll::Pending));
        }
        drop(watch);
        let kept = tasks.iter().filter(|task| Arc::strong_count(task) > 1).count();
        assert_eq!(kept, 0, "wakers are kept");
    });
}

/// A task that uses the host when it ends.
struct UsesHost(Host);

impl Wake for UsesHost {
    fn wake(self: Arc<Self>) {}
}

impl Drop for UsesHost {
    fn drop(&mut self) {
        self.0.counters();
    }
}

#[test]
fn tasks_that_end_with_their_wakers_may_use_the_host() {
    bounded(async {
        let folder = Folder::new();
        let mut off = folder.demo("one");
        off["disabled"] = json!(true);
        let (host, _driver) = start(options(config(json!({ "one": off }))));
        // The driver was polled then: no timer waits for that.
        host.wait_for_gate().await;
        let (mut watch, mut events) = (clock(&host), host.events());
        while smol::future::poll_once(events.next()).await.is_some() {}
        for _ in 0..2 {
            let waker = Waker::from(Arc::new(UsesHost(host.clone())));
            let cx = &mut Context::from_waker(&waker);
            assert!(pin!(watch.next()).poll(cx).is_pending());
            assert!(pin!(events.next()).poll(cx).is_pending());
        }
        drop((watch, events));
    });
}

/// A task that runs at once when it is woken, as some executors do.
struct RunsAtOnce(Host);

impl Wake for RunsAtOnce {
    fn wake(self: Arc<Self>) {
        self.0.tools();
    }
}

#[test]
fn host_may_be_used_where_the_removal_of_a_server_wakes() {
    let (done, is_done) = std::sync::mpsc::channel();
    // On a thread of its own: a deadlock would stop every timer of this one.
    std::thread::spawn(move || {
        bounded(async {
            let folder = Folder::new();
            let (host, _driver) = start(options(config(json!({ "one": lazy(&folder) }))));
            host.wait_for_gate().await;
            let mut events = host.events();
            while smol::future::poll_once(events.next()).await.is_some() {}
            let waker = Waker::from(Arc::new(RunsAtOnce(host.clone())));
            assert!(pin!(events.next()).poll(&mut Context::from_waker(&waker)).is_pending());
            host.reload(&config(json!({})));
            until("the server is removed", || host.servers().is_empty()).await;
        });
        let _ = done.send(());
    });
    is_done.recv_timeout(Duration::from_secs(30)).expect("the host is not deadlocked");
}

#[test]
fn watch_reports_a_driver_that_nothing_polls() {
    bounded(async {
        let folder = Folder::new();
        let (host, _driver) = options(config(json!({ "one": lazy(&folder) }))).start();
        let mut events = host.events();
        let mut watch = clock(&host);
        let event = soon(
            "report",
            or(
                async {
                    watch.next().await;
                    None
                },
                events.next(),
            ),
        )
        .await;
        assert!(event.is_some(), "{event:?}");
    });
}
