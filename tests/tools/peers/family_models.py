# SPDX-License-Identifier: Apache-2.0
"""Random small models of every family that `sft` reads, in every form in which transformers writes them, and random rows.

All that config.json may say of a family is drawn: sizes that are no powers of two, heads of other widths than hidden_size /
num_attention_heads, biases, every kind of rotation, windows by each way to say them, experts, caps, ties, padding tokens,
towers beside the text. What is drawn is what transformers computes; `sft` has to say the same number.
"""
import json
import math
import random
import shutil

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

import hub_models

CONTEXT = 256  # max_position_embeddings


def rope_of(rng, kinds=("default", "default", "linear", "llama3", "yarn", "yarn", "dynamic")):
    """Flat rope_parameters of a random kind, such that all versions of transformers read the same (a factor of yarn is the
    growth of the context)."""
    kind = rng.choice(kinds)
    original = rng.choice([32, 64])
    fields = {"default": {}, "linear": dict(factor=rng.choice([4.0, 2.5])), "llama3": hub_models.LLAMA3,
              "dynamic": dict(factor=4.0),
              "yarn": dict(factor=CONTEXT / original, original_max_position_embeddings=original)}[kind]
    if kind == "yarn" and rng.random() < 0.6:
        fields |= rng.choice([dict(beta_fast=20.0, beta_slow=2.0), dict(attention_factor=1.3), dict(truncate=False),
                              dict(mscale=1.2, mscale_all_dim=0.7), dict(mscale=0.707, mscale_all_dim=0.707)])
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=rng.choice([1e4, 5e5, 12345.0]), **fields))


def sizes_of(rng):
    """Half of them such that tp_size = 4 divides them."""
    kv_heads = rng.choice([1, 2, 4])
    heads = kv_heads * rng.choice([4, 8]) if kv_heads == 1 else kv_heads * rng.choice([2, 4])
    intermediate = rng.choice([40, 64, 92])
    if rng.random() < 0.5:
        kv_heads = rng.choice([1, 2, 3, 5])
        heads, intermediate = kv_heads * rng.choice([1, 2, 3, 7]), rng.choice([24, 37, 51, 70])
    head_dim = rng.choice([8, 12, 16])
    token = rng.randint(0, 79)
    return dict(hidden_size=heads * head_dim, intermediate_size=intermediate,
                num_hidden_layers=rng.randint(1, 5), num_attention_heads=heads, num_key_value_heads=kv_heads,
                vocab_size=rng.randint(80, 130), max_position_embeddings=CONTEXT, rms_norm_eps=rng.choice([1e-5, 1e-6]),
                tie_word_embeddings=rng.random() < 0.5, pad_token_id=rng.choice([None, None, 0, token]), bos_token_id=None,
                eos_token_id=rng.choice([None, None, 1, [2, token]]))


def width_of_heads(rng, sizes, always=False):
    """A head_dim of its own in half of the models: any multiple of the number of heads is then a hidden size."""
    if not always and rng.random() < 0.5:
        return {}
    sizes["hidden_size"] = sizes["num_attention_heads"] * rng.choice([7, 8, 12, 16])
    return dict(head_dim=rng.choice([6, 8, 10, 16, 24]))


def head_dim_of(sizes, fields):
    return fields.get("head_dim") or sizes["hidden_size"] // sizes["num_attention_heads"]


def biases(rng):
    return dict(attention_bias=rng.random() < 0.5, mlp_bias=rng.random() < 0.5)


def attention_bias(rng):
    return dict(attention_bias=rng.random() < 0.3)


def llama(rng, sizes):
    return biases(rng) | width_of_heads(rng, sizes) | rope_of(rng)


def qwen3(rng, sizes):
    return attention_bias(rng) | width_of_heads(rng, sizes, always=True) | rope_of(rng)


def smollm3(rng, sizes):
    """Layers without rotation, and windows: on these layers, or on those of a list."""
    layers = sizes["num_hidden_layers"]
    fields = dict(no_rope_layer_interval=rng.randint(1, 4))
    if rng.random() < 0.5:
        fields = dict(no_rope_layers=[rng.randint(0, 1) for _ in range(layers + rng.choice([0, 0, 2]))])
    if rng.random() < 0.4:
        fields |= dict(use_sliding_window=True, sliding_window=rng.choice([1, 7, 33, 64]))
        if rng.random() < 0.4:
            fields["layer_types"] = [rng.choice(["full_attention", "sliding_attention"]) for _ in range(layers)]
    return fields | biases(rng) | width_of_heads(rng, sizes) | rope_of(rng)


