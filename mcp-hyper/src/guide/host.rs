//! Writing a host: many servers behind one handle, from the configuration files that users already have.
//!
//! A host (feature `host`) starts the servers of a configuration in parallel, reconnects those that it loses, and
//! gives a model the tools of all of them under names that keep their meaning.
//!
//! ```no_run
//! use mcp_hyper::host::{Host, HostOptions, discover};
//! use mcp_hyper::mcp_proto::host::config::Config;
//! use serde_json::json;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // What the known applications have for this user, and for the project in this folder.
//!     let config = Config::merge(discover(".".as_ref())?);
//!     let (host, driver) = HostOptions::new("my-agent", "1.0.0").config(config).start();
//!     smol::spawn(driver).detach();
//!     smol::block_on(async {
//!         // All servers are connected, or have failed.
//!         host.ready().await;
//!         for tool in host.tools() {
//!             println!("{}", tool.name);
//!         }
//!         let content = host.call_for_model("mcp__calculator__add", json!({ "a": 2, "b": 3 })).await?;
//!         println!("{}", content.to_text());
//!         host.close().await;
//!         Ok(())
//!     })
//! }
//! ```
//!
//! `ready` waits for each server until it is connected or has failed, at most for its start timeout: 30 s unless
//! configured. An agent that cannot wait for slow servers calls `wait_for_gate`, which takes 250 ms: it lists the tools
//! again at each `HostEvent::CatalogueChanged`. A call to a server that still starts waits for it in any case.
//!
//! ```
//! use std::time::Duration;
//!
//! use mcp_hyper::host::HostOptions;
//! use mcp_hyper::mcp_proto::host::config::TimeoutOverrides;
//!
//! let mut timeouts = TimeoutOverrides::default();
//! timeouts.start = Some(Duration::from_secs(60));
//! let options = HostOptions::new("my-agent", "1.0.0")
//!     .timeouts(timeouts)
//!     .control(|control| control.startup_gate = Duration::from_secs(1));
//! # drop(options);
//! # // The defaults that the text names.
//! # assert_eq!(mcp_proto::host::control::ControlConfig::default().startup_gate, Duration::from_millis(250));
//! # let file = br#"{ "mcpServers": { "one": { "command": "one" } } }"#;
//! # let file = mcp_proto::host::config::ConfigFile::parse(mcp_proto::host::config::Source::user("/mcp.json"), file);
//! # let defaults = file.servers[0].spec().timeouts(&TimeoutOverrides::default());
//! # assert_eq!(defaults.start, Some(Duration::from_secs(30)));
//! ```
//!
//! The module `host` shows the loop of an agent.
//!
//! `host.watch(name, filter)` reports changes of a server's resources and tasks over all of its connections; a watch of
//! `host.client(name)` ends with that connection. For the tools that a model sees, follow `HostEvent::CatalogueChanged`.
//!
//! Servers of 2025-11-25 and earlier are pinged every 30 s, unless `HostOptions::keepalive` or the `keepAliveMs` of an entry says
//! otherwise: one that hangs is connected again. One that works on a call may be silent; the call has its timeout.
//!
//! A remote server is tried until it is reached, a program five times. `HostOptions::control` sets both
//! (`ControlConfig::remote_outage_budget` and `outage_budget`), `maxReconnectAttempts` of an entry that of its server; then its
//! status is `Suspended`, and the failure says after how many attempts.
//!
//! `close`, a `reload` that changes or removes an entry, and `set_enabled(name, false)` let the calls that were sent finish
//! within `ControlConfig::grace`, 5 s by default, and then cancel them. `ServerReport::grace_ends` is set meanwhile, for a
//! server that is still configured.
//! `close_now` waits for no call.
//!
//! # What a model reads
//!
//! `call_for_model`, `read_resource_for_model` and `get_prompt_for_model` convert results within `HostOptions::result_limits`;
//! what exceeds them goes to files of `HostOptions::spill_folder`. `Host::for_model` does the same with the result of
//! another request, such as that of a resource that a result links to. With `HostOptions::errors_as_content(true)` a model
//! also reads why a call failed, such as a timeout, and can act on it:
//!
//! ```
//! use std::time::Duration;
//!
//! use mcp_hyper::host::{CallError, Host, HostOptions};
//! use serde_json::json;
//!
//! async fn search(host: &Host) -> Result<String, CallError> {
//!     let content = host
//!         .call_for_model("mcp__files__search", json!({ "text": "MCP" }))
//!         .timeout(Duration::from_secs(300))
//!         .on_progress(|progress| println!("{}", progress.progress))
//!         .await?;
//!     // `MCP error: the server did not answer in time`, if it did not.
//!     Ok(content.to_text())
//! }
//! # let _ = search;
//! let options = HostOptions::new("my-agent", "1.0.0").errors_as_content(true);
//! # drop(options);
//! ```
//!
//! A model that writes code instead of single calls reads `Host::typescript`: a declaration of each tool, with the types of
//! its schemas. The application runs the code in a sandbox, whose functions end in `call_tool`.
//!
//! # Configuration
//!
//! `ConfigFile::parse` reads the files of Claude, Cursor, VS Code, Windsurf, Gemini, Zed and Codex, and this form,
//! which most of them share:
//!
//! ```json
//! {
//!   "mcpServers": {
//!     "files": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/ann"] },
//!     "notes": { "url": "https://notes.example.com/mcp", "headers": { "Authorization": "Bearer ${NOTES_KEY}" } }
//!   }
//! }
//! ```
//!
//! An entry with a mistake has an error of its own; the others start.
//!
//! After status 401 the variables in `headers` are looked up again, by `HostOptions::lookups` or in the environment, and what
//! was refused is sent once more if they have changed. Otherwise the server waits for the user, with the status
//! `NeedsAuthorization`, and its other calls may finish as at an end. `${input:…}` is looked up at a start only.
//!
//! `host::discover` reads these files where the applications keep them, for the user and for the project
//! in a folder; the merged `Config` says what it left out and why. To read one file only:
//!
//! ```no_run
//! use mcp_hyper::mcp_proto::host::config::{Config, ConfigFile, Source};
//!
//! # fn main() -> std::io::Result<()> {
//! let path = "/home/ann/.cursor/mcp.json";
//! let config = Config::merge([ConfigFile::parse(Source::user(path), &std::fs::read(path)?)]);
//! # drop(config);
//! # Ok(())
//! # }
//! ```
//!
//! Any entry may say what of its server is offered, by patterns of names and URIs, and how the server is reached:
//! `mcp_proto::host::config` has a table of these members.
//!
//! ```json
//! {
//!   "mcpServers": {
//!     "notes": {
//!       "url": "https://notes.example.com/mcp",
//!       "excludeTools": ["delete_*"],
//!       "includePrompts": ["daily", "weekly"],
//!       "excludeResources": ["file:///private/*"],
//!       "requestTimeoutMs": 60000,
//!       "keepAliveMs": 10000,
//!       "maxReconnectAttempts": 5
//!     }
//!   }
//! }
//! ```
//!
//! # Files of a project
//!
//! A file that comes with a project (`Source::project`) may name any command. Its servers start nothing, connect
//! nowhere and read no variable until the user has approved exactly that entry: `mcp_proto::host::consent`.
//! `HostOptions::on_approval_request` asks, `Host::approve` answers. Its programs run in the project's folder; a change
//! of its `envFile` asks again. Read such files by `host::read_file`, which no pipe blocks.
//!
//! ```no_run
//! use mcp_hyper::host::{Host, HostEvent};
//!
//! async fn ask_user(host: &Host) {
//!     let mut events = host.events();
//!     while let Some(event) = events.next().await {
//!         if let HostEvent::ApprovalNeeded { request, .. } = event {
//!             println!("{request}");
//!             // Once the user has read all of it and agrees:
//!             host.approve(request.approve());
//!         }
//!     }
//! }
//! ```
//!
//! # Skills
//!
//! Servers may offer [skills](https://modelcontextprotocol.io/seps/2640-skills-extension): folders of instructions for a
//! model. What they say is text of their servers, and no user's: a skill is loaded only once the user has approved it with
//! the content that it has then, and each file is verified against that. When content differs, it is not used, the approval
//! ends (`HostEvent::SkillRevoked`), and the next use asks again.
//!
//! ```no_run
//! use mcp_hyper::host::{CallError, Host, HostOptions, SkillOptions};
//! use serde_json::Value;
//!
//! let skills = SkillOptions::new().on_request(|request| async move {
//!     // The origin, the description, the files, and the tools that it asks for.
//!     println!("{request}");
//!     # let user_agrees = true;
//!     user_agrees.then(|| request.approve())
//! });
//! let options = HostOptions::new("my-agent", "1.0.0").skills(skills);
//! # drop(options);
//!
//! async fn call(host: &Host, name: &str, arguments: Value) -> Result<String, CallError> {
//!     // `skills.list` and `skills.tools` are for the model, beside the tools of the host, after `host.list_skills()`.
//!     let skills = host.skills_for_model();
//!     let content = match skills.tools.iter().any(|tool| tool.name == name) {
//!         true => host.use_skill(name, arguments).await?,
//!         false => host.call_for_model(name, arguments).await?,
//!     };
//!     Ok(content.to_text())
//! }
//! # let _ = call;
//! ```
//!
//! | Rule | How it holds |
//! |---|---|
//! | Nothing is read before it is used | `Host::list_skills` asks for listings; files come one by one, and are kept nowhere |
//! | A name means one skill | it begins with the server's name in the configuration: `shop/billing/refunds` |
//! | A skill reads from its own server alone | `mcp__read_resource` takes a skill and a path, never a server or another URI |
//! | `allowed-tools` grants nothing | except those of `SkillPermit::granted_tools`, after `SkillRequest::approve_with_tools` |
//! | A nested skill needs its own approval | read through the outer one, its `SKILL.md` is a file like any other |
//! | What cannot be verified is refused | a `dynamic` skill, unless `SkillOptions::allow_dynamic`; its approval is not stored |
//! | Nothing passes for a skill of the user | a text beyond the limits goes to the folder of results: let no program look for skills there |
//!
//! The application decides what code a model may run while it follows a skill: no approval here covers that.
//!
//! # What an application shows
//!
//! | To show | Use |
//! |---|---|
//! | each server's status, and why it failed | `Host::servers`, `Host::events` |
//! | a login page, and its end; a login of another process with the same token store is noticed with the next call, and within minutes without one | `Host::log_in` (feature `auth`); `oauth.allowedHosts` of an entry limits where |
//! | tools of a project's server that are new or changed since its approval, and hidden until the user agrees | `HostEvent::PinsChanged`, `Host::approve_changes` |
//! | questions of servers | `HostOptions::handlers`, made for each server |
//! | where a server comes from, its name, version and revision, how long it took to start, what it was asked | `HostEvent::Connected`, and `ServerReport` of `Host::servers` |
//! | what a client noticed, such as lines that are no messages | `HostEvent::Diagnostic` |
//!
//! # What goes over the wire
//!
//! `HostOptions::on_wire` shows the frames of each connection in their order, without the secrets: members and headers that are
//! named like secrets, fields that a schema marks as passwords, tokens by their shape, and the secret variables, headers and
//! inputs of the entry in any spelling.
//!
//! ```
//! use mcp_hyper::host::{HostOptions, WireObserver};
//! use mcp_hyper::mcp_proto::consent::SafeText;
//! use mcp_hyper::mcp_proto::redact::Redactor;
//!
//! let options = HostOptions::new("my-agent", "1.0.0").on_wire(|entry| {
//!     let server = entry.name().to_owned();
//!     // What this application knows to be secret besides.
//!     let redactor = Redactor::new().name("customer_id").pointer("/params/arguments/patient/name");
//!     let observer =
//!         WireObserver::new(move |frame| eprintln!("{}", SafeText::line(&format!("{server} {frame}"))));
//!     (entry.name() == "crm").then(|| observer.redactor(redactor))
//! });
//! # drop(options);
//! ```
//!
//! `trace_context` on a call passes the trace of the application on, and `HostEvent::CallEnded` repeats it beside the time
//! that the call took. `mcpio --trace` prints the frames of one server, or of all configured ones.
//!
//! `mcpio servers --watch` is such an application: its keys reload, reconnect, log in and approve.
//!
//! # What it costs
//!
//! An idle host of 100 programs with ten tools each holds 4.1 MB on the heap, and takes 0.7 ms of processor time
//! per minute: `cargo bench -p mcp-hyper --bench idle_host`. `tests/host` runs eight servers of other authors in
//! one host and kills each of them.
