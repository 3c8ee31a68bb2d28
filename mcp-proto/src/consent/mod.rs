//! User consent: checks that a host makes before it acts on a peer's request, and the facts to show the user.
//!
//! Nothing here opens, fetches, renders or runs anything. These types tell the host what to show and what to refuse:
//!
//! - [`UrlConsent`]: a page that a server wants the user to visit.
//! - [`IconPolicy`]: the icons of a server.
//! - [`Behaviour`]: the effects of a tool, as far as its server is trusted.
//! - [`SafeText`]: any text of a peer, without terminal control and hidden characters; [`shell_word`] quotes it for a
//!   shell.
//! - [`is_harmless_variable`], [`is_loader_variable`]: which environment variables choose the code that programs run.
//! - [`runs_commands`], [`has_inline_code`]: which commands run code that their arguments contain.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#safe-url-handling>

#[cfg(feature = "host")]
mod lookalike;
mod url;

use crate::prelude::*;
use crate::schema::Tool;

pub use crate::text::{SafeText, shell_word};
#[cfg(feature = "host")]
pub(crate) use lookalike::{is_opening_bracket, prototype, skeleton};
pub use url::{IconPolicy, IconSource, ImageKind, UnsafeIconError, UnsafeUrlError, UrlConsent, UrlWarning};

/// Whether a host believes a server's annotations of its tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "trace-file", derive(serde::Serialize, serde::Deserialize))]
pub enum Trust {
    /// The annotations are believed.
    Trusted,
    /// The annotations are ignored.
    Untrusted,
}

/// The effects of a tool, by which a host decides whether to ask the user.
///
/// The annotations of a tool are hints; those of an untrusted server are ignored. A missing hint counts as the worst
/// case, as the specification requires.
///
/// ```
/// use mcp_proto::consent::{Behaviour, Trust};
/// use mcp_proto::schema::{Tool, ToolAnnotations};
/// use serde_json::json;
///
/// let harmless = ToolAnnotations { read_only_hint: Some(true), ..ToolAnnotations::new() };
/// let tool = Tool::new("list", "Lists files", json!({"type": "object"})).with_annotations(harmless);
/// assert!(!Behaviour::from_tool(&tool, Trust::Trusted).needs_confirmation());
/// assert!(Behaviour::from_tool(&tool, Trust::Untrusted).needs_confirmation());
/// ```
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#security-considerations>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// Whether the tool changes nothing.
    pub read_only: bool,
    /// Whether the tool may destroy something rather than only add.
    pub destructive: bool,
    /// Whether calling it again with the same arguments changes nothing more.
    pub idempotent: bool,
    /// Whether the tool interacts with an open world, such as the web.
    pub open_world: bool,
}

impl Behaviour {
    /// The effects of a tool, as far as its server is trusted.
    pub fn from_tool(tool: &Tool, trust: Trust) -> Self {
        //= C9.3 "Tool annotations untrusted unless the server is trusted"
        let hints = tool.annotations.as_ref().filter(|_| trust == Trust::Trusted);
        let read_only = hints.and_then(|hints| hints.read_only_hint).unwrap_or(false);
        Self {
            read_only,
            // These two hints are defined only for tools that are not read-only.
            destructive: !read_only && hints.and_then(|hints| hints.destructive_hint).unwrap_or(true),
            idempotent: read_only || hints.and_then(|hints| hints.idempotent_hint).unwrap_or(false),
            open_world: hints.and_then(|hints| hints.open_world_hint).unwrap_or(true),
        }
    }

    /// Whether the user should confirm each call.
    ///
    /// It is `false` for a tool that changes nothing, or only adds within a closed world.
    pub fn needs_confirmation(&self) -> bool {
        !self.read_only && (self.destructive || self.open_world)
    }
}

// What decides the code that a program runs: code or commands in its arguments, and environment variables.

/// A program that runs code which one of its options contains. Lists are words with spaces between.
struct Interpreter {
    names: &'static str,
    /// One of these letters in a short option, alone or among others as in `-lc`, is followed by code.
    letters: &'static str,
    /// A word that begins so, in letters of any case, is or precedes code.
    words: &'static str,
    /// Words without a value that may stand before the script.
    flags: &'static str,
    /// What follows this option are arguments of the code that it names.
    last: &'static str,
}

const INTERPRETERS: [Interpreter; 11] = [
    Interpreter::new(SHELLS, "c", "--command --init-command"),
    Interpreter::new("cmd", "", "/c /k /r"),
    Interpreter::new("powershell pwsh", "", "-c -e /c /e"),
    Interpreter {
        flags: "-B -E -I -O -OO -S -b -d -q -s -u -v -x",
        last: "-m",
        ..Interpreter::new("ipython jython micropython py pypy python pythonw", "c", "")
    },
    Interpreter {
        flags: "--enable-source-maps --no-deprecation --no-warnings run",
        ..Interpreter::new("bun electron node nodejs ts-node tsx", "ep", "--eval --print")
    },
    Interpreter { flags: "-A --allow-all run", ..Interpreter::new("deno", "", "eval") },
    Interpreter { flags: "-T -w", ..Interpreter::new("perl", "eEmM", "") },
    Interpreter { flags: "-w", ..Interpreter::new("jruby ruby", "e", "") },
    Interpreter::new("php", "rBRE", "--run --process-"),
    Interpreter::new(
        "elixir erl groovy julia lua luajit osascript r rscript scala",
        "eE",
        "--eval --print -eval",
    ),
    Interpreter {
        flags: "-q -y --quiet --yes dlx exec x",
        ..Interpreter::new("npm npx pnpm pnpx yarn", "c", "--call")
    },
];

