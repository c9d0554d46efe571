#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random small models of every family against transformers: loss, every gradient, and what is written back.

usage: families.py SFT_BIN_FOLDER [--only FAMILY ...] [--cases N] [--first N] [--ranks N ...]

Needs torch, transformers, safetensors, h5py, and mpirun. A case has a number, from which its sizes, switches, weights,
mesh and memory settings follow. transformers computes it in float64 (rotations, norms and softmax are float32 even
there, but with --exact), one document at a time; `sft` makes one step of SGD on one rank and on a random mesh, so that the change of each
tensor is its gradient. transformers then loads what the run has left and has the loss that its own model has after the
same step. A model with experts whose gradient transformers itself cannot compute to 1e-5 in float32, where a gate lies at
its limit, or the choice of an expert at a tie, or terms of a router's bias cancel, says nothing: another one is drawn.
"""
import argparse
import importlib
import inspect
import json
import pathlib
import random
import re
import shutil
import sys
import tempfile

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

import hub_models

TOLERANCE = 1e-5  # relative, of the loss and of each tensor's gradient in the L2 norm
LEARNING_RATE = 16.0


def rope_of(rng):
    kind = rng.choice(["default", "default", "linear", "llama3", "yarn"])
    fields = {"default": {}, "linear": dict(factor=4.0), "llama3": hub_models.LLAMA3,
              "yarn": dict(factor=4.0, original_max_position_embeddings=64)}[kind]
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=rng.choice([1e4, 5e5]), **fields))


def sizes_of(rng):
    """Sizes that tp_size = 4 divides."""
    kv_heads = rng.choice([1, 2, 4])
    heads = kv_heads * rng.choice([4, 8]) if kv_heads == 1 else kv_heads * rng.choice([2, 4])
    head_dim = rng.choice([8, 12, 16])
    return dict(hidden_size=heads * head_dim, intermediate_size=rng.choice([40, 64, 92]),
                num_hidden_layers=rng.randint(1, 5), num_attention_heads=heads, num_key_value_heads=kv_heads,
                vocab_size=rng.randint(80, 130), max_position_embeddings=256, rms_norm_eps=rng.choice([1e-5, 1e-6]),
                tie_word_embeddings=rng.random() < 0.5, pad_token_id=None, bos_token_id=None, eos_token_id=None)


def biases(rng):
    return dict(attention_bias=rng.random() < 0.5, mlp_bias=rng.random() < 0.5)


def smollm3(rng, sizes):
    fields = dict(no_rope_layer_interval=rng.randint(1, 4))
    if rng.random() < 0.5:
        fields = dict(no_rope_layers=[rng.randint(0, 1) for _ in range(sizes["num_hidden_layers"])])
    return fields | biases(rng) | rope_of(rng)


def granite(rng, sizes):
    return dict(embedding_multiplier=rng.uniform(0.5, 12), attention_multiplier=rng.uniform(0.05, 0.5),
                residual_multiplier=rng.uniform(0.2, 1.2), logits_scaling=rng.uniform(0.5, 8)) | biases(rng) | rope_of(rng)


def phi3(rng, sizes):
    """Phi-3 and 4: rows within the original context, for which alone frequencies are known beforehand."""
    head_dim = sizes["hidden_size"] // sizes["num_attention_heads"]
    part = rng.choice([0.5, 0.75, 1.0])
    if int(head_dim * part) % 2 != 0:
        part = 0.5  # pairs are rotated
    fields = dict(rope_theta=1e4, rope_type="default", partial_rotary_factor=part)
    if rng.random() < 0.6:
        num_pairs = int(head_dim * part) // 2
        fields |= dict(rope_type="longrope", short_factor=[rng.uniform(1, 2) for _ in range(num_pairs)],
                       long_factor=[rng.uniform(2, 8) for _ in range(num_pairs)])
    return dict(rope_parameters=fields, original_max_position_embeddings=128,
                sliding_window=rng.choice([None, 7, 200]))


def ministral3(rng, sizes):
    rope = dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=rng.choice([8, 32]),
                llama_4_scaling_beta=rng.choice([0.1, 0.5]), mscale=1.0, mscale_all_dim=1.0)
    return dict(head_dim=rng.choice([8, 16]), rope_parameters=rope, sliding_window=rng.choice([None, None, 9]))


def glm4(rng, sizes):
    return dict(head_dim=rng.choice([8, 16]), attention_bias=rng.random() < 0.7,
                rope_parameters=dict(rope_type="default", rope_theta=1e4,
                                     partial_rotary_factor=rng.choice([0.5, 0.5, 1.0])))


def windows_of(rng, sizes):
    """Of models whose layers slide but for some, and rotary embeddings of both kinds."""
    full = rope_of(rng)["rope_parameters"]
    if full["rope_type"] not in ("default", "linear", "yarn"):
        full = dict(rope_type="default", rope_theta=1e6)
    local = dict(rope_type="default", rope_theta=rng.choice([1e4, full["rope_theta"]]))
    types = [rng.choice(["full_attention", "sliding_attention"]) for _ in range(sizes["num_hidden_layers"])]
    return dict(layer_types=types, sliding_window=rng.choice([1, 3, 16, 33, 64]),
                rope_parameters=dict(full_attention=full, sliding_attention=local))


def attention_bias(rng):
    return dict(attention_bias=rng.random() < 0.3)


def gemma3(rng, sizes):
    return dict(head_dim=rng.choice([8, 16]), query_pre_attn_scalar=rng.choice([5, 16, 168]),
                final_logit_softcapping=rng.choice([None, 3.0])) | attention_bias(rng) | windows_of(rng, sizes)


def gemma2(rng, sizes):
    fields = dict(head_dim=rng.choice([8, 16]), query_pre_attn_scalar=rng.choice([5, 16, 144]),
                  attn_logit_softcapping=rng.choice([None, 1.5, 50.0]), final_logit_softcapping=rng.choice([None, 2.0, 30.0]))
    windows = windows_of(rng, sizes)
    del windows["rope_parameters"]
    return fields | attention_bias(rng) | windows | dict(rope_parameters=dict(rope_type="default", rope_theta=1e4))


def mistral(rng, sizes):
    return dict(head_dim=rng.choice([None, 16]), sliding_window=rng.choice([1, 2, 5, 16, 33, 64, 96, 200])) | rope_of(rng)


def windows_of_qwen(rng, sizes):
    layers = sizes["num_hidden_layers"]
    fields = dict(use_sliding_window=True, sliding_window=rng.choice([1, 3, 16, 31, 64]),
                  max_window_layers=rng.randint(0, layers))
    if rng.random() < 0.5:
        fields["layer_types"] = [rng.choice(["full_attention", "sliding_attention"]) for _ in range(layers)]
    return fields | rope_of(rng)


def qwen3_moe(rng, sizes):
    layers, experts = sizes["num_hidden_layers"], rng.choice([4, 7, 16])
    dense = [layer for layer in range(1, layers) if rng.random() < 0.3]
    choices = rng.randint(1, min(experts, 5))
    # A single weight that is normalized is 1: what is left of the router's gradient is that of rounding.
    return dict(head_dim=rng.choice([8, 16]), num_experts=experts, num_experts_per_tok=choices,
                moe_intermediate_size=rng.choice([8, 12, 32]), norm_topk_prob=choices > 1 and rng.random() < 0.5,
                mlp_only_layers=dense, decoder_sparse_step=rng.choice([1, 1, 2]) if layers > 1 else 1,
                router_aux_loss_coef=rng.choice([0.0, 0.001, 0.1]), attention_bias=rng.random() < 0.3) | rope_of(rng)


def mixtral(rng, sizes):
    experts = rng.choice([2, 4, 8])
    head_dim = sizes["hidden_size"] // sizes["num_attention_heads"]  # which transformers needs for yarn
    return dict(num_local_experts=experts, num_experts_per_tok=rng.randint(2, min(experts, 3)), head_dim=head_dim,
                sliding_window=rng.choice([None, None, 16]), router_aux_loss_coef=rng.choice([0.0, 0.02])) | rope_of(rng)


def gpt_oss(rng, sizes):
    """Clamps that act; windows shorter and longer than documents."""
    experts = rng.choice([2, 4, 6])
    rope = dict(rope_type="yarn", rope_theta=1.5e5, factor=8.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                original_max_position_embeddings=rng.choice([16, 64]))
    layers = sizes["num_hidden_layers"]
    types = [rng.choice(["full_attention", "sliding_attention"]) for _ in range(layers - 1)] + ["sliding_attention"]
    return dict(head_dim=rng.choice([8, 16]), num_local_experts=experts,
                num_experts_per_tok=rng.randint(2, min(experts, 4)), sliding_window=rng.choice([1, 7, 16, 64]),
                rope_parameters=rope, swiglu_limit=rng.choice([0.7, 2.0, 7.0]),
                router_aux_loss_coef=rng.choice([0.0, 0.05]), attention_bias=rng.random() < 0.8,
                **(dict(layer_types=types) if rng.random() < 0.7 else {}))


def glm4_moe(rng, sizes):
    experts, groups = rng.choice([(4, 1), (7, 1), (16, 1), (16, 4), (12, 3)])
    chosen_groups = rng.randint(1, groups)
    choices = rng.randint(1, min(chosen_groups * (experts // groups), 5))
    layers = sizes["num_hidden_layers"] = max(2, sizes["num_hidden_layers"])
    # As of qwen3_moe, a single normalized weight has no gradient but rounding.
    return dict(head_dim=rng.choice([8, 16]), n_routed_experts=experts, num_experts_per_tok=choices, n_group=groups,
                topk_group=chosen_groups, moe_intermediate_size=rng.choice([8, 12, 32]),
                norm_topk_prob=choices > 1 and rng.random() < 0.7, routed_scaling_factor=rng.choice([1.0, 2.5]),
                n_shared_experts=rng.randint(1, 3), first_k_dense_replace=rng.randint(0, layers - 1),
                use_qk_norm=rng.random() < 0.5, attention_bias=rng.random() < 0.5,
                rope_parameters=dict(rope_type="default", rope_theta=1e4,
                                     partial_rotary_factor=rng.choice([0.5, 0.5, 1.0])))
def gpt_oss_mxfp4(rng, sizes):
    """Widths of whole blocks."""
    return gpt_oss(rng, sizes) | dict(hidden_size=rng.choice([32, 96]), intermediate_size=rng.choice([32, 64]))


FAMILIES = {
    "llama": ("Llama", lambda rng, sizes: biases(rng) | rope_of(rng)),
    "qwen3": ("Qwen3", lambda rng, sizes: dict(head_dim=rng.choice([8, 16])) | rope_of(rng)),
    "smollm3": ("SmolLM3", smollm3),
    "granite": ("Granite", granite),
    "mistral": ("Mistral", mistral),
    "qwen2": ("Qwen2", windows_of_qwen),
    "qwen3_windows": ("Qwen3", windows_of_qwen),
    "phi3": ("Phi3", phi3),
    "ministral3": ("Ministral3", ministral3),
    "glm4": ("Glm4", glm4),
    "qwen3_moe": ("Qwen3Moe", qwen3_moe),
    "mixtral": ("Mixtral", mixtral),
    "olmo2": ("Olmo2", lambda rng, sizes: attention_bias(rng) | rope_of(rng)),
    "olmo3": ("Olmo3", lambda rng, sizes: attention_bias(rng) | windows_of(rng, sizes)),
    "gemma2": ("Gemma2", gemma2),
    "gemma3": ("Gemma3", gemma3),
    "gpt_oss": ("GptOss", gpt_oss),
    "glm4_moe": ("Glm4Moe", glm4_moe),
    "gpt_oss_mxfp4": ("GptOss", gpt_oss_mxfp4),
}

CONFIGS = {"gemma3": "Gemma3TextConfig"}  # where the name does not follow


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


def make_model(family, number, folder, attempt=0):
    rng = random.Random(f"{family} {number}" + f" {attempt}" * (attempt > 0))
    prefix, draw = FAMILIES[family]
    sizes = sizes_of(rng)
    fields = draw(rng, sizes)
    config = getattr(transformers, CONFIGS.get(family, prefix + "Config"))(**(sizes | fields))
    torch.manual_seed(rng.randrange(1 << 30))
    network = getattr(transformers, prefix + "ForCausalLM")(config)
    draw_parameters(network)
    packed = pack_experts(network) if family == "gpt_oss_mxfp4" else None
    network.save_pretrained(folder)
    if packed is not None:
        save_packed(folder, packed)
    return rng


def pack_experts(network):
    """Random codes of MXFP4 by name, and what transformers makes of them in the network."""
    packed = {}
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                experts, inner, outer = parameter.shape
                blocks = torch.randint(0, 256, (experts, outer, inner // 32, 16), dtype=torch.uint8)
                scales = torch.randint(122, 126, (experts, outer, inner // 32), dtype=torch.uint8)
                parameter.copy_(convert_moe_packed_tensors(blocks, scales))
                packed |= {name + "_blocks": blocks, name + "_scales": scales}
    return packed


def save_packed(folder, packed):
    """The same model beside `folder` as gpt-oss is published."""
    published = folder.with_name(folder.name + "-published")
    shutil.copytree(folder, published, dirs_exist_ok=True)
    tensors = load_file(folder / "model.safetensors")
    tensors = {name: tensor for name, tensor in tensors.items() if name + "_blocks" not in packed}
    save_file(tensors | packed, published / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = dict(quant_method="mxfp4", modules_to_not_convert=["lm_head"])
    (published / "config.json").write_text(json.dumps(config))


def given_to_sft(folder):
    """The folder of the model that `sft` reads."""
    published = folder.with_name(folder.name + "-published")
    return published if published.exists() else folder


def auxiliary_loss(config, router_logits):
    """The auxiliary loss of all documents together: of each layer's logits, documents one behind the other."""
    module = sys.modules[getattr(transformers, config.architectures[0]).__module__]
    layers = tuple(torch.cat(documents) for documents in zip(*router_logits))
    experts = getattr(config, "num_experts", None) or config.num_local_experts
    return module.load_balancing_loss_func(layers, experts, config.num_experts_per_tok)


