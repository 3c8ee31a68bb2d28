//! `mcpio approve`: the user's approval of the servers that a project's file names.

use std::collections::BTreeSet;
use std::sync::Arc;

use mcp_hyper::host::{FileStorage, Host};
use mcp_proto::consent::SafeText;
use mcp_proto::host::config::{Config, Scope, ServerEntry, TransportSpec};
use mcp_proto::host::consent::ApprovalRequest;
use mcp_proto::host::tools::{ItemKind, PinChange};
use serde_json::json;

use super::config::{Configuration, pending_request};
use super::{Session, wake_idle};
use crate::error::{self, CommandError};
use crate::many;
use crate::options::{ApproveOptions, CommonOptions};
use crate::server_requests::{NoAnswerError, TerminalPrompt, is_person_present};
use crate::terminal::Screen;
use crate::text::{BAD, GOOD, HEADING, QUIET, Text, styled, width};
use crate::{arguments, show, tokens};

/// Shows the whole request of each server, and asks the user. Nothing starts.
pub(crate) async fn approve(
    options: &ApproveOptions,
    common: &CommonOptions,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    if !options.revoke && !is_person_present() {
        let why = "only a person can approve: run this on a terminal";
        return Err(CommandError::Usage(why.to_owned()));
    }
    let configuration = Configuration::read(&options.config.options)?;
    let config = configuration.merged_with_messages()?;
    let entries = chosen(&config, &options.servers)?;
    if entries.is_empty() && !common.json {
        screen.line("The files have no server of a project: there is nothing to approve.")?;
    }
    let storage = many::storage(&options.config.options)?;
    if options.revoke {
        return revoke(&entries, &storage, common, screen).await;
    }
    if options.changes {
        let names: Vec<&str> = entries.iter().map(|entry| entry.name()).collect();
        let session = Session::new(&options.config.options, common, &configuration);
        let started = configuration.only(&names);
        return session.run(started, async |host| approve_changes(host, &entries, screen).await).await;
    }
    let (mut approved, mut declined) = (Vec::new(), Vec::new());
    for entry in entries {
        let mut is_asked = false;
        // A file of variables outside of the project is asked about once its server is approved.
        while let Some(request) = pending_request(&entry, &many::approvals(&storage).await?, &configuration)?
        {
            is_asked = true;
            let request = note_login(request, &entry, common).await?;
            let shown = request.clone();
            let is_agreed = ask(move |person| {
                show_request(person, &shown);
                agree(person, "Approve exactly this? [y]es, [n]o: ")
            });
            if !is_agreed.await? {
                declined.push(entry.name().to_owned());
                break;
            }
            let approval = request.approve();
            many::change_approvals(&storage, move |approvals| approvals.insert(approval.clone())).await?;
        }
        if !is_asked && !common.json {
            screen.line(Text::from(entry.name()).and(": it is approved already"))?;
        } else if is_asked && declined.last().is_none_or(|name| name != entry.name()) {
            approved.push(entry.name().to_owned());
        }
    }
    if common.json {
        return show::json(screen, &json!({ "approved": approved, "declined": declined }));
    }
    for name in approved {
        screen.line(styled(GOOD, "Approved").and(" ").and(name))?;
    }
    for name in declined {
        screen.line(Text::from("Not approved ").and(name))?;
    }
    Ok(())
}

/// Says it if the server gets a login that the user has: the tokens in the store of `mcpio login`.
async fn note_login(
    request: ApprovalRequest,
    entry: &ServerEntry,
    common: &CommonOptions,
) -> Result<ApprovalRequest, CommandError> {
    let TransportSpec::Http(http) = &entry.spec().transport else { return Ok(request) };
    if !http.url.is_literal() {
        return Ok(request);
    }
    let is_logged_in = tokens::stored_authorization(&http.url.text(), common).await?.is_some();
    Ok(if is_logged_in { request.with_login() } else { request })
}

/// The project's servers of these names; all of them if none is named.
fn chosen(config: &Config, names: &[String]) -> Result<Vec<Arc<ServerEntry>>, CommandError> {
    let is_project = |entry: &Arc<ServerEntry>| entry.source().scope == Scope::Project;
    let of_project = || config.servers().iter().filter(|entry| is_project(entry));
    for name in names {
        match config.find(name) {
            Some(entry) if is_project(entry) => {}
            Some(_) => {
                let why = format!("{name:?} is your own server, not a project's: it needs no approval");
                return Err(CommandError::Usage(why));
            }
            None => {
                let known = of_project().map(|entry| entry.name());
                let suggested = arguments::suggest(name, known);
                return Err(CommandError::Usage(format!("no server is named {name:?}{suggested}")));
            }
        }
    }
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    Ok(of_project().filter(|entry| names.is_empty() || names.contains(entry.name())).cloned().collect())
}

