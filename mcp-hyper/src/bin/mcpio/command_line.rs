//! Reads a command line: URLs without dashes, arguments of tools that look like options, and errors without wrong tips.

use std::ffi::{OsStr, OsString};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};
use clap_complete::Shell;

use crate::options::{Command, Options};
use crate::terminal::quoted_word;

impl Options {
    /// Reads a command line. A URL can name the server without dashes: the last word that is a URL where a server fits.
    ///
    /// # Errors
    /// Wrong usage, or a request for help.
    pub(crate) fn read(line: &[OsString]) -> Result<Self, clap::Error> {
        let mut typed = line.to_vec();
        let mut read = Self::try_parse_from(&typed);
        // Each turn leaves one unknown option less.
        while let Err(error) = &read
            && let Some(next) = with_argument(&typed, error)
        {
            typed = next;
            read = Self::try_parse_from(&typed);
        }
        // Another command may have the word `call` among its words, and has no arguments of a tool.
        if !matches!(&read, Ok(Self { command: Some(Command::Call { .. }), .. })) {
            typed = line.to_vec();
            read = Self::try_parse_from(line);
        }
        Self::read_url(&typed, read.map_err(without_tips))
    }

    fn read_url(line: &[OsString], read: Result<Self, clap::Error>) -> Result<Self, clap::Error> {
        let is_final = match &read {
            Ok(options) => !options.command.as_ref().is_some_and(Command::takes_url),
            Err(error) => !error.use_stderr(),
        };
        if is_final || line.iter().any(|word| word == "--") {
            return read;
        }
        let urls = (1..line.len()).rev().filter(|at| line.get(*at).is_some_and(|word| is_url(word)));
        let mut refused = None;
        for at in urls {
            let mut dashed = line.to_vec();
            let url = dashed.remove(at);
            dashed.extend(["--".into(), url]);
            match Self::try_parse_from(dashed) {
                Ok(options) => return Ok(options),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        // A URL is no name of a tool.
        read.and_then(|options| refused.map_or(Ok(options), Err))
    }

    /// The completions of a shell.
    pub(crate) fn completions(shell: Shell) -> String {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Self::command(), "mcpio", &mut script);
        String::from_utf8_lossy(&script).into_owned()
    }
}

/// A call with its first unknown option as an argument of the tool: `--key value` and `--key=value` as `key=value`, and
/// `--key` alone as `key:=true`, which no text passes for.
fn with_argument(line: &[OsString], error: &clap::Error) -> Option<Vec<OsString>> {
    let ours = line.iter().position(|word| word == "--").unwrap_or(line.len());
    let is_call = line.iter().take(ours).any(|word| word == "call");
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument || !is_call {
        return None;
    }
    let is_it = |word: &OsString| word.to_str().is_some_and(|word| word.split('=').next() == Some(unknown));
    let at = line.iter().take(ours).position(is_it)?;
    let option = line.get(at)?.to_str()?.strip_prefix("--")?;
    let is_value = |word: &&OsString| !word.to_str().is_some_and(|word| word.starts_with("--"));
    let value = line.get(at + 1).filter(|_| at + 1 < ours).filter(is_value);
    let (argument, end) = match (option.contains('='), value) {
        (true, _) => (option.into(), at + 1),
        (false, Some(value)) => ([OsStr::new(option), OsStr::new("="), value].into_iter().collect(), at + 2),
        (false, None) => (format!("{option}:=true").into(), at + 1),
    };
    let mut typed = line.to_vec();
    typed.splice(at..end, [argument]);
    Some(typed)
}

/// Removes tips that would lead astray: the words after two dashes are the server's command, not values.
fn without_tips(mut error: clap::Error) -> clap::Error {
    error.remove(ContextKind::Suggested);
    // An option of few letters is like many.
    if let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg)
        && unknown.len() < 5
    {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::Usage);
    }
    error
}

/// Says how to write an address without a scheme, such as `localhost:3720`, as a URL.
pub(crate) fn url_tip(word: &str) -> Option<String> {
    let (host, rest) = word.split_once(':')?;
    let port = rest.split('/').next()?;
    let is_address = !host.is_empty() && port.parse::<u16>().is_ok();
    let path = if rest.contains('/') { "" } else { "/mcp" };
    is_address
        .then(|| quoted_word(&format!("http://{word}{path}")))
        .flatten()
        .map(|url| format!("To name the server at that address: {url}"))
}

