#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random small models of every family against transformers: loss, every gradient, text, and what is written back.

usage: families.py SFT_BIN_FOLDER [--only FAMILY ...] [--cases N] [--first N] [--ranks N ...] [--exact]
                   [--other_transformers VENV/bin/python] [--published [NAME ...]]

Needs torch, transformers, safetensors, h5py, and mpirun. A case has a number, from which its sizes, switches, weights,
rows, files, mesh and memory settings follow (family_models.py). transformers computes it in float64 (rotations, norms and
softmax are float32 even there, but with --exact), one document at a time; `sft` makes one step of SGD on one rank and on a
random mesh, so that the change of each tensor is its gradient. transformers then loads what the run has left and has the
loss that its own model has after the same step. `sft-generate` continues two prompts as transformers does without sampling,
with its logits at every new token. Where they disagree and transformers itself cannot compute the gradient in float32, with
some room to the tolerance, the model says nothing: a gate lies at its limit, the choice of an expert at a tie, or terms
cancel. Its line begins with `anew`, and another one is drawn, MOST_DRAWS at most.

--other_transformers: the interpreter of another environment. What the run has left has the same loss in the transformers
there, if that knows the family; and what that saves of it has the same loss in `sft`.
--published: in place of random models those of published/, all or these (published.py).
"""
import argparse
import functools
import importlib
import inspect
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers

import hub_models
import published
from family_models import CONFIGS, FAMILIES, class_of, documents_of, given_to_sft, make_model as make_random_model
from other_version import OtherVersion

TOLERANCE = 1e-5  # relative, of the loss, of each tensor's gradient and of the logits at each token in the L2 norm
LEARNING_RATE = 16.0
NEW_TOKENS = 12
BYTE_IDS = 272  # of the byte tokenizer; sft-generate chooses among the ids of its tokenizer
MOST_DRAWS = 8  # of a case; the last one counts as it is: the float32 of transformers may never be exact for a wide model
TIE = 1e-5  # logits that are closer than this, relative to all, are a choice that rounding makes


def auxiliary_loss(config, router_logits):
    """The auxiliary loss of all documents together: of each layer's logits, documents one behind the other."""
    module = sys.modules[class_of(config).__module__]
    layers = tuple(torch.cat(documents) for documents in zip(*router_logits))
    experts = getattr(config, "num_experts", None) or config.num_local_experts
    return module.load_balancing_loss_func(layers, experts, config.num_experts_per_tok)


class Rows:
    """Packed rows in a shard file."""

    def __init__(self, path, vocab_size, rng, documents=None):
        self.path = path
        self.documents = documents or documents_of(rng)
        without_target = [] if documents else [row for row in range(len(self.documents)) if rng.random() < 0.15]
        self.tokens, self.weights = hub_models.write_rows(path, vocab_size, self.documents, rng.randrange(1 << 30),
                                                          without_target)

    def each(self):
        """Tokens of every document and the weights of its tokens as targets."""
        for row, lengths in enumerate(self.documents):
            begin = 0
            for length in lengths:
                yield self.tokens[row, begin:begin + length], self.weights[row, begin:begin + length]
                begin += length

    def have_targets(self):
        return any(weights[1:].any() for _, weights in self.each())


