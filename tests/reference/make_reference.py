#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the fixtures of tests/reference: what PyTorch says loss, logits and gradients are.

usage: make_reference.py [FOLDER [NAME ...]]   (needs torch, transformers >= 5, h5py; only to make the fixtures anew)

Each fixture is one small model and one batch of packed rows with awkward documents (odd lengths, length 1, padding
of more than half a row, weights of 0 and fractions, a row without a target). Everything is computed in float64 by the
plain implementation below, one document at a time, so that nothing can leak between documents. transformers' own model
of the family is the second witness: it must agree before a file is written (to 1e-5: it computes rotary angles, norms
and softmax in float32 even in a float64 model).

A fixture is a packed data shard (docs: packed data) with further objects:
  attribute `config`     the model section of the .ini file
  /parameters/NAME       float32
  /gradients/NAME        float32, of the loss below and the auxiliary loss of experts, rounded from float64
  attribute `loss`       sum of w * nll / sum of w over the batch
  /logits (T, V)         float64, of the first T tokens of the document `logits_document` of row 0
"""
import functools
import json
import math
import pathlib
import sys

import h5py
import numpy as np
import torch
import torch.nn.functional as F
import transformers

MAX_LENGTH = 48
VOCAB_SIZE = 64
LOGITS_DOCUMENT = 1  # of row 0
DOCUMENT_LENGTHS = [[1, 17, 5, 13, 11], [3, 7, 9], [48], [1, 1, 2, 1, 31]]
ROW_WITHOUT_TARGET = 3

GEMMA = dict(block_norms="gemma2", zero_centered_norms=True, hidden_act="gelu_pytorch_tanh",
             embedding_multiplier=32 ** 0.5, rounds_embedding_multiplier=True)  # of 32 columns

MODELS = {
    "llama": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                  intermediate_size=44, rope_theta=10000.0, rms_norm_eps=1e-5, tie_word_embeddings=False,
                  rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                    original_max_position_embeddings=64)),
    "qwen2": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, head_dim=8,
                  intermediate_size=38, rope_theta=1000000.0, rms_norm_eps=1e-6, tie_word_embeddings=True,
                  attention_bias=True),
    "qwen3": dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=1, head_dim=16,
                  intermediate_size=36, rope_theta=1000000.0, rms_norm_eps=1e-6, tie_word_embeddings=False,
                  qk_norm=True),
    # Every bias, YaRN, and a vocabulary that no number of ranks divides.
    "llama_bias": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                       intermediate_size=44, vocab_size=61, rope_theta=10000.0, rms_norm_eps=1e-5,
                       tie_word_embeddings=True, attention_bias=True, attention_output_bias=True, mlp_bias=True,
                       rope_scaling=dict(rope_type="yarn", factor=4.0, beta_fast=8.0, beta_slow=1.0,
                                         original_max_position_embeddings=32)),
    # A layer without rotation, whose place no interval gives.
    "smollm3": dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                    intermediate_size=44, rope_theta=2000000.0, rms_norm_eps=1e-6, tie_word_embeddings=True,
                    no_rope_layers=[1, 0, 1]),
    "granite": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                    intermediate_size=44, rope_theta=10000.0, rms_norm_eps=1e-5, tie_word_embeddings=True,
                    embedding_multiplier=3.0, attention_multiplier=0.5, residual_multiplier=0.4, logits_scaling=1.5),
    # A window on the second layer, shorter than most documents.
    "qwen2_window": dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                         intermediate_size=44, rope_theta=10000.0, rms_norm_eps=1e-6, tie_word_embeddings=True,
                         attention_bias=True, sliding_window=6,
                         layer_types=["full_attention", "sliding_attention", "sliding_attention"]),
    "mistral": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                    intermediate_size=44, rope_theta=10000.0, rms_norm_eps=1e-5, tie_word_embeddings=False,
                    sliding_window=4),
    # 6 of 8 dims of a head turn, in three pairs.
    "phi3": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                 intermediate_size=44, rope_theta=10000.0, rms_norm_eps=1e-5, tie_word_embeddings=True,
                 partial_rotary_factor=0.75, max_position_embeddings=256,
                 rope_scaling=dict(rope_type="longrope", factor=4.0, original_max_position_embeddings=64,
                                   short_factor=[1.0, 1.5, 2.5], long_factor=[1.0, 4.0, 8.0])),
    "ministral3": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                       intermediate_size=44, rope_theta=10000.0, rms_norm_eps=1e-5, tie_word_embeddings=False,
                       llama_4_scaling_beta=0.4,
                       rope_scaling=dict(rope_type="yarn", factor=4.0, beta_fast=8.0, beta_slow=1.0,
                                         original_max_position_embeddings=8)),
    "glm4": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                 intermediate_size=44, rope_theta=10000.0, rms_norm_eps=1e-5, tie_word_embeddings=False,
                 attention_bias=True, partial_rotary_factor=0.5, block_norms="glm4"),
    # What Gemma 2 and gpt-oss do to the scores of attention, each with windows.
    "mistral_softcap": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                            head_dim=8, intermediate_size=44, rope_theta=10000.0, rms_norm_eps=1e-5,
                            tie_word_embeddings=True, sliding_window=7, attn_logit_softcapping=1.5),
    "qwen2_sinks": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                        intermediate_size=44, rope_theta=10000.0, rms_norm_eps=1e-6, tie_word_embeddings=True,
                        attention_bias=True, sliding_window=6, layer_types=["sliding_attention", "full_attention"],
                        attention_sinks=True),
    # A dense layer between two with experts; the auxiliary loss is a good part of the router's gradient.
    "qwen3_moe": dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                      intermediate_size=44, rope_theta=10000.0, rms_norm_eps=1e-6, tie_word_embeddings=False,
                      qk_norm=True, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=12,
                      norm_topk_prob=True, mlp_only_layers=[1], router_aux_loss_coef=0.1),
    # Weights of experts that are not divided by their sum.
    "qwen3_moe_plain": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                            head_dim=8, intermediate_size=44, rope_theta=10000.0, rms_norm_eps=1e-6,
                            tie_word_embeddings=True, qk_norm=True, num_experts=5, num_experts_per_tok=3,
                            moe_intermediate_size=8, router_aux_loss_coef=0.0),
    "mixtral": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                    intermediate_size=16, moe_intermediate_size=16, rope_theta=10000.0, rms_norm_eps=1e-5,
                    tie_word_embeddings=False, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True,
                    sliding_window=9, router_aux_loss_coef=0.05),
    # Norms of all heads together: of keys, two ranks may have the same ones.
    "olmo2": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                  intermediate_size=44, rope_theta=10000.0, rms_norm_eps=1e-5, tie_word_embeddings=False,
                  qk_norm=True, qk_norm_all_heads=True, block_norms="olmo2"),
    "olmo3": dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4, head_dim=8,
                  intermediate_size=44, rope_theta=10000.0, rms_norm_eps=1e-5, tie_word_embeddings=False,
                  qk_norm=True, qk_norm_all_heads=True, block_norms="olmo2", rope_local_base_freq=10000.0,
                  sliding_window=5, layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                  rope_scaling=dict(rope_type="yarn", factor=4.0, beta_fast=8.0, beta_slow=1.0,
                                    original_max_position_embeddings=32)),
    "gemma3": dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                   intermediate_size=44, rope_theta=1000000.0, rms_norm_eps=1e-6, tie_word_embeddings=True,
                   qk_norm=True, rope_local_base_freq=10000.0, sliding_window=5,
                   layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                   rope_scaling=dict(rope_type="linear", factor=8.0), attention_multiplier=0.25, **GEMMA),
    "gemma2": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                   intermediate_size=44, rope_theta=10000.0, rms_norm_eps=1e-6, tie_word_embeddings=True,
                   sliding_window=6, layer_types=["sliding_attention", "full_attention"],
                   attention_multiplier=0.5, final_logit_softcapping=2.5, **GEMMA),
    # Clamps that act on many gates and ups.
    "gpt_oss": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                    intermediate_size=16, moe_intermediate_size=16, rope_theta=150000.0, rms_norm_eps=1e-5,
                    tie_word_embeddings=False, attention_bias=True, attention_output_bias=True, attention_sinks=True,
                    sliding_window=5, layer_types=["sliding_attention", "full_attention"], num_experts=4,
                    num_experts_per_tok=2, norm_topk_prob=True, expert_form="gpt_oss", swiglu_limit=1.2,
                    router_aux_loss_coef=0.05,
                    rope_scaling=dict(rope_type="yarn", factor=4.0, beta_fast=8.0, beta_slow=1.0, truncate=False,
                                      original_max_position_embeddings=32)),
    # Three groups of experts, of which two may be chosen from; an MLP of two experts' width beside them.
    "glm4_moe": dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                     intermediate_size=44, rope_theta=10000.0, rms_norm_eps=1e-5, tie_word_embeddings=False,
                     attention_bias=True, qk_norm=True, partial_rotary_factor=0.5, num_experts=6,
                     num_experts_per_tok=3, moe_intermediate_size=12, norm_topk_prob=True, mlp_only_layers=[0],
                     router_aux_loss_coef=0.0, scoring_func="sigmoid", n_group=3, topk_group=2,
                     routed_scaling_factor=2.5, n_shared_experts=2),
}
CORRECTION = "mlp.gate.e_score_correction_bias"  # no parameter


def vocab_size_of(model):
    return model.get("vocab_size", VOCAB_SIZE)


def has_experts(model, layer):
    return "num_experts" in model and layer not in model.get("mlp_only_layers", [])


# Names of the norms of what attention reads and adds, then of those of the MLP.
BLOCK_NORMS = {"pre": ("input_layernorm", None, "post_attention_layernorm", None),
               "glm4": ("input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"),
               "olmo2": (None, "post_attention_layernorm", None, "post_feedforward_layernorm"),
               "gemma2": ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                          "post_feedforward_layernorm")}


def parameter_shapes(model):
    """Hugging Face names and shapes of every parameter."""
    hidden, head_dim, inner = model["hidden_size"], model["head_dim"], model["intermediate_size"]
    q_size, kv_size = model["num_attention_heads"] * head_dim, model["num_key_value_heads"] * head_dim
    shapes = {"model.embed_tokens.weight": (vocab_size_of(model), hidden)}
    for layer in range(model["num_hidden_layers"]):
        block = f"model.layers.{layer}."
        for name in BLOCK_NORMS[model.get("block_norms", "pre")]:
            if name is not None:
                shapes[f"{block}{name}.weight"] = (hidden,)
        for name, size in (("q_proj", q_size), ("k_proj", kv_size), ("v_proj", kv_size)):
            shapes[block + f"self_attn.{name}.weight"] = (size, hidden)
            if model.get("attention_bias"):
                shapes[block + f"self_attn.{name}.bias"] = (size,)
        if model.get("attention_sinks"):
            shapes[block + "self_attn.sinks"] = (model["num_attention_heads"],)
        if model.get("qk_norm"):
            is_of_all = model.get("qk_norm_all_heads")
            shapes[block + "self_attn.q_norm.weight"] = (q_size if is_of_all else head_dim,)
            shapes[block + "self_attn.k_norm.weight"] = (kv_size if is_of_all else head_dim,)
        shapes[block + "self_attn.o_proj.weight"] = (hidden, q_size)
        if model.get("attention_output_bias"):
            shapes[block + "self_attn.o_proj.bias"] = (hidden,)
        if model.get("mlp_bias"):
            shapes[block + "mlp.gate_proj.bias"] = shapes[block + "mlp.up_proj.bias"] = (inner,)
            shapes[block + "mlp.down_proj.bias"] = (hidden,)
        mlps, width = ["mlp."], inner
        if model.get("expert_form") == "gpt_oss":
            width, mlps = model["moe_intermediate_size"], []
            shapes[block + "mlp.router.weight"] = (model["num_experts"], hidden)
            shapes[block + "mlp.router.bias"] = (model["num_experts"],)
            for expert in range(model["num_experts"]):
                name = block + f"mlp.experts.{expert}."
                shapes[name + "gate_up_proj.weight"] = (hidden, 2 * width)
                shapes[name + "gate_up_proj.bias"] = (2 * width,)
                shapes[name + "down_proj.weight"], shapes[name + "down_proj.bias"] = (width, hidden), (hidden,)
        elif has_experts(model, layer):
            mlps, width = [f"mlp.experts.{expert}." for expert in range(model["num_experts"])], model["moe_intermediate_size"]
            shapes[block + "mlp.gate.weight"] = (model["num_experts"], hidden)
            if model.get("scoring_func") == "sigmoid":
                shapes[block + CORRECTION] = (model["num_experts"],)
            if model.get("n_shared_experts"):
                shared, of_shared = block + "mlp.shared_experts.", width * model["n_shared_experts"]
                shapes[shared + "gate_proj.weight"] = shapes[shared + "up_proj.weight"] = (of_shared, hidden)
                shapes[shared + "down_proj.weight"] = (hidden, of_shared)
        for mlp in mlps:
            shapes[block + mlp + "gate_proj.weight"] = shapes[block + mlp + "up_proj.weight"] = (width, hidden)
            shapes[block + mlp + "down_proj.weight"] = (hidden, width)
    shapes["model.norm.weight"] = (hidden,)
    if not model["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (vocab_size_of(model), hidden)
    return shapes


def draw_parameters(model, rng):
    """float32 values large enough that attention is far from uniform; norms away from 1 and biases away from 0."""
    def draw(name, shape):
        if "norm" in name:
            return (0.0 if model.get("zero_centered_norms") else 1.0) + 0.3 * rng.standard_normal(shape)
        if name.endswith(".sinks"):
            return rng.standard_normal(shape)
        if name.endswith((".bias", CORRECTION)):
            return 0.3 * rng.standard_normal(shape)
        return rng.standard_normal(shape) / math.sqrt(shape[1])
    return {name: draw(name, shape).astype(np.float32) for name, shape in parameter_shapes(model).items()}


def draw_rows(rng, vocab_size):
    """Rows as (tokens, loss_weight, document_lengths). First tokens of documents have weights that must not count."""
    rows = []
    for index, lengths in enumerate(DOCUMENT_LENGTHS):
        tokens, weights = np.zeros(MAX_LENGTH, np.int32), np.zeros(MAX_LENGTH, np.float32)
        used = sum(lengths)
        tokens[:used] = rng.integers(0, vocab_size, used)
        if index != ROW_WITHOUT_TARGET:
            weights[:used] = rng.choice([0.0, 0.25, 0.5, 1.0, 1.0], used)
        rows.append((tokens, weights, lengths))
    return rows


def attention_factor(model):
    """By how much cosine and sine grow (Peng et al. 2023, equation 22; Ding et al. 2024)."""
    scaling = model.get("rope_scaling") or {}
    if scaling.get("rope_type") == "longrope":
        return math.sqrt(1 + math.log(scaling["factor"]) / math.log(scaling["original_max_position_embeddings"]))
    return 0.1 * math.log(scaling["factor"]) + 1 if scaling.get("rope_type") == "yarn" else 1.0


def rotary_dim(model):
    return int(model["head_dim"] * model.get("partial_rotary_factor", 1.0))


def yarn_frequencies(model, frequencies):
    """Those that turn often within the original context stay, those that turn seldom are divided, a ramp between."""
    scaling, head_dim = model["rope_scaling"], model["head_dim"]
    def dim_of(turns):
        wavelength = scaling["original_max_position_embeddings"] / (2 * math.pi * turns)
        return head_dim * math.log(wavelength, model["rope_theta"]) / 2
    first, last = dim_of(scaling["beta_fast"]), dim_of(scaling["beta_slow"])
    if scaling.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    begin, end = max(first, 0), min(last, head_dim - 1)
    divided = ((torch.arange(head_dim // 2, dtype=torch.float64) - begin) / (end - begin)).clamp(0, 1)
    return frequencies * (1 - divided + divided / scaling["factor"])


def inverse_frequencies(model):
    dims = rotary_dim(model)
    frequencies = model["rope_theta"] ** (-torch.arange(0, dims, 2, dtype=torch.float64) / dims)
    scaling = model.get("rope_scaling")
    if scaling and scaling["rope_type"] == "linear":
        return frequencies / scaling["factor"]
    if scaling and scaling["rope_type"] == "longrope":
        return frequencies / torch.tensor(scaling["short_factor"], dtype=torch.float64)
    if scaling and scaling["rope_type"] == "yarn":
        return yarn_frequencies(model, frequencies)
    if scaling:
        turns = scaling["original_max_position_embeddings"] * frequencies / (2 * math.pi)  # over the original context
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        kept = ((turns - low) / (high - low)).clamp(0, 1)
        frequencies = frequencies * (kept + (1 - kept) / scaling["factor"])
    return frequencies


def rms_norm(x, weight, epsilon):
    return x / (x.square().mean(-1, keepdim=True) + epsilon).sqrt() * weight


def rotate(x, angles, scale):
    """x (T, n, D), angles (T, R/2): pairs (i, i + R/2) turn together, and grow by `scale`; dims from R on stay."""
    cosine, sine = scale * angles.cos()[:, None], scale * angles.sin()[:, None]
    turned, rest = x.split([2 * angles.shape[1], x.shape[-1] - 2 * angles.shape[1]], -1)
    first, second = turned.chunk(2, -1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine, rest], -1)


def unseen(model, layer, length):
    """(T, T): the keys that a query does not see."""
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    types = model.get("layer_types")
    slides = model.get("sliding_window") and (types is None or types[layer] == "sliding_attention")
    return future | ~torch.ones_like(future).triu(1 - model["sliding_window"]) if slides else future


def growth(model, length):
    """(T, 1, 1): by how much queries grow with their position (llama_4_scaling_beta)."""
    original = (model.get("rope_scaling") or {}).get("original_max_position_embeddings", 1)
    steps = torch.arange(length, dtype=torch.float64).div(original, rounding_mode="floor")
    return 1 + model.get("llama_4_scaling_beta", 0.0) * torch.log(1 + steps)[:, None, None]


def probabilities(model, block, scores, unseen):
    """(H, T, T): softmax of the scores that are seen, capped and beside those of the sinks."""
    cap, sinks = model.get("attn_logit_softcapping"), block.get("self_attn.sinks")
    if cap:
        scores = cap * torch.tanh(scores / cap)
    scores = scores.masked_fill(unseen, -math.inf)
    if sinks is None:
        return scores.softmax(-1)
    return torch.cat([scores, sinks[:, None, None].expand(-1, scores.shape[1], 1)], -1).softmax(-1)[..., :-1]


def rope_model(model, layer):
    """What its rotary embedding follows from: that of sliding layers may be another one."""
    if "rope_local_base_freq" in model and model["layer_types"][layer] == "sliding_attention":
        return dict(model, rope_theta=model["rope_local_base_freq"], rope_scaling=None)
    return model


def mlp_of(block, name, h, gate_function=F.silu):
    gate, up = (F.linear(h, block[f"{name}.{part}_proj.weight"], block.get(f"{name}.{part}_proj.bias"))
                for part in ("gate", "up"))
    return F.linear(gate_function(gate) * up, block[name + ".down_proj.weight"], block.get(name + ".down_proj.bias"))


def expert_of(block, model, number, h):
    name = f"mlp.experts.{number}"
    if model.get("expert_form") != "gpt_oss":
        return mlp_of(block, name, h)
    gate_up = h @ block[name + ".gate_up_proj.weight"] + block[name + ".gate_up_proj.bias"]
    limit = model["swiglu_limit"]
    gate, up = gate_up[:, 0::2].clamp(max=limit), gate_up[:, 1::2].clamp(-limit, limit)
    act = gate * (1.702 * gate).sigmoid() * (up + 1)
    return act @ block[name + ".down_proj.weight"] + block[name + ".down_proj.bias"]


def experts_of(block, model, h, routing):
    """What the experts of each token give, weighed; appends choices (T, E) and probabilities (T, E) to `routing`."""
    router = "mlp.router" if model.get("expert_form") == "gpt_oss" else "mlp.gate"
    probabilities = F.linear(h, block[router + ".weight"], block.get(router + ".bias")).softmax(-1)
    chosen = torch.zeros_like(probabilities).scatter(1, probabilities.topk(model["num_experts_per_tok"])[1], 1.0)
    routing.append((chosen, probabilities))
    weights = probabilities * chosen
    if model.get("norm_topk_prob"):
        weights = weights / weights.sum(-1, keepdim=True)
    return sum(weights[:, [e]] * expert_of(block, model, e, h) for e in range(model["num_experts"]))


def experts_of_glm(block, model, h):
    """The same of sigmoid scores, with the groups of experts and the MLP beside them."""
    scores = F.linear(h, block["mlp.gate.weight"]).sigmoid()
    grouped = (scores + block[CORRECTION]).unflatten(1, (model["n_group"], -1))
    groups = grouped.topk(2)[0].sum(-1).topk(model["topk_group"])[1]
    is_open = torch.zeros(grouped.shape[:2], dtype=bool).scatter(1, groups, True)
    choices = grouped.masked_fill(~is_open[:, :, None], -torch.inf).flatten(1).topk(model["num_experts_per_tok"])[1]
    weights = scores * torch.zeros_like(scores).scatter(1, choices, 1.0)
    if model.get("norm_topk_prob"):
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
    weights = weights * model["routed_scaling_factor"]
    routed = sum(weights[:, [e]] * mlp_of(block, f"mlp.experts.{e}", h) for e in range(model["num_experts"]))
    return routed + mlp_of(block, "mlp.shared_experts", h)


def auxiliary_loss(model, routing):
    """That of all layers and documents (Fedus et al. 2021), times its coefficient."""
    chosen, probabilities = (torch.cat(parts) for parts in zip(*routing))
    balance = model["num_experts"] * (chosen.mean(0) * probabilities.mean(0)).sum()
    return model["router_aux_loss_coef"] * balance


def document_logits(parameters, model, tokens, routing):
    """Logits (T, V) of one document alone; what its routers did is appended to `routing`."""
    num_heads, num_kv, head_dim = (model[k] for k in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    epsilon, length = model["rms_norm_eps"], len(tokens)
    score_scale = model.get("attention_multiplier", head_dim ** -0.5)
    branch_scale = model.get("residual_multiplier", 1.0)
    x = parameters["model.embed_tokens.weight"][tokens] * model.get("embedding_multiplier", 1.0)
    offset = 1.0 if model.get("zero_centered_norms") else 0.0
    cap = model.get("final_logit_softcapping")
    norm_names = BLOCK_NORMS[model.get("block_norms", "pre")]
    gate_function = F.silu if model.get("hidden_act", "silu") == "silu" else lambda y: F.gelu(y, approximate="tanh")
    for layer in range(model["num_hidden_layers"]):
        rope = rope_model(model, layer)
        angles = torch.arange(length, dtype=torch.float64)[:, None] * inverse_frequencies(rope)
        block = {name.split(f"model.layers.{layer}.")[1]: p for name, p in parameters.items()
                 if name.startswith(f"model.layers.{layer}.")}
        def normed(y, number):
            name = norm_names[number]
            return y if name is None else rms_norm(y, block[name + ".weight"] + offset, epsilon)
        def heads(name):
            y = F.linear(h, block[f"self_attn.{name}_proj.weight"], block.get(f"self_attn.{name}_proj.bias"))
            norm = block.get(f"self_attn.{name}_norm.weight")
            if model.get("qk_norm_all_heads") and norm is not None:
                y, norm = rms_norm(y, norm + offset, epsilon), None
            y = y.view(length, -1, head_dim)
            return y if norm is None else rms_norm(y, norm + offset, epsilon)
        h = normed(x, 0)
        scale = attention_factor(rope)
        q, k, v = heads("q"), heads("k"), heads("v")
        if model.get("no_rope_layers", [1] * (layer + 1))[layer]:
            q, k = rotate(q, angles, scale) * growth(model, length), rotate(k, angles, scale)
        kv_of_head = torch.arange(num_heads) // (num_heads // num_kv)
        scores = torch.einsum("ihd,jhd->hij", q, k[:, kv_of_head]) * score_scale
        weights = probabilities(model, block, scores, unseen(model, layer, length))
        attention = torch.einsum("hij,jhd->ihd", weights, v[:, kv_of_head])
        branch = F.linear(attention.reshape(length, -1), block["self_attn.o_proj.weight"],
                          block.get("self_attn.o_proj.bias"))
        x = x + branch_scale * normed(branch, 1)
        h = normed(x, 2)
        if not has_experts(model, layer):
            branch = mlp_of(block, "mlp", h, gate_function)
        elif model.get("scoring_func") == "sigmoid":
            branch = experts_of_glm(block, model, h)
        else:
            branch = experts_of(block, model, h, routing)
        x = x + branch_scale * normed(branch, 3)
    x = rms_norm(x, parameters["model.norm.weight"] + offset, epsilon)
    head = parameters.get("lm_head.weight", parameters["model.embed_tokens.weight"])
    logits = F.linear(x, head) / model.get("logits_scaling", 1.0)
    return cap * torch.tanh(logits / cap) if cap else logits


def batch_loss(logits_of, rows):
    """sum of w * nll / sum of w, document by document; the first token of a document is no target."""
    total, weight_sum = torch.zeros((), dtype=torch.float64), 0.0
    for tokens, weights, lengths in rows:
        begin = 0
        for length in lengths:
            document = torch.from_numpy(tokens[begin:begin + length]).long()
            weight = torch.from_numpy(weights[begin + 1:begin + length]).double()
            logits = logits_of(document)
            if length > 1:
                nll = F.cross_entropy(logits[:-1], document[1:], reduction="none")
                total, weight_sum = total + (weight * nll).sum(), weight_sum + weight.sum().item()
            begin += length
    return total / weight_sum


def as_pairs(rows, model):
    """Rows of queries or keys, of which the rotated ones stand in pairs side by side."""
    half, tail = rotary_dim(model) // 2, rows.shape[1:]
    heads = rows.reshape(-1, model["head_dim"], *tail)
    pairs = torch.stack([heads[:, :half], heads[:, half:2 * half]], 2).reshape(len(heads), 2 * half, *tail)
    return torch.cat([pairs, heads[:, 2 * half:]], 1).reshape(rows.shape)


def as_transformers(family, model, tensors):
    """The tensors in the names, the fusions and the order of rows of the family's own class."""
    tensors = dict(tensors)
    for layer in range(model["num_hidden_layers"]):
        if has_experts(model, layer):
            block, experts = f"model.layers.{layer}.mlp.experts.", range(model["num_experts"])
            def take(name, kind="weight"):
                return torch.stack([tensors.pop(f"{block}{expert}.{name}.{kind}") for expert in experts])
            if family == "gpt_oss":
                for name in ("gate_up_proj", "down_proj"):
                    tensors[block + name], tensors[block + name + "_bias"] = take(name), take(name, "bias")
                continue
            tensors[block + "gate_up_proj"] = torch.cat([take("gate_proj"), take("up_proj")], 1)
            tensors[block + "down_proj"] = take("down_proj")
    if family not in ("phi3", "glm4"):
        return tensors
    for layer in range(model["num_hidden_layers"]):
        block = f"model.layers.{layer}."
        fused = {"mlp.gate_up_proj.weight": [f"mlp.{name}_proj.weight" for name in ("gate", "up")]}
        if family == "phi3":
            fused["self_attn.qkv_proj.weight"] = [f"self_attn.{name}_proj.weight" for name in "qkv"]
        for name, parts in fused.items():
            tensors[block + name] = torch.cat([tensors.pop(block + part) for part in parts])
        for name in ("q_proj.weight", "k_proj.weight", "q_proj.bias", "k_proj.bias") if family == "glm4" else ():
            tensors[block + "self_attn." + name] = as_pairs(tensors[block + "self_attn." + name], model)
    return tensors


