//! Completion of an argument while the user types it.
//!
//! | event | reaction |
//! |---|---|
//! | the text changes | a request after a pause, unless the answer is cached |
//! | the text changes again | the pause restarts; the request in flight may be cancelled |
//! | the pause ends | one request, from [`poll_request`](Completer::poll_request) |
//! | the answer arrives | it is cached for a while, and shown if it matches the current text |
//! | no answer arrives | nothing is shown; the same text is requested again when it is next typed |

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::Instant;
use crate::prelude::*;
use crate::schema::{CompleteParams, Completion, CompletionArgument, CompletionContext, Map, Reference};

/// The maximum number of values in an answer; further ones are dropped.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion#completion-results>
const MAX_VALUES: usize = 100;

/// How long an answer is cached: servers set no lifetime.
const ANSWER_TTL: Duration = Duration::from_secs(30);

/// Configuration of a [`Completer`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompleterConfig {
    /// The pause in typing before the server is asked. Default 150 ms: longer than between two keys, shorter than a
    /// noticeable delay.
    pub debounce: Duration,
    /// The maximum number of cached answers; the oldest are removed first. Default 32.
    pub answers: usize,
    /// The maximum size in bytes of an answer that is cached and shown; longer ones are cut to the values that fit.
    /// Default 64 KiB.
    pub bytes: usize,
}

impl Default for CompleterConfig {
    fn default() -> Self {
        Self { debounce: Duration::from_millis(150), answers: 32, bytes: 64 * 1024 }
    }
}

/// Completer of one argument of a prompt or a resource template while the user types it.
///
/// It sends nothing: its owner sends the requests that it returns, and passes the answers in. Only the latest request
/// is useful; when another one is returned, the owner may cancel the previous one.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::Instant;
/// use mcp_proto::peer::client::{Completer, CompleterConfig};
/// use mcp_proto::schema::{Completion, PromptReference};
///
/// let mut completer = Completer::new(CompleterConfig::default(), PromptReference::new("review"), "language");
/// let now = Instant::ORIGIN;
/// completer.set_text(now, "r");
/// completer.set_text(now + Duration::from_millis(80), "ru");
/// let due = completer.poll_timeout().unwrap();
/// let request = completer.poll_request(due).unwrap();
/// assert_eq!(request.argument.value, "ru");
/// completer.handle_answer(due, &request, Some(Completion::new(vec!["rust".into(), "ruby".into()])));
/// assert_eq!(completer.suggestions().values, ["rust", "ruby"]);
/// ```
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion>
#[derive(Debug)]
pub struct Completer {
    config: CompleterConfig,
    reference: Reference,
    argument: String,
    /// The other arguments whose values are known.
    other_arguments: Map<String>,
    text: String,
    /// When to ask the server about the text.
    due: Option<Instant>,
    /// The request in flight.
    in_flight: Option<CompleteParams>,
    /// Cached answers, oldest first.
    answers: VecDeque<CachedCompletion>,
}

#[derive(Debug)]
struct CachedCompletion {
    text: String,
    completion: Completion,
    until: Instant,
}

/// Suggestions for the argument's value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Suggestions<'a> {
    /// The values, the best first.
    pub values: Vec<&'a str>,
    /// Whether the server has more values, as far as it says.
    pub more: bool,
    /// Whether the values answer the current text; otherwise they are those for an earlier text that still fit, and the
    /// answer may be in flight.
    pub current: bool,
}

impl Completer {
    /// Creates a completer for the argument `argument` of a prompt or a template, with an empty text.
    pub fn new(
        config: CompleterConfig,
        reference: impl Into<Reference>,
        argument: impl Into<String>,
    ) -> Self {
        Self {
            config,
            reference: reference.into(),
            argument: argument.into(),
            other_arguments: Map::new(),
            text: String::new(),
            due: None,
            in_flight: None,
            answers: VecDeque::new(),
        }
    }

    // --- Commands ---

    /// Sets the current text.
    pub fn set_text(&mut self, now: Instant, text: impl Into<String>) {
        self.text = text.into();
        self.answers.retain(|answer| now < answer.until);
        let known = self.answer().is_some()
            || self.in_flight.as_ref().is_some_and(|asked| asked.argument.value == self.text);
        self.due = (!known).then(|| now + self.config.debounce);
    }