const SHELLS: &str = "ash bash csh dash elvish fish ksh mksh nu rbash sh tcsh xonsh zsh";

/// Programs besides shells that run a command or a script in their arguments.
const RUNNERS: &str = "\
    awk busybox chroot cmd command cross-env cscript doas dotenv emacs env exec expect find flock \
    forfiles gawk gdb ionice lldb make mawk mshta nawk nice nohup nsenter nvim parallel pkexec \
    powershell pwsh run0 runas rundll32 runuser screen script sed setpriv setsid ssh stdbuf strace su \
    sudo systemd-run tclsh time timeout tmux toybox unshare vi vim watch wscript wsl xargs";

impl Interpreter {
    const fn new(names: &'static str, letters: &'static str, words: &'static str) -> Self {
        Self { names, letters, words, flags: "", last: "" }
    }

    fn find(program: &str) -> Option<&'static Self> {
        if program.starts_with('-') {
            return None;
        }
        let name = program_name(program);
        let unversioned = without_version(&name);
        let is_name = |known| known == name || known == unversioned;
        INTERPRETERS.iter().find(|it| it.names.split_ascii_whitespace().any(is_name))
    }

    /// Whether the word may stand before the script, and none of the words after it belongs to it.
    fn is_flag(&self, word: &str) -> bool {
        let has_value = word.starts_with("--") && word.contains('=') && !self.takes_code(word);
        has_value || has_word(self.flags, word)
    }

    /// Whether the word is code, or an option that code follows.
    fn takes_code(&self, word: &str) -> bool {
        let short = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        let begins = |start: &str| {
            word.get(..start.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(start))
        };
        short.is_some_and(|letters| letters.contains(|letter| self.letters.contains(letter)))
            || self.words.split_ascii_whitespace().any(begins)
            || word.contains("data:")
    }
}

/// Whether a program runs commands or scripts that its arguments contain: a shell, `env`, `busybox`, `sudo`.
///
/// The name may have a folder, `.exe` and a version.
///
/// ```
/// use mcp_proto::consent::runs_commands;
///
/// assert!(runs_commands("/usr/bin/env") && runs_commands(r"C:\Windows\System32\CMD.EXE"));
/// assert!(!runs_commands("npx") && !runs_commands("python3"));
/// ```
pub fn runs_commands(program: &str) -> bool {
    let name = program_name(program);
    [name.as_str(), without_version(&name)]
        .iter()
        .any(|name| has_word(SHELLS, name) || has_word(RUNNERS, name))
}

/// Whether the words of a command have code for an interpreter, which may be the program or an argument: `python -c`,
/// `node -e`, `uv run python -c`. Options behind the name of a script are the script's.
///
/// ```
/// use mcp_proto::consent::has_inline_code;
///
/// assert!(has_inline_code(&["/usr/bin/python3.12", "-Ic", "import os"]));
/// assert!(has_inline_code(&["uv", "run", "python", "-c", "import os"]));
/// assert!(!has_inline_code(&["python3", "-u", "server.py", "-c", "config.json"]));
/// ```
pub fn has_inline_code<W: AsRef<str>>(words: &[W]) -> bool {
    // Each interpreter is in here at most once, so that the work is linear.
    let mut reading: Vec<&Interpreter> = Vec::new();
    let mut rest = words;
    while let Some((word, following)) = rest.split_first() {
        rest = following;
        let word = word.as_ref();
        if reading.iter().any(|interpreter| interpreter.takes_code(word)) {
            return true;
        }
        let Some(interpreter) = Interpreter::find(word) else { continue };
        let mut following = following.iter().map(AsRef::as_ref);
        let Some(first) = following.find(|word| !interpreter.is_flag(word)) else { continue };
        if interpreter.takes_code(first) {
            return true;
        }
        let is_option = first.starts_with(['-', '/']) && interpreter.last != first;
        if is_option && !reading.iter().any(|it| it.names == interpreter.names) {
            reading.push(interpreter);
        }
    }
    false
}

/// Whether the word is one of these.
fn has_word(words: &str, word: &str) -> bool {
    words.split_ascii_whitespace().any(|known| known == word)
}

/// The name of a program without its folder and its extension, in lower case.
fn program_name(path: &str) -> String {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    let mut extensions = [".exe", ".cmd", ".bat"].iter();
    let stem = extensions.find_map(|extension| name.strip_suffix(extension)).map(String::from);
    stem.unwrap_or(name)
}