def change_scores(family, model, network):
    """Lets the family's class attend as Gemma 2 or gpt-oss do, by their own functions."""
    cap, module = model.get("attn_logit_softcapping"), sys.modules[type(network).__module__]
    if cap:
        from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward
        module.eager_attention_forward = functools.partial(eager_attention_forward, softcap=cap)
    elif model.get("attention_sinks"):
        from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward
        module.eager_attention_forward = eager_attention_forward
        for layer in network.model.layers:
            layer.self_attn.sinks = torch.nn.Parameter(torch.zeros(model["num_attention_heads"], dtype=torch.float64))


def transformers_model(family, model, parameters):
    """The family's own class in float64 with the same parameters."""
    prefix = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "smollm3": "SmolLM3",
              "granite": "Granite", "mistral": "Mistral", "phi3": "Phi3", "ministral3": "Ministral3",
              "glm4": "Glm4", "qwen3_moe": "Qwen3Moe", "mixtral": "Mixtral", "olmo2": "Olmo2", "olmo3": "Olmo3",
              "gemma2": "Gemma2", "gemma3": "Gemma3", "gpt_oss": "GptOss", "glm4_moe": "Glm4Moe"}
    known = [name for name in ("qwen3_moe", "glm4_moe", "gpt_oss") if family.startswith(name)]
    prefix = prefix[known[0] if known else family.split("_")[0]]
    own_names = ("qk_norm", "attention_output_bias", "rope_theta", "rope_scaling", "block_norms",
                 "partial_rotary_factor", "llama_4_scaling_beta", "attn_logit_softcapping", "attention_sinks",
                 "qk_norm_all_heads", "rope_local_base_freq", "expert_form", *GEMMA)
    if prefix == "Glm4Moe":
        own_names += ("num_experts", "mlp_only_layers", "router_aux_loss_coef", "scoring_func")
    keys = dict(vocab_size=VOCAB_SIZE) | {k: v for k, v in model.items() if k not in own_names}
    rope = dict(rope_theta=model["rope_theta"], rope_type="default") | (model.get("rope_scaling") or {})
    rope |= {k: model[k] for k in ("partial_rotary_factor", "llama_4_scaling_beta") if k in model}
    if rope["rope_type"] == "longrope":  # which takes the factor from the two lengths
        keys["original_max_position_embeddings"] = rope["original_max_position_embeddings"]
    if "layer_types" in model:
        keys["use_sliding_window"] = True
    if "rope_local_base_freq" in model:
        local = dict(rope_theta=model["rope_local_base_freq"], rope_type="default")
        rope = dict(full_attention=rope, sliding_attention=local)
    if prefix == "Glm4Moe":
        keys |= dict(n_routed_experts=model["num_experts"], first_k_dense_replace=len(model["mlp_only_layers"]),
                     use_qk_norm=model["qk_norm"])
    if prefix.startswith("Gemma"):
        keys["query_pre_attn_scalar"] = round(keys.pop("attention_multiplier") ** -2)
        keys |= dict(attn_logit_softcapping=None, final_logit_softcapping=model.get("final_logit_softcapping"))
    config = getattr(transformers, "Gemma3TextConfig" if prefix == "Gemma3" else prefix + "Config")(rope_parameters=rope, pad_token_id=None, **keys)
    config._attn_implementation, config._experts_implementation = "eager", "eager"
    network = getattr(transformers, prefix + "ForCausalLM")(config).double()
    change_scores(family, model, network)
    own = dict(network.named_parameters())
    own |= {name: buffer for name, buffer in network.named_buffers() if name.endswith(CORRECTION)}
    parameters = {name: value.numpy() for name, value in
                  as_transformers(family, model, {n: torch.from_numpy(v) for n, v in parameters.items()}).items()}
    assert own.keys() == parameters.keys(), own.keys() ^ parameters.keys()
    with torch.no_grad():
        for name, value in parameters.items():
            own[name].copy_(torch.from_numpy(value))
    return network, own


