//! Reading and writing at once, over pipes and sockets, under several executors.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use crate::common::{self, bounded, run, sh};
use futures_lite::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, future};
use mcp_smol::{ChildStream, Command, Io};
use smol::net::unix::UnixStream;
use smol::net::{TcpListener, TcpStream};

/// Sends `bytes` and closes, and reads to the peer's end, in one task.
async fn exchange<R, W>(io: &mut Io<R, W>, bytes: &[u8]) -> io::Result<Vec<u8>>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    io.outgoing().unwrap().extend_from_slice(bytes);
    let (mut received, mut ended) = (Vec::new(), false);
    poll_fn(|cx| {
        let closed = io.poll_close(cx)?;
        while !ended {
            let Poll::Ready(chunk) = io.poll_read(cx)? else { return Poll::Pending };
            ended = chunk.is_empty();
            received.extend_from_slice(&chunk);
        }
        closed.map(io::Result::Ok)
    })
    .await?;
    Ok(received)
}

fn megabytes(count: usize) -> Vec<u8> {
    (0..count * 250_000).flat_map(|n| (n as u32).to_le_bytes()).collect()
}

/// K8
#[test]
fn stream_of_a_child_ends_with_its_exit_and_closing_waits_for_it() {
    run(async {
        let mut stream = ChildStream::spawn(sh("cat; exit 3"), |_| {}).unwrap();
        stream.write_all(b"hello").await.unwrap();
        stream.flush().await.unwrap();
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"hello");
        stream.close().await.unwrap();
        let end = stream.read(&mut answer).await.unwrap_err().to_string();
        assert!(end.contains("exit status: 3"), "{end}");

        let mut dying = ChildStream::spawn(sh("echo why >&2; exit 4"), |_| {}).unwrap();
        let end = dying.read(&mut answer).await.unwrap_err().to_string();
        assert!(end.contains("exit status: 4") && end.contains("why"), "{end}");
        dying.write_all(b"only reading tells").await.unwrap();
        dying.flush().await.unwrap();
    });
}

/// F37
#[test]
fn child_that_answers_while_it_reads_passes_ten_megabytes() {
    run(async {
        let child = Command::new("cat").spawn().unwrap();
        let sent = megabytes(10);
        let received = exchange(&mut Io::new(child.stdout, child.stdin), &sent).await.unwrap();
        assert!(received == sent);
        assert!(child.process.shutdown().await.success());
    });
}

/// F37: the child writes far more than a pipe holds to both streams before it reads.
#[test]
fn a_child_that_floods_before_it_reads_does_not_deadlock() {
    run(async {
        let script = "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; wc -c";
        let child = sh(script).spawn().unwrap();
        let received = exchange(&mut Io::new(child.stdout, child.stdin), &megabytes(3)).await.unwrap();
        let (flood, count) = received.split_at(3_000_000);
        assert!(flood.iter().all(|byte| *byte == 0));
        assert_eq!(std::str::from_utf8(count).unwrap().trim(), "3000000");
    });
}

/// F36
#[test]
fn write_to_an_exited_child_is_a_broken_pipe() {
    run(async {
        let mut child = sh("exit 0").spawn().unwrap();
        child.process.wait().await.unwrap();
        let error = exchange(&mut Io::new(child.stdout, child.stdin), b"hello").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    });
}

async fn talk_to_a_child() {
    let child = sh("cat; echo done >&2").spawn().unwrap();
    let received = exchange(&mut Io::new(child.stdout, child.stdin), b"hello\n").await.unwrap();
    assert_eq!(received, b"hello\n");
    let exit = child.process.shutdown().await;
    assert_eq!((exit.success(), exit.stderr.as_str()), (true, "done\n"));
}

#[test]
fn child_can_be_driven_by_a_block_on_without_io() {
    future::block_on(bounded(talk_to_a_child()));
}

#[test]
fn a_child_can_be_driven_on_a_local_executor() {
    let executor = smol::LocalExecutor::new();
    // Not `Send`, and two run at the same time.
    let here = std::rc::Rc::new(());
    let tasks = [0, 1].map(|_| {
        let here = here.clone();
        executor.spawn(async move {
            common::in_runtime(talk_to_a_child()).await;
            drop(here);
        })
    });
    smol::block_on(executor.run(bounded(async {
        for task in tasks {
            task.await;
        }
    })));
    assert_eq!(std::rc::Rc::strong_count(&here), 1);
}

#[test]
fn a_child_can_be_driven_by_executor_threads() {
    let executor = Arc::new(smol::Executor::new());
    let (stop, stopped) = smol::channel::bounded::<()>(1);
    let threads = [0, 1].map(|_| {
        let (executor, stopped) = (executor.clone(), stopped.clone());
        std::thread::spawn(move || future::block_on(executor.run(async { stopped.recv().await.is_err() })))
    });
    let tasks: Vec<_> = (0..8).map(|_| executor.spawn(common::in_runtime(talk_to_a_child()))).collect();
    future::block_on(bounded(async {
        for task in tasks {
            task.await;
        }
    }));
    drop(stop);
    assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
}

/// C3.8
#[test]
fn a_unix_socket_carries_both_directions() {
    run(async {
        let (near, far) = UnixStream::pair().unwrap();
        let sent = megabytes(2);
        let (ours, theirs) = (&mut Io::over(near), &mut Io::over(far));
        let (received, echoed) = future::zip(exchange(ours, &sent), exchange(theirs, b"hello")).await;
        assert_eq!(received.unwrap(), b"hello");
        assert!(echoed.unwrap() == sent);
    });
}

/// C3.8
#[test]
fn a_tcp_connection_carries_both_directions() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (near, far) =
            future::zip(TcpStream::connect(listener.local_addr().unwrap()), listener.accept()).await;
        let (ours, theirs) = (&mut Io::over(near.unwrap()), &mut Io::over(far.unwrap().0));
        let (received, echoed) = future::zip(exchange(ours, b"ping"), exchange(theirs, b"pong")).await;
        assert_eq!((received.unwrap(), echoed.unwrap()), (b"pong".to_vec(), b"ping".to_vec()));
    });
}