def loss_of(network, rows):
    """The loss of the rows, and what is added to it for its gradient: the auxiliary loss of experts."""
    total, weight_sum, router_logits = 0.0, 0.0, []
    coefficient = getattr(network.config, "router_aux_loss_coef", 0.0)
    routers = dict(output_router_logits=True) if coefficient else {}
    for tokens, weights in rows.each():
        if len(tokens) > 1 or routers:
            document = torch.from_numpy(tokens).long()[None]
            weight = torch.from_numpy(weights[1:]).double()
            output = network(input_ids=document, use_cache=False, **routers)
            logits = output.logits[0].double()
            if routers:
                router_logits.append(output.router_logits)
            nll = torch.nn.functional.cross_entropy(logits[:-1], document[0, 1:], reduction="none")
            total, weight_sum = total + (weight * nll).sum(), weight_sum + weight.sum().item()
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
    config = transformers.AutoConfig.from_pretrained(folder)
    network, info = class_of(config).from_pretrained(folder, dtype=dtype, attn_implementation="eager",
                                                     experts_implementation="eager", output_loading_info=True)
    complaints = {key: info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys") if info[key]}
    if complaints:
        raise RuntimeError(f"transformers loads {folder.name} with {complaints}")
    return network.eval()


def step_of_transformers(folder, rows, dtype=torch.float64):
    """Loss, gradients by name, and the loss behind the step."""
    network = load(folder, dtype)
    loss, added = loss_of(network, rows)
    (loss + added).backward()
    gradients = {}
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if parameter.grad is not None:  # but of other towers
                gradients[name] = parameter.grad.double()
                parameter -= LEARNING_RATE * parameter.grad
        return loss.item(), gradients, loss_of(network, rows)[0].item()


def counting(gradients):
    """Those of some size, beside which others are rounding: that of the bias of keys, which softmax does not see."""
    def size(gradient):
        return gradient.norm().item() / gradient.numel() ** 0.5
    scale = max(map(size, gradients.values()))
    return {name: gradient for name, gradient in gradients.items() if size(gradient) >= 1e-7 * scale}


def float32_is_exact(folder, rows, expected):
    """Whether transformers has these gradients, and the loss behind the step, in float32, too, with some room to the
    tolerance."""
    _, gradients, next_loss = expected
    _, found, found_next = step_of_transformers(folder, rows, torch.float32)
    return abs(found_next - next_loss) < TOLERANCE / 4 * abs(next_loss) and all(
        (found[name] - gradient).norm() < TOLERANCE / 4 * gradient.norm() for name, gradient in counting(gradients).items())


class Case:
    """Model and rows, what transformers makes of them, and `rng`, from which follows all else that is random."""

    def __init__(self, name, folder, rng, rows, expected, num_draws):
        self.name, self.folder, self.rng, self.rows, self.expected, self.num_draws = name, folder, rng, rows, expected, num_draws
        self.config = text_config_of(folder)


def text_config_of(folder):
    return transformers.AutoConfig.from_pretrained(folder).get_text_config()


def drawn_case(name, make_model, documents, work, num_draws):
    """A case with something to train on; `make_model(folder, attempt)` writes a model and returns its generator."""
    folder = work / "model"
    while True:
        rng = make_model(folder, num_draws - 1)
        rows = Rows(work / "rows.h5", text_config_of(folder).vocab_size, rng, documents)
        if rows.have_targets():
            return Case(name, folder, rng, rows, step_of_transformers(folder, rows), num_draws)
        num_draws += 1


def random_case(family, number, work, num_draws):
    return drawn_case(f"{family} {number}", functools.partial(make_random_model, family, number), None, work, num_draws)


def published_case(name, work, num_draws):
    documents = [[30], [5, 17], [1, 20], [9]]
    return drawn_case(name, functools.partial(published.make_model, name), documents, work, num_draws)


def num_experts_of(config):
    return getattr(config, "num_local_experts", 0) or getattr(config, "num_experts", 0)


def mesh_of(rng, num_ranks, config):
    """Axis sizes (dp_replicate, dp_shard, sp, tp) whose product it is, and of a model with experts ep; of four rows."""
    num_experts = num_experts_of(config)
    sizes = [1, 1, 1, 1] + [1] * (num_experts > 0)

    def fits(axis):
        size = 2 * sizes[axis]
        if axis == 3:
            kv_heads = config.num_key_value_heads
            widths = [config.num_attention_heads, config.intermediate_size, getattr(config, "moe_intermediate_size", 0) or 0]
            return all(width % size == 0 for width in widths) and (kv_heads % size == 0 or size % kv_heads == 0)
        data_ranks = sizes[0] * sizes[1] * (sizes[4] if num_experts else 1)
        return (axis == 2 or data_ranks < 4) and (axis < 4 or num_experts % size == 0)

    while int(np.prod(sizes)) < num_ranks:
        axis = rng.randrange(len(sizes))
        if fits(axis):
            sizes[axis] *= 2
    return tuple(sizes)


def options_of(rng, mesh, config):
    options = {"--train.activation_checkpointing": rng.choice(["none", "selective", "full"]),
               "--train.mlp_tile_tokens": rng.choice([0, 0, 16]),
               "--parallel.zero_stage": rng.choice([0, 1, 2, 3, 3]),
               "--parallel.fsdp_units": rng.choice(["block", "parts", 2])}
    if mesh[3] > 1:
        options["--parallel.tp_sequence_parallel"] = rng.choice(["true", "false"])
    if mesh[2] > 1:
        exchanges_heads = config.num_attention_heads // mesh[3] % mesh[2] == 0
        options["--parallel.sp_method"] = rng.choice(["ring", "all_gather"] + ["ulysses"] * exchanges_heads)
    rows = 4 // (mesh[0] * mesh[1] * int(np.prod(mesh[4:])))
    # Each micro-batch has an auxiliary loss of its own, as in the Trainer of transformers; the reference has that of all rows.
    sizes = [1] if getattr(config, "router_aux_loss_coef", 0) else [size for size in (1, 2, 4) if rows % size == 0]
    accumulated = rng.choice(sizes)
    options["--train.gradient_accumulation_steps"] = accumulated
    options["--train.per_device_train_batch_size"] = rows // accumulated
    return options


def distance(before, after, gradient):
    """Of the change of a tensor from the step, relative, beyond what float32 rounds off the weights."""
    error = ((before - after) / LEARNING_RATE - gradient).norm().item()
    rounding = 2.0 ** -24 * after.norm().item() / LEARNING_RATE
    return max(0.0, error - rounding) / gradient.norm().clamp_min(1e-12).item()


def run_step(binaries, folder, rows, output, mesh, options, learning_rate=LEARNING_RATE):
    """The loss that `sft` has, which leaves the model behind its step in output/model."""
    settings = options | {"--optimizer.optim": "sgd", "--optimizer.learning_rate": learning_rate,
                          "--optimizer.weight_decay": 0, "--optimizer.max_grad_norm": 0,
                          "--optimizer.lr_scheduler_type": "constant"}
    shutil.rmtree(output, ignore_errors=True)
    return hub_models.run_sft(binaries, folder, rows.path, output, mesh, [word for pair in settings.items() for word in pair])[0]


def check_run(binaries, folder, rows, output, mesh, options, expected):
    """The worst distances of loss, gradient and loss behind the step."""
    loss, gradients, next_loss = expected
    got = run_step(binaries, given_to_sft(folder), rows, output, mesh, options)
    start, end = load(folder, torch.float32), load(output / "model")
    before, after = dict(start.named_parameters()), dict(end.named_parameters())
    for (name, one), (_, other) in zip(start.named_buffers(), end.named_buffers(), strict=True):
        if not torch.equal(one, other.to(one.dtype)):
            raise RuntimeError(f"the run has changed {name}")
    for name in before.keys() - gradients.keys():
        if not torch.equal(before[name].double(), after[name]):
            raise RuntimeError(f"the run has changed {name}, which is not trained")
    worst, worst_name = 0.0, ""
    for name, gradient in counting(gradients).items():
        found = distance(before[name].detach().double(), after[name].detach(), gradient)
        if found > worst:
            worst, worst_name = found, name
    with torch.no_grad():
        left = loss_of(end, rows)[0].item()
    # A step may leave a loss that is 0 in double precision.
    return abs(got - loss) / abs(loss), worst, abs(left - next_loss) / max(abs(next_loss), 1e-6), worst_name


@torch.no_grad()
def check_text(binaries, folder, rng):
    """The worst relative distance of logits at a new token; raises where a text is another one."""
    prompts = ["".join(chr(rng.randint(33, 79)) for _ in range(length)) for length in (3, rng.randint(20, 70))]
    command = [binaries / "sft-generate", given_to_sft(folder), "--json", "--logits", "--tokenizer", "byte",
               "--max_new_tokens", NEW_TOKENS] + [f"--prompt={prompt}" for prompt in prompts]  # one may begin with a dash
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"sft-generate ended with {done.returncode}: {done.stderr}")
    network = load(folder)
    others = list(range(BYTE_IDS, network.config.get_text_config().vocab_size)) or None
    worst = 0.0
    for prompt, line in zip(prompts, done.stdout.splitlines(), strict=True):
        ours = json.loads(line)
        ids = list(prompt.encode())
        inputs = torch.tensor([ids])
        # The cache of transformers keeps all keys, not none, of a layer whose tokens see themselves alone.
        has_cache = getattr(network.config.get_text_config(), "sliding_window", None) != 1
        out = network.generate(inputs, attention_mask=torch.ones_like(inputs), do_sample=False, use_cache=has_cache,
                               max_new_tokens=NEW_TOKENS, pad_token_id=0, suppress_tokens=others)[0, len(ids):].tolist()
        has_ended = out[-1] in np.atleast_1d(network.generation_config.eos_token_id or [])
        new = ours["new_tokens"] + ([out[-1]] if has_ended and ours["finish_reason"] == "stop" else [])
        common = next((i for i, (a, b) in enumerate(zip(new, out)) if a != b), min(len(new), len(out)))
        logits = network(torch.tensor([ids + out]), use_cache=False).logits[0, len(ids) - 1:-1]
        found = torch.tensor(ours["logits"], dtype=torch.float64)
        num_compared = min(common + 1, len(logits), len(found))
        distances = (found[:num_compared] - logits[:num_compared]).norm(dim=1) / logits[:num_compared].norm(dim=1)
        worst = max(worst, distances.max().item())
        if new != out:
            gap = (logits[common, new[common]] - logits[common, out[common]]).abs() if common < min(len(new), len(out)) else None
            if gap is None or gap > TIE * logits[common].norm():
                raise RuntimeError(f"text behind {prompt!r}: {new} ({ours['finish_reason']}), transformers has {out}")
    return worst


