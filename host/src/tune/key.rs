//! The names of answers, as the store's files have them.

use cajeta_abi::{FormatId, Problem, Row};
use cajeta_catalog::op::Op;
use cajeta_catalog::oracle::shapes::row_ops;
use cajeta_catalog::quant::{Format, type_name};
use cajeta_catalog::scalars::{AttentionScalars, read_step};

/// The parts a split attention is computed in.
pub const PART_WGS: &str = "partWgs";
/// Whether matrix cores pay at all; the arms are [`MATRIX`] and [`PLAIN`].
pub const MATRIX_CORES_PAY: &str = "matrixCoresPay";
/// Whether the tile over a file's blocks beats the route over widened weights; the arms are [`TILE`] and
/// [`DEQ`]. It is asked of each format: see [`tile_beats_deq`].
pub const TILE_BEATS_DEQ: &str = "tileBeatsDeq";
/// The arm on matrix cores.
pub const MATRIX: &str = "matrix";
/// The arm without them.
pub const PLAIN: &str = "plain";
/// The arm over a file's blocks.
pub const TILE: &str = "tile";
/// The arm over widened weights.
pub const DEQ: &str = "deq";

/// Projections of one input that a fusion serves in one launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment {
    /// Query, key and value.
    Qkv,
    /// Gate and up.
    GateUp,
}

impl Segment {
    /// Its name in a key.
    pub const fn name(self) -> &'static str {
        match self {
            Segment::Qkv => "qkv",
            Segment::GateUp => "gateup",
        }
    }
}

/// The member of a family for rows x outputs x inputs: `shape.q4kTcTile.512x4096x4096`. For families over
/// experts the rows are the bucket. Attentions of one problem differ by their heads:
/// `shape.attnDecode.1x4096x2048.kv8x128`, with the window behind where there is one.
pub fn shape(family: &str, problem: &Problem, heads: Option<Heads>) -> String {
    let shape = format!("shape.{family}.{}x{}x{}", problem.m, problem.n, problem.k);
    match heads {
        None => shape,
        Some(Heads { kv, dim, window: 0 }) => format!("{shape}.kv{kv}x{dim}"),
        Some(Heads { kv, dim, window }) => format!("{shape}.kv{kv}x{dim}w{window}"),
    }
}

/// What tells attentions of one problem apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Heads {
    /// K/V heads.
    pub kv: u32,
    /// Elements of a head.
    pub dim: u32,
    /// Positions a query sees, 0 for all.
    pub window: u32,
}

impl Heads {
    /// The heads of a launch; none where its problem is not an attention's.
    pub fn of(row: &Row, scalars: &[u8]) -> Option<Heads> {
        let ops = row_ops(row).ok()?;
        read_step::<AttentionScalars>(&ops, row.problem_step as usize, scalars)
            .filter(|_| is_attention(row))
            .map(Heads::from)
    }

    /// The heads of one op with its own scalars.
    pub fn of_op(op: Op, scalars: &[u8]) -> Option<Heads> {
        read_step::<AttentionScalars>(&[op], 0, scalars).filter(|_| op == Op::Attention).map(Heads::from)
    }
}

impl From<AttentionScalars> for Heads {
    fn from(scalars: AttentionScalars) -> Heads {
        Heads { kv: scalars.n_head_kv, dim: scalars.head_dim, window: scalars.window }
    }
}

fn is_attention(row: &Row) -> bool {
    row.steps.get(row.problem_step as usize).is_some_and(|step| step.op == Op::Attention.id())
}

/// The percent by which the answer of this name led.
pub fn margin(name: &str) -> String {
    format!("{name}.margin")
}

/// Whether one launch over `columns` sequences beats as many single-row launches: `colsPays-q4k-b4`.
pub fn cols_pays(format: FormatId, columns: u64) -> String {
    format!("colsPays-{}-b{columns}", format_prefix(format))
}

/// Whether a fused segment beats its parts: `colsSeg-gateup-28672x4096-b4.q4k`. The formats are those of its
/// weights, each once: layers of one model may differ by them alone.
pub fn cols_segment(segment: Segment, rows: u64, cols: u64, columns: u64, formats: &[FormatId]) -> String {
    let formats: Vec<String> = formats.iter().map(|&format| format_prefix(format)).collect();
    format!("colsSeg-{}-{rows}x{cols}-b{columns}.{}", segment.name(), formats.join("."))
}

