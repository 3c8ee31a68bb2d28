//! Environment variables that do not decide which code a program runs.

/// Whether a value of this environment variable can do no harm: the variable sets a language, a time zone, a terminal, a
/// level of logging, or a similar choice of the program itself.
///
/// All others may load code, redirect connections or choose files, in a way that depends on the program, so the user
/// must see their values. Names are compared as they are written.
///
/// ```
/// use mcp_proto::consent::is_harmless_variable;
///
/// assert!(is_harmless_variable("LOG_LEVEL") && is_harmless_variable("LC_ALL"));
/// assert!(!is_harmless_variable("NODE_OPTIONS") && !is_harmless_variable("PATH"));
/// ```
pub fn is_harmless_variable(name: &str) -> bool {
    const NAMES: [&str; 19] = [
        "CI",
        "CLICOLOR",
        "COLORTERM",
        "COLUMNS",
        "DEBUG",
        "FORCE_COLOR",
        "LANG",
        "LANGUAGE",
        "LINES",
        "LOGLEVEL",
        "LOG_LEVEL",
        "NODE_ENV",
        "NO_COLOR",
        "PORT",
        "PYTHONUNBUFFERED",
        "RUST_BACKTRACE",
        "RUST_LOG",
        "TERM",
        "TZ",
    ];
    name.starts_with("LC_") || NAMES.contains(&name)
}
