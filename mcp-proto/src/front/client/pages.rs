//! Lists that come in pages.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use super::Client;
use crate::front::Request;
use crate::front::error::{Error, ListError, PagesError};
use crate::ordered_set::OrderedSet;
use crate::peer::{CacheMode, Leniency, RequestOptions};
use crate::prelude::*;
use crate::rpc::code;
#[cfg(feature = "skills")]
use crate::schema::skills::{ListSkills, ReadDirectory, Skill};
use crate::schema::{
    List, ListPrompts, ListResourceTemplates, ListResources, ListTools, Method, Prompt, Resource,
    ResourceTemplate, Tool,
};

/// The default limit of pages: more than any server in use has.
const MAX_PAGES: usize = 1000;

/// The default limit of bytes in the pages of a list.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// A method whose result is one page of a list.
pub trait PaginatedMethod: Method {
    /// The type of the list's items.
    type Item: PartialEq;

    /// Sets the cursor of a page; `None` for the first page.
    fn set_cursor(params: &mut Self::Params, cursor: Option<String>);

    /// Splits a page into its items and the cursor of the next page.
    fn split(page: Self::Result) -> (List<Self::Item>, Option<String>);
}

macro_rules! paged {
    ($($(#[$attribute:meta])* $method:ident of $item:ident in $field:ident;)*) => { $(
        $(#[$attribute])*
        impl PaginatedMethod for $method {
            type Item = $item;

            fn set_cursor(params: &mut Self::Params, cursor: Option<String>) {
                params.cursor = cursor;
            }

            fn split(page: Self::Result) -> (List<$item>, Option<String>) {
                (page.$field, page.next_cursor)
            }
        }
    )* };
}

paged! {
    ListTools of Tool in tools;
    ListResources of Resource in resources;
    ListResourceTemplates of ResourceTemplate in resource_templates;
    ListPrompts of Prompt in prompts;
    #[cfg(feature = "skills")]
    ListSkills of Skill in skills;
    #[cfg(feature = "skills")]
    ReadDirectory of Resource in resources;
}

/// The future of a whole list, however many pages it comes in.
///
/// An absent cursor ends the list; the empty string is a cursor like any other, except that a
/// [lenient](crate::peer::Strictness) client ends the list when the server repeats it. Any other repeated cursor, and more
/// pages than the limit, are errors. A [`ListError`] holds the items that were read before it. If a cursor becomes
/// invalid in between, the list is read once more from its beginning.
///
/// Cached pages are not requested again, and may therefore be older than the others: for a list read at one time, use
/// [`CacheMode::Refresh`].
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination>
#[must_use = "a list is requested when it is polled"]
pub struct Pages<M: PaginatedMethod> {
    client: Client,
    /// The parameters of the first page.
    params: M::Params,
    options: RequestOptions,
    limit: usize,
    byte_limit: usize,
    bytes: usize,
    seen_cursors: OrderedSet<String>,
    items: List<M::Item>,
    /// The index of the last page's first item.
    last_page: usize,
    page: Option<Request<M>>,
    pages: usize,
    /// Whether the list was read once more, as a cursor was invalid.
    is_restarted: bool,
}

/// Nothing in it is ever pinned.
impl<M: PaginatedMethod> Unpin for Pages<M> {}

impl<M: PaginatedMethod> Pages<M> {
    pub(super) fn new(client: Client, params: M::Params) -> Self {
        Self {
            client,
            params,
            options: RequestOptions::default(),
            limit: MAX_PAGES,
            byte_limit: MAX_BYTES,
            bytes: 0,
            seen_cursors: OrderedSet::new(),
            items: List::new(),
            last_page: 0,
            page: None,
            pages: 0,
            is_restarted: false,
        }
    }

    setters! {
        /// Sets the time limit of each page's request.
        pub fn timeout(self, timeout: Duration) { self.options.timeout = Some(timeout) }

        /// Sets whether cached pages are used.
        pub fn cache(self, cache: CacheMode) { self.options.cache = cache }

        /// Sets the options of each page's request.
        pub fn options(self, options: RequestOptions) { self.options = options }

        /// Sets the maximum number of pages; more are an error. Default 1,000.
        pub fn page_limit(self, pages: usize) { self.limit = pages }

        /// Sets the number of bytes after which no further page is requested; a longer list is an error. Default 16 MiB.
        pub fn byte_limit(self, bytes: usize) { self.byte_limit = bytes }
    }

    fn request_page(&self, cursor: Option<String>) -> Request<M> {
        let mut params = self.params.clone();
        //= C9.1 "Cursor opaque"
        M::set_cursor(&mut params, cursor);
        self.client.request::<M>(params).options(self.options.clone())
    }

    /// Makes the error, with the items of the pages that were read.
    fn fail(&mut self, error: Error) -> ListError<M::Item> {
        ListError { items: core::mem::take(&mut self.items), error }
    }

    /// Restarts the list, if a page failed because of its cursor, and this is the first time.
    fn restart(&mut self, error: &Error) -> bool {
        let refused = matches!(error, Error::Peer(error) if error.code == code::INVALID_PARAMS);
        if !refused || self.pages == 0 || self.is_restarted {
            return false;
        }
        self.is_restarted = true;
        self.seen_cursors.clear();
        self.items = List::new();
        (self.last_page, self.pages, self.bytes) = (0, 0, 0);
        self.page = None;
        true
    }
}

impl<M: PaginatedMethod> Future for Pages<M> {
    type Output = Result<List<M::Item>, ListError<M::Item>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let request = match &mut this.page {
                Some(request) => request,
                None => {
                    let first = this.request_page(None);
                    this.page.insert(first)
                }
            };
            let polled = ready!(Pin::new(&mut *request).poll(cx));
            let bytes = request.received();
            let page = match polled {
                Ok(page) => page,
                Err(error) if this.restart(&error) => continue,
                Err(error) => return Poll::Ready(Err(this.fail(error))),
            };
            let (items, cursor) = M::split(page);
            let repeated = cursor.as_ref().is_some_and(|cursor| this.seen_cursors.contains(cursor));
            //= F93 "Lists are read page by page while there is a cursor"
            //= C9.1 "only null/absent ends the list — empty string is a valid cursor"
            let ends = match cursor.as_deref() {
                None => true,
                Some("") if repeated => this.client.tolerate(Leniency::EmptyCursor { method: M::NAME }),
                Some(_) => false,
            };
            // A server that treats the empty cursor as absent sends the same page once more.
            let again = ends && repeated && this.items.get(this.last_page..) == Some(&**items);
            if !again {
                this.last_page = this.items.len();
                this.items.append(items);
            }
            this.pages = this.pages.saturating_add(1);
            this.bytes = this.bytes.saturating_add(bytes);
            let Some(cursor) = cursor.filter(|_| !ends) else {
                return Poll::Ready(Ok(core::mem::take(&mut this.items)));
            };
            //= K19 "guards against repeated cursors and endless pages"
            let limit = if this.pages >= this.limit {
                Some(PagesError::TooMany { limit: this.limit })
            } else if this.bytes > this.byte_limit {
                Some(PagesError::TooLong { limit: this.byte_limit })
            } else {
                repeated.then(|| PagesError::Repeated { cursor: cursor.clone() })
            };
            if let Some(error) = limit {
                return Poll::Ready(Err(this.fail(Error::Pages(error))));
            }
            this.seen_cursors.insert(cursor.clone());
            let next = this.request_page(Some(cursor));
            this.page = Some(next);
        }
    }
}

debug_fields! { [M: PaginatedMethod] Pages<M> { method = M::NAME, pages } }
