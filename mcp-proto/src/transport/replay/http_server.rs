//! Exchanges and sessions of a server over HTTP.

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::RefCell;

use super::{MachineReplayError, Replay, read};
use crate::ordered_map::OrderedMap;
use crate::peer::recorded::ServerCommand;
use crate::peer::server::ServerTransport as _;
use crate::prelude::*;
use crate::quota::{ByteAccount, ByteBudget, ByteLimits, QuotaOwner};
use crate::trace_file::{MachineOrigin, MachineRecord, MachineRecorder, MachineStep};
use crate::transport::http::server::{
    ConnectionId, EXCHANGE, Exchange, ExchangeInput, ExchangeOrigin, HttpServerConfig, Post, RequestIntake,
    RequestRoute, SERVER, SESSION, Session, SessionId, SessionInput, SessionOrigin, Setup,
};
use crate::{Bytes, Instant};

/// The servers of a connection, by their machines' numbers.
#[derive(Default)]
pub(super) struct Servers(OrderedMap<usize, Rc<Server>>);

/// What the exchanges and sessions of a server have in common.
struct Server {
    setup: Setup,
    budget: RefCell<ByteBudget>,
    /// The messages that exchanges have for sessions, by the exchanges' numbers.
    posts: RefCell<OrderedMap<usize, Post>>,
}

impl Server {
    fn new(config: HttpServerConfig) -> Rc<Self> {
        // The trace has the answers of the budget.
        let limits = ByteLimits { total: usize::MAX, unauthenticated: usize::MAX, owner: usize::MAX };
        let budget = RefCell::new(ByteBudget::new(limits));
        Rc::new(Self { setup: Setup::new(config), budget, posts: RefCell::default() })
    }

    fn account(&self) -> ByteAccount {
        self.budget.borrow_mut().account(&QuotaOwner::LOCAL)
    }

    fn post(&self, exchange: usize) -> Result<Post, MachineReplayError> {
        let post = self.posts.borrow_mut().remove(&exchange);
        post.ok_or_else(|| unreadable("a session was given a message that no exchange has"))
    }
}

fn unreadable(reason: &str) -> MachineReplayError {
    MachineReplayError::Unreadable { reason: reason.to_owned() }
}

impl Servers {
    /// Creates the machine of this kind; `None` if there is no such kind here.
    pub(super) fn machine(
        &mut self,
        number: usize,
        origin: &MachineOrigin,
        recorder: &MachineRecorder,
        now: Instant,
    ) -> Result<Option<Box<dyn Replay>>, MachineReplayError> {
        Ok(Some(match &*origin.kind {
            SERVER => {
                let mut config: HttpServerConfig = read(&origin.config)?;
                Arc::make_mut(&mut config.server).recorder = Some(recorder.clone());
                let server = Server::new(config);
                self.0.insert(number, server.clone());
                Box::new(ReplayedServer)
            }
            EXCHANGE => {
                let own: ExchangeOrigin = read(&origin.config)?;
                Box::new(ReplayedExchange::new(self.find(own.server)?, &own, number, recorder))
            }
            SESSION => {
                let own: SessionOrigin = read(&origin.config)?;
                Box::new(ReplayedSession::new(self.find(own.server)?, &own, recorder, now)?)
            }
            _ => return Ok(None),
        }))
    }

    fn find(&self, server: usize) -> Result<Rc<Server>, MachineReplayError> {
        self.0
            .get(&server)
            .cloned()
            .ok_or_else(|| unreadable("the server of an exchange or a session is missing"))
    }
}

/// A server, which does nothing by itself.
struct ReplayedServer;

impl Replay for ReplayedServer {
    fn give(&mut self, _: &MachineRecord) -> Result<(), MachineReplayError> {
        Ok(())
    }
}

struct ReplayedExchange {
    server: Rc<Server>,
    setup: Setup,
    /// The number of its machine.
    number: usize,
    stage: Stage,
}

/// How far an exchange is.
enum Stage {
    Request(RequestIntake),
    /// The request is complete.
    Routed(RequestRoute),
    Open(Box<Exchange>),
    /// It is answered, or its message is a session's.
    Over,
}

impl ReplayedExchange {
    fn new(server: Rc<Server>, origin: &ExchangeOrigin, number: usize, recorder: &MachineRecorder) -> Self {
        let setup = server.setup.recorded_by(recorder);
        let intake = origin.with_head(|head| RequestIntake::new(&setup, head));
        let stage = intake.map_or(Stage::Over, |intake| Stage::Request(intake.charge(&server.account())));
        Self { server, setup, number, stage }
    }

    fn handle_body(mut intake: RequestIntake, bytes: &[u8]) -> Stage {
        match intake.handle_body(Bytes::copy_from_slice(bytes)) {
            Ok(()) => Stage::Request(intake),
            Err(_) => Stage::Over,
        }
    }

    fn route(&self, intake: RequestIntake) -> Stage {
        match intake.finish() {
            RequestRoute::OpenSession(post)
            | RequestRoute::Session { post, .. }
            | RequestRoute::LegacyPost { post, .. } => {
                self.server.posts.borrow_mut().insert(self.number, post);
                Stage::Over
            }
            routed => Stage::Routed(routed),
        }
    }

