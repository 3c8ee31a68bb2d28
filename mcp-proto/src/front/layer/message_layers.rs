//! The passage of a connection's messages through its layers, outside of the connection's lock.

use core::task::{Poll, Waker};

use memchr::memchr;
#[cfg(all(feature = "server", feature = "http"))]
use memchr::memmem;

use super::message::{LayerMessage, MessageRules, MessageText};
use super::{Decision, Layer as _, Layers, MessageDirection, Side, type_of};
use crate::codec::{Line, SseEvent, SseItem};
use crate::front::HandlerMode;
use crate::front::handler_error::{HandlerPanic, catch_panic};
use crate::front::shared::{LayeredCore, Shared};
use crate::peer::{HeldPiece, LostReason, Principal};
use crate::prelude::*;
use crate::rpc::{Frame, Id, Malformed, read};
#[cfg(all(feature = "server", feature = "http"))]
use crate::schema::Revision;
use crate::{Bytes, Instant, Limits};

/// The layers of a connection, through which each of its messages passes.
pub(in crate::front) struct MessageLayers<H: HandlerMode> {
    layers: Layers<H>,
    side: Side,
    rules: MessageRules,
    /// The principal of a server's client.
    principal: Option<Principal>,
    /// Whether a layer has panicked, so that nothing passes any more.
    is_broken: bool,
    /// Whether the machine holds nothing back any more, because no layer reads messages.
    is_over: bool,
    /// The messages that a layer wanted to drop and that cannot be dropped, until they are reported.
    undropped: Vec<String>,
    /// The requests of a client that were changed themselves, or whose results were.
    altered: Vec<Id>,
}

/// A text after its passage.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Passed {
    Unchanged,
    Changed(Vec<u8>),
    Dropped,
}

impl<H: HandlerMode> MessageLayers<H> {
    /// Creates the passage through layers; `None` if none of them reads messages.
    pub(in crate::front) fn new(layers: &Layers<H>, side: Side, limits: &Limits) -> Option<Box<Self>> {
        if layers.ignore_messages() {
            return None;
        }
        let rules = MessageRules { depth: limits.depth, revision: None, has_fixed_arguments: false };
        Some(Box::new(Self {
            layers: layers.clone(),
            side,
            rules,
            principal: None,
            is_broken: false,
            is_over: false,
            undropped: Vec::new(),
            altered: Vec::new(),
        }))
    }

    /// Makes all messages of a connection pass through layers; `None` if none of them reads messages.
    pub(in crate::front) fn hold<C: LayeredCore<M>, M>(
        layers: &Layers<H>,
        side: Side,
        shared: &Shared<C, M>,
    ) -> Option<Box<Self>> {
        shared.update(|_, machine, _| {
            let mut held = Self::new(layers, side, C::limits(machine))?;
            held.principal = C::principal(machine);
            C::passage(machine)?.hold();
            Some(held)
        })
    }

    /// Runs `act` on the machine, and passes on what it holds back then.
    #[inline]
    pub(in crate::front) fn lock<C: LayeredCore<M>, M, R>(
        passage: &mut Option<Box<Self>>,
        shared: &Shared<C, M>,
        act: impl FnOnce(&mut M, Instant) -> R,
    ) -> R {
        let Some(layers) = passage else { return shared.with(|_, machine, now, _| act(machine, now)) };
        let result = layers.lock_held(shared, act);
        passage.take_if(|layers| layers.is_over);
        result
    }

    fn lock_held<C: LayeredCore<M>, M, R>(
        &mut self,
        shared: &Shared<C, M>,
        act: impl FnOnce(&mut M, Instant) -> R,
    ) -> R {
        let (result, held) = shared.with(|_, machine, now, _| {
            let result = act(machine, now);
            (result, self.poll_held::<C, M>(machine))
        });
        self.run(shared, held);
        result
    }

    /// Runs `act` on the machine like [`Shared::park`], after the messages of timers have passed.
    #[inline]
    pub(in crate::front) fn park<C: LayeredCore<M>, M, R>(
        passage: &mut Option<Box<Self>>,
        shared: &Shared<C, M>,
        now: Instant,
        waker: &Waker,
        act: impl FnOnce(&mut M, Instant) -> Poll<R>,
    ) -> Poll<R> {
        let Some(layers) = passage else { return shared.park(now, waker, act) };
        let polled = layers.park_held(shared, now, waker, act);
        passage.take_if(|layers| layers.is_over);
        polled
    }

