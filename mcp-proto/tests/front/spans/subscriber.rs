//! A subscriber that records the spans and events of one thread.

use core::fmt::{self, Write as _};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Metadata, Subscriber};

pub(crate) type Fields = BTreeMap<String, String>;

#[derive(Clone, Debug)]
pub(crate) struct RecordedSpan {
    pub(crate) target: &'static str,
    pub(crate) name: &'static str,
    pub(crate) fields: Fields,
    /// The position of the span around it.
    pub(crate) parent: Option<usize>,
    pub(crate) is_closed: bool,
    handles: usize,
}

impl RecordedSpan {
    pub(crate) fn get(&self, field: &str) -> Option<&str> {
        self.fields.get(field).map(String::as_str)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RecordedEvent {
    pub(crate) message: String,
    /// The position of the span around it.
    pub(crate) span: Option<usize>,
    /// How many spans were open.
    pub(crate) open: usize,
}

#[derive(Debug, Default)]
struct State {
    spans: Vec<RecordedSpan>,
    events: Vec<RecordedEvent>,
    entered: Vec<usize>,
    /// Whether it wants no span of a request.
    is_deaf: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder(Arc<Mutex<State>>);

/// Subscribers that stay. With a single one in the program, an event that another thread reports first would be switched
/// off for all threads.
static LASTING: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| [(); 2].map(|()| Dispatch::new(Recorder::default())));

impl Recorder {
    /// Runs a test, and returns the recording.
    pub(crate) fn record<T>(test: impl FnOnce() -> T) -> (T, Self) {
        LazyLock::force(&LASTING);
        let recorder = Self::default();
        let result = tracing::subscriber::with_default(recorder.clone(), test);
        (result, recorder)
    }

    /// Runs a test whose spans nothing records.
    pub(crate) fn ignore<T>(test: impl FnOnce() -> T) -> T {
        LazyLock::force(&LASTING);
        let recorder = Self::default();
        recorder.0.lock().unwrap().is_deaf = true;
        tracing::subscriber::with_default(recorder, test)
    }

    pub(crate) fn spans(&self) -> Vec<RecordedSpan> {
        self.0.lock().unwrap().spans.clone()
    }

    /// The only span of this target and method.
    #[track_caller]
    pub(crate) fn only(&self, target: &str, method: &str) -> RecordedSpan {
        let is_meant =
            |span: &RecordedSpan| span.target == target && span.get("mcp.method.name") == Some(method);
        let mut spans: Vec<_> = self.spans().into_iter().filter(is_meant).collect();
        assert_eq!(spans.len(), 1, "{target} {method}: {spans:#?}");
        spans.remove(0)
    }

    pub(crate) fn events(&self) -> Vec<RecordedEvent> {
        self.0.lock().unwrap().events.clone()
    }

    /// The position of a span, as in the `parent` of others.
    pub(crate) fn position(&self, target: &str, method: &str) -> Option<usize> {
        self.spans()
            .iter()
            .position(|span| span.target == target && span.get("mcp.method.name") == Some(method))
    }

    /// Everything recorded, as text.
    pub(crate) fn text(&self) -> String {
        format!("{:?}", self.0.lock().unwrap())
    }
}

struct Visitor<'a>(&'a mut Fields);

impl Visit for Visitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        write!(text, "{value:?}").unwrap();
        self.0.insert(field.name().into(), text);
    }
}

fn index(id: &Id) -> usize {
    usize::try_from(id.into_u64()).unwrap() - 1
}

impl Subscriber for Recorder {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        if self.0.lock().unwrap().is_deaf {
            return false;
        }
        metadata.target().starts_with("mcp_proto") || metadata.target().starts_with("spans")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut state = self.0.lock().unwrap();
        let mut fields = Fields::new();
        attributes.record(&mut Visitor(&mut fields));
        let parent = if attributes.is_contextual() { state.entered.last().copied() } else { None };
        let metadata = attributes.metadata();
        let (target, name) = (metadata.target(), metadata.name());
        state.spans.push(RecordedSpan { target, name, fields, parent, is_closed: false, handles: 1 });
        Id::from_u64(state.spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(&mut Visitor(&mut self.0.lock().unwrap().spans[index(span)].fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::new();
        event.record(&mut Visitor(&mut fields));
        let message = fields.remove("message").unwrap_or_default();
        let mut state = self.0.lock().unwrap();
        let span = state.entered.last().copied();
        let open = state.spans.iter().filter(|span| !span.is_closed).count();
        state.events.push(RecordedEvent { message, span, open });
    }

    fn enter(&self, span: &Id) {
        self.0.lock().unwrap().entered.push(index(span));
    }

    fn exit(&self, span: &Id) {
        assert_eq!(self.0.lock().unwrap().entered.pop(), Some(index(span)));
    }

    fn clone_span(&self, span: &Id) -> Id {
        self.0.lock().unwrap().spans[index(span)].handles += 1;
        span.clone()
    }

    fn try_close(&self, span: Id) -> bool {
        let span = &mut self.0.lock().unwrap().spans[index(&span)];
        span.handles -= 1;
        span.is_closed = span.handles == 0;
        span.is_closed
    }
}