    /// Sets the values of the other arguments, which the server may take into account. Clears the cached answers.
    pub fn set_other_arguments(&mut self, now: Instant, arguments: Map<String>) {
        self.other_arguments = arguments;
        self.answers.clear();
        self.in_flight = None;
        let text = core::mem::take(&mut self.text);
        self.set_text(now, text);
    }

    // --- Inputs ---

    /// Handles the answer to a request; `None` if the request failed for any reason.
    pub fn handle_answer(&mut self, now: Instant, request: &CompleteParams, completion: Option<Completion>) {
        // Answers to earlier requests are ignored.
        let Some(asked) = self.in_flight.take_if(|asked| asked == request) else { return };
        let Some(mut completion) = completion else { return };
        if self.config.answers == 0 {
            return;
        }
        let mut room = self.config.bytes;
        let fits = completion.values.iter().take(MAX_VALUES).take_while(|value| {
            let left = room.checked_sub(value.len());
            room = left.unwrap_or_default();
            left.is_some()
        });
        let fits = fits.count();
        if fits < completion.values.len() {
            completion.values.truncate(fits);
            completion.has_more = Some(true);
        }
        completion.extra = Map::new();
        let text = asked.argument.value;
        self.answers.retain(|answer| answer.text != text);
        if self.answers.len() >= self.config.answers {
            self.answers.pop_front();
        }
        let until = now + ANSWER_TTL;
        self.answers.push_back(CachedCompletion { text, completion, until });
    }

    // --- Outputs ---

    /// The request to send now, if any; it makes the previous request useless.
    #[must_use]
    pub fn poll_request(&mut self, now: Instant) -> Option<CompleteParams> {
        self.due.take_if(|due| *due <= now)?;
        let argument = CompletionArgument::new(self.argument.clone(), self.text.clone());
        let mut params = CompleteParams::new(self.reference.clone(), argument);
        //= C9.17 "the values of earlier arguments are sent in `context.arguments`"
        if !self.other_arguments.is_empty() {
            let mut context = CompletionContext::new();
            context.arguments = Some(self.other_arguments.clone());
            params.context = Some(context);
        }
        self.in_flight = Some(params.clone());
        Some(params)
    }

    /// When a request may be ready.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    // --- Getters ---