    fn park_held<C: LayeredCore<M>, M, R>(
        &mut self,
        shared: &Shared<C, M>,
        now: Instant,
        waker: &Waker,
        act: impl FnOnce(&mut M, Instant) -> Poll<R>,
    ) -> Poll<R> {
        let held = shared.with_events(|_, machine, _| {
            C::handle_timeout(machine, now);
            self.poll_held::<C, M>(machine)
        });
        self.run(shared, held);
        let mut left = None;
        let polled = shared.park(now, waker, |machine, now| {
            let polled = act(machine, now);
            left = self.poll_held::<C, M>(machine);
            polled
        });
        if left.is_some() {
            self.run(shared, left);
            waker.wake_by_ref();
        }
        polled
    }

    /// Takes the next piece that the machine holds back. If there is none and no layer reads messages, nothing is held back
    /// from now on.
    fn poll_held<C: LayeredCore<M>, M>(&mut self, machine: &mut M) -> Option<HeldPiece> {
        let passage = C::passage(machine)?;
        let held = passage.poll_held();
        if held.is_none() && self.layers.ignore_messages() {
            self.is_over = passage.stop_holding();
        }
        held
    }

    /// Passes through the layers what the machine holds back, from `next` on.
    fn run<C: LayeredCore<M>, M>(&mut self, shared: &Shared<C, M>, mut next: Option<HeldPiece>) {
        while let Some(held) = next {
            let passed = self.pass(held);
            if !self.undropped.is_empty() {
                C::report_undropped(shared, self.take_undropped());
            }
            next = shared.with(|_, machine, now, _| {
                self.rules.revision = self.rules.revision.or_else(|| C::revision(machine));
                self.altered.drain(..).for_each(|id| C::withhold_answer(machine, now, &id));
                match passed {
                    Ok(Some(held)) => C::passage(machine)?.release(now, held),
                    Ok(None) => {}
                    Err(HandlerPanic) => C::abort(machine, now, layer_panicked()),
                }
                self.poll_held::<C, M>(machine)
            });
        }
    }

    /// Shows a piece of input or output to the layers. Returns what is left of it.
    fn pass(&mut self, held: HeldPiece) -> Result<Option<HeldPiece>, HandlerPanic> {
        Ok(match held {
            end @ (HeldPiece::End(_) | HeldPiece::ExchangeEnd(_) | HeldPiece::Unsent(_)) => Some(end),
            _ if self.is_broken => None,
            HeldPiece::Received(Line::Whole(text), charge) => {
                let passed = self.pass_text(MessageText::Shared(&text), MessageDirection::Received)?;
                passed.apply(text).map(|text| HeldPiece::Received(Line::Whole(text), charge))
            }
            HeldPiece::Received(Line::TooLong { head, tail, bytes }, charge) => {
                self.show_too_long(&head, &tail, bytes)?;
                Some(HeldPiece::Received(Line::TooLong { head, tail, bytes }, charge))
            }
            HeldPiece::Block(mut block) => {
                self.pass_block(&mut block)?;
                (!block.is_empty()).then_some(HeldPiece::Block(block))
            }
            HeldPiece::Message(message) => {
                let passed = self.pass_text(MessageText::Shared(&message), MessageDirection::Sent)?;
                passed.apply(message).map(HeldPiece::Message)
            }
            HeldPiece::Event(exchange, item) => {
                self.pass_event(item)?.map(|item| HeldPiece::Event(exchange, item))
            }
            HeldPiece::Answer(exchange, body) => {
                let passed = self.pass_text(MessageText::Shared(&body), MessageDirection::Received)?;
                passed.apply(body).map(|body| HeldPiece::Answer(exchange, body))
            }
            HeldPiece::Request { exchange, body, has_fixed_arguments } => {
                self.rules.has_fixed_arguments = has_fixed_arguments;
                let passed = self.pass_text(MessageText::Shared(&body), MessageDirection::Sent);
                self.rules.has_fixed_arguments = false;
                Some(match passed?.apply(body) {
                    Some(body) => HeldPiece::Request { exchange, body, has_fixed_arguments },
                    None => HeldPiece::Unsent(exchange),
                })
            }
        })
    }

    /// Passes a received event. Those with a name of their own are no messages.
    fn pass_event(&mut self, item: SseItem) -> Result<Option<SseItem>, HandlerPanic> {
        match item {
            SseItem::Event(SseEvent { name, data }) if name.is_empty() || name == "message" => {
                let passed = self.pass_text(MessageText::Shared(&data), MessageDirection::Received)?;
                Ok(passed.apply(data).map(|data| SseItem::Event(SseEvent { name, data })))
            }
            SseItem::TooLong { head, tail, bytes } => {
                self.show_too_long(&head, &tail, bytes)?;
                Ok(Some(SseItem::TooLong { head, tail, bytes }))
            }
            other @ SseItem::Event(_) => Ok(Some(other)),
        }
    }

