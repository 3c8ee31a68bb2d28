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

/// Whether this environment variable makes a program, or the programs that it starts, load other code or commands.
/// Systems differ in the case of names, so upper and lower case are equal here.
///
/// ```
/// use mcp_proto::consent::is_loader_variable;
///
/// assert!(is_loader_variable("LD_PRELOAD") && is_loader_variable("node_options"));
/// assert!(!is_loader_variable("API_KEY"));
/// ```
pub fn is_loader_variable(name: &str) -> bool {
    const NAMES: [&str; 25] = [
        "BASH_ENV",
        "CLASSPATH",
        "COR_PROFILER",
        "CORECLR_PROFILER",
        "DOTNET_STARTUP_HOOKS",
        "ENV",
        "GEM_PATH",
        "GIT_EXEC_PATH",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "JAVA_TOOL_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "NODE_OPTIONS",
        "NODE_PATH",
        "PATH",
        "PERL5LIB",
        "PERL5OPT",
        "PROMPT_COMMAND",
        "PYTHONHOME",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "RUBYLIB",
        "RUBYOPT",
        "SHELLOPTS",
        "_JAVA_OPTIONS",
    ];
    const PREFIXES: [&str; 7] = ["DYLD_", "GIT_CONFIG", "LD_", "NPM_CONFIG_", "PIP_", "UV_", "BUN_CONFIG_"];
    let name = name.to_ascii_uppercase();
    NAMES.contains(&name.as_str()) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
