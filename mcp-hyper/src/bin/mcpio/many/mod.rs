//! Commands for the many servers of configuration files: the host of a command, its state, and the values that the user
//! types.

pub(crate) mod approve;
pub(crate) mod call;
mod config;
pub(crate) mod import;
mod keyboard;
pub(crate) mod servers;
pub(crate) mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, future, io};

use mcp_hyper::host::{
    CallError, FileStorage, Host, HostEvent, HostLoginError, HostOptions, LoginPage, ServerReport,
    Storage as _,
};
use mcp_proto::Secret;
use mcp_proto::host::config::{
    Config, ConfigFile, InputSpec, Lookup, ServerEntry, ServerId, TimeoutOverrides,
};
use mcp_proto::host::consent::Approvals;
use mcp_proto::host::control::Status;
use mcp_proto::redact::Redactor;
use serde_json::{Value, json};
use smol::channel;
use smol::future::or;

use self::config::FileStamp;
use crate::connect::Connection;
use crate::error::{CommandError, Interrupts, Result};
use crate::login::{print_status, show_page};
use crate::options::{CommonOptions, ConfigOptions, LoginOptions, ServerCommand};
use crate::reports::{self, Reports};
use crate::server_requests::{self, NoAnswerError, TerminalPrompt, is_person_present};
use crate::terminal::{HEADING, NAME, QUIET, Screen, TerminalMode, Text, styled};
use crate::{arguments, commands, connect, login};

/// The options, files and servers of one command.
#[derive(Clone)]
struct Session<'a> {
    options: &'a ConfigOptions,
    common: &'a CommonOptions,
    files: Vec<ConfigFile>,
    /// The project's folder; without a project's file, the working directory.
    folder: PathBuf,
    /// How the files were before they were read.
    stamps: Vec<FileStamp>,
    /// The files merged.
    config: Config,
    /// The values that the user has typed.
    inputs: Arc<Mutex<Inputs>>,
    /// Whether the user answers requests of the servers.
    answers_requests: bool,
    /// Whether `work` reports the events of the host.
    reports_events: bool,
    /// The options of `mcpio login`.
    login: Option<&'a LoginOptions>,
}

