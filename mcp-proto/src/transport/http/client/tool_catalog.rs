//! The client's catalog of tools: their mirrored parameters, and whether calls may be repeated.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters>

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::rpc::{ErrorObject, Raw, read_members};
use crate::schema::{CallTool, Method};
use crate::transport::http::param_headers::{ExcludedTool, ListedTool, ParamHeaders, ToolList};

use super::request::EncodedRequest;

/// The most pages of tools that the client lists itself; no server has more.
const MAX_PAGES: u32 = 64;

#[derive(Debug)]
struct CatalogTool {
    headers: Option<ParamHeaders>,
    /// Whether the server declares that calling it twice has no more effect than calling it once.
    is_repeatable: bool,
}

impl CatalogTool {
    /// Returns the approximate number of stored bytes that the server chose.
    fn bytes(&self, name: &str) -> usize {
        self.headers.as_ref().map_or(0, ParamHeaders::bytes).saturating_add(name.len())
    }
}

/// The listed tools with mirrored parameters or repeatable calls, and the relisting in progress.
#[derive(Debug, Default)]
pub(super) struct ToolCatalog {
    tools: BTreeMap<Box<str>, CatalogTool>,
    bytes: usize,
    relisting: Option<ToolRelisting>,
}

/// A relisting of the tools by the transport, because a call had wrong headers.
#[derive(Debug, Default)]
struct ToolRelisting {
    /// The calls that wait for it, each with the error that resolves it if the listing fails.
    waiting_calls: BTreeMap<i64, ErrorObject>,
    /// The request of the current page.
    number: i64,
    pages: u32,
    cursor: Option<String>,
}

/// A relisting of the tools that has ended.
#[derive(Debug)]
pub(super) struct EndedRelisting {
    /// The request of its last page.
    pub(super) number: i64,
    /// The calls that waited for it, each with the error that resolves it if the listing failed.
    pub(super) waiting_calls: Vec<(i64, ErrorObject)>,
}

/// What follows a page of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextPage {
    /// Request the next page.
    Request,
    /// No page follows.
    None,
    /// The page cannot be read.
    Unreadable,
}

impl ToolCatalog {
    /// Returns the mirrored parameters of the tool that a request calls, if it is a call.
    pub(super) fn param_headers(&self, method: &str, request: &EncodedRequest) -> Option<&ParamHeaders> {
        if method != CallTool::NAME || self.tools.is_empty() {
            return None;
        }
        self.called_tool(request)?.headers.as_ref()
    }

    /// Returns whether the server declares that the call may be repeated.
    pub(super) fn is_repeatable(&self, call: &EncodedRequest) -> bool {
        self.called_tool(call).is_some_and(|tool| tool.is_repeatable)
    }

    fn called_tool(&self, call: &EncodedRequest) -> Option<&CatalogTool> {
        self.tools.get(&*call.subject()?)
    }

    /// Records a page of tools; returns the page without the tools that cannot be called over HTTP, and those tools.
    ///
    /// A legacy server does not use mirrored parameters, so all of its tools can be called.
    pub(super) fn record_page(
        &mut self,
        page: Raw,
        modern: bool,
        max_bytes: usize,
    ) -> (Raw, Vec<ExcludedTool>) {
        let list = ToolList::read(page.clone());
        for ListedTool { name, headers, read_only, idempotent } in list.tools {
            let headers = headers.filter(|_| modern);
            self.insert(name, CatalogTool { headers, is_repeatable: read_only || idempotent }, max_bytes);
        }
        if !modern {
            return (page, Vec::new());
        }
        for excluded in &list.excluded {
            self.remove(&excluded.name);
        }
        (list.result, list.excluded)
    }

    /// Records a tool; discards the catalog if that exceeds `max_bytes`.
    ///
    /// A call refused for its missing headers then triggers a relisting.
    fn insert(&mut self, name: Box<str>, tool: CatalogTool, max_bytes: usize) {
        self.remove(&name);
        if tool.headers.is_none() && !tool.is_repeatable {
            return;
        }
        let bytes = tool.bytes(&name);
        if self.bytes.saturating_add(bytes) > max_bytes {
            self.tools.clear();
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.tools.insert(name, tool);
    }

    fn remove(&mut self, name: &str) {
        if let Some(tool) = self.tools.remove(name) {
            self.bytes = self.bytes.saturating_sub(tool.bytes(name));
        }
    }

    // --- Relisting ---

    /// Makes a call wait until the tools are listed; it ends with `error` if that fails.
    ///
    /// Returns whether this starts a relisting.
    pub(super) fn await_relisting(&mut self, number: i64, error: ErrorObject) -> bool {
        let begins = self.relisting.is_none();
        self.relisting.get_or_insert_default().waiting_calls.insert(number, error);
        begins
    }

    /// Removes a call from the waiting ones.
    pub(super) fn forget_waiting_call(&mut self, number: i64) {
        if let Some(relisting) = &mut self.relisting {
            relisting.waiting_calls.remove(&number);
        }
    }

    pub(super) fn is_relisting(&self) -> bool {
        self.relisting.is_some()
    }

    /// Returns the cursor of the page to request.
    pub(super) fn cursor(&self) -> Option<&str> {
        self.relisting.as_ref()?.cursor.as_deref()
    }

    /// Records that the request `number` requests a page.
    pub(super) fn begin_page(&mut self, number: i64) {
        if let Some(relisting) = &mut self.relisting {
            relisting.number = number;
            relisting.pages = relisting.pages.saturating_add(1);
        }
    }

    /// Reads the cursor of the next page. A server that repeats a cursor has no more pages.
    pub(super) fn read_next_page(&mut self, page: &Raw) -> NextPage {
        let Some(relisting) = &mut self.relisting else { return NextPage::None };
        let next = read_members(page.as_str(), ["nextCursor"])
            .and_then(|[next]| next.map(serde_json::from_str).transpose());
        match next {
            Ok(Some(next)) if relisting.pages < MAX_PAGES && relisting.cursor.as_ref() != Some(&next) => {
                relisting.cursor = Some(next);
                NextPage::Request
            }
            Ok(_) => NextPage::None,
            Err(_) => NextPage::Unreadable,
        }
    }

    /// Ends the relisting, if one is in progress.
    pub(super) fn end_relisting(&mut self) -> Option<EndedRelisting> {
        let ToolRelisting { waiting_calls, number, .. } = self.relisting.take()?;
        Some(EndedRelisting { number, waiting_calls: waiting_calls.into_iter().collect() })
    }
}
