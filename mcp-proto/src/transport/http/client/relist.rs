//! Lists the tools: the pages that the application requested, and those requested after a call had wrong headers.

use alloc::string::ToString;

use crate::Instant;
use crate::peer::client::Diagnostic;
use crate::rpc::{ErrorObject, Raw};
use crate::schema::{ListTools, ListToolsParams, Method};
use crate::transport::http::param_headers::ExcludedTool;

use super::HttpClient;
use super::call_table::{Call, CallOwner};
use super::request::is_modern;
use super::timers::Timer;
use super::tool_catalog::{EndedRelisting, NextPage};

impl HttpClient {
    /// Records a page of tools, and removes those that cannot be called.
    pub(super) fn read_tools(&mut self, call: &Call, page: Raw) -> Raw {
        let max_bytes = self.limits().message_bytes;
        let (page, excluded) = self.tools.record_page(page, is_modern(call.revision), max_bytes);
        for ExcludedTool { name, reason } in excluded {
            self.peer.report(Diagnostic::ToolExcluded { name, reason: reason.to_string() });
        }
        page
    }

    /// Makes a call with wrong headers wait until the tools are listed again.
    pub(super) fn relist_tools(&mut self, now: Instant, number: i64, error: ErrorObject) {
        if self.tools.await_relisting(number, error) {
            self.timers.set(Timer::Relist, now + self.config.client.request_timeout);
            // The list in the application's cache is just as outdated.
            self.peer.invalidate(ListTools::NAME);
            self.request_tools_page();
        }
    }

    fn request_tools_page(&mut self) {
        let mut params = ListToolsParams::new();
        params.cursor = self.tools.cursor().map(Into::into);
        let number = self.peer.write_transport_request(ListTools::NAME, &params, &mut self.outbox);
        let Some((revision, encoded)) = self.outbox.take_last_request(number) else { return };
        self.tools.begin_page(number);
        self.enqueue(number, CallOwner::ToolListing, ListTools::NAME.into(), revision, encoded, true);
    }

    /// Handles a page that has arrived, or the failure of its request.
    pub(super) fn handle_tools_page(&mut self, now: Instant, page: Option<Raw>) {
        if !self.tools.is_relisting() {
            return;
        }
        match page.map_or(NextPage::Unreadable, |page| self.tools.read_next_page(&page)) {
            NextPage::Request => self.request_tools_page(),
            NextPage::None => self.finish_relisting(now, true),
            NextPage::Unreadable => self.finish_relisting(now, false),
        }
    }

    /// Resends the calls that waited, or ends them with their errors.
    pub(super) fn finish_relisting(&mut self, now: Instant, listed: bool) {
        let Some(EndedRelisting { number, waiting_calls }) = self.tools.end_relisting() else { return };
        self.timers.clear(Timer::Relist);
        self.cancel_call(number, None);
        for (number, error) in waiting_calls {
            if listed {
                self.requeue_with_new_id(now, number);
            } else if self.take_call(number).is_some() {
                self.peer.handle_answer(now, number, Err(error), &mut self.outbox);
            }
        }
    }
}
