//! Skills of a host's servers: listed on demand, approved by the user, verified at each read.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_lite::future::or;
use futures_util::future::join_all;
use mcp_proto::front::{Client, Error, ListError};
use mcp_proto::host::config::ServerEntry;
use mcp_proto::host::consent::{SkillPermit, SkillRequest};
use mcp_proto::host::control::Repeat;
use mcp_proto::host::skills::{
    SkillCallError, SkillCatalogue, SkillEntry, SkillRead, SkillTarget, SkillTool,
};
use mcp_proto::host::tools::{
    Author, Conversion, ItemKind, LookupError, ModelContent, ModelPart, NameScheme,
};
use mcp_proto::peer::CacheMode;
use mcp_proto::schema::skills::{GetSkill, GetSkillParams, InvalidSkill, Skill};
use mcp_proto::schema::{
    Era, InvalidItem, Json, List, ReadResource, ReadResourceParams, ReadResourceResult, ServerCapability,
    Tool,
};
use mcp_proto::skills::{SkillError, SkillErrorKind, SkillManifest, VerifiedFile};
use serde::{Deserialize, Serialize};

use super::Host;
use super::events::{CallError, HostEvent};
use super::model;
use super::settings::{AskSkill, SkillOptions};
use super::shared::{SkillQuestion, State};

/// How many bytes of a server's listing are read: some 20,000 files.
const LIST_BYTES: usize = 4 * 1024 * 1024;

/// A skill of a server, under its name for a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostSkill {
    /// The name for a model, which begins with the server's: see [`SkillEntry::name`]. Skills of other servers may have the
    /// same [name of their own](Skill::name).
    pub name: String,
    /// The server's name in the configuration.
    pub server: String,
    /// The checked entry. Its texts are the server's.
    pub skill: Arc<SkillManifest>,
    /// The right to load it, or the request to show to the user first.
    pub permit: Result<SkillPermit, Box<SkillRequest>>,
}

/// The skills of all servers, and what is wrong with others.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SkillListing {
    /// The skills that can be loaded, once they are approved.
    pub skills: Vec<HostSkill>,
    /// The servers and errors of skills that are left out, and of listings.
    pub errors: Vec<(Arc<str>, Error)>,
}

/// The skills for a model: what it reads of them from the start.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SkillsForModel {
    /// A short text with names and descriptions. Empty if there are no skills.
    pub list: String,
    /// The tools that load skills and read their files, for [`Host::use_skill`]. None if there are no skills.
    pub tools: Vec<Tool>,
}

/// Why a skill was not read.
enum SkillUseError {
    Call(CallError),
    Skill(SkillCallError),
    NotApproved(String),
}

impl From<CallError> for SkillUseError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Call(Error::Skill(error)) => Self::Skill(SkillCallError::Skill(*error)),
            error => Self::Call(error),
        }
    }
}

impl From<SkillCallError> for SkillUseError {
    fn from(error: SkillCallError) -> Self {
        Self::Skill(error)
    }
}

impl From<SkillError> for SkillUseError {
    fn from(error: SkillError) -> Self {
        Self::Skill(error.into())
    }
}

/// # Skills
///
/// With [`HostOptions::skills`](super::HostOptions::skills). Nothing is read before a model or the application asks for it:
/// [`list_skills`](Self::list_skills) asks for listings only, and the files of a skill are read one by one while it is used.
/// They are kept nowhere, except that a text beyond the [limits](super::HostOptions::result_limits) goes to the
/// [folder of results](super::HostOptions::spill_folder): no program must look for skills there.
impl Host {
    //= C15.9 "No file is read on connection, listing or approval"
    /// Lists the skills of the connected servers that offer any. Those of a server that is away stay as it last listed them.
    ///
    /// An approval ends when the listing has other content than was approved, or an entry that cannot be used. Of a listing of
    /// more than 4 MiB only the beginning is taken, and of more than 2,000 skills the first ones: each other is an error, and
    /// stays approved; one that takes longer than a call of the server may is an error, and the
    /// others do not wait for it. An error removes no skill.
    ///
    /// <https://modelcontextprotocol.io/seps/2640-skills-extension#enumeration-via-skillslist>
    pub async fn list_skills(&self) -> SkillListing {
        let lists = self.skill_servers().into_iter().map(|(entry, client)| async move {
            let listed = self.list_of(&entry, &client).await;
            (entry, listed)
        });
        let mut errors = Vec::new();
        for (entry, listed) in join_all(lists).await {
            let (skills, error) = match listed {
                Ok(skills) => (skills, None),
                // What was listed before the error is listed. What was not may be listed after it.
                Err(ListError { items, error }) => (items, Some(error)),
            };
            let left_out = self.update_skills(&entry, skills, error.is_none()).into_iter().map(Error::from);
            let server: Arc<str> = entry.name().into();
            errors.extend(left_out.chain(error).map(|error| (server.clone(), error)));
        }
        SkillListing { skills: self.skills(), errors }
    }

