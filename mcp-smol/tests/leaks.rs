//! Leak test, alone in its program because it counts descriptors and children of the whole process.
#![cfg(target_os = "linux")]

mod common;

use std::fs;

use common::{eventually, run, sh};

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn children() -> usize {
    let ours = std::process::id().to_string();
    let is_ours = |stat: &str| {
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields.split_ascii_whitespace().nth(1) == Some(ours.as_str())
    };
    let stats = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    stats.filter(|stat| is_ours(stat)).count()
}

/// C3.5: half of them shut down, half of them dropped.
#[test]
fn a_hundred_children_leave_no_descriptor_and_no_process() {
    let cycle = |n: usize| {
        run(async move {
            let mut child = sh("echo out; echo err >&2; cat").spawn().unwrap();
            common::line(&mut child.stdout).await;
            let lines = child.process.stderr().lines();
            if n.is_multiple_of(2) {
                assert!(child.shutdown().await.success());
            } else {
                drop(child);
            }
            drop(lines);
        });
    };
    // The first cycle also opens the reactor's own descriptors.
    cycle(0);
    let before = open_descriptors();
    (0..100).for_each(cycle);
    eventually("all are gone", || children() == 0);
    eventually("all is closed", || open_descriptors() == before);
}
