//! Environment variables by what they can do to the program that gets them.

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
/// assert!(!is_harmless_variable("NODE_OPTIONS") && !is_harmless_variable("SEARCH_URL"));
/// ```
pub fn is_harmless_variable(name: &str) -> bool {
    const NAMES: [&str; 22] = [
        "CI",
        "CLICOLOR",
        "COLORTERM",
        "COLUMNS",
        "DO_NOT_TRACK",
        "FORCE_COLOR",
        "LANG",
        "LANGUAGE",
        "LINES",
        "LOGLEVEL",
        "LOG_LEVEL",
        "NODE_ENV",
        "NO_COLOR",
        "PORT",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONIOENCODING",
        "PYTHONUNBUFFERED",
        "PYTHONUTF8",
        "RUST_BACKTRACE",
        "RUST_LOG",
        "TERM",
        "TZ",
    ];
    let is_level = name.ends_with("_LOG_LEVEL") && !is_loader_variable(name);
    is_level || name.starts_with("LC_") || NAMES.contains(&name)
}

/// Whether this environment variable is known to make a program, or the programs that it starts, load other code, run
/// other commands or connect elsewhere. The list is not complete: what is not
/// [harmless](is_harmless_variable) may do so too. Systems differ in the case of names, so upper and lower case are
/// equal here.
///
/// ```
/// use mcp_proto::consent::is_loader_variable;
///
/// assert!(is_loader_variable("LD_PRELOAD") && is_loader_variable("node_options"));
/// assert!(!is_loader_variable("API_KEY"));
/// ```
pub fn is_loader_variable(name: &str) -> bool {
    const NAMES: [&str; 55] = [
        "ALL_PROXY",
        "APPDATA",
        "BASH_ENV",
        "CLASSPATH",
        "COMSPEC",
        "CORECLR_PROFILER",
        "COR_PROFILER",
        "DENO_DIR",
        "DOCKER_CONFIG",
        "DOCKER_HOST",
        "DOTNET_STARTUP_HOOKS",
        "EDITOR",
        "ELECTRON_RUN_AS_NODE",
        "ENV",
        "GCONV_PATH",
        "GEM_HOME",
        "GEM_PATH",
        "HOME",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "IFS",
        "JAVA_HOME",
        "JAVA_TOOL_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "LESSOPEN",
        "LOCALAPPDATA",
        "LUA_CPATH",
        "LUA_INIT",
        "LUA_PATH",
        "NODE_EXTRA_CA_CERTS",
        "NODE_OPTIONS",
        "NODE_PATH",
        "NODE_TLS_REJECT_UNAUTHORIZED",
        "OPENSSL_CONF",
        "PAGER",
        "PATH",
        "PATHEXT",
        "PERL5DB",
        "PERL5LIB",
        "PERL5OPT",
        "PERLLIB",
        "PHPRC",
        "PHP_INI_SCAN_DIR",
        "PROMPT_COMMAND",
        "PS4",
        "RUBYLIB",
        "RUBYOPT",
        "SHELL",
        "SHELLOPTS",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "USERPROFILE",
        "XDG_CONFIG_HOME",
        "ZDOTDIR",
        "_JAVA_OPTIONS",
    ];
    const PREFIXES: [&str; 20] = [
        "BASH_FUNC_",
        "BUNDLE_",
        "BUN_CONFIG_",
        "CARGO_",
        "DYLD_",
        "GIT_ASKPASS",
        "GIT_CONFIG",
        "GIT_DIR",
        "GIT_EDITOR",
        "GIT_EXEC",
        "GIT_EXTERNAL",
        "GIT_PAGER",
        "GIT_PROXY",
        "GIT_SSH",
        "GIT_TEMPLATE",
        "LD_",
        "NPM_CONFIG_",
        "PIP_",
        "PYTHON",
        "UV_",
    ];
    // These of Python choose no code.
    const OTHERS: [&str; 4] =
        ["PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING", "PYTHONUNBUFFERED", "PYTHONUTF8"];
    let name = name.to_ascii_uppercase();
    let is_known = NAMES.contains(&name.as_str()) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    is_known && !OTHERS.contains(&name.as_str())
}
