//! Characters that stand for themselves within a JSON string.

/// Whether every character of a text stands for itself.
pub(super) fn is_plain(text: &[u8]) -> bool {
    find_special(text).is_none()
}

/// Finds the first byte that does not stand for itself: a quote, a backslash or a control character.
#[inline(always)]
pub(super) fn find_special(text: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = ONES << 7;
    const QUOTES: u64 = ONES * b'"' as u64;
    const BACKSLASHES: u64 = ONES * b'\\' as u64;
    const SPACES: u64 = ONES * b' ' as u64;
    // The lowest top bit that is set stands for the first byte below the limit.
    let below = |word: u64, limit: u64| word.wrapping_sub(limit) & !word & TOPS;
    let (words, rest) = text.as_chunks();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let hits = below(word ^ QUOTES, ONES) | below(word ^ BACKSLASHES, ONES) | below(word, SPACES);
        if hits != 0 {
            return Some(index << 3 | hits.trailing_zeros() as usize >> 3);
        }
    }
    let near = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..b' '))?;
    Some(words.len() << 3 | near)
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    #[test]
    fn special_characters_are_found_at_every_place() {
        for length in 0..40 {
            let plain =
                "é]~ \u{7f}".repeat(7).into_bytes().into_iter().take(length).collect::<alloc::vec::Vec<_>>();
            assert!(is_plain(&plain), "{}", String::from_utf8_lossy(&plain));
            for (at, special) in (0..length).zip([b'"', b'\\', 0, b'\n', 0x1f].into_iter().cycle()) {
                let mut text = plain.clone();
                text[at] = special;
                assert_eq!(find_special(&text), Some(at));
                text[length - 1] = b'"';
                assert_eq!(find_special(&text), Some(at));
            }
        }
    }
}
