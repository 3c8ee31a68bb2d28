//! `mcpio servers`: the table of servers; with `--watch`, it follows their changes and takes the actions of the user.

use std::collections::BTreeMap;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use mcp_hyper::host::{Host, HostEvent, HostEvents, LoginPage};
use mcp_proto::host::config::{Changes, Config, Scope, ServerEntry, ServerId};
use serde_json::{Value, json};
use smol::Timer;
use smol::future::{or, pending};
use smol::stream::StreamExt as _;

use super::config::stamps;
use super::keyboard::{Action, Keyboard, Typed, words};
use super::servers::{Row, connected, details, json_of, live_table, print_row, table};
use super::{Session, approve};
use crate::error::Result;
use crate::login::show_page;
use crate::many;
use crate::options::{CommonOptions, ConfigOptions};
use crate::server_requests::is_person_present;
use crate::show;
use crate::terminal::{LiveArea, QUIET, Screen, Text, styled, wrap};

/// How often the table is drawn again, and changes of files are looked for.
const TICK: Duration = Duration::from_secs(1);

/// Starts all servers and shows them: once, or until a signal.
pub(crate) async fn servers(
    options: &ConfigOptions,
    common: &CommonOptions,
    watch: bool,
    screen: &mut Screen,
) -> Result {
    let session = Session { reports_events: watch && !common.trace, ..Session::open(options, common)? };
    session.print_files()?;
    session
        .run(session.config.clone(), async |host| {
            if watch {
                return follow(host, &session, screen).await;
            }
            host.ready().await;
            let rows = session.rows(host);
            let servers: Vec<Value> = rows.iter().map(|row| row.as_json(false)).collect();
            show::result(screen, &json!({ "servers": servers }), |screen| table(&rows).print(screen))?;
            connected(&rows)
        })
        .await
}

/// Shows the servers and what changes, and does what the user types, until the user ends it or the host is closed.
async fn follow(host: &Host, session: &Session<'_>, screen: &mut Screen) -> Result {
    // The lines of the trace would be replaced.
    let is_live = screen.can_erase() && !screen.is_json() && !session.common.trace;
    let mut view = View {
        host,
        session: session.clone(),
        keyboard: Keyboard::new(is_live),
        events: host.events(),
        ticks: Timer::interval(TICK),
        area: is_live.then(LiveArea::default),
        selected: None,
        is_detailed: false,
        notice: Vec::new(),
        known: BTreeMap::new(),
        screen,
    };
    loop {
        view.draw()?;
        match view.next().await {
            Input::Typed(typed) if typed.action == Action::Quit => return Ok(()),
            Input::Typed(typed) => view.act(typed).await?,
            Input::Event(Some(HostEvent::StorageFailed { error })) if session.reports_events => {
                view.say(&*error)?;
            }
            Input::Event(Some(_)) => {}
            Input::Event(None) => return Ok(()),
            Input::Tick => view.check_files().await?,
        }
    }
}

enum Input {
    Typed(Typed),
    Event(Option<HostEvent>),
    Tick,
}

struct View<'a, 'b> {
    host: &'a Host,
    session: Session<'a>,
    screen: &'b mut Screen,
    keyboard: Keyboard,
    events: HostEvents,
    ticks: Timer,
    /// The lines of a terminal that are replaced; without them, each change adds a line.
    area: Option<LiveArea>,
    /// The selected server.
    selected: Option<Arc<str>>,
    /// Whether only the selected server is shown, with its standard error.
    is_detailed: bool,
    /// What came of the last action, in a live area.
    notice: Vec<String>,
    /// The servers as they were last printed, without a live area.
    known: BTreeMap<Arc<str>, Row>,
}

impl View<'_, '_> {
    async fn next(&mut self) -> Input {
        let Self { keyboard, events, ticks, .. } = self;
        let typed = async { Input::Typed(keyboard.next().await) };
        let event = async { Input::Event(events.next().await) };
        let tick = async {
            ticks.next().await;
            Input::Tick
        };
        or(typed, or(event, tick)).await
    }

    fn draw(&mut self) -> io::Result<()> {
        let rows = self.session.rows(self.host);
        let at = rows.iter().position(|row| Some(&row.report.name) == self.selected.as_ref()).unwrap_or(0);
        self.selected = rows.get(at).map(|row| row.report.name.clone());
        let Some(mut area) = self.area.take() else { return self.print_changes(rows) };
        let (columns, height) = LiveArea::room();
        let mut footer: Vec<Text> =
            self.notice.iter().flat_map(|line| wrap(line, Some(columns))).map(Text::from).collect();
        let keys = if self.keyboard.is_usable() { words() } else { "Ctrl-C ends the servers.".to_owned() };
        footer.extend(wrap(&keys, Some(columns)).into_iter().map(|line| styled(QUIET, line)));
        let room = height.saturating_sub(footer.len());
        let mut lines = match rows.get(at).filter(|_| self.is_detailed) {
            Some(row) => details(row, columns, room),
            None => self.table(&rows, at, columns, room),
        };
        lines.append(&mut footer);
        let shown = area.show(self.screen, &lines);
        self.area = Some(area);
        shown
    }