def granite(rng, sizes):
    return dict(embedding_multiplier=rng.choice([12, rng.uniform(0.5, 12)]), attention_multiplier=rng.uniform(0.05, 0.5),
                residual_multiplier=rng.uniform(0.2, 1.2),
                logits_scaling=rng.choice([8, rng.uniform(0.5, 8)])) | biases(rng) | width_of_heads(rng, sizes) | rope_of(rng)


def phi3(rng, sizes):
    """Phi-3 and 4: rows within the original context, for which alone frequencies are known beforehand."""
    fields = dict(original_max_position_embeddings=128, sliding_window=rng.choice([None, 7, 200]))
    is_long = rng.random() < 0.6
    if not is_long:
        fields |= width_of_heads(rng, sizes)  # transformers counts the factors of longrope by the hidden size
    head_dim = head_dim_of(sizes, fields)
    part = rng.choice([part for part in (0.5, 0.75, 1.0) if int(head_dim * part) % 2 == 0])  # pairs are rotated
    rope = dict(rope_theta=1e4, rope_type="default", partial_rotary_factor=part)
    if is_long:
        num_pairs = int(head_dim * part) // 2
        rope |= dict(rope_type="longrope", short_factor=[rng.uniform(1, 2) for _ in range(num_pairs)],
                     long_factor=[rng.uniform(2, 8) for _ in range(num_pairs)])
        if rng.random() < 0.2:
            rope["attention_factor"] = 1.4
    return fields | dict(rope_parameters=rope)


def ministral3(rng, sizes):
    original = rng.choice([8, 32])
    rope = dict(rope_type="yarn", rope_theta=rng.choice([1e4, 1e6]), factor=CONTEXT / original,
                original_max_position_embeddings=original, llama_4_scaling_beta=rng.choice([0.1, 0.5]))
    rope |= rng.choice([dict(mscale=1.0, mscale_all_dim=1.0), dict(mscale=1.0, mscale_all_dim=1.0, beta_fast=32.0, beta_slow=1.0),
                        {}])
    return width_of_heads(rng, sizes, always=True) | dict(rope_parameters=rope, sliding_window=rng.choice([None, None, 9]))


def partial_rope_of(rng, head_dim):
    rope = rope_of(rng, ("default", "default", "linear", "yarn"))["rope_parameters"]
    parts = [part for part in (0.5, 0.5, 1.0) if int(head_dim * part) % 2 == 0]
    return dict(rope_parameters=rope | dict(partial_rotary_factor=rng.choice(parts)))


def glm4(rng, sizes):
    fields = width_of_heads(rng, sizes, always=True)
    return fields | dict(attention_bias=rng.random() < 0.7) | partial_rope_of(rng, fields["head_dim"])


def layer_types_of(rng, sizes):
    return [rng.choice(["full_attention", "sliding_attention"]) for _ in range(sizes["num_hidden_layers"])]


def windows_of(rng, sizes, thetas=(1e4, 12345.0, 1e6)):
    """Of models whose layers slide but for some, and rotary embeddings of both kinds."""
    full = rope_of(rng, ("default", "default", "linear", "yarn", "llama3"))["rope_parameters"]
    full.pop("truncate", None)  # which transformers does not read where kinds of layers have embeddings of their own
    local = dict(rope_type="default", rope_theta=rng.choice([full["rope_theta"], *thetas]))
    fields = dict(sliding_window=rng.choice([1, 3, 16, 33, 64, 200]),
                  rope_parameters=dict(full_attention=full, sliding_attention=local))
    return fields | (dict(layer_types=layer_types_of(rng, sizes)) if rng.random() < 0.7 else {})


def olmo2(rng, sizes):
    return attention_bias(rng) | width_of_heads(rng, sizes) | rope_of(rng)


def olmo3(rng, sizes):
    return attention_bias(rng) | width_of_heads(rng, sizes) | windows_of(rng, sizes)


