//! Recipes: which format each tensor of a model gets.

use super::mixture::{Mixture, Role};
use super::{Shape, SynthError};
use crate::quant::Format;

/// A rule that gives each matrix a format. Norms, biases and rope factors are always F32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// Every matrix in one format.
    Uniform(Format),
    /// As published files of that name are.
    Mixed(Mixture),
}

/// What stands before a format's name when every matrix shall have it, which only matters where a
/// mixture has the same name.
const PURE: &str = "pure-";

impl Recipe {
    /// Names that [`Recipe::named`] knows, the usual one first. It also takes `pure-` before the name of
    /// any format.
    pub const NAMES: [&'static str; 19] = [
        "q4_k_m", "q5_k_m", "q3_k_m", "q2_k", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "iq4_xs", "mxfp4",
        "q8_0", "f16", "bf16", "f32", "q6_k", "q5_k", "q4_k", "q3_k",
    ];

    /// The recipe of that name, in any letter case.
    ///
    /// # Errors
    /// When the name is not one of [`Recipe::NAMES`], nor `pure-` and a format that decodes.
    pub fn named(name: &str) -> Result<Recipe, SynthError> {
        let lower = name.to_ascii_lowercase();
        let mixture = || Mixture::ALL.into_iter().find(|mixture| mixture.name().eq_ignore_ascii_case(name));
        let uniform = |name: &str| Format::from_name(name).filter(|format| format.is_decodable());
        let recipe = match lower.strip_prefix(PURE) {
            Some(format) => uniform(format).map(Recipe::Uniform),
            None => mixture().map(Recipe::Mixed).or_else(|| uniform(&lower).map(Recipe::Uniform)),
        };
        recipe.ok_or_else(|| {
            let known = Recipe::NAMES.join(", ");
            SynthError::Shape(format!("no recipe is called {name:?}; known: {known}, and {PURE}FORMAT"))
        })
    }

    /// The format this recipe wants for a matrix of a model of this shape.
    pub fn format(self, role: Role, shape: &Shape) -> Format {
        match self {
            Recipe::Uniform(format) => format,
            Recipe::Mixed(mixture) => mixture.format(role, shape),
        }
    }

    /// The number by which `general.file_type` says this recipe, or one that is mostly of its format.
    pub fn file_type(self) -> u32 {
        match self {
            Recipe::Mixed(mixture) => mixture.file_type(),
            Recipe::Uniform(format) => match format {
                Format::F32 => 0,
                Format::F16 => 1,
                Format::Q8_0 => 7,
                // The small mixtures of the K formats, which have no other name here.
                Format::Q3_K => 11,
                Format::Q4_K => 14,
                Format::Q5_K => 16,
                Format::Q6_K => 18,
                Format::BF16 => 32,
                _ => Mixture::ALL
                    .into_iter()
                    .find(|mixture| mixture.bulk() == format)
                    .map_or(0, Mixture::file_type),
            },
        }
    }

    /// Refuses formats of which no values can be made.
    pub(super) fn check(self) -> Result<(), SynthError> {
        match self {
            Recipe::Uniform(format) if !format.is_decodable() => Err(SynthError::Shape(format!(
                "nothing here writes {format}; expected one of {}, or {PURE} and one of their formats",
                Recipe::NAMES.join(", ")
            ))),
            _ => Ok(()),
        }
    }
}

impl std::fmt::Display for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Recipe::Mixed(mixture) => f.write_str(mixture.name()),
            Recipe::Uniform(format) => {
                let ambiguous = Mixture::ALL.iter().any(|mixture| mixture.name() == format.name());
                write!(f, "{}{format}", if ambiguous { PURE } else { "" })
            }
        }
    }
}

/// The format that a matrix of rows of `row_len` values gets in place of `wanted`: the same when its
/// blocks divide a row, else the one of shorter blocks that published files have there.
pub(super) fn fitting(wanted: Format, row_len: u64) -> Format {
    let fits = |format: &Format| format.row_bytes(row_len).is_some();
    let shorter = match wanted {
        Format::Q2_K | Format::Q3_K => Format::Q4_0,
        Format::Q4_K => Format::Q5_0,
        Format::Q5_K => Format::Q5_1,
        Format::IQ4_XS => Format::IQ4_NL,
        _ => Format::Q8_0,
    };
    [wanted, shorter].into_iter().find(fits).unwrap_or(Format::F16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_not_whole_blocks_fall_back() {
        assert_eq!(fitting(Format::Q4_K, 4096), Format::Q4_K);
        let narrow = [Format::Q2_K, Format::Q3_K, Format::Q4_K, Format::Q5_K, Format::Q6_K, Format::IQ4_XS];
        let got = [Format::Q4_0, Format::Q4_0, Format::Q5_0, Format::Q5_1, Format::Q8_0, Format::IQ4_NL];
        assert_eq!(narrow.map(|wanted| fitting(wanted, 576)), got);
        assert_eq!(fitting(Format::Q4_1, 48), Format::F16);
        assert_eq!(fitting(Format::F32, 7), Format::F32);
    }

    #[test]
    fn every_recipe_name_leads_to_a_recipe() {
        for name in Recipe::NAMES {
            let recipe = Recipe::named(name).unwrap();
            assert_eq!(recipe.to_string().to_lowercase(), name);
            assert!(recipe.check().is_ok());
        }
        for &format in Format::ALL.iter().filter(|format| format.is_decodable()) {
            let recipe = Recipe::named(&format!("pure-{format}")).unwrap();
            assert_eq!(
                (recipe, Recipe::named(&recipe.to_string()).unwrap()),
                (Recipe::Uniform(format), recipe)
            );
        }
        for unknown in ["q5_k_l", "iq2_xxs", "pure-iq2_xxs", "pure-q4_k_m", "pure-", ""] {
            let refused = Recipe::named(unknown).unwrap_err().to_string();
            assert!(refused.contains("known: q4_k_m"), "{refused}");
        }
        let refused = Recipe::Uniform(Format::IQ2_XXS).check().unwrap_err().to_string();
        assert!(refused.contains("IQ2_XXS"), "{refused}");
    }

    #[test]
    fn file_types_are_told_apart() {
        let numbers = Recipe::NAMES.map(|name| Recipe::named(name).unwrap().file_type());
        assert_eq!(numbers, [15, 17, 12, 10, 2, 3, 8, 9, 25, 30, 38, 7, 1, 32, 0, 18, 16, 14, 11]);
        assert_eq!(Recipe::Uniform(Format::Q2_K).file_type(), 10);
    }
}
