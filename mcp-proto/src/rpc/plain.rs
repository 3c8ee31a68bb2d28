//! Characters that stand for themselves within a JSON string.

/// Whether every character of a text stands for itself.
pub(super) fn is_plain(text: &[u8]) -> bool {
    find_special(text).is_none()
}

/// Finds the first byte that does not stand for itself: a quote, a backslash or a control character.
#[inline(always)]
pub(super) fn find_special(text: &[u8]) -> Option<usize> {
    let (pairs, rest) = text.as_chunks::<16>();
    for (index, pair) in pairs.iter().enumerate() {
        // Two words at once: half the branches.
        let pair = u128::from_le_bytes(*pair);
        let (low, high) = (specials(pair as u64), specials((pair >> 64) as u64));
        if low | high != 0 {
            let bits = if low != 0 { low.trailing_zeros() } else { 64 | high.trailing_zeros() };
            return Some(index << 4 | bits as usize >> 3);
        }
    }
    if let Some(word) = rest.first_chunk() {
        let hits = specials(u64::from_le_bytes(*word));
        if hits != 0 {
            return Some(pairs.len() << 4 | hits.trailing_zeros() as usize >> 3);
        }
    }
    let Some((before, word)) = text.split_last_chunk() else {
        return text.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..b' '));
    };
    // It overlaps with bytes that are not special.
    let hits = specials(u64::from_le_bytes(*word));
    (hits != 0).then(|| before.len().saturating_add(hits.trailing_zeros() as usize >> 3))
}

/// The special bytes of a word: the lowest bit that is set stands for the first of them.
#[inline(always)]
pub(super) fn specials(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = ONES << 7;
    const QUOTES: u64 = ONES * b'"' as u64;
    const BACKSLASHES: u64 = ONES * b'\\' as u64;
    const SPACES: u64 = ONES * b' ' as u64;
    let quotes = (word ^ QUOTES).wrapping_sub(ONES);
    let backslashes = (word ^ BACKSLASHES).wrapping_sub(ONES);
    (quotes | backslashes | word.wrapping_sub(SPACES)) & !word & TOPS
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