    /// The skills as they were last listed, sorted by name; those of servers that are switched off or not approved are left
    /// out.
    pub fn skills(&self) -> Vec<HostSkill> {
        self.with(|state| {
            let entries = state.skills.iter().filter_map(|skill| {
                let entry = state.visible_entry(skill.server)?;
                Some(host_skill(state, entry, skill))
            });
            entries.collect()
        })
    }

    /// Gets the present entry of one skill by the URI of its `SKILL.md`: one that its server does not list, or one that may
    /// have changed. From then on it is among the [`skills`](Self::skills).
    ///
    /// <https://modelcontextprotocol.io/seps/2640-skills-extension#retrieval-via-skillsget>
    ///
    /// # Errors
    /// If the server has no such skill, its entry is not valid, or the server cannot be asked.
    pub async fn get_skill(&self, server: &str, uri: &str) -> Result<HostSkill, CallError> {
        let skill_error = |error: SkillError| CallError::Call(error.into());
        self.check_skill_uri(server, uri)?;
        let request = self.request::<GetSkill>(server, GetSkillParams::new(uri));
        let answer = request.cache(CacheMode::Refresh).repeat(Repeat::IfLost).await?;
        let skill = SkillManifest::of_answer(uri, answer.skill).map_err(|error| {
            // An entry that cannot be loaded any more is not what was approved.
            self.revoke_skill(server, uri);
            skill_error(error)
        })?;
        self.shared().command(|state, _| {
            let entry = state.visible_entry(server).cloned().ok_or(CallError::UnknownServer)?;
            state.revoke_changed_skill(&entry, &skill);
            state.skills.insert(server, skill).map_err(skill_error)?;
            let skill = state.skills.iter().find(|skill| skill.server == server && skill.skill.uri() == uri);
            skill.map(|skill| host_skill(state, &entry, skill)).ok_or(CallError::Name(LookupError::Unknown))
        })
    }

    /// The skills for a model, as they were last [listed](Self::list_skills): a short list to show from the start, and two
    /// tools, whose calls go to [`use_skill`](Self::use_skill).
    ///
    /// ```no_run
    /// use mcp_hyper::host::{CallError, Host};
    /// use serde_json::Value;
    ///
    /// # async fn example(host: Host) -> Result<(), CallError> {
    /// host.list_skills().await;
    /// let skills = host.skills_for_model();
    /// println!("{}", skills.list);
    ///
    /// // When the model calls a tool:
    /// # let (name, arguments): (&str, Value) = ("mcp__read_skill", Value::Null);
    /// let content = match skills.tools.iter().any(|tool| tool.name == name) {
    ///     true => host.use_skill(name, arguments).await?,
    ///     false => host.call_for_model(name, arguments).await?,
    /// };
    /// println!("{}", content.to_text());
    /// # Ok(())
    /// # }
    /// ```
    pub fn skills_for_model(&self) -> SkillsForModel {
        let scheme = self.scheme();
        let list = self.with(|state| {
            state.skills.list_for_model(&scheme, |skill| state.visible_entry(skill.server).is_some())
        });
        let tools = match list.is_empty() {
            true => Vec::new(),
            false => SkillTool::ALL.map(|tool| tool.definition(&scheme)).into(),
        };
        SkillsForModel { list, tools }
    }

