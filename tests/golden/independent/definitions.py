"""The models as they are published: weights by their published names, halves rotated, everything in float64."""

import math

import numpy as np


def inverse_frequencies(c, length):
    """Frequencies of the rotary embedding and the factor of sine and cosine, for a text of `length` tokens."""
    dim = int(c["head_dim"] * c.get("partial_rotary_factor", 1.0))
    freq = c["rope_theta"] ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)
    scaling = c.get("rope_scaling")
    kind = scaling["rope_type"] if scaling else "default"
    if kind == "default":
        return freq, 1.0
    if kind == "linear":
        return freq / scaling["factor"], 1.0
    original = scaling["original_max_position_embeddings"]
    if kind == "llama3":
        return freq / llama3_divisors(c), 1.0
    if kind == "yarn":
        factor = scaling["factor"]

        def dimension_that_turns(times):
            return dim * math.log(original / (times * 2 * math.pi)) / (2 * math.log(c["rope_theta"]))

        low = max(math.floor(dimension_that_turns(scaling.get("beta_fast", 32))), 0)
        high = min(math.ceil(dimension_that_turns(scaling.get("beta_slow", 1))), dim - 1)
        ramp = np.clip((np.arange(dim // 2) - low) / max(high - low, 0.001), 0, 1)
        return freq / factor * ramp + freq * (1 - ramp), 0.1 * math.log(factor) + 1.0
    assert kind == "longrope"
    divisors = scaling["long_factor"] if length > original else scaling["short_factor"]
    return freq / np.asarray(divisors, dtype=np.float64), longrope_magnitude(c)


def longrope_magnitude(c):
    original = c["rope_scaling"]["original_max_position_embeddings"]
    return math.sqrt(1 + math.log(c["max_position_embeddings"] / original) / math.log(original))


def llama3_divisors(c):
    """Long waves are divided by the factor, short ones kept, those between blended."""
    scaling = c["rope_scaling"]
    factor, low, high = scaling["factor"], scaling["low_freq_factor"], scaling["high_freq_factor"]
    original = scaling["original_max_position_embeddings"]
    waves = 2 * math.pi * c["rope_theta"] ** (np.arange(0, c["head_dim"], 2, dtype=np.float64) / c["head_dim"])
    smooth = (original / waves - low) / (high - low)
    blended = 1 / ((1 - smooth) / factor + smooth)
    return np.where(waves < original / high, 1.0, np.where(waves > original / low, factor, blended))


def rotate(x, cos, sin):
    """`x` is [tokens, heads, head_dim]; dimensions past the rotary ones stay."""
    dim = cos.shape[-1]
    turned, kept = x[..., :dim], x[..., dim:]
    first, second = turned[..., : dim // 2], turned[..., dim // 2 :]
    swapped = np.concatenate([-second, first], axis=-1)
    return np.concatenate([turned * cos[:, None] + swapped * sin[:, None], kept], axis=-1)


def rms_norm(x, weight, c):
    weight = weight + 1.0 if c["model_type"] == "gemma2" else weight
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + c["rms_norm_eps"]) * weight


def activation(x, c):
    if c["model_type"] == "gemma2":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x / (1 + np.exp(-x))


def attention(w, layer, x, c, cos, sin):
    n, dim = len(x), c["head_dim"]
    heads, kv_heads = c["num_attention_heads"], c["num_key_value_heads"]
    name = f"layers.{layer}.self_attn."
    if c["model_type"] == "phi3":
        qkv = x @ w[name + "qkv_proj.weight"].T
        q, k, v = np.split(qkv, [heads * dim, (heads + kv_heads) * dim], axis=-1)
    else:
        q, k, v = (x @ w[f"{name}{part}_proj.weight"].T for part in "qkv")
    if c["model_type"] == "qwen2":
        q, k, v = (y + w[f"{name}{part}_proj.bias"] for y, part in zip((q, k, v), "qkv"))
    q, k, v = q.reshape(n, heads, dim), k.reshape(n, kv_heads, dim), v.reshape(n, kv_heads, dim)
    if c["model_type"] == "qwen3":
        q, k = rms_norm(q, w[name + "q_norm.weight"], c), rms_norm(k, w[name + "k_norm.weight"], c)
    q, k = rotate(q, cos, sin), rotate(k, cos, sin)
    k, v = (np.repeat(y, heads // kv_heads, axis=1) for y in (k, v))
    scores = np.einsum("ihd,jhd->hij", q, k) * c.get("query_pre_attn_scalar", dim) ** -0.5
    cap = c.get("attn_logit_softcapping")
    if cap:
        scores = np.tanh(scores / cap) * cap
    at = np.arange(n)
    visible = at[None, :] <= at[:, None]
    # The first layer of Gemma 2 slides, the second sees all, and so on.
    if c.get("sliding_window") and (c["model_type"] != "gemma2" or layer % 2 == 0):
        visible &= at[None, :] > at[:, None] - c["sliding_window"]
    scores = np.where(visible, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    mixed = np.einsum("hij,jhd->ihd", weights, v).reshape(n, heads * dim)
    return mixed @ w[name + "o_proj.weight"].T


def feed_forward(w, layer, x, c):
    name = f"layers.{layer}.mlp."
    if c["model_type"] == "phi3":
        gate, up = np.split(x @ w[name + "gate_up_proj.weight"].T, 2, axis=-1)
    else:
        gate, up = x @ w[name + "gate_proj.weight"].T, x @ w[name + "up_proj.weight"].T
    return (activation(gate, c) * up) @ w[name + "down_proj.weight"].T


def logits(w, c, ids):
    """Logits after each token: [tokens, vocabulary]."""
    gemma = c["model_type"] == "gemma2"
    freq, magnitude = inverse_frequencies(c, len(ids))
    angles = np.outer(np.arange(len(ids)), np.concatenate([freq, freq]))
    cos, sin = np.cos(angles) * magnitude, np.sin(angles) * magnitude
    x = w["embed_tokens.weight"][ids]
    if gemma:
        x = x * math.sqrt(c["hidden_size"])
    for layer in range(c["num_hidden_layers"]):

        def norm(part, y):
            return rms_norm(y, w[f"layers.{layer}.{part}_layernorm.weight"], c)

        out = attention(w, layer, norm("input", x), c, cos, sin)
        x = x + (norm("post_attention", out) if gemma else out)
        out = feed_forward(w, layer, norm("pre_feedforward" if gemma else "post_attention", x), c)
        x = x + (norm("post_feedforward", out) if gemma else out)
    head = w["embed_tokens.weight"] if c["tie_word_embeddings"] else w["lm_head.weight"]
    out = rms_norm(x, w["norm.weight"], c) @ head.T
    cap = c.get("final_logit_softcapping")
    return np.tanh(out / cap) * cap if cap else out
