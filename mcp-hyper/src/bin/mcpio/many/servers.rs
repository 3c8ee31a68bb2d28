//! `mcpio servers`: which servers work.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_hyper::host::{Host, HostEvent, ServerReport};
use mcp_proto::host::config::{Config, Scope};
use mcp_proto::host::control::{Failure, Status};
use mcp_proto::host::tools::Freshness;
use serde_json::{Value, json};
use smol::Timer;
use smol::future::or;

use super::files::Configuration;
use super::options::ConfigOptions;
use super::session::Session;
use crate::error::CommandError;
use crate::options::CommonOptions;
use crate::show;
use crate::table::Table;
use crate::terminal::{LiveArea, Screen};
use crate::text::{QUIET, Text, styled};

/// How often the live table is drawn again.
const TICK: Duration = Duration::from_secs(1);

/// Starts all servers and shows them: once, or until a signal.
pub(crate) async fn servers(
    options: &ConfigOptions,
    common: &CommonOptions,
    watch: bool,
    screen: &mut Screen,
) -> Result<(), CommandError> {
    let configuration = Configuration::read(options)?;
    let config = configuration.merged_with_messages()?;
    let session = Session::new(options, common, &configuration);
    session
        .run(config.clone(), async |host| {
            if watch {
                return follow(host, &config, screen, common.json).await;
            }
            host.ready().await;
            let rows = rows(host, &config);
            if common.json {
                let servers: Vec<Value> = rows.iter().map(|row| row.as_json(false)).collect();
                return show::json(screen, &json!({ "servers": servers }));
            }
            Ok(table(&rows, false).print(screen)?)
        })
        .await
}

/// A row of the table of servers.
pub(super) struct Row {
    pub(super) report: ServerReport,
    /// How many of its tools can be used.
    pub(super) tools: usize,
    scope: Scope,
    path: String,
}

/// The servers of a host, sorted by name.
pub(super) fn rows(host: &Host, config: &Config) -> Vec<Row> {
    let mut tools: BTreeMap<String, usize> = BTreeMap::new();
    for tool in host.tools() {
        *tools.entry(tool.server).or_default() += 1;
    }
    let row = |report: ServerReport| {
        let source = config.find(&report.name).map(|entry| entry.source());
        Row {
            tools: tools.get(&*report.name).copied().unwrap_or_default(),
            scope: source.map_or(Scope::User, |source| source.scope),
            path: source.map(|source| source.path.clone()).unwrap_or_default(),
            report,
        }
    };
    host.servers().into_iter().map(row).collect()
}

impl Row {
    /// Why the server is not connected.
    pub(super) fn failure(&self) -> Option<&Failure> {
        self.report.failure.as_ref().filter(|_| self.report.status != Status::Connected)
    }

    /// The status. A command that ends tries no server again.
    fn status(&self, goes_on: bool) -> &'static str {
        match self.report.status {
            Status::Disabled => "disabled",
            Status::Unapproved => "not approved",
            Status::Idle => "idle",
            Status::Starting => "starting",
            Status::Connected => "connected",
            Status::Reconnecting if goes_on => "reconnecting",
            Status::NeedsAuthorization => "needs login",
            Status::Suspended if goes_on => "suspended",
            _ => "failed",
        }
    }

    fn reason(&self) -> String {
        match self.report.status {
            Status::Unapproved => "a project's server: see mcpio approve".to_owned(),
            _ => self.failure().map(|failure| failure.reason.clone()).unwrap_or_default(),
        }
    }

    fn tools(&self) -> String {
        match self.report.lists {
            Freshness::Unlisted => String::new(),
            Freshness::Current => self.tools.to_string(),
            Freshness::Cached | Freshness::Stale => format!("{} as of before", self.tools),
        }
    }

    fn as_json(&self, goes_on: bool) -> Value {
        let Self { report, tools, scope, path } = self;
        let failure = self.failure();
        json!({
            "server": &*report.name,
            "status": self.status(goes_on),
            "reason": failure.map(|failure| &failure.reason),
            "stderr": failure.map(|failure| &failure.stderr).filter(|text| !text.is_empty()),
            "tools": (report.lists != Freshness::Unlisted).then_some(tools),
            "current": report.lists == Freshness::Current,
            "startMs": report.start_time.map(milliseconds),
            "attempts": report.attempts,
            "scope": match scope { Scope::User => "user", Scope::Project => "project" },
            "file": path,
        })
    }

    /// Whether there is something new to say.
    fn differs(&self, other: &Self) -> bool {
        let said = |row: &Self| (row.report.status, row.report.since, row.tools, row.report.lists);
        said(self) != said(other)
    }
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10_000.0).round() / 10.0
}

/// A duration in two or three digits.
pub(super) fn short(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds @ 1..=9 => format!("{seconds}.{} s", time.subsec_millis() / 100),
        seconds @ 10..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

fn table(rows: &[Row], goes_on: bool) -> Table {
    let mut table = Table::new(match goes_on {
        true => &["server", "status", "since", "tools", "start", "reason"],
        false => &["server", "status", "tools", "start", "reason"],
    });
    let now = Instant::now();
    for row in rows {
        let report = &row.report;
        let start = report.start_time.map(short).unwrap_or_default();
        let (name, status, tools, reason) = (&*report.name, row.status(goes_on), row.tools(), row.reason());
        if goes_on {
            let since = short(now.saturating_duration_since(report.since));
            table.row([name, status, &since, &tools, &start, &reason]);
        } else {
            table.row([name, status, &tools, &start, &reason]);
        }
    }
    table
}

/// Shows what changes, until the host is closed.
async fn follow(host: &Host, config: &Config, screen: &mut Screen, json: bool) -> Result<(), CommandError> {
    let mut events = host.events();
    let mut known: BTreeMap<Arc<str>, Row> = BTreeMap::new();
    let mut area = LiveArea::default();
    let is_live = screen.is_terminal() && !json;
    loop {
        let rows = rows(host, config);
        if is_live {
            let mut lines = table(&rows, true).lines(screen.columns());
            lines.push(styled(QUIET, "Ctrl-C ends the servers."));
            area.show(screen, &lines)?;
        } else {
            for row in rows {
                if known.get(&row.report.name).is_none_or(|before| row.differs(before)) {
                    print_change(&row, screen, json)?;
                    known.insert(row.report.name.clone(), row);
                }
            }
        }
        let tick = async {
            Timer::after(TICK).await;
            Some(HostEvent::GatePassed)
        };
        let event = match is_live {
            true => or(events.next(), tick).await,
            false => events.next().await,
        };
        if event.is_none() {
            return Ok(());
        }
    }
}

fn print_change(row: &Row, screen: &mut Screen, json: bool) -> io::Result<()> {
    if json {
        return screen.line(Text::json(&row.as_json(true).to_string()));
    }
    let (tools, reason) = (row.tools(), row.reason());
    let mut line = format!("{}: {}", row.report.name, row.status(true));
    if !tools.is_empty() {
        line.push_str(&format!(", tools: {tools}"));
    }
    if !reason.is_empty() {
        line.push_str(&format!(": {reason}"));
    }
    screen.line(line)
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
}