    /// Answers a model's call of one of the [tools for skills](Self::skills_for_model): loads a skill, reads a file of it or
    /// lists a folder of it. The server of the skill alone is asked, and the content begins with a note that names it.
    ///
    /// The user must have approved the skill, or is [asked](SkillOptions::on_request). Each file is verified; when one is not
    /// what was approved, it is not used, the approval ends, and the skill is asked for again, for the next call.
    ///
    /// What a model can do something about, such as a file that the skill does not have, is content with `is_error`.
    ///
    /// <https://modelcontextprotocol.io/seps/2640-skills-extension#security-implications>
    ///
    /// # Errors
    /// If it is no tool for skills, or the server did not answer.
    pub async fn use_skill(
        &self,
        tool_name: &str,
        arguments: impl Serialize,
    ) -> Result<ModelContent, CallError> {
        let scheme = self.scheme();
        let tool = SkillTool::of_name(tool_name, &scheme).ok_or(CallError::Name(LookupError::Unknown))?;
        let arguments = Json::encode(&arguments).unwrap_or_else(|_| Json::null());
        let error = match self.skill_content(tool, &arguments, &scheme).await {
            Ok(content) => return Ok(content),
            Err(SkillUseError::Call(error)) => {
                match model::is_content(&error, self.settings.errors_as_content) {
                    true => error.to_string(),
                    false => return Err(error),
                }
            }
            Err(SkillUseError::Skill(error)) => error.to_string(),
            Err(SkillUseError::NotApproved(name)) => format!("the user has not approved the skill {name}"),
        };
        Ok(model::error_content(&self.settings, tool_name, &error).await)
    }

    /// Reads one file of a skill for the application: by the skill's name for a model, and a path in its folder or a URI. The
    /// rules are those of [`use_skill`](Self::use_skill).
    ///
    /// # Errors
    /// If there is no such skill or file, the user has not approved the skill, the file is not what was approved, or the
    /// server did not answer.
    pub async fn read_skill_file(&self, skill: &str, path: &str) -> Result<VerifiedFile, CallError> {
        let arguments = Json::from(serde_json::json!({ "skill": skill, "path": path }));
        let read = self.resolve_skill(SkillTool::ReadResource, &arguments);
        let read = async { self.read_file(&read?).await };
        read.await.map_err(|error| match error {
            SkillUseError::Call(error) => error,
            SkillUseError::Skill(SkillCallError::Skill(error)) => CallError::Call(error.into()),
            SkillUseError::Skill(_) => CallError::Name(LookupError::Unknown),
            SkillUseError::NotApproved(_) => CallError::Name(LookupError::Blocked),
        })
    }

    /// Removes the approval of a skill. Returns whether there was one.
    pub fn revoke_skill(&self, server: &str, uri: &str) -> bool {
        self.shared().command(|state, _| {
            let entry = state.find(server).and_then(|id| state.entries.get(&id).cloned());
            entry.is_some_and(|entry| state.revoke_skill(&entry, uri))
        })
    }

    /// The whole listing of a server. No cached one, which may be older than an entry that was got since.
    async fn list_of(&self, entry: &ServerEntry, client: &Client) -> Result<List<Skill>, ListError<Skill>> {
        let listing = client.list_skills().byte_limit(LIST_BYTES).cache(CacheMode::Refresh);
        let Some(after) = entry.spec().timeouts(&self.settings.overrides).call else { return listing.await };
        // Each page has its own time limit; a server may have any number of pages.
        or(listing, async {
            self.shared().clock.sleep_in_handle(after).await;
            let error = Error::TimedOut { after, hard_timeout: true, unaddressed: None };
            Err(ListError { items: List::new(), error })
        })
        .await
    }

    fn scheme(&self) -> NameScheme {
        self.catalogue(|catalogue| catalogue.scheme().clone())
    }