    /// The table, so much of it around the selected server as there is room for.
    fn table(&self, rows: &[Row], at: usize, columns: usize, room: usize) -> Vec<Text> {
        let has_keys = self.keyboard.is_usable();
        let mark = |index: usize| match (has_keys, index == at) {
            (false, _) => "",
            (true, true) => "> ",
            (true, false) => "  ",
        };
        let groups = live_table(rows, columns).groups(Some(columns.saturating_sub(2)));
        let mut groups = groups.into_iter();
        let heading = groups.next().unwrap_or_default();
        let indent = if has_keys { "  " } else { "" };
        let mut lines: Vec<Text> = heading.into_iter().map(|line| Text::from(indent).and(line)).collect();
        let groups: Vec<Vec<Text>> = groups.collect();
        let room = room.saturating_sub(lines.len());
        for index in window(&groups.iter().map(Vec::len).collect::<Vec<_>>(), at, room) {
            let group = groups.get(index).cloned().unwrap_or_default();
            let marks = std::iter::once(mark(index)).chain(std::iter::repeat(indent));
            lines.extend(group.into_iter().zip(marks).map(|(line, mark)| Text::from(mark).and(line)));
        }
        lines
    }

    /// Prints the servers that have changed, and those that are gone.
    fn print_changes(&mut self, rows: Vec<Row>) -> io::Result<()> {
        let names: Vec<_> = rows.iter().map(|row| row.report.name.clone()).collect();
        for row in rows {
            if self.known.get(&row.report.name).is_none_or(|before| row.differs(before)) {
                print_row(&row, self.screen)?;
                self.known.insert(row.report.name.clone(), row);
            }
        }
        let removed: Vec<_> = self.known.keys().filter(|name| !names.contains(name)).cloned().collect();
        for name in removed {
            self.known.remove(&name);
            self.screen.line(match self.screen.is_json() {
                true => Text::json(&json!({ "server": &*name, "status": "removed" }).to_string()),
                false => format!("{name}: removed").into(),
            })?;
        }
        Ok(())
    }

    /// Shows what came of an action: below the table, or as a line.
    fn say(&mut self, text: impl Into<String>) -> io::Result<()> {
        let text = text.into();
        match (&self.area, self.screen.is_json()) {
            (Some(_), _) => self.notice = text.lines().map(str::to_owned).collect(),
            (None, true) => self.screen.line(Text::json(&json!({ "notice": text }).to_string()))?,
            (None, false) => self.screen.line(Text::block(&text))?,
        }
        Ok(())
    }

    /// Does what the user has typed. A failure is shown, unless the command cannot go on.
    async fn act(&mut self, typed: Typed) -> Result {
        self.notice.clear();
        let done = match typed.action {
            Action::Up => self.select(|at| at.saturating_sub(1)),
            Action::Down => self.select(|at| at.saturating_add(1)),
            Action::Table => self.show_table(),
            Action::Reload => self.reload(true).await,
            Action::Help | Action::Unknown | Action::Quit => self.help(),
            action => match self.named(typed.server) {
                Ok(entry) => self.act_on(action, &entry).await,
                Err(why) => Ok(self.say(why)?),
            },
        };
        match done {
            Ok(()) => Ok(()),
            Err(error) => {
                let message = error.recover()?;
                Ok(self.say(message)?)
            }
        }
    }

    fn help(&mut self) -> Result {
        let keys = "the letter is enough; the server comes after it, such as: show NAME";
        let text = match self.area {
            Some(_) => "Arrows select a server, Enter shows it with its standard error. Connect asks for inputs that are missing."
                .to_owned(),
            None => format!("{}: {keys}", words()),
        };
        Ok(self.say(text)?)
    }

    fn select(&mut self, next: impl Fn(usize) -> usize) -> Result {
        let servers = self.host.servers();
        let at = servers.iter().position(|server| Some(&server.name) == self.selected.as_ref()).unwrap_or(0);
        let to = servers.get(next(at)).or(servers.last());
        self.selected = to.map(|server| server.name.clone());
        Ok(())
    }

