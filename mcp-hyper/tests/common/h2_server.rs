//! An HTTP/2 server whose streams the test answers one by one.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_lite::{AsyncRead, AsyncWrite};
use h2::RecvStream;
use h2::server::{Builder, Connection, SendResponse};
use http::{HeaderMap, Response};
use serde_json::Value;
use tokio::io::ReadBuf;

use super::client::answer_to;

/// A stream that is readable and writable, as h2 wants it.
pub struct Io<S>(pub S);

impl<S: AsyncRead + Unpin> tokio::io::AsyncRead for Io<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let count = ready!(Pin::new(&mut self.0).poll_read(cx, buf.initialize_unfilled()))?;
        buf.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> tokio::io::AsyncWrite for Io<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }
}

/// The server's side of a connection.
pub struct Server<S>(pub Connection<Io<S>, Bytes>);

/// A request, and where to answer it.
pub struct Stream {
    pub url: String,
    pub headers: HeaderMap,
    body: RecvStream,
    pub respond: SendResponse<Bytes>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Server<S> {
    /// Greets a client; takes so many streams at once.
    pub async fn handshake(stream: S, streams: u32) -> Self {
        let mut builder = Builder::new();
        // As the servers of this crate: a slow machine accepts requests after their cancellation.
        builder.max_concurrent_streams(streams).max_pending_accept_reset_streams(200);
        Self(builder.handshake(Io(stream)).await.unwrap())
    }

    /// The next request, unless the client has closed the connection.
    pub async fn next(&mut self) -> Option<Stream> {
        let (request, respond) = self.0.accept().await?.ok()?;
        let (head, body) = request.into_parts();
        Some(Stream { url: head.uri.to_string(), headers: head.headers, body, respond })
    }

    /// Answers requests, each with its URL, until the client closes the connection; returns how many there were.
    pub async fn serve(&mut self) -> usize {
        let mut count = 0;
        while let Some(stream) = self.next().await {
            count += 1;
            smol::spawn(stream.answer()).detach();
        }
        count
    }

    /// Answers one request, whatever else there is.
    pub async fn answer_one(&mut self) {
        let stream = self.next().await.unwrap();
        smol::spawn(stream.answer()).detach();
    }
}

impl Stream {
    pub async fn body(&mut self) -> Value {
        let mut body = Vec::new();
        while let Some(piece) = self.body.data().await {
            let piece = piece.unwrap();
            self.body.flow_control().release_capacity(piece.len()).unwrap();
            body.extend_from_slice(&piece);
        }
        serde_json::from_slice(&body).unwrap()
    }

    pub async fn answer(mut self) {
        let message = answer_to(&self.body().await, &self.url);
        let head = Response::builder().header("content-type", "application/json").body(()).unwrap();
        let mut body = self.respond.send_response(head, false).unwrap();
        body.send_data(message.to_string().into(), true).unwrap();
    }
}
