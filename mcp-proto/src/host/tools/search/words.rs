//! The words of names and descriptions.

use alloc::string::String;

/// The longest word, in bytes. The rest of a longer one is left out.
const WORD_BYTES: usize = 64;

/// Calls `act` with each word of the text, in lower case and in the singular.
///
/// Words end at characters other than letters and digits, and within identifiers: `createIssue` and `HTTPServer` have
/// two. Each character of scripts without spaces between words is one.
pub(super) fn each_word(text: &str, mut act: impl FnMut(&str)) {
    let mut word = String::new();
    let mut end = |word: &mut String| {
        if !word.is_empty() {
            act(singular(word));
            word.clear();
        }
    };
    let mut before = ' ';
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let follows_lower = !before.is_uppercase() && before.is_alphanumeric();
        let precedes_lower = characters.peek().is_some_and(|next| next.is_lowercase());
        if !character.is_alphanumeric()
            || is_word(character)
            || is_word(before)
            || character.is_uppercase() && (follows_lower || precedes_lower)
        {
            end(&mut word);
        }
        if character.is_alphanumeric() && word.len() < WORD_BYTES {
            word.extend(character.to_lowercase());
        }
        before = character;
    }
    end(&mut word);
}

/// Whether the character is a word by itself: Chinese characters and Japanese syllables.
fn is_word(character: char) -> bool {
    matches!(
        character,
        '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}'
    )
}

/// The word without an English plural ending.
fn singular(word: &mut String) -> &str {
    if word.len() > 4 && word.ends_with("ies") {
        word.truncate(word.len().saturating_sub(3));
        word.push('y');
    } else if word.len() > 3
        && word.ends_with('s')
        && !["ss", "us", "is"].iter().any(|end| word.ends_with(end))
    {
        word.pop();
    }
    word
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        each_word(text, |word| words.push(word.into()));
        words
    }

    #[test]
    fn identifiers_are_taken_apart() {
        assert_eq!(
            words("createIssue get_user-name HTTPServer S3 v2Beta"),
            ["create", "issue", "get", "user", "name", "http", "server", "s3", "v2", "beta"]
        );
    }

    #[test]
    fn plurals_become_singular() {
        assert_eq!(
            words("queries issues status class analysis gas"),
            ["query", "issue", "status", "class", "analysis", "gas"]
        );
    }

    #[test]
    fn characters_without_spaces_between_are_words() {
        assert_eq!(words("天气tool Größe"), ["天", "气", "tool", "größe"]);
    }

    #[test]
    fn long_words_are_cut() {
        assert_eq!(words(&"x".repeat(1000))[0].len(), WORD_BYTES);
    }
}
