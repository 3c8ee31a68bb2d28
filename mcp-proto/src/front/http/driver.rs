use super::*;
use core::task::{Context,Poll};
pub struct HttpServerDriver<H: Mode = Multi> { service: Arc<Service>, router: Arc<Router<H>> }
impl<H: Mode> HttpServerDriver<H> {
    pub(super) fn new(service: Arc<Service>, router: Arc<Router<H>>) -> Self { Self { service, router } }
    pub fn poll(&mut self, _: &mut Context<'_>) -> Poll<()> { if self.service.is_closing() {Poll::Ready(())} else {Poll::Pending} }
    pub fn next_timeout(&self) -> Option<Instant> { None }
}
use crate::Instant;