    /// The connected servers that declare skills, if the host uses them.
    fn skill_servers(&self) -> Vec<(Arc<ServerEntry>, Client)> {
        if self.settings.skills.is_none() {
            return Vec::new();
        }
        let declares = |client: &Client| {
            let server = client.server().filter(|server| server.era == Era::Modern);
            let capabilities = server.as_ref().and_then(|server| server.capabilities.as_ref());
            capabilities.is_some_and(|declared| declared.has(ServerCapability::SkillsExtension))
        };
        self.with(|state| {
            let visible = state.entries.values().filter(|entry| !state.is_withdrawn(entry));
            let connected = visible.filter_map(|entry| {
                let client = state.connections.get(&entry.id())?.client.as_ref()?.outside_layers();
                declares(&client).then(|| (entry.clone(), client))
            });
            connected.collect()
        })
    }

    /// Replaces the listed skills of a server, unless it was reconfigured meanwhile, or adds to them if the listing is not
    /// whole. Returns what is wrong with those that are left out.
    fn update_skills(
        &self,
        entry: &Arc<ServerEntry>,
        mut skills: List<Skill>,
        is_whole: bool,
    ) -> Vec<SkillError> {
        let name = entry.name();
        let unreadable = self.retain_allowed(name, &mut skills);
        let repeated = take_repeated(&mut skills);
        self.shared().command(|state, _| {
            let current = state.entries.get(&entry.id());
            if current.is_none_or(|current| current.connection() != entry.connection()) {
                return Vec::new();
            }
            let mut errors = match is_whole {
                true => state.skills.update(name, skills),
                false => state.skills.merge(name, skills),
            };
            errors.extend(unreadable);
            // An entry that cannot be loaded any more is not what was approved, unless it is one too many.
            let broken = errors.iter().filter(|error| error.kind != SkillErrorKind::TooMany);
            broken.for_each(|error| _ = state.revoke_skill(entry, &error.skill));
            let listed = state.skills.iter().filter(|skill| skill.server == name);
            let listed: Vec<_> = listed.map(|skill| skill.skill.clone()).collect();
            listed.iter().for_each(|skill| state.revoke_changed_skill(entry, skill));
            errors.extend(repeated);
            errors
        })
    }

    /// Removes what the configuration of the server denies. Returns what is wrong with entries that could not be read.
    fn retain_allowed(&self, server: &str, skills: &mut List<Skill>) -> Vec<SkillError> {
        let mut unreadable: Vec<_> = skills.invalid().iter().map(unreadable).collect();
        self.catalogue(|catalogue| {
            let is_allowed = |uri: &str| catalogue.allows(server, ItemKind::Resource, uri);
            skills.retain(|skill| is_allowed(&skill.uri));
            unreadable.retain(|error| error.skill.is_empty() || is_allowed(&error.skill));
        });
        unreadable
    }

    /// Rejects what the configuration of the server denies.
    fn check_skill_uri(&self, server: &str, uri: &str) -> Result<(), CallError> {
        match self.catalogue(|catalogue| catalogue.allows(server, ItemKind::Resource, uri)) {
            true => Ok(()),
            false => Err(CallError::Name(LookupError::Denied)),
        }
    }

    fn resolve_skill(&self, tool: SkillTool, arguments: &Json) -> Result<SkillRead, SkillUseError> {
        self.with(|state| {
            let read = state.skills.resolve(tool, arguments)?;
            match state.visible_entry(&read.server) {
                Some(_) => Ok(read),
                None => Err(SkillCallError::Unknown { name: read.name }.into()),
            }
        })
    }

    async fn skill_content(
        &self,
        tool: SkillTool,
        arguments: &Json,
        scheme: &NameScheme,
    ) -> Result<ModelContent, SkillUseError> {
        let read = self.resolve_skill(tool, arguments)?;
        let mut content = match &read.target {
            SkillTarget::Folder(folder) => {
                let mut content = ModelContent::default();
                let text = self.list_folder(&read, folder).await?;
                content.parts.push(ModelPart::Text { text, author: Author::Server });
                content
            }
            SkillTarget::File(_) => {
                let file = self.read_file(&read).await?;
                let result = ReadResourceResult::new([read.contents(file)]);
                let limits = &self.settings.result_limits;
                model::content_of(&self.settings, Conversion::of_resource(&read.name, result, limits)).await
            }
        };
        // The model sees where it is from before it reads any of it.
        content.parts.insert(0, ModelPart::Text { text: read.note(scheme), author: Author::Host });
        Ok(content)
    }

