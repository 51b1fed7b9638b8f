//! A forward pass of every architecture in f64, written from the papers: nothing of it is shared with plans, oracles
//! or kernels but the decoding of weights. It is slow and plain on purpose.

use cajeta_model_arch::config::RopeScaling;
use cajeta_model_arch::gguf::GgufFile;
use cajeta_model_arch::quant::decode_row;
use cajeta_model_arch::synth::Shape;

/// The forward pass of one synthetic file.
pub struct Forward<'a> {
    /// The file.
    pub file: &'a GgufFile,
    /// What it says it is.
    pub architecture: &'a str,
    /// What it was made from.
    pub shape: &'a Shape,
    /// The context it is run with.
    pub ctx: u32,
}

impl Forward<'_> {
    fn has(&self, name: &str) -> bool {
        self.file.tensor(name).is_some()
    }

    fn tensor(&self, name: &str) -> Vec<f64> {
        let tensor = self.file.tensor(name).unwrap_or_else(|| panic!("no tensor {name}"));
        let mut values = vec![0f32; tensor.n_values() as usize];
        decode_row(tensor.format, self.file.data(tensor), &mut values).expect("decodes");
        values.into_iter().map(f64::from).collect()
    }

    /// `weight x (+ bias)`, of the rows `first ..` of a tensor.
    fn project(&self, name: &str, first: usize, rows: usize, x: &[f64]) -> Vec<f64> {
        let weight = self.tensor(&format!("{name}.weight"));
        let rows = weight.chunks(x.len()).skip(first).take(rows);
        let mut out: Vec<f64> = rows.map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect();
        let bias = format!("{name}.bias");
        if self.has(&bias) {
            out.iter_mut().zip(self.tensor(&bias)).for_each(|(out, bias)| *out += bias);
        }
        out
    }

    /// RMS norm; nothing where the architecture has no such norm. A narrower weight norms each head.
    fn norm(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let name = format!("{name}.weight");
        if !self.has(&name) {
            return x.to_vec();
        }
        let weight = self.tensor(&name);
        let normed = x.chunks(weight.len()).flat_map(|part| {
            let mean = part.iter().map(|x| x * x).sum::<f64>() / part.len() as f64;
            let scale = 1.0 / (mean + f64::from(self.shape.norm_eps)).sqrt();
            part.iter().zip(&weight).map(move |(x, w)| x * scale * w).collect::<Vec<_>>()
        });
        normed.collect()
    }

    fn gemma(&self) -> bool {
        self.architecture.starts_with("gemma")
    }

    /// Whether a layer sees only the window.
    fn slides(&self, layer: u32) -> bool {
        self.shape.sliding_window.is_some()
            && match self.architecture {
                "gemma2" => layer.is_multiple_of(2),
                "gemma3" => layer % 6 != 5,
                _ => true,
            }
    }

    /// Turns every head of `x` as position `position` turns it.
    fn rotate(&self, layer: u32, position: usize, x: &mut [f64]) {
        let local = self.architecture == "gemma3" && self.slides(layer);
        let base = if local { 10_000.0 } else { f64::from(self.shape.rope_base) };
        let half = self.shape.head_dim as usize / 2;
        let dim = 2.0 * half as f64;
        let mut magnitude = 1.0;
        let mut speeds: Vec<f64> = (0..half).map(|i| base.powf(-2.0 * i as f64 / dim)).collect();
        let divide = |speeds: &mut Vec<f64>, name: &str| {
            speeds.iter_mut().zip(self.tensor(name)).for_each(|(speed, by)| *speed /= by);
        };
        if self.shape.rope_factors.is_some() {
            divide(&mut speeds, "rope_freqs.weight");
        }
        match self.shape.rope_scaling {
            _ if local => {}
            RopeScaling::None => {}
            RopeScaling::Linear { factor } => speeds.iter_mut().for_each(|speed| *speed /= f64::from(factor)),
            RopeScaling::Yarn(yarn) => {
                let (factor, original) = (f64::from(yarn.factor), f64::from(yarn.original_ctx));
                // The frequency that turns `turns` times over the original context.
                let of =
                    |turns: f64| dim * (original / (turns * std::f64::consts::TAU)).ln() / (2.0 * base.ln());
                let (low, high) = (of(32.0).floor().max(0.0), of(1.0).ceil().min(dim - 1.0));
                for (i, speed) in speeds.iter_mut().enumerate() {
                    let ramp = ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                    *speed = *speed / factor * ramp + *speed * (1.0 - ramp);
                }
                magnitude = 0.1 * factor.ln() + 1.0;
            }
            RopeScaling::LongRope { original_ctx, attn_factor } => {
                let kind = if self.ctx > original_ctx { "long" } else { "short" };
                divide(&mut speeds, &format!("rope_factors_{kind}.weight"));
                magnitude = f64::from(attn_factor);
            }
        }
        for head in x.chunks_mut(2 * half) {
            for (i, speed) in speeds.iter().enumerate() {
                let (a, b) = if self.architecture == "llama" { (2 * i, 2 * i + 1) } else { (i, i + half) };
                let (sin, cos) = (position as f64 * speed).sin_cos();
                let (x, y) = (head[a], head[b]);
                head[a] = (x * cos - y * sin) * magnitude;
                head[b] = (x * sin + y * cos) * magnitude;
            }
        }
    }

    /// What a query mixes of the values it sees.
    fn attend(&self, layer: u32, q: &[f64], keys: &[Vec<f64>], values: &[Vec<f64>]) -> Vec<f64> {
        let dim = self.shape.head_dim as usize;
        let group = (self.shape.n_head / self.shape.n_head_kv) as usize;
        let window =
            self.shape.sliding_window.filter(|_| self.slides(layer)).map_or(usize::MAX, |w| w as usize);
        let first = keys.len().saturating_sub(window);
        let mixed = q.chunks(dim).enumerate().flat_map(|(head, q)| {
            let part = head / group * dim..(head / group + 1) * dim;
            let scores: Vec<f64> = keys[first..]
                .iter()
                .map(|key| {
                    let score = key[part.clone()].iter().zip(q).map(|(k, q)| k * q).sum::<f64>()
                        / (dim as f64).sqrt();
                    if self.architecture == "gemma2" { 50.0 * (score / 50.0).tanh() } else { score }
                })
                .collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = scores.iter().map(|score| (score - max).exp()).sum();
            let mut out = vec![0.0; dim];
            for (score, value) in scores.iter().zip(&values[first..]) {
                let share = (score - max).exp() / total;
                out.iter_mut().zip(&value[part.clone()]).for_each(|(out, v)| *out += share * v);
            }
            out
        });
        mixed.collect()
    }

    /// Logits after every token.
    ///
    /// # Panics
    /// When a tensor is missing.
    pub fn logits(&self, ids: &[u32]) -> Vec<Vec<f64>> {
        let Shape { n_embd, n_ff, n_head, n_head_kv, head_dim, .. } = *self.shape;
        let [n_q, n_kv, n_ff] = [n_head * head_dim, n_head_kv * head_dim, n_ff].map(|n| n as usize);
        let n_embd = n_embd as usize;
        let table = self.tensor("token_embd.weight");
        let scale = if self.gemma() { (n_embd as f64).sqrt() } else { 1.0 };
        let row = |id: &u32| table[*id as usize * n_embd..][..n_embd].iter().map(|x| x * scale).collect();
        let mut rows: Vec<Vec<f64>> = ids.iter().map(row).collect();
        let add = |x: &mut Vec<f64>, y: Vec<f64>| x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
        for layer in 0..self.shape.n_layer {
            let name = |part: &str| format!("blk.{layer}.{part}");
            let fused = self.architecture == "phi3";
            let (mut keys, mut values) = (Vec::new(), Vec::new());
            for (position, hidden) in rows.iter_mut().enumerate() {
                let x = self.norm(&name("attn_norm"), hidden);
                let part = |part: &str, first: usize, rows: usize| match fused {
                    true => self.project(&name("attn_qkv"), first, rows, &x),
                    false => self.project(&name(part), 0, rows, &x),
                };
                let mut q = self.norm(&name("attn_q_norm"), &part("attn_q", 0, n_q));
                let mut k = self.norm(&name("attn_k_norm"), &part("attn_k", n_q, n_kv));
                self.rotate(layer, position, &mut q);
                self.rotate(layer, position, &mut k);
                keys.push(k);
                values.push(part("attn_v", n_q + n_kv, n_kv));
                let mixed = self.attend(layer, &q, &keys, &values);
                let out = self.project(&name("attn_output"), 0, n_embd, &mixed);
                add(hidden, self.norm(&name("post_attention_norm"), &out));

                let x = self.norm(&name("ffn_norm"), hidden);
                let (gate, up) = match fused {
                    true => {
                        let mut both = self.project(&name("ffn_up"), 0, 2 * n_ff, &x);
                        let up = both.split_off(n_ff);
                        (both, up)
                    }
                    false => (
                        self.project(&name("ffn_gate"), 0, n_ff, &x),
                        self.project(&name("ffn_up"), 0, n_ff, &x),
                    ),
                };
                let gated: Vec<f64> =
                    gate.iter().zip(up).map(|(gate, up)| self.activate(*gate) * up).collect();
                let out = self.project(&name("ffn_down"), 0, n_embd, &gated);
                add(hidden, self.norm(&name("post_ffw_norm"), &out));
            }
        }
        let head = if self.has("output.weight") { "output" } else { "token_embd" };
        let n_vocab = self.shape.n_vocab as usize;
        rows.iter()
            .map(|hidden| {
                let logits = self.project(head, 0, n_vocab, &self.norm("output_norm", hidden));
                let cap = |x: f64| if self.architecture == "gemma2" { 30.0 * (x / 30.0).tanh() } else { x };
                logits.into_iter().map(cap).collect()
            })
            .collect()
    }

    fn activate(&self, x: f64) -> f64 {
        if self.gemma() {
            return 0.5
                * x
                * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh());
        }
        x / (1.0 + (-x).exp())
    }
}
