#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""LoRA against PEFT: the same adapters, losses and merged weights.

usage: lora.py SFT_BIN_FOLDER [--ranks N ...]

Needs torch, transformers, peft, bitsandbytes, accelerate, safetensors, h5py, and mpirun. For each case `sft` leaves the adapters of step 0
(max_steps = 0); PEFT loads them and torch.optim.AdamW trains them on the rows that `sft` trains on, in float32 without
dropout. Losses and gradient norms of every step must agree on every mesh, and so must the adapters in the end. Where
adapters begin with a part of the weights, PEFT makes them itself, and what it trains must be the model as it was with the
adapter that the run left. Then
`sft-convert --merge` must give what PEFT's merge_and_unload gives, also from bf16 weights. So it must for adapters that PEFT
made with target_modules of every form, and `sft-generate --adapter` must read them. Losses on a base in 4 bits must be those
of bitsandbytes. Last come adapters of experts: expert_adapters.py, one model of each family.
"""
import json
import subprocess
import sys

import peft
import peft.optimizers
import torch
import transformers
from safetensors.torch import load_file

import expert_adapters
import hub_models

STEPS = 5
RATE = 1e-2
LOSS_TOLERANCE = 2e-5  # relative; AdamW divides small gradients by their own size
CASES = {
    "llama": ("llama", ["--lora.lora_r", "4"]),
    "qwen2, some modules": ("qwen2", ["--lora.lora_r", "3", "--lora.lora_target_modules", "q_proj,v_proj,down_proj"]),
    "qwen3, rslora": ("qwen3", ["--lora.lora_r", "8", "--lora.lora_alpha", "4", "--lora.use_rslora", "true"]),
    "bf16 weights": ("bf16", ["--lora.lora_r", "4"]),
    "patterns": ("llama", ["--lora.lora_r", "4", "--lora.rank_pattern", '{"q_proj": 2, "layers.1.mlp.(up|down)_proj": 7}',
                           "--lora.alpha_pattern", '{".*mlp.*": 3.5, "o_proj": 64}']),
    "one block": ("qwen2", ["--lora.lora_r", "4", "--lora.layers_to_transform", "1", "--lora.layers_pattern", "layers"]),
    "gaussian": ("llama", ["--lora.lora_r", "4", "--lora.init_lora_weights", "gaussian"]),
    "both random": ("llama", ["--lora.lora_r", "4", "--lora.lora_alpha", "4", "--lora.init_lora_weights", "false"]),
    "whole modules": ("llama", ["--lora.lora_r", "4", "--lora.modules_to_save", "embed_tokens lm_head input_layernorm"]),
    "norms": ("qwen3", ["--lora.lora_r", "4", "--lora.modules_to_save", "norm"]),
    "DoRA": ("llama", ["--lora.lora_r", "4", "--lora.use_dora", "true"]),
    "DoRA, biases, some modules": ("qwen2", ["--lora.lora_r", "3", "--lora.use_dora", "true", "--lora.lora_target_modules",
                                             "q_proj,v_proj,o_proj,gate_proj"]),
    "DoRA, both random, bf16": ("bf16", ["--lora.lora_r", "4", "--lora.use_dora", "true", "--lora.init_lora_weights", "false",
                                         "--lora.lora_alpha", "4"]),
    "LoRA+, DoRA": ("llama", ["--lora.lora_r", "4", "--lora.use_dora", "true", "--lora.loraplus_lr_ratio", "4"]),
    "LoRA+": ("llama", ["--lora.lora_r", "4", "--lora.modules_to_save", "post_attention_layernorm lm_head",
                        "--lora.loraplus_lr_ratio", "4"]),
}


# Adapters that begin with a part of the weights, by the options of LoraConfig.
SPLITS = {
    "PiSSA": ("llama", dict(r=4, init_lora_weights="pissa")),
    "PiSSA, ranks, rslora": ("bf16", dict(r=4, rank_pattern={"q_proj": 2, "down_proj": 7}, use_rslora=True,
                                          init_lora_weights="pissa")),
    # So many iterations that it does not matter which matrix they began from.
    "PiSSA, nearly": ("qwen2", dict(r=3, init_lora_weights="pissa_niter_5000", target_modules=["q_proj", "v_proj", "down_proj"])),
    "OLoRA": ("qwen3", dict(r=4, lora_alpha=3, init_lora_weights="olora")),
    "OLoRA, DoRA": ("llama", dict(r=4, use_dora=True, init_lora_weights="olora")),
    "PiSSA, DoRA, alphas": ("llama", dict(r=4, use_dora=True, alpha_pattern={"o_proj": 64}, init_lora_weights="pissa")),
}
# On files that hold several of the model's matrices as one, where PEFT has one adapter for them.
FUSED = {
    "plain": dict(r=3),
    "ranks and alphas": dict(r=3, rank_pattern={"q_proj": 2, "layers.1.mlp.up_proj": 6}, alpha_pattern={"v_proj": 3}),
    "one block, rslora": dict(r=4, layers_to_transform=1, rank_pattern={"k_proj": 7}, use_rslora=True),
    "norms": dict(r=3, modules_to_save="norm lm_head", alpha_pattern={"gate_proj": 5}),
    "DoRA": dict(r=3, use_dora=True, rank_pattern={"k_proj": 5}),
    "PiSSA, some modules": dict(r=3, init_lora_weights="pissa", target_modules=["q_proj", "v_proj", "up_proj", "o_proj"],
                                rank_pattern={"v_proj": 5}),
}
FOUR_BITS = {
    "nf4": dict(bnb_4bit_quant_type="nf4"),
    "nf4, double": dict(bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True),
    "fp4": dict(bnb_4bit_quant_type="fp4"),
}
TARGETS = {
    "names": ["q_proj", "up_proj"],
    "paths": ["model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj"],
    "ends of paths": ["layers.1.self_attn.o_proj", "mlp.gate_proj"],
    "a regular expression": r"model\.layers\.\d+\.(?:self_attn|mlp)\.(?P<which>q|up)_proj",
    "a look-behind": r".*(?<!gate)_proj",
    "all-linear": "all-linear",
    "none named": None,
}


def losses_of(output):
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines], [line["grad_norm"] for line in lines]


def batch_loss(network, tokens, weights):
    total, weight_sum = 0.0, 0.0
    for row, lengths in enumerate(hub_models.DOCUMENT_LENGTHS):
        begin = 0
        for length in lengths:
            document = torch.from_numpy(tokens[row, begin:begin + length]).long()[None]
            weight = torch.from_numpy(weights[row, begin + 1:begin + length])
            if length > 1:
                logits = network(input_ids=document, use_cache=False).logits[0]
                nll = torch.nn.functional.cross_entropy(logits[:-1], document[0, 1:], reduction="none")
                total, weight_sum = total + (weight * nll).sum(), weight_sum + weight.sum().item()
            begin += length
    return total / weight_sum


def load_base(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


def train_peft(folder, adapter, tokens, weights, rate, rate_ratio, epsilon=1e-8):
    network = peft.PeftModel.from_pretrained(load_base(folder), adapter, is_trainable=True).train()
    losses, norms = train_network(network, tokens, weights, rate, rate_ratio, epsilon)
    return losses, norms, peft.get_peft_model_state_dict(network)


def train_network(network, tokens, weights, rate, rate_ratio, epsilon=1e-8):
    parameters = [p for p in network.parameters() if p.requires_grad]
    optimizer = peft.optimizers.create_loraplus_optimizer(network, torch.optim.AdamW, lr=rate,
                                                          loraplus_lr_ratio=rate_ratio, eps=epsilon)
    losses, norms = [], []
    for _ in range(STEPS):
        loss = batch_loss(network, tokens, weights)
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, 1.0).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


def check_merge(binaries, folder, adapter, work, name):
    merged = work / ("merged-" + name)
    subprocess.run([binaries / "sft-convert", "--merge", folder, adapter, merged], check=True, capture_output=True)
    base = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    expected = peft.PeftModel.from_pretrained(base, adapter).merge_and_unload().state_dict()
    ours = transformers.AutoModelForCausalLM.from_pretrained(merged, dtype="auto").state_dict()
    assert expected.keys() == ours.keys()
    worst = 0.0
    for key, tensor in expected.items():
        assert tensor.dtype == ours[key].dtype, key
        worst = max(worst, (tensor.float() - ours[key].float()).abs().max().item() / tensor.float().abs().max().item())
    return worst


def check_targets(name, binaries, work):
    """An adapter of PEFT, with random matrices."""
    folder = work / "targets-base"
    if not folder.exists():
        hub_models.make_model("llama", folder)
    torch.manual_seed(5)
    base = transformers.AutoModelForCausalLM.from_pretrained(folder)
    network = peft.get_peft_model(base, peft.LoraConfig(r=3, lora_alpha=5, target_modules=TARGETS[name], task_type="CAUSAL_LM"))
    num_adapted = 0
    with torch.no_grad():
        for key, parameter in network.named_parameters():
            if "lora_" in key:
                parameter.copy_(torch.randn_like(parameter) / parameter.shape[1] ** 0.5)
                num_adapted += "lora_A" in key
    adapter = work / ("targets-" + name)
    network.save_pretrained(adapter)
    config = json.loads((adapter / "adapter_config.json").read_text())
    config["target_modules"] = TARGETS[name]  # as it was given: PEFT saves what it found
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    merge = check_merge(binaries, folder, adapter, work, "targets-" + name)
    done = subprocess.run([binaries / "sft-generate", folder, "--adapter", adapter, "--tokenizer", "byte", "--prompt", "\n",
                           "--max_new_tokens", "3", "--json"], capture_output=True, text=True)
    reads = done.returncode == 0
    agrees = merge <= 1e-6 and reads
    print(f"{'ok  ' if agrees else 'FAIL'} target_modules: {name:22} {num_adapted} matrices, merged +- {merge:.1e}"
          + ("" if reads else "   sft-generate: " + done.stderr.strip()), flush=True)
    return agrees


def check_case(name, binaries, work, ranks):
    model, options = CASES[name]
    folder = hub_models.make_model(model, work / model)
    shard = work / (model + ".h5")
    tokens, weights = hub_models.write_rows(shard, json.loads((folder / "config.json").read_text())["vocab_size"])
    ratio = float(options[options.index("--lora.loraplus_lr_ratio") + 1]) if "LoRA+" in name else 1.0
    common = ["--lora.use_peft", "true", "--lora.lora_dropout", "0", "--optimizer.learning_rate", str(RATE / ratio),
              "--optimizer.lr_scheduler_type", "constant", *options]
    start = work / ("start-" + name)
    hub_models.run_sft(binaries, folder, shard, start, (1, 1, 1, 1), [*common, "--train.max_steps", "0"])
    losses, norms, adapters = train_peft(folder, start / "adapter", tokens, weights, RATE / ratio, ratio)
    worst_loss, worst_norm, worst_adapter = 0.0, 0.0, 0.0
    for num_ranks in ranks:
        for mesh in hub_models.meshes(num_ranks):
            output = work / (f"output-{name}-" + "x".join(map(str, mesh)))
            hub_models.run_sft(binaries, folder, shard, output, mesh, [*common, "--train.max_steps", str(STEPS)])
            got_losses, got_norms = losses_of(output)
            worst_loss = max(worst_loss, max(abs(a - b) / b for a, b in zip(got_losses, losses, strict=True)))
            worst_norm = max(worst_norm, max(abs(a - b) / b for a, b in zip(got_norms, norms, strict=True)))
            trained = load_file(output / "adapter" / "adapter_model.safetensors")
            assert trained.keys() == adapters.keys(), trained.keys() ^ adapters.keys()
            for key, tensor in adapters.items():
                worst_adapter = max(worst_adapter, ((tensor - trained[key]).norm() / tensor.norm()).item())
    merge = check_merge(binaries, folder, output / "adapter", work, name)
    merge_tolerance = 2.0 ** -9 if model == "bf16" else 1e-6  # a sum that lies between two bf16 numbers
    agrees = worst_loss < LOSS_TOLERANCE and worst_norm < 1e-3 and worst_adapter < 1e-2 and merge <= merge_tolerance
    print(f"{'ok  ' if agrees else 'FAIL'} {name:22} loss {losses[0]:.5f} to {losses[-1]:.5f} +- {worst_loss:.1e}   norm "
          f"+- {worst_norm:.1e}   adapters +- {worst_adapter:.1e}   merged +- {merge:.1e}", flush=True)
    return agrees


def sft_options(config):
    names = {"r": "lora_r", "target_modules": "lora_target_modules"}
    options = []
    for key, value in config.items():
        text = json.dumps(value) if isinstance(value, (dict, bool)) else ",".join(value) if isinstance(value, list) else str(value)
        options += ["--lora." + names.get(key, key), text]
    return options


def check_split(name, binaries, work, ranks):
    """Adapters that begin with a part of the weights: the run's beside the model as it was is PEFT's beside what is left."""
    model, config = SPLITS[name]
    folder = hub_models.make_model(model, work / model)
    shard = work / (model + ".h5")
    tokens, weights = hub_models.write_rows(shard, json.loads((folder / "config.json").read_text())["vocab_size"])
    settings = {"lora_alpha": 32, "target_modules": "all-linear", **config}
    network = peft.get_peft_model(load_base(folder), peft.LoraConfig(task_type="CAUSAL_LM", **settings)).train()
    losses, norms = train_network(network, tokens, weights, RATE, 1.0)
    before, expected = load_base(folder).state_dict(), network.merge_and_unload().state_dict()
    worst_loss, worst_norm, worst_weight, worst_rest = 0.0, 0.0, 0.0, 0.0
    for num_ranks in ranks:
        for mesh in hub_models.meshes(num_ranks):
            output = work / (f"output-{name}-" + "x".join(map(str, mesh)))
            hub_models.run_sft(binaries, folder, shard, output, mesh,
                               ["--lora.use_peft", "true", "--lora.lora_dropout", "0", "--optimizer.learning_rate", str(RATE),
                                "--optimizer.lr_scheduler_type", "constant", *sft_options(config), "--train.max_steps", str(STEPS)])
            got_losses, got_norms = losses_of(output)
            worst_loss = max(worst_loss, max(abs(a - b) / b for a, b in zip(got_losses, losses, strict=True)))
            worst_norm = max(worst_norm, max(abs(a - b) / b for a, b in zip(got_norms, norms, strict=True)))
            loaded = peft.PeftModel.from_pretrained(load_base(folder), output / "adapter").merge_and_unload().state_dict()
            for key, tensor in expected.items():
                moved = (tensor - before[key]).norm().item()
                if moved > 0:
                    worst_weight = max(worst_weight, (tensor - loaded[key]).norm().item() / moved)
                else:
                    worst_rest = max(worst_rest, (tensor - loaded[key]).abs().max().item())
    merge = check_merge(binaries, folder, output / "adapter", work, name)
    merge_tolerance = 2.0 ** -8 if model == "bf16" else 1e-5  # what is subtracted and added is as large as the weight itself
    agrees = (worst_loss < LOSS_TOLERANCE and worst_norm < 1e-3 and worst_weight < 1e-2 and worst_rest == 0
              and merge <= merge_tolerance)
    print(f"{'ok  ' if agrees else 'FAIL'} {name:22} loss {losses[0]:.5f} to {losses[-1]:.5f} +- {worst_loss:.1e}   norm "
          f"+- {worst_norm:.1e}   what the weights moved +- {worst_weight:.1e}   merged +- {merge:.1e}", flush=True)
    return agrees


def check_fused(name, binaries, work, ranks):
    """PEFT loads what a run leaves of a Phi-3, and has the loss that the run's next step begins with."""
    hub_models.CASES["phi3"] = ("Phi3", dict(pad_token_id=0))
    folder = hub_models.make_model("phi3", work / "phi3")
    shard = work / "phi3.h5"
    tokens, weights = hub_models.write_rows(shard, json.loads((folder / "config.json").read_text())["vocab_size"])
    worst_loss, moved = 0.0, 0.0
    for num_ranks in ranks:
        mesh = hub_models.meshes(num_ranks)[0]
        for steps in (STEPS - 1, STEPS):
            output = work / (f"output-fused-{name}-{steps}-" + "x".join(map(str, mesh)))
            hub_models.run_sft(binaries, folder, shard, output, mesh,
                               ["--lora.use_peft", "true", "--lora.lora_dropout", "0", "--optimizer.learning_rate", str(RATE),
                                "--optimizer.lr_scheduler_type", "constant", *sft_options(FUSED[name]),
                                "--train.max_steps", str(steps)])
            if steps < STEPS:
                adapter = output / "adapter"
        network = peft.PeftModel.from_pretrained(load_base(folder), adapter)
        with torch.no_grad():
            loss = batch_loss(network, tokens, weights).item()
        losses, _ = losses_of(output)
        worst_loss, moved = max(worst_loss, abs(loss - losses[-1]) / loss), abs(losses[0] - losses[-1])
    merge = check_merge(binaries, folder, adapter, work, "fused-" + name)
    agrees = worst_loss < LOSS_TOLERANCE and moved > 1e-2 and merge <= 1e-5
    print(f"{'ok  ' if agrees else 'FAIL'} Phi-3, {name:20} loss {losses[0]:.5f} to {losses[-1]:.5f}, of PEFT +- {worst_loss:.1e}   "
          f"merged +- {merge:.1e}", flush=True)
    return agrees