def gemma3(rng, sizes):
    """With attn_logit_softcapping, which transformers takes and does not read in this family."""
    fields = dict(query_pre_attn_scalar=rng.choice([5, 16, 168]), final_logit_softcapping=rng.choice([None, 3.0]),
                  attn_logit_softcapping=rng.choice([None, None, 1.5]))
    windows = windows_of(rng, sizes)
    if "layer_types" not in windows:
        windows["sliding_window_pattern"] = rng.choice([2, 3, 6])
    return fields | width_of_heads(rng, sizes, always=True) | attention_bias(rng) | windows


def gemma2(rng, sizes):
    fields = dict(query_pre_attn_scalar=rng.choice([5, 16, 144]), attn_logit_softcapping=rng.choice([None, 1.5, 50.0]),
                  final_logit_softcapping=rng.choice([None, 2.0, 30.0]), sliding_window=rng.choice([1, 3, 16, 33, 64, 200]))
    if rng.random() < 0.7:
        fields["layer_types"] = layer_types_of(rng, sizes)
    return fields | width_of_heads(rng, sizes, always=True) | attention_bias(rng) | rope_of(rng)


def mistral(rng, sizes):
    return (width_of_heads(rng, sizes) | dict(sliding_window=rng.choice([None, 1, 2, 5, 16, 33, 64, 96, 200])) |
            rope_of(rng))


def windows_of_qwen(rng, sizes):
    """Qwen2 and 3 with windows that are used, or are said and not used."""
    layers = sizes["num_hidden_layers"]
    fields = dict(use_sliding_window=rng.random() < 0.8, sliding_window=rng.choice([1, 3, 16, 31, 64, 200]),
                  max_window_layers=rng.randint(0, layers))
    if fields["use_sliding_window"] and rng.random() < 0.5:
        fields["layer_types"] = layer_types_of(rng, sizes)
    return fields | rope_of(rng)


def qwen2(rng, sizes):
    return width_of_heads(rng, sizes) | windows_of_qwen(rng, sizes)


def qwen3_windows(rng, sizes):
    return width_of_heads(rng, sizes, always=True) | attention_bias(rng) | windows_of_qwen(rng, sizes)


def qwen3_moe(rng, sizes):
    layers, experts = sizes["num_hidden_layers"], rng.choice([4, 6, 7, 16])
    spared = rng.randrange(layers)  # one layer has experts at least
    dense = [layer for layer in range(layers) if layer != spared and rng.random() < 0.3]
    choices = rng.randint(1, min(experts, 5))
    window = dict(use_sliding_window=True, sliding_window=rng.choice([1, 7, 40])) if rng.random() < 0.2 else {}
    step = rng.choice([1, 1, 2]) if layers > 1 else 1
    if all((layer + 1) % step != 0 or layer in dense for layer in range(layers)):
        step = 1
    fields = dict(num_experts=experts, num_experts_per_tok=choices, moe_intermediate_size=rng.choice([7, 8, 12, 32]),
                  norm_topk_prob=rng.random() < 0.5, mlp_only_layers=dense, decoder_sparse_step=step,
                  router_aux_loss_coef=rng.choice([0.0, 0.001, 0.1]))
    return fields | window | attention_bias(rng) | width_of_heads(rng, sizes) | rope_of(rng)


def mixtral(rng, sizes):
    experts = rng.choice([2, 3, 4, 8])
    heads = width_of_heads(rng, sizes)
    head_dim = dict(head_dim=head_dim_of(sizes, heads))  # which transformers needs for yarn
    return dict(num_local_experts=experts, num_experts_per_tok=rng.randint(1, min(experts, 3)), **head_dim,
                sliding_window=rng.choice([None, None, 16]), router_aux_loss_coef=rng.choice([0.0, 0.02])) | rope_of(rng)


