//! Runs the editor with four servers in other processes: three of its host, one of them over HTTP, and one of its client.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

const PEER: &str = env!("CARGO_BIN_EXE_editor_peer");

/// More than any step here needs.
const LIMIT: Duration = Duration::from_secs(60);

struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Program {
    fn start(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { stdin: child.stdin.take(), child, lines }
    }

    /// Waits for a line that `is_expected`.
    fn wait_for(&self, what: &str, is_expected: impl Fn(&str) -> bool) -> String {
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(LIMIT) {
            if is_expected(&line) {
                return line;
            }
            seen.push(line);
        }
        panic!("{what} is missing in {seen:#?}");
    }

    fn wait_for_screen(&self, part: &str) -> String {
        self.wait_for(part, |line| line.contains(part))
    }

    fn press(&mut self, keys: &str) {
        self.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end of the output, and for the exit.
    fn finish(mut self) {
        drop(self.stdin.take());
        while self.lines.recv_timeout(LIMIT).is_ok() {}
        assert_eq!(self.lines.try_recv(), Err(TryRecvError::Disconnected), "the program goes on");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

#[test]
fn editor_with_its_own_executor_uses_a_client_and_a_host_of_three_servers() {
    let http = Program::start(PEER, &["http"]);
    let url = http.wait_for("the URL", |line| line.starts_with("http://"));
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("servers.json");
    let servers = serde_json::json!({ "mcpServers": {
        "one": { "command": PEER, "args": ["one"] },
        "two": { "command": PEER, "args": ["two"] },
        "three": { "url": url },
    } });
    std::fs::write(&file, servers.to_string()).unwrap();
    let mut editor = Program::start(env!("CARGO_BIN_EXE_editor"), &[file.to_str().unwrap(), PEER]);
    editor.wait_for_screen("12 tools");

    // All servers at once, and the client beside them.
    editor.press("S");
    editor.wait_for_screen("| 1 2 3 |");
    editor.press("L");
    editor.wait_for_screen("| 42");

    // The question of a server is shown, and answered either way; the user goes on typing meanwhile.
    for (answer, outcome) in [("y", "| Deleted."), ("n", "| Nothing was deleted.")] {
        editor.press("C");
        editor.wait_for_screen("| one: Delete everything? |");
        editor.press("abc");
        let screen = editor.wait_for("the text", |line| line.split(" |").next().unwrap().ends_with("abc"));
        assert!(screen.contains("Delete everything?"), "{screen}");
        editor.press(answer);
        editor.wait_for_screen(outcome);
    }

    // A call that does not end: timers fire and keys are handled, and Escape cancels it on the wire.
    editor.press("W");
    editor.wait_for_screen("running 3");
    editor.press("d");
    editor.wait_for("the key", |line| line.starts_with("abcabcd ") && line.contains("running"));
    editor.press("\u{1b}");
    editor.wait_for_screen("| cancelled");
    editor.press("N");
    editor.wait_for_screen("| 1 cancelled");

    // A question whose call is cancelled disappears.
    editor.press("C");
    editor.wait_for_screen("Delete everything?");
    editor.press("\u{1b}");
    editor.wait_for("the end of the question", |line| !line.contains("Delete everything?"));

    editor.press("Q");
    editor.finish();
    http.finish();
}
