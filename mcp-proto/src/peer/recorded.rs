//! Commands as a trace has them: each is recorded when it is given, and given again when the machine is run again.

use serde::{Deserialize, Serialize};

use crate::ordered_map::OrderedMap;
use crate::peer::{
    AnyParams, AnyResult, InboundId, LostReason, MetaEntries, OutgoingRequest, RequestId, RequestOptions,
    ResultDefaults,
};
use crate::prelude::*;
use crate::rpc::{ErrorObject, Raw};
use crate::schema::{
    CustomParams, CustomResult, MethodInfo, NotificationInfo, Params as _, ResultFields as _, ResultType,
    Revision,
};

/// A value that is written in one way for each revision.
#[derive(Clone, Serialize, Deserialize)]
struct ByRevision<T> {
    /// It as the newest revision has it.
    newest: T,
    /// It as older revisions have it, where they differ.
    #[serde(default = "OrderedMap::new", skip_serializing_if = "OrderedMap::is_empty")]
    older: OrderedMap<Revision, T>,
}

impl<T> ByRevision<T> {
    /// Reads what `write` writes for each revision; what it cannot write is empty.
    fn new(
        write: impl Fn(&mut Vec<u8>, Revision) -> Result<(), serde_json::Error>,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<Self> {
        let text = |revision| {
            let mut out = Vec::new();
            write(&mut out, revision).ok()?;
            String::from_utf8(out).ok()
        };
        let newest = text(Revision::LATEST)?;
        let older = Revision::LEGACY.iter().filter_map(|revision| {
            let text = text(*revision).filter(|text| *text != newest)?;
            Some((*revision, read(&text)?))
        });
        Some(Self { older: older.collect(), newest: read(&newest)? })
    }

    fn at(&self, revision: Revision) -> &T {
        self.older.get(&revision).unwrap_or(&self.newest)
    }
}

/// The parameters of a command.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct RecordedParams {
    /// The parameters with the fields of every revision.
    full: CustomParams,
    /// The fields that each revision has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fields: Option<ByRevision<CustomParams>>,
}

impl RecordedParams {
    pub(crate) fn new(params: &dyn AnyParams) -> Self {
        let text = params.to_raw().map(|raw| raw.as_str().to_owned()).unwrap_or_default();
        let read = |text: &str| CustomParams::from_json(text).ok();
        let write = |out: &mut Vec<u8>, revision| params.write_params(out, revision, MetaEntries::default());
        let full = read(&text).unwrap_or_default();
        let fields =
            ByRevision::new(write, read).filter(|fields| !fields.older.is_empty() || fields.newest != full);
        Self { full, fields }
    }

    fn at(&self, revision: Revision) -> &CustomParams {
        self.fields.as_ref().map_or(&self.full, |fields| fields.at(revision))
    }
}

impl AnyParams for RecordedParams {
    fn to_raw(&self) -> Result<Raw, serde_json::Error> {
        self.full.to_raw()
    }

    fn to_boxed(&self) -> Box<dyn AnyParams + Send + Sync> {
        Box::new(self.clone())
    }

    fn write_params(
        &self,
        out: &mut Vec<u8>,
        revision: Revision,
        entries: MetaEntries<'_>,
    ) -> Result<(), serde_json::Error> {
        self.at(revision).write_params(out, revision, entries)
    }

    fn write_key(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        self.at(Revision::LATEST).write_key(out)
    }

    fn may_have_field(&self, name: &str) -> bool {
        AnyParams::may_have_field(&self.full, name)
    }
}

/// The result in an answer.
#[derive(Serialize, Deserialize)]
pub(crate) struct RecordedResult {
    fields: Option<ByRevision<CustomResult>>,
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    may_embed_resource: bool,
}

impl RecordedResult {
    pub(crate) fn new(result: &dyn AnyResult) -> Self {
        let write = |out: &mut Vec<u8>, revision| result.write_result(out, revision, None);
        let read = |text: &str| CustomResult::from_json(text).ok();
        let may_embed_resource = result.may_embed_resource();
        Self { fields: ByRevision::new(write, read), may_embed_resource }
    }
}

impl AnyResult for RecordedResult {
    fn write_result(
        &self,
        out: &mut Vec<u8>,
        revision: Revision,
        stamp: Option<ResultDefaults<'_>>,
    ) -> Result<(), serde_json::Error> {
        match &self.fields {
            Some(fields) => fields.at(revision).write_result(out, revision, stamp),
            None => Err(serde::ser::Error::custom("a value of the result does not serialize")),
        }
    }

