//! `mcpio approve`: the user's approval of the servers that a project's file names.

use std::collections::BTreeSet;
use std::sync::Arc;

use mcp_hyper::host::{FileStorage, Host};
use mcp_proto::consent::SafeText;
use mcp_proto::host::config::{Config, Scope, ServerEntry, TransportSpec};
use mcp_proto::host::consent::{ApprovalRequest, Approvals};
use mcp_proto::host::tools::{ItemKind, PinChange};
use mcp_proto::schema::Tool;
use serde_json::json;

use super::{Session, wake_idle};
use crate::error::{self, CommandError, Result};
use crate::options::{ApproveOptions, CommonOptions};
use crate::server_requests::{NoAnswerError, TerminalPrompt, choose, is_person_present};
use crate::terminal::{BAD, GOOD, HEADING, QUIET, Screen, Text, styled, width};
use crate::{arguments, login, many, show};

/// Shows the whole request of each server, and asks the user. Nothing starts.
pub(crate) async fn approve(options: &ApproveOptions, common: &CommonOptions, screen: &mut Screen) -> Result {
    if !options.revoke && !is_person_present() {
        return Err(CommandError::usage("only a person can approve: run this on a terminal"));
    }
    let session = Session::open(&options.config, common)?;
    let entries = chosen(&session.config, &options.servers)?;
    if entries.is_empty() && !screen.is_json() {
        screen.line("The files have no server of a project: there is nothing to approve.")?;
    }
    let storage = session.storage()?;
    if options.revoke {
        return revoke(&entries, &storage, screen).await;
    }
    if options.changes {
        let names: Vec<&str> = entries.iter().map(|entry| entry.name()).collect();
        let started = session.only(&names);
        return session.run(started, async |host| approve_changes(host, &entries, screen).await).await;
    }
    let (mut approved, mut declined) = (Vec::new(), Vec::new());
    let (several, answer) = ask_together(&session, &entries, &storage).await?;
    for entry in &entries {
        let is_answered = several.contains(entry.name());
        if is_answered && answer == Some(false) {
            declined.push(entry.name());
            continue;
        }
        match ask_about(&session, entry, &storage).await? {
            None if is_answered && answer == Some(true) => approved.push(entry.name()),
            Some(true) => approved.push(entry.name()),
            Some(false) => declined.push(entry.name()),
            None if screen.is_json() => {}
            None => screen.line(Text::from(entry.name()).and(": it is approved already"))?,
        }
    }
    show::result(screen, &json!({ "approved": approved, "declined": declined }), |screen| {
        for name in &approved {
            screen.line(styled(GOOD, "Approved").and(" ").and(*name))?;
        }
        declined.iter().try_for_each(|name| screen.line(Text::from("Not approved ").and(*name)))
    })
}

/// Shows the requests of several servers, and asks about all of them at once; returns the servers and the answer, `None` if
/// the user wants to be asked about each, or there are not several.
async fn ask_together(
    session: &Session<'_>,
    entries: &[Arc<ServerEntry>],
    storage: &FileStorage,
) -> Result<(BTreeSet<String>, Option<bool>)> {
    let (mut names, mut requests) = (BTreeSet::new(), Vec::new());
    for entry in entries {
        if let Some(request) = session.pending_request(entry, &many::approvals(storage).await?)? {
            names.insert(entry.name().to_owned());
            requests.push(note_login(request, entry, session.common).await?);
        }
    }
    if requests.len() < 2 {
        return Ok((names, None));
    }
    let approved: Vec<_> = requests.iter().map(ApprovalRequest::approve).collect();
    let answered = ask(move |person| {
        requests.iter().for_each(|request| show_request(person, request));
        let question = format!("Approve exactly these {}? [y]es, [n]o, [e]ach: ", requests.len());
        Ok(match choose(person, &question, &["yes", "no", "each"], true)? {
            "yes" => Some(true),
            "each" => None,
            _ => Some(false),
        })
    });
    let answer = answered.await?.unwrap_or(Some(false));
    if answer == Some(true) {
        let insert = |approvals: &mut Approvals| {
            approved.into_iter().for_each(|approval| approvals.insert(approval));
        };
        many::change_approvals(storage, insert).await?;
    }
    Ok((names, answer))
}