    /// Passes lines to be sent, and copies them from the first change on.
    fn pass_block(&mut self, block: &mut Vec<u8>) -> Result<(), HandlerPanic> {
        let mut changed: Option<Vec<u8>> = None;
        let mut start = 0;
        while let Some(rest) = block.get(start..)
            && let Some(length) = memchr(b'\n', rest)
        {
            let (line, end) =
                (rest.get(..length).unwrap_or_default(), start.saturating_add(length).saturating_add(1));
            match self.pass_text(MessageText::Borrowed(line), MessageDirection::Sent)? {
                Passed::Unchanged => {
                    if let Some(changed) = &mut changed {
                        changed.extend_from_slice(block.get(start..end).unwrap_or_default());
                    }
                }
                passed => {
                    let before = || block.get(..start).unwrap_or_default().to_vec();
                    let changed = changed.get_or_insert_with(before);
                    if let Passed::Changed(line) = passed {
                        changed.extend_from_slice(&line);
                        changed.push(b'\n');
                    }
                }
            }
            start = end;
        }
        if let Some(changed) = changed {
            *block = changed;
        }
        Ok(())
    }

    /// Passes a message or a batch.
    pub(super) fn pass_text(
        &mut self,
        text: MessageText<'_>,
        direction: MessageDirection,
    ) -> Result<Passed, HandlerPanic> {
        let first = text.bytes().iter().find(|byte| !byte.is_ascii_whitespace());
        match first {
            Some(b'[') => self.pass_batch(text, direction),
            _ => {
                let message = LayerMessage::new(text, self.side, direction, self.rules);
                self.pass_message(message)
            }
        }
    }

    /// Passes each message of a batch (2025-03-26). Without any message left, the batch is dropped.
    #[cold]
    fn pass_batch(
        &mut self,
        text: MessageText<'_>,
        direction: MessageDirection,
    ) -> Result<Passed, HandlerPanic> {
        let (side, rules) = (self.side, self.rules);
        let mut batch = match read(&text.shared(), rules.depth) {
            Ok(Frame::Batch(batch)) => batch,
            Ok(Frame::Single(_)) => return Ok(Passed::Unchanged),
            Err(malformed) => {
                let message = LayerMessage::new(text, side, direction, rules).of_malformed(malformed);
                return self.pass_message(message);
            }
        };
        let (mut kept, mut is_changed) = (Vec::new(), false);
        while let Some(text) = batch.next_text() {
            let message = LayerMessage::new(MessageText::Shared(&text), side, direction, rules);
            let passed = self.pass_message(message)?;
            is_changed |= passed != Passed::Unchanged;
            kept.extend(passed.apply(text));
        }
        Ok(match (is_changed, kept.is_empty()) {
            (false, _) => Passed::Unchanged,
            (true, true) => Passed::Dropped,
            (true, false) => Passed::Changed([b"[", &*kept.join(&b','), b"]"].concat()),
        })
    }

    /// Sets the revision of an HTTP request, its principal, and whether its headers repeat some of its arguments.
    #[cfg(all(feature = "server", feature = "http"))]
    pub(in crate::front) fn set_request(
        &mut self,
        revision: Option<Revision>,
        principal: Option<Principal>,
        has_fixed_arguments: bool,
    ) {
        self.rules = MessageRules { revision, has_fixed_arguments, ..self.rules };
        self.principal = principal;
    }

    /// Passes the body of a request or of an answer. `None` if it was dropped.
    #[cfg(all(feature = "server", feature = "http"))]
    pub(in crate::front) fn pass_body(
        &mut self,
        body: Bytes,
        direction: MessageDirection,
    ) -> Result<Option<Bytes>, HandlerPanic> {
        if body.is_empty() || self.is_broken {
            return Ok(Some(body));
        }
        let passed = self.pass_text(MessageText::Shared(&body), direction)?;
        Ok(passed.apply(body))
    }

    /// Passes whole events to be sent, as this crate writes them. A dropped event leaves its id, if it has one.
    #[cfg(all(feature = "server", feature = "http"))]
    pub(in crate::front) fn pass_events(&mut self, events: Bytes) -> Result<Bytes, HandlerPanic> {
        let mut changed: Option<Vec<u8>> = None;
        let mut start = 0;
        while let Some(rest) = events.get(start..)
            && let Some(length) = memmem::find(rest, b"\n\n")
        {
            let event = SentEvent::read(rest.get(..length).unwrap_or_default());
            let end = start.saturating_add(length).saturating_add(2);
            let text = MessageText::Borrowed(event.data);
            let passed = match event.is_message() {
                true => self.pass_text(text, MessageDirection::Sent)?,
                false => Passed::Unchanged,
            };
            match (&mut changed, &passed) {
                (None, Passed::Unchanged) => {}
                (Some(out), Passed::Unchanged) => {
                    out.extend_from_slice(events.get(start..end).unwrap_or_default());
                }
                (changed, passed) => {
                    let before = || events.get(..start).unwrap_or_default().to_vec();
                    event.write_passed(passed, changed.get_or_insert_with(before));
                }
            }
            start = end;
        }
        Ok(changed.map_or(events, Bytes::from))
    }

