//! The driver of an exchange or a channel: it also passes on published changes and the end of the server.

use alloc::sync::Arc;
use core::task::{Context, Poll};

use super::change_hub::Subscriber;
use super::service::Service;
use super::token_watch::TokenWatch;
use crate::Instant;
use crate::front::HandlerMode;
use crate::front::handler::connection::ServerCore;
use crate::front::router::ServedRouter;
use crate::front::server::ServerDriver;
use crate::front::shared::Shared;
use crate::peer::server::{ServerCommands, ServerTransport};
use crate::prelude::*;

/// The driver of a machine that may listen for changes.
pub(super) struct ListeningDriver<M: ServerTransport, H: HandlerMode> {
    pub(super) machine: ServerDriver<M, H>,
    pub(super) service: Arc<Service>,
    /// What only a machine that listens for changes has.
    pub(super) listening: Option<Box<Listening>>,
    /// Whether the machine has been closed, with the server or before.
    pub(super) closing: bool,
}

pub(super) struct Listening {
    /// The subscriber to the changes that the client listens for.
    pub(super) subscriber: Option<Subscriber>,
    /// Ends the subscriptions with their token.
    pub(super) token: TokenWatch,
    /// Whether the token is no longer valid.
    pub(super) has_expired: bool,
}

impl<M: ServerTransport + Send + 'static, H: HandlerMode> ListeningDriver<M, H> {
    pub(super) fn new(
        service: &Arc<Service>,
        router: ServedRouter<H>,
        shared: Arc<Shared<ServerCore, M>>,
        listening: Option<Box<Listening>>,
    ) -> Self {
        let (entropy, tasks) = (service.entropy.clone(), service.task_service.clone());
        let machine = ServerDriver::new(shared, entropy, router, tasks);
        Self { machine, service: service.clone(), listening, closing: false }
    }
}

impl<M: ServerTransport, H: HandlerMode> ListeningDriver<M, H> {
    /// Runs handlers, passes changes to the machine, and polls it with `take`.
    pub(super) fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(&mut M, Instant) -> Poll<R>,
    ) -> Poll<R> {
        loop {
            let mut closes = !self.closing && self.service.is_closing();
            self.closing |= closes;
            let mut listening = self.listening.as_deref_mut();
            if let Some(listening) = &mut listening
                && listening.token.poll(&self.service, cx).is_ready()
            {
                (closes, listening.has_expired) = (true, true);
            }
            let subscriber = listening.and_then(|listening| listening.subscriber.as_ref());
            let mail = subscriber.map(|subscriber| subscriber.mailbox.take());
            let polled = self.machine.poll(cx, |machine, now| {
                if let Some(mail) = &mail {
                    mail.deliver(machine, now);
                }
                if closes {
                    ServerCommands::new(machine, now).close();
                }
                take(machine, now)
            });
            // Later changes call the stored waker. Changes before it was stored would be missed.
            let missed = subscriber.is_some_and(|subscriber| subscriber.mailbox.has_mail())
                || (!self.closing && self.service.is_closing());
            if polled.is_ready() || !missed {
                return polled;
            }
        }
    }

    /// The time at which the machine must be polled at the latest.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let token = self.listening.as_ref().and_then(|listening| listening.token.next_timeout());
        [self.machine.next_timeout(), token].into_iter().flatten().min()
    }
}
