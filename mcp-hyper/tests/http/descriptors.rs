//! A process without free file descriptors gets errors, not panics, and continues once it has some.
#![cfg(target_os = "linux")]

use std::env;
use std::panic;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::server::{RawClient, listener, run, wait_until};
use mcp_hyper::mcp_proto::front::Router;
use mcp_hyper::{ServerError, ServerOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const ROLE: &str = "MCP_HYPER_TEST_DESCRIPTORS";
const NAME: &str = "descriptors::process_without_descriptors_gets_errors_and_no_panics";

/// In a process of its own, whose reactor has not been started.
#[test]
#[cfg_attr(feature = "tokio", ignore = "it exhausts the descriptors before async-io starts its reactor")]
fn process_without_descriptors_gets_errors_and_no_panics() {
    if env::var_os(ROLE).is_some() {
        return exhausted();
    }
    let mut command = process::Command::new(env::current_exe().unwrap());
    let output = command.args(["--exact", NAME, "--nocapture"]).env(ROLE, "1").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}{}", String::from_utf8_lossy(&output.stdout));
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

/// Open descriptors stay open; no other can be opened.
fn exhaust(limit: Rlimit) {
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..limit }).unwrap();
}

fn exhausted() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        report(info);
    }));
    let limit = getrlimit(Resource::Nofile);

    exhaust(limit);
    let error = mcp_hyper::connect("http://127.0.0.1:1/mcp").unwrap_err().to_string();
    assert!(error.contains("Too many open files"), "{error}");
    setrlimit(Resource::Nofile, limit).unwrap();

    // Clients that wait to be accepted.
    let (listener, address) = listener();
    let mut clients: Vec<RawClient> = (0..3).map(|_| RawClient::connect(address)).collect();
    let errors = Arc::new(AtomicUsize::new(0));
    let count = errors.clone();
    let options = ServerOptions::new(Router::new("test", "1")).on_error(move |error| {
        assert!(matches!(error, ServerError::Accept(_)), "{error}");
        count.fetch_add(1, Ordering::SeqCst);
    });
    let (_server, driver) = options.listen(listener);
    exhaust(limit);
    run(driver);
    wait_until("accepting fails", || errors.load(Ordering::SeqCst) > 0);
    thread::sleep(Duration::from_millis(300));
    let failed = errors.load(Ordering::SeqCst);
    assert!(failed <= 10, "the server tries again after a pause: {failed}");

    setrlimit(Resource::Nofile, limit).unwrap();
    for client in &mut clients {
        client.post("/mcp", "", "no message");
        assert_eq!(client.answer().0.status, 400);
    }
    assert_eq!(PANICS.load(Ordering::SeqCst), 0);
}
