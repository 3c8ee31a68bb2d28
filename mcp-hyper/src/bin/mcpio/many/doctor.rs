//! `mcpio doctor`: the mistakes and failures of each server, with the commands that mend them.

use std::io;

use mcp_hyper::host::{Host, HostEvent};
use mcp_proto::host::config::{Config, ServerEntry};
use mcp_proto::host::control::Status;
use mcp_proto::host::tools::PinChange;
use serde_json::{Value, json};
use smol::future::poll_once;

use super::checks::{Finding, FindingKind, check_entry, check_files, check_own_entry};
use super::files::Configuration;
use super::hints;
use super::options::ConfigOptions;
use super::servers::{Row, rows, short};
use super::session::{Session, wake_idle};
use super::state;
use crate::error::CommandError;
use crate::options::CommonOptions;
use crate::show;
use crate::terminal::Screen;
use crate::text::{BAD, GOOD, NAME, QUIET, Text, styled, styled_block};

/// How many lines of a server's standard error are shown.
const STDERR_LINES: usize = 10;

/// Checks the files, then starts every server that can start, and reports the failures.
pub(crate) async fn doctor(
    options: &ConfigOptions,
    common: &CommonOptions,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let configuration = Configuration::read(options)?;
    let config = configuration.merged();
    let approvals = state::approvals(&state::storage(options)?).await?;
    let mut findings = check_files(&config);
    let mut startable = Vec::new();
    for entry in config.servers() {
        let found = check_entry(entry, &approvals, options, &configuration);
        if found.is_empty() {
            startable.push(entry.name());
        }
        findings.extend(found);
        findings.extend(check_own_entry(entry));
    }
    if !startable.is_empty() {
        let session = Session::new(options, common, &configuration);
        let started = configuration.only(&startable);
        findings
            .extend(session.run(started, async |host| Ok(check_host(host, &config, options).await)).await?);
    }
    // The files first, then server by server.
    findings.sort_by(|a, b| a.server.cmp(&b.server));
    let wrong = findings.iter().filter(|finding| finding.kind == FindingKind::Wrong).count();
    if common.json {
        let shown: Vec<Value> = findings.iter().map(as_json).collect();
        show::json(screen, &json!({ "ok": wrong == 0, "findings": shown }))?;
    } else {
        print(&findings, screen)?;
    }
    if wrong == 0 { Ok(()) } else { Err(CommandError::Unhealthy) }
}

/// Waits until every server is connected or has failed.
async fn check_host(host: &Host, config: &Config, options: &ConfigOptions) -> Vec<Finding> {
    let mut events = host.events();
    host.ready().await;
    wake_idle(host).await;
    let mut findings = Vec::new();
    for row in rows(host, config) {
        let Some(entry) = config.find(&row.report.name) else { continue };
        findings.push(check_server(&row, entry, options));
        let changes: Vec<PinChange> =
            host.catalogue(|catalogue| catalogue.pending_changes(entry.name()).cloned().collect());
        if !changes.is_empty() {
            findings.push(changed(entry, &changes, options));
        }
    }
    while let Some(Some(event)) = poll_once(events.next()).await {
        findings.extend(note(&event));
    }
    findings
}

fn check_server(row: &Row, entry: &ServerEntry, options: &ConfigOptions) -> Finding {
    let name = Some(entry.name());
    if row.report.status == Status::Connected {
        let start = row.report.start_time.map(|time| format!(" in {}", short(time))).unwrap_or_default();
        let revision = row.report.info.as_ref().map(|info| format!(", {}", info.revision.as_str()));
        let tools = match row.tools {
            1 => "1 tool".to_owned(),
            count => format!("{count} tools"),
        };
        let what = format!("connected{start}, {tools}{}", revision.unwrap_or_default());
        return Finding::new(name, FindingKind::Good, what);
    }
    let reason = match row.failure() {
        Some(failure) => failure.reason.clone(),
        None => row.report.status.to_string(),
    };
    let mut next: Vec<String> = hints::for_status(options, entry, row.report.status).into_iter().collect();
    if reason.contains(" within ") {
        next.push("to wait longer: --timeout SECONDS".to_owned());
    }
    let mut finding = Finding::new(name, FindingKind::Wrong, reason).with_next(next);
    finding.stderr = row.failure().map(|failure| tail(&failure.stderr)).unwrap_or_default();
    finding
}

fn changed(entry: &ServerEntry, changes: &[PinChange], options: &ConfigOptions) -> Finding {
    let listed: Vec<String> = changes.iter().map(ToString::to_string).collect();
    let what =
        format!("its definitions have changed since you approved it, and are hidden: {}", listed.join("; "));
    let next = hints::approve_changes(options, entry.name());
    Finding::new(Some(entry.name()), FindingKind::Wrong, what).with_next([next])
}

fn note(event: &HostEvent) -> Option<Finding> {
    let (server, what) = match event {
        HostEvent::Rejected { server, items, count } => {
            let first = items.first().map(|item| format!(", such as {item}")).unwrap_or_default();
            (Some(&**server), format!("{count} of its definitions are left out{first}"))
        }
        HostEvent::Collision(collision) => (None, format!("two items have the name {}", collision.name)),
        _ => return None,
    };
    Some(Finding::new(server, FindingKind::Note, what))
}

/// The last lines of a text.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines.get(lines.len().saturating_sub(STDERR_LINES)..).unwrap_or_default().join("\n")
}

fn as_json(finding: &Finding) -> Value {
    json!({
        "server": finding.server,
        "kind": match finding.kind {
            FindingKind::Good => "good",
            FindingKind::Note => "note",
            FindingKind::Wrong => "wrong",
        },
        "what": finding.what,
        "stderr": Some(&finding.stderr).filter(|text| !text.is_empty()),
        "next": finding.next,
    })
}

fn print(findings: &[Finding], screen: &mut Screen) -> io::Result<()> {
    for finding in findings {
        let (style, mark) = match finding.kind {
            FindingKind::Good => (GOOD, "ok   "),
            FindingKind::Note => (QUIET, "note "),
            FindingKind::Wrong => (BAD, "WRONG"),
        };
        let mut label = styled(style, mark).and(" ");
        if let Some(server) = &finding.server {
            label = label.and(styled(NAME, server)).and(":");
        }
        screen.labelled(label, Text::block(finding.what.trim_end()))?;
        for line in finding.stderr.lines() {
            screen.labelled("      |", styled_block(QUIET, line))?;
        }
        for next in &finding.next {
            screen.line(Text::from("      → ").and(styled(NAME, next)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_printed_without_unsafe_characters_or_forged_lines() {
        let mut finding = Finding::new(Some("a\x1b[2J"), FindingKind::Wrong, "it failed\nok    b: fine");
        finding.stderr = "one\ntwo\x1b[2J".to_owned();
        let (mut screen, record) = Screen::recorded(None);
        print(&[finding.with_next(["mcpio approve --config x a".to_owned()])], &mut screen).unwrap();
        let expected = "WRONG a\\u{1b}[2J: it failed\n    ok    b: fine\n      | one\n      | two\\u{1b}[2J\n      → mcpio approve --config x a\n";
        assert_eq!(record.plain(), expected);
    }

    #[test]
    fn end_of_standard_error_has_a_bounded_number_of_lines() {
        let lines: Vec<String> = (0..30).map(|number| number.to_string()).collect();
        assert_eq!(tail(&lines.join("\n")).lines().next(), Some("20"));
        assert_eq!(tail("one\n"), "one");
    }
}
