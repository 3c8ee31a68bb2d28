//! Calls: each has one end, whatever happens to its server.

use std::future::Future;
use std::time::{Duration, Instant};

use mcp_hyper::host::{CallEnd, CallError, CallPhase, Host, HostEvent};
use mcp_hyper::mcp_proto::host::control::{Repeat, Status};
use serde_json::json;
use smol::future::{or, zip};

use super::testbed::*;
use crate::common::runtime::within;
use crate::common::server::*;

/// A server that answers its first call by its own death, if it is the first of its kind.
fn dying(folder: &Folder) -> serde_json::Value {
    let flag = folder.path().join("died");
    let script = crate::common::cli::script(&format!(
        r#"while ask; do case $line in
            *'"initialize"'*) answer '{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}' ;;
            *server/discover*) refuse 'no' ;;
            *tools/list*) answer '{{"tools":[{{"name":"read","inputSchema":{{"type":"object"}},"annotations":{{"readOnlyHint":true}}}},{{"name":"write","inputSchema":{{"type":"object"}}}}]}}' ;;
            *tools/call*) [ -e '{flag}' ] || {{ : > '{flag}'; exit 1; }}; answer '{{"content":[{{"type":"text","text":"done"}}]}}' ;;
        esac; done"#,
        flag = flag.display(),
    ));
    folder.script("dying", &script)
}

/// K25, F74
#[test]
fn call_whose_answer_was_lost_is_repeated_only_if_that_is_safe() {
    bounded(async {
        for (tool, is_safe) in [("mcp__dying__read", true), ("mcp__dying__write", false)] {
            let folder = Folder::new();
            let (host, _driver) = start(options(config(json!({ "dying": dying(&folder) }))));
            host.ready().await;
            let called = host.call_tool(tool, json!({})).await;
            match called {
                Ok(result) => assert!(is_safe && result.text_content() == "done"),
                Err(error) => assert!(!is_safe && matches!(error, CallError::Lost), "{error}"),
            }
            until_status(&host, "dying", Status::Connected).await;
            // The caller may say that it is.
            std::fs::remove_file(folder.path().join("died")).unwrap();
            let again = host.call_tool(tool, json!({})).repeat(Repeat::IfLost).await.unwrap();
            assert_eq!(again.text_content(), "done");
            assert_eq!(host.counters().lost, u64::from(!is_safe));
        }
    });
}

#[test]
fn dropped_call_is_cancelled_at_the_server() {
    bounded(async {
        let log = HandlerLog::default();
        let (listener, address) = listener();
        let (_server, driver) = serving(router(&log)).listen(listener);
        let _serving = smol::spawn(within(driver));
        let servers = json!({ "web": { "url": format!("http://{address}/mcp") } });
        let (host, _driver) = start(options(config(servers)));
        host.ready().await;
        let mut events = host.events();
        let call = host.call_tool("mcp__web__wait", json!({}));
        or(async { drop(call.await) }, until("it has begun", || log.begun_calls() == 1)).await;
        until("it is over", || log.ended_calls() == 1).await;
        until("it is counted", || host.counters().cancelled == 1).await;
        let ended = loop {
            if let HostEvent::CallEnded { end, item, .. } = events.next().await.unwrap() {
                break (end, item);
            }
        };
        assert!(matches!(ended.0, CallEnd::Cancelled { phase: CallPhase::Sent }), "{ended:?}");
        assert_eq!(ended.1.as_deref(), Some("wait"));
    });
}

/// K25, F76
#[test]
fn sent_call_of_a_server_that_is_switched_off_may_have_had_effects() {
    bounded(async {
        let log = HandlerLog::default();
        let (listener, address) = listener();
        let (_server, driver) = serving(router(&log)).listen(listener);
        let _serving = smol::spawn(within(driver));
        let servers = json!({ "web": { "url": format!("http://{address}/mcp") } });
        let (host, _driver) =
            start(options(config(servers)).control(|control| control.grace = Duration::ZERO));
        host.ready().await;
        let switching = async {
            until("it has begun", || log.begun_calls() == 1).await;
            host.set_enabled("web", false).unwrap();
        };
        let call = host.call_tool("mcp__web__wait", json!({})).into_future();
        let (called, ()) = zip(call, switching).await;
        let error = called.unwrap_err();
        assert!(matches!(error, CallError::Lost) && !error.is_unsent(), "{error}");
        let refused = host.call_tool("mcp__web__wait", json!({})).await.unwrap_err();
        assert!(matches!(refused, CallError::Unavailable { .. }) && refused.is_unsent(), "{refused}");
    });
}