    async fn list_folder(&self, read: &SkillRead, folder: &str) -> Result<String, SkillUseError> {
        self.permit_skill(read).await?;
        let children = match read.skill.is_dynamic() {
            false => read.skill.children(folder),
            true => {
                let client = self.client(&read.server).ok_or(CallError::UnknownServer)?;
                let children = client.read_skill_folder(&read.skill, folder).await;
                children.map_err(CallError::Call)?.into_iter().collect()
            }
        };
        Ok(read.listing(&children))
    }

    async fn read_file(&self, read: &SkillRead) -> Result<VerifiedFile, SkillUseError> {
        let SkillTarget::File(uri) = &read.target else {
            return Err(SkillCallError::Unknown { name: read.name.clone() }.into());
        };
        self.check_skill_uri(&read.server, uri)?;
        self.permit_skill(read).await?;
        let request = self.request::<ReadResource>(&read.server, ReadResourceParams::new(uri));
        let answer = request.cache(CacheMode::Refresh).repeat(Repeat::IfLost).await?;
        match read.skill.verify(uri, &answer.contents) {
            Ok(file) => match self.with(|state| state.permit_skill(read)) {
                Some(Ok(_)) => Ok(file),
                // It was revoked meanwhile.
                _ => Err(SkillUseError::NotApproved(read.name.clone())),
            },
            Err(error) => {
                if error.is_mismatch() {
                    self.renew_skill(read).await;
                }
                Err(error.into())
            }
        }
    }

    /// Checks that the user has approved the skill, or asks, once for all that load it meanwhile.
    async fn permit_skill(&self, read: &SkillRead) -> Result<(), SkillUseError> {
        let refused = || SkillUseError::NotApproved(read.name.clone());
        let ask = self.settings.skills.as_ref().and_then(|skills| skills.ask.clone());
        loop {
            let question = match self.with(|state| state.permit_skill(read)).ok_or_else(refused)? {
                Ok(_) => return Ok(()),
                Err(request) => self.question(read, ask.as_ref().ok_or_else(refused)?, *request).await,
            };
            // Not if the entry changed while the user read it.
            if question.is_answered.load(Ordering::Acquire) && question.skill == read.skill {
                let permit = self.with(|state| state.permit_skill(read));
                return permit.is_some_and(|permit| permit.is_ok()).then_some(()).ok_or_else(refused);
            }
            // Who asked gave up, or asked about other content.
            if self.with(|state| state.is_closed()) {
                return Err(refused());
            }
        }
    }

    /// Asks the user about a skill, or waits until a question about it that is open has ended.
    async fn question(&self, read: &SkillRead, ask: &AskSkill, request: SkillRequest) -> Arc<SkillQuestion> {
        let new = Arc::new(SkillQuestion { skill: read.skill.clone(), is_answered: AtomicBool::new(false) });
        let open = self.with(|state| {
            // It may have been answered a moment ago.
            let is_permitted = matches!(state.permit_skill(read), Some(Ok(_)));
            new.is_answered.store(is_permitted, Ordering::Release);
            state.skill_questions.entry(read.name.clone()).or_insert_with(|| new.clone()).clone()
        });
        if !Arc::ptr_eq(&open, &new) {
            self.shared().wait(|state| !state.is_asked(&read.name, &open)).await;
            return open;
        }
        let _open = OpenQuestion { host: self, name: &read.name };
        if !open.is_answered.load(Ordering::Acquire) {
            if let Some(approval) = ask(request).await {
                self.approve(approval);
            }
            open.is_answered.store(true, Ordering::Release);
        }
        open
    }