    /// The entry of the server that a line names, of the selected one, or of the only one.
    fn named(&self, name: Option<String>) -> Result<Arc<ServerEntry>, String> {
        let config = &self.session.config;
        let name = match (name, &self.selected) {
            (Some(name), _) => name,
            (None, Some(selected)) if self.area.is_some() || config.servers().len() == 1 => {
                selected.to_string()
            }
            _ => return Err("name a server, such as: show NAME".to_owned()),
        };
        config.find(&name).cloned().ok_or_else(|| format!("the configuration has no server \"{name}\""))
    }

    async fn act_on(&mut self, action: Action, entry: &Arc<ServerEntry>) -> Result {
        let name = entry.name();
        match action {
            Action::Show => self.show(name),
            Action::Approve => self.approve(entry).await,
            Action::LogIn => self.log_in(name).await,
            Action::Connect => {
                self.take_approvals().await?;
                self.ask_inputs(std::slice::from_ref(entry)).await?;
                // It may be gone by now.
                let _ = self.host.reconnect(name);
                Ok(())
            }
            _ => {
                let _ = self.host.set_enabled(name, action == Action::Enable);
                Ok(())
            }
        }
    }

    fn show_table(&mut self) -> Result {
        self.is_detailed = false;
        if self.area.is_none() {
            for row in self.session.rows(self.host) {
                print_row(&row, self.screen)?;
            }
        }
        Ok(())
    }

    fn show(&mut self, name: &str) -> Result {
        self.is_detailed = !self.is_detailed;
        if self.area.is_some() {
            return Ok(());
        }
        let rows = self.session.rows(self.host);
        let Some(row) = rows.iter().find(|row| *row.report.name == *name) else { return Ok(()) };
        if self.screen.is_json() {
            return Ok(self.screen.line(Text::json(&json_of(row).to_string()))?);
        }
        for line in details(row, self.screen.columns().unwrap_or(usize::MAX), usize::MAX) {
            self.screen.line(line)?;
        }
        Ok(())
    }

    /// Makes room for questions and pages.
    fn begin_dialog(&mut self) -> Result {
        self.keyboard.pause();
        let Self { area, screen, .. } = self;
        area.as_mut().map_or(Ok(()), |area| area.clear(screen))?;
        Ok(())
    }

    /// Asks for the inputs of these servers that the user has not typed yet.
    async fn ask_inputs(&mut self, entries: &[Arc<ServerEntry>]) -> Result {
        if entries.iter().all(|entry| entry.spec().inputs.is_empty()) {
            return Ok(());
        }
        self.begin_dialog()?;
        let asked = self.session.ask(entries, &self.host.approvals()).await;
        self.keyboard.resume();
        asked
    }

    /// Takes over the approvals that were given meanwhile, also in another process.
    async fn take_approvals(&self) -> Result {
        let approvals = many::approvals(&self.session.storage()?).await?;
        approvals.iter().for_each(|approval| self.host.approve(approval.clone()));
        Ok(())
    }

    async fn approve(&mut self, entry: &Arc<ServerEntry>) -> Result {
        let name = entry.name();
        if entry.source().scope == Scope::User {
            return Ok(self.say(format!("\"{name}\" is your own server: it needs no approval"))?);
        }
        self.begin_dialog()?;
        let said = self.ask_approval(entry).await;
        self.keyboard.resume();
        Ok(self.say(said?)?)
    }

    async fn ask_approval(&self, entry: &Arc<ServerEntry>) -> Result<String> {
        let (name, storage) = (entry.name(), self.session.storage()?);
        match approve::ask_about(&self.session, entry, &storage).await? {
            Some(true) => {
                // It may use the values of inputs once it is approved.
                let approvals = many::approvals(&storage).await?;
                self.session.ask(std::slice::from_ref(entry), &approvals).await?;
                self.take_approvals().await?;
                Ok(format!("Approved {name}"))
            }
            Some(false) => Ok(format!("Not approved {name}")),
            None => Ok(match approve::ask_about_changes(self.host, name).await? {
                None => format!("{name}: nothing waits for your approval"),
                Some(count) => format!("Approved {count} changes of {name}"),
            }),
        }
    }

    /// Logs in, until the user types something else than the URL of the page at the end.
    async fn log_in(&mut self, name: &str) -> Result {
        self.begin_dialog()?;
        let said = self.run_login(name).await;
        self.keyboard.resume();
        Ok(self.say(said?)?)
    }