def relative_difference(a, b):
    return ((a - b).norm() / b.norm().clamp_min(1e-300)).item()


def check_second_witness(family, model, parameters, rows, loss, gradients):
    network, own = transformers_model(family, model, parameters)
    router_logits, routers = [], dict(output_router_logits=True) if model.get("router_aux_loss_coef") else {}
    def logits_of(document):
        output = network(input_ids=document[None], **routers)
        router_logits.append(output.router_logits if routers else ())
        return output.logits[0].double()
    witness, added = batch_loss(logits_of, rows), 0.0
    if routers:
        layers = tuple(torch.cat(documents) for documents in zip(*router_logits))
        added = model["router_aux_loss_coef"] * transformers.models.qwen3_moe.modeling_qwen3_moe.load_balancing_loss_func(
            layers, model["num_experts"], model["num_experts_per_tok"])
    (witness + added).backward()
    gradients = as_transformers(family, model, gradients)
    worst = max(relative_difference(own[name].grad, gradient) for name, gradient in gradients.items())
    loss_difference = relative_difference(witness, loss)
    print(f"{family}: transformers differs by {loss_difference:.1e} in the loss, {worst:.1e} in the worst gradient")
    assert loss_difference < 1e-5 and worst < 1e-5, "the two witnesses disagree"


