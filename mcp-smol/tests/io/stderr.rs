//! Standard error: drained whether or not a task polls, its end buffered, readable line by line.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use crate::common::{self, eventually, line, run, runs, sh, state};
use futures_lite::StreamExt as _;
use smol::Timer;

/// K8, C3.3
#[test]
fn stderr_tail_stays_within_its_limit() {
    run(async {
        let mut child = sh("seq 100000 >&2; exit 3").stderr_bytes(1000).spawn().unwrap();
        assert_eq!(child.process.wait().await.unwrap().code(), Some(3));
        let tail = child.process.stderr().tail();
        assert!(tail.len() <= 1000 && tail.len() > 990, "{}", tail.len());
        assert!(tail.ends_with("\n99999\n100000\n"), "{tail}");
        assert!(tail.lines().all(|line| line.len() >= 5), "{tail}");
    });
}

/// K8, F30: the report holds the last output although no task has polled for it.
#[test]
fn exit_report_quotes_standard_error() {
    run(async {
        let mut child = sh("echo 'no module named mcp' >&2; exit 1").spawn().unwrap();
        child.process.wait().await.unwrap();
        let exit = child.shutdown().await;
        assert_eq!(exit.stderr, "no module named mcp\n");
        assert_eq!(
            exit.to_string(),
            "the program ended (exit status: 1) by itself; its standard error ended with:\nno module named mcp"
        );
    });
}

/// K8: no task polls here, and no executor runs.
#[test]
fn child_that_floods_standard_error_continues_without_a_poll() {
    let scratch = common::Scratch::new("flood");
    let done = scratch.0.join("done");
    let _entered = common::enter();
    let child = sh("head -c 10000000 /dev/zero >&2; : > \"$0\"").arg(&done).spawn().unwrap();
    eventually("the flood is over", || done.exists());
    drop(child);
}

/// K8: the thread that waits for I/O is blocked here, as by a slow waker.
#[test]
fn tail_is_current_even_before_the_pipe_is_drained() {
    struct BlockingWaker(Barrier, Barrier);

    impl Wake for BlockingWaker {
        fn wake(self: Arc<Self>) {
            self.0.wait();
            self.1.wait();
        }
    }

    let _entered = common::enter();
    let child = sh("read go; echo last words >&2").spawn().unwrap();
    let hold_up = Arc::new(BlockingWaker(Barrier::new(2), Barrier::new(2)));
    let mut timer = Timer::after(Duration::ZERO);
    while Pin::new(&mut timer).poll(&mut Context::from_waker(&Waker::from(hold_up.clone()))).is_ready() {
        timer.set_after(Duration::from_millis(1));
    }
    hold_up.0.wait();
    drop(child.stdin);
    eventually("the child has exited", || state(child.process.id()) == Some('Z'));
    let tail = child.process.stderr().tail();
    hold_up.1.wait();
    assert_eq!(tail, "last words\n");
}

/// K8
#[test]
fn lines_arrive_while_the_child_runs() {
    run(async {
        let child = sh("echo one >&2; read go; echo two >&2; printf three >&2").spawn().unwrap();
        let mut lines = child.process.stderr().lines();
        assert_eq!(lines.next().await.unwrap().text, "one");
        drop(child.stdin);
        assert_eq!(lines.next().await.unwrap().text, "two");
        assert_eq!(lines.next().await.unwrap().text, "three");
        assert_eq!(lines.next().await, None);
    });
}

/// K8
#[test]
fn two_readers_see_the_same_lines() {
    run(async {
        let child = sh("read go; seq 100 >&2").spawn().unwrap();
        let stderr = child.process.stderr();
        let reader = |lines: mcp_smol::StderrLines| lines.map(|line| line.text).collect::<Vec<_>>();
        let both = futures_lite::future::zip(reader(stderr.lines()), reader(stderr.lines()));
        drop(child.stdin);
        let (first, second) = both.await;
        assert_eq!(first.len(), 100);
        assert_eq!(first, second);
    });
}

/// K8
#[test]
fn slow_reader_learns_how_many_bytes_it_lost() {
    run(async {
        let mut child = sh("read go; seq 1000 >&2").stderr_bytes(100).spawn().unwrap();
        let mut lines = child.process.stderr().lines();
        drop(child.stdin);
        child.process.wait().await.unwrap();
        assert!(!child.process.stderr().tail().is_empty());
        let first = lines.next().await.unwrap();
        let rest: Vec<_> = lines.collect().await;
        let kept = first.text.len() + 1 + rest.iter().map(|line| line.text.len() + 1).sum::<usize>();
        assert_eq!(kept, 100);
        assert_eq!(first.lost, 3893 - 100);
        assert_eq!(rest.last().unwrap().text, "1000");
        assert!(rest.iter().all(|line| line.lost == 0));
    });
}

/// K8: the handle alone keeps neither process nor pipe open.
#[test]
fn standard_error_outlives_the_child() {
    let stderr = run(async {
        let mut child = sh("echo last words >&2; echo ready; cat").spawn().unwrap();
        line(&mut child.stdout).await;
        let id = child.process.id();
        let stderr = child.process.stderr();
        child.shutdown().await;
        assert!(!runs(id));
        stderr
    });
    assert_eq!(stderr.tail(), "last words\n");
}
