//! Requests of a legacy server, and their answers.

use alloc::collections::VecDeque;

use crate::peer::admission::undeclared_capability;
use crate::peer::event_queue::Pressure;
use crate::peer::inbound::BatchId;
use crate::peer::task::{related_task_of, with_related_task};
use crate::peer::{AnyResult, InboundId, InsertError, LostReason, MessageKind, Outbox};
use crate::prelude::*;
use crate::rpc::{ErrorId, ErrorObject, Id, Raw, Text, code, write};
use crate::schema::{Direction, EmptyResult, Era, Method, MethodInfo, Params, Ping, Revision};
use crate::{Instant, Limits};

use super::event::id_bytes;
use super::{Client, CloseReason, Diagnostic, Event, Phase};

/// The state of a server's request until it is answered.
#[derive(Debug)]
pub(super) struct PendingReply {
    /// The batch that contained it.
    batch: Option<BatchId>,
    /// Its related task, which the answer names too (2025-11-25).
    task: Option<Box<str>>,
}

impl Client {
    /// The id of an unanswered request of the server, as on the wire. Input requests in results have none.
    pub(crate) fn request_wire_id(&self, request: InboundId) -> Option<&Id> {
        self.inbound.get(request).map(|(id, _)| id)
    }

    /// Answers a request of the server.
    pub(crate) fn respond(
        &mut self,
        now: Instant,
        request: InboundId,
        answer: Result<&dyn AnyResult, ErrorObject>,
        out: &mut dyn Outbox,
    ) {
        if self.take_input(now, request, &answer, out) {
            return self.advance_close(now);
        }
        let Some((id, PendingReply { batch, task })) = self.inbound.remove(request) else { return };
        let revision = self.revision().unwrap_or(Revision::LATEST_LEGACY);
        //= C1.6 "Client answers server→client requests (ping, roots/list, sampling, elicitation) with a response"
        let written = match (answer, task) {
            (Ok(result), None) => self.reply_result(&id, batch, result, revision, out),
            (Ok(result), Some(task)) => with_related_task(result, revision, &task)
                .and_then(|result| self.reply_result(&id, batch, &result, revision, out)),
            (Err(error), _) => Err(error),
        };
        if let Err(error) = written {
            self.reply_error(Some(&id), batch, &error, out);
        }
    }

    /// Adds methods that the application answers; with `others`, it answers all.
    pub(crate) fn answer_custom(&mut self, methods: Vec<String>, others: bool) {
        self.config.custom_methods.extend(methods);
        self.config.other_methods |= others;
    }

    /// Handles a request, on arrival or once the era of its server is known.
    pub(super) fn handle_request(&mut self, request: ServerRequest, out: &mut dyn Outbox) {
        // The sending half is closed: no answer can be sent.
        if matches!(self.connection.phase, Phase::Ending { .. }) {
            return;
        }
        let ServerRequest { id, method, params, batch } = request;
        match self.era() {
            //= C1.5 "Client never sends JSON-RPC responses"
            //= C3.2 "Only requests and notifications on stdin"
            //= C1.12 "Never emit -32002 or -32042, nor any undefined code in -32020…-32099"
            Some(Era::Modern) => self.report(Diagnostic::ForbiddenRequest { id, method }),
            // A ping does not wait for detection: any server but a modern one may send it.
            _ if &*method == Ping::NAME => {
                if let Err(error) =
                    //= F21 "`ping` by an empty result"
                    //= C7.10 "Answer `ping` promptly with `{}`"
                    self.reply_result(&id, batch, &EmptyResult::new(), Revision::LATEST_LEGACY, out)
                {
                    self.reply_error(Some(&id), batch, &error, out);
                }
            }
            None => {
                let request = ServerRequest { id, method, params, batch };
                if let Err(request) = self.early.push(request, &self.config.limits) {
                    let error =
                        ErrorObject::new(code::INTERNAL_ERROR, "too many requests before the handshake");
                    self.reply_error(Some(&request.id), request.batch, &error, out);
                }
            }
            // The server would take its answer for the answer to the other request.
            Some(Era::Legacy) if self.inbound.find(&id).is_some() => {
                if let Some(batch) = batch {
                    self.close_batch(batch, out);
                }
                self.report(Diagnostic::DuplicateRequest { id, method });
            }
            Some(Era::Legacy) => {
                if let Err(error) = self.take_request(&id, &method, params, batch) {
                    self.reply_error(Some(&id), batch, &error, out);
                }
            }
        }
    }