/// Whether another fusion beats its parts: `fused.q4kWaveMatVecAddAvx512.1x4096x4096`. Fusions of different
/// steps may be of one family, so it is the row that is named.
pub fn fused(row: &Row, problem: &Problem) -> String {
    format!("fused.{}.{}x{}x{}", row.name, problem.m, problem.n, problem.k)
}

/// The mat-vec for a weight of so many rows and columns: `mvVariant-q4k-4096x14336-c1`.
pub fn mat_vec_variant(format: FormatId, rows: u64, cols: u64, columns: u64) -> String {
    format!("mvVariant-{}-{rows}x{cols}-c{columns}", format_prefix(format))
}

/// Whether the tile beats the widened route for a format: `tileBeatsDeq-q4k`.
pub fn tile_beats_deq(format: FormatId) -> String {
    format!("{TILE_BEATS_DEQ}-{}", format_prefix(format))
}

/// The arms of a question that has the same ones whatever the backend; nothing when none is named so.
pub fn arms(name: &str) -> Option<[&'static str; 2]> {
    let of_a_format = || Format::ALL.iter().any(|format| tile_beats_deq(FormatId(format.id())) == name);
    match name {
        MATRIX_CORES_PAY => Some([MATRIX, PLAIN]),
        _ if name == TILE_BEATS_DEQ || of_a_format() => Some([TILE, DEQ]),
        _ => None,
    }
}

/// How a row was found to answer wrong: `wrong.q4kColsAvx512`.
pub fn wrong(row: &str) -> String {
    format!("wrong.{row}")
}

/// A format as names have it: `Q4_K` is `q4k`.
pub fn format_prefix(format: FormatId) -> String {
    let name = type_name(format.0).map_or_else(|| format!("type{}", format.0), str::to_owned);
    name.to_lowercase().replace('_', "")
}

/// The label of a row's family: its weight's format and the family's name, `q4kTcTile`. A row without a
/// family is one of its own.
pub fn family_label(row: &Row) -> String {
    if row.family.is_empty() {
        return row.name.to_string();
    }
    let mut label = String::new();
    let mut seen: Vec<FormatId> = Vec::new();
    for argument in row.args.iter().filter(|argument| argument.format != FormatId::NONE) {
        // Biases and norms are f32 beside a quantised weight and say nothing about the family.
        let plain = argument.format == FormatId(0) && argument.dtype != cajeta_abi::DtypeId::BYTES;
        if !plain && !seen.contains(&argument.format) {
            label.push_str(&format_prefix(argument.format));
            seen.push(argument.format);
        }
    }
    if label.is_empty() || row.family.starts_with(label.as_str()) {
        return row.family.to_string();
    }
    let mut letters = row.family.chars();
    label.extend(letters.next().map(|first| first.to_ascii_uppercase()));
    label.push_str(letters.as_str());
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_store() {
        let problem = Problem { m: 512, n: 4096, k: 14336, ..Problem::default() };
        let q4k = FormatId(12);
        let name = shape("q4kTcTile", &problem, None);
        assert_eq!(name, "shape.q4kTcTile.512x4096x14336");
        assert_eq!(margin(&name), "shape.q4kTcTile.512x4096x14336.margin");
        let heads = Heads { kv: 8, dim: 128, window: 0 };
        assert_eq!(shape("attn", &problem, Some(heads)), "shape.attn.512x4096x14336.kv8x128");
        let windowed = Some(Heads { window: 512, ..heads });
        assert_eq!(shape("attn", &problem, windowed), "shape.attn.512x4096x14336.kv8x128w512");
        assert_eq!(cols_pays(q4k, 4), "colsPays-q4k-b4");
        let mixed = cols_segment(Segment::Qkv, 6144, 4096, 4, &[q4k, FormatId(14)]);
        assert_eq!(mixed, "colsSeg-qkv-6144x4096-b4.q4k.q6k");
        assert_eq!(cols_segment(Segment::GateUp, 28672, 4096, 2, &[q4k]), "colsSeg-gateup-28672x4096-b2.q4k");
        assert_eq!(mat_vec_variant(FormatId(14), 128256, 4096, 1), "mvVariant-q6k-128256x4096-c1");
        assert_eq!(format_prefix(FormatId(9999)), "type9999");
        assert_eq!(tile_beats_deq(q4k), "tileBeatsDeq-q4k");
        let known = |name| arms(name).is_some();
        assert!(known("matrixCoresPay") && known("tileBeatsDeq") && known("tileBeatsDeq-q6k"));
        assert!(!known("tileBeatsDeq-q6_k") && !known("tileBeatsDeq-") && !known("partWgs"));
    }
}
