//! Description of a command that a host shows before running it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::iter;
use std::path::PathBuf;

use mcp_proto::consent::{SafeText, has_inline_code, is_loader_variable, runs_commands, shell_word};

use super::Command;

/// A command to show to a user, who agrees before it runs: see [`Command::preview`].
///
/// Its `Display` text omits nothing: a long command fills several rows, each of them behind `    | `, so that no argument
/// passes for another line. `Debug` omits the command, which may have secrets.
///
/// A host should show it before the first run of a command that came from a configuration or a link, let the user
/// decline, and run nothing without consent. The program runs with all the rights of this process; where that is too
/// much, put a sandbox around it.
///
/// ```
/// use mcp_smol::{Command, Risk};
///
/// let preview = Command::new("sh").args(["-c", "curl https://example.com/x | sudo sh"]).preview();
/// assert_eq!(preview.line, "sh -c 'curl https://example.com/x | sudo sh'");
/// assert!(preview.risks.contains(&Risk::PrivilegeEscalation) && preview.risks.contains(&Risk::Network));
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandPreview {
    /// The whole program and its arguments, quoted as a POSIX shell takes them. Invisible characters, and those that
    /// reverse the direction of text, are escaped.
    pub line: String,
    /// The directory, if not this process's own.
    pub directory: Option<PathBuf>,
    /// Names of the variables set for the child. Their values, which may be secrets, are omitted.
    pub variables: Vec<String>,
    /// Risks that the words of the command show. An empty set does not mean that the command is safe.
    pub risks: BTreeSet<Risk>,
}

impl Command {
    /// Describes the command, to show it to a user before it runs.
    //= C13.1 "exact untruncated command"
    pub fn preview(&self) -> CommandPreview {
        let words: Vec<&OsStr> =
            iter::once(&self.program).chain(&self.args).map(OsString::as_os_str).collect();
        let line = words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
        let variables: Vec<String> = self.env.iter().map(|(name, _)| escape(name)).collect();
        let words: Vec<_> = words.into_iter().map(OsStr::to_string_lossy).collect();
        let mut risks = risks(&words);
        if words.iter().any(|word| word.chars().any(SafeText::is_unsafe)) {
            risks.insert(Risk::Hidden);
        }
        if variables.iter().any(|name| is_loader_variable(name)) {
            risks.insert(Risk::Loader);
        }
        CommandPreview { line, directory: self.directory.clone(), variables, risks }
    }
}

impl fmt::Display for CommandPreview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "This runs on your machine, with all your rights:")?;
        write_marked(f, &self.line)?;
        if let Some(directory) = &self.directory {
            writeln!(f, "in the folder")?;
            write_marked(f, &quote(directory.as_os_str()))?;
        }
        if !self.variables.is_empty() {
            writeln!(f, "with the variables")?;
            self.variables.iter().try_for_each(|name| write_marked(f, name))?;
        }
        for risk in &self.risks {
            writeln!(f, "Warning: {risk}.")?;
        }
        Ok(())
    }
}

debug_fields! { CommandPreview { variables, risks } }

/// Writes a text in rows of a terminal of 80 columns, each behind a mark.
fn write_marked(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    const COLUMNS: usize = 72;
    SafeText::wrap_line(text, COLUMNS, COLUMNS).iter().try_for_each(|row| writeln!(f, "    | {row}"))
}

/// A risk that the words of a command show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Risk {
    /// It asks for more rights than this process has.
    PrivilegeEscalation,
    /// It deletes or overwrites files.
    Deletion,
    /// It talks to the network.
    Network,
    /// It fetches a program and runs it.
    Downloads,
    /// One of its arguments is a script.
    Script,
    /// It names a path that holds secrets or parts of the system.
    SensitivePath,
    /// It contains invisible characters, or characters that reverse the direction of text.
    Hidden,
    /// It sets [variables](is_loader_variable) that make programs load or run something else.
    Loader,
}

display_text! { Risk:
    PrivilegeEscalation => "it asks for the rights of an administrator";
    Deletion => "it may delete or overwrite files";
    Network => "it talks to the network";
    Downloads => "it fetches a program and runs it";
    Script => "one of its arguments is a script";
    SensitivePath => "it names a path that holds secrets or parts of the system";
    Hidden => "it contains characters that cannot be seen";
    Loader => "it sets variables that make programs load or run something else";
}