def loss_of(network, tokens, weights):
    """The loss of the tokens, and what is added to it for its gradient: the auxiliary loss of experts."""
    total, weight_sum, router_logits = 0.0, 0.0, []
    coefficient = getattr(network.config, "router_aux_loss_coef", 0.0)
    routers = dict(output_router_logits=True) if coefficient else {}
    for row, lengths in enumerate(hub_models.DOCUMENT_LENGTHS):
        begin = 0
        for length in lengths:
            document = torch.from_numpy(tokens[row, begin:begin + length]).long()[None]
            weight = torch.from_numpy(weights[row, begin + 1:begin + length]).double()
            if length > 1 or routers:
                output = network(input_ids=document, use_cache=False, **routers)
                logits = output.logits[0].double()
                if routers:
                    router_logits.append(output.router_logits)
                nll = torch.nn.functional.cross_entropy(logits[:-1], document[0, 1:], reduction="none")
                total, weight_sum = total + (weight * nll).sum(), weight_sum + weight.sum().item()
            begin += length
    added = coefficient * auxiliary_loss(network.config, router_logits) if routers else 0.0
    return total / weight_sum, added


def make_exact(family):
    """Lets the family's classes compute in float64 what they compute in float32 whatever the dtype of the model is."""
    name = type(getattr(transformers, CONFIGS.get(family, FAMILIES[family][0] + "Config"))()).__module__
    for module in ("transformers.modeling_rope_utils", name.replace("configuration_", "modeling_")):
        module = importlib.import_module(module)
        source = re.sub(r"torch\.float(32)?\b", "torch.float64", inspect.getsource(module)).replace(".float()", ".double()")
        exec(compile(source, module.__file__, "exec"), module.__dict__)