    fn result_type(&self) -> Option<&ResultType> {
        crate::schema::ResultFields::result_type(&self.fields.as_ref()?.newest)
    }

    fn may_embed_resource(&self) -> bool {
        self.may_embed_resource
    }

    fn as_any(&self) -> &dyn core::any::Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn core::any::Any> {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn core::any::Any {
        self
    }
}

/// A request for the command `send`.
#[derive(Serialize, Deserialize)]
pub(crate) struct RecordedRequest {
    method: String,
    /// Its place in the table of methods, if its type is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    known: Option<usize>,
    params: RecordedParams,
    options: RequestOptions,
}

impl RecordedRequest {
    /// `None` for a method whose type is defined elsewhere.
    pub(crate) fn new(request: &OutgoingRequest<'_>) -> Option<Self> {
        let place = |info: &MethodInfo| MethodInfo::all().position(|it| it == info);
        Some(Self {
            method: request.method.into(),
            known: match request.info {
                Some(info) => Some(place(info)?),
                None => None,
            },
            params: RecordedParams::new(request.params),
            options: request.options.clone(),
        })
    }

    pub(crate) fn request(&self) -> OutgoingRequest<'_> {
        OutgoingRequest {
            method: &self.method,
            info: self.known.and_then(|place| MethodInfo::all().nth(place)),
            params: &self.params,
            options: self.options.clone(),
        }
    }
}

/// The entry of a notification that has this place in the table.
fn notification(place: usize) -> Option<&'static NotificationInfo> {
    NotificationInfo::all().nth(place)
}

/// The place of a notification in the table, unless its type is defined elsewhere.
pub(crate) fn notification_place(info: &NotificationInfo) -> Option<usize> {
    NotificationInfo::all().position(|it| it == info)
}

#[cfg(feature = "client")]
pub(crate) use client::ClientCommand;

#[cfg(feature = "client")]
mod client {
    use super::*;
    use crate::peer::client::{CacheContext, ClientCommands, TaskCommand, WatchFilter, WatchId, WatchStart};
    #[cfg(feature = "std")]
    use crate::rpc::Id;
    #[cfg(feature = "std")]
    use crate::schema::Extension;

    /// A command of [`ClientCommands`].
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(crate) enum ClientCommand {
        Send(RecordedRequest),
        Task(String, TaskCommand, RequestOptions),
        Cancel(RequestId, Option<String>),
        Retry(RequestId),
        Respond(InboundId, Result<RecordedResult, ErrorObject>),
        Notify(usize, RecordedParams),
        NotifyCustom(String, RecordedParams),
        Watch(WatchFilter, WatchStart),
        SetWatchFilter(WatchId, WatchFilter),
        Unwatch(WatchId),
        SetCacheContext(CacheContext),
        EndCacheContext,
        ClearCache,
        Close,
        Abort(LostReason),
        EmptyCursor(String),
        #[cfg(feature = "schema-validate")]
        MissingOutput(String),
        #[cfg(feature = "std")]
        Register(Vec<Extension>, Vec<String>, bool),
        #[cfg(feature = "std")]
        RefuseInvalidExtensions,
        #[cfg(feature = "std")]
        WithholdAnswer(Id),
    }

    impl ClientCommand {
        /// Gives the command again. What it returns is recorded anew.
        pub(crate) fn give(self, client: &mut ClientCommands<'_>) {
            match self {
                Self::Send(request) => drop(client.send(request.request())),
                Self::Task(id, command, options) => drop(client.task(&id, command, options)),
                Self::Cancel(request, reason) => client.cancel(request, reason.as_deref()),
                Self::Retry(request) => client.retry(request),
                Self::Respond(request, Ok(result)) => client.respond(request, Ok(&result)),
                Self::Respond(request, Err(error)) => client.respond(request, Err(error)),
                Self::Notify(place, params) => {
                    drop(notification(place).map(|info| client.notify_known(info, &params)));
                }
                Self::NotifyCustom(method, params) => drop(client.notify_custom(&method, &params)),
                Self::Watch(filter, start) => drop(client.watch(filter, start)),
                Self::SetWatchFilter(watch, filter) => client.set_watch_filter(watch, filter),
                Self::Unwatch(watch) => client.unwatch(watch),
                Self::SetCacheContext(context) => client.set_cache_context(context),
                Self::EndCacheContext => client.end_cache_context(),
                Self::ClearCache => client.clear_cache(),
                Self::Close => client.close(),
                Self::Abort(why) => client.abort(why),
                Self::EmptyCursor(method) => {
                    let info = MethodInfo::all().find(|info| info.name == method);
                    let leniency =
                        |info: &MethodInfo| crate::peer::Leniency::EmptyCursor { method: info.name };
                    _ = info.map(|info| client.tolerate(leniency(info)));
                }
                #[cfg(feature = "schema-validate")]
                Self::MissingOutput(tool) => _ = client.tolerate_missing_output(&tool),
                #[cfg(feature = "std")]
                Self::Register(extensions, methods, others) => client.register(extensions, methods, others),
                #[cfg(feature = "std")]
                Self::RefuseInvalidExtensions => _ = client.refuse_invalid_extensions(),
                #[cfg(feature = "std")]
                Self::WithholdAnswer(id) => client.withhold_answer(&id),
            }
        }
    }
}

