//! Own standard streams, which a test under the usual harness does not have: this program is its own server.
//!
//! Started without arguments of ours it is the client and runs every test; with a role it is a server.

#[cfg(not(unix))]
fn main() {}

#[cfg(unix)]
fn main() {
    unix::main();
}

#[cfg(unix)]
mod common;

#[cfg(unix)]
mod unix {
    use std::env;
    use std::fs::{self, File};
    use std::future::poll_fn;
    use std::io::{self, Read as _, Seek as _, Write as _};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};
    use std::task::Poll;

    use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _};
    use mcp_smol::Io;

    use crate::common::{Scratch, line, run};

    const ROLE: &str = "MCP_SMOL_TEST_ROLE";

    pub(crate) fn main() {
        match env::var(ROLE).as_deref() {
            Ok("echo") => run(echo(mcp_smol::stdio().unwrap())),
            Ok("echo shared") => run(echo(mcp_smol::stdio_shared().unwrap())),
            Ok("noisy") => noisy(),
            Ok("close") => close(),
            Ok("twice") => twice(),
            Ok("flags") => flags(),
            Ok(role) => panic!("no such role: {role}"),
            Err(_) => {
                let tests: [(&str, fn()); 8] = [
                    ("pipes_carry_megabytes_both_ways", pipes_carry_megabytes_both_ways),
                    ("sockets_carry_megabytes_both_ways", sockets_carry_megabytes_both_ways),
                    ("files_can_be_read_and_written", files_can_be_read_and_written),
                    ("streams_can_be_shared", streams_can_be_shared),
                    ("nothing_else_reaches_standard_output", nothing_else_reaches_standard_output),
                    ("closing_is_seen_by_the_client", closing_is_seen_by_the_client),
                    ("the_streams_can_be_taken_once", the_streams_can_be_taken_once),
                    (
                        "polling_leaves_the_flags_of_the_descriptors_alone",
                        polling_leaves_the_flags_of_the_descriptors_alone,
                    ),
                ];
                for (name, test) in tests {
                    test();
                    println!("test {name} ... ok");
                }
            }
        }
    }

    // The server's roles.

    async fn echo((stdin, stdout): (mcp_smol::Stdin, mcp_smol::Stdout)) {
        let mut io = Io::new(stdin, stdout);
        let mut ended = false;
        poll_fn(|cx| -> Poll<io::Result<()>> {
            loop {
                std::task::ready!(io.poll_write(cx))?;
                if ended {
                    return Poll::Ready(Ok(()));
                }
                let chunk = std::task::ready!(io.poll_read(cx))?;
                ended = chunk.is_empty();
                io.outgoing().unwrap().extend_from_slice(&chunk);
            }
        })
        .await
        .unwrap();
    }

    fn noisy() {
        run(async {
            let (mut stdin, mut stdout) = mcp_smol::stdio().unwrap();
            println!("noise of ours");
            assert!(
                Command::new("sh").args(["-c", "cat; echo noise of a child"]).status().unwrap().success()
            );
            let request = line(&mut stdin).await;
            stdout.write_all(format!("answer to {request}\n").as_bytes()).await.unwrap();
            stdout.flush().await.unwrap();
        });
    }

    fn close() {
        run(async {
            let (mut stdin, mut stdout) = mcp_smol::stdio().unwrap();
            stdout.write_all(b"bye").await.unwrap();
            stdout.close().await.unwrap();
            assert_eq!(stdout.write(b"more").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
            // Only the client's answer to the end of our output ends this.
            assert_eq!(stdin.read(&mut [0]).await.unwrap(), 0);
        });
    }

    fn twice() {
        let taken = mcp_smol::stdio().unwrap();
        assert_eq!(mcp_smol::stdio().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        drop(taken);
        assert_eq!(mcp_smol::stdio_shared().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    fn flags() {
        run(async {
            let streams = mcp_smol::stdio_shared().unwrap();
            for fd in [rustix::stdio::stdin(), rustix::stdio::stdout()] {
                let flags = rustix::fs::fcntl_getfl(fd).unwrap();
                assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
            }
            echo(streams).await;
            if cfg!(target_os = "linux") {
                let names = fs::read_dir("/proc/self/task").unwrap().flatten();
                let names = names.map(|thread| fs::read_to_string(thread.path().join("comm")).unwrap());
                assert!(!names.into_iter().any(|name| name.starts_with("blocking")), "they are polled");
            }
        });
    }

    // The client's tests.

    fn server(role: &str) -> Command {
        let mut command = Command::new(env::current_exe().unwrap());
        command.env(ROLE, role);
        command
    }

    fn megabytes(count: usize) -> Vec<u8> {
        (0..count * 250_000).flat_map(|n| (n as u32).to_le_bytes()).collect()
    }

    fn exchange(
        mut to: impl io::Write + Send,
        mut from: impl io::Read,
        sent: &[u8],
        end: impl FnOnce() + Send,
    ) {
        let received = std::thread::scope(|scope| {
            scope.spawn(|| {
                to.write_all(sent).unwrap();
                drop(to);
                end();
            });
            let mut received = Vec::new();
            from.read_to_end(&mut received).unwrap();
            received
        });
        assert!(received == sent, "{} of {} bytes came back", received.len(), sent.len());
    }

    /// C3.1, S2.4
    fn pipes_carry_megabytes_both_ways() {
        let mut child = server("echo").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        exchange(child.stdin.take().unwrap(), child.stdout.take().unwrap(), &megabytes(5), || ());
        assert!(child.wait().unwrap().success());
    }

    /// C3.1: what Node connects its children by.
    fn sockets_carry_megabytes_both_ways() {
        for role in ["echo", "flags"] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let theirs =
                [theirs.try_clone().unwrap(), theirs].map(|stream| Stdio::from(OwnedFd::from(stream)));
            let [stdin, stdout] = theirs;
            let mut child = server(role).stdin(stdin).stdout(stdout).spawn().unwrap();
            let writer = ours.try_clone().unwrap();
            let end = || ours.shutdown(std::net::Shutdown::Write).unwrap();
            exchange(writer, &ours, &megabytes(2), end);
            assert!(child.wait().unwrap().success());
        }
    }

    /// S2.4: epoll refuses both.
    fn files_can_be_read_and_written() {
        let scratch = Scratch::new("own-stdio");
        let input = scratch.file("in", &"request\n".repeat(100_000), 0o644);
        let mut output = File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(scratch.0.join("out"))
            .unwrap();
        output.write_all(b"before\n").unwrap();
        let status =
            server("echo").stdin(File::open(input).unwrap()).stdout(output.try_clone().unwrap()).status();
        assert!(status.unwrap().success());
        let mut text = String::new();
        output.rewind().unwrap();
        output.read_to_string(&mut text).unwrap();
        assert!(text == format!("before\n{}", "request\n".repeat(100_000)), "{} bytes", text.len());

        assert!(server("echo").stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap().success());
    }

    /// C3.1
    fn streams_can_be_shared() {
        let mut child = server("echo shared").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        exchange(child.stdin.take().unwrap(), child.stdout.take().unwrap(), &megabytes(1), || ());
        assert!(child.wait().unwrap().success());
    }

    /// S2.1: neither what is printed nor what a child of ours prints; and it does not swallow the request.
    fn nothing_else_reaches_standard_output() {
        let mut child = server("noisy")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"request\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "answer to request\n");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "noise of ours\nnoise of a child\n");
    }

    /// S2.5
    fn closing_is_seen_by_the_client() {
        let mut child = server("close").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "bye");
        assert!(child.try_wait().unwrap().is_none());
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }

    /// S2.1
    fn the_streams_can_be_taken_once() {
        assert!(server("twice").stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap().success());
    }

    /// S2.1: they are not ours alone.
    fn polling_leaves_the_flags_of_the_descriptors_alone() {
        let mut child = server("flags").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        exchange(child.stdin.take().unwrap(), child.stdout.take().unwrap(), &megabytes(1), || ());
        assert!(child.wait().unwrap().success());
    }
}
