//! Fuzzing of the host: its control plane, its configuration, names of tools and their results.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use arbitrary::{Arbitrary, Unstructured};

use super::harness::{self, RunState, Target, pick};
use crate::consent::SafeText;
use crate::host::config::{
    Answers, Config, ConfigFile, MAX_SERVERS, ServerEntry, ServerId, ServerSpec, Source, Template,
    TimeoutOverrides, parse_dotenv,
};
use crate::host::consent::Approvals;
use crate::host::control::{
    Action, CallId, CallOptions, ControlConfig, ControlPlane, Delivery, Event, Failure, FailureKind,
    Generation, Location, Repeat, ServerPolicy,
};
use crate::host::tools::{
    Author, Catalogue, Conversion, ModelContent, ModelPart, NameScheme, ResultLimits, ServerSettings,
};
use crate::prelude::*;
use crate::schema::{CallToolResult, GetPromptResult, Json, ReadResourceResult, Tool};
use crate::{Instant, Secret};

#[derive(Arbitrary, Debug)]
enum Operation {
    Advance(u16),
    Configure(Vec<(Server, Policy)>),
    SetEnabled(Server, bool),
    Reconnect(Server),
    Call(Server, Option<u16>, bool),
    Cancel(u8),
    PollAction,
    PollEvent,
    Connected(u8),
    Ended(u8, u8),
    Deliver(u8, u8),
    Approve(Server, bool),
    Hold(Server),
    Release(Server),
    HandleTimeout,
    Close,
    CloseNow,
    EndGrace(Server),
    RevokeApproval(Server),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Server(u8);

impl Server {
    fn entry(self, command: u8) -> ServerEntry {
        let name = format!("server {}", self.0 % 4);
        let command = format!("command {}", command % 2);
        let spec = match self.0 % 2 {
            0 => ServerSpec::stdio(command, ["--stdio"]),
            _ => ServerSpec::http(format!("https://example.com/{}", command.len())),
        };
        ServerEntry::user(name, spec)
    }

