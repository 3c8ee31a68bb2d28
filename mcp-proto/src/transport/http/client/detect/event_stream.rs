//! Detection of an HTTP+SSE server (2024-11-05), whose event stream names the URL for messages.

use alloc::string::ToString;

use crate::Instant;
use crate::peer::client::{ConnectError, EraPolicy};
use crate::schema::Revision;

use super::reply::{Reply, ReplyClass, UnexpectedReply};
use super::{
    EVENT_STREAM, HandshakeReason, HandshakeTarget, HttpDetectAction, HttpDetectStep, HttpEraDetection,
    INITIALIZE, PROBE,
};

impl HttpEraDetection {
    /// Handles an event stream that begins with `endpoint` as the answer to the probe or handshake.
    ///
    /// The server takes any request for the one that opens the HTTP+SSE stream.
    pub(in crate::transport::http::client) fn handle_endpoint(&mut self) -> HttpDetectAction {
        let (during, asked, lead) = match self.step {
            HttpDetectStep::Probing { .. } => (PROBE, Revision::LATEST_LEGACY, HandshakeReason::Detection),
            HttpDetectStep::Handshake { version: asked, target: HandshakeTarget::Endpoint, reason: lead }
                if lead != HandshakeReason::LostSession =>
            {
                (INITIALIZE, asked, lead)
            }
            _ => return HttpDetectAction::Wait,
        };
        self.retry_unreachable = true;
        let what = "it is the event stream of HTTP+SSE (2024-11-05)".into();
        let evidence = ConnectError::Unexpected { during, reason: what };
        if self.policy == EraPolicy::ModernOnly {
            return self.fail(ConnectError::LegacyServer { evidence: evidence.to_string() });
        }
        self.failed_steps.push(evidence);
        self.enter_step(HttpDetectStep::EventStream { version: asked, reason: lead });
        HttpDetectAction::OpenEventStream
    }

    /// Handles the `endpoint` event of the event stream, or the reply received in its place.
    pub(in crate::transport::http::client) fn handle_events(
        &mut self,
        now: Instant,
        endpoint: Result<(), Reply>,
    ) -> HttpDetectAction {
        let (asked, lead) = match self.step {
            // In the handshake step, the stream broke off; it was reopened or has failed.
            HttpDetectStep::EventStream { version: asked, reason: lead }
            | HttpDetectStep::Handshake {
                version: asked,
                target: HandshakeTarget::SseEndpoint,
                reason: lead,
            } => (asked, lead),
            _ => return HttpDetectAction::Wait,
        };
        match endpoint {
            Ok(()) => self.start_handshake(now, asked, HandshakeTarget::SseEndpoint, lead),
            Err(reply) => {
                let reply = self.soften_unreachable(reply);
                let seen = UnexpectedReply::new(EVENT_STREAM, reply);
                match seen.class {
                    ReplyClass::NotUnderstood | ReplyClass::NoEndpoint { .. } => {
                        self.handle_refused(now, lead, seen.error)
                    }
                    ReplyClass::Temporary(_) | ReplyClass::Forbidden => self.fail(seen.error),
                }
            }
        }
    }
}
