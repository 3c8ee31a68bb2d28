//! `mcpio tap install` and `mcpio tap remove`: edit an application's configuration, so that a server runs under `mcpio tap`.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use mcp_hyper::host::{create_private_folder, known_files, read_file, replace_file};
use mcp_proto::host::config::{
    Application, CommandText, ConfigFile, EditError, Scope, Source, TransportSpec,
};
use mcp_proto::redact::{Redactor, is_secret_header};
use serde_json::json;

use crate::arguments::suggest;
use crate::connect::redactor_of;
use crate::error::{CommandError, Result};
use crate::login::state_folder;
use crate::options::CommonOptions;
use crate::show;
use crate::terminal::{BAD, GOOD, QUIET, Screen, quoted_word, styled};

/// How many bytes are shown before and behind a difference in its line.
const CONTEXT: usize = 100;

/// A change of an application's configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum TapEdit {
    /// Change the configuration of an application, so that a server runs under `mcpio tap`. Everything else in the file
    /// stays as it is. Without --trace-file the trace is in the folder mcpio/traces below the folder for state
    Install(TappedServer),
    /// Undo `mcpio tap install`
    Remove(TappedServer),
}

/// A server of an application's configuration.
#[derive(Debug, Args)]
pub(crate) struct TappedServer {
    /// The application, such as cursor or claude-desktop, or the path of its configuration file
    pub(crate) application: String,
    /// The server's name there
    pub(crate) server: String,
    /// Only show the difference
    #[arg(long = "dry-run")]
    pub(crate) is_dry: bool,
}

/// Changes the file of an application, or only shows the difference.
pub(crate) fn edit(edit: &TapEdit, common: &CommonOptions, screen: &mut Screen) -> Result {
    let (TapEdit::Install(tapped) | TapEdit::Remove(tapped)) = edit;
    let TappedServer { server, is_dry, .. } = tapped;
    let file = ServerFile::find(tapped)?;
    let command = file.command(server)?;
    let (after, trace) = match edit {
        TapEdit::Install(_) => {
            if tap_words(&command.words()).is_some() {
                return Err(file.refused(server, "the server runs under `mcpio tap` already"));
            }
            let trace = trace_file(file.source.application, server, common)?;
            let after = command.with_prefix(&tap_command(&trace)?.each_ref().map(String::as_str));
            let after = after.map_err(|error| file.refused(server, error))?;
            (after, Some(trace))
        }
        TapEdit::Remove(_) => {
            let count = tap_words(&command.words())
                .ok_or_else(|| file.refused(server, "the server does not run under `mcpio tap`"))?;
            (command.without_prefix(count).map_err(|error| file.refused(server, error))?, None)
        }
    };
    let trace =
        trace.filter(|_| !is_dry).map(|trace| make_folder(&trace, common).map(|()| trace)).transpose()?;
    if !is_dry {
        let failed = CommandError::server_of(file.source.path.as_str());
        replace_file(file.source.path.as_ref(), &file.text, after.as_bytes()).map_err(failed)?;
    }
    file.report(tapped, &after, trace.as_deref(), screen)
}

/// The file of an application that has a server.
struct ServerFile {
    source: Source,
    text: Vec<u8>,
    /// The project's folder, if the server is one of the user's file for a project.
    folder: Option<String>,
}

impl ServerFile {
    /// Finds the file, which must be the only one.
    fn find(TappedServer { application, server, .. }: &TappedServer) -> Result<Self> {
        let folder = env::current_dir().ok().and_then(|folder| folder.into_os_string().into_string().ok());
        let (mut found, mut failed, mut names) = (Vec::<Self>::new(), None, Vec::new());
        for source in sources(application, folder.as_deref())? {
            let text = match read_file(source.path.as_ref(), Scope::User, source.scope.max_bytes()) {
                Ok(text) => text,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(CommandError::usage_of(source.path)(error)),
            };
            let is_of_claude = source.scope == Scope::User && source.application == Application::ClaudeCode;
            let project = folder.clone().filter(|_| is_of_claude).map(Some);
            for folder in project.into_iter().chain([None]) {
                let file = Self { source: source.clone(), text: text.clone(), folder };
                names.extend(file.names());
                match CommandText::find(&file.source, &file.text, file.folder.as_deref(), server) {
                    // The servers of a project are before the others of the same file.
                    Ok(_) if found.last().is_some_and(|last| last.source == source) => {}
                    Ok(_) => found.push(file),
                    Err(EditError::NoServer) => {}
                    Err(error) => failed = failed.or(Some(file.refused(server, error))),
                }
            }
        }
        let files = found.iter().map(|file| file.source.path.as_str()).collect::<Vec<_>>().join(", ");
        match (found.len(), failed) {
            (1, _) => found.pop().ok_or_else(|| CommandError::usage("no file")),
            (0, Some(failed)) => Err(failed),
            (0, None) => {
                let similar = suggest(server, names.iter().map(String::as_str));
                Err(CommandError::usage(format_args!("{application} has no server {server:?}{similar}")))
            }
            (_, _) => {
                let what = format_args!("several files have a server {server:?}: name one of {files}");
                Err(CommandError::usage(what))
            }
        }
    }