async fn revoke(
    entries: &[Arc<ServerEntry>],
    storage: &FileStorage,
    common: &CommonOptions,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let mut revoked = Vec::new();
    for entry in entries {
        let (path, name) = (entry.source().path.clone(), entry.name().to_owned());
        if many::change_approvals(storage, move |approvals| approvals.revoke(&path, &name)).await? {
            revoked.push(entry.name());
        }
    }
    if common.json {
        return show::json(screen, &json!({ "revoked": revoked }));
    }
    for name in revoked {
        screen.line(Text::from("No longer approved: ").and(name))?;
    }
    Ok(())
}

/// Runs a dialog on the terminal, until a signal.
async fn ask(
    dialog: impl FnOnce(&mut TerminalPrompt<std::io::BufReader<std::io::Stdin>>) -> Result<bool, NoAnswerError>
    + Send
    + 'static,
) -> Result<bool, CommandError> {
    let answered = smol::unblock(move || dialog(&mut TerminalPrompt::from_terminal()));
    // The end of the input is no consent.
    error::until_signal(async { Ok(answered.await.unwrap_or(false)) }).await
}

fn show_request(person: &mut TerminalPrompt<impl std::io::BufRead>, request: &ApprovalRequest) {
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
fn print_marked<'a>(
    person: &mut TerminalPrompt<impl std::io::BufRead>,
    mut start: Text,
    lines: impl IntoIterator<Item = &'a str>,
) {
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

/// Asks until the answer is yes or no. An empty line is neither.
fn agree(
    person: &mut TerminalPrompt<impl std::io::BufRead>,
    question: &'static str,
) -> Result<bool, NoAnswerError> {
    loop {
        match person.ask(question)?.to_lowercase().as_str() {
            "y" | "yes" => return Ok(true),
            "n" | "no" => return Ok(false),
            _ => person.print("Please answer with one of these letters."),
        }
    }
}

/// Shows what servers have changed since their approval, and asks about it.
async fn approve_changes(
    host: &Host,
    entries: &[Arc<ServerEntry>],
    screen: &mut Screen,
) -> Result<(), CommandError> {
    host.ready().await;
    wake_idle(host).await;
    for entry in entries {
        let name = entry.name();
        let (changes, shown) = host.catalogue(|catalogue| {
            let changes: Vec<PinChange> = catalogue.pending_changes(name).cloned().collect();
            let tools = catalogue.snapshot(name).and_then(|lists| lists.tools).unwrap_or_default();
            let described: Vec<(String, Option<String>)> = changes
                .iter()
                .map(|change| {
                    let is_changed = |tool: &&mcp_proto::schema::Tool| tool.name == change.item;
                    let tool = tools.iter().find(is_changed).filter(|_| change.kind == ItemKind::Tool);
                    (
                        change.to_string(),
                        tool.and_then(|tool| serde_json::to_value(tool).ok()).map(|tool| format!("{tool:#}")),
                    )
                })
                .collect();
            (changes, described)
        });
        if changes.is_empty() {
            screen.line(Text::from(name).and(": nothing waits for your approval"))?;
            continue;
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
            agree(person, "Approve these changes? [y]es, [n]o: ")
        });
        if is_agreed.await? {
            let count = host.approve_changes(name, &changes);
            screen.line(styled(GOOD, "Approved").and(format!(" {count} changes of ")).and(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_proto::host::config::{ConfigFile, Source};
    use mcp_proto::host::consent::Approvals;

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
        show_request(&mut TerminalPrompt::new(&b""[..], screen), &request);
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
            show_request(&mut TerminalPrompt::new(&b""[..], screen), &request);
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
            let mut person = TerminalPrompt::new(typed.as_bytes(), screen);
            assert_eq!(agree(&mut person, "Approve? "), expected, "{typed:?}");
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
            assert!(matches!(names(&[name]), Err(CommandError::Usage(_))), "{name}");
        }
    }
}
