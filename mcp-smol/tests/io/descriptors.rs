//! A process that has no file descriptors left gets errors, not panics.
// tokio starts its reactor itself.
#![cfg(all(target_os = "linux", feature = "smol"))]

use std::env;
use std::panic;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_lite::future::block_on;
use mcp_proto::front::Router;
use mcp_smol::Command;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::common::bounded;

const ROLE: &str = "MCP_SMOL_TEST_DESCRIPTORS";
const NAME: &str = "descriptors::process_without_descriptors_gets_errors_and_no_panics";

/// Runs in a process of its own, whose reactor has not been started.
#[test]
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

fn exhausted() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        report(info);
    }));

    let limit = getrlimit(Resource::Nofile);
    // Open descriptors stay open; no other can be opened.
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..limit }).unwrap();
    let many_open = |error: &str| assert!(error.contains("Too many open files"), "{error}");

    many_open(&mcp_smol::start_reactor().unwrap_err().to_string());
    many_open(&Command::new("true").spawn().unwrap_err().to_string());
    many_open(&mcp_smol::stdio_shared().unwrap_err().to_string());
    let (client, driver) = mcp_smol::connect(Command::new("true"));
    many_open(&block_on(driver).unwrap_err().to_string());
    many_open(&block_on(client.ready()).unwrap_err().to_string());
    let nobody = futures_lite::io::empty;
    let (_client, driver) = mcp_smol::connect_stream(nobody(), futures_lite::io::sink());
    many_open(&block_on(driver).unwrap_err().to_string());
    let serving = mcp_smol::serve(Router::new("test", "1"), nobody(), futures_lite::io::sink());
    many_open(&block_on(serving).unwrap_err().to_string());

    // A failed start can be repeated.
    setrlimit(Resource::Nofile, limit).unwrap();
    mcp_smol::start_reactor().unwrap();
    let child = Command::new("cat").spawn().unwrap();
    assert!(block_on(bounded(child.shutdown())).success());

    // The reactor runs: now only the child fails.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..limit }).unwrap();
    let (client, driver) = mcp_smol::connect(Command::new("true"));
    many_open(&block_on(bounded(driver)).unwrap_err().to_string());
    many_open(&block_on(client.ready()).unwrap_err().to_string());
    setrlimit(Resource::Nofile, limit).unwrap();
    assert_eq!(PANICS.load(Ordering::SeqCst), 0);
}
