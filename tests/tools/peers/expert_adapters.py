#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adapters of experts against PEFT, on random small models of all families with experts.

usage: expert_adapters.py SFT_BIN_FOLDER [--ranks N ...] [--models N] [--first N]

Needs what families.py needs, and peft. For each model `sft` leaves new adapters with both matrices random (max_steps = 0),
on linear layers and weights of experts, of ranks, alphas and targets that are drawn. PEFT loads them beside the model and
computes loss and gradients in float64; where it cannot do so in float32, with some room to the tolerance, another model is
drawn. Then `sft` takes one step of plain gradient descent on a random mesh, so that the
change of each matrix is its gradient: both must be PEFT's. What PEFT's merge_and_unload makes of the adapter that the run
left, and of one that PEFT made with random matrices, `sft-convert --merge` must make too, and `sft-generate --adapter` must
give the text of the merged model.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

import peft
import torch
import transformers
from safetensors.torch import load_file

import families
import hub_models
from family_models import documents_of, make_model

TOLERANCE = 1e-5  # relative, of the loss and of each matrix's gradient in the L2 norm
FAMILIES = ["qwen3_moe", "mixtral", "gpt_oss", "glm4_moe"]
TARGETS = [["mlp.experts.gate_up_proj", "mlp.experts.down_proj"], ["gate_up_proj"], ["experts.down_proj"],
           ["gate_up_proj", "model.layers.{}.mlp.experts.down_proj"]]


def layers_with_experts(network):
    return [int(name.split(".")[2]) for name, _ in network.named_parameters() if name.endswith("mlp.experts.down_proj")]


def draw_settings(rng, network):
    """Options of LoraConfig."""
    layer = rng.choice(layers_with_experts(network))
    settings = dict(r=rng.choice([1, 3, 4, 8]), lora_alpha=rng.choice([2, 5, 16]), use_rslora=rng.random() < 0.3,
                    target_parameters=[target.format(layer) for target in rng.choice(TARGETS)],
                    target_modules=rng.choice([[], ["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj"]]))
    if rng.random() < 0.5:
        targets = settings["target_parameters"][0].removeprefix("mlp.")
        settings["rank_pattern"] = {targets: rng.choice([2, 5])}
    if rng.random() < 0.5:
        settings["alpha_pattern"] = {rf"layers\.{layer}\.mlp\.experts\..*": 7}
    return settings


def is_used(pattern, network, settings):
    """`sft` refuses patterns that match no adapter."""
    return any(pattern in name or ".*" in pattern for name, _ in network.named_parameters()
               if any(name.endswith("." + target) for target in settings["target_parameters"]))


def sft_options(settings):
    options = {"--lora.use_peft": "true", "--lora.lora_dropout": 0, "--lora.init_lora_weights": "false",
               "--lora.lora_r": settings["r"], "--lora.lora_alpha": settings["lora_alpha"],
               "--lora.use_rslora": str(settings["use_rslora"]).lower(),
               "--lora.lora_target_modules": ",".join(settings["target_modules"]) or "none",
               "--lora.lora_target_parameters": ",".join(settings["target_parameters"])}
    for name in ("rank_pattern", "alpha_pattern"):
        if name in settings:
            options["--lora." + name] = json.dumps(settings[name])
    return options


def with_adapter(folder, adapter, dtype=torch.float64, **options):
    network = peft.PeftModel.from_pretrained(families.load(folder, dtype), adapter, autocast_adapter_dtype=False, **options)
    assert peft.get_peft_model_state_dict(network).keys() == load_file(adapter / "adapter_model.safetensors").keys()
    return network


def step_of_peft(folder, adapter, rows, dtype=torch.float64):
    network = with_adapter(folder, adapter, dtype, is_trainable=True)
    loss, added = families.loss_of(network, rows)
    (loss + added).backward()
    gradients = {name.replace(".default.", "."): parameter.grad for name, parameter in network.named_parameters()
                 if parameter.requires_grad}
    return loss.item(), gradients


def merge_distance(binaries, folder, adapter, merged):
    subprocess.run([binaries / "sft-convert", "--merge", folder, adapter, merged, "--dtype", "float32"], check=True,
                   capture_output=True)
    expected = with_adapter(folder, adapter).merge_and_unload().state_dict()
    found = families.load(merged).state_dict()
    assert expected.keys() == found.keys(), expected.keys() ^ found.keys()
    return max(((found[key] - tensor).norm() / tensor.norm().clamp_min(1e-12)).item() for key, tensor in expected.items())