/// Asks about a server until all of it is approved; returns whether it is. `None` if it was before.
pub(super) async fn ask_about(
    session: &Session<'_>,
    entry: &ServerEntry,
    storage: &FileStorage,
) -> Result<Option<bool>> {
    let mut answer = None;
    // A file of variables outside of the project is asked about once its server is approved.
    while let Some(request) = session.pending_request(entry, &many::approvals(storage).await?)? {
        let request = note_login(request, entry, session.common).await?;
        let approval = request.approve();
        let is_agreed = ask(move |person| {
            show_request(person, &request);
            agree(person, "Approve exactly this?")
        });
        answer = Some(is_agreed.await? == Some(true));
        if answer == Some(false) {
            break;
        }
        many::change_approvals(storage, move |approvals| approvals.insert(approval)).await?;
    }
    Ok(answer)
}

/// Says it if the server gets a login that the user has: the tokens in the store of `mcpio login`.
async fn note_login(
    request: ApprovalRequest,
    entry: &ServerEntry,
    common: &CommonOptions,
) -> Result<ApprovalRequest> {
    let TransportSpec::Http(http) = &entry.spec().transport else { return Ok(request) };
    if !http.url.is_literal() {
        return Ok(request);
    }
    let is_logged_in = login::stored_authorization(&http.url.text(), common).await?.is_some();
    Ok(if is_logged_in { request.with_login() } else { request })
}

/// The project's servers of these names; all of them if none is named.
fn chosen(config: &Config, names: &[String]) -> Result<Vec<Arc<ServerEntry>>> {
    let is_project = |entry: &Arc<ServerEntry>| entry.source().scope == Scope::Project;
    let of_project = || config.servers().iter().filter(|entry| is_project(entry));
    for name in names {
        match config.find(name) {
            Some(entry) if is_project(entry) => {}
            Some(_) => {
                let why = format_args!("{name:?} is your own server, not a project's: it needs no approval");
                return Err(CommandError::usage(why));
            }
            None => {
                let known = of_project().map(|entry| entry.name());
                let suggested = arguments::suggest(name, known);
                return Err(CommandError::usage(format_args!("no server is named {name:?}{suggested}")));
            }
        }
    }
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    Ok(of_project().filter(|entry| names.is_empty() || names.contains(entry.name())).cloned().collect())
}

async fn revoke(entries: &[Arc<ServerEntry>], storage: &FileStorage, screen: &mut Screen) -> Result {
    let mut revoked = Vec::new();
    for entry in entries {
        let (path, name) = (entry.source().path.clone(), entry.name().to_owned());
        if many::change_approvals(storage, move |approvals| approvals.revoke(&path, &name)).await? {
            revoked.push(entry.name());
        }
    }
    show::result(screen, &json!({ "revoked": revoked }), |screen| {
        revoked.iter().try_for_each(|name| screen.line(Text::from("No longer approved: ").and(*name)))
    })
}

/// Runs a dialog on the terminal, until a signal. The end of the input is no answer, and so no consent.
async fn ask<T: Send + 'static>(
    dialog: impl FnOnce(&mut TerminalPrompt) -> Result<T, NoAnswerError> + Send + 'static,
) -> Result<Option<T>> {
    let answered = smol::unblock(move || dialog(&mut TerminalPrompt::from_terminal()));
    error::until_signal(async { Ok(answered.await.ok()) }).await
}

/// Asks a question on the terminal whose answer is yes or no. The end of the input is no consent.
pub(crate) async fn is_agreed(question: &'static str) -> Result<bool> {
    Ok(ask(move |person| agree(person, question)).await? == Some(true))
}