/// Whether this word is a server's URL, in the place of a command.
pub(crate) fn is_url(word: &OsStr) -> bool {
    let schemes = ["http://", "https://", "ws://", "wss://"];
    word.to_str().is_some_and(|word| schemes.iter().any(|scheme| word.starts_with(scheme)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ServerCommand;

    fn read(line: &[&str]) -> Result<Options, clap::Error> {
        Options::read(&line.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn url_needs_no_dashes() {
        let url = "https://example.com/mcp?a=b";
        let server = |line: &[&str]| match read(&[&["mcpio"], line].concat()).unwrap().command.unwrap() {
            Command::Tools { name, server, .. } => (name.into_iter().collect::<Vec<_>>(), server.command),
            Command::Call { arguments, server, .. } => (arguments, server.command),
            Command::OfServer(ServerCommand::Read { words, server, .. }) => (words, server.command),
            other => panic!("{other:?}"),
        };
        let none: [&str; 0] = [];
        assert_eq!(server(&["tools", url]), (none.map(str::to_owned).to_vec(), vec![url.into()]));
        assert_eq!(server(&["tools", "echo", url, "--json"]), (vec!["echo".to_owned()], vec![url.into()]));
        assert_eq!(
            server(&["call", "x", "u=http://a", url]),
            (vec!["u=http://a".to_owned()], vec![url.into()])
        );
        assert_eq!(server(&["read", "http://doc", url]), (vec!["http://doc".to_owned()], vec![url.into()]));
        assert_eq!(server(&["tools", "--issuer", "https://i", url]).1, [url]);
        assert_eq!(server(&["tools", url, "--issuer", "https://i"]).1, [url]);
        // After dashes it is an argument of the command.
        assert_eq!(server(&["tools", "--", "server", url]).1, ["server", url]);
        assert_eq!(read(&["mcpio", "tolls", url]).unwrap_err().exit_code(), 2);
        assert!(matches!(read(&["mcpio", "login", url]).unwrap().command, Some(Command::Login { .. })));
    }

    #[test]
    fn help_is_a_command() {
        for line in [&["mcpio", "help"][..], &["mcpio", "help", "call"], &["mcpio", "call", "--help"]] {
            let shown = read(line).unwrap_err();
            assert_eq!(shown.exit_code(), 0);
            assert!(shown.to_string().contains("mcpio call get-sum a=2 b=3 -- npx"), "{shown}");
        }
        assert_eq!(read(&["mcpio", "help", "nothing"]).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn completions_know_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = Options::completions(shell);
            assert!(script.contains("completions") && script.contains("whoami"), "{shell}");
        }
    }

    #[test]
    fn unknown_options_of_a_call_are_arguments_of_the_tool() {
        let url = "https://example.com/mcp";
        for (line, expected) in [
            (&["--a", "1", "--b=2"][..], &["a=1", "b=2"][..]),
            (&["--a", "-1", "x=y", "--deep", "--json"], &["a=-1", "x=y", "deep:=true"]),
            (&["--a", "1", url], &["a=1"]),
        ] {
            let options = read(&[&["mcpio", "call", "add"], line].concat()).unwrap();
            let Some(Command::Call { arguments, .. }) = options.command else { panic!("not a call") };
            assert_eq!(arguments, expected, "{line:?}");
        }
        for line in [
            &["mcpio", "tools", "--a", "1"][..],
            &["mcpio", "tools", "--timeout", "-1"],
            &["mcpio", "search", "call", "--a"],
        ] {
            let error = read(line).unwrap_err();
            assert!(error.exit_code() == 2 && !error.to_string().contains("tip:"), "{error}");
        }
    }

    #[test]
    fn address_without_a_scheme_is_shown_as_a_url() {
        for (word, url) in [
            ("localhost:3720", Some("http://localhost:3720/mcp")),
            ("10.0.0.1:80/sse", Some("http://10.0.0.1:80/sse")),
            ("prompt:greet", None),
            ("demo", None),
        ] {
            assert_eq!(url_tip(word), url.map(|url| format!("To name the server at that address: {url}")));
        }
    }
}