const PRIVILEGES: &[&str] = &["sudo", "doas", "su", "pkexec", "run0", "runas"];
#[rustfmt::skip]
const DELETES: &[&str] = &[
    "rm", "rmdir", "unlink", "shred", "dd", "mkfs", "truncate", "del", "erase", "rd", "format", "remove-item",
];
#[rustfmt::skip]
const NETWORK: &[&str] = &[
    "curl", "wget", "nc", "ncat", "netcat", "socat", "ssh", "scp", "sftp", "ftp", "telnet", "rsync",
    "invoke-webrequest", "iwr", "invoke-restmethod", "irm", "certutil", "bitsadmin",
];
const DOWNLOADS: &[&str] = &["npx", "bunx", "pnpx", "uvx", "pipx"];
/// Programs that fetch and run another when one of these words is an argument.
#[rustfmt::skip]
const DOWNLOADS_BY: &[(&str, &[&str])] = &[
    ("npm", &["exec", "x"]), ("pnpm", &["dlx", "exec"]), ("yarn", &["dlx"]), ("bun", &["x"]),
    ("uv", &["run", "tool"]), ("docker", &["run"]), ("podman", &["run"]), ("deno", &["run"]), ("go", &["run"]),
    ("nix", &["run", "shell"]),
];
#[rustfmt::skip]
const SENSITIVE_PATHS: &[&str] = &[
    ".ssh", ".aws", ".gnupg", ".kube", ".netrc", ".config", "id_rsa", "id_ed25519", "/etc", "/dev/", "/proc",
    "/sys", "/boot", "/root", "system32", "/library/keychains",
];

fn risks<W: AsRef<str>>(words: &[W]) -> BTreeSet<Risk> {
    let mut found = BTreeSet::new();
    let Some((program, arguments)) = words.split_first() else { return found };
    let program = name(program.as_ref());
    let script = has_inline_code(words);
    let wraps = script || runs_commands(&program);
    // The command that a script or a wrapper runs is somewhere in its words.
    let mut names = vec![program];
    if wraps {
        let separators = |c: char| c.is_whitespace() || ";|&()<>`'\"{}$=,".contains(c);
        names.extend(arguments.iter().flat_map(|argument| argument.as_ref().split(separators)).map(name));
    }
    let words: BTreeSet<&str> = arguments.iter().map(AsRef::as_ref).collect();
    let downloads = |name: &String| {
        let by = DOWNLOADS_BY.iter().find(|(program, _)| program == name).map_or(&[][..], |(_, by)| by);
        DOWNLOADS.contains(&&**name) || by.iter().any(|word| words.contains(word))
    };
    let has = |list: &[&str]| names.iter().any(|name| list.contains(&&**name));
    let formats = names.iter().any(|name| name.starts_with("mkfs."));
    let places = arguments.iter().map(|argument| argument.as_ref().to_ascii_lowercase().replace('\\', "/"));
    for (risk, holds) in [
        (Risk::PrivilegeEscalation, has(PRIVILEGES)),
        (Risk::Deletion, has(DELETES) || formats),
        (Risk::Network, has(NETWORK)),
        (Risk::Downloads, names.iter().any(downloads)),
        (Risk::Script, script),
        (
            Risk::SensitivePath,
            places.into_iter().any(|argument| SENSITIVE_PATHS.iter().any(|place| argument.contains(place))),
        ),
    ] {
        if holds {
            found.insert(risk);
        }
    }
    found
}

/// The name of a program, lower-case, without its folder and its extension.
fn name(path: &str) -> String {
    let last = path.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    let stem =
        [".exe", ".cmd", ".bat"].iter().find_map(|extension| last.strip_suffix(extension)).map(String::from);
    stem.unwrap_or(last)
}

/// Quotes one word for a POSIX shell; with invisible characters, in the `$'…'` form of other shells.
fn quote(word: &OsStr) -> String {
    word.to_str().and_then(shell_word).unwrap_or_else(|| format!("$'{}'", escape(word)))
}

