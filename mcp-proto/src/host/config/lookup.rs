//! Lookups of variables, inputs and files, and their answers.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::fmt;

use crate::Secret;

/// A value that an entry needs from outside when its server starts.
///
/// The application answers each from its environment, from its secret store, by asking the user, or by reading a file.
/// Store inputs by server: another server's input of the same id is another value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Lookup {
    /// The environment variable of this name.
    Variable(String),
    /// The input of this id, which the user types or picks.
    Input(String),
    /// A variable that the application defines.
    Predefined(PredefinedVariable),
    /// The whole content of the `.env` file at this path, which is absolute or begins in the project's folder.
    EnvFile(String),
}

impl fmt::Display for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "the environment variable {name}"),
            Self::Input(id) => write!(f, "the input {id}"),
            Self::Predefined(variable) => write!(f, "${{{}}}", variable.as_str()),
            // The path may be made of secrets.
            Self::EnvFile(_) => f.write_str("the file of environment variables"),
        }
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => f.debug_tuple("Variable").field(name).finish(),
            Self::Input(id) => f.debug_tuple("Input").field(id).finish(),
            Self::Predefined(variable) => f.debug_tuple("Predefined").field(variable).finish(),
            Self::EnvFile(_) => f.write_str("EnvFile(..)"),
        }
    }
}

/// A variable that editors define for their configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PredefinedVariable {
    /// `${workspaceFolder}`: the path of the project's folder.
    WorkspaceFolder,
    /// `${workspaceFolderBasename}`: the name of the project's folder.
    WorkspaceFolderBasename,
    /// `${userHome}`: the user's home folder.
    UserHome,
    /// `${cwd}`: the working directory of the application.
    WorkingDirectory,
    /// `${pathSeparator}` or `${/}`: a slash, or a backslash on Windows.
    PathSeparator,
}

impl PredefinedVariable {
    /// The name, as written between the braces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WorkspaceFolder => "workspaceFolder",
            Self::WorkspaceFolderBasename => "workspaceFolderBasename",
            Self::UserHome => "userHome",
            Self::WorkingDirectory => "cwd",
            Self::PathSeparator => "pathSeparator",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        let all = [
            Self::WorkspaceFolder,
            Self::WorkspaceFolderBasename,
            Self::UserHome,
            Self::WorkingDirectory,
            Self::PathSeparator,
        ];
        if name == "/" {
            return Some(Self::PathSeparator);
        }
        all.into_iter().find(|variable| variable.as_str() == name)
    }
}

/// The answers to [`Lookup`]s, for one start of one server: dropped, and wiped from memory, once it is resolved.
///
/// ```
/// use mcp_proto::Secret;
/// use mcp_proto::host::config::{Answers, Lookup};
///
/// let mut answers = Answers::new();
/// answers.insert(Lookup::Variable("TOKEN".into()), Some(Secret::new("s3cret")));
/// // There is no such variable:
/// answers.insert(Lookup::Variable("PORT".into()), None);
/// assert!(!format!("{answers:?}").contains("s3cret"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Answers {
    values: BTreeMap<Lookup, Option<Secret>>,
}

impl Answers {
    /// No answers.
    pub const fn new() -> Self {
        Self { values: BTreeMap::new() }
    }

    /// Answers a lookup; `None` if there is no such value.
    pub fn insert(&mut self, lookup: Lookup, value: Option<Secret>) {
        self.values.insert(lookup, value);
    }

    /// Whether the lookup has been answered, by a value or by its absence.
    pub fn contains(&self, lookup: &Lookup) -> bool {
        self.values.contains_key(lookup)
    }

    /// The value, if there is one.
    pub fn get(&self, lookup: &Lookup) -> Option<&Secret> {
        self.values.get(lookup)?.as_ref()
    }
}
