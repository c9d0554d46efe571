# SPDX-License-Identifier: Apache-2.0
"""transformers' own class of a family with the parameters of a fixture: the second witness of tests/reference."""
import functools
import sys

import torch
import transformers

from decoder import batch_loss, rotary_dim
from models import CORRECTION, GEMMA, VOCAB_SIZE, has_experts


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
    if family == "hunyuan":
        return {name.replace("q_norm", "query_layernorm").replace("k_norm", "key_layernorm"): tensor
                for name, tensor in tensors.items()}
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
              "gemma2": "Gemma2", "gemma3": "Gemma3", "gpt_oss": "GptOss", "glm4_moe": "Glm4Moe", "exaone4": "Exaone4",
              "minimax_m2": "MiniMaxM2", "hunyuan": "HunYuanDenseV1", "arcee": "Arcee"}
    known = [name for name in ("qwen3_moe", "glm4_moe", "gpt_oss", "minimax_m2") if family.startswith(name)]
    prefix = prefix[known[0] if known else family.split("_")[0]]
    own_names = ("qk_norm", "attention_output_bias", "rope_theta", "rope_scaling", "block_norms",
                 "partial_rotary_factor", "llama_4_scaling_beta", "attn_logit_softcapping", "attention_sinks",
                 "qk_norm_all_heads", "gated_mlp", "rope_local_base_freq", "expert_form")
    if prefix.startswith("Gemma"):
        own_names += tuple(GEMMA)
    if prefix == "Glm4Moe":
        own_names += ("num_experts", "mlp_only_layers", "router_aux_loss_coef", "scoring_func")
    if prefix == "HunYuanDenseV1":
        own_names += ("qk_norm_after_rope",)
    if prefix == "Exaone4":
        own_names += ("no_rope_layers",)
    if prefix == "MiniMaxM2":
        own_names += ("num_experts", "moe_intermediate_size", "norm_topk_prob", "scoring_func")
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
    if prefix == "MiniMaxM2":
        keys["num_local_experts"] = model["num_experts"]
    if prefix.startswith("Gemma"):
        keys["query_pre_attn_scalar"] = round(keys.pop("attention_multiplier") ** -2)
        keys |= dict(attn_logit_softcapping=None, final_logit_softcapping=model.get("final_logit_softcapping"))
    config = getattr(transformers, "Gemma3TextConfig" if prefix == "Gemma3" else prefix + "Config")(rope_parameters=rope, pad_token_id=None, **keys)
    config._attn_implementation, config._experts_implementation = "eager", "eager"
    network = getattr(transformers, prefix + "ForCausalLM")(config).double()
    change_scores(family, model, network)
    own = dict(network.named_parameters())
    own |= {name.replace("mlp.e_score", "mlp.gate.e_score"): buffer for name, buffer in network.named_buffers()
            if name.endswith(CORRECTION.rpartition(".")[2])}
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
