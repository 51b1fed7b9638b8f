//! The mixtures of formats that published files are made of.
//!
//! Which tensors get more bits follows the files themselves, as the established quantising tool writes
//! them without importance data.

use super::Shape;
use crate::quant::Format;

/// What a matrix does, as far as recipes tell matrices apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The matrix that makes the logits, which is the embedding table of a tied model.
    Output,
    /// The value projection of layer `layer`.
    Value {
        /// Which layer.
        layer: u32,
    },
    /// Query, key and value projections in one.
    FusedAttention,
    /// The projection of the attention's output.
    AttentionOutput,
    /// The down projection of layer `layer`.
    Down {
        /// Which layer.
        layer: u32,
    },
    /// Any other.
    Other,
}

/// A mixture, called what its files are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub enum Mixture {
    /// Q2_K, with Q3_K or more where attention and feed-forward write.
    Q2_K,
    /// Q3_K, with Q4_K where attention and feed-forward write, and Q5_K for the first values.
    Q3_K_M,
    /// Q4_K, with Q6_K for values and down projections in the layers where it pays most.
    Q4_K_M,
    /// Q5_K, with Q6_K as in Q4_K_M.
    Q5_K_M,
    /// Q4_0 under a Q6_K head, as all the mixtures so far have.
    Q4_0,
    /// Q4_1 likewise.
    Q4_1,
    /// Q5_0 likewise.
    Q5_0,
    /// Q5_1 likewise.
    Q5_1,
    /// IQ4_NL likewise, with Q5_K for the first down projections and for values that many heads share.
    IQ4_NL,
    /// IQ4_XS likewise.
    IQ4_XS,
    /// MXFP4 under a Q8_0 head. Published files have MXFP4 in their experts alone, and a model without
    /// experts is not published in it; here it is in every other matrix.
    MXFP4,
}

/// Query heads to a key/value head from which a value projection is small enough for more bits.
const MANY_HEADS: u32 = 4;

impl Mixture {
    /// Each of them.
    pub const ALL: [Mixture; 11] = [
        Mixture::Q4_K_M,
        Mixture::Q5_K_M,
        Mixture::Q3_K_M,
        Mixture::Q2_K,
        Mixture::Q4_0,
        Mixture::Q4_1,
        Mixture::Q5_0,
        Mixture::Q5_1,
        Mixture::IQ4_NL,
        Mixture::IQ4_XS,
        Mixture::MXFP4,
    ];

    /// Its name, in upper case.
    pub const fn name(self) -> &'static str {
        match self {
            Mixture::Q2_K => "Q2_K",
            Mixture::Q3_K_M => "Q3_K_M",
            Mixture::Q4_K_M => "Q4_K_M",
            Mixture::Q5_K_M => "Q5_K_M",
            Mixture::Q4_0 => "Q4_0",
            Mixture::Q4_1 => "Q4_1",
            Mixture::Q5_0 => "Q5_0",
            Mixture::Q5_1 => "Q5_1",
            Mixture::IQ4_NL => "IQ4_NL",
            Mixture::IQ4_XS => "IQ4_XS",
            Mixture::MXFP4 => "MXFP4",
        }
    }

    /// The format of most matrices.
    pub const fn bulk(self) -> Format {
        match self {
            Mixture::Q2_K => Format::Q2_K,
            Mixture::Q3_K_M => Format::Q3_K,
            Mixture::Q4_K_M => Format::Q4_K,
            Mixture::Q5_K_M => Format::Q5_K,
            Mixture::Q4_0 => Format::Q4_0,
            Mixture::Q4_1 => Format::Q4_1,
            Mixture::Q5_0 => Format::Q5_0,
            Mixture::Q5_1 => Format::Q5_1,
            Mixture::IQ4_NL => Format::IQ4_NL,
            Mixture::IQ4_XS => Format::IQ4_XS,
            Mixture::MXFP4 => Format::MXFP4,
        }
    }

    /// The number by which `general.file_type` says this mixture.
    pub const fn file_type(self) -> u32 {
        match self {
            Mixture::Q4_0 => 2,
            Mixture::Q4_1 => 3,
            Mixture::Q5_0 => 8,
            Mixture::Q5_1 => 9,
            Mixture::Q2_K => 10,
            Mixture::Q3_K_M => 12,
            Mixture::Q4_K_M => 15,
            Mixture::Q5_K_M => 17,
            Mixture::IQ4_NL => 25,
            Mixture::IQ4_XS => 30,
            Mixture::MXFP4 => 38,
        }
    }

    /// The format of the matrix that has this role in a model of this shape.
    pub(super) fn format(self, role: Role, shape: &Shape) -> Format {
        let n_layer = shape.n_layer;
        let many_heads = shape.n_head / shape.n_head_kv.max(1) >= MANY_HEADS;
        match (self, role) {
            (Mixture::MXFP4, Role::Output) => Format::Q8_0,
            (_, Role::Output) => Format::Q6_K,
            (Mixture::Q2_K, Role::Value { .. }) if many_heads => Format::Q4_K,
            (Mixture::Q2_K, Role::Value { .. } | Role::Down { .. } | Role::AttentionOutput) => Format::Q3_K,
            (Mixture::Q3_K_M, Role::Value { layer }) if layer < 2 => Format::Q5_K,
            (Mixture::Q3_K_M, Role::Down { layer }) if layer < n_layer / 16 => Format::Q5_K,
            (Mixture::Q3_K_M, Role::Other) => Format::Q3_K,
            (Mixture::Q3_K_M, _) => Format::Q4_K,
            (Mixture::Q4_K_M, Role::FusedAttention) => Format::Q5_K,
            (Mixture::Q5_K_M, Role::FusedAttention) => Format::Q6_K,
            (Mixture::Q4_K_M | Mixture::Q5_K_M, Role::Value { layer } | Role::Down { layer })
                if gets_more_bits(layer, n_layer) =>
            {
                Format::Q6_K
            }
            (Mixture::IQ4_NL | Mixture::IQ4_XS, Role::Value { .. }) if many_heads => Format::Q5_K,
            (Mixture::IQ4_NL | Mixture::IQ4_XS, Role::Down { layer }) if layer < n_layer / 8 => Format::Q5_K,
            _ => self.bulk(),
        }
    }
}

