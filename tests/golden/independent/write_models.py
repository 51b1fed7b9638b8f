"""Writes a small random model of every architecture as published conversions lay them out, and the exact logits
of a few texts by the plain forward pass of `definitions.py`. Needs numpy alone:

    python3 write_models.py

The outputs beside this script are kept, so that tests need no Python. `cases.json` says for each model which texts
have logits (`NAME.logits`, little-endian f32, the rows of all texts' positions in order) and which changes of the file
must be noticed.
"""

import json
import pathlib

import numpy as np

import definitions
import gguf_file

FOLDER = pathlib.Path(__file__).parent
VOCAB = 128
LONG, SHORT = 90, 9
LONG_POSITIONS = [0, 1, 2, 7, 11, 12, 13, 19, 20, 21, 31, 32, 47, 63, 64, 65, 79, 89]

NARROW = dict(hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2, head_dim=16)
WIDE_HEADS = dict(hidden_size=48, intermediate_size=80, num_attention_heads=4, num_key_value_heads=2, head_dim=32)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
LONGROPE = dict(rope_type="longrope", original_max_position_embeddings=64,
                short_factor=[1.0 + 0.1 * i for i in range(6)], long_factor=[1.1 + 0.9 * i for i in range(6)])


def config(model_type, shape, tied=False, **more):
    base = dict(model_type=model_type, num_hidden_layers=2, rms_norm_eps=1e-5, rope_theta=10000.0,
                max_position_embeddings=256, tie_word_embeddings=tied)
    return {**base, **shape, **more}


# Each with the changes that must be noticed: of a metadata number or of an F32 tensor, by a factor.
CASES = {
    "llama": (config("llama", NARROW), {"llama.rope.freq_base": 1.5, "blk.1.ffn_norm.weight": 1.2}),
    "llama-llama3-tied": (config("llama", WIDE_HEADS, tied=True, rope_theta=500000.0, rope_scaling=LLAMA3),
                          {"rope_freqs.weight": 1.2}),
    "llama-linear": (config("llama", WIDE_HEADS, rope_scaling=dict(rope_type="linear", factor=4.0)),
                     {"llama.rope.scaling.factor": 1.2}),
    "llama-yarn": (config("llama", WIDE_HEADS, rope_scaling=YARN),
                   {"llama.rope.scaling.factor": 1.5, "llama.rope.scaling.original_context_length": 2.0}),
    # The window is of Mistral's first version; files of later ones have none.
    "mistral": (config("mistral", WIDE_HEADS, rope_theta=1000000.0, sliding_window=20),
                {"llama.attention.sliding_window": 1.1}),
    "qwen2": (config("qwen2", NARROW, rope_theta=1000000.0, rms_norm_eps=1e-6),
              {f"blk.1.attn_{part}.bias": 1.2 for part in "qkv"}),
    "qwen2-yarn-tied": (config("qwen2", WIDE_HEADS, tied=True,
                               rope_scaling=dict(YARN, beta_fast=4.0, beta_slow=0.5)),
                        {"qwen2.rope.scaling.yarn_beta_fast": 0.25, "qwen2.rope.scaling.yarn_beta_slow": 4.0}),
    "qwen3": (config("qwen3", WIDE_HEADS, rope_theta=1000000.0, rms_norm_eps=1e-6),
              {"blk.0.attn_q_norm.weight": 1.2, "blk.1.attn_k_norm.weight": 1.2}),
    "qwen3-yarn-tied": (config("qwen3", WIDE_HEADS, tied=True, rope_scaling=YARN),
                        {"blk.1.attn_q_norm.weight": 1.2, "qwen3.rope.scaling.factor": 1.5}),
    # Caps low enough to bend scores and logits of this size.
    "gemma2": (config("gemma2", WIDE_HEADS, tied=True, rms_norm_eps=1e-6, sliding_window=12, query_pre_attn_scalar=32,
                      attn_logit_softcapping=3.0, final_logit_softcapping=6.0),
               {"gemma2.attn_logit_softcapping": 1.3, "gemma2.final_logit_softcapping": 1.1,
                "gemma2.attention.sliding_window": 1.1, "blk.0.post_attention_norm.weight": 1.2,
                "blk.1.post_ffw_norm.weight": 1.2}),
    "phi3": (config("phi3", NARROW, sliding_window=20), {"phi3.attention.sliding_window": 1.1}),
    "phi3-longrope-tied": (config("phi3", NARROW, tied=True, partial_rotary_factor=0.75, rope_scaling=LONGROPE),
                           {"rope_factors_long.weight": 1.2, "rope_factors_short.weight": 1.2,
                            "phi3.rope.scaling.attn_factor": 1.1}),
}