#[test]
fn call_that_takes_too_long_ends() {
    bounded(async {
        let folder = Folder::new();
        let servers = json!({ "one": folder.demo("one"), "slow": folder.script("slow", "exec sleep 1000") });
        let (host, _driver) =
            start(options(config(servers)).control(|control| control.startup_gate = Duration::ZERO));
        host.wait_for_gate().await;
        until_status(&host, "one", Status::Connected).await;
        let called = host.call_tool("mcp__one__slow", json!({ "seconds": 1000 }));
        let late = called.timeout(Duration::from_millis(50)).await.unwrap_err();
        assert!(matches!(late, CallError::TimedOut), "{late}");
        // Also while its server starts.
        let ping = host.request::<mcp_hyper::mcp_proto::schema::Ping>("slow", Default::default());
        let late = ping.timeout(Duration::from_millis(50)).await.unwrap_err();
        assert!(matches!(late, CallError::TimedOut), "{late}");
        assert_eq!(host.counters().timed_out, 2);
    });
}

#[test]
fn progress_of_a_call_is_reported() {
    bounded(async {
        let folder = Folder::new();
        let (host, _driver) = start(options(config(json!({ "one": folder.demo("one") }))));
        host.ready().await;
        let (reports, received) = smol::channel::unbounded();
        let count = host.call_tool("mcp__one__count", json!({ "to": 3, "delay_ms": 1 })).on_progress(
            move |progress| {
                reports.try_send(progress.progress.to_string()).unwrap();
            },
        );
        assert_eq!(count.await.unwrap().text_content(), "Counted to 3.");
        assert!(!received.is_empty());
    });
}

/// F76
#[test]
fn running_calls_finish_before_their_server_restarts_or_the_host_closes() {
    bounded(async {
        let folder = Folder::new();
        let (host, driver) = start(options(config(json!({ "one": folder.demo("one") }))));
        host.ready().await;
        let count = counting(&host, 20).await;
        let mut other = folder.demo("one");
        other["env"] = json!({ "OTHER": "1" });
        host.reload(&config(json!({ "one": other })));
        assert!(host.server("one").unwrap().grace_ends.is_some());
        assert_eq!(count.await.unwrap().text_content(), "Counted to 20.");
        until("it is restarted", || folder.processes("one").len() == 2).await;
        until_status(&host, "one", Status::Connected).await;

        let (count, endless) = (counting(&host, 20).await, counting(&host, 100_000).await);
        zip(host.close(), async {
            assert_eq!(count.await.unwrap().text_content(), "Counted to 20.");
            assert!(matches!(host.call_tool("mcp__one__count", json!({})).await, Err(CallError::Closed)));
            host.close_now().await;
        })
        .await;
        assert!(matches!(endless.await, Err(CallError::Closed)));
        driver.await.unwrap();
    });
}

#[test]
fn calls_end_when_the_driver_is_dropped() {
    bounded(async {
        let folder = Folder::new();
        let (host, driver) = start(options(config(json!({ "one": folder.demo("one") }))));
        host.ready().await;
        let call = smol::spawn({
            let host = host.clone();
            async move { host.call_tool("mcp__one__slow", json!({ "seconds": 1000 })).await }
        });
        until("it was made", || host.counters().calls == 1).await;
        drop(driver.cancel().await);
        assert!(matches!(call.await, Err(CallError::Closed)));
        host.close().await;
        until("the process has ended", || !is_running(folder.last_process("one"))).await;
    });
}

#[test]
fn unpolled_driver_is_reported_to_those_who_wait() {
    bounded(async {
        let folder = Folder::new();
        let (host, driver) = options(config(json!({ "one": folder.demo("one") }))).start();
        let mut events = host.events();
        let reported = async { while !matches!(events.next().await, Some(HostEvent::DriverNotPolled)) {} };
        or(host.ready(), reported).await;
        assert_eq!(status(&host, "one"), Status::Starting);
        let _driver = smol::spawn(within(driver));
        host.ready().await;

        let (host, _driver) = options(config(json!({ "one": folder.demo("one") }))).start();
        let mut events = host.events();
        let reported = async { while !matches!(events.next().await, Some(HostEvent::DriverNotPolled)) {} };
        let calling = async { drop(host.call_tool("mcp__one__echo", json!({ "text": "hello" })).await) };
        or(calling, reported).await;
        assert_eq!(status(&host, "one"), Status::Starting);
    });
}

