//! Recipes: which format each tensor of a model gets.

use super::SynthError;
use crate::quant::Format;

/// A rule that gives each matrix a format. Norms and rope factors are always F32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// Every matrix in one format.
    Uniform(Format),
    /// The established mixture of the published Q4_K_M files: Q4_K, with Q6_K for the output head and,
    /// in the layers where it pays most, the value and down projections.
    Q4KM,
}

/// What a matrix does, as far as recipes tell matrices apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The matrix that makes the logits, which is the embedding table of a tied model.
    Output,
    /// The value or the down projection of layer `layer`.
    Sensitive {
        /// Which layer.
        layer: u32,
    },
    /// Any other.
    Other,
}

impl Recipe {
    /// The names that [`Recipe::named`] knows.
    pub const NAMES: [&'static str; 8] = ["q4_k_m", "q8_0", "f16", "bf16", "f32", "q4_1", "q6_k", "q4_k"];

    /// The recipe of that name, in any letter case.
    ///
    /// # Errors
    /// When the name is not one of [`Recipe::NAMES`].
    pub fn named(name: &str) -> Result<Recipe, SynthError> {
        let lower = name.to_ascii_lowercase();
        let unknown = || {
            SynthError::Shape(format!("no recipe is called {name:?}; known: {}", Recipe::NAMES.join(", ")))
        };
        match lower.as_str() {
            "q4_k_m" => Ok(Recipe::Q4KM),
            known if Recipe::NAMES.contains(&known) => {
                Format::from_name(known).map(Recipe::Uniform).ok_or_else(unknown)
            }
            _ => Err(unknown()),
        }
    }

    /// The format this recipe wants for a matrix of a model of `n_layer` layers.
    pub fn format(self, role: Role, n_layer: u32) -> Format {
        match (self, role) {
            (Recipe::Uniform(format), _) => format,
            (Recipe::Q4KM, Role::Output) => Format::Q6_K,
            (Recipe::Q4KM, Role::Sensitive { layer }) if gets_more_bits(layer, n_layer) => Format::Q6_K,
            (Recipe::Q4KM, _) => Format::Q4_K,
        }
    }

    /// The number by which `general.file_type` says this recipe.
    pub fn file_type(self) -> u32 {
        match self {
            Recipe::Q4KM => 15,
            Recipe::Uniform(format) => match format {
                Format::F32 => 0,
                Format::F16 => 1,
                Format::Q4_1 => 3,
                Format::Q8_0 => 7,
                Format::Q6_K => 18,
                Format::BF16 => 32,
                // Q4_K_S is the number of files that are mostly Q4_K.
                _ => 14,
            },
        }
    }
}

impl std::fmt::Display for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Recipe::Q4KM => f.write_str("Q4_K_M"),
            Recipe::Uniform(format) => write!(f, "{format}"),
        }
    }
}

/// The first and last eighth of the layers, and every third between.
fn gets_more_bits(layer: u32, n_layer: u32) -> bool {
    let eighth = n_layer / 8;
    layer < eighth || layer >= 7 * n_layer / 8 || (layer - eighth) % 3 == 2
}

/// The nearest format to `wanted` whose blocks divide rows of `row_len` values.
pub(super) fn fitting(wanted: Format, row_len: u64) -> Format {
    let fits = |format: &Format| format.row_bytes(row_len).is_some();
    [wanted, Format::Q8_0].into_iter().find(fits).unwrap_or(Format::F16)
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

    #[test]
    fn rows_that_are_not_whole_blocks_fall_back() {
        assert_eq!(fitting(Format::Q4_K, 4096), Format::Q4_K);
        assert_eq!(fitting(Format::Q6_K, 576), Format::Q8_0);
        assert_eq!(fitting(Format::Q4_1, 48), Format::F16);
        assert_eq!(fitting(Format::F32, 7), Format::F32);
    }

    #[test]
    fn every_recipe_name_leads_to_a_recipe() {
        for name in Recipe::NAMES {
            let recipe = Recipe::named(name).unwrap();
            assert_eq!(recipe.to_string().to_lowercase(), name);
        }
        assert!(Recipe::named("q5_k").unwrap_err().to_string().contains("known: q4_k_m"));
    }
}