def random_weights(c, rng):
    """Published names. Matrices are rounded to F16, vectors to F32, as files hold them."""
    weights = {}

    def matrix(name, rows, width, gain=1.0):
        values = rng.standard_normal((rows, width)) * gain / np.sqrt(width)
        weights[name] = values.astype(np.float16).astype(np.float64)

    def vector(name, width, around, spread):
        weights[name] = (around + spread * rng.standard_normal(width)).astype(np.float32).astype(np.float64)

    kind, width, n_ff = c["model_type"], c["hidden_size"], c["intermediate_size"]
    n_q, n_kv = c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]

    def norm(name, width):
        vector(name, width, 0.0 if kind == "gemma2" else 1.0, 0.25)

    matrix("embed_tokens.weight", VOCAB, width, 3.0)
    if not c["tie_word_embeddings"]:
        matrix("lm_head.weight", VOCAB, width, 3.0)
    norm("norm.weight", width)
    for layer in range(c["num_hidden_layers"]):
        name = f"layers.{layer}."
        if kind == "phi3":
            matrix(name + "self_attn.qkv_proj.weight", n_q + 2 * n_kv, width, 1.4)
            matrix(name + "mlp.gate_up_proj.weight", 2 * n_ff, width, 1.2)
        else:
            for part, rows in zip("qkv", (n_q, n_kv, n_kv)):
                matrix(f"{name}self_attn.{part}_proj.weight", rows, width, 1.4)
                if kind == "qwen2":
                    vector(f"{name}self_attn.{part}_proj.bias", rows, 0.0, 0.5)
            matrix(name + "mlp.gate_proj.weight", n_ff, width, 1.2)
            matrix(name + "mlp.up_proj.weight", n_ff, width, 1.2)
        matrix(name + "self_attn.o_proj.weight", width, n_q)
        matrix(name + "mlp.down_proj.weight", width, n_ff)
        if kind == "qwen3":
            vector(name + "self_attn.q_norm.weight", c["head_dim"], 1.3, 0.25)
            vector(name + "self_attn.k_norm.weight", c["head_dim"], 1.3, 0.25)
        norm(name + "input_layernorm.weight", width)
        norm(name + "post_attention_layernorm.weight", width)
        if kind == "gemma2":
            norm(name + "pre_feedforward_layernorm.weight", width)
            norm(name + "post_feedforward_layernorm.weight", width)
    return weights


def architecture(c):
    return "llama" if c["model_type"] == "mistral" else c["model_type"]


def file_names(c):
    """The parts of a layer by their published names and by their names in a file."""
    names = {"self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
             "mlp.down_proj": "ffn_down", "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up",
             "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "input_layernorm": "attn_norm",
             **{f"self_attn.{part}_proj": f"attn_{part}" for part in "qkv"}}
    if c["model_type"] == "gemma2":
        names |= {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
                  "post_feedforward_layernorm": "post_ffw_norm"}
    else:
        names["post_attention_layernorm"] = "ffn_norm"
    return names


def halves_to_pairs(weight, heads):
    """`llama` files are rotated in pairs: each head's two halves are interleaved."""
    rows, width = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, width).swapaxes(1, 2).reshape(rows, width)


def file_tensors(c, weights):
    top = {"embed_tokens.weight": "token_embd.weight", "lm_head.weight": "output.weight",
           "norm.weight": "output_norm.weight"}
    names = file_names(c)
    tensors = {}
    for published, weight in weights.items():
        if published in top:
            name = top[published]
        else:
            _, layer, part = published.split(".", 2)
            part, kind = part.rsplit(".", 1)
            name = f"blk.{layer}.{names[part]}.{kind}"
            if architecture(c) == "llama" and part == "self_attn.q_proj":
                weight = halves_to_pairs(weight, c["num_attention_heads"])
            if architecture(c) == "llama" and part == "self_attn.k_proj":
                weight = halves_to_pairs(weight, c["num_key_value_heads"])
        if c["model_type"] == "gemma2" and published.endswith("norm.weight"):
            weight = weight + 1.0
        tensors[name] = weight.astype(np.float16 if weight.ndim == 2 else np.float32)
    scaling = c.get("rope_scaling", {})
    if scaling.get("rope_type") == "llama3":
        tensors["rope_freqs.weight"] = definitions.llama3_divisors(c).astype(np.float32)
    if scaling.get("rope_type") == "longrope":
        for kind in ("long", "short"):
            tensors[f"rope_factors_{kind}.weight"] = np.asarray(scaling[f"{kind}_factor"], dtype=np.float32)
    return tensors


