//! Programs as servers, and a host of them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{env, fs, process};

use mcp_hyper::Proxy;
use mcp_hyper::host::{Host, HostEvents, HostOptions};
use mcp_hyper::mcp_proto::host::config::{Config, ConfigFile, Source};
use mcp_hyper::mcp_proto::host::control::Status;
use serde_json::{Value, json};
use smol::Task;

use crate::common::cli;
use crate::common::server::until;

/// A folder of a test, removed at its end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("mcp-host-{}-{number}", process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A program that writes its process id into a file, then serves the demo.
    pub(crate) fn demo(&self, name: &str) -> Value {
        self.script(name, &format!("exec '{}' serve", cli::program().display()))
    }

    /// A shell script that writes its process id into a file first.
    pub(crate) fn script(&self, name: &str, body: &str) -> Value {
        let script = format!("echo $$ >> '{}'\n{body}", self.0.join(name).display());
        json!({ "command": "sh", "args": ["-c", script] })
    }

    /// A server whose tool `read` has the description in the file `description`, and creates the file `called`.
    pub(crate) fn described(&self) -> Value {
        let script = cli::script(&format!(
            r#"while ask; do case $line in
                *'"initialize"'*) answer '{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}' ;;
                *server/discover*) refuse 'no' ;;
                *tools/list*) answer '{{"tools":[{{"name":"read","description":"'"$(cat '{}')"'","inputSchema":{{"type":"object"}}}}]}}' ;;
                *tools/call*) : > '{}'; answer '{{"content":[]}}' ;;
            esac; done"#,
            self.0.join("description").display(),
            self.0.join("called").display(),
        ));
        self.script("one", &script)
    }

    /// A server of 2026-07-28 with skills: it answers `skills/list`, `skills/get` and `resources/read` with the files `list`,
    /// `entry` and `content` of the folder NAME, and appends each request for a file to `reads`.
    pub(crate) fn with_skills(&self, name: &str) -> Value {
        let folder = self.0.join(format!("{name}-skills"));
        fs::create_dir_all(&folder).unwrap();
        self.script(name, &cli::script(&skills_script(&folder)))
    }

    /// Sets what a server with skills answers: the entry of its one skill, and its content.
    pub(crate) fn set_skill(&self, name: &str, entry: &Value, text: &str) {
        let folder = self.0.join(format!("{name}-skills"));
        let uri = &entry["uri"];
        let cacheable = |mut result: Value| {
            result["resultType"] = json!("complete");
            result["ttlMs"] = json!(3_600_000);
            result["cacheScope"] = json!("public");
            result.to_string()
        };
        fs::write(folder.join("list"), cacheable(json!({ "skills": [entry] }))).unwrap();
        fs::write(folder.join("entry"), cacheable(json!({ "skill": entry }))).unwrap();
        let contents = json!({ "contents": [{ "uri": uri, "text": text }] });
        fs::write(folder.join("content"), cacheable(contents)).unwrap();
    }

    /// The requests for files of a server with skills.
    pub(crate) fn skill_reads(&self, name: &str) -> usize {
        let reads = fs::read_to_string(self.0.join(format!("{name}-skills")).join("reads"));
        reads.unwrap_or_default().lines().count()
    }

    /// The processes of a script, in the order of their starts.
    pub(crate) fn processes(&self, name: &str) -> Vec<i32> {
        let text = fs::read_to_string(self.0.join(name)).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    pub(crate) fn last_process(&self, name: &str) -> i32 {
        *self.processes(name).last().unwrap()
    }
}

/// The body of a server with skills, whose answers are files of this folder.
pub(crate) fn skills_script(folder: &Path) -> String {
    let file = |name: &str| folder.join(name).display().to_string();
    format!(
        r#"while ask; do case $line in
            *server/discover*) answer '{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{"resources":{{}},"extensions":{{"io.modelcontextprotocol/skills":{{}}}}}},"ttlMs":0,"cacheScope":"private","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"s","version":"1"}}}}}}' ;;
            *skills/list*) answer "$(cat '{}')" ;;
            *skills/get*) answer "$(cat '{}')" ;;
            *resources/read*) echo read >> '{}'; answer "$(cat '{}')" ;;
            *resources/list*) answer '{{"resultType":"complete","resources":[],"ttlMs":0,"cacheScope":"private"}}' ;;
            *resources/templates/list*) answer '{{"resultType":"complete","resourceTemplates":[],"ttlMs":0,"cacheScope":"private"}}' ;;
        esac; done"#,
        file("list"),
        file("entry"),
        file("reads"),
        file("content"),
    )
}

/// The entry of the skill `refunds`, whose one file is this text.
pub(crate) fn skill_entry(text: &str) -> Value {
    let digest = mcp_hyper::mcp_proto::schema::skills::Digest::of(text.as_bytes()).to_string();
    let uri = "skill://acme/refunds/SKILL.md";
    json!({
        "uri": uri,
        "frontmatter": { "name": "refunds", "description": "Refunds a customer" },
        "resources": [{ "uri": uri, "digest": digest, "size": text.len() }],
    })
}

/// The `SKILL.md` of the skill `refunds`.
pub(crate) fn skill_text(body: &str) -> String {
    format!("---\nname: refunds\ndescription: Refunds a customer\n---\n{body}\n")
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn kill(process: i32) {
    let process = rustix::process::Pid::from_raw(process).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
}

pub(crate) fn is_running(process: i32) -> bool {
    let process = rustix::process::Pid::from_raw(process).unwrap();
    rustix::process::test_kill_process(process).is_ok()
}

/// A configuration of the user.
pub(crate) fn config(servers: Value) -> Config {
    let text = json!({ "mcpServers": servers }).to_string();
    let file = ConfigFile::parse(Source::user("/home/ann/mcp.json"), text.as_bytes());
    let config = Config::merge([file]);
    assert_eq!(config.errors().len(), 0, "{:?}", config.errors());
    config
}

/// A configuration of a project.
pub(crate) fn project(servers: Value) -> Config {
    let text = json!({ "mcpServers": servers }).to_string();
    let path = env::temp_dir().join(".mcp.json");
    Config::merge([ConfigFile::parse(Source::project(path.to_str().unwrap()), text.as_bytes())])
}

/// Options of a host that reconnects quickly.
pub(crate) fn options(config: Config) -> HostOptions {
    HostOptions::new("test", "1").config(config).proxy(Proxy::none()).control(|control| {
        control.backoff.first = Duration::from_millis(20);
        control.backoff.longest = Duration::from_millis(100);
        control.slow_backoff.first = Duration::from_millis(100);
        control.slow_backoff.longest = Duration::from_millis(100);
        control.outage_budget = 3;
    })
}

pub(crate) fn start(options: HostOptions) -> (Host, Task<std::io::Result<()>>) {
    let (host, driver) = options.start();
    (host, smol::spawn(crate::common::runtime::within(driver)))
}

/// The same, with all of its events.
pub(crate) fn start_watched(options: HostOptions) -> (Host, HostEvents, Task<std::io::Result<()>>) {
    let (host, driver) = options.start();
    let events = host.events();
    (host, events, smol::spawn(crate::common::runtime::within(driver)))
}

pub(crate) fn status(host: &Host, server: &str) -> Status {
    host.server(server).unwrap().status
}

pub(crate) async fn until_status(host: &Host, server: &str, wanted: Status) {
    until(&format!("{server} is {wanted}"), || status(host, server) == wanted).await;
}

pub(crate) fn tool_names(host: &Host) -> Vec<String> {
    host.tools().into_iter().map(|tool| tool.name).collect()
}