def check_other(other, binaries, folder, rows, output, next_loss):
    """The distances of the loss that another transformers has of output/model, and `sft` of what that saves of it."""
    saved = output / "saved"
    answer = other.ask(folder=str(output / "model"), shard=str(rows.path), saved=str(saved))
    if answer.get("unknown") or "error" in answer and "error" in other.ask(folder=str(folder), shard=str(rows.path)):
        return None  # what this version of transformers writes is nothing for the other one, either
    if "error" in answer:
        raise RuntimeError(f"transformers {other.version}: {answer['error']}")
    got = run_step(binaries, saved, rows, output / "again", (1, 1, 1, 1), {"--train.per_device_train_batch_size": 4},
                   learning_rate=0)
    return [abs(loss - next_loss) / max(abs(next_loss), 1e-6) for loss in (answer["loss"], got)]


def is_read_by_older(config):
    """Whether version 4 of transformers has the switches that the model has."""
    if config.model_type == "gpt_oss":
        return (config.swiglu_limit, config.swiglu_alpha) == (7.0, 1.702)
    if config.model_type == "glm4_moe" and config.n_group > 1:  # where it prefers other groups to scores below 0
        return False
    rope = config.rope_parameters
    local, full = rope.get("sliding_attention"), rope.get("full_attention")
    if config.model_type == "olmo3":  # which had one theta
        return local["rope_theta"] == full["rope_theta"]
    if config.model_type == "olmo2":  # whose rope_scaling had two kinds
        return rope["rope_type"] in ("default", "linear", "dynamic")
    if config.model_type == "phi3":  # whose rope_scaling had three fields
        return "attention_factor" not in rope
    return True


