//! The shutdown steps, one by one: none of them leaves a process or a zombie.

use std::time::{Duration, Instant};

use crate::common::{Scratch, eventually, line, run, runs, sh, state, times};
use mcp_smol::{Child, Command, ShutdownStep, ShutdownTimeouts};

/// Spawns a program and waits for its first line of output, which it prints when its traps are set.
async fn ready(command: &Command) -> (Child, String) {
    let mut child = command.spawn().unwrap();
    let line = line(&mut child.stdout).await;
    (child, line)
}

/// C3.5, F34, K11
#[test]
fn program_that_reads_to_the_end_exits_by_itself() {
    run(async {
        let (child, _) = ready(&sh("echo ready; cat >/dev/null; exit 5").shutdown(times(5000, 0))).await;
        let id = child.process.id();
        let exit = child.shutdown().await;
        assert_eq!((exit.step, exit.status.unwrap().code()), (ShutdownStep::InputClosed, Some(5)));
        assert_eq!(state(id), None);
    });
}

/// C3.5, F34, K11
#[test]
fn program_that_ignores_the_end_of_its_input_gets_sigterm() {
    run(async {
        let script = "trap 'exit 6' TERM; echo ready; while :; do sleep 0.01; done";
        let (child, _) = ready(&sh(script).shutdown(times(50, 5000))).await;
        let id = child.process.id();
        let exit = child.shutdown().await;
        assert_eq!((exit.step, exit.status.unwrap().code()), (ShutdownStep::Terminated, Some(6)));
        assert_eq!(state(id), None);
    });
}

/// C3.5, F34, K11
#[test]
fn program_that_ignores_sigterm_is_killed() {
    use std::os::unix::process::ExitStatusExt as _;

    run(async {
        let (child, _) =
            ready(&sh("trap '' TERM; echo ready; while :; do sleep 1; done").shutdown(times(100, 200))).await;
        let id = child.process.id();
        let start = Instant::now();
        let exit = child.shutdown().await;
        assert_eq!((exit.step, exit.status.unwrap().signal()), (ShutdownStep::Killed, Some(9)));
        assert!(start.elapsed() >= Duration::from_millis(300), "each step has its time");
        assert_eq!(state(id), None);
    });
}

/// C3.5
#[test]
fn stopped_program_still_gets_sigterm() {
    run(async {
        let script = "trap 'exit 6' TERM; echo ready; kill -STOP $$; while :; do sleep 0.01; done";
        let (child, _) = ready(&sh(script).shutdown(times(0, 5000))).await;
        eventually("it has stopped", || state(child.process.id()) == Some('T'));
        let exit = child.shutdown().await;
        assert_eq!((exit.step, exit.status.unwrap().code()), (ShutdownStep::Terminated, Some(6)));
    });
}

/// F35
#[test]
fn shutdown_reports_a_program_that_had_already_exited() {
    run(async {
        let mut child = sh("exit 9").spawn().unwrap();
        assert_eq!(child.process.wait().await.unwrap().code(), Some(9));
        assert_eq!(
            child.process.wait().await.unwrap().code(),
            Some(9),
            "a second wait returns the same status"
        );
        let id = child.process.id();
        let exit = child.shutdown().await;
        assert_eq!((exit.step, exit.status.unwrap().code()), (ShutdownStep::AlreadyExited, Some(9)));
        assert_eq!(state(id), None);
    });
}

/// C3.5: like `npx`, which waits for the server that it has started.
#[test]
fn child_of_a_wrapper_ends_with_it() {
    run(async {
        let (child, server) = ready(&sh("sleep 1000 & echo $!; wait").shutdown(times(50, 5000))).await;
        let server = server.parse().unwrap();
        assert!(runs(server));
        assert_eq!(child.shutdown().await.step, ShutdownStep::Terminated);
        assert!(!runs(server));
    });
}

/// C3.5
#[test]
fn orphan_of_an_exited_wrapper_ends_too() {
    run(async {
        let (mut child, left) = ready(&sh("sleep 1000 & echo $!; exit 0")).await;
        let left = left.parse().unwrap();
        child.process.wait().await.unwrap();
        assert!(runs(left), "waiting only watches");
        let exit = child.shutdown().await;
        assert_eq!((exit.step, exit.success()), (ShutdownStep::AlreadyExited, true));
        assert!(!runs(left));
    });
}

/// C3.5
#[test]
fn orphan_that_ignores_sigterm_is_killed() {
    run(async {
        let script = "(trap '' TERM; echo ready; exec sleep 1000) & read go; echo $!";
        let (mut child, _) = ready(&sh(script).shutdown(times(5000, 50))).await;
        drop(child.stdin);
        let left = line(&mut child.stdout).await.parse().unwrap();
        assert!(runs(left));
        child.process.shutdown().await;
        assert!(!runs(left));
    });
}

/// C3.5: the pipe of its output is full, so it could neither exit nor notice the end of its input.
#[test]
fn program_blocked_on_its_output_can_exit() {
    run(async {
        let script = "echo ready; head -c 1000000 /dev/zero; cat >/dev/null; exit 4";
        let (child, _) = ready(&sh(script).shutdown(times(5000, 0))).await;
        let exit = child.shutdown().await;
        assert_eq!((exit.step, exit.status.unwrap().code()), (ShutdownStep::InputClosed, Some(4)));
    });
}

/// C3.5
#[test]
fn dropped_shutdown_still_ends_the_child() {
    let id = run(async {
        let (child, _) = ready(&sh("trap '' TERM; echo ready; while :; do sleep 1; done")).await;
        let id = child.process.id();
        let abandoned = futures_lite::future::poll_once(child.shutdown()).await;
        assert!(abandoned.is_none());
        id
    });
    eventually("the child is gone", || state(id).is_none());
}

/// C3.5: no executor runs when the handle is dropped, nor afterwards.
#[test]
fn a_dropped_child_leaves_neither_process_nor_zombie() {
    let scripts = [
        "echo $$; cat",
        "echo $$; exec sleep 1000",
        "trap '' TERM; echo $$; while :; do sleep 1; done",
        "echo $$; exit 0",
        "sleep 1000 & echo $!; wait",
        "sleep 1000 & echo $!; exit 0",
    ];
    for script in scripts {
        let (child, inner) = run(ready(&sh(script).shutdown(times(100_000, 50))));
        let (id, inner) = (child.process.id(), inner.parse().unwrap());
        drop(child);
        eventually(script, || state(id).is_none() && !runs(inner));
    }
}

/// C3.5
#[test]
fn dropped_child_gets_sigterm_before_sigkill() {
    let scratch = Scratch::new("asked");
    let farewell = scratch.0.join("farewell");
    let script = "trap 'echo bye >&2; : >\"$0\"; exit' TERM; echo ready; while :; do sleep 0.01; done";
    let command = sh(script).arg(&farewell).shutdown(times(0, 10_000));
    let (child, _) = run(ready(&command));
    let id = child.process.id();
    drop(child);
    eventually("the child is gone", || state(id).is_none());
    assert!(farewell.exists());
}

/// C3.5
#[test]
fn kill_ends_the_whole_group() {
    run(async {
        let (mut child, inner) = ready(&sh("sleep 1000 & echo $!; wait")).await;
        child.process.kill();
        child.process.wait().await.unwrap();
        eventually("the group is gone", || !runs(inner.parse().unwrap()));
        assert_eq!(child.shutdown().await.step, ShutdownStep::AlreadyExited);
    });
}

/// C3.5
#[test]
fn default_timeouts_match_their_documentation() {
    assert_eq!(ShutdownTimeouts::default(), times(2000, 2000));
}