    async fn run_login(&mut self, name: &str) -> Result<String> {
        enum Step<T> {
            Ended(T),
            Page(LoginPage),
            Line(String),
        }
        let (sender, pages) = smol::channel::unbounded();
        let show = move |page: LoginPage| _ = sender.try_send(page);
        let host = self.host;
        let mut logging_in = pin!(host.log_in(name, show));
        let mut page: Option<LoginPage> = None;
        loop {
            let shown = async {
                match pages.recv().await {
                    Ok(page) => Step::Page(page),
                    Err(_) => pending().await,
                }
            };
            let line = async { Step::Line(self.keyboard.line().await) };
            match or(async { Step::Ended(logging_in.as_mut().await) }, or(shown, line)).await {
                Step::Ended(ended) => {
                    return Ok(match ended? {
                        Some(_) => format!("Logged in at {name}"),
                        None => format!("{name} does not require authorization"),
                    });
                }
                Step::Page(next) => {
                    show_page(&next.page, is_person_present(), Box::new(|_: &str| Ok(())));
                    let how = "If the browser is on another machine, paste the URL of its last page here. Any other line ends the login.";
                    Screen::messages().line(styled(QUIET, how))?;
                    page = Some(next);
                }
                Step::Line(line) if line.contains("://") => {
                    if let Some(Err(error)) = page.as_ref().map(|page| page.finish(&line)) {
                        Screen::messages().warning(error.to_string())?;
                    }
                }
                Step::Line(line) => {
                    if !line.is_empty() && !is_person_present() {
                        self.keyboard.push(Typed::line(&line));
                    }
                    return Ok("The login was ended.".to_owned());
                }
            }
        }
    }

    /// Reads the files again if one has changed.
    async fn check_files(&mut self) -> Result {
        self.keyboard.renew();
        let paths = self.session.paths();
        if smol::unblock(move || stamps(&paths)).await == self.session.stamps {
            return Ok(());
        }
        self.reload(false).await
    }

    //= F89 "Reload reads the files again"
    /// Reads the files again, and changes what differs. Running calls of servers that stay are not touched.
    async fn reload(&mut self, is_asked: bool) -> Result {
        let next = match self.session.read_again() {
            Ok(next) => next,
            Err(error) => {
                let paths = self.session.paths();
                self.session.stamps = smol::unblock(move || stamps(&paths)).await;
                let message = error.recover()?;
                return Ok(self.say(message)?);
            }
        };
        let before = std::mem::replace(&mut self.session, next).config;
        let config = self.session.config.clone();
        let changes = before.changes_to(&config);
        // Some applications write their files all the time.
        if !is_asked && changes.is_empty() && errors(&before) == errors(&config) {
            return Ok(());
        }
        if is_asked {
            self.take_approvals().await?;
            self.ask_inputs(config.servers()).await?;
        }
        self.host.reload(&config);
        Ok(self.say(in_words(&changes, &before) + &errors(&config))?)
    }
}

/// The errors of the files, each on a line.
fn errors(config: &Config) -> String {
    config.errors().iter().map(|error| format!("\n{error}")).collect()
}

/// The servers that are new, changed and gone.
fn in_words(changes: &Changes, before: &Config) -> String {
    let removed = |id: &ServerId| before.get(*id).map(|entry| entry.name()).unwrap_or_default();
    let lists: [(&str, Vec<&str>); 3] = [
        ("added", changes.added.iter().map(|entry| entry.name()).collect()),
        ("changed", changes.changed.iter().map(|change| change.server.name()).collect()),
        ("removed", changes.removed.iter().map(removed).collect()),
    ];
    let lists = lists.into_iter().filter(|(_, names)| !names.is_empty());
    let lists: Vec<String> = lists.map(|(what, names)| format!("{what} {}", names.join(", "))).collect();
    match &lists[..] {
        [] => "The files were read again: no server has changed".to_owned(),
        lists => format!("The files were read again: {}", lists.join("; ")),
    }
}

/// The rows to show: the selected one, those before it if there is room, and those after it.
fn window(heights: &[usize], selected: usize, room: usize) -> std::ops::Range<usize> {
    let mut start = 0;
    let height = |range: std::ops::Range<usize>| heights.get(range).unwrap_or_default().iter().sum::<usize>();
    while start < selected && height(start..selected.saturating_add(1)) > room {
        start += 1;
    }
    let mut end = selected;
    while end < heights.len() && height(start..end.saturating_add(1)) <= room {
        end += 1;
    }
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selected_row_is_among_those_that_are_shown() {
        for (heights, selected, room, expected) in [
            (&[1, 1, 1][..], 0, 9, 0..3),
            (&[1, 1, 1, 1], 0, 2, 0..2),
            (&[1, 1, 1, 1], 3, 2, 2..4),
            (&[2, 3, 2], 1, 4, 1..2),
            (&[1, 5, 1], 1, 3, 1..1),
            (&[], 0, 3, 0..0),
        ] {
            assert_eq!(window(heights, selected, room), expected, "{heights:?}");
        }
    }
}