def load(folder, dtype=torch.float64):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager",
                                                             experts_implementation="eager").eval()


def step_of_transformers(folder, tokens, weights):
    """Loss, gradients by name, and the loss behind the step."""
    network = load(folder)
    loss, added = loss_of(network, tokens, weights)
    (loss + added).backward()
    gradients = {}
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            gradients[name] = parameter.grad.clone()
            parameter -= LEARNING_RATE * parameter.grad
        return loss.item(), gradients, loss_of(network, tokens, weights)[0].item()


def counting(gradients):
    """Those of some size, beside which others are rounding: that of the bias of keys, which softmax does not see."""
    def size(gradient):
        return gradient.norm().item() / gradient.numel() ** 0.5
    scale = max(map(size, gradients.values()))
    return {name: gradient for name, gradient in gradients.items() if size(gradient) >= 1e-7 * scale}


def float32_is_exact(folder, tokens, weights, gradients):
    """Whether transformers has these gradients in float32, too, with some room to the tolerance."""
    network = load(folder, torch.float32)
    sum(loss_of(network, tokens, weights)).backward()
    found = dict(network.named_parameters())
    return all((found[name].grad.double() - gradient).norm() < TOLERANCE / 4 * gradient.norm()
               for name, gradient in counting(gradients).items())


