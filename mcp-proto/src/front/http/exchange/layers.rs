//! The passage of an exchange's messages through the layers of its router.

use core::mem;

use super::{HttpExchange, Stage};
use crate::Bytes;
use crate::front::HandlerMode;
use crate::front::handler::connection::HandlerReports as _;
use crate::front::handler_error::HandlerPanic;
use crate::front::http::service::Service;
use crate::front::layer::{Layers, MessageDirection, MessageLayers, Side};
use crate::prelude::*;
use crate::transport::http::server::{
    BodyKind, Chunk, Exchange, HttpResponse, RequestIntake, RequestRoute, ResponseHead,
};

/// The layers through which the messages of an exchange pass.
pub(super) struct ExchangeLayers<H: HandlerMode> {
    messages: Box<MessageLayers<H>>,
    /// The whole body of an answer that passed already.
    passed: Bytes,
}

impl<H: HandlerMode> ExchangeLayers<H> {
    /// Creates the passage of an exchange; `None` without layers.
    pub(super) fn new(service: &Service, layers: &Layers<H>) -> Option<Box<Self>> {
        let messages = MessageLayers::new(layers, Side::Server, &service.setup.config().server.limits)?;
        Some(Box::new(Self { messages, passed: Bytes::new() }))
    }

    /// Takes the body of an answer that passed with its head.
    pub(super) fn take_passed(&mut self) -> Option<Bytes> {
        (!self.passed.is_empty()).then(|| mem::take(&mut self.passed))
    }
}

impl<H: HandlerMode> HttpExchange<H> {
    /// Passes the body of a request through the layers. Returns whether it goes on.
    ///
    /// # Errors
    /// The answer, if a layer panicked.
    pub(super) fn pass_request(
        &mut self,
        intake: &mut RequestIntake,
        mirrors_params: bool,
    ) -> Result<bool, HttpResponse> {
        let Some(layered) = &mut self.layers else { return Ok(true) };
        layered.messages.set_request(intake.revision(), self.principal.clone(), mirrors_params);
        let passed = layered.messages.pass_body(intake.body().clone(), MessageDirection::Received);
        self.report_undropped();
        let passed = passed.map_err(|HandlerPanic| HttpResponse::layer_panicked())?;
        Ok(passed.map(|body| intake.set_body(body)).is_some())
    }

    /// Answers a notification that a layer dropped like one that was accepted.
    pub(super) fn accept_dropped(&self, route: RequestRoute) -> Result<Stage<H>, HttpResponse> {
        match route {
            RequestRoute::Answer(answer) => return Err(answer),
            RequestRoute::Session { id, post } | RequestRoute::LegacyPost { id, post } => {
                self.session(id, post.request_id())?;
            }
            _ => {}
        }
        Ok(Stage::Answer(HttpResponse::empty(202)))
    }

    /// Passes an answer that is no event stream through the layers, with its head. Returns the head.
    pub(super) fn pass_answer(&mut self, mut head: ResponseHead) -> ResponseHead {
        let (Some(layered), BodyKind::Sized(_)) = (&mut self.layers, head.body) else { return head };
        if let Stage::Modern(running) = &mut self.stage
            && let Chunk::Bytes(bytes) = running.driver.machine.take_output(Exchange::poll_body)
        {
            layered.passed = bytes;
        }
        let body = match &mut self.stage {
            Stage::Body(body) => &mut body.bytes,
            _ => &mut layered.passed,
        };
        match layered.messages.pass_body(mem::take(body), MessageDirection::Sent) {
            Ok(passed) => {
                *body = passed.unwrap_or_default();
                head.body = if body.is_empty() { BodyKind::Empty } else { BodyKind::Sized(body.len()) };
            }
            Err(HandlerPanic) => {
                let answer = HttpResponse::layer_panicked();
                head = answer.head();
                self.stage = Stage::Body(answer.body.into());
            }
        }
        self.report_undropped();
        head
    }

    /// Passes a part of the body through the layers: events, or an answer that passed with its head.
    pub(super) fn pass_part(&mut self, part: Bytes) -> Bytes {
        let Some(layered) = &mut self.layers else { return part };
        let passed = layered.messages.pass_events(part);
        self.report_undropped();
        passed.unwrap_or_else(|HandlerPanic| {
            // The end of its stream is all that the client can be told.
            self.stage = Stage::Over;
            Bytes::new()
        })
    }

    fn report_undropped(&mut self) {
        let undropped = self.layers.as_mut().map(|layered| layered.messages.take_undropped());
        for message in undropped.unwrap_or_default() {
            self.service.hub.layer_drop_ignored(message);
        }
    }
}
