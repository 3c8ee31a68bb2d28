//! The scan of JSON text in blocks: the structural characters of 64 bytes at a time, as masks of bits.

/// The size of a block in bytes.
pub(super) const BLOCK: usize = 64;

/// The scan's state at the beginning of a block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carry {
    /// All ones if the block begins within a string, else 0.
    in_string: u64,
    /// 1 if the last byte of the previous block escapes the first byte, else 0.
    escaped: u64,
    /// Not 0 if a block so far has an escape of the form `\u`.
    unicode_escapes: u64,
}

/// The structural characters of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    /// Brackets outside of strings.
    pub(super) brackets: u64,
    /// Control characters other than whitespace, and backslashes, outside of strings.
    pub(super) strays: u64,
    /// Whether the block ends within a string that is probably long: its last 16 bytes have no quotes or escapes.
    pub(super) in_long_string: bool,
}

impl Carry {
    /// Scans the next block.
    #[inline]
    pub(super) fn marks(&mut self, block: &[u8; BLOCK]) -> Marks {
        let mut quotes = gather(block, |byte| byte == b'"');
        let brackets = gather(block, |byte| byte | 0x20 == b'{' || byte | 0x20 == b'}');
        let mut strays = 0;
        let mut escapes = 0;
        // Few blocks have such bytes; only those blocks pay for the exact comparison.
        let any = block.iter().fold(false, |any, byte| any | (*byte == b'\\' || *byte < b' '));
        if any || self.escaped != 0 {
            strays = gather(block, |byte| {
                byte == b'\\' || (byte < b' ' && byte != b'\n' && byte != b'\r' && byte != b'\t')
            });
            escapes = self.escapes(gather(block, |byte| byte == b'\\'));
            quotes &= !escapes;
            if escapes != 0 {
                self.unicode_escapes |= escapes & gather(block, |byte| byte == b'u');
            }
        }
        let strings = parity(quotes) ^ self.in_string;
        self.in_string = 0u64.wrapping_sub(strings >> 63);
        let in_long_string = (quotes | escapes) >> 48 == 0 && self.in_string != 0 && self.escaped == 0;
        Marks { brackets: brackets & !strings, strays: strays & !strings, in_long_string }
    }

    /// Whether a block so far has an escape of the form `\u`.
    pub(super) fn has_unicode_escapes(&self) -> bool {
        self.unicode_escapes != 0
    }

    /// The mask of escaped bytes: those behind a backslash that is not escaped itself.
    fn escapes(&mut self, backslashes: u64) -> u64 {
        const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;
        // A run of backslashes escapes every other byte from its second one on. Subtracting the run's beginning from
        // its shifted self borrows through the run, and leaves the parity of its length where it ends.
        let leading = backslashes & !self.escaped;
        let ends = ((leading << 1) | ODD).wrapping_sub(leading) ^ ODD;
        let escapes = ends ^ (backslashes | self.escaped);
        self.escaped = (ends & backslashes) >> 63;
        escapes
    }
}

/// One bit per byte: set where `is` holds.
#[inline]
fn gather(block: &[u8; BLOCK], is: impl Fn(u8) -> bool) -> u64 {
    let hits = block.map(|byte| if is(byte) { 0xFF } else { 0 });
    // Bit `w` of byte `b` of the sum is byte `b` of word `w`: a matrix of bits, to be transposed.
    let (words, _) = hits.as_chunks::<8>();
    let mut bits = 0;
    for (word, lane) in words.iter().zip(LANES) {
        bits |= u64::from_le_bytes(*word) & lane;
    }
    let swap = (bits ^ (bits >> 7)) & 0x00AA_00AA_00AA_00AA;
    let bits = bits ^ swap ^ (swap << 7);
    let swap = (bits ^ (bits >> 14)) & 0x0000_CCCC_0000_CCCC;
    let bits = bits ^ swap ^ (swap << 14);
    let swap = (bits ^ (bits >> 28)) & 0x0000_0000_F0F0_F0F0;
    bits ^ swap ^ (swap << 28)
}

/// Bit `w` of every byte.
const LANES: [u64; 8] = {
    let first = 0x0101_0101_0101_0101u64;
    [first, first << 1, first << 2, first << 3, first << 4, first << 5, first << 6, first << 7]
};

/// The parity of each bit and all below it: ones from an opening quote to before the closing one.
#[inline]
fn parity(bits: u64) -> u64 {
    let bits = bits ^ (bits << 1);
    let bits = bits ^ (bits << 2);
    let bits = bits ^ (bits << 4);
    let bits = bits ^ (bits << 8);
    let bits = bits ^ (bits << 16);
    bits ^ (bits << 32)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// The reference implementation: scans byte by byte.
    fn naive(text: &[u8]) -> (Vec<usize>, Vec<usize>) {
        let (mut brackets, mut strays) = (Vec::new(), Vec::new());
        let (mut in_string, mut escaped) = (false, false);
        for (n, byte) in text.iter().enumerate() {
            if !in_string {
                if b"{}[]".contains(byte) {
                    brackets.push(n);
                }
                if *byte == b'\\' || (*byte < b' ' && !b"\n\r\t".contains(byte)) {
                    strays.push(n);
                }
            }
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = !in_string,
                _ => {}
            }
        }
        (brackets, strays)
    }

    fn positions(mut mask: u64, base: usize) -> Vec<usize> {
        let mut found = Vec::new();
        while mask != 0 {
            found.push(base + mask.trailing_zeros() as usize);
            mask &= mask - 1;
        }
        found
    }

    #[test]
    fn backslashes_of_a_whole_block_are_strays() {
        assert_eq!(Carry::default().marks(&[b'\\'; BLOCK]).strays, u64::MAX);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn masks_agree_with_a_scan_byte_by_byte(
            text in proptest::collection::vec(prop::sample::select(b"\"\"\\\\{}[]a \n\0\x1f,".to_vec()), 320)
        ) {
            let mut carry = Carry::default();
            let (mut brackets, mut strays) = (Vec::new(), Vec::new());
            for (n, block) in text.as_chunks::<BLOCK>().0.iter().enumerate() {
                let marks = carry.marks(block);
                brackets.extend(positions(marks.brackets, n * BLOCK));
                strays.extend(positions(marks.strays, n * BLOCK));
            }
            prop_assert_eq!((brackets, strays), naive(&text));
        }
    }
}
