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

    /// `weight x (+ bias)` of every `x`, of the rows `first ..` of a tensor. One row is decoded at a time.
    fn project(&self, name: &str, first: usize, rows: usize, xs: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let weight = format!("{name}.weight");
        let tensor = self.file.tensor(&weight).unwrap_or_else(|| panic!("no tensor {weight}"));
        let width = tensor.dims[0] as usize;
        let bytes = self.file.data(tensor);
        let row_bytes = tensor.format.row_bytes(width as u64).expect("whole blocks") as usize;
        let mut row = vec![0f32; width];
        let mut out = vec![Vec::with_capacity(rows); xs.len()];
        for bytes in bytes.chunks(row_bytes).skip(first).take(rows) {
            decode_row(tensor.format, bytes, &mut row).expect("decodes");
            out.iter_mut().zip(xs).for_each(|(out, x)| out.push(dot(&row, x)));
        }
        let bias = format!("{name}.bias");
        if self.has(&bias) {
            let bias = self.tensor(&bias);
            out.iter_mut().for_each(|out| out.iter_mut().zip(&bias).for_each(|(out, bias)| *out += bias));
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

    fn norms(&self, name: &str, xs: &[Vec<f64>]) -> Vec<Vec<f64>> {
        xs.iter().map(|x| self.norm(name, x)).collect()
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
                    let score = dot(&key[part.clone()], q) / (dim as f64).sqrt();
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
        self.logits_at(ids, &(0..ids.len()).collect::<Vec<_>>())
    }

    /// Logits after the tokens at these positions; the last layer computes for no others more than what
    /// attention reads of them.
    ///
    /// # Panics
    /// When a tensor is missing, or a position past the tokens.
    pub fn logits_at(&self, ids: &[u32], positions: &[usize]) -> Vec<Vec<f64>> {
        let Shape { n_layer, n_embd, n_vocab, .. } = *self.shape;
        let table = self.tensor("token_embd.weight");
        let n_embd = n_embd as usize;
        let scale = if self.gemma() { (n_embd as f64).sqrt() } else { 1.0 };
        let row = |id: &u32| table[*id as usize * n_embd..][..n_embd].iter().map(|x| x * scale).collect();
        let mut rows: Vec<Vec<f64>> = ids.iter().map(row).collect();
        let all: Vec<usize> = (0..ids.len()).collect();
        for layer in 0..n_layer {
            rows = self.layer(layer, rows, if layer + 1 == n_layer { positions } else { &all });
        }
        let head = if self.has("output.weight") { "output" } else { "token_embd" };
        let mut logits = self.project(head, 0, n_vocab as usize, &self.norms("output_norm", &rows));
        if self.architecture == "gemma2" {
            logits.iter_mut().flatten().for_each(|x| *x = 30.0 * (*x / 30.0).tanh());
        }
        logits
    }

    /// One layer: from the rows of all positions, the rows of those that are wanted.
    fn layer(&self, layer: u32, rows: Vec<Vec<f64>>, wanted: &[usize]) -> Vec<Vec<f64>> {
        let Shape { n_embd, n_ff, n_head, n_head_kv, head_dim, .. } = *self.shape;
        let [n_q, n_kv, n_ff] = [n_head * head_dim, n_head_kv * head_dim, n_ff].map(|n| n as usize);
        let n_embd = n_embd as usize;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let fused = self.architecture == "phi3";
        let add = |x: &mut [Vec<f64>], y: Vec<Vec<f64>>| {
            x.iter_mut().flatten().zip(y.into_iter().flatten()).for_each(|(x, y)| *x += y);
        };

        let x = self.norms(&name("attn_norm"), &rows);
        let part = |part: &str, first: usize, rows: usize, x: &[Vec<f64>]| match fused {
            true => self.project(&name("attn_qkv"), first, rows, x),
            false => self.project(&name(part), 0, rows, x),
        };
        let mut keys = self.norms(&name("attn_k_norm"), &part("attn_k", n_q, n_kv, &x));
        keys.iter_mut().enumerate().for_each(|(position, k)| self.rotate(layer, position, k));
        let values = part("attn_v", n_q + n_kv, n_kv, &x);
        let x: Vec<Vec<f64>> = wanted.iter().map(|&position| x[position].clone()).collect();
        let mut queries = self.norms(&name("attn_q_norm"), &part("attn_q", 0, n_q, &x));
        queries.iter_mut().zip(wanted).for_each(|(q, &position)| self.rotate(layer, position, q));
        let seen = queries.iter().zip(wanted);
        let mixed: Vec<Vec<f64>> =
            seen.map(|(q, &at)| self.attend(layer, q, &keys[..=at], &values[..=at])).collect();
        let out = self.project(&name("attn_output"), 0, n_embd, &mixed);
        let mut hidden: Vec<Vec<f64>> = wanted.iter().map(|&position| rows[position].clone()).collect();
        add(&mut hidden, self.norms(&name("post_attention_norm"), &out));

        let x = self.norms(&name("ffn_norm"), &hidden);
        let gate = if fused { "ffn_up" } else { "ffn_gate" };
        let mut gated = self.project(&name(gate), 0, n_ff, &x);
        let up = self.project(&name("ffn_up"), if fused { n_ff } else { 0 }, n_ff, &x);
        let pairs = gated.iter_mut().flatten().zip(up.into_iter().flatten());
        pairs.for_each(|(gate, up)| *gate = self.activate(*gate) * up);
        let out = self.project(&name("ffn_down"), 0, n_embd, &gated);
        add(&mut hidden, self.norms(&name("post_ffw_norm"), &out));
        hidden
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

/// The product of two vectors, in eight sums that need not wait for one another.
fn dot<T: Copy + Into<f64>>(a: &[T], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    for (a, b) in a.chunks(8).zip(b.chunks(8)) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += (*a).into() * b;
        }
    }
    sums.iter().sum()
}