    fn open(&self, routed: RequestRoute, input: ExchangeInput, now: Instant) -> Stage {
        let setup = &self.setup;
        match (routed, input) {
            (RequestRoute::Modern(request), ExchangeInput::Open(principal)) => {
                Stage::Open(Exchange::open(setup, request.on_behalf_of(principal), now).into())
            }
            (RequestRoute::Stateless(post), ExchangeInput::Open(principal)) => {
                Stage::Open(Exchange::open_stateless(setup, post.on_behalf_of(principal), now).into())
            }
            _ => Stage::Over,
        }
    }
}

impl Replay for ReplayedExchange {
    fn give(&mut self, record: &MachineRecord) -> Result<(), MachineReplayError> {
        let now = record.now();
        self.stage = match (core::mem::replace(&mut self.stage, Stage::Over), &record.step) {
            (Stage::Request(intake), MachineStep::Input(bytes)) => {
                Self::handle_body(intake, bytes.as_bytes())
            }
            (Stage::Request(mut intake), MachineStep::Message(body)) => {
                intake.set_body(Bytes::copy_from_slice(body.as_bytes()));
                Stage::Request(intake)
            }
            (Stage::Request(intake), MachineStep::Eof(_)) => self.route(intake),
            (Stage::Request(intake), MachineStep::Timeout) => {
                drop(intake.time_out());
                Stage::Over
            }
            (Stage::Routed(routed), MachineStep::Http(input)) => self.open(routed, read(input)?, now),
            (Stage::Open(mut exchange), step) => {
                match step {
                    MachineStep::Http(_) => exchange.handle_disconnect(now),
                    MachineStep::Timeout => exchange.handle_timeout(now),
                    MachineStep::Command(command) => {
                        read::<ServerCommand>(command)?.give(&mut exchange.at(now));
                    }
                    MachineStep::Event(_) => drop(exchange.poll_event()),
                    MachineStep::Head { .. } => drop(exchange.poll_head()),
                    MachineStep::Body { .. } | MachineStep::End { .. } => drop(exchange.poll_body()),
                    MachineStep::WholeBody { .. } => drop(exchange.take_body()),
                    _ => {}
                }
                Stage::Open(exchange)
            }
            (stage, _) => stage,
        };
        Ok(())
    }
}

struct ReplayedSession {
    server: Rc<Server>,
    /// `None` if its handshake failed.
    session: Option<Session>,
}

impl ReplayedSession {
    fn new(
        server: Rc<Server>,
        origin: &SessionOrigin,
        recorder: &MachineRecorder,
        now: Instant,
    ) -> Result<Self, MachineReplayError> {
        let id = SessionId::parse(origin.id.as_bytes()).ok_or_else(|| unreadable("no session id"))?;
        let setup = server.setup.recorded_by(recorder);
        let session = match origin.post {
            Some(exchange) => Session::open(&setup, id, server.post(exchange)?, now).ok().map(|(it, _)| it),
            None => Some(Session::open_legacy(&setup, id, now).0),
        };
        Ok(Self { server, session })
    }

    fn give_input(&mut self, input: SessionInput, now: Instant) -> Result<(), MachineReplayError> {
        let Some(session) = &mut self.session else { return Ok(()) };
        match input {
            SessionInput::Post(exchange) => drop(session.handle_post(now, self.server.post(exchange)?)),
            SessionInput::Listen(last_event) => drop(session.listen(now, last_event.as_deref())),
            SessionInput::Delete => drop(session.delete(now)),
            SessionInput::Disconnect(connection) => session.handle_disconnect(now, id(connection)?),
            SessionInput::Charge => session.charge(&self.server.account()),
            SessionInput::Pack => {
                if let Some(mut packed) = session.take_idle() {
                    *session = Session::from_idle(&mut packed);
                }
            }
        }
        Ok(())
    }
}

fn id(connection: u64) -> Result<ConnectionId, MachineReplayError> {
    ConnectionId::new(connection).ok_or_else(|| unreadable("no connection"))
}

impl Replay for ReplayedSession {
    fn give(&mut self, record: &MachineRecord) -> Result<(), MachineReplayError> {
        let now = record.now();
        if let MachineStep::Http(input) = &record.step {
            return self.give_input(read(input)?, now);
        }
        let Some(session) = &mut self.session else { return Ok(()) };
        match &record.step {
            MachineStep::Timeout => session.handle_timeout(now),
            MachineStep::Command(command) => read::<ServerCommand>(command)?.give(&mut session.at(now)),
            MachineStep::Event(_) => drop(session.poll_event()),
            MachineStep::Action(_) => _ = session.poll_connection(),
            MachineStep::Head { exchange, .. } => drop(session.poll_head(id(*exchange)?)),
            MachineStep::Body { exchange, .. } | MachineStep::End { exchange, .. } => {
                drop(session.poll_body(now, id(*exchange)?));
            }
            MachineStep::WholeBody { exchange, .. } => drop(session.take_answer(now, id(*exchange)?)),
            _ => {}
        }
        Ok(())
    }
}
