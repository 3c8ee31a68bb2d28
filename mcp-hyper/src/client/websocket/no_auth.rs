//! Stands in for `auth` without that feature: clients do not log in.

use std::task::{Context, Poll};

use http::StatusCode;
use http::header::HeaderMap;
use mcp_proto::front::HandlerMode;
use mcp_proto::peer::TransportError;
use mcp_proto::transport::http::ExchangeId;
use mcp_proto::transport::http::client::HttpRequest;

use super::WebSocketLoop;
use crate::runtime::Runtime;

impl<H: HandlerMode, R: Runtime> WebSocketLoop<H, R> {
    pub(super) fn authorize(&mut self, request: HttpRequest) -> Option<HttpRequest> {
        Some(request)
    }

    pub(super) fn note_head(
        &mut self,
        exchange: ExchangeId,
        status: StatusCode,
        mut headers: HeaderMap,
    ) -> HeaderMap {
        self.transport.show_head(exchange, status, &mut headers);
        headers
    }

    pub(super) fn handle_refusal(&mut self, _: ExchangeId, _: &HeaderMap, error: TransportError) {
        self.refuse_open(error);
    }

    pub(super) fn forget_exchange(&mut self, _: ExchangeId) {}

    pub(super) fn poll_authorizer(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}
