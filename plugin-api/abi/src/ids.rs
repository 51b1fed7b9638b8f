//! The small integers of the ABI. All are open: a value this version does not
//! name is legal, and whoever does not know it answers "unsupported".

use abi_stable::StableAbi;

macro_rules! open_ids {
    ($($(#[$meta:meta])* $name:ident($raw:ty) { $($(#[$vmeta:meta])* $value:ident = $number:expr),* $(,)? })*) => {$(
        $(#[$meta])*
        #[repr(transparent)]
        #[derive(StableAbi, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub struct $name(pub $raw);

        impl $name {
            $($(#[$vmeta])* pub const $value: $name = $name($number);)*
        }
    )*};
}

open_ids! {
    /// A handle the plugin gave out. Generation-tagged: a stale one is refused,
    /// never mistaken for a newer object. Zero is no object.
    Handle(u64) {
        /// No object; the value of an absent optional operand.
        NONE = 0,
    }

    /// A point on a queue's timeline. Rises by one with each submission,
    /// upload and download on that queue; zero is "nothing yet".
    Ticket(u64) {
        /// Before everything.
        NONE = 0,
    }

    /// An operation of the catalog. The catalog owns the numbers.
    OpId(u32) {}

    /// The storage format of a weight: the GGML type number of the file.
    FormatId(u32) {
        /// Not a weight operand.
        NONE = u32::MAX,
    }

    /// Element type of an operand that is not a quantised weight.
    DtypeId(u32) {
        /// Opaque bytes (a plugin-owned layout, or a quantised weight).
        BYTES = 0,
        /// IEEE binary32.
        F32 = 1,
        /// IEEE binary16.
        F16 = 2,
        /// bfloat16.
        BF16 = 3,
        /// Unsigned 32-bit integer.
        U32 = 4,
    }

    /// How an operand's bytes are arranged. Below 256: catalog layouts that
    /// every party knows. From 256: index `id - 256` of the plugin's `layouts()`.
    LayoutId(u32) {
        /// Row-major elements of the declared dtype, no padding between rows.
        PLAIN = 0,
        /// The file's own blocks, row after row, for the declared format.
        GGUF = 1,
        /// K or V blocks of 16 positions: `[block][kv_head][16][head_dim]` f16.
        KV_F16 = 2,
        /// First plugin-owned id.
        OWN = 256,
    }

    /// When a row serves. The host picks rows of exactly the regime it asks for.
    Regime(u32) {
        /// One activation row (M = 1), or one row per sequence of a decode step.
        DECODE_ROW = 1,
        /// Many rows at once.
        PREFILL_BATCH = 2,
        /// Once at load: relayouts.
        BIND = 3,
        /// The tail of a step: logits to token to next state.
        FUSED_TAIL = 4,
        /// Several sequences, one row each, sharing one pass over the weights.
        DECODE_COLS = 5,
    }

    /// Arithmetic class of a row: what its inner products are computed in.
    Arith(u32) {
        /// No arithmetic (copies, relayouts).
        NONE = 0,
        /// f32 products and sums.
        F32 = 1,
        /// f16 products, f32 sums.
        F16 = 2,
        /// int8 activations, integer sums.
        INT8 = 3,
        /// bf16 products, f32 sums.
        BF16 = 4,
    }

    /// Something a device can do. Below 65536: the host's vocabulary. From
    /// 65536: private to a plugin; the host only asks `supports` about it.
    Capability(u32) {
        /// `import` of host pages works.
        IMPORT = 1,
        /// `map` works on every memory kind.
        HOST_VISIBLE = 2,
        /// `elapsed` works.
        EVENT_CLOCK = 3,
        /// `spans` works.
        SPANS = 4,
        /// Submissions run without the host polling.
        ASYNC = 5,
        /// f16 storage and conversion.
        F16 = 6,
        /// Four-way int8 dot product.
        INT8_DOT = 7,
        /// f16 matrix cores.
        MATRIX_F16 = 8,
        /// int8 matrix cores.
        MATRIX_INT8 = 9,
        /// Asynchronous bulk copies into shared memory.
        BULK_COPY = 10,
        /// First private capability.
        PRIVATE = 65536,
    }

    /// What a kernel does with a buffer.
    Access(u32) {
        /// Reads only.
        READ = 1,
        /// Writes every byte the contract names, reads none.
        WRITE = 2,
        /// Reads and writes.
        READ_WRITE = 3,
    }

    /// Where an allocation lives.
    MemoryKind(u32) {
        /// Device memory.
        DEVICE = 0,
        /// Host memory the device can reach, for staging and read-back.
        STAGING = 1,
    }

    /// What a shape gate looks at.
    Subject(u32) {
        /// `Problem::m`.
        M = 0,
        /// `Problem::n`.
        N = 1,
        /// `Problem::k`.
        K = 2,
        /// `Problem::batch`.
        BATCH = 3,
        /// `Problem::aux`.
        AUX = 4,
        /// Elements per attention head.
        HEAD_DIM = 16,
        /// Query heads per K/V head.
        GROUP = 17,
        /// Rotated elements per head.
        ROPE_DIM = 18,
    }

    /// How a shape gate compares its subject with its values.
    Test(u32) {
        /// A multiple of `values[0]`.
        MULTIPLE_OF = 0,
        /// At most `values[0]`.
        AT_MOST = 1,
        /// At least `values[0]`.
        AT_LEAST = 2,
        /// One of the values.
        ONE_OF = 3,
    }

    /// A run-time condition from the host's vocabulary.
    ReadyKind(u32) {
        /// Every weight operand is resident in the layout the row reads.
        LAYOUT_RESIDENT = 1,
        /// The widened copy of the weight was declined by the budget.
        WIDEN_DECLINED = 2,
        /// Nothing forced another row for this op.
        NOT_OVERRIDDEN = 3,
    }
}
