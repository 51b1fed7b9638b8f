//! `embed`: rows of the table by token id.

use cajeta_plugin_api::catalog::quant::{Format, decode_row};

use super::operands::Memory;
use super::{Crew, Task};

/// Decodes one table row per token.
pub(crate) struct EmbedTask {
    pub(crate) format: Format,
    pub(crate) m: usize,
    /// Rows of the table.
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) row_bytes: usize,
    pub(crate) tokens: Memory,
    pub(crate) table: Memory,
    pub(crate) out: Memory,
    pub(crate) scale: f32,
}

impl Task for EmbedTask {
    fn solo(&self, _phase: usize) -> bool {
        self.m * self.k < 16 * 1024
    }

    unsafe fn run(&self, _phase: usize, crew: &mut Crew<'_>) {
        let chunk = crew.chunk(self.m, 4, 1);
        while let Some(rows) = crew.claim(chunk, self.m) {
            for row in rows {
                // SAFETY: `row` is below m, and each row of the output is written
                // by the one thread that claimed it.
                let (token, out) = unsafe {
                    let out = std::slice::from_raw_parts_mut(self.out.f32().add(row * self.k), self.k);
                    (*self.tokens.u32().add(row) as usize, out)
                };
                if token >= self.n {
                    out.fill(f32::NAN);
                    continue;
                }
                // SAFETY: the table holds n rows of `row_bytes`, and nothing writes it.
                let bytes = unsafe {
                    std::slice::from_raw_parts(self.table.bytes().add(token * self.row_bytes), self.row_bytes)
                };
                if let Err(error) = decode_row(self.format, bytes, out) {
                    crew.refusal.say(|| error.to_string());
                }
                if self.scale != 1.0 {
                    out.iter_mut().for_each(|value| *value *= self.scale);
                }
            }
        }
    }
}
