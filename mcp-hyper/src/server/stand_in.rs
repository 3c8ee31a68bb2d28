//! Stands in for `mcp_proto::front::http` until that is there.
#![allow(missing_docs, dead_code)]

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use mcp_proto::Instant;
use mcp_proto::bind::http::Fields;
use mcp_proto::front::{Clock, Mode, Router};

pub trait Entropy: Send + Sync {
    fn fill(&self, bytes: &mut [u8]);
}

pub struct RequestHead<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub fields: &'a dyn Fields,
}

pub enum BodyKind {
    Empty,
    Whole(usize),
    Stream,
}

pub struct ResponseHead {
    pub status: u16,
    pub headers: Vec<(&'static str, Cow<'static, str>)>,
    pub body: BodyKind,
}

#[derive(Default)]
struct Inner {
    closing: AtomicBool,
    dropped: AtomicUsize,
}

pub struct HttpServer<H>(Arc<Inner>, Arc<dyn Clock>, PhantomData<fn() -> H>);

impl<H> Clone for HttpServer<H> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), self.1.clone(), PhantomData)
    }
}

pub struct HttpServerDriver<H>(Arc<Inner>, PhantomData<fn() -> H>);

pub struct HttpExchange<H> {
    inner: Arc<Inner>,
    clock: Arc<dyn Clock>,
    body: Vec<u8>,
    whole: bool,
    got: bool,
    sent: usize,
    next: Option<Instant>,
    kind: PhantomData<fn() -> H>,
}

pub fn http_server<H: Mode>(
    _router: Arc<Router<H>>,
    clock: Arc<dyn Clock>,
    _entropy: Arc<dyn Entropy>,
) -> (HttpServer<H>, HttpServerDriver<H>) {
    let inner = Arc::new(Inner::default());
    (HttpServer(inner.clone(), clock, PhantomData), HttpServerDriver(inner, PhantomData))
}

impl<H> HttpServer<H> {
    pub fn exchange(&self, head: &RequestHead<'_>) -> HttpExchange<H> {
        let _ = (head.method, head.path, head.fields);
        HttpExchange {
            inner: self.0.clone(),
            clock: self.1.clone(),
            body: Vec::new(),
            whole: false,
            got: false,
            sent: 0,
            next: None,
            kind: PhantomData,
        }
    }
    pub fn close(&self) {
        self.0.closing.store(true, Ordering::SeqCst);
    }
    pub fn is_closing(&self) -> bool {
        self.0.closing.load(Ordering::SeqCst)
    }
    pub fn dropped(&self) -> usize {
        self.0.dropped.load(Ordering::SeqCst)
    }
}

impl<H> HttpServerDriver<H> {
    pub fn poll(&mut self, _: &mut Context<'_>) -> Poll<()> {
        if self.0.closing.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    }
    pub fn next_timeout(&self) -> Option<Instant> {
        None
    }
}

impl<H> HttpExchange<H> {
    pub fn wants_body(&self) -> bool {
        !self.whole && self.body.len() < 100_000
    }
    pub fn handle_body(&mut self, bytes: Bytes) {
        self.body.extend_from_slice(&bytes);
    }
    pub fn handle_body_end(&mut self) {
        self.whole = true;
    }
    pub fn poll_head(&mut self, _: &mut Context<'_>) -> Poll<ResponseHead> {
        let (status, body) = match &self.body[..] {
            b"wait" => return Poll::Pending,
            b"stream" | b"flood" => (200, BodyKind::Stream),
            body if body.len() >= 100_000 => (413, BodyKind::Empty),
            body => (200, BodyKind::Whole(body.len())),
        };
        Poll::Ready(ResponseHead {
            status,
            headers: vec![("content-type", Cow::Borrowed("application/json"))],
            body,
        })
    }
    pub fn poll_body(&mut self, _: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match &self.body[..] {
            b"flood" => Poll::Ready(Some(Bytes::from(vec![b'x'; 10_000]))),
            b"stream" if self.next.is_some() || self.sent > 4 => Poll::Pending,
            b"stream" => {
                self.sent += 1;
                self.next = Some(self.clock.now() + Duration::from_millis(5));
                Poll::Ready(Some(Bytes::from_static(b"data: hello\n\n")))
            }
            _ if self.got => Poll::Ready(None),
            body => {
                self.got = true;
                Poll::Ready(Some(Bytes::copy_from_slice(body)))
            }
        }
    }
    pub fn next_timeout(&self) -> Option<Instant> {
        self.next
    }
    pub fn handle_timeout(&mut self) {
        if self.next.is_some_and(|next| next <= self.clock.now()) {
            self.next = None;
        }
    }
}

impl<H> Drop for HttpExchange<H> {
    fn drop(&mut self) {
        self.inner.dropped.fetch_add(1, Ordering::SeqCst);
    }
}
