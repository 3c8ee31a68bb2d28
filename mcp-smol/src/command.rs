//! Description and start of a child process.

mod preview;
mod spawn_error;

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};

use crate::child::{Child, ChildStdin, ChildStdout, Process};
use crate::reactor::RuntimeKind;
use crate::stderr::Stderr;
use crate::tree::{ProcessTree, ShutdownTimeouts};

pub use preview::{CommandPreview, Risk};
pub use spawn_error::{SpawnError, SpawnErrorKind};

/// Command line of a child with pipes to its standard streams; reads like [`std::process::Command`].
///
/// It can be spawned any number of times.
///
/// ```
/// use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _, future};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # #[cfg(unix)]
/// future::block_on(async {
///     let mut child = mcp_smol::Command::new("cat").arg("-u").env("LANG", "C").spawn()?;
///     child.stdin.write_all(b"hello\n").await?;
///     let mut echo = [0; 6];
///     child.stdout.read_exact(&mut echo).await?;
///     assert_eq!(&echo, b"hello\n");
///
///     let exit = child.shutdown().await;
///     assert!(exit.success());
///     # Ok::<_, Box<dyn std::error::Error>>(())
/// })
/// # ?; Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "nothing runs until `spawn` is called"]
pub struct Command {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    environment: Environment,
    directory: Option<PathBuf>,
    shutdown: ShutdownTimeouts,
    stderr_bytes: usize,
}

impl Command {
    /// A command for `program`: a path, or a name to look up in the child's `PATH`.
    ///
    /// On Windows the name is looked up with the extensions of `PATHEXT`, so that `npx` finds `npx.cmd`; std runs
    /// batch files through `cmd.exe` and escapes their arguments.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            environment: Environment::default(),
            directory: None,
            shutdown: ShutdownTimeouts::default(),
            stderr_bytes: 64 * 1024,
        }
    }

    setters! {
        /// Adds an argument. It is passed as it is: no shell interprets it.
        pub fn arg(self, arg: impl AsRef<OsStr>) { self.args.push(arg.as_ref().to_owned()) }
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    setters! {
        /// Sets a variable in addition to those that [`environment`](Self::environment) passes on.
        pub fn env(self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) {
            self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()))
        }
    }

    /// Sets variables in addition to those that [`environment`](Self::environment) passes on.
    pub fn envs<N: AsRef<OsStr>, V: AsRef<OsStr>>(self, variables: impl IntoIterator<Item = (N, V)>) -> Self {
        variables.into_iter().fold(self, |command, (name, value)| command.env(name, value))
    }

    setters! {
        /// Which variables the child inherits from this process. Default: [`Environment::Essential`].
        pub fn environment(self, environment: Environment) { self.environment = environment }

        /// Working directory of the child. Default: that of this process.
        pub fn current_dir(self, directory: impl AsRef<Path>) {
            self.directory = Some(directory.as_ref().to_owned())
        }

        /// Time limits of the steps of [`Process::shutdown`].
        pub fn shutdown(self, times: ShutdownTimeouts) { self.shutdown = times }

        /// How many bytes of standard error to keep. Default 64 KiB: a long stack trace with the lines that led to it.
        /// Memory is allocated as it fills.
        pub fn stderr_bytes(self, bytes: usize) { self.stderr_bytes = bytes }
    }

    //= F25 "A program is started with arguments, variables and a directory"
    /// Starts the program, at the head of a process group (on Windows: in a job object) of its own.
    ///
    /// So an interrupt typed at the terminal reaches this process only. The child reads the end of its input when
    /// this process ends, however it ends.
    ///
    /// # Errors
    ///
    /// [`SpawnError`] says which program was looked for, where, and why it could not be started.
    pub fn spawn(&self) -> Result<Child, SpawnError> {
        self.spawn_on(RuntimeKind::default())
    }

    pub(crate) fn spawn_on(&self, runtime: RuntimeKind) -> Result<Child, SpawnError> {
        let environment: Vec<_> =
            self.environment.select(env::vars_os()).chain(self.env.iter().cloned()).collect();
        self.try_spawn(&environment, runtime)
            .map_err(|error| SpawnError::explain(self, search_path(&environment), error))
    }

    fn try_spawn(&self, environment: &[(OsString, OsString)], runtime: RuntimeKind) -> io::Result<Child> {
        runtime.start()?;
        let mut command = process::Command::new(self.resolved_program(environment));
        command.args(&self.args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        ProcessTree::prepare(&mut command);

        let mut child = command.spawn()?;
        let adopted = adopt(&mut child, self.stderr_bytes, runtime);
        let mut tree = ProcessTree::new(child, runtime);
        match adopted {
            Ok((stdin, stdout, stderr)) => {
                Ok(Child { stdin, stdout, process: Process::new(tree, stderr, self.shutdown) })
            }
            Err(error) => {
                tree.kill();
                tree.reap_blocking();
                Err(error)
            }
        }
    }

    #[cfg(not(windows))]
    fn resolved_program(&self, _: &[(OsString, OsString)]) -> OsString {
        self.program.clone()
    }

    /// Returns the name unchanged if it cannot be found, so that the system reports its own error.
    #[cfg(windows)]
    fn resolved_program(&self, environment: &[(OsString, OsString)]) -> OsString {
        let directory = self.directory.clone().or_else(|| env::current_dir().ok()).unwrap_or_default();
        //= F32 "`.cmd` and `.bat` are found and run"
        which::which_in(&self.program, search_path(environment), directory)
            .map_or_else(|_| self.program.clone(), PathBuf::into_os_string)
    }
}