def text_of(binaries, *words):
    done = subprocess.run([binaries / "sft-generate", *map(str, words), "--tokenizer", "byte", "--prompt", "!!", "--json",
                           "--max_new_tokens", "6"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)["new_tokens"]


def float32_is_exact(folder, adapter, rows, gradients):
    """Whether PEFT has these gradients in float32, too, with some room to the tolerance: families.py."""
    _, found = step_of_peft(folder, adapter, rows, torch.float32)
    return all((found[name].double() - gradient).norm() < TOLERANCE / 4 * gradient.norm()
               for name, gradient in families.counting(gradients).items())


def check_model(family, number, binaries, work, ranks, attempt=0):
    work.mkdir()
    folder = work / "model"
    make_model(family, number, folder, attempt)
    rng = random.Random(f"adapters of {family} {number} {attempt}")
    config = families.text_config_of(folder)
    rows = families.Rows(work / "rows.h5", config.vocab_size, rng, documents_of(rng))
    network = families.load(folder)
    settings = draw_settings(rng, network)
    for name in ("rank_pattern", "alpha_pattern"):
        if name in settings and not all(is_used(pattern, network, settings) for pattern in settings[name]):
            del settings[name]
    options = sft_options(settings)
    start = work / "start"
    hub_models.run_sft(binaries, folder, rows.path, start, (1, 1, 1, 1),
                       [word for pair in (options | {"--train.max_steps": "0"}).items() for word in pair])
    loss, gradients = step_of_peft(folder, start / "adapter", rows)
    if not float32_is_exact(folder, start / "adapter", rows, gradients):
        return check_model(family, number, binaries, work.with_name(f"{work.name}-again"), ranks, attempt + 1)
    before = load_file(start / "adapter" / "adapter_model.safetensors")
    worst_loss, worst_gradient, worst_name = 0.0, 0.0, ""
    for num_ranks in ranks:
        mesh = families.mesh_of(rng, num_ranks, config)
        output = work / f"output-{num_ranks}"
        got = families.run_step(binaries, folder, rows, output, mesh, options | families.options_of(rng, mesh, config))
        worst_loss = max(worst_loss, abs(got - loss) / loss)
        after = load_file(output / "adapter" / "adapter_model.safetensors")
        assert after.keys() == gradients.keys(), after.keys() ^ gradients.keys()
        for key, gradient in families.counting(gradients).items():
            found = families.distance(before[key].double(), after[key].double(), gradient)
            if found > worst_gradient:
                worst_gradient, worst_name = found, f"{key} on {mesh}"
    merge = merge_distance(binaries, folder, output / "adapter", work / "merged")
    same_text = text_of(binaries, folder, "--adapter", output / "adapter") == text_of(binaries, work / "merged")
    torch.manual_seed(number)
    made = peft.get_peft_model(families.load(folder, torch.float32),
                               peft.LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False, **settings))
    made.save_pretrained(work / "made")
    merge = max(merge, merge_distance(binaries, folder, work / "made", work / "merged-made"))
    agrees = worst_loss < TOLERANCE and worst_gradient < TOLERANCE and merge < 1e-6 and same_text
    print(f"{'ok  ' if agrees else 'FAIL'} {family} {number:2}  loss {loss:.5f} +- {worst_loss:.1e}   gradients +- "
          f"{worst_gradient:.1e}   merged +- {merge:.1e}   {settings}" + ("" if agrees else f"   {worst_name}"), flush=True)
    return agrees


def check(binaries, work, ranks, models=range(1)):
    results = []
    for family in FAMILIES:
        families.make_exact(family)
        results += [check_model(family, number, binaries, work / f"{family}-{number}", ranks) for number in models]
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--models", type=int, default=5, help="of each family")
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    hub_models.be_quiet()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="expert-adapters-") as work:
        models = range(options.first, options.first + options.models)
        return hub_models.status_of(check(options.binaries, pathlib.Path(work), options.ranks, models))


if __name__ == "__main__":
    sys.exit(main())
