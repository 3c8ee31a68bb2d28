//! Sanitization of untrusted text for display.

use alloc::string::String;

/// Maximum number of characters that are shown.
pub(crate) const SHOWN: usize = 500;

/// The beginning of a text, without characters that could steer a terminal or reorder text. `None` if nothing remains.
pub(crate) fn sanitize(text: &str) -> Option<String> {
    let shown: String = text.chars().filter(|&letter| !is_unsafe(letter)).take(SHOWN).collect();
    (!shown.is_empty()).then_some(shown)
}

fn is_unsafe(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61C}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}')
        || matches!(letter, '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}