/// `python` of `python3.12`.
fn without_version(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-')
}

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
    const NAMES: &str = "\
        CI CLICOLOR COLORTERM COLUMNS DO_NOT_TRACK FORCE_COLOR LANG LANGUAGE LINES LOGLEVEL LOG_LEVEL \
        NODE_ENV NO_COLOR PORT PYTHONDONTWRITEBYTECODE PYTHONIOENCODING PYTHONUNBUFFERED PYTHONUTF8 \
        RUST_BACKTRACE RUST_LOG TERM TZ";
    let is_level = name.ends_with("_LOG_LEVEL") && !is_loader_variable(name);
    is_level || name.starts_with("LC_") || has_word(NAMES, name)
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
    const NAMES: &str = "\
        ALL_PROXY APPDATA BASH_ENV CLASSPATH COMSPEC CORECLR_PROFILER COR_PROFILER DENO_DIR \
        DOCKER_CONFIG DOCKER_HOST DOTNET_STARTUP_HOOKS EDITOR ELECTRON_RUN_AS_NODE ENV GCONV_PATH \
        GEM_HOME GEM_PATH HOME HTTPS_PROXY HTTP_PROXY IFS JAVA_HOME JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS \
        LESSOPEN LOCALAPPDATA LUA_CPATH LUA_INIT LUA_PATH NODE_EXTRA_CA_CERTS NODE_OPTIONS NODE_PATH \
        NODE_TLS_REJECT_UNAUTHORIZED OPENSSL_CONF PAGER PATH PATHEXT PERL5DB PERL5LIB PERL5OPT PERLLIB \
        PHPRC PHP_INI_SCAN_DIR PROMPT_COMMAND PS4 RUBYLIB RUBYOPT SHELL SHELLOPTS SSL_CERT_DIR \
        SSL_CERT_FILE USERPROFILE XDG_CONFIG_HOME ZDOTDIR _JAVA_OPTIONS";
    const PREFIXES: &str = "\
        BASH_FUNC_ BUNDLE_ BUN_CONFIG_ CARGO_ DYLD_ GIT_ASKPASS GIT_CONFIG GIT_DIR GIT_EDITOR GIT_EXEC \
        GIT_EXTERNAL GIT_PAGER GIT_PROXY GIT_SSH GIT_TEMPLATE LD_ NPM_CONFIG_ PIP_ PYTHON UV_";
    // These of Python choose no code.
    const OTHERS: &str = "PYTHONDONTWRITEBYTECODE PYTHONIOENCODING PYTHONUNBUFFERED PYTHONUTF8";
    let name = name.to_ascii_uppercase();
    let is_known = has_word(NAMES, &name) || PREFIXES.split(' ').any(|prefix| name.starts_with(prefix));
    is_known && !has_word(OTHERS, &name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_in_arguments_is_found_whichever_interpreter_runs_it() {
        for command in [
            "python -c x",
            "python3.12 -W ignore -c x",
            "python3 -Ic x",
            "PYTHON.EXE -c x",
            "uv run --quiet python -c x",
            "node -e x",
            "node --eval=x",
            "node -r ./a.js -e x",
            "node --import data:text/javascript,x",
            "node --import=data:text/javascript,x server.js",
            "bun -e x",
            "deno eval x",
            "deno run data:text/javascript,x",
            "perl -we x",
            "perl -MPOSIX;x server.pl",
            "ruby -e x",
            "php -r x",
            "osascript -e x",
            "Rscript -e x",
            "bash -lc x",
            "docker run -i image sh -c x",
            "cmd /C x",
            "pwsh -EncodedCommand x",
            "npx -y -c x",
            "npm exec --call=x",
        ] {
            let words: Vec<&str> = command.split(' ').collect();
            assert!(has_inline_code(&words), "{command}");
        }
        for command in [
            "python server.py -c config.json",
            "python -u -m server -c config.json",
            "node server.js -p 3000 -e production",
            "node --env-file=.env server.js -p 3000",
            "npx -y server -c config.json",
            "uvx server -c config.json",
            "sh server.sh -c",
            "deno run -A server.ts",
            "server python",
            "python -u",
            "",
        ] {
            let words: Vec<&str> = command.split(' ').collect();
            assert!(!has_inline_code(&words), "{command}");
        }
    }

    #[test]
    fn work_is_linear_in_the_words_of_a_command() {
        let words: Vec<&str> = ["python", "-x", "-W", "node", "-z"].repeat(100_000);
        assert!(!has_inline_code(&words));
        for words in [["python", "-u"], ["python", "--a=b"], ["--a=/python", "--a=/node"]] {
            assert!(!has_inline_code(&words.repeat(100_000)));
        }
    }

    #[test]
    fn programs_that_run_commands_are_known_by_any_path() {
        for program in ["/bin/SH", "bash5", "env", "busybox", r"C:\Windows\cmd.exe", "run0", "sudo", "gawk"] {
            assert!(runs_commands(program), "{program}");
        }
        for program in ["python3", "node", "npx", "uvx", "docker", "my-server", "", "/"] {
            assert!(!runs_commands(program), "{program}");
        }
    }
}