impl Session<'_> {
    fn unavailable(&self, server: ServerReport) -> CommandError {
        let hint = self.hint(&server.name, server.status).map(|hint| format!("To mend it: {hint}"));
        let kind = if server.status == Status::NeedsAuthorization { "unauthorized" } else { "connection" };
        let data = cause(&server);
        let failure = server.failure.map(Box::new);
        let error = CallError::Unavailable { server: server.name, status: server.status, failure };
        CommandError::server(error).with_kind(kind).with_hint(hint).with_data(data)
    }

    /// Checks that the configuration has a server of this name.
    fn known(&self, name: &str) -> Result {
        if self.config.find(name).is_some() {
            return Ok(());
        }
        let left_out = self.config.omitted().iter().find(|omitted| omitted.server.name() == name);
        let known = self.config.servers().iter().map(|entry| entry.name());
        let why = match left_out {
            Some(omitted) => format!("the server {name:?} is left out: {omitted}"),
            None => format!("the configuration has no server {name:?}{}", arguments::suggest(name, known)),
        };
        Err(CommandError::usage(why))
    }

    /// Starts the servers of a configuration, runs `work` with them, and ends them, also after a signal.
    async fn run<T>(&self, config: Config, work: impl AsyncFnOnce(&Host) -> Result<T>) -> Result<T> {
        let mut interrupts = Interrupts::listen();
        let options = interrupts.until(self.host_options(config)).await?;
        let (host, driver) = options.start();
        let mut events = (!self.reports_events).then(|| host.events());
        let redactor = self.common.trace.then(Redactor::new);
        let messages = smol::spawn(async move {
            while let Some(events) = &mut events
                && let Some(event) = events.next().await
            {
                match (event, &redactor) {
                    // If this fails, nothing can be done about it.
                    (HostEvent::StorageFailed { error }, _) => _ = Screen::messages().warning(&*error),
                    (HostEvent::Diagnostic { server, diagnostic }, Some(redactor)) => {
                        reports::show_diagnostic(
                            &mut Screen::messages(),
                            Some(&server),
                            redactor,
                            diagnostic,
                        );
                    }
                    _ => {}
                }
            }
        });
        let (report, reported) = channel::bounded::<io::Error>(1);
        let driver = async move {
            let mut driver = pin!(driver);
            // It is dropped afterwards, which ends the work.
            if let Err(error) = (&mut driver).await {
                _ = report.try_send(error);
            }
        };
        let failed = async {
            match reported.recv().await {
                Ok(error) => Err(CommandError::server(format_args!("the servers cannot be run: {error}"))),
                Err(_) => future::pending().await,
            }
        };
        let result = interrupts.run(or(failed, work(&host)), host.close(), driver, None).await;
        drop(host);
        messages.await;
        result
    }

    async fn host_options(&self, config: Config) -> Result<HostOptions> {
        let Self { common, answers_requests, login, .. } = *self;
        check_options(common)?;
        let storage = self.storage()?;
        let approvals = approvals(&storage).await?;
        self.ask(config.servers(), &approvals).await?;
        let typed = self.inputs.clone();
        let look_up = move |entry: Arc<ServerEntry>, lookup: Lookup| {
            let value: Option<Secret> = match lookup {
                Lookup::Input(id) => locked(&typed).get(&(entry.id(), id)).cloned(),
                _ => None,
            };
            async { value }
        };
        let era = connect::mode(common);
        let mut host = HostOptions::new("mcpio", env!("CARGO_PKG_VERSION"))
            .config(config)
            .approvals(approvals)
            .storage(storage)
            .stores_approvals(false)
            .timeouts(timeouts(common)?)
            .project_folder(&self.folder)
            .lookups(look_up)
            .configure_clients(move |_, client| client.era_policy = era);
        if let Some(folder) = self.working_folder() {
            host = host.working_folder(folder);
        }
        let authorize = login::authorizations(common, login)?;
        host = host.authorization(move |_, server| authorize(server));
        if let Some(file) = &common.cacert {
            host = host.tls(connect::tls_config(file)?);
        }
        if common.trace {
            host = host.on_wire(|entry| Some(reports::trace(Some(entry.name()), Redactor::new())));
        }
        if let Some(file) = &common.traced {
            host = host.trace(file.clone());
        }
        if answers_requests {
            host = host.handlers(|entry| server_requests::handlers(Some(entry.name())));
        }
        Ok(host)
    }

    /// The folder for state: `--state`, or one beside the folder for tokens. No project can write there.
    fn storage(&self) -> Result<FileStorage> {
        let none = || CommandError::usage("no home folder for approvals: name a folder by --state");
        let folder = self.options.state.clone().or_else(|| login::state_folder("servers"));
        folder.map(FileStorage::in_folder).ok_or_else(none)
    }
}

/// Why a server is not connected, for programs.
fn cause(server: &ServerReport) -> Value {
    let failure = server.failure.as_ref().filter(|_| server.status != Status::Connected);
    json!({
        "server": &*server.name,
        "status": status_name(server.status, false),
        "reason": failure.map(|failure| &failure.reason),
        "stderr": failure.map(|failure| &failure.stderr).filter(|text| !text.is_empty()),
    })
}

/// The name of a status. A command that ends tries no server again.
fn status_name(status: Status, goes_on: bool) -> String {
    match status {
        Status::NeedsAuthorization => "needs login".to_owned(),
        Status::Reconnecting | Status::Suspended if !goes_on => "failed".to_owned(),
        status => status.to_string(),
    }
}