    /// The suggestions for the current text, as far as known.
    pub fn suggestions(&self) -> Suggestions<'_> {
        if let Some(CachedCompletion { completion, .. }) = self.answer() {
            let values: Vec<&str> = completion.values.iter().map(String::as_str).collect();
            let sent = u64::try_from(values.len()).unwrap_or(u64::MAX);
            let more =
                completion.has_more.unwrap_or(false) || completion.total.is_some_and(|total| total > sent);
            return Suggestions { values, more, current: true };
        }
        let longest = self
            .answers
            .iter()
            .filter(|answer| self.text.starts_with(&answer.text))
            .max_by_key(|answer| answer.text.len());
        let fitting = longest.iter().flat_map(|answer| &answer.completion.values);
        let values = fitting.map(String::as_str).filter(|value| value.starts_with(&self.text)).collect();
        Suggestions { values, more: false, current: false }
    }

    /// The cached answer for the current text.
    fn answer(&self) -> Option<&CachedCompletion> {
        self.answers.iter().find(|answer| answer.text == self.text)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec;

    use super::*;
    use crate::schema::PromptReference;

    fn at(ms: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(ms))
    }

    fn completer() -> Completer {
        Completer::new(CompleterConfig::default(), PromptReference::new("review"), "language")
    }

    fn found(values: &[&str]) -> Option<Completion> {
        Some(Completion::new(values.iter().map(|value| (*value).into()).collect::<Vec<String>>()))
    }

    fn asks(completer: &mut Completer, ms: u64) -> Option<String> {
        completer.poll_request(at(ms)).map(|params| params.argument.value)
    }

    fn asked(completer: &mut Completer, ms: u64) -> CompleteParams {
        completer.poll_request(at(ms)).unwrap()
    }

    /// C9.13
    #[test]
    fn completer_sends_a_request_once_the_user_pauses() {
        let mut completer = completer();
        for (ms, text) in [(0, "r"), (100, "ru"), (200, "rus")] {
            completer.set_text(at(ms), text);
            assert_eq!(asks(&mut completer, ms), None);
        }
        assert_eq!(completer.poll_timeout(), Some(at(350)));
        assert_eq!(asks(&mut completer, 349), None);
        assert_eq!(asks(&mut completer, 350).as_deref(), Some("rus"));
        assert_eq!((asks(&mut completer, 500), completer.poll_timeout()), (None, None));
        completer.set_text(at(500), "rus");
        assert_eq!(completer.poll_timeout(), None, "a request for it is in flight");
    }

    /// C9.13
    #[test]
    fn completer_caches_answers_for_a_while() {
        let mut completer = completer();
        completer.set_text(at(0), "r");
        let r = asked(&mut completer, 150);
        completer.handle_answer(at(200), &r, found(&["rust", "ruby"]));
        completer.set_text(at(300), "ru");
        assert_eq!(
            completer.suggestions(),
            Suggestions { values: vec!["rust", "ruby"], more: false, current: false }
        );
        completer.set_text(at(400), "rus");
        assert_eq!(completer.suggestions().values, ["rust"]);
        completer.set_text(at(500), "r");
        assert_eq!(completer.poll_timeout(), None);
        assert_eq!(
            completer.suggestions(),
            Suggestions { values: vec!["rust", "ruby"], more: false, current: true }
        );
        completer.set_text(at(30_200), "r");
        assert_eq!(completer.poll_timeout(), Some(at(30_350)));
    }

    /// C9.13: late, missing, unrequested and too many answers.
    #[test]
    fn completer_accepts_missing_and_partial_answers() {
        let mut completer = completer();
        completer.set_text(at(0), "r");
        let r = asked(&mut completer, 150);
        completer.set_text(at(200), "ru");
        let ru = asked(&mut completer, 350);
        completer.handle_answer(at(400), &r, found(&["late"]));
        assert_eq!(completer.suggestions(), Suggestions::default());
        completer.handle_answer(at(400), &ru, None);
        assert_eq!((completer.suggestions(), completer.poll_timeout()), (Suggestions::default(), None));
        completer.set_text(at(500), "ru");
        assert_eq!(asks(&mut completer, 650).as_deref(), Some("ru"));
        let many: Vec<String> = (0..150).map(|number| format!("ru{number}")).collect();
        completer.handle_answer(at(700), &ru, Some(Completion::new(many)));
        let suggestions = completer.suggestions();
        assert_eq!((suggestions.values.len(), suggestions.more, suggestions.current), (100, true, true));

        completer.set_text(at(1_000), "x");
        let x = asked(&mut completer, 1_150);
        let mut partial = Completion::new(vec!["x1".into()]);
        partial.total = Some(5);
        completer.handle_answer(at(1_200), &x, Some(partial));
        assert!(completer.suggestions().more);
    }

    /// C9.17
    #[test]
    fn other_arguments_need_another_request() {
        let mut completer = completer();
        completer.set_text(at(0), "r");
        let before = asked(&mut completer, 150);
        completer.set_other_arguments(at(200), [("framework", "axum".into())].into());
        let after = asked(&mut completer, 350);
        completer.handle_answer(at(400), &before, found(&["of the former question"]));
        assert_eq!(completer.suggestions(), Suggestions::default());
        completer.handle_answer(at(400), &after, found(&["rust"]));
        assert_eq!(completer.suggestions().values, ["rust"]);
        let settled = after.context.and_then(|context| context.arguments).unwrap();
        assert_eq!(settled.get("framework").map(String::as_str), Some("axum"));
    }

    /// C9.13: the cache is bounded whatever the server sends.
    #[test]
    fn completer_bounds_its_cache() {
        let config = CompleterConfig { debounce: Duration::ZERO, answers: 2, bytes: 10 };
        let mut completer = Completer::new(config, PromptReference::new("p"), "a");
        for text in ["a", "b", "c"] {
            completer.set_text(at(0), text);
            let request = asked(&mut completer, 0);
            completer.handle_answer(at(0), &request, found(&["1234567", "12345", "1"]));
        }
        assert_eq!(
            completer.suggestions(),
            Suggestions { values: vec!["1234567"], more: true, current: true }
        );
        assert_eq!(completer.answers.len(), 2);
        completer.set_text(at(200), "a");
        assert!(completer.poll_timeout().is_some());
        completer.set_text(at(200), "b");
        assert!(completer.poll_timeout().is_none());
    }
}