    fn parsed(&self) -> ConfigFile {
        match &self.folder {
            Some(folder) => ConfigFile::parse_of_project(self.source.clone(), &self.text, folder),
            None => ConfigFile::parse(self.source.clone(), &self.text),
        }
    }

    fn names(&self) -> Vec<String> {
        self.parsed().servers.iter().map(|entry| entry.name().to_owned()).collect()
    }

    fn command<'a>(&'a self, server: &'a str) -> Result<CommandText<'a>> {
        CommandText::find(&self.source, &self.text, self.folder.as_deref(), server)
            .map_err(|error| self.refused(server, error))
    }

    fn refused(&self, server: &str, why: impl std::fmt::Display) -> CommandError {
        CommandError::usage(format_args!("{}: server {server:?}: {why}", self.source.path))
    }

    /// Shows the difference, and what to do next.
    fn report(
        &self,
        tapped: &TappedServer,
        after: &str,
        trace: Option<&Path>,
        screen: &mut Screen,
    ) -> Result {
        let TappedServer { application, server, is_dry } = tapped;
        let path = &self.source.path;
        if screen.is_json() {
            let trace = trace.map(|trace| trace.display().to_string());
            return show::json(
                screen,
                &json!({ "file": path, "server": server, "traceFile": trace, "changed": !is_dry }),
            );
        }
        screen.line(styled(QUIET, path))?;
        let redactor = self.redactor(server)?;
        let (before, after) = (String::from_utf8_lossy(&self.text), redactor.text(after));
        for (style, sign, text) in difference(&redactor.text(&before), &after) {
            for line in text.lines() {
                screen.line(styled(style, format_args!("{sign} {}", line.trim_end_matches('\r'))))?;
            }
        }
        if *is_dry {
            screen.line("Nothing is changed.")?;
        } else if let Some(trace) = trace {
            let word = |text: &str| quoted_word(text).unwrap_or_else(|| "…".into());
            let shown = word(&trace.display().to_string());
            screen.line(format!("From its next start on, the server writes {}.", trace.display()))?;
            screen.line(format!("To see it live: mcpio trace --follow {shown}"))?;
            screen.line(format!("To undo: mcpio tap remove {} {}", word(application), word(server)))?;
        }
        Ok(())
    }

    /// A redactor that knows the values of the entry with secret names.
    fn redactor(&self, server: &str) -> Result<Redactor> {
        let words: Vec<OsString> = self.command(server)?.words().into_iter().map(Into::into).collect();
        let redactor = redactor_of(&words, &CommonOptions::default())?;
        let parsed = self.parsed();
        let entry = parsed.servers.iter().find(|entry| entry.name() == server);
        let Some(TransportSpec::Stdio(stdio)) = entry.map(|entry| &entry.spec().transport) else {
            return Ok(redactor);
        };
        let secrets = stdio.env.iter().filter(|(name, _)| is_secret_header(name));
        Ok(secrets.fold(redactor, |redactor, (_, value)| redactor.known(value.text())))
    }
}

/// The files of an application by its name, or the one with this path.
fn sources(application: &str, folder: Option<&str>) -> Result<Vec<Source>> {
    let plain = |name: &str| name.to_lowercase().replace([' ', '-', '_'], "");
    let mut files = known_files(folder);
    let mut names: Vec<String> =
        files.iter().map(|file| file.application.as_str().to_lowercase().replace(' ', "-")).collect();
    files.retain(|file| plain(file.application.as_str()) == plain(application));
    // The home folder is no project: its files are the user's.
    let canonical = |file: &Source| fs::canonicalize(&file.path).ok();
    let own: Vec<_> = files.iter().filter(|file| file.scope == Scope::User).filter_map(canonical).collect();
    files.retain(|file| file.scope == Scope::User || canonical(file).is_none_or(|path| !own.contains(&path)));
    if !files.is_empty() {
        return Ok(files);
    }
    let path = std::path::absolute(application).ok().filter(|path| path.is_file());
    let Some(path) = path.and_then(|path| path.into_os_string().into_string().ok()) else {
        names.sort();
        names.dedup();
        let known = suggest(application, names.iter().map(String::as_str));
        let what = format_args!("{application:?} is no application and no file{known}");
        return Err(CommandError::usage(what));
    };
    Ok(vec![Source::user(path)])
}

