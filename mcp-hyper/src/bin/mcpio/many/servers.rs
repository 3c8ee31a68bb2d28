//! The rows of `mcpio servers`, which say what works, and `mcpio doctor`.

use std::io;
use std::time::{Duration, Instant};

use mcp_hyper::host::{Host, HostEvent, ServerReport};
use mcp_proto::consent::SafeText;
use mcp_proto::host::config::Scope;
use mcp_proto::host::control::{Failure, Status};
use mcp_proto::host::tools::Freshness;
use serde_json::{Value, json};
use smol::future::poll_once;

use super::config::{Finding, FindingKind, check_files};
use super::{Session, wake_idle};
use crate::error::{CommandError, Result};
use crate::many;
use crate::options::{CommonOptions, ConfigOptions};
use crate::show::{self, Table, fact_lines};
use crate::terminal::{BAD, GOOD, NAME, QUIET, Screen, Text, styled, styled_block};

/// A narrower terminal has no columns for times.
const WIDE: usize = 70;

/// A row of the table of servers.
pub(super) struct Row {
    pub(super) report: ServerReport,
    /// The definitions that it has changed since the user's approval, and that are hidden.
    pub(super) changes: Vec<String>,
}

impl Session<'_> {
    /// The servers of a host, sorted by name.
    pub(super) fn rows(&self, host: &Host) -> Vec<Row> {
        let row = |report: ServerReport| {
            let changes = host.catalogue(|catalogue| {
                catalogue.pending_changes(&report.name).map(ToString::to_string).collect()
            });
            Row { changes, report }
        };
        host.servers().into_iter().map(row).collect()
    }
}

impl Row {
    /// Why the server is not connected.
    pub(super) fn failure(&self) -> Option<&Failure> {
        self.report.failure.as_ref().filter(|_| self.report.status != Status::Connected)
    }

    pub(super) fn status(&self, goes_on: bool) -> String {
        many::status_name(self.report.status, goes_on)
    }

    /// What a user must know about hidden definitions.
    pub(super) fn hidden(&self) -> Option<String> {
        (!self.changes.is_empty()).then(|| {
            let changes = self.changes.join("; ");
            format!("its definitions have changed since you approved it, and are hidden: {changes}")
        })
    }

    /// Why the server cannot be used as a whole, and what mends it: in a command that goes on, a key.
    pub(super) fn reason(&self, goes_on: bool) -> String {
        let approve = if goes_on { "[a]pprove shows it" } else { "see mcpio approve" };
        match self.report.status {
            Status::Unapproved => format!("a project's server: {approve}"),
            _ if !self.changes.is_empty() => {
                let approve = if goes_on { approve } else { "see mcpio approve --changes" };
                format!("changed and hidden: {approve}: {}", self.changes.join("; "))
            }
            _ => self.failure().map(|failure| failure.reason.clone()).unwrap_or_default(),
        }
    }

    pub(super) fn tools(&self) -> String {
        match self.report.lists {
            Freshness::Unlisted => String::new(),
            Freshness::Current => self.report.items.tools.to_string(),
            Freshness::Cached | Freshness::Stale => format!("{} as of before", self.report.items.tools),
        }
    }

    /// The file and the line of its entry; empty without a file.
    pub(super) fn place(&self) -> String {
        let (path, line) = (&self.report.entry.source().path, self.report.entry.line());
        line.map_or_else(|| path.clone(), |line| format!("{path}:{line}"))
    }

    pub(super) fn as_json(&self, goes_on: bool) -> Value {
        let Self { report, changes } = self;
        let (entry, steps, info) = (&report.entry, &report.steps, report.info.as_ref());
        let mut json = many::cause(report);
        json["status"] = self.status(goes_on).into();
        json["tools"] = (report.lists != Freshness::Unlisted).then_some(report.items.tools).into();
        json["hiddenChanges"] = json!(changes);
        json["current"] = (report.lists == Freshness::Current).into();
        json["startMs"] = report.start_time.map(milliseconds).into();
        json["stepsMs"] = json!({
            "lookUp": steps.look_up.map(milliseconds),
            "handshake": steps.handshake.map(milliseconds),
            "tools": steps.tools.map(milliseconds),
            "lists": steps.lists.map(milliseconds),
        });
        json["attempts"] = report.attempts.into();
        json["transport"] = entry.spec().transport.name().into();
        json["serverInfo"] = json!(info.and_then(|info| info.implementation.as_ref()));
        json["revision"] = json!(info.map(|info| info.revision.as_str()));
        json["scope"] = match entry.source().scope {
            Scope::User => "user".into(),
            Scope::Project => "project".into(),
        };
        json["application"] = entry.source().application.as_str().into();
        json["file"] = entry.source().path.as_str().into();
        json["line"] = entry.line().into();
        json
    }

