//! Sanitization of untrusted text for display.

use alloc::string::String;

use crate::text::SafeText;

/// Maximum number of characters that are shown.
pub(crate) const SHOWN: usize = 500;

/// The beginning of a text, without characters that could steer a terminal, reorder text or hide in it. `None` if
/// nothing remains.
pub(crate) fn sanitize(text: &str) -> Option<String> {
    let shown: String = text.chars().filter(|&letter| !SafeText::is_unsafe(letter)).take(SHOWN).collect();
    (!shown.is_empty()).then_some(shown)
}