/// The number of words before the server's own command, if it runs under `mcpio tap`.
fn tap_words(words: &[&str]) -> Option<usize> {
    let [program, command, ..] = words else { return None };
    let name = Path::new(program).file_stem()?;
    let is_tap = name.eq_ignore_ascii_case("mcpio") && *command == "tap";
    let dashes = words.iter().position(|word| *word == "--").filter(|_| is_tap)?;
    Some(dashes + 1)
}

/// The words before the server's command.
fn tap_command(trace: &Path) -> Result<[String; 5]> {
    let program = env::current_exe().map_err(CommandError::server_of("the path of this program"))?;
    match (program.into_os_string().into_string(), trace.to_str()) {
        (Ok(program), Some(trace)) => {
            Ok([program, "tap".into(), "--trace-file".into(), trace.into(), "--".into()])
        }
        _ => Err(CommandError::usage("the path of this program, or of the trace, is not UTF-8")),
    }
}

/// The trace to write: that of `--trace-file`, or one in a folder of this program.
fn trace_file(application: Application, server: &str, common: &CommonOptions) -> Result<PathBuf> {
    if let Some(path) = &common.trace_file {
        return std::path::absolute(path).map_err(CommandError::usage_of(path.display()));
    }
    let folder = state_folder("traces");
    let folder = folder.ok_or_else(|| CommandError::usage("name the file to write by --trace-file FILE"))?;
    let name = format!("{}-{server}", application.as_str());
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    Ok(folder.join(format!("{}.trace", name.chars().map(plain).collect::<String>())))
}

/// Makes the folder of the traces, for its owner alone.
fn make_folder(trace: &Path, common: &CommonOptions) -> Result {
    let Some(folder) = trace.parent().filter(|_| common.trace_file.is_none()) else { return Ok(()) };
    create_private_folder(folder).map_err(CommandError::server_of(folder.display()))
}

/// The lines that differ: those before, and those after. Of long lines only the surroundings of the difference.
fn difference<'a>(before: &'a str, after: &'a str) -> [(anstyle::Style, char, &'a str); 2] {
    let same = |(one, other): &(char, char)| one == other;
    let start: usize =
        before.chars().zip(after.chars()).take_while(same).map(|(char, _)| char.len_utf8()).sum();
    let rest = |text: &'a str| text.get(start..).unwrap_or_default();
    let ends = rest(before).chars().rev().zip(rest(after).chars().rev());
    let end: usize = ends.take_while(same).map(|(char, _)| char.len_utf8()).sum();
    let lines = |text: &'a str| {
        let end = text.len() - end;
        let from = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let to = text[end..].find('\n').map_or(text.len(), |newline| end + newline);
        let from = text.floor_char_boundary(from.max(start.saturating_sub(CONTEXT)));
        &text[from..text.floor_char_boundary(to.min(end.saturating_add(CONTEXT)))]
    };
    [(BAD, '-', lines(before)), (GOOD, '+', lines(after))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_is_the_lines_that_differ_and_of_long_lines_a_part() {
        let [(_, _, before), (_, _, after)] = difference("a\nb1c\nd\n", "a\nb2\n3c\nd\n");
        assert_eq!((before, after), ("b1c", "b2\n3c"));
        let long = "é".repeat(10_000);
        let (before, after) = (format!("{long}1{long}"), format!("{long}2{long}"));
        let [(_, _, before), _] = difference(&before, &after);
        assert!(before.contains('1') && before.len() < 500, "{before}");
    }

    #[test]
    fn command_under_a_tap_is_recognised() {
        assert_eq!(tap_words(&["/bin/mcpio", "tap", "--trace-file", "x", "--", "npx"]), Some(5));
        for words in
            [&["npx", "tap", "--"][..], &["mcpio", "connect", "--", "x"], &["mcpio", "tap", "https://x"]]
        {
            assert_eq!(tap_words(words), None, "{words:?}");
        }
    }
}