    /// Takes the messages that a layer wanted to drop and that cannot be dropped.
    pub(in crate::front) fn take_undropped(&mut self) -> Vec<String> {
        core::mem::take(&mut self.undropped)
    }

    fn show_too_long(&mut self, head: &Bytes, tail: &[u8], bytes: usize) -> Result<(), HandlerPanic> {
        let text = MessageText::Shared(head);
        let message = LayerMessage::new(text, self.side, MessageDirection::Received, self.rules);
        self.pass_message(message.of_malformed(Malformed::too_long(head, tail, bytes))).map(drop)
    }

    /// Shows a message to one layer after the other: what is sent to the innermost first, what is received to the outermost.
    fn pass_message(&mut self, message: LayerMessage<'_>) -> Result<Passed, HandlerPanic> {
        let mut message = message.on_behalf_of(self.principal.clone());
        let layers = self.layers.as_slice();
        let mut is_read = false;
        for index in 0..layers.len() {
            let index = match message.direction() {
                MessageDirection::Received => index,
                MessageDirection::Sent => layers.len().saturating_sub(index).saturating_sub(1),
            };
            let Some(layer) = layers.get(index) else { break };
            match catch_panic(|| layer.message(&mut message)) {
                Ok(Decision::Keep) => {}
                Ok(Decision::Drop) if message.is_droppable() => return Ok(Passed::Dropped),
                Ok(Decision::Drop) => self.undropped.push(message.describe()),
                Err(panicked) => {
                    self.is_broken = true;
                    return Err(panicked);
                }
            }
            is_read |= !message.is_unread_by(type_of::<H>(layer));
        }
        if !is_read {
            self.layers.set_ignore_messages();
        }
        self.altered.extend(message.altered_request().cloned());
        Ok(message.into_changed().map_or(Passed::Unchanged, Passed::Changed))
    }
}

/// An event to be sent. Its data is a single line, the last of the event.
#[cfg(all(feature = "server", feature = "http"))]
struct SentEvent<'a> {
    /// The lines before the data.
    fields: &'a [u8],
    data: &'a [u8],
}

#[cfg(all(feature = "server", feature = "http"))]
impl<'a> SentEvent<'a> {
    fn read(event: &'a [u8]) -> Self {
        let start = match event.starts_with(Self::DATA) {
            true => 0,
            false => memmem::find(event, b"\ndata: ")
                .map_or(event.len(), |line_break| line_break.saturating_add(1)),
        };
        let (fields, data) = event.split_at_checked(start).unwrap_or((event, &[]));
        Self { fields, data: data.strip_prefix(Self::DATA).unwrap_or_default() }
    }

    const DATA: &'static [u8] = b"data: ";

    /// Whether its data is a message: neither nothing, as in comments, nor an address.
    fn is_message(&self) -> bool {
        !self.data.is_empty() && !self.fields.starts_with(b"event: endpoint\n")
    }

    /// Writes what is left of it: without its data, its id alone.
    fn write_passed(&self, passed: &Passed, out: &mut Vec<u8>) {
        match passed {
            Passed::Unchanged => {
                out.extend_from_slice(&[self.fields, Self::DATA, self.data, b"\n\n"].concat())
            }
            Passed::Changed(data) => {
                out.extend_from_slice(&[self.fields, Self::DATA, data, b"\n\n"].concat())
            }
            Passed::Dropped => {
                let mut lines = self.fields.split_inclusive(|byte| *byte == b'\n');
                if let Some(id) = lines.find(|line| line.starts_with(b"id: ")) {
                    out.extend_from_slice(&[id, b"\n"].concat());
                }
            }
        }
    }
}

impl Passed {
    /// What is left of the text.
    pub(super) fn apply(self, text: Bytes) -> Option<Bytes> {
        match self {
            Self::Unchanged => Some(text),
            Self::Changed(changed) => Some(Bytes::from(changed)),
            Self::Dropped => None,
        }
    }
}

/// Why a connection ends whose layer has panicked.
fn layer_panicked() -> LostReason {
    LostReason::Failed("a layer panicked".to_string())
}