def compare(case, binaries, work, ranks, other):
    """Whether the case agrees, and what to say of it."""
    rng, config, rows, expected = case.rng, case.config, case.rows, case.expected
    agrees, texts = True, [f"drawn {case.num_draws} times"] if case.num_draws > 1 else []
    try:
        for num_ranks in (1, rng.choice(ranks)):
            mesh = mesh_of(rng, num_ranks, config)
            options = options_of(rng, mesh, config)
            texts.append(f"{'x'.join(map(str, mesh))} {options}")
            loss, gradient, left, name = check_run(binaries, case.folder, rows, work / f"output-{num_ranks}", mesh, options, expected)
            fits = max(loss, gradient, left) < TOLERANCE
            agrees = agrees and fits
            texts[-1] = f"{'x'.join(map(str, mesh))} {loss:.0e} {gradient:.0e} {left:.0e}" + ("" if fits else f" {name} {options}")
        logits = check_text(binaries, case.folder, rng)
        agrees = agrees and logits < TOLERANCE
        texts.append(f"logits {logits:.0e}")
        if other is not None and is_read_by_older(config):
            distances = check_other(other, binaries, case.folder, rows, work / "output-1", expected[2])
            if distances is not None:
                agrees = agrees and max(distances) < TOLERANCE
                texts.append(f"{other.version} " + " ".join(f"{value:.0e}" for value in distances))
    except RuntimeError as error:
        agrees = False
        texts.append(str(error)[:700])
    return agrees, texts


def check_case(make_case, binaries, work, ranks, other):
    """Whether the case agrees, with another model in place of one that says nothing."""
    num_draws = 0
    while True:
        case = make_case(work, num_draws + 1)
        num_draws = case.num_draws
        agrees, texts = compare(case, binaries, work, ranks, other)
        counts = agrees or num_draws >= MOST_DRAWS or float32_is_exact(case.folder, case.rows, case.expected)
        print(f"{'anew' if not counts else 'ok  ' if agrees else 'FAIL'} {case.name}: " + "; ".join(texts), flush=True)
        if counts:
            return agrees
        del case  # its gradients, before the next one's


def cases_of(options):
    """What makes each of the cases that are asked for, in a folder and from the number of its draw."""
    if options.published is not None:
        return [functools.partial(published_case, name) for name in options.published or published.NAMES]
    return [functools.partial(random_case, family, number) for family in options.only
            for number in range(options.first, options.first + options.cases)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", default=list(FAMILIES))
    parser.add_argument("--cases", type=int, default=4)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--exact", action="store_true", help="float64 also where transformers always has float32")
    parser.add_argument("--other_transformers", type=pathlib.Path, help="interpreter of another environment")
    parser.add_argument("--published", nargs="*", choices=published.NAMES, metavar="NAME")
    options = parser.parse_args()
    hub_models.be_quiet()
    torch.set_num_threads(1)
    other = OtherVersion(options.other_transformers) if options.other_transformers else None
    for family in options.only if options.exact else []:
        make_exact(family)
    results = []
    for make_case in cases_of(options):
        with tempfile.TemporaryDirectory(prefix="families-") as folder:
            work = pathlib.Path(folder)
            results.append(check_case(make_case, options.binaries, work, options.ranks, other))
    return hub_models.status_of(results)


if __name__ == "__main__":
    sys.exit(main())