    /// Passes a legacy server's request to the application, or returns why not.
    fn take_request(
        &mut self,
        id: &Id,
        method: &Text,
        params: Option<Raw>,
        batch: Option<BatchId>,
    ) -> Result<(), ErrorObject> {
        let info = self.admit_request(method, params.as_ref())?;
        let method = info.map_or_else(|| method.clone(), |info| Text::from_static(info.name));
        let held = ServerRequest { id: id.clone(), method, params, batch };
        let bytes = held.bytes();
        let task = held.params.as_ref().and_then(related_task_of).map(Box::from);
        let refused = if self.events.pressure(bytes) >= Pressure::Requests {
            InsertError::Full
        } else {
            match self.inbound.insert(held.id.clone(), PendingReply { batch, task }) {
                Ok(id) => {
                    let ServerRequest { method, params, .. } = held;
                    let event = match info {
                        Some(method) => Event::Request { id, method, params },
                        None => Event::CustomRequest { id, method, params },
                    };
                    self.events.push(event, bytes);
                    return Ok(());
                }
                Err(refused) => refused,
            }
        };
        Err(match refused {
            InsertError::Duplicate => {
                ErrorObject::new(code::INVALID_REQUEST, "a request with this id is still unanswered")
            }
            InsertError::Full => ErrorObject::new(code::INTERNAL_ERROR, "too many requests are unanswered"),
        })
    }

    //= F21 "A request without handler is answered by -32601"
    /// Checks that this client has declared the capability for such a request. Returns the method, or `None` for one of
    /// the application's own.
    ///
    /// <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#capability-negotiation>
    fn admit_request(
        &self,
        method: &Text,
        params: Option<&Raw>,
    ) -> Result<Option<&'static MethodInfo>, ErrorObject> {
        let revision = self.revision().unwrap_or(Revision::LATEST_LEGACY);
        let unknown = || ErrorObject::new(code::METHOD_NOT_FOUND, format!("unknown method {:?}", &**method));
        let Some(info) = MethodInfo::find(method, Direction::ServerToClient, revision) else {
            return if self.config.answers(method) { Ok(None) } else { Err(unknown()) };
        };
        if !info.client_allows(&self.config.capabilities) {
            return Err(unknown());
        }
        match undeclared_capability(&self.config.capabilities, info, params) {
            Some(needed) => {
                let what = format!("this client does not declare {:?}", needed.path());
                //= C10.3 "Request with undeclared mode → -32602"
                Err(ErrorObject::new(code::INVALID_PARAMS, what))
            }
            None => Ok(Some(info)),
        }
    }

    /// Handles the server's cancellation of a request.
    pub(super) fn withdraw(&mut self, id: &Id, reason: Option<String>, out: &mut dyn Outbox) {
        if self.early.remove(id) {
            return;
        }
        let Some(request) = self.inbound.find(id) else { return };
        let Some((_, PendingReply { batch, .. })) = self.inbound.remove(request) else { return };
        let bytes = reason.as_ref().map_or(0, String::len);
        // The cancellation must be reported; its reason counts as a notification.
        let reason = reason.filter(|_| self.events.pressure(bytes) == Pressure::None);
        let bytes = reason.as_ref().map_or(0, String::len);
        self.events.push(Event::RequestCancelled { id: request, reason }, bytes);
        if let Some(batch) = batch {
            self.close_batch(batch, out);
        }
    }

    /// Withdraws all requests of the server, whose session is over.
    pub(super) fn withdraw_all(&mut self) {
        self.early.clear();
        if let Some(batches) = self.batches.used_mut() {
            batches.clear();
        }
        while let Some((id, _, _)) = self.inbound.pop() {
            self.events.push(Event::RequestCancelled { id, reason: None }, 0);
        }
    }

    // --- Answers ---

    fn reply_result(
        &mut self,
        id: &Id,
        batch: Option<BatchId>,
        result: &dyn AnyResult,
        revision: Revision,
        out: &mut dyn Outbox,
    ) -> Result<(), ErrorObject> {
        self.reply(Some(id), batch, out, |buffer| {
            write::result(buffer, id, |buffer| result.write_result(buffer, revision, None))
        })
        .map_err(|error| {
            ErrorObject::new(code::INTERNAL_ERROR, format!("the result cannot be encoded: {error}"))
        })
    }

    pub(super) fn reply_error(
        &mut self,
        id: Option<&Id>,
        batch: Option<BatchId>,
        error: &ErrorObject,
        out: &mut dyn Outbox,
    ) {
        let name = id.map_or(ErrorId::Null, ErrorId::Known);
        let plain = ErrorObject::new(error.code, error.message.clone());
        // Data from this crate always encodes; application data that does not is left out.
        let _ = self.reply(id, batch, out, |buffer| {
            write::error(buffer, name, error).or_else(|_| write::error(buffer, name, &plain))
        });
    }

    /// Writes the answer to one request, on its own or into its batch. Fails the connection if too many answers are
    /// queued already.
    fn reply(
        &mut self,
        id: Option<&Id>,
        batch: Option<BatchId>,
        out: &mut dyn Outbox,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
    ) -> Result<(), serde_json::Error> {
        if matches!(self.connection.phase, Phase::Ending { .. }) {
            return Ok(());
        }
        self.detect.note_reply_written();
        match batch {
            None => {
                write(out.buffer())?;
                out.commit(MessageKind::Reply(id));
            }
            Some(batch) => {
                self.batches.answer(batch, write)?;
                self.close_batch(batch, out);
            }
        }
        let limits = &self.config.limits;
        let waiting = out.queued().saturating_add(self.batches.bytes());
        if waiting > limits.queued_bytes.saturating_add(limits.reply_bytes) {
            self.abort(CloseReason::Lost(LostReason::Failed(
                "overloaded: the server does not read its answers".into(),
            )));
        }
        Ok(())
    }

    /// Counts one answer of a batch as given, or as never coming.
    pub(super) fn close_batch(&mut self, batch: BatchId, out: &mut dyn Outbox) {
        if let Some(answers) = self.batches.close(batch) {
            out.buffer().extend_from_slice(&answers);
            out.commit(MessageKind::Reply(None));
        }
    }
}