def file_metadata(name, c):
    arch = architecture(c)
    keys = {
        "context_length": c["max_position_embeddings"],
        "embedding_length": c["hidden_size"],
        "block_count": c["num_hidden_layers"],
        "feed_forward_length": c["intermediate_size"],
        "attention.head_count": c["num_attention_heads"],
        "attention.head_count_kv": c["num_key_value_heads"],
        "attention.layer_norm_rms_epsilon": c["rms_norm_eps"],
        "rope.freq_base": c["rope_theta"],
    }
    if c["head_dim"] * c["num_attention_heads"] != c["hidden_size"]:
        keys |= {"attention.key_length": c["head_dim"], "attention.value_length": c["head_dim"]}
    if arch in ("llama", "phi3"):
        keys["rope.dimension_count"] = int(c["head_dim"] * c.get("partial_rotary_factor", 1.0))
    if "sliding_window" in c:
        keys["attention.sliding_window"] = c["sliding_window"]
    if arch == "gemma2":
        keys |= {key: c[key] for key in ("attn_logit_softcapping", "final_logit_softcapping")}
    scaling = c.get("rope_scaling", {})
    kind = scaling.get("rope_type")
    if kind in ("linear", "yarn"):
        keys |= {"rope.scaling.type": kind, "rope.scaling.factor": scaling["factor"]}
    if kind in ("yarn", "longrope"):
        keys["rope.scaling.original_context_length"] = scaling["original_max_position_embeddings"]
    for beta in ("beta_fast", "beta_slow"):
        if beta in scaling:
            keys[f"rope.scaling.yarn_{beta}"] = scaling[beta]
    if kind == "longrope":
        # Conversions of Phi 3 leave the type of scaling out: the tensors say it.
        keys["rope.scaling.attn_factor"] = definitions.longrope_magnitude(c)
    return {
        "general.architecture": arch,
        "general.name": f"independent {name}",
        "general.file_type": 1,
        **{f"{arch}.{key}": value for key, value in keys.items()},
        **tokenizer(),
    }


def tokenizer():
    """Byte-level BPE of printable ASCII, a few merges and two markers."""
    merges = [f"{a} {b}" for a in "tahe" for b in "hero"] + [f"\u0120 {letter}" for letter in "taoi"]
    tokens = [chr(code) for code in range(0x21, 0x7F)] + ["\u0120", "\u010a"]
    tokens += [merge.replace(" ", "") for merge in merges]
    tokens += [f"<|unused_{i}|>" for i in range(VOCAB - len(tokens) - 2)] + ["<|begin|>", "<|end|>"]
    types = [3 if token.startswith("<|") and len(token) > 2 else 1 for token in tokens]
    assert len(tokens) == len(set(tokens)) == VOCAB
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": VOCAB - 2,
        "tokenizer.ggml.eos_token_id": VOCAB - 1,
        "tokenizer.ggml.add_bos_token": False,
    }


def main():
    listed = []
    for seed, (name, (c, noticed)) in enumerate(CASES.items()):
        rng = np.random.default_rng(1000 + seed)
        weights = random_weights(c, rng)
        gguf_file.write(FOLDER / f"{name}.gguf", file_metadata(name, c), file_tensors(c, weights))
        texts, rows = [], []
        for tokens, positions in ((LONG, LONG_POSITIONS), (SHORT, list(range(SHORT)))):
            ids = rng.integers(0, VOCAB - 2, tokens).tolist()
            # A context that holds the short text alone is within the original one, so short divisors hold.
            texts.append(dict(ids=ids, positions=positions, ctx=128 if tokens == LONG else 64))
            rows.append(definitions.logits(weights, c, ids)[positions])
        rows = np.concatenate(rows)
        assert np.isfinite(rows).all()
        rows.astype("<f4").tofile(FOLDER / f"{name}.logits")
        listed.append(dict(name=name, texts=texts, noticed=[list(change) for change in noticed.items()]))
        print(f"{name}: logits spread by {rows.std():.2f}")
    lines = ",\n".join(json.dumps(case) for case in listed)
    (FOLDER / "cases.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