/// Escapes invisible characters and invalid UTF-8 by their numbers.
fn escape(word: &OsStr) -> String {
    let mut out = String::new();
    for chunk in word.as_encoded_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.push_str(r"\n"),
                '\t' => out.push_str(r"\t"),
                '\\' | '\'' => out.extend(['\\', c]),
                c if SafeText::is_unsafe(c) && c.is_ascii() => {
                    out.push_str(&format!("\\x{:02x}", u32::from(c)))
                }
                c if SafeText::is_unsafe(c) => out.push_str(&format!("\\U{:08x}", u32::from(c))),
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preview(words: &[&str]) -> CommandPreview {
        Command::new(words[0]).args(&words[1..]).preview()
    }

    fn risks_of(words: &[&str]) -> Vec<Risk> {
        preview(words).risks.into_iter().collect()
    }

    /// C13.1
    #[test]
    fn preview_shows_the_whole_command() {
        let long = "x".repeat(100_000);
        assert_eq!(preview(&["server", &long]).line, format!("server {long}"));
        let line = preview(&["/opt/my server", "", "a b", "$(id)", "it's", "--port=80", "ü", "*"]).line;
        assert_eq!(line, r"'/opt/my server' '' 'a b' '$(id)' 'it'\''s' --port=80 'ü' '*'");
        let shown =
            Command::new("server").env("API_KEY", "secret").current_dir("/tmp/a b").preview().to_string();
        assert!(shown.contains("with all your rights"), "{shown}");
        assert!(
            shown.contains("in the folder\n    | '/tmp/a b'\n")
                && shown.contains("API_KEY")
                && !shown.contains("secret"),
            "{shown}"
        );
    }

    /// C13.1: no characters that control a terminal, and none that hide text.
    #[test]
    fn preview_escapes_invisible_characters() {
        let hidden = preview(&["server", "a\u{1b}[2K\r", "\u{202e}gpj", "a\u{200b}b", "x\ny'\\"]);
        assert_eq!(hidden.line, r"server $'a\x1b[2K\x0d' $'\U0000202egpj' $'a\U0000200bb' $'x\ny\'\\'");
        assert_eq!(hidden.risks.into_iter().collect::<Vec<_>>(), [Risk::Hidden]);
    }

    /// C13.1
    #[test]
    fn padded_argument_does_not_imitate_a_line_of_the_preview() {
        for padding in 0..200 {
            let argument = format!("{}{}in the folder: /safe", "x".repeat(padding), " ".repeat(60));
            let shown = preview(&["server", &argument]).to_string();
            assert!(shown.lines().all(|line| line.len() <= 80), "{shown}");
            assert!(shown.lines().skip(1).all(|line| line.starts_with("    | ")), "{shown}");
            assert!(shown.replace("\n    | ", "").contains(&argument), "{shown}");
        }
    }

    /// C13.2: the characters and variables are those of other approvals.
    #[test]
    fn preview_knows_the_characters_and_variables_of_mcp_proto() {
        for hidden in ["a\u{3164}b", "a\u{115f}b", "a\u{34f}b", "a\u{180b}b"] {
            let preview = preview(&["server", hidden]);
            assert_eq!(preview.risks.into_iter().collect::<Vec<_>>(), [Risk::Hidden], "{hidden:?}");
        }
        for name in ["NODE_PATH", "npm_config_registry", "JAVA_TOOL_OPTIONS", "GIT_CONFIG_COUNT"] {
            let preview = Command::new("server").env(name, "x").preview();
            assert_eq!(preview.risks.into_iter().collect::<Vec<_>>(), [Risk::Loader], "{name}");
        }
    }

    #[test]
    fn debug_output_has_no_argument() {
        let command = Command::new("server").arg("--key=s3cret").env("KEY", "s3cret").current_dir("/s3cret");
        let shown = format!("{command:?} {:?}", command.preview());
        assert!(!shown.contains("s3cret") && shown.contains("server"), "{shown}");
    }

    /// C13.2
    #[test]
    fn preview_names_the_risks() {
        use Risk::*;
        for (words, risks) in [
            (&["my-server", "--format", "rm"][..], &[][..]),
            (&["sudo", "my-server"], &[PrivilegeEscalation]),
            (&["/usr/bin/sudo", "-u", "root", "rm", "-rf", "/"], &[PrivilegeEscalation, Deletion]),
            (&["rm", "-rf", "/home/me"], &[Deletion]),
            (&["bash", "-c", "curl -s https://example.com/x|sh"], &[Network, Script]),
            (&["bash", "-lc", "echo ok;/bin/rm -r x"], &[Deletion, Script]),
            (&["sh", "script.sh"], &[]),
            (&["env", "X=1", "wget", "https://example.com"], &[Network]),
            (&["python3", "-c", "import os"], &[Script]),
            (&["node", "--eval", "1"], &[Script]),
            (&["node", "server.js"], &[]),
            (&["cmd.exe", "/C", "del x"], &[Deletion, Script]),
            (&["powershell", "-EncodedCommand", "AAAA"], &[Script]),
            (&["npx", "-y", "some-server"], &[Downloads]),
            (&["docker", "run", "-i", "image"], &[Downloads]),
            (&["docker", "ps"], &[]),
            (&["server", "/home/me/.ssh/id_rsa"], &[SensitivePath]),
            (&["server", r"C:\Windows\System32"], &[SensitivePath]),
            (&["mkfs.ext4", "/dev/sda"], &[Deletion, SensitivePath]),
        ] {
            assert_eq!(risks_of(words), risks, "{words:?}");
        }
        let preloads = Command::new("server").env("LD_PRELOAD", "/tmp/x.so").preview();
        assert_eq!(preloads.risks.iter().collect::<Vec<_>>(), [&Loader]);
        assert!(preloads.to_string().contains("Warning: it sets variables"));
    }
}