    fn id(self) -> ServerId {
        self.entry(0).id()
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Policy {
    command: u8,
    enabled: bool,
    approval: Option<bool>,
    required: bool,
    lazy: Option<u8>,
    start: Option<u8>,
}

impl Policy {
    fn of(self, server: Server) -> ServerPolicy {
        let entry = server.entry(self.command);
        let mut policy = ServerPolicy::new(&entry, &TimeoutOverrides::default());
        policy.enabled = self.enabled;
        policy.approval = self.approval.map(|_| entry.meaning());
        policy.is_approved = self.approval == Some(true);
        policy.required = self.required;
        policy.shares_logins = policy.location == Location::Remote;
        policy.lazy = self.lazy.map(|seconds| Duration::from_secs(seconds.into()));
        policy.start_timeout =
            self.start.map_or(Duration::MAX, |seconds| Duration::from_secs(seconds.into()));
        policy
    }
}

/// A driver with a record of its connections and calls.
struct Driver {
    plane: ControlPlane,
    run: RunState,
    /// The connections that were asked for and have not ended.
    open: BTreeMap<ServerId, Generation>,
    /// All connections there were: reports of past ones are ignored.
    known: Vec<(ServerId, Generation)>,
    sent: Vec<(CallId, Generation)>,
    accepted: Vec<CallId>,
    ended: BTreeSet<CallId>,
}

impl Driver {
    fn act(&mut self) -> bool {
        let Some(action) = self.plane.poll_action() else { return false };
        self.run.note(&action);
        match action {
            Action::Connect { server, generation } => {
                assert_eq!(self.open.insert(server, generation), None, "two connections to one server");
                self.known.push((server, generation));
            }
            Action::Disconnect { server, generation } => {
                assert_eq!(self.open.get(&server), Some(&generation), "there is no such connection");
            }
            Action::Send { call, server, generation } => {
                assert_eq!(self.open.get(&server), Some(&generation), "there is no such connection");
                assert!(!self.ended.contains(&call), "the call has ended");
                self.sent.push((call, generation));
            }
            Action::Abort { call } => assert!(self.sent.iter().any(|(sent, _)| *sent == call)),
            Action::AskApproval { .. } => {}
            Action::CheckLogin { server, generation } => {
                let is_new = self.known.len().is_multiple_of(2);
                self.plane.handle_login(self.run.now, server, generation, is_new);
            }
        }
        true
    }

    fn end_connection(&mut self, server: ServerId, generation: Generation, kind: u8) {
        if self.open.get(&server) == Some(&generation) {
            self.open.remove(&server);
        }
        let kind = match kind % 4 {
            0 => FailureKind::Permanent,
            1 => FailureKind::NeedsAuthorization,
            _ => FailureKind::Transient,
        };
        self.plane.handle_ended(self.run.now, server, generation, Some(Failure::new(kind, "it ended")));
    }
}

impl Target for Driver {
    type Config = ();
    type Operation = Operation;
    type Event = Event;

    fn new((): &(), run: RunState) -> Self {
        let config = ControlConfig { attempts_per_minute: 3, calls: 8, ..ControlConfig::default() };
        Self {
            plane: ControlPlane::new(config),
            run,
            open: BTreeMap::new(),
            known: Vec::new(),
            sent: Vec::new(),
            accepted: Vec::new(),
            ended: BTreeSet::new(),
        }
    }

    fn run(&mut self) -> &mut RunState {
        &mut self.run
    }

    fn apply(&mut self, operation: &Operation) {
        let now = self.run.now;
        match *operation {
            Operation::Advance(ms) => self.run.advance(ms),
            Operation::Configure(ref servers) => {
                let servers = servers.iter().map(|&(server, policy)| (server.id(), policy.of(server)));
                self.plane.configure(now, servers);
            }
            Operation::SetEnabled(server, enabled) => {
                let _ = self.plane.set_enabled(now, server.id(), enabled);
            }
            Operation::Reconnect(server) => _ = self.plane.reconnect(now, server.id()),
            Operation::Call(server, timeout, may_repeat) => {
                let options = CallOptions {
                    timeout: timeout.map(|milliseconds| Duration::from_millis(milliseconds.into())),
                    repeat: if may_repeat { Repeat::IfLost } else { Repeat::IfNotSent },
                };
                self.accepted.extend(self.plane.call(now, server.id(), options));
            }
            Operation::Cancel(call) => {
                if let Some(call) = pick(&self.accepted, call) {
                    self.plane.cancel(now, call);
                }
            }
            Operation::PollAction => _ = self.act(),
            Operation::PollEvent => _ = self.take_event(),
            Operation::Connected(which) => {
                if let Some((server, generation)) = pick(&self.known, which) {
                    // One that has ended does not come back.
                    if self.open.get(&server) == Some(&generation) {
                        self.plane.handle_connected(now, server, generation);
                    }
                }
            }
            Operation::Ended(which, kind) => {
                if let Some((server, generation)) = pick(&self.known, which) {
                    self.end_connection(server, generation, kind);
                }
            }
            Operation::Deliver(which, delivery) => {
                if let Some((call, generation)) = pick(&self.sent, which) {
                    let kind = match delivery % 4 {
                        0 => Delivery::NotSent,
                        1 => Delivery::Lost,
                        2 => Delivery::ExchangeLost,
                        _ => Delivery::Answered,
                    };
                    self.plane.handle_delivery(now, call, generation, kind);
                    let of_call = self.known.iter().find(|(_, known)| *known == generation);
                    if let Some(&(server, _)) = of_call.filter(|_| delivery >= 128) {
                        let failure = Failure::new(FailureKind::NeedsAuthorization, "status 401");
                        self.plane.handle_unauthorized(now, server, generation, failure);
                    }
                }
            }
            Operation::Approve(server, is_approved) => {
                for command in 0..2 {
                    let content = server.entry(command).meaning();
                    self.plane.handle_approval(now, server.id(), content, is_approved);
                }
            }
            Operation::Hold(server) => _ = self.plane.hold(now, server.id()),
            Operation::Release(server) => self.plane.release(now, server.id()),
            Operation::HandleTimeout => self.check_timeout(),
            Operation::Close => self.plane.close(now),
            Operation::CloseNow => self.plane.close_now(now),
            Operation::EndGrace(server) => self.plane.end_grace(now, server.id()),
            Operation::RevokeApproval(server) => _ = self.plane.revoke_approval(now, server.id()),
        }
    }

    fn handle_timeout(&mut self) {
        self.plane.handle_timeout(self.run.now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.plane.poll_timeout()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.plane.poll_event()
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Ended { call, .. } => {
                assert!(self.accepted.contains(&call));
                assert!(self.ended.insert(call), "a call ends once");
            }
            Event::Closed => self.run.closed = true,
            _ => {}
        }
    }

    fn end(&mut self) {
        self.plane.close(self.run.now);
        while self.act() {}
        for (server, generation) in core::mem::take(&mut self.open) {
            self.end_connection(server, generation, 2);
        }
        while self.act() {}
    }

    fn check_end(&self) {
        assert_eq!(self.plane.open_calls(), 0);
        assert_eq!(self.plane.servers().count(), 0);
        assert_eq!(self.ended.len(), self.accepted.len(), "every call has ended");
    }
}

/// Applies operations to a control plane, in any order and at any time: each call ends once, there is one connection to
/// a server at most, closing ends everything, and the same operations give the same outputs.
pub fn host_control(data: &[u8]) {
    harness::fuzz::<Driver>(data);
}

/// Reads the input as a file of each kind.
pub fn host_config(data: &[u8]) {
    for path in [
        "/work/.mcp.json",
        "/work/.vscode/mcp.json",
        "/work/.gemini/settings.json",
        "/work/zed/settings.json",
        "/work/.codex/config.toml",
    ] {
        let of_project = ConfigFile::parse(Source::project(path), data);
        assert!(of_project.servers.len() <= MAX_SERVERS && of_project.diagnostics.len() <= MAX_SERVERS);
        let texts = of_project.errors.iter().map(|error| format!("{error}"));
        texts.chain(of_project.diagnostics.iter().map(|told| format!("{told}"))).for_each(|text| line(&text));
        let of_user = ConfigFile::parse(Source::user(path), data);
        for theirs in &of_project.servers {
            // Entries that are errors for a project may be the user's own.
            let own = of_user.servers.iter().find(|own| own.name() == theirs.name());
            let own = own.expect("only a project has the server");
            assert_eq!(theirs.meaning(), own.meaning(), "one text has two meanings");
            assert_ne!(theirs.id(), own.id(), "a project has the id of a user's server");
            project_server(theirs);
            resolve(own);
        }
        merge(of_user, of_project);
    }
    let text = String::from_utf8_lossy(data);
    let _ = parse_dotenv(&text);
    if let Ok(template) = Template::parse(&text) {
        assert_eq!(template.text(), text, "another text is read");
    }
    if let Ok(approvals) = Approvals::from_json(data)
        && let Ok(stored) = approvals.to_json()
    {
        assert_eq!(
            Approvals::from_json(stored.as_bytes()).as_ref(),
            Ok(&approvals),
            "other approvals are read again"
        );
    }
}

/// Checks that the text is one line that a terminal shows as it is.
fn line(text: &str) {
    assert_eq!(format!("{}", SafeText::line(text)), text, "a text of the file reaches the terminal");
}

/// Checks that a server starts only with its approval.
fn project_server(server: &ServerEntry) {
    let mut approvals = Approvals::new();
    let request = server.permit(&approvals).expect_err("it has no approval");
    format!("{request}").split('\n').for_each(line);
    approvals.insert(request.approve());
    server.permit(&approvals).expect("it is approved");
}

/// Answers a server's lookups until it has no more, and resolves it.
fn resolve(server: &ServerEntry) {
    let approvals = Approvals::new();
    let permit = server.permit(&approvals).expect("a user's server needs no approval");
    let mut answers = Answers::new();
    for _ in 0..3 {
        for lookup in permit.unanswered(&answers) {
            answers.insert(lookup, Some(Secret::new("https://value.example")));
        }
    }
    assert!(permit.unanswered(&answers).is_empty(), "the lookups have no end");
    if let Err(error) = permit.resolve(&answers) {
        line(&format!("{error}"));
    }
}

/// Checks that a project's copy of the user's file adds nothing.
fn merge(of_user: ConfigFile, of_project: ConfigFile) {
    let alone = Config::merge([of_user.clone()]);
    let both = Config::merge([of_project, of_user]);
    let changes = alone.changes_to(&both);
    assert!(changes.is_empty(), "a project has changed the user's servers");
    assert_eq!(changes.unchanged.len(), alone.servers().len());
}

/// Names pairs of servers and tools: different pairs have different names, which a catalogue finds again.
pub fn host_names(data: &[u8]) {
    let Ok(pairs) = Vec::<(String, String)>::arbitrary_take_rest(Unstructured::new(data)) else { return };
    let scheme = NameScheme::default();
    let mut owners: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut lists: BTreeMap<String, Vec<Tool>> = BTreeMap::new();
    for (server, tool) in pairs {
        // A server may call its tool by the name that another pair has.
        let imitation = scheme.name(&server, &tool).replacen("mcp__", "", 1);
        for tool in [tool, imitation.rsplit("__").next().unwrap_or_default().into(), imitation.clone()] {
            let name = scheme.name(&server, &tool);
            assert!(name.len() <= NameScheme::MAX_BYTES && name != scheme.search_name());
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{name}");
            let pair = (server.clone(), tool.clone());
            assert_eq!(*owners.entry(name).or_insert_with(|| pair.clone()), pair, "two pairs have one name");
            let list = lists.entry(server.clone()).or_default();
            list.push(Tool::new(tool, "", Json::empty_object()));
        }
    }
    let mut catalogue = Catalogue::default();
    for (server, tools) in lists {
        catalogue.add_server(&server, ServerSettings::default());
        let report = catalogue.update(&server, tools).expect("the server was added");
        assert!(report.collisions.is_empty() && report.changes.is_empty());
    }
    for tool in catalogue.tools() {
        assert_eq!(owners.get(tool.name), Some(&(tool.server.into(), tool.item.name.clone())));
        assert!(catalogue.tool(tool.name).is_ok_and(|found| found.item.name == tool.item.name));
    }
}

/// Converts the input as a result of a tool, a resource and a prompt, within limits from its first six bytes.
pub fn host_results(data: &[u8]) {
    let Some((&[text, head, tail, media, files, messages], json)) = data.split_first_chunk() else { return };
    let limits = ResultLimits {
        text_bytes: text.into(),
        head_bytes: head.into(),
        tail_bytes: tail.into(),
        media: usize::from(media) % 4,
        media_bytes: media.into(),
        files: usize::from(files) % 4,
        messages: usize::from(messages) % 4,
    };
    if let Ok(result) = serde_json::from_slice::<CallToolResult>(json) {
        let failed = result.failed();
        let content = check([Conversion::of_tool_result("tool", result, &limits)], &limits);
        assert_eq!(content[0].is_error, failed);
    }
    if let Ok(result) = serde_json::from_slice::<ReadResourceResult>(json) {
        check([Conversion::of_resource("resource", result, &limits)], &limits);
    }
    if let Ok(result) = serde_json::from_slice::<GetPromptResult>(json) {
        let messages = Conversion::of_prompt("prompt", result, &limits);
        assert!(messages.len() <= limits.messages.max(1), "one message may say that all are left out");
        check(messages.into_iter().map(|message| message.content), &limits);
    }
}

/// Checks that the conversions of one result are within the limits together.
fn check(conversions: impl IntoIterator<Item = Conversion>, limits: &ResultLimits) -> Vec<ModelContent> {
    let (mut text, mut media, mut media_bytes, mut files) = (0, 0, 0, 0);
    let mut contents = Vec::new();
    for mut conversion in conversions {
        let spills = conversion.take_spills();
        files += spills.len();
        for spill in &spills {
            assert!(
                spill.file_name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
            );
        }
        let content = conversion.finish(spills.into_iter().map(|spill| Ok(spill.file_name)));
        assert!(!content.parts.is_empty(), "no result is empty");
        for part in &content.parts {
            match part {
                ModelPart::Text { text: own, author: Author::Server } => text += own.len(),
                ModelPart::Text { .. } => {}
                ModelPart::Image { data, .. } | ModelPart::Audio { data, .. } => {
                    media += 1;
                    media_bytes += data.len();
                }
            }
        }
        assert!(!content.is_error || content.to_text().starts_with("Tool error: "));
        contents.push(content);
    }
    assert!(text <= limits.text_bytes && files <= limits.files);
    assert!(media <= limits.media && media_bytes <= limits.media_bytes);
    contents
}
