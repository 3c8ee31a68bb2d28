//! What is known of the server's tools: which of their parameters are headers, and which may be called twice.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters>

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::Instant;
use crate::peer::client::Diagnostic;
use crate::rpc::{ErrorObject, Raw};
use crate::schema::{CallTool, ListTools, ListToolsParams, Method};
use crate::transport::http::param_headers::{ExcludedTool, ListedTool, ParamHeaders, ToolList};

use super::HttpClient;
use super::call::{Call, CallOwner};
use super::headers::{is_modern, tool_name};
use super::timers::Timer;

/// More pages of tools than any server has, when they are listed on this side's own account.
const MAX_PAGES: u32 = 64;

#[derive(Debug)]
struct CatalogTool {
    headers: Option<ParamHeaders>,
    /// Whether the server declares that calling it twice does no more than calling it once.
    is_repeatable: bool,
}

impl CatalogTool {
    /// About how many bytes it holds that the server has chosen.
    fn bytes(&self, name: &str) -> usize {
        self.headers.as_ref().map_or(0, ParamHeaders::bytes).saturating_add(name.len())
    }
}

/// The tools that were listed, as far as there is more to know of them than their name.
#[derive(Debug, Default)]
pub(super) struct ToolCatalog {
    tools: BTreeMap<Box<str>, CatalogTool>,
    bytes: usize,
}

impl ToolCatalog {
    pub(super) fn param_headers(&self, method: &str, body: &[u8]) -> Option<&ParamHeaders> {
        if method != CallTool::NAME || self.tools.is_empty() {
            return None;
        }
        self.tools.get(&*tool_name(body)?)?.headers.as_ref()
    }

    /// Takes note of a tool. More than `limit` bytes are not kept: then all are forgotten, and a call that lacks its
    /// headers for that is refused, which lists the tools anew.
    fn insert(&mut self, name: Box<str>, tool: CatalogTool, limit: usize) {
        self.remove(&name);
        if tool.headers.is_none() && !tool.is_repeatable {
            return;
        }
        let bytes = tool.bytes(&name);
        if self.bytes.saturating_add(bytes) > limit {
            *self = Self::default();
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.tools.insert(name, tool);
    }

    fn remove(&mut self, name: &str) {
        if let Some(tool) = self.tools.remove(name) {
            self.bytes = self.bytes.saturating_sub(tool.bytes(name));
        }
    }

    pub(super) fn is_repeatable(&self, body: &[u8]) -> bool {
        tool_name(body).and_then(|name| self.tools.get(&*name)).is_some_and(|tool| tool.is_repeatable)
    }
}

/// The tools are being listed anew, because a call had the wrong headers.
#[derive(Debug)]
pub(super) struct ToolRelisting {
    /// The calls that wait for it, each with the error that it ends with if nothing comes of it.
    waiting_calls: BTreeMap<i64, ErrorObject>,
    number: i64,
    pages: u32,
    cursor: Option<String>,
}

impl HttpClient {
    /// Takes note of a page of tools, and leaves out of it those that can not be called.
    pub(super) fn read_tools(&mut self, call: &Call, result: Raw) -> Raw {
        let modern = is_modern(call.revision);
        let list = ToolList::read(result.clone());
        let limit = self.config.client.limits.message_bytes;
        for ListedTool { name, headers, read_only, idempotent } in list.tools {
            let headers = headers.filter(|_| modern);
            self.tools.insert(name, CatalogTool { headers, is_repeatable: read_only || idempotent }, limit);
        }
        if !modern {
            // Legacy revisions know nothing of headers: any tool can be called.
            return result;
        }
        for ExcludedTool { name, reason } in list.excluded {
            self.tools.remove(&name);
            self.peer.report(Diagnostic::ToolExcluded { name, reason: reason.to_string() });
        }
        list.result
    }

    /// A call had the wrong headers: it waits until the tools have been listed.
    pub(super) fn relist_tools(&mut self, now: Instant, number: i64, error: ErrorObject) {
        match &mut self.relisting {
            Some(relist) => {
                relist.waiting_calls.insert(number, error);
            }
            None => {
                let parked = BTreeMap::from([(number, error)]);
                self.relisting =
                    Some(ToolRelisting { waiting_calls: parked, number: 0, pages: 0, cursor: None });
                let timeout = self.config.client.request_timeout;
                self.timers.set(Timer::Relist, now + timeout);
                // What the application has kept of them is as old.
                self.peer.invalidate(ListTools::NAME);
                self.request_tools_page();
            }
        }
    }

    fn request_tools_page(&mut self) {
        let Some(relist) = &mut self.relisting else { return };
        let mut params = ListToolsParams::new();
        params.cursor = relist.cursor.as_deref().map(Into::into);
        let number = self.peer.write_transport_request(ListTools::NAME, &params, &mut self.outbox);
        let Some((revision, body)) = self.outbox.take_last_request(number) else { return };
        relist.number = number;
        relist.pages = relist.pages.saturating_add(1);
        self.enqueue(number, CallOwner::ToolListing, ListTools::NAME.into(), revision, body, true);
    }

    /// A page has come, or will not.
    pub(super) fn handle_tools_page(&mut self, now: Instant, page: Option<Raw>) {
        #[derive(serde::Deserialize)]
        struct Page {
            #[serde(default, rename = "nextCursor")]
            next: Option<String>,
        }
        let Some(relist) = &mut self.relisting else { return };
        let Some(page) = page else { return self.finish_relisting(now, false) };
        match page.decode::<Page>() {
            Ok(Page { next: Some(next) })
                if relist.pages < MAX_PAGES && relist.cursor.as_ref() != Some(&next) =>
            {
                relist.cursor = Some(next);
                self.request_tools_page();
            }
            Ok(_) => self.finish_relisting(now, true),
            Err(_) => self.finish_relisting(now, false),
        }
    }

    /// The calls that waited go out once more, or end with the error that they had.
    pub(super) fn finish_relisting(&mut self, now: Instant, listed: bool) {
        let Some(ToolRelisting { waiting_calls: parked, number, .. }) = self.relisting.take() else { return };
        self.timers.clear(Timer::Relist);
        self.cancel_call(number, None);
        let parked: Vec<(i64, ErrorObject)> = parked.into_iter().collect();
        for (number, error) in parked {
            if listed {
                self.requeue_with_new_id(now, number);
            } else if self.take_call(number).is_some() {
                self.peer.handle_answer(now, number, Err(error), &mut self.outbox);
            }
        }
    }

    /// A call no longer waits.
    pub(super) fn forget_waiting_call(&mut self, number: i64) {
        if let Some(relist) = &mut self.relisting {
            relist.waiting_calls.remove(&number);
        }
    }
}
