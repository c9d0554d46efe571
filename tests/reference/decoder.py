# SPDX-License-Identifier: Apache-2.0
"""A decoder in plain PyTorch, one document at a time: the first witness of tests/reference."""
import math

import torch
import torch.nn.functional as F

from models import BLOCK_NORMS, CORRECTION, has_experts


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
    def product(part):
        return F.linear(h, block[f"{name}.{part}_proj.weight"], block.get(f"{name}.{part}_proj.bias"))
    is_gated = name + ".gate_proj.weight" in block
    act = gate_function(product("gate")) * product("up") if is_gated else gate_function(product("up"))
    return F.linear(act, block[name + ".down_proj.weight"], block.get(name + ".down_proj.bias"))


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
    grouped = (scores + block[CORRECTION]).unflatten(1, (model.get("n_group", 1), -1))
    groups = grouped.topk(2)[0].sum(-1).topk(model.get("topk_group", 1))[1]
    is_open = torch.zeros(grouped.shape[:2], dtype=bool).scatter(1, groups, True)
    choices = grouped.masked_fill(~is_open[:, :, None], -torch.inf).flatten(1).topk(model["num_experts_per_tok"])[1]
    weights = scores * torch.zeros_like(scores).scatter(1, choices, 1.0)
    if model.get("norm_topk_prob"):
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
    weights = weights * model.get("routed_scaling_factor", 1.0)
    routed = sum(weights[:, [e]] * mlp_of(block, f"mlp.experts.{e}", h) for e in range(model["num_experts"]))
    return routed + mlp_of(block, "mlp.shared_experts", h) if model.get("n_shared_experts") else routed


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
    gate_function = {"silu": F.silu, "gelu_pytorch_tanh": lambda y: F.gelu(y, approximate="tanh"),
                     "relu2": lambda y: F.relu(y).square()}[model.get("hidden_act", "silu")]
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
            return y if norm is None or model.get("qk_norm_after_rope") else rms_norm(y, norm + offset, epsilon)
        h = normed(x, 0)
        scale = attention_factor(rope)
        q, k, v = heads("q"), heads("k"), heads("v")
        if model.get("no_rope_layers", [1] * (layer + 1))[layer]:
            q, k = rotate(q, angles, scale) * growth(model, length), rotate(k, angles, scale)
        if model.get("qk_norm_after_rope"):
            q, k = (rms_norm(y, block[f"self_attn.{name}_norm.weight"], epsilon) for y, name in ((q, "q"), (k, "k")))
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
