//! Texts that others wrote, before anyone sees them.

use alloc::string::String;

/// How many characters of such a text are kept.
pub(crate) const SHOWN: usize = 500;

/// What may be shown of a text, if anything: its beginning, without characters that steer a terminal or turn text around.
pub(crate) fn sanitize(text: &str) -> Option<String> {
    let shown: String = text.chars().filter(|&letter| !is_unsafe(letter)).take(SHOWN).collect();
    (!shown.is_empty()).then_some(shown)
}

fn is_unsafe(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61C}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}')
        || matches!(letter, '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}