/// The first and last eighth of the layers, and every third between.
fn gets_more_bits(layer: u32, n_layer: u32) -> bool {
    let eighth = n_layer / 8;
    layer < eighth || layer >= 7 * n_layer / 8 || (layer - eighth) % 3 == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_8b_has_sixteen_layers_with_more_bits() {
        let layers: Vec<u32> = (0..32).filter(|&layer| gets_more_bits(layer, 32)).collect();
        assert_eq!(layers, [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]);
        // Four layers, as the shared test model: no first eighth, the last half-layer rounds to one.
        assert_eq!((0..4).filter(|&layer| gets_more_bits(layer, 4)).collect::<Vec<_>>(), [2, 3]);
    }

    /// The established tool's choices for a model of four layers whose heads share in pairs (the test
    /// model's), and for an 8B, whose heads share in fours.
    #[test]
    fn mixtures_choose_as_published_files_do() {
        let four = Shape { n_layer: 4, ..Shape::named("tiny").unwrap() };
        let eight_b = Shape::named("llama-3.1-8b").unwrap();
        let formats = |mixture: Mixture, shape: &Shape| {
            let layers = 0..shape.n_layer;
            let value = layers.clone().map(|layer| mixture.format(Role::Value { layer }, shape));
            let down = layers.map(|layer| mixture.format(Role::Down { layer }, shape));
            let rest =
                [Role::AttentionOutput, Role::Other, Role::Output].map(|role| mixture.format(role, shape));
            (value.collect::<Vec<_>>(), down.collect::<Vec<_>>(), rest)
        };
        use Format::*;
        assert_eq!(formats(Mixture::Q2_K, &four), (vec![Q3_K; 4], vec![Q3_K; 4], [Q3_K, Q2_K, Q6_K]));
        assert_eq!(
            formats(Mixture::Q3_K_M, &four),
            (vec![Q5_K, Q5_K, Q4_K, Q4_K], vec![Q4_K; 4], [Q4_K, Q3_K, Q6_K])
        );
        let more = vec![Q5_K, Q5_K, Q6_K, Q6_K];
        assert_eq!(formats(Mixture::Q5_K_M, &four), (more.clone(), more, [Q5_K, Q5_K, Q6_K]));
        assert_eq!(
            formats(Mixture::IQ4_XS, &four),
            (vec![IQ4_XS; 4], vec![IQ4_XS; 4], [IQ4_XS, IQ4_XS, Q6_K])
        );
        assert_eq!(formats(Mixture::Q5_1, &four), (vec![Q5_1; 4], vec![Q5_1; 4], [Q5_1, Q5_1, Q6_K]));
        assert_eq!(formats(Mixture::MXFP4, &four).2, [MXFP4, MXFP4, Q8_0]);

        assert_eq!(formats(Mixture::Q2_K, &eight_b).0, vec![Q4_K; 32]);
        let down = [vec![Q5_K; 2], vec![Q4_K; 30]].concat();
        assert_eq!(formats(Mixture::Q3_K_M, &eight_b).1, down);
        let down = [vec![Q5_K; 4], vec![IQ4_NL; 28]].concat();
        assert_eq!(formats(Mixture::IQ4_NL, &eight_b), (vec![Q5_K; 32], down, [IQ4_NL, IQ4_NL, Q6_K]));
    }
}