fn show_request(person: &mut TerminalPrompt, request: &ApprovalRequest) {
    person.print("");
    person.print(styled(HEADING, "A project asks to use a server:"));
    for line in request.lines() {
        let start = Text::from("  ").and(styled(QUIET, line.label)).and(": ");
        print_marked(person, start, [line.text.as_str()]);
    }
    for warning in request.warnings() {
        print_marked(person, styled(BAD, "  Warning: "), [format!("{warning}.").as_str()]);
    }
    person.print("Any change of this asks again. The content of programs and scripts is not part of it.");
}

/// Prints lines of others behind a start of ours. Every further row has a mark, so that none passes for a line of ours.
fn print_marked<'a>(person: &mut TerminalPrompt, mut start: Text, lines: impl IntoIterator<Item = &'a str>) {
    const MARK: &str = "    | ";
    let columns = person.columns();
    let room = |start: &Text| columns.saturating_sub(width(&start.plain()));
    for line in lines {
        for row in SafeText::wrap_line(line, room(&start), room(&Text::from(MARK))) {
            person.print(start.and(row));
            start = styled(QUIET, MARK);
        }
    }
}

/// Asks until the answer is yes or no. An empty line is neither. A program that answers for its user repeats a word of the
/// question, so that none agrees to what it has not read.
fn agree(person: &mut TerminalPrompt, question: &str) -> Result<bool, NoAnswerError> {
    if person.is_person() {
        return Ok(choose(person, &format!("{question} [y]es, [n]o: "), &["yes", "no"], true)? == "yes");
    }
    let mut code = [0; 4];
    getrandom::fill(&mut code).map_err(|_| NoAnswerError)?;
    let yes = format!("yes {:08x}", u32::from_be_bytes(code));
    person.print(format!("{question} To agree, write: {yes}"));
    Ok(person.ask("")? == yes)
}

/// Shows what servers have changed since their approval, and asks about it.
async fn approve_changes(host: &Host, entries: &[Arc<ServerEntry>], screen: &mut Screen) -> Result {
    wake_idle(host).await;
    for entry in entries {
        let name = entry.name();
        match ask_about_changes(host, name).await? {
            None => screen.line(Text::from(name).and(": nothing waits for your approval"))?,
            Some(0) => {}
            Some(count) => {
                screen.line(styled(GOOD, "Approved").and(format!(" {count} changes of ")).and(name))?;
            }
        }
    }
    Ok(())
}

