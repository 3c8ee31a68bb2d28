//! Which variables of this process a child gets to see.

use std::ffi::{OsStr, OsString};

/// What a child inherits of this process's environment, before [`Command::env`](crate::Command::env) adds to
/// it.
///
/// A server is somebody else's program. Handing it every variable hands it every token and key that happens
/// to be exported, and lets variables meant for another program (`PYTHONHOME`, `NODE_PATH`) break it. So the
/// default is a list of what programs need in order to run at all.
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
    Allowed,
    /// Everything this process has.
    Whole,
    /// Nothing at all; not even `PATH`, unless it is added.
    Nothing,
}

#[cfg(not(windows))]
const ALLOWED: &[&str] = &[
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
const ALLOWED: &[&str] = &[
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
    /// The part of `variables` that a child inherits.
    pub(crate) fn select(
        self,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> impl Iterator<Item = (OsString, OsString)> {
        variables.filter(move |(name, value)| match self {
            Environment::Allowed => is_allowed(name) && !value.as_encoded_bytes().starts_with(b"()"),
            Environment::Whole => true,
            Environment::Nothing => false,
        })
    }
}

fn is_allowed(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    if cfg!(windows) {
        // Names are case-insensitive there: it is usually spelt `Path`.
        ALLOWED.iter().any(|allowed| name.eq_ignore_ascii_case(allowed))
    } else {
        ALLOWED.contains(&name) || name.starts_with("LC_")
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
    fn only_listed_variables_are_inherited_and_no_shell_functions() {
        assert_eq!(names(Environment::Allowed), ["PATH", "LC_ALL"]);
    }

    /// K10
    #[test]
    fn the_whole_environment_is_one_word_away() {
        assert_eq!(names(Environment::Whole).len(), 7);
        assert_eq!(names(Environment::Nothing).len(), 0);
    }
}