def model_ini(model):
    def text(value):
        if isinstance(value, list):
            return " ".join(map(str, value))
        return json.dumps(value) if isinstance(value, (dict, bool)) else str(value)
    return "[model]\n" + "".join(f"{k} = {text(v)}\n" for k, v in (dict(vocab_size=VOCAB_SIZE) | model).items())


def write_fixture(path, model, parameters, rows, loss, logits, gradients):
    tokens, weights = (np.stack([row[i] for row in rows]) for i in range(2))
    lengths = [length for row in rows for length in row[2]]
    offsets = np.cumsum([0] + [len(row[2]) for row in rows])
    with h5py.File(path, "w") as file:
        file["tokens"], file["loss_weight"] = tokens, weights
        file["document_lengths"], file["document_offsets"] = np.array(lengths, np.int32), offsets.astype(np.int64)
        file.attrs.update(dict(
            format="sft-packed", format_version=1, max_length=MAX_LENGTH, vocab_size=vocab_size_of(model), pad_token_id=0,
            eos_token_id=0, tokenizer="none", num_rows=len(rows), num_documents=len(lengths), num_tokens=sum(lengths),
            num_target_tokens=int((weights > 0).sum()), packing_strategy="bfd", source="make_reference.py",
            config=model_ini(model), loss=loss.item(), logits_document=LOGITS_DOCUMENT))
        file["logits"] = logits.detach().numpy()
        for name, value in parameters.items():
            file["parameters/" + name] = value
            if name in gradients:
                file["gradients/" + name] = gradients[name].numpy().astype(np.float32)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "fixtures")
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (family, model) in enumerate(MODELS.items()):
        if len(sys.argv) > 2 and family not in sys.argv[2:]:
            continue
        rng = np.random.default_rng(seed)
        values, rows = draw_parameters(model, rng), draw_rows(rng, vocab_size_of(model))
        parameters = {name: torch.from_numpy(value).double().requires_grad_() for name, value in values.items()}
        routing = []
        loss = batch_loss(lambda document: document_logits(parameters, model, document, routing), rows)
        added = auxiliary_loss(model, routing) if routing else 0.0
        trained = [name for name in parameters if not name.endswith(CORRECTION)]
        gradients = dict(zip(trained, torch.autograd.grad(loss + added, [parameters[name] for name in trained])))
        check_second_witness(family, model, values, rows, loss, gradients)
        begin = sum(rows[0][2][:LOGITS_DOCUMENT])
        document = torch.from_numpy(rows[0][0][begin:begin + rows[0][2][LOGITS_DOCUMENT]]).long()
        logits = document_logits(parameters, model, document, [])
        write_fixture(folder / f"{family}.h5", model, values, rows, loss, logits, gradients)


if __name__ == "__main__":
    main()
