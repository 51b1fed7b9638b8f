//! The table of weight formats: GGML type ids, names, block sizes, and which of them decode here.

use super::{five_bit, float, iq4, legacy, mxfp4, q2_k, q3_k, q4_k, q5_k, q6_k};

/// Turns whole blocks into values. Callers pass lengths that [`Format::row_bytes`] agrees with;
/// surplus on either side is left untouched, so a wrong length never reads or writes past a slice.
pub(super) type DecodeBlocks = fn(&[u8], &mut [f32]);

/// What one format is: a line of the table.
struct Layout {
    name: &'static str,
    block_len: usize,
    block_bytes: usize,
    decode: Option<DecodeBlocks>,
}

macro_rules! formats {
    ($($variant:ident = $id:literal, $len:literal, $bytes:literal, $decode:expr;)*) => {
        /// A storage format of tensor values, numbered as GGML numbers its types.
        ///
        /// The number crosses the plugin boundary and stands in GGUF files, so it never changes
        /// meaning. Formats that no decoder reads are listed too: a file holding one is described
        /// and sized correctly, and refused by name.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        #[allow(non_camel_case_types)]
        pub enum Format {
            $(#[doc = concat!(stringify!($len), " values in ", stringify!($bytes), " bytes.")] $variant = $id,)*
        }

        impl Format {
            /// Every format with a known layout, in id order.
            pub const ALL: &'static [Format] = &[$(Format::$variant,)*];

            /// The format with this GGML type id; `None` for ids never assigned or withdrawn
            /// ([`type_name`] still names the latter).
            pub const fn from_id(id: u32) -> Option<Format> {
                match id {
                    $($id => Some(Format::$variant),)*
                    _ => None,
                }
            }

            const fn layout(self) -> Layout {
                match self {
                    $(Format::$variant => Layout {
                        name: stringify!($variant),
                        block_len: $len,
                        block_bytes: $bytes,
                        decode: $decode,
                    },)*
                }
            }
        }
    };
}

formats! {
    F32     = 0,    1,   4, Some(float::decode_f32);
    F16     = 1,    1,   2, Some(float::decode_f16);
    Q4_0    = 2,   32,  18, Some(legacy::decode_q4_0);
    Q4_1    = 3,   32,  20, Some(legacy::decode_q4_1);
    Q5_0    = 6,   32,  22, Some(five_bit::decode_q5_0);
    Q5_1    = 7,   32,  24, Some(five_bit::decode_q5_1);
    Q8_0    = 8,   32,  34, Some(legacy::decode_q8_0);
    Q8_1    = 9,   32,  36, None;
    Q2_K    = 10, 256,  84, Some(q2_k::decode_q2_k);
    Q3_K    = 11, 256, 110, Some(q3_k::decode_q3_k);
    Q4_K    = 12, 256, 144, Some(q4_k::decode_q4_k);
    Q5_K    = 13, 256, 176, Some(q5_k::decode_q5_k);
    Q6_K    = 14, 256, 210, Some(q6_k::decode_q6_k);
    Q8_K    = 15, 256, 292, None;
    IQ2_XXS = 16, 256,  66, None;
    IQ2_XS  = 17, 256,  74, None;
    IQ3_XXS = 18, 256,  98, None;
    IQ1_S   = 19, 256,  50, None;
    IQ4_NL  = 20,  32,  18, Some(iq4::decode_iq4_nl);
    IQ3_S   = 21, 256, 110, None;
    IQ2_S   = 22, 256,  82, None;
    IQ4_XS  = 23, 256, 136, Some(iq4::decode_iq4_xs);
    I8      = 24,   1,   1, None;
    I16     = 25,   1,   2, None;
    I32     = 26,   1,   4, None;
    I64     = 27,   1,   8, None;
    F64     = 28,   1,   8, None;
    IQ1_M   = 29, 256,  56, None;
    BF16    = 30,   1,   2, Some(float::decode_bf16);
    TQ1_0   = 34, 256,  54, None;
    TQ2_0   = 35, 256,  66, None;
    MXFP4   = 39,  32,  17, Some(mxfp4::decode_mxfp4);
    NVFP4   = 40,  64,  36, None;
    Q1_0    = 41, 128,  18, None;
}

/// Ids that GGML once assigned and withdrew; files holding them need converting again.
const WITHDRAWN: [(u32, &str); 8] = [
    (4, "Q4_2"),
    (5, "Q4_3"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
];

/// The name GGML gives a type id, withdrawn types included; `None` for an id nobody assigned.
pub fn type_name(id: u32) -> Option<&'static str> {
    match Format::from_id(id) {
        Some(format) => Some(format.name()),
        None => WITHDRAWN.iter().find(|(withdrawn, _)| *withdrawn == id).map(|(_, name)| *name),
    }
}

impl Format {
    /// The GGML type id, as GGUF files and launch arguments carry it.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// The GGML name, such as `Q4_K`.
    pub const fn name(self) -> &'static str {
        self.layout().name
    }

    /// The format called `name`, in any letter case.
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.iter().copied().find(|format| format.name().eq_ignore_ascii_case(name))
    }

    /// Values in one block (1 for plain numbers).
    pub const fn block_len(self) -> usize {
        self.layout().block_len
    }

    /// Bytes of one block.
    pub const fn block_bytes(self) -> usize {
        self.layout().block_bytes
    }

    /// Whether [`decode_row`](super::decode_row) reads this format.
    pub const fn is_decodable(self) -> bool {
        self.layout().decode.is_some()
    }

    /// Bytes of a row of `k` values; `None` when `k` is not whole blocks or the size overflows.
    pub const fn row_bytes(self, k: u64) -> Option<u64> {
        let Layout { block_len, block_bytes, .. } = self.layout();
        if !k.is_multiple_of(block_len as u64) {
            return None;
        }
        (k / block_len as u64).checked_mul(block_bytes as u64)
    }

    pub(super) const fn decoder(self) -> Option<DecodeBlocks> {
        self.layout().decode
    }
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_lead_back_to_the_format() {
        for &format in Format::ALL {
            assert_eq!(Format::from_id(format.id()), Some(format));
            assert_eq!(Format::from_name(&format.name().to_lowercase()), Some(format));
            assert_eq!(type_name(format.id()), Some(format.name()));
        }
    }

    #[test]
    fn withdrawn_ids_have_a_name_and_no_format() {
        assert_eq!((Format::from_id(31), type_name(31)), (None, Some("Q4_0_4_4")));
        assert_eq!((Format::from_id(1000), type_name(1000)), (None, None));
        for (id, _) in WITHDRAWN {
            assert_eq!(Format::from_id(id), None);
        }
    }

    #[test]
    fn row_bytes_wants_whole_blocks_and_fits() {
        assert_eq!(Format::Q4_K.row_bytes(4096), Some(4096 / 256 * 144));
        assert_eq!(Format::Q6_K.row_bytes(256), Some(210));
        assert_eq!(Format::Q8_0.row_bytes(48), None);
        assert_eq!(Format::F32.row_bytes(u64::MAX), None);
        assert_eq!(Format::Q8_0.row_bytes(0), Some(0));
    }

    #[test]
    fn decodable_formats_are_the_ones_with_a_decoder() {
        let names: Vec<_> = Format::ALL.iter().filter(|f| f.is_decodable()).map(|f| f.name()).collect();
        let plain = ["F32", "F16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"];
        let k = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"];
        assert_eq!(names, [&plain[..], &k, &["IQ4_NL", "IQ4_XS", "BF16", "MXFP4"]].concat());
    }
}