    /// Ends the approval of a skill whose content is not what was approved, and gets its present entry.
    async fn renew_skill(&self, read: &SkillRead) {
        self.shared().command(|state, _| {
            if let Some(entry) = state.visible_entry(&read.server).cloned() {
                state.revoke_skill(&entry, read.skill.uri());
            }
        });
        // If that fails, the old entry stays, and nothing can be read that differs from it.
        let _ = self.get_skill(&read.server, read.skill.uri()).await;
    }
}

/// Ends a question that is open, answered or not.
struct OpenQuestion<'a> {
    host: &'a Host,
    name: &'a str,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.host.with(|state| {
            state.skill_questions.remove(self.name);
            state.wake_waiting();
        });
    }
}

/// The error of an entry that could not be read. Its URI is empty if it has none.
fn unreadable(item: &InvalidItem) -> SkillError {
    #[derive(Deserialize)]
    struct Named {
        uri: String,
    }
    let skill = item.json.decode::<Named>().map_or_else(|_| String::new(), |named| named.uri);
    SkillError::of_entry(skill, SkillErrorKind::Unreadable(item.reason.to_string()))
}

/// Removes the entries that were listed before with the same content: they are wrong, but what was approved is the same.
fn take_repeated(skills: &mut Vec<Skill>) -> Vec<SkillError> {
    let mut positions = HashMap::new();
    let (mut kept, mut repeated) = (Vec::<Skill>::new(), Vec::new());
    for skill in skills.drain(..) {
        let uri = skill.uri.clone();
        let first = positions.get(&uri).and_then(|position: &usize| kept.get(*position));
        if first == Some(&skill) {
            let kind = SkillErrorKind::Entry(InvalidSkill::Duplicate { uri: uri.clone() });
            repeated.push(SkillError::of_entry(uri, kind));
        } else {
            positions.entry(uri).or_insert(kept.len());
            kept.push(skill);
        }
    }
    *skills = kept;
    repeated
}

fn host_skill(state: &State, entry: &ServerEntry, skill: SkillEntry<'_>) -> HostSkill {
    HostSkill {
        name: skill.name.to_owned(),
        server: skill.server.to_owned(),
        skill: skill.skill.clone(),
        permit: state.approvals.permit_skill(entry, skill.skill),
    }
}

impl State {
    /// The entry of a server of which something may be offered.
    fn visible_entry(&self, server: &str) -> Option<&Arc<ServerEntry>> {
        let entry = self.entries.get(&self.find(server)?)?;
        (!self.is_withdrawn(entry)).then_some(entry)
    }

    /// The right to read of a skill; `None` if its server is gone, or the entry is not the present one.
    fn permit_skill(&self, read: &SkillRead) -> Option<Result<SkillPermit, Box<SkillRequest>>> {
        let entry = self.visible_entry(&read.server)?;
        let present = self.skills.find(&read.name)?;
        (**present.skill == *read.skill).then(|| self.approvals.permit_skill(entry, &read.skill))
    }

    /// Whether this question is open.
    fn is_asked(&self, name: &str, question: &Arc<SkillQuestion>) -> bool {
        self.skill_questions.get(name).is_some_and(|open| Arc::ptr_eq(open, question))
    }

    fn revoke_changed_skill(&mut self, entry: &ServerEntry, skill: &SkillManifest) {
        if self.approvals.is_changed_skill(entry, skill) {
            self.revoke_skill(entry, skill.uri());
        }
    }

    /// Removes the approval of a skill, and reports it. Returns whether there was one.
    fn revoke_skill(&mut self, entry: &ServerEntry, uri: &str) -> bool {
        let is_revoked = self.approvals.revoke_skill(entry, uri);
        if is_revoked {
            self.unsaved.add_approvals(entry.id());
            self.publish(HostEvent::SkillRevoked { server: entry.name().into(), skill: uri.into() });
        }
        is_revoked
    }
}

/// The skills of a host that has no entries yet.
pub(super) fn catalogue(options: Option<&SkillOptions>) -> SkillCatalogue {
    SkillCatalogue::new(options.is_some_and(|options| options.allows_dynamic))
}