/// Runs a command for one of the configured servers, which its first word names.
pub(crate) async fn of_server(
    command: &ServerCommand,
    common: &CommonOptions,
    screen: &mut Screen,
) -> Result {
    let options = &command.server().config;
    let session = Session { answers_requests: true, ..Session::open(options, common)? };
    let Some((name, words)) = command.words().split_first() else {
        let known = session.config.servers().iter().map(|entry| entry.name());
        return Err(CommandError::usage(format_args!(
            "name a server of the configuration{}",
            arguments::suggest("", known)
        )));
    };
    session.known(name)?;
    session
        .run(session.only(&[name]), async |host| {
            wake_idle(host).await;
            let Some(client) = host.client(name) else {
                return Err(match host.server(name) {
                    Some(server) => session.unavailable(server),
                    None => CommandError::no_server(),
                });
            };
            session.print_missing(host)?;
            if let ServerCommand::Watch { changes, .. } = command {
                return session.watch_changes(host, name, words, *changes, screen).await;
            }
            let server = client.ready().await?;
            let reports = Reports::without_messages();
            let (of_host, of_server) = (host.clone(), name.to_owned());
            let offers =
                move |kind, key: &str| of_host.catalogue(|catalogue| catalogue.allows(&of_server, kind, key));
            let (timeout, offers) = (common.timeout, Box::new(offers));
            let connection = Connection { client, server, reports, log: None, timeout, offers };
            commands::run(command, words, &connection, screen).await
        })
        .await
}

impl Session<'_> {
    /// Prints changes on a server, over all of its connections, until the given number of them or the server is given up.
    async fn watch_changes(
        &self,
        host: &Host,
        name: &str,
        uris: &[String],
        most: Option<u64>,
        screen: &mut Screen,
    ) -> Result {
        let mut events = host.events();
        let mut watch = host.watch(name, commands::watch_filter(uris)).map_err(CommandError::server)?;
        let given_up = async {
            while events.next().await.is_some() {
                let server = host.server(name).filter(|server| !server.status.accepts_calls());
                if let Some(server) = server {
                    return Err(self.unavailable(server));
                }
            }
            Err(CommandError::no_server())
        };
        let printed = commands::print_updates(&mut watch, self.common.timeout, true, most, screen);
        if or(printed, given_up).await? {
            return Ok(());
        }
        Err(match watch.outcome() {
            Some(Err(error)) => error.into(),
            _ => commands::watch_ended(),
        })
    }
}

/// Rejects options that are for one server.
fn check_options(common: &CommonOptions) -> Result {
    let given = [
        ("--log", common.log.is_some()),
        ("--header", !common.headers.is_empty()),
        ("--header-file", !common.header_files.is_empty()),
        ("--header-env", !common.header_variables.is_empty()),
        ("--env", !common.variables.is_empty()),
        ("--env-file", !common.env_files.is_empty()),
        ("--whole-env", common.whole_env),
        ("--cwd", common.cwd.is_some()),
        ("--stdio-v2", common.stdio_v2),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(CommandError::usage(format_args!(
            "{option} is for one server whose command or URL the command line has: for a configured server, write it into \
             its entry"
        ))),
        None => Ok(()),
    }
}

/// The timeouts of the command line over those of the environment.
fn timeouts(common: &CommonOptions) -> Result<TimeoutOverrides> {
    let mut timeouts =
        TimeoutOverrides::from_variables(|name| env::var(name).ok()).map_err(CommandError::usage)?;
    timeouts.start = common.timeout.or(timeouts.start);
    timeouts.call = common.timeout.or(timeouts.call);
    Ok(timeouts)
}

/// Waits for the first attempts of all servers, also of those that would start with their first call.
async fn wake_idle(host: &Host) {
    host.ready().await;
    for server in host.servers() {
        if server.status == Status::Idle {
            // It is configured, so that it is known.
            let _ = host.reconnect(&server.name);
        }
    }
    host.ready().await;
}

/// The name of the value with the approvals.
const APPROVALS: &str = "approvals";

/// The user's approvals. What cannot be read is none.
async fn approvals(storage: &FileStorage) -> Result<Approvals> {
    let stored = storage.get(APPROVALS).await.map_err(CommandError::server)?;
    let read = stored.map(|stored| Approvals::from_json(&stored)).transpose();
    if let Err(error) = &read {
        Screen::messages().warning(error.to_string())?;
    }
    Ok(read.ok().flatten().unwrap_or_default())
}

