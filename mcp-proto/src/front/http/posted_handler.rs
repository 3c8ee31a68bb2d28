//! The running handler of a posted notification that belongs to no session.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::front::handler::notification_context::NotificationContext;
use crate::front::router::Router;
use crate::front::running_handlers::catch_panic;
use crate::front::{HandlerMode, Notification};
use crate::transport::http::server::{HttpResponse, PostedNotification};

/// The handler of a notification, whose POST is answered once it has finished: a client's notifications take up no more
/// handlers than it has exchanges.
pub(super) struct PostedHandler<H: HandlerMode> {
    handler: H::HandlerFuture,
    /// Kept for its place in the byte budget.
    posted: PostedNotification,
}

impl<H: HandlerMode> PostedHandler<H> {
    /// Starts the handler.
    ///
    /// # Errors
    /// The answer, if the notification has no handler.
    pub(super) fn start(
        router: &Router<H>,
        posted: PostedNotification,
        context: NotificationContext,
    ) -> Result<Self, HttpResponse> {
        let message = posted.message();
        let notification = Notification { method: message.method.clone(), params: message.params.clone() };
        match catch_panic(|| router.start_notification(notification, context)) {
            Ok(Some(handler)) => Ok(Self { handler, posted }),
            Ok(None) | Err(_) => Err(posted.answer()),
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<HttpResponse> {
        match catch_panic(|| Pin::new(&mut self.handler).poll(cx)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(_)) | Err(_) => Poll::Ready(self.posted.answer()),
        }
    }
}