/// What `work` brings, within a few seconds.
pub(super) async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    let late = async {
        let mut timer = Box::pin(smol::Timer::after(Duration::from_secs(3)));
        let _ = (&mut timer).await;
        None
    };
    or(async { Some(work.await) }, late).await.unwrap_or_else(|| panic!("{what}: it hangs"))
}

/// A call that has reported progress and never ends.
pub(super) async fn endless(host: &Host) -> smol::Task<Result<mcp_hyper::CallToolResult, CallError>> {
    counting(host, 100_000).await
}

/// A call that counts, and has reported progress.
async fn counting(host: &Host, to: u32) -> smol::Task<Result<mcp_hyper::CallToolResult, CallError>> {
    let (reports, received) = smol::channel::unbounded();
    let count = host.call_tool("mcp__one__count", json!({ "to": to, "delay_ms": 10 }));
    let count = smol::spawn(count.on_progress(move |_| _ = reports.try_send(())));
    received.recv().await.unwrap();
    count
}

#[test]
fn withdrawn_approval_ends_the_calls_of_a_server_that_ends_at_once() {
    let ends: [fn(&Host); 2] =
        [|host| host.set_enabled("one", false).unwrap(), |host| host.reload(&project(json!({})))];
    for end in ends {
        bounded(async {
            let folder = Folder::new();
            let (host, _driver) = start(options(project(json!({ "one": folder.demo("one") }))));
            host.ready().await;
            let request = host.pending_approvals().remove(0);
            host.approve(request.approve());
            until_status(&host, "one", Status::Connected).await;
            let call = endless(&host).await;
            end(&host);
            assert!(host.revoke_approval(request.path(), request.server()));
            let began = Instant::now();
            let ended = within(call).await;
            assert!(began.elapsed() < Duration::from_secs(2), "{:?} {ended:?}", began.elapsed());
        });
    }
}

#[test]
fn close_without_time_for_the_shutdown_ends_the_calls() {
    bounded(async {
        let folder = Folder::new();
        let options = options(config(json!({ "one": folder.demo("one") }))).control(|control| {
            control.grace = Duration::from_millis(100);
            control.shutdown = Duration::ZERO;
        });
        let (host, _driver) = start(options);
        host.ready().await;
        let call = endless(&host).await;
        host.close().await;
        let ended = soon("the call", call).await;
        assert!(matches!(ended, Err(CallError::Closed)), "{ended:?}");
    });
}

#[test]
fn call_once_ends_with_its_driver() {
    bounded(async {
        let command = mcp_smol::Command::new("sh").args(["-c", "exec sleep 1000"]);
        let (client, driver) = mcp_smol::connect(command);
        let limit = async {
            smol::Timer::after(Duration::from_millis(100)).await;
            Ok(())
        };
        let limited = or(driver, limit);
        let called = soon("call_once", mcp_hyper::call_once((client, limited), "add", json!({}))).await;
        assert!(called.is_err());
    });
}

#[test]
fn server_that_is_approved_while_the_old_one_finishes_accepts_calls() {
    bounded(async {
        let folder = Folder::new();
        let (host, _driver) = start(options(project(json!({ "one": folder.demo("one") }))));
        host.ready().await;
        host.approve(host.pending_approvals().remove(0).approve());
        until_status(&host, "one", Status::Connected).await;
        let _call = endless(&host).await;
        let mut other = folder.demo("one");
        other["env"] = json!({ "OTHER": "1" });
        host.reload(&project(json!({ "one": other })));
        until_status(&host, "one", Status::Unapproved).await;
        host.approve(host.pending_approvals().remove(0).approve());
        let ping = host.request::<mcp_hyper::mcp_proto::schema::Ping>("one", Default::default()).await;
        assert!(!matches!(ping, Err(CallError::Unavailable { .. })), "{ping:?}");
    });
}