def make_case(family, number, folder, shard):
    """Model and rows, and what transformers makes of them; the generator of all else that is random in the case."""
    attempt = 0
    while True:
        rng = make_model(family, number, folder, attempt)
        config = load(folder).config
        num_experts = getattr(config, "num_local_experts", 0) or getattr(config, "num_experts", 0)
        tokens, weights = hub_models.write_rows(shard, config.vocab_size)
        loss, gradients, next_loss = step_of_transformers(folder, tokens, weights)
        if num_experts == 0 or float32_is_exact(folder, tokens, weights, gradients):
            return rng, num_experts, (loss, gradients, next_loss, tokens, weights)
        attempt += 1


def mesh_of(rng, num_ranks, num_experts):
    """Axis sizes (dp_replicate, dp_shard, sp, tp) whose product it is, and of a model with experts ep."""
    sizes = [1, 1, 1, 1] + [1] * (num_experts > 0)
    while int(np.prod(sizes)) < num_ranks:
        axis = rng.randrange(len(sizes))
        if axis < 4 or num_experts % (2 * sizes[axis]) == 0:
            sizes[axis] *= 2
    return tuple(sizes)


def options_of(rng, mesh, has_experts):
    options = {"--train.activation_checkpointing": rng.choice(["none", "selective", "full"]),
               "--train.mlp_tile_tokens": rng.choice([0, 0, 16]),
               "--parallel.zero_stage": rng.choice([0, 1, 2, 3, 3]),
               "--parallel.fsdp_units": rng.choice(["block", "parts", 2])}
    if mesh[3] > 1:
        options["--parallel.tp_sequence_parallel"] = rng.choice(["true", "false"])
    if mesh[2] > 1:
        options["--parallel.sp_method"] = rng.choice(["ring", "all_gather", "ulysses"])
    return options