/// A request of the server.
#[derive(Debug)]
pub(super) struct ServerRequest {
    pub(super) id: Id,
    pub(super) method: Text,
    pub(super) params: Option<Raw>,
    /// The batch that contained it.
    pub(super) batch: Option<BatchId>,
}

impl ServerRequest {
    /// The size in bytes of its server-supplied content.
    pub(super) fn bytes(&self) -> usize {
        bytes_of(self.params.as_ref()).saturating_add(self.method.len()).saturating_add(id_bytes(&self.id))
    }
}

/// The server's requests that wait until its era is known, in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct EarlyRequests {
    requests: VecDeque<ServerRequest>,
    bytes: usize,
}

impl EarlyRequests {
    /// Adds a request.
    ///
    /// # Errors
    /// Returns the request if there is no room for it.
    pub(super) fn push(&mut self, request: ServerRequest, limits: &Limits) -> Result<(), ServerRequest> {
        let bytes = self.bytes.saturating_add(request.bytes());
        if self.requests.len() >= limits.requests_in || bytes > limits.event_bytes / 2 {
            return Err(request);
        }
        self.bytes = bytes;
        // Held requests must not keep the whole read in memory.
        let ServerRequest { id, method, params, batch } = request;
        let (method, params) = (Text::from(&*method), params.as_ref().map(Raw::detached));
        self.requests.push_back(ServerRequest { id, method, params, batch });
        Ok(())
    }

    /// Removes the request with this id. Returns whether there is one.
    pub(super) fn remove(&mut self, id: &Id) -> bool {
        let Some(at) = self.requests.iter().position(|request| request.id == *id) else { return false };
        if let Some(request) = self.requests.remove(at) {
            self.bytes = self.bytes.saturating_sub(request.bytes());
        }
        true
    }

    /// Removes and returns the oldest request.
    pub(super) fn pop(&mut self) -> Option<ServerRequest> {
        let request = self.requests.pop_front()?;
        self.bytes = self.bytes.saturating_sub(request.bytes());
        Some(request)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The size in bytes of parameters.
pub(super) fn bytes_of(params: Option<&Raw>) -> usize {
    params.map_or(0, |params| params.as_bytes().len())
}

/// Decodes a notification's parameters, or returns why they are invalid.
pub(super) fn decode<P: Params>(params: Option<&Raw>) -> Result<P, String> {
    match params {
        Some(params) => P::from_raw(params).map_err(|error| error.to_string()),
        None => Err("it has no parameters".into()),
    }
}
