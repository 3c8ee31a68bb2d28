//! Environment variables that a child process inherits.

use std::ffi::{OsStr, OsString};

/// Variables of this process's environment that a child inherits, before [`Command::env`](crate::Command::env) adds to it.
///
/// A server is a third party's program. Passing on every variable would pass on every exported token and key, and
/// variables meant for another program (`PYTHONHOME`, `NODE_PATH`) could break it. So the default is a list of
/// the variables that programs need to run at all.
///
/// On Unix these are `HOME`, `LANG`, `LANGUAGE`, everything that begins with `LC_`, `LOGNAME`, `PATH`,
/// `SHELL`, `TERM`, `TMPDIR`, `TZ`, `USER`, the base directories `XDG_CACHE_HOME`, `XDG_CONFIG_HOME`,
/// `XDG_DATA_HOME`, `XDG_RUNTIME_DIR` and `XDG_STATE_HOME`, and `__CF_USER_TEXT_ENCODING` of macOS. On
/// Windows they are `APPDATA`, `COMSPEC`, `HOMEDRIVE`, `HOMEPATH`, `LOCALAPPDATA`, `PATH`, `PATHEXT`,
/// `PROCESSOR_ARCHITECTURE`, `PROGRAMDATA`, `PROGRAMFILES`, `PROGRAMFILES(X86)`, `SYSTEMDRIVE`, `SYSTEMROOT`,
/// `TEMP`, `TMP`, `USERDOMAIN`, `USERNAME`, `USERPROFILE` and `WINDIR`. A variable whose value begins with
/// `()` is an exported shell function and is left out.
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
const ESSENTIAL: &[&str] = &[
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "__CF_USER_TEXT_ENCODING",
];

#[cfg(windows)]
const ESSENTIAL: &[&str] = &[
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERDOMAIN",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

impl Environment {
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
