//! Caps on what a GGUF file may claim, each far above any real model and far below harm.

/// Metadata keys in one file. Real files carry fewer than a hundred.
pub const MAX_KEYS: u64 = 65_536;
/// Bytes of one metadata key, as the format's own definition has it.
pub const MAX_KEY_BYTES: u64 = 65_535;
/// Bytes of one metadata string. Chat templates reach tens of kilobytes.
pub const MAX_STRING_BYTES: u64 = 64 << 20;
/// Elements of one metadata array. Vocabularies reach 262,144 tokens and half a million merges.
pub const MAX_ARRAY_LEN: u64 = 1 << 24;
/// Arrays inside one array.
pub const MAX_NESTED_ARRAYS: u64 = 65_536;
/// How deep arrays may nest; no known key nests at all.
pub const MAX_ARRAY_DEPTH: u32 = 4;
/// Tensors in one file. The largest mixture-of-experts models have a few thousand.
pub const MAX_TENSORS: u64 = 262_144;
/// Bytes of one tensor name; the established reader stops at 63.
pub const MAX_TENSOR_NAME_BYTES: u64 = 255;
/// Dimensions of one tensor.
pub const MAX_DIMS: u32 = 4;
/// Alignment of tensor data when `general.alignment` is absent.
pub const DEFAULT_ALIGNMENT: u32 = 32;
/// Largest alignment taken; more would only pad the file.
pub const MAX_ALIGNMENT: u32 = 1 << 20;