/// Changes the stored approvals, which no other process changes meanwhile. Those that cannot be read are none.
async fn change_approvals<T: Send + 'static>(
    storage: &FileStorage,
    change: impl FnOnce(&mut Approvals) -> T + Send + 'static,
) -> Result<T> {
    let changed = storage.update(APPROVALS, |stored| {
        let before =
            stored.as_deref().and_then(|stored| Approvals::from_json(stored).ok()).unwrap_or_default();
        let mut approvals = before.clone();
        let result = change(&mut approvals);
        match approvals.to_json() {
            Ok(text) => (text.into_bytes(), Ok(result)),
            Err(error) => (before.to_json().unwrap_or_default().into_bytes(), Err(error)),
        }
    });
    changed.await.map_err(CommandError::server)?.map_err(CommandError::server)
}

/// The values that the user has typed, for this run only.
type Inputs = BTreeMap<(ServerId, String), Secret>;

fn locked(inputs: &Mutex<Inputs>) -> std::sync::MutexGuard<'_, Inputs> {
    // No code under the lock can panic half-way through a change.
    inputs.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session<'_> {
    /// Asks for the inputs of servers that may start, those that were not typed yet. Without a terminal there are no
    /// questions, and an input has its default or no value.
    async fn ask(&self, entries: &[Arc<ServerEntry>], approvals: &Approvals) -> Result {
        if !is_person_present() {
            return Ok(());
        }
        for entry in entries {
            // A project's server that is not approved may not even ask.
            if !entry.spec().enabled || entry.permit(approvals).is_err() {
                continue;
            }
            for input in &entry.spec().inputs {
                let key = (entry.id(), input.id.clone());
                if locked(&self.inputs).contains_key(&key) {
                    continue;
                }
                if let Some(value) = ask_one(entry, input).await? {
                    locked(&self.inputs).insert(key, value);
                }
            }
        }
        Ok(())
    }
}

async fn ask_one(entry: &Arc<ServerEntry>, input: &Arc<InputSpec>) -> Result<Option<Secret>> {
    // Restores the terminal also if a signal ends the question.
    let hidden = input.is_password.then(TerminalMode::without_echo).transpose();
    let what = format_args!("the terminal cannot hide what you type for \"{}\"", input.id);
    let hidden = hidden.map_err(CommandError::usage_of(what))?;
    let (server, input) = (entry.name().to_owned(), input.clone());
    let answer = smol::unblock(move || question(&mut TerminalPrompt::from_terminal(), &server, &input)).await;
    if hidden.is_some() {
        // The line break that was typed was hidden too.
        Screen::messages().line("")?;
    }
    Ok(answer.ok().filter(|answer| !answer.is_empty()).map(Secret::new))
}

/// Asks until the answer is possible. An empty one takes the default.
fn question(person: &mut TerminalPrompt, server: &str, input: &InputSpec) -> Result<String, NoAnswerError> {
    person.print(styled(HEADING, server).and(" needs a value:"));
    if let Some(description) = &input.description {
        person.print_block("   ", description);
    }
    for (index, option) in input.options.iter().enumerate() {
        person.print(format!("  {}. {option}", index + 1));
    }
    let default = match &input.default {
        Some(_) if input.is_password => styled(QUIET, " [as configured]"),
        Some(default) => styled(QUIET, format_args!(" [{default}]")),
        None => Text::default(),
    };
    loop {
        let answer = person.ask(styled(NAME, &input.id).and(default.clone()).and(": "))?;
        if input.options.is_empty() || answer.is_empty() {
            return Ok(answer);
        }
        let by_number =
            answer.parse().ok().and_then(|number: usize| input.options.get(number.checked_sub(1)?));
        match by_number.or_else(|| input.options.iter().find(|option| **option == answer)) {
            Some(option) => return Ok(option.clone()),
            None => person.print("Please answer with one of the numbers."),
        }
    }
}