/// Shows what a server has changed since its approval, and asks about it. Returns how many changes are approved; `None` if
/// there are none.
pub(super) async fn ask_about_changes(host: &Host, name: &str) -> Result<Option<usize>> {
    let (changes, shown) = host.catalogue(|catalogue| {
        let changes: Vec<PinChange> = catalogue.pending_changes(name).cloned().collect();
        let tools = catalogue.snapshot(name).and_then(|lists| lists.tools).unwrap_or_default();
        let described: Vec<(String, Option<String>)> = changes
            .iter()
            .map(|change| {
                let is_changed = |tool: &&Tool| change.kind == ItemKind::Tool && tool.name == change.item;
                let definition = tools.iter().find(is_changed).and_then(|it| serde_json::to_value(it).ok());
                (change.to_string(), definition.map(|definition| format!("{definition:#}")))
            })
            .collect();
        (changes, described)
    });
    if changes.is_empty() {
        return Ok(None);
    }
    let server = name.to_owned();
    let is_agreed = ask(move |person| {
        person.print("");
        person.print(styled(HEADING, &server).and(" has changed since you approved it:"));
        for (change, definition) in shown {
            print_marked(person, Text::from("  "), [change.as_str()]);
            if let Some(definition) = definition {
                print_marked(person, Text::from("    now: "), definition.lines());
            }
        }
        agree(person, "Approve these changes?")
    });
    Ok(Some(match is_agreed.await? {
        Some(true) => host.approve_changes(name, &changes),
        _ => 0,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_proto::host::config::{ConfigFile, Source};

    fn entry(server: serde_json::Value) -> Arc<ServerEntry> {
        let text = json!({ "mcpServers": { "a": server } }).to_string();
        let file = ConfigFile::parse(Source::project("/srv/project/.mcp.json"), text.as_bytes());
        Arc::new(file.servers[0].clone())
    }

    #[test]
    fn request_is_shown_whole_without_unsafe_characters() {
        let entry = entry(json!({
            "command": "sh",
            "args": ["-c", "x\u{1b}[2J\ny"],
            "cwd": "/work",
            "env": { "PATH": "/tmp", "TOKEN": "${TOKEN}" },
        }));
        let request = entry.permit(&Approvals::new()).unwrap_err();
        let (screen, record) = Screen::recorded(Some(80));
        show_request(&mut TerminalPrompt::new("", screen), &request);
        let shown = record.plain();
        for part in [
            "file: /srv/project/.mcp.json",
            "starts the program: sh",
            "with the argument: x\\u{1b}[2J\\ny",
            "in the folder: /work",
            "sets the variable: PATH=/tmp",
            "sets the variable: TOKEN=${TOKEN}",
            "reads the variable: TOKEN",
            "Warning: the program is a shell",
            "the variable PATH can make programs run other code",
        ] {
            assert!(shown.contains(part), "{part:?} in {shown}");
        }
    }

    #[test]
    fn long_argument_cannot_pass_for_another_line_on_a_terminal_of_any_width() {
        for columns in 40..120 {
            let argument = format!("x{}  in the folder: /safe", " ".repeat(columns - 25));
            let entry = entry(json!({ "command": "x", "args": [argument, "緑".repeat(300)] }));
            let request = entry.permit(&Approvals::new()).unwrap_err();
            let (screen, record) = Screen::recorded(Some(columns));
            show_request(&mut TerminalPrompt::new("", screen), &request);
            for line in record.plain().lines().filter(|line| line.contains('緑') || line.contains("/safe")) {
                let is_ours = line.starts_with("  with the argument: ") || line.starts_with("    | ");
                assert!(is_ours && width(line) <= columns, "{line:?}");
            }
        }
    }

    #[test]
    fn consent_must_be_explicit() {
        for (typed, expected) in [
            ("y\n", Ok(true)),
            ("\nperhaps\nyes\n", Ok(true)),
            ("n\n", Ok(false)),
            ("", Err(NoAnswerError)),
            ("\n", Err(NoAnswerError)),
        ] {
            let (screen, _) = Screen::recorded(Some(80));
            let mut person = TerminalPrompt::new(typed, screen);
            assert_eq!(agree(&mut person, "Approve?"), expected, "{typed:?}");
            let (screen, record) = Screen::recorded(None);
            let mut program = TerminalPrompt::new(typed, screen).of_program();
            assert_ne!(agree(&mut program, "Approve?"), Ok(true), "{}", record.plain());
        }
    }

    #[test]
    fn only_servers_of_projects_are_approved() {
        let text = br#"{ "mcpServers": { "own": { "command": "a" } } }"#;
        let theirs = br#"{ "mcpServers": { "theirs": { "command": "b" } } }"#;
        let config = Config::merge([
            ConfigFile::parse(Source::user("/home/ann/mcp.json"), text),
            ConfigFile::parse(Source::project("/srv/project/.mcp.json"), theirs),
        ]);
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            chosen(&config, &names)
                .map(|entries| entries.iter().map(|it| it.name().to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap(), ["theirs"]);
        assert_eq!(names(&["theirs"]).unwrap(), ["theirs"]);
        for name in ["own", "thiers"] {
            assert!(names(&[name]).is_err(), "{name}");
        }
    }
}
