# SPDX-License-Identifier: Apache-2.0
"""The models and the rows that the fixtures of tests/reference are of, and how their numbers are drawn."""
import math

import numpy as np

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
    # Norms of every head, and windows on the layers that are rotated.
    "exaone4": dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                    intermediate_size=44, rope_theta=10000.0, rms_norm_eps=1e-5, tie_word_embeddings=True, qk_norm=True,
                    block_norms="olmo2", sliding_window=5, no_rope_layers=[1, 0, 1],
                    layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    # An MLP without a gate, with biases.
    "arcee": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                  intermediate_size=44, rope_theta=10000.0, rms_norm_eps=1e-5, tie_word_embeddings=False, mlp_bias=True,
                  hidden_act="relu2", gated_mlp=False),
    # Norms of heads that are rotated.
    "hunyuan": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                    intermediate_size=44, rope_theta=10000.0, rms_norm_eps=1e-5, tie_word_embeddings=True, qk_norm=True,
                    qk_norm_after_rope=True),
    # Norms of all heads together, which turn in part, before experts with sigmoid scores.
    "minimax_m2": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                       intermediate_size=12, moe_intermediate_size=12, rope_theta=10000.0, rms_norm_eps=1e-6,
                       tie_word_embeddings=False, qk_norm=True, qk_norm_all_heads=True, partial_rotary_factor=0.5,
                       num_experts=5, num_experts_per_tok=2, norm_topk_prob=True, router_aux_loss_coef=0.0,
                       scoring_func="sigmoid"),
    # Three groups of experts, of which two may be chosen from; an MLP of two experts' width beside them.
    "glm4_moe": dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                     intermediate_size=44, rope_theta=10000.0, rms_norm_eps=1e-5, tie_word_embeddings=False,
                     attention_bias=True, qk_norm=True, partial_rotary_factor=0.5, num_experts=6,
                     num_experts_per_tok=3, moe_intermediate_size=12, norm_topk_prob=True, mlp_only_layers=[0],
                     router_aux_loss_coef=0.0, scoring_func="sigmoid", n_group=3, topk_group=2,
                     routed_scaling_factor=2.5, n_shared_experts=2),
}
# A generator of its own for each, so that further models change no number of these.
SEEDS = dict(llama=0, qwen2=1, qwen3=2, llama_bias=3, smollm3=4, granite=5, qwen2_window=6, mistral=7, phi3=8, ministral3=9,
             glm4=10, mistral_softcap=11, qwen2_sinks=12, qwen3_moe=11, qwen3_moe_plain=12, mixtral=13, olmo2=11, olmo3=12,
             gemma3=13, gemma2=14, gpt_oss=20, glm4_moe=20, exaone4=21,
             minimax_m2=22, hunyuan=23, arcee=24)
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


def draws_norms_first(model):
    """Whether all norms of a block are drawn before its matrices, and not those of the MLP before it."""
    return (model.get("block_norms") in ("olmo2", "gemma2") or model.get("expert_form") == "gpt_oss"
            or model.get("scoring_func") == "sigmoid")


def parameter_shapes(model):
    """Hugging Face names and shapes of every parameter, in the order in which they are drawn."""
    hidden, head_dim, inner = model["hidden_size"], model["head_dim"], model["intermediate_size"]
    q_size, kv_size = model["num_attention_heads"] * head_dim, model["num_key_value_heads"] * head_dim
    shapes = {"model.embed_tokens.weight": (vocab_size_of(model), hidden)}
    for layer in range(model["num_hidden_layers"]):
        block = f"model.layers.{layer}."
        norms = [f"{block}{name}.weight" for name in BLOCK_NORMS[model.get("block_norms", "pre")] if name is not None]
        first = norms if draws_norms_first(model) else norms[:1]
        shapes |= {name: (hidden,) for name in first}
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
            for name in ("gate", "up") if model.get("gated_mlp", True) else ("up",):
                shapes[block + f"mlp.{name}_proj.bias"] = (inner,)
            shapes[block + "mlp.down_proj.bias"] = (hidden,)
        before_mlp = [block + "post_attention_layernorm.weight", *norms]
        shapes |= {name: (hidden,) for name in before_mlp if name not in shapes}
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
            for name in ("gate", "up") if model.get("gated_mlp", True) else ("up",):
                shapes[block + mlp + name + "_proj.weight"] = (width, hidden)
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
