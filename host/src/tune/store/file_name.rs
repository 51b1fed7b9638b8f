//! Names of entries as names of files: whatever a plugin calls its rows, the file stays in its folder.

use sha2::{Digest, Sha256};

/// Most bytes of a file's name.
const NAME_MAX: usize = 180;

/// Text with everything but letters, digits, `-`, `_` and `.` as `%` and two digits.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, byte) in text.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || b"-_".contains(&byte) || (byte == b'.' && index > 0);
        if plain { out.push(char::from(byte)) } else { out.push_str(&format!("%{byte:02X}")) }
    }
    out
}

/// The text behind [`escape`]; `None` for what it never writes.
pub(super) fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_hexdigit))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

/// The name of the file or folder that holds something of this name. Names too long for a file end in
/// their hash.
pub(crate) fn file_name(name: &str) -> String {
    let mut escaped = escape(name);
    if escaped.len() > NAME_MAX {
        let hash: String =
            Sha256::digest(name.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        // Everything escaped is ASCII, so any cut is between characters.
        escaped.truncate(NAME_MAX - hash.len() - 1);
        escaped = format!("{escaped}-{hash}");
    }
    if escaped.is_empty() { "%".into() } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_name_is_one_plain_component_and_comes_back(name in any::<String>()) {
            let escaped = escape(&name);
            prop_assert_eq!(unescape(&escaped), Some(name.clone()));
            let file = file_name(&name);
            prop_assert!(!file.is_empty() && file.len() <= NAME_MAX && !file.starts_with('.'));
            prop_assert!(!file.contains(['/', '\\', '\0', ' ', '\n']));
        }

        #[test]
        fn no_text_breaks_the_reader(text in any::<String>()) {
            let _ = unescape(&text);
        }
    }

    #[test]
    fn spec_names_stay_readable_and_hostile_ones_stay_in_their_folder() {
        assert_eq!(file_name("shape.q4kTcTile.512x4096x4096"), "shape.q4kTcTile.512x4096x4096");
        assert_eq!(file_name("../../etc/passwd"), "%2E.%2F..%2Fetc%2Fpasswd");
        assert_eq!(file_name(".."), "%2E.");
        let [long, longer] = [200, 201].map(|length| file_name(&"x".repeat(length)));
        assert!(long != longer && long.len() == NAME_MAX);
    }
}