    /// Whether there is something new to say.
    pub(super) fn differs(&self, other: &Self) -> bool {
        let said = |row: &Self| {
            (row.report.status, row.report.since, row.report.items, row.report.lists, row.changes.len())
        };
        said(self) != said(other)
    }
}

/// Whether any server is connected, or would be by a call, if any is switched on.
pub(super) fn connected(rows: &[Row]) -> Result {
    let mut on =
        rows.iter().map(|row| row.report.status).filter(|status| *status != Status::Disabled).peekable();
    let has_some = on.peek().is_some();
    match on.any(|status| matches!(status, Status::Connected | Status::Idle)) {
        false if has_some => Err(CommandError::no_server()),
        _ => Ok(()),
    }
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10_000.0).round() / 10.0
}

/// A duration in two or three digits.
fn short(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds @ 1..=9 => format!("{seconds}.{} s", time.subsec_millis() / 100),
        seconds @ 10..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

pub(super) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["server", "status", "tools", "start", "reason"]);
    for row in rows {
        let start = row.report.start_time.map(short).unwrap_or_default();
        table.row([&row.report.name, &row.status(false), &row.tools(), &start, &row.reason(false)]);
    }
    table
}

pub(super) fn live_table(rows: &[Row], columns: usize) -> Table {
    let is_wide = columns >= WIDE;
    let mut table = Table::new(match is_wide {
        true => &["server", "status", "since", "tools", "start", "reason"],
        false => &["server", "status", "tools", "reason"],
    });
    for row in rows {
        let report = &row.report;
        let (name, status, tools, reason) = (&*report.name, row.status(true), row.tools(), row.reason(true));
        if is_wide {
            let start = report.start_time.map(short).unwrap_or_default();
            table.row([name, &status, &since(report.since), &tools, &start, &reason]);
        } else {
            table.row([name, &status, &tools, &reason]);
        }
    }
    table
}

fn since(time: Instant) -> String {
    short(Instant::now().saturating_duration_since(time))
}

/// One server, with so many lines of its standard error as there is room for, ten at most.
pub(super) fn details(row: &Row, columns: usize, room: usize) -> Vec<Text> {
    let report = &row.report;
    let mut facts = vec![("status", format!("{}, since {}", row.status(true), since(report.since)))];
    let next = report.next_attempt.map(|at| at.saturating_duration_since(Instant::now()));
    facts.extend(next.map(|next| ("next attempt", format!("in {}", short(next)))));
    facts.push(("reason", row.reason(true)));
    facts.push(("tools", row.tools()));
    let steps = &report.steps;
    let steps = [("values", steps.look_up), ("handshake", steps.handshake), ("tools", steps.tools)];
    let steps = steps.into_iter().filter_map(|(step, time)| Some(format!("{step} {}", short(time?))));
    facts.push(("start", steps.collect::<Vec<_>>().join(", ")));
    if let Some(info) = &report.info {
        let named = info.implementation.as_ref().map(|it| format!("{} {}", it.name, it.version));
        facts.push(("server", named.unwrap_or_default()));
        facts.push(("protocol", info.revision.as_str().to_owned()));
    }
    facts.push(("file", row.place()));
    facts.retain(|(_, value)| !value.is_empty());
    let mut lines = vec![styled(NAME, &report.name)];
    lines.extend(fact_lines(Some(columns), &facts));
    let stderr = stderr(row);
    let room_of_line = columns.saturating_sub(2).max(1);
    let wrapped = |line| SafeText::wrap_line(line, room_of_line, room_of_line);
    let stderr: Vec<_> = stderr.lines().flat_map(wrapped).collect();
    if !stderr.is_empty() {
        lines.push(styled(QUIET, "standard error"));
    }
    let left = room.saturating_sub(lines.len());
    let last = stderr.get(stderr.len().saturating_sub(left)..).unwrap_or_default();
    lines.extend(last.iter().map(|line| styled(BAD, "| ").and(line)));
    lines
}

/// The end of the standard error of the program that runs, or else of the last one.
fn stderr(row: &Row) -> String {
    let failed = row.failure().map(|failure| failure.stderr.as_str()).unwrap_or_default();
    tail(if row.report.stderr.is_empty() { failed } else { &row.report.stderr })
}