#[cfg(feature = "server")]
pub(crate) use server::{RecordedAnswer, ServerCommand};

#[cfg(feature = "server")]
mod server {
    use super::*;
    use crate::peer::server::{Answer, ListKind, ServerCommands};
    use crate::peer::{Denial, Principal};
    #[cfg(feature = "std")]
    use crate::schema::InputRequest;
    use crate::schema::tasks::TaskUpdatedParams;
    use crate::schema::{CallToolResult, InputRequiredResult, LoggingMessageParams, ProgressParams};

    /// An [`Answer`].
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(crate) enum RecordedAnswer {
        Result(RecordedResult),
        InputRequired(InputRequiredResult),
        Error(ErrorObject),
    }

    impl RecordedAnswer {
        pub(crate) fn new(answer: &Answer<'_>) -> Self {
            match answer {
                Answer::Result(result) => Self::Result(RecordedResult::new(*result)),
                Answer::InputRequired(required) => Self::InputRequired((*required).clone()),
                Answer::Error(error) => Self::Error(error.clone()),
            }
        }
    }

    /// A command of [`ServerCommands`].
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(crate) enum ServerCommand {
        #[cfg(feature = "std")]
        CheckTexts(InputRequest),
        Respond(InboundId, RecordedAnswer),
        Deny(InboundId, ErrorObject, Denial),
        CloseSseStream(InboundId),
        Progress(InboundId, ProgressParams),
        PartialResult(InboundId, CallToolResult),
        Log(Option<InboundId>, LoggingMessageParams),
        ListChanged(ListKind),
        ResourceUpdated(String),
        TaskUpdated(TaskUpdatedParams),
        NotifySession(usize, RecordedParams),
        NotifyCustom(Option<InboundId>, String, RecordedParams),
        ElicitationComplete(String),
        Send(Option<InboundId>, RecordedRequest),
        Cancel(RequestId, Option<String>),
        SetPrincipal(Option<Principal>),
        Close,
        Abort(LostReason),
    }

    impl ServerCommand {
        /// Gives the command again. What it returns is recorded anew.
        pub(crate) fn give(self, server: &mut ServerCommands<'_>) {
            match self {
                #[cfg(feature = "std")]
                Self::CheckTexts(request) => drop(server.check_texts(&request)),
                Self::Respond(request, answer) => server.respond(
                    request,
                    match &answer {
                        RecordedAnswer::Result(result) => Answer::Result(result),
                        RecordedAnswer::InputRequired(required) => Answer::InputRequired(required),
                        RecordedAnswer::Error(error) => Answer::Error(error.clone()),
                    },
                ),
                Self::Deny(request, error, denial) => server.deny(request, error, &denial),
                Self::CloseSseStream(request) => server.close_sse_stream(request),
                Self::Progress(request, params) => _ = server.progress(request, &params),
                Self::PartialResult(request, part) => _ = server.partial_result(request, &part),
                Self::Log(request, params) => _ = server.log(request, &params),
                Self::ListChanged(list) => server.list_changed(list),
                Self::ResourceUpdated(uri) => server.resource_updated(&uri),
                Self::TaskUpdated(params) => _ = server.task_updated(&params),
                Self::NotifySession(place, params) => {
                    _ = notification(place).map(|info| server.notify_session(info, &params));
                }
                Self::NotifyCustom(request, method, params) => {
                    drop(server.notify_custom(request, &method, &params));
                }
                Self::ElicitationComplete(id) => _ = server.elicitation_complete(&id),
                Self::Send(related, request) => drop(server.send(related, request.request())),
                Self::Cancel(request, reason) => server.cancel(request, reason.as_deref()),
                Self::SetPrincipal(principal) => server.set_principal(principal),
                Self::Close => server.close(),
                Self::Abort(why) => server.abort(why),
            }
        }
    }
}