/// Logs in at the server of this name, with the settings of its entry, and connects to it.
pub(crate) async fn login(
    options: &ConfigOptions,
    common: &CommonOptions,
    name: &str,
    login: &LoginOptions,
    screen: &mut Screen,
) -> Result {
    let session = Session { login: Some(login), ..Session::open(options, common)? };
    session.known(name)?;
    session
        .run(session.only(&[name]), async |host| {
            let browser = !login.no_browser;
            host.ready().await;
            // Only the user's approval can mend that.
            if let Some(server) = host.server(name)
                && server.status == Status::Unapproved
            {
                return Err(session.unavailable(server));
            }
            let show = move |login: LoginPage| {
                let page = login.page.clone();
                show_page(&page, browser, Box::new(move |redirect| login.finish(redirect)));
            };
            let status = host.log_in(name, show).await?;
            print_status(name, status.as_ref(), screen)
        })
        .await
}

impl From<HostLoginError> for CommandError {
    fn from(error: HostLoginError) -> Self {
        match error {
            HostLoginError::Connection(error) => error.into(),
            HostLoginError::NoAuthorization => Self::usage(
                "this server takes no login: it is a program, or has the header \"authorization\"",
            ),
            HostLoginError::UnknownServer => Self::usage(error),
            _ => Self::server(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_proto::host::config::Source;
    use mcp_proto::host::consent::ApprovalRequest;
    use std::thread;

    #[test]
    fn approvals_of_several_processes_at_once_are_all_kept() {
        let folder = std::env::temp_dir().join(format!("mcpio-approvals-{}", std::process::id()));
        // Each process has a storage of its own.
        let approve = |number: usize| {
            let storage = FileStorage::in_folder(&folder);
            thread::spawn(move || {
                let path = format!("/srv/{number}/.mcp.json");
                let text = br#"{ "mcpServers": { "a": { "command": "x" } } }"#;
                let file = ConfigFile::parse(Source::project(path), text);
                let approval = ApprovalRequest::new(&file.servers[0]).approve();
                let changed = change_approvals(&storage, move |approvals| approvals.insert(approval));
                smol::block_on(changed).unwrap();
            })
        };
        let threads: Vec<_> = (0..16).map(approve).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let kept = smol::block_on(approvals(&FileStorage::in_folder(&folder))).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(kept.iter().count(), 16);
    }

    fn asked(input: &str, typed: &str) -> (Result<String, NoAnswerError>, String) {
        let text = format!(
            r#"{{ "servers": {{ "a\u001b[2J": {{ "command": "${{input:x}}" }} }}, "inputs": [{input}] }}"#
        );
        let file = ConfigFile::parse(Source::user("/home/ann/mcp.json"), text.as_bytes());
        let entry = &file.servers[0];
        let (screen, record) = Screen::recorded(Some(80));
        let mut person = TerminalPrompt::new(typed, screen);
        let answer = question(&mut person, entry.name(), &entry.spec().inputs[0]);
        (answer, record.plain())
    }

    #[test]
    fn user_types_or_picks_a_value_and_the_question_names_the_server() {
        let (answer, shown) = asked(r#"{ "id": "x", "description": "The key\nof it" }"#, "secret\n");
        assert_eq!(answer.as_deref(), Ok("secret"));
        assert!(shown.contains("a\\u{1b}[2J needs a value:\n    The key\n    of it\nx: "), "{shown}");
        let pick = r#"{ "id": "x", "type": "pickString", "options": ["one", "two"], "default": "one" }"#;
        for (typed, expected) in [("2\n", "two"), ("one\n", "one"), ("three\n2\n", "two"), ("\n", "")] {
            assert_eq!(asked(pick, typed).0.as_deref(), Ok(expected), "{typed:?}");
        }
        assert_eq!(asked(pick, "").0, Err(NoAnswerError));
    }

    #[test]
    fn default_of_a_password_is_not_shown() {
        let (_, shown) = asked(r#"{ "id": "x", "password": true, "default": "hunter2" }"#, "\n");
        assert!(!shown.contains("hunter2") && shown.contains("[as configured]"), "{shown}");
    }
}