def gpt_oss(rng, sizes):
    """Clamps that act; windows shorter and longer than documents."""
    experts = rng.choice([2, 3, 4, 6])
    original = rng.choice([16, 64])
    rope = dict(rope_type="yarn", rope_theta=1.5e5, factor=CONTEXT / original, beta_fast=32.0, beta_slow=1.0, truncate=False,
                original_max_position_embeddings=original)
    if rng.random() < 0.2:
        rope = rope_of(rng)["rope_parameters"]
    layers = sizes["num_hidden_layers"]
    types = [rng.choice(["full_attention", "sliding_attention"]) for _ in range(layers - 1)] + ["sliding_attention"]
    return dict(num_local_experts=experts, num_experts_per_tok=rng.randint(1, min(experts, 4)),
                sliding_window=rng.choice([1, 7, 16, 64, 128]), rope_parameters=rope,
                swiglu_limit=rng.choice([0.7, 2.0, 7.0, 7.0]), router_aux_loss_coef=rng.choice([0.0, 0.05]),
                attention_bias=rng.random() < 0.8,
                **(dict(layer_types=types) if rng.random() < 0.7 else {})) | width_of_heads(rng, sizes, always=True)


def gpt_oss_mxfp4(rng, sizes):
    """Widths of whole blocks."""
    fields = gpt_oss(rng, sizes)
    sizes["num_attention_heads"] = 2 * sizes["num_key_value_heads"]
    return fields | dict(hidden_size=rng.choice([32, 96]), intermediate_size=rng.choice([32, 64]))