def distance(before, after, gradient):
    """Of the change of a tensor from the step, relative, beyond what float32 rounds off the weights."""
    error = ((before - after) / LEARNING_RATE - gradient).norm().item()
    rounding = 2.0 ** -24 * after.norm().item() / LEARNING_RATE
    return max(0.0, error - rounding) / gradient.norm().clamp_min(1e-12).item()


def check_run(binaries, folder, shard, output, mesh, options, expected):
    """The worst distances of loss, gradient and loss behind the step."""
    loss, gradients, next_loss, tokens, weights = expected
    settings = options | {"--optimizer.optim": "sgd", "--optimizer.learning_rate": LEARNING_RATE,
                          "--optimizer.weight_decay": 0, "--optimizer.max_grad_norm": 0,
                          "--optimizer.lr_scheduler_type": "constant"}
    got = hub_models.run_sft(binaries, given_to_sft(folder), shard, output, mesh, [word for pair in settings.items() for word in pair])[0]
    networks = [load(path) for path in (folder, output / "model")]
    before, after = (dict(network.named_parameters()) for network in networks)
    for (name, one), (_, other) in zip(*(network.named_buffers() for network in networks)):
        if not torch.equal(one, other):
            raise RuntimeError(f"the run has changed {name}")
    worst, worst_name = 0.0, ""
    for name, gradient in counting(gradients).items():
        found = distance(before[name].detach(), after[name].detach(), gradient)
        if found > worst:
            worst, worst_name = found, name
    with torch.no_grad():
        left = loss_of(load(output / "model"), tokens, weights)[0].item()
    return abs(got - loss) / abs(loss), worst, abs(left - next_loss) / abs(next_loss), worst_name


def check_case(family, number, binaries, work, ranks):
    folder = work / "model"
    shard = work / "rows.h5"
    rng, num_experts, expected = make_case(family, number, folder, shard)
    agrees, texts = True, []
    for num_ranks in (1, rng.choice(ranks)):
        mesh = mesh_of(rng, num_ranks, num_experts)
        options = options_of(rng, mesh, has_experts=num_experts > 0)
        output = work / f"output-{num_ranks}"
        shutil.rmtree(output, ignore_errors=True)
        try:
            loss, gradient, left, name = check_run(binaries, folder, shard, output, mesh, options, expected)
        except RuntimeError as error:
            print(f"FAIL {family} {number}: {mesh} {options}: {str(error)[-600:]}", flush=True)
            return False
        fits = max(loss, gradient, left) < TOLERANCE
        agrees = agrees and fits
        texts.append(f"{'x'.join(map(str, mesh))} {loss:.0e} {gradient:.0e} {left:.0e}" + ("" if fits else f" {name} {options}"))
    print(f"{'ok  ' if agrees else 'FAIL'} {family} {number}: " + "; ".join(texts), flush=True)
    return agrees


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", default=list(FAMILIES))
    parser.add_argument("--cases", type=int, default=4)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--exact", action="store_true", help="float64 also where transformers always has float32")
    options = parser.parse_args()
    hub_models.be_quiet()
    results = []
    for family in options.only:
        if options.exact:
            make_exact(family)
        for number in range(options.first, options.first + options.cases):
            with tempfile.TemporaryDirectory(prefix="families-") as work:
                results.append(check_case(family, number, options.binaries, pathlib.Path(work), options.ranks))
    return hub_models.status_of(results)


if __name__ == "__main__":
    sys.exit(main())