def check_four_bits(name, binaries, work, ranks):
    """Adapters on a base in 4 bits: the losses of bitsandbytes, which makes the base and computes in float32."""
    # Rows of whole blocks: of others bitsandbytes 0.50 on CPUs makes other numbers than it stored.
    hub_models.CASES["whole blocks"] = ("Qwen2", dict(hidden_size=256, intermediate_size=512))
    plain, folder = hub_models.make_model("whole blocks", work / "plain"), work / ("base-" + name)
    config = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float32, **FOUR_BITS[name])
    transformers.AutoModelForCausalLM.from_pretrained(plain, quantization_config=config, dtype=torch.float32,
                                                      device_map="cpu").save_pretrained(folder)
    shard = work / "four_bits.h5"
    tokens, weights = hub_models.write_rows(shard, json.loads((folder / "config.json").read_text())["vocab_size"])
    # Gradients of few values, as codes stand for, often cancel out: AdamW moves what rounding leaves of them by the whole
    # rate, which at RATE grows a hundredfold within five steps, on meshes of sft, too.
    rate, epsilon = RATE / 10, 1e-6
    common = ["--lora.use_peft", "true", "--lora.lora_dropout", "0", "--lora.lora_r", "4", "--optimizer.learning_rate",
              str(rate), "--optimizer.lr_scheduler_type", "constant", "--optimizer.adam_epsilon", str(epsilon)]
    start = work / ("start-" + name)
    hub_models.run_sft(binaries, folder, shard, start, (1, 1, 1, 1), [*common, "--train.max_steps", "0"])
    losses, norms, _ = train_peft(folder, start / "adapter", tokens, weights, rate, 1.0, epsilon)
    kept = ["--lora.load_in_4bit", "true", "--lora.bnb_4bit_quant_type", FOUR_BITS[name]["bnb_4bit_quant_type"],
            "--lora.use_bnb_nested_quant", str("bnb_4bit_use_double_quant" in FOUR_BITS[name]).lower()]
    agrees = True
    for what, base, options in [("as numbers", folder, []), ("codes as they are", folder, kept), ("codes of sft", plain, kept)]:
        worst_loss, worst_norm = 0.0, 0.0
        for num_ranks in ranks:
            for mesh in hub_models.meshes(num_ranks):
                output = work / (f"output-{name}-{what}-" + "x".join(map(str, mesh)))
                hub_models.run_sft(binaries, base, shard, output, mesh, [*common, *options, "--train.max_steps", str(STEPS)])
                got_losses, got_norms = losses_of(output)
                worst_loss = max(worst_loss, max(abs(a - b) / b for a, b in zip(got_losses, losses, strict=True)))
                worst_norm = max(worst_norm, max(abs(a - b) / b for a, b in zip(got_norms, norms, strict=True)))
        is_same = worst_loss < LOSS_TOLERANCE and worst_norm < 1e-3
        agrees = agrees and is_same
        print(f"{'ok  ' if is_same else 'FAIL'} {name + ', ' + what:30} loss {losses[0]:.5f} to {losses[-1]:.5f} "
              f"+- {worst_loss:.1e}   norm +- {worst_norm:.1e}", flush=True)
    return agrees


def check(binaries, work, ranks):
    results = [check_targets(name, binaries, work) for name in TARGETS]
    results += [check_case(name, binaries, work, ranks) for name in CASES]
    results += [check_split(name, binaries, work, ranks) for name in SPLITS]
    results += [check_fused(name, binaries, work, ranks) for name in FUSED]
    results += [check_four_bits(name, binaries, work, ranks) for name in FOUR_BITS]
    return results + expert_adapters.check(binaries, work, ranks)


if __name__ == "__main__":
    sys.exit(hub_models.check_on_meshes(__doc__, check))
