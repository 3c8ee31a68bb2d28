//! A terminal on which a test types.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::cli::CommandOutput;

/// How long to wait for a program.
const PATIENCE: Duration = Duration::from_secs(20);

/// A program whose standard input and standard error are a terminal.
pub struct TerminalProgram {
    child: Child,
    keyboard: File,
    shown: Arc<Mutex<String>>,
}

impl TerminalProgram {
    pub fn start(command: &mut Command) -> Self {
        Self::start_on(command, None)
    }

    /// With a terminal of this width, and this program's standard output on it as well.
    pub fn start_whole(command: &mut Command, columns: u16) -> Self {
        Self::start_on(command, Some(columns))
    }

    fn start_on(command: &mut Command, columns: Option<u16>) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name: CString = ptsname(&keyboard, Vec::new()).unwrap();
        let name = std::ffi::OsString::from_vec(name.into_bytes());
        let terminal = OpenOptions::new().read(true).write(true).open(name).unwrap();
        command.stdin(terminal.try_clone().unwrap()).stdout(Stdio::piped());
        if let Some(columns) = columns {
            let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
            tcsetwinsize(&keyboard, size).unwrap();
            command.stdout(terminal.try_clone().unwrap());
        }
        command.stderr(terminal);
        let child = command.spawn().unwrap();
        // The terminal ends with the program, once no other process has it open.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let keyboard = File::from(keyboard);
        let (mut screen, shown) = (keyboard.try_clone().unwrap(), Arc::new(Mutex::new(String::new())));
        let record = shown.clone();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut buffer) {
                record.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        });
        Self { child, keyboard, shown }
    }

    /// Waits until the terminal shows this text `count` times, then types.
    pub fn answer(&mut self, question: &str, count: usize, typed: &str) {
        let start = Instant::now();
        while self.shown.lock().unwrap().matches(question).count() < count {
            assert!(start.elapsed() < PATIENCE, "{question:?} is not in {}", self.shown.lock().unwrap());
            thread::sleep(Duration::from_millis(5));
        }
        self.keyboard.write_all(typed.as_bytes()).unwrap();
    }

    /// The modes of the terminal for what is typed.
    pub fn modes(&self) -> LocalModes {
        tcgetattr(&self.keyboard).unwrap().local_modes
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Everything that the terminal has shown.
    pub fn shown(&self) -> String {
        self.shown.lock().unwrap().clone()
    }

    /// Waits for the end, and returns the exit code.
    pub fn exit_code(&mut self) -> i32 {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap();
            }
            assert!(start.elapsed() < PATIENCE, "still not done: {}", self.shown.lock().unwrap());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end; the error output is everything that the terminal has shown.
    pub fn end(mut self) -> CommandOutput {
        let code = self.exit_code();
        let mut out = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_string(&mut out).unwrap();
        }
        let err = self.shown.lock().unwrap().clone();
        CommandOutput { code, out, err }
    }
}

impl Drop for TerminalProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
