//! Tunnels through a proxy, opened by CONNECT.

use std::io;

use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _};
use http::HeaderValue;

use super::target::Origin;
use crate::runtime::Stream;

/// Maximum bytes of the head of a CONNECT response.
const LONGEST_HEAD: usize = 16 * 1024;
/// Maximum number of headers of a CONNECT response.
const MOST_HEADERS: usize = 64;

/// Opens a tunnel to `origin` through a proxy.
pub(super) async fn open(
    proxy: &mut dyn Stream,
    origin: &Origin,
    credentials: Option<&HeaderValue>,
) -> io::Result<()> {
    let authority = origin.with_port();
    let mut request = format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n").into_bytes();
    if let Some(credentials) = credentials {
        request.extend_from_slice(b"proxy-authorization: ");
        request.extend_from_slice(credentials.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    proxy.write_all(&request).await?;
    proxy.flush().await?;

    let mut head = Vec::new();
    let mut byte = [0];
    // The bytes after the head come from the server: the loop must not read one of them.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == LONGEST_HEAD {
            return Err(io::Error::other("the proxy's answer is too long"));
        }
        if proxy.read(&mut byte).await? == 0 {
            return Err(io::Error::other("the proxy closed the connection without an answer"));
        }
        head.extend_from_slice(&byte);
    }
    match status(&head) {
        Some(200..=299) => Ok(()),
        Some(407) => Err(io::Error::other("the proxy requires a user and a password: add them to its URL")),
        Some(status) => Err(io::Error::other(format!("the proxy answered with status {status}"))),
        None => Err(io::Error::other("the proxy's answer is not HTTP")),
    }
}

fn status(head: &[u8]) -> Option<u16> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    response.parse(head).ok().filter(httparse::Status::is_complete)?;
    response.code
}