pub(super) fn json_of(row: &Row) -> Value {
    let mut json = row.as_json(true);
    json["stderr"] = stderr(row).into();
    json
}

pub(super) fn print_row(row: &Row, screen: &mut Screen) -> io::Result<()> {
    if screen.is_json() {
        return screen.line(Text::json(&row.as_json(true).to_string()));
    }
    let (tools, reason) = (row.tools(), row.reason(true));
    let mut line = format!("{}: {}", row.report.name, row.status(true));
    if !tools.is_empty() {
        line.push_str(&format!(", tools: {tools}"));
    }
    if !reason.is_empty() {
        line.push_str(&format!(": {reason}"));
    }
    screen.line(line)
}

/// How many lines of a server's standard error are shown.
const STDERR_LINES: usize = 10;

/// Checks the files, then starts every server that can start, and reports the failures.
pub(crate) async fn doctor(options: &ConfigOptions, common: &CommonOptions, screen: &mut Screen) -> Result {
    let session = Session::read(options, common)?;
    let approvals = many::approvals(&session.storage()?).await?;
    let mut findings = check_files(&session.config);
    let mut startable = Vec::new();
    for entry in session.config.servers() {
        let found = session.check_entry(entry, &approvals);
        if found.is_empty() {
            startable.push(entry.name());
        }
        findings.extend(found);
        findings.extend(session.check_own_entry(entry));
    }
    if !startable.is_empty() {
        let checked = session.run(session.only(&startable), async |host| Ok(session.check_host(host).await));
        findings.extend(checked.await?);
    }
    // The files first, then server by server.
    findings.sort_by(|a, b| a.server.cmp(&b.server));
    let is_ok = findings.iter().all(|finding| finding.kind != FindingKind::Wrong);
    show::result(screen, &json!({ "ok": is_ok, "findings": findings }), |screen| print(&findings, screen))?;
    if is_ok { Ok(()) } else { Err(CommandError::in_result("something is wrong")) }
}

impl Session<'_> {
    /// Waits until every server is connected or has failed.
    async fn check_host(&self, host: &Host) -> Vec<Finding> {
        let mut events = host.events();
        wake_idle(host).await;
        let mut findings = Vec::new();
        for row in self.rows(host) {
            let name = &*row.report.name;
            findings.push(self.check_server(&row));
            if let Some(what) = row.hidden() {
                let next = self.changes_hint(name);
                findings.push(Finding::new(Some(name), FindingKind::Wrong, what).with_next([next]));
            }
        }
        while let Some(Some(event)) = poll_once(events.next()).await {
            findings.extend(note(&event));
        }
        findings
    }

    fn check_server(&self, row: &Row) -> Finding {
        let ServerReport { name, status, start_time, info, .. } = &row.report;
        if *status == Status::Connected {
            let start = start_time.map(|time| format!(" in {}", short(time))).unwrap_or_default();
            let revision = info.as_ref().map(|info| format!(", {}", info.revision.as_str()));
            let tools = match row.report.items.tools {
                1 => "1 tool".to_owned(),
                count => format!("{count} tools"),
            };
            let what = format!("connected{start}, {tools}{}", revision.unwrap_or_default());
            return Finding::new(Some(name), FindingKind::Good, what);
        }
        let failure = row.failure();
        let reason = failure.map_or_else(|| status.to_string(), |failure| failure.reason.clone());
        let wait = reason.contains(" within ").then(|| "to wait longer: --timeout SECONDS".to_owned());
        let finding = Finding::new(Some(name), FindingKind::Wrong, reason);
        let mut finding = finding.with_next(self.hint(name, *status).into_iter().chain(wait));
        finding.stderr = failure.map(|failure| tail(&failure.stderr)).filter(|text| !text.is_empty());
        finding
    }
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
        for line in finding.stderr.iter().flat_map(|text| text.lines()) {
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
    fn times_have_two_or_three_digits() {
        for (milliseconds, expected) in
            [(7, "7 ms"), (1250, "1.2 s"), (45_000, "45 s"), (180_000, "3 min"), (10_800_000, "3 h")]
        {
            assert_eq!(short(Duration::from_millis(milliseconds)), expected);
        }
    }

    #[test]
    fn findings_are_printed_without_unsafe_characters_or_forged_lines() {
        let mut finding = Finding::new(Some("a\x1b[2J"), FindingKind::Wrong, "it failed\nok    b: fine");
        finding.stderr = Some("one\ntwo\x1b[2J".to_owned());
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