fn adopt(
    child: &mut process::Child,
    stderr_bytes: usize,
    runtime: RuntimeKind,
) -> io::Result<(ChildStdin, ChildStdout, Stderr)> {
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(io::Error::other("the child has no pipes"));
    };
    Ok((
        ChildStdin::new(runtime, stdin)?,
        ChildStdout::new(runtime, stdout)?,
        Stderr::new(runtime, stderr, stderr_bytes)?,
    ))
}

/// The child's `PATH`.
fn search_path(environment: &[(OsString, OsString)]) -> Option<&OsStr> {
    let is_path =
        |name: &OsStr| if cfg!(windows) { name.eq_ignore_ascii_case("PATH") } else { name == "PATH" };
    environment.iter().rev().find(|(name, _)| is_path(name)).map(|(_, value)| value.as_os_str())
}

// Omits what may be a secret of a configuration: the arguments, the values of variables and the directory.
debug_fields! { Command(self) {
    program,
    args = self.args.len(),
    env = self.env.iter().map(|(name, _)| name).collect::<Vec<_>>(),
    environment,
    shutdown,
    stderr_bytes,
} }

//= K10 "The environment is an allow list by default, and the whole by choice"
/// Variables of this process's environment that a child inherits, before [`Command::env`](crate::Command::env) adds to
/// it.
///
/// A server is a third party's program. Passing on every variable would pass on every exported token and key, and
/// variables meant for another program (`PYTHONHOME`, `NODE_PATH`) could break it. So the default is a list of the
/// variables that programs need to run at all.
///
/// On Unix these are `HOME`, `LANG`, `LANGUAGE`, everything that begins with `LC_`, `LOGNAME`, `PATH`, `SHELL`, `TERM`,
/// `TMPDIR`, `TZ`, `USER`, the base directories `XDG_CACHE_HOME`, `XDG_CONFIG_HOME`, `XDG_DATA_HOME`, `XDG_RUNTIME_DIR`
/// and `XDG_STATE_HOME`, and `__CF_USER_TEXT_ENCODING` of macOS. On Windows they are `APPDATA`, `COMSPEC`, `HOMEDRIVE`,
/// `HOMEPATH`, `LOCALAPPDATA`, `PATH`, `PATHEXT`, `PROCESSOR_ARCHITECTURE`, `PROGRAMDATA`, `PROGRAMFILES`,
/// `PROGRAMFILES(X86)`, `SYSTEMDRIVE`, `SYSTEMROOT`, `TEMP`, `TMP`, `USERDOMAIN`, `USERNAME`, `USERPROFILE` and
/// `WINDIR`. A variable whose value begins with `()` is an exported shell function and is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Environment {
    /// The variables listed above.
    #[default]
    Essential,
    /// Every variable of this process.
    Inherited,
    /// No variable at all; not even `PATH`, unless added.
    Empty,
}

#[cfg(not(windows))]
#[rustfmt::skip]
const ESSENTIAL: &[&str] = &[
    "HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER", "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "__CF_USER_TEXT_ENCODING",
];

#[cfg(windows)]
#[rustfmt::skip]
const ESSENTIAL: &[&str] = &[
    "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERDOMAIN",
    "USERNAME", "USERPROFILE", "WINDIR",
];

impl Environment {
    //= F31 "The child inherits only listed variables"
    /// Selects the variables that a child inherits.
    pub(crate) fn select(
        self,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> impl Iterator<Item = (OsString, OsString)> {
        variables.filter(move |(name, value)| match self {
            Environment::Essential => is_essential(name) && !value.as_encoded_bytes().starts_with(b"()"),
            Environment::Inherited => true,
            Environment::Empty => false,
        })
    }
}

fn is_essential(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    if cfg!(windows) {
        // Windows variable names are case-insensitive: `PATH` is usually spelt `Path`.
        ESSENTIAL.iter().any(|essential| name.eq_ignore_ascii_case(essential))
    } else {
        ESSENTIAL.contains(&name) || name.starts_with("LC_")
    }
}

#[cfg(all(test, not(windows)))]
mod tests {
    use super::*;

    fn names(environment: Environment) -> Vec<OsString> {
        let variables = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("HOME", "() { :; }; echo pwned"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("PYTHONHOME", "/opt"),
            ("NODE_PATH", "/opt"),
            ("path", "/bin"),
        ];
        let variables = variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        environment.select(variables.into_iter()).map(|(name, _)| name).collect()
    }

    /// K10, F31
    #[test]
    fn child_inherits_only_listed_variables_and_no_shell_functions() {
        assert_eq!(names(Environment::Essential), ["PATH", "LC_ALL"]);
    }

    /// K10
    #[test]
    fn child_can_inherit_every_variable_or_none() {
        assert_eq!(names(Environment::Inherited).len(), 7);
        assert_eq!(names(Environment::Empty).len(), 0);
    }
}
