//! Error of starting a program, with the reason that it could not be started.

use std::env;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::Command;

/// Error of starting a program: which command was tried, and why it failed.
///
/// `Display` has the arguments, `Debug` and [`without_arguments`](Self::without_arguments) have none, as they may be
/// secret.
pub struct SpawnError(Box<SpawnAttempt>);

struct SpawnAttempt {
    program: OsString,
    args: Vec<OsString>,
    directory: Option<PathBuf>,
    kind: SpawnErrorKind,
    error: io::Error,
}

/// Why a program could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnErrorKind {
    /// No directory of the child's `PATH` has an executable file of that name.
    NotInPath {
        /// The directories searched, in order; none if the child has no `PATH`.
        searched: Vec<PathBuf>,
        /// Files of that name that were skipped because they are not executable.
        not_executable: Vec<PathBuf>,
    },
    /// The file does not exist.
    NoSuchFile(PathBuf),
    /// The file is not executable, or is a directory.
    NotExecutable(PathBuf),
    /// The script exists, but the interpreter that its first line names does not.
    NoInterpreter {
        /// The script.
        script: PathBuf,
        /// The interpreter.
        interpreter: String,
    },
    /// The working directory does not exist or is not a directory.
    NoSuchDirectory(PathBuf),
    /// Another system error; see [`SpawnError::io_error`].
    System,
}

impl SpawnError {
    /// Finds the reason. The system's error alone says neither which file was missing nor where it was looked for.
    pub(super) fn explain(command: &Command, path: Option<&OsStr>, error: io::Error) -> Self {
        let Command { program, args, directory, .. } = command.clone();
        let kind = match &directory {
            Some(directory) if !directory.is_dir() => SpawnErrorKind::NoSuchDirectory(directory.clone()),
            _ if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
                SpawnErrorKind::System
            }
            _ if Path::new(&program).components().count() > 1 => {
                // The child changes directory before it looks the program up.
                diagnose_file(directory.as_deref().unwrap_or(Path::new("")).join(&program))
            }
            _ => diagnose_search(&program, path),
        };
        Self(Box::new(SpawnAttempt { program, args, directory, kind, error }))
    }

    /// Why the program could not be started.
    #[must_use]
    pub fn kind(&self) -> &SpawnErrorKind {
        &self.0.kind
    }

    /// The message without the arguments, which may be secret.
    pub fn without_arguments(&self) -> impl fmt::Display {
        fmt::from_fn(|f| self.write(f, &[]))
    }

    /// The system's error.
    #[must_use]
    pub fn io_error(&self) -> &io::Error {
        &self.0.error
    }
}

/// Finds the reason that a file was not executed.
fn diagnose_file(file: PathBuf) -> SpawnErrorKind {
    match fs::metadata(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => SpawnErrorKind::NoSuchFile(file),
        Err(_) => SpawnErrorKind::System,
        Ok(metadata) if !metadata.is_file() || !may_execute(&file) => SpawnErrorKind::NotExecutable(file),
        Ok(_) => match interpreter(&file) {
            Some(interpreter) if !Path::new(&interpreter).exists() => {
                SpawnErrorKind::NoInterpreter { script: file, interpreter }
            }
            _ => SpawnErrorKind::System,
        },
    }
}

fn diagnose_search(program: &OsStr, path: Option<&OsStr>) -> SpawnErrorKind {
    let searched: Vec<PathBuf> = path.map(|path| env::split_paths(path).collect()).unwrap_or_default();
    let mut not_executable = Vec::new();
    for file in searched.iter().map(|directory| directory.join(program)).filter(|file| file.is_file()) {
        match diagnose_file(file) {
            SpawnErrorKind::NotExecutable(file) => not_executable.push(file),
            reason => return reason,
        }
    }
    SpawnErrorKind::NotInPath { searched, not_executable }
}

#[cfg(unix)]
fn may_execute(file: &Path) -> bool {
    rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn may_execute(_: &Path) -> bool {
    true
}

/// The interpreter that a script's first line names.
fn interpreter(script: &Path) -> Option<String> {
    let mut start = Vec::new();
    fs::File::open(script).ok()?.take(256).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(std::str::from_utf8(line).ok()?.split_ascii_whitespace().next()?.to_owned())
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &self.0.args)
    }
}

impl SpawnError {
    fn write(&self, f: &mut fmt::Formatter<'_>, args: &[OsString]) -> fmt::Result {
        let SpawnAttempt { program, directory, kind, error, .. } = &*self.0;
        write!(f, "could not start `{}", program.display())?;
        for arg in args {
            write!(f, " {}", arg.display())?;
        }
        f.write_str("`")?;
        if let Some(directory) = directory {
            write!(f, " in {}", directory.display())?;
        }
        f.write_str(": ")?;
        match kind {
            SpawnErrorKind::NotInPath { searched, not_executable } => {
                match not_executable.as_slice() {
                    [] => write!(f, "no program of that name in ")?,
                    [file, ..] => write!(
                        f,
                        "{} is not executable, and no other program of that name is in ",
                        file.display()
                    )?,
                }
                match searched.as_slice() {
                    [] => f.write_str("PATH, because the child has no PATH: set it with `Command::env`"),
                    [first, rest @ ..] => {
                        write!(f, "PATH ({}", first.display())?;
                        rest.iter().try_for_each(|directory| write!(f, ", {}", directory.display()))?;
                        f.write_str("); is it installed?")
                    }
                }
            }
            SpawnErrorKind::NoSuchFile(file) => write!(f, "no such file: {}", file.display()),
            SpawnErrorKind::NotExecutable(file) => write!(f, "{} is not an executable file", file.display()),
            SpawnErrorKind::NoInterpreter { script, interpreter } => {
                write!(f, "{} needs the interpreter {interpreter}, which does not exist", script.display())
            }
            SpawnErrorKind::NoSuchDirectory(directory) => {
                write!(f, "{} is not a directory", directory.display())
            }
            SpawnErrorKind::System => write!(f, "{error}"),
        }
    }
}

impl fmt::Debug for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SpawnError").field(&format_args!("{}", self.without_arguments())).finish()
    }
}

impl Error for SpawnError {
    /// `None` if the message includes it.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self.0.kind {
            SpawnErrorKind::System => None,
            _ => Some(&self.0.error),
        }
    }
}
