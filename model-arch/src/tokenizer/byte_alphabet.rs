//! The alphabet of byte-level vocabularies: one printable character stands for each of the 256 byte values.
//!
//! Bytes that print (`!`..`~`, `¡`..`¬`, `®`..`ÿ`) stand for themselves; the other 68 take the characters from
//! U+0100 on, in byte order. The map is a bijection, so text in the alphabet and bytes are two spellings of one thing.

/// Whether a byte value is spelled by the character with the same number.
const fn prints(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)
}

/// The character for each byte value.
const CHARS: [char; 256] = {
    let mut chars = ['\0'; 256];
    let mut next_shifted = 0x100_u32;
    let mut value = 0_usize;
    while value < 256 {
        if prints(value as u8) {
            chars[value] = value as u8 as char;
        } else {
            chars[value] = match char::from_u32(next_shifted) {
                Some(c) => c,
                None => panic!("U+0100..U+0143 are all characters"),
            };
            next_shifted += 1;
        }
        value += 1;
    }
    chars
};

/// The byte for each character below U+0144, the first beyond the alphabet.
const BYTES: [Option<u8>; 0x144] = {
    let mut bytes = [None; 0x144];
    let mut value = 0_usize;
    while value < 256 {
        bytes[CHARS[value] as usize] = Some(value as u8);
        value += 1;
    }
    bytes
};

/// The character that stands for `byte`.
pub(crate) fn char_of(byte: u8) -> char {
    CHARS[usize::from(byte)]
}

/// The byte that `c` stands for; `None` for a character outside the alphabet.
pub(crate) fn byte_of(c: char) -> Option<u8> {
    BYTES.get(c as usize).copied().flatten()
}

/// Appends to `out` the bytes that a token's text stands for. A character outside the alphabet (some added tokens are
/// written plainly) stands for its own UTF-8 bytes.
pub(crate) fn decode_into(text: &str, out: &mut Vec<u8>) {
    for c in text.chars() {
        match byte_of(c) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_round_trips_and_no_two_share_a_character() {
        let chars: std::collections::HashSet<char> = (0..=255).map(char_of).collect();
        assert_eq!(chars.len(), 256);
        for byte in 0..=255 {
            assert_eq!(byte_of(char_of(byte)), Some(byte));
        }
    }

    #[test]
    fn well_known_spellings() {
        assert_eq!(char_of(b' '), 'Ġ');
        assert_eq!(char_of(b'\n'), 'Ċ');
        assert_eq!(char_of(b'\t'), 'ĉ');
        assert_eq!(char_of(0xad), 'Ń');
        assert_eq!(byte_of('a'), Some(b'a'));
        assert_eq!(byte_of('中'), None);
    }

    #[test]
    fn a_plain_character_keeps_its_own_bytes() {
        let mut out = Vec::new();
        decode_into("Ġ中", &mut out);
        assert_eq!(out, b" \xe4\xb8\xad");
    }
}