def glm4_moe(rng, sizes):
    experts, groups = rng.choice([(4, 1), (7, 1), (16, 1), (16, 4), (12, 3)])
    chosen_groups = rng.randint(1, groups)
    choices = rng.randint(1, min(chosen_groups * (experts // groups), 5))
    layers = sizes["num_hidden_layers"] = max(2, sizes["num_hidden_layers"])
    heads = width_of_heads(rng, sizes, always=True)
    return dict(n_routed_experts=experts, num_experts_per_tok=choices, n_group=groups, topk_group=chosen_groups,
                moe_intermediate_size=rng.choice([7, 8, 12, 32]), norm_topk_prob=rng.random() < 0.7,
                routed_scaling_factor=rng.choice([1.0, 2.5]), n_shared_experts=rng.randint(1, 3),
                first_k_dense_replace=rng.randint(0, layers - 1), use_qk_norm=rng.random() < 0.5,
                attention_bias=rng.random() < 0.5) | heads | partial_rope_of(rng, heads["head_dim"])


def exaone4(rng, sizes):
    """Windows with layers that are not rotated, or neither."""
    windows = dict(sliding_window=None, layer_types=["full_attention"] * sizes["num_hidden_layers"])
    if rng.random() < 0.7:
        windows = dict(sliding_window=rng.choice([1, 3, 16, 33, 64, 200]), sliding_window_pattern=rng.choice([2, 3, 4]))
        if rng.random() < 0.5:
            windows |= dict(layer_types=layer_types_of(rng, sizes), sliding_window_pattern=rng.choice([4, "LLLG"]))
    return windows | width_of_heads(rng, sizes) | rope_of(rng)


def minimax_m2(rng, sizes):
    """Without the auxiliary loss, which counts experts that the router does not choose."""
    experts = rng.choice([2, 3, 4, 8])
    heads = width_of_heads(rng, sizes, always=True)
    return dict(num_local_experts=experts, num_experts_per_tok=rng.randint(1, min(experts, 3)),
                router_aux_loss_coef=0.0) | heads | partial_rope_of(rng, heads["head_dim"])


def hunyuan_v1_dense(rng, sizes):
    """With the base stretched by an alpha in half of them."""
    rope = rope_of(rng)
    if rng.random() < 0.5:
        rope = dict(rope_parameters=dict(rope_type="dynamic", rope_theta=1e4, alpha=rng.choice([2.5, 1000.0]), factor=1.0))
    return attention_bias(rng) | width_of_heads(rng, sizes, always=True) | rope


def arcee(rng, sizes):
    return biases(rng) | width_of_heads(rng, sizes) | rope_of(rng)


def seed_oss(rng, sizes):
    """With the dropout of published folders in half of them, which acts in training alone."""
    dropout = rng.choice([0.0, 0.1])
    return dict(attention_out_bias=rng.random() < 0.5, attention_dropout=dropout,
                residual_dropout=dropout) | biases(rng) | width_of_heads(rng, sizes, always=True) | rope_of(rng)


def granitemoehybrid(rng, sizes):
    """Attention alone, without experts."""
    fields = dict(num_local_experts=0, router_aux_loss_coef=0.0, layer_types=["full_attention"] * sizes["num_hidden_layers"],
                  position_embedding_type=rng.choice(["rope", "rope", None]), mamba_n_heads=sizes["hidden_size"] // 4,
                  mamba_d_head=8, shared_intermediate_size=rng.choice([24, 37, 64]), attention_bias=rng.random() < 0.3)
    multipliers = granite(rng, dict(sizes))
    for name in ("attention_bias", "mlp_bias", "head_dim"):
        multipliers.pop(name, None)
    return fields | multipliers


FAMILIES = {
    "llama": ("Llama", llama),
    "qwen3": ("Qwen3", qwen3),
    "smollm3": ("SmolLM3", smollm3),
    "granite": ("Granite", granite),
    "mistral": ("Mistral", mistral),
    "qwen2": ("Qwen2", qwen2),
    "qwen3_windows": ("Qwen3", qwen3_windows),
    "phi3": ("Phi3", phi3),
    "ministral3": ("Ministral3", ministral3),
    "glm4": ("Glm4", glm4),
    "qwen3_moe": ("Qwen3Moe", qwen3_moe),
    "mixtral": ("Mixtral", mixtral),
    "olmo2": ("Olmo2", olmo2),
    "olmo3": ("Olmo3", olmo3),
    "gemma2": ("Gemma2", gemma2),
    "gemma3": ("Gemma3", gemma3),
    "gpt_oss": ("GptOss", gpt_oss),
    "glm4_moe": ("Glm4Moe", glm4_moe),
    "exaone4": ("Exaone4", exaone4),
    "seed_oss": ("SeedOss", seed_oss),
    "minimax_m2": ("MiniMaxM2", minimax_m2),
    "hunyuan_v1_dense": ("HunYuanDenseV1", hunyuan_v1_dense),
    "arcee": ("Arcee", arcee),
    "granitemoehybrid": ("GraniteMoeHybrid", granitemoehybrid),
    "gpt_oss_mxfp4": ("GptOss", gpt_oss_mxfp4),
    "gemma3_tower": ("Gemma3", gemma3),
    "mistral3_tower": ("Mistral", mistral),
    "ministral3_tower": ("Ministral3", ministral3),
}

CONFIGS = {"gemma3": "Gemma3TextConfig", "gemma3_tower": "Gemma3TextConfig"}  # where the name does not follow
TOWERS = {"gemma3_tower": "Gemma3", "mistral3_tower": "Mistral3", "ministral3_tower": "Mistral3"}


def draw_parameters(network):
    """Weights large enough that attention is far from uniform; norms away from 1, biases away from 0."""
    is_zero_centered = network.config.model_type.startswith("gemma")
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "norm" in name:
                parameter.copy_((0 if is_zero_centered else 1) + 0.3 * torch.randn_like(parameter))
            elif name.endswith("sinks"):
                parameter.copy_(torch.randn_like(parameter))
            elif name.endswith("bias"):
                parameter.copy_(0.3 * torch.randn_like(parameter))
            else:
                parameter.copy_(torch.randn_like(parameter) / parameter.shape[-1] ** 0.5)
        for name, buffer in network.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.copy_(0.3 * torch.randn_like(buffer))


def config_of(family, sizes, fields):
    prefix, _ = FAMILIES[family]
    text = getattr(transformers, CONFIGS.get(family, prefix + "Config"))(**(sizes | fields))
    if family not in TOWERS:
        return text
    tied = dict(tie_word_embeddings=sizes["tie_word_embeddings"])
    if family == "gemma3_tower":
        vision = dict(model_type="siglip_vision_model", hidden_size=16, intermediate_size=24, num_hidden_layers=1,
                      num_attention_heads=2, image_size=8, patch_size=4)
        return transformers.Gemma3Config(text_config=text.to_dict(), vision_config=vision, mm_tokens_per_image=4,
                                         image_token_index=sizes["vocab_size"] - 1, **tied)
    vision = dict(model_type="pixtral", hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
                  image_size=8, patch_size=4, head_dim=8)
    return transformers.Mistral3Config(text_config=text.to_dict(), vision_config=vision,
                                       image_token_index=sizes["vocab_size"] - 1, **tied)


def class_of(config):
    return getattr(transformers, config.architectures[0])


def make_model(family, number, folder, attempt=0):
    """Writes the model of the case; the generator of all else that is random in it."""
    rng = random.Random(f"{family} {number}" + f" {attempt}" * (attempt > 0))
    prefix, draw = FAMILIES[family]
    sizes = sizes_of(rng)
    fields = draw(rng, sizes)
    config = config_of(family, sizes, fields)
    torch.manual_seed(rng.randrange(1 << 30))
    name = TOWERS[family] + "ForConditionalGeneration" if family in TOWERS else prefix + "ForCausalLM"
    network = getattr(transformers, name)(config)
    draw_parameters(network)
    packed = pack_experts(network) if family == "gpt_oss_mxfp4" else None
    dtype = rng.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16]) if packed is None else torch.float32
    shutil.rmtree(folder, ignore_errors=True)
    network.to(dtype).save_pretrained(folder, max_shard_size=rng.choice(["5GB", "5GB", "50KB"]) if packed is None else "5GB")
    if family not in TOWERS and rng.random() < 0.4:
        to_old_form(folder)
    if packed is not None:
        save_packed(folder, packed, dict(quant_method="mxfp4", modules_to_not_convert=["lm_head"]))
    return rng


def to_old_form(folder):
    """The same model with the config.json of transformers 4: rope_theta, rope_scaling and torch_dtype."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    parameters = config["rope_parameters"]
    full = dict(parameters.get("full_attention", parameters))
    local = parameters.get("sliding_attention")
    if local is not None and config["model_type"] == "olmo3" and {full["rope_theta"], local["rope_theta"]} != {5e5}:
        return  # which had one theta, and which version 5 forgets for sliding layers
    if config["model_type"] == "gpt_oss" and full["rope_type"] == "default":
        return  # what version 5 takes for yarn
    del config["rope_parameters"]
    if local is not None and config["model_type"].startswith("gemma3"):
        config["rope_local_base_freq"] = local["rope_theta"]
    config["rope_theta"] = full.pop("rope_theta")
    if "partial_rotary_factor" in full:
        config["partial_rotary_factor"] = full.pop("partial_rotary_factor")
    if full["rope_type"] == "longrope":
        config["original_max_position_embeddings"] = full.pop("original_max_position_embeddings")
    config["rope_scaling"] = full if full["rope_type"] != "default" else None
    config["torch_dtype"] = config.pop("dtype")
    if config["model_type"] == "ministral3":
        config["rope_scaling"]["type"] = config["rope_scaling"].pop("rope_type")
    path.write_text(json.dumps(config, indent=2))


def pack_experts(network):
    """Random codes of MXFP4 by name, and what transformers makes of them in the network; smaller the more of them are summed,
    as all weights are, or most of the values would lie beyond swiglu_limit."""
    packed = {}
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                experts, inner, outer = parameter.shape
                blocks = torch.randint(0, 256, (experts, outer, inner // 32, 16), dtype=torch.uint8)
                least = 122 - round(math.log2(inner / 64) / 2)
                scales = torch.randint(least, least + 4, (experts, outer, inner // 32), dtype=torch.uint8)
                parameter.copy_(convert_moe_packed_tensors(blocks, scales))
                packed |= {name + "_blocks": blocks, name + "_scales": scales}
    return packed


def save_packed(folder, packed, quantization):
    """The same model beside `folder` as gpt-oss is published, with this quantization_config."""
    published = folder.with_name(folder.name + "-published")
    shutil.rmtree(published, ignore_errors=True)
    shutil.copytree(folder, published)
    tensors = load_file(folder / "model.safetensors")
    tensors = {name: tensor for name, tensor in tensors.items() if name + "_blocks" not in packed}
    save_file(tensors | packed, published / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = quantization
    (published / "config.json").write_text(json.dumps(config))


def given_to_sft(folder):
    """The folder of the model that `sft` reads."""
    published = folder.with_name(folder.name + "-published")
    return published if published.exists() else folder


def documents_of(rng):
    """Lengths of the documents of four rows of at most MAX_LENGTH tokens; the tails are padding."""
    rows = []
    for _ in range(4):
        lengths, left = [], hub_models.MAX_LENGTH
        for _ in range(rng.randint(1, 5)):
            length = min(left, rng.choice([1, 2, rng.randint(3, 20), rng.randint(20, 70), hub_models.MAX_LENGTH]))
            if length > 0:
                lengths.append(length)
            left -= length
        rows.append(lengths)
    return rows
