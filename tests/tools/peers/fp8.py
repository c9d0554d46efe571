#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's float8 dtypes say of products in fp8, for the tests.

usage: fp8.py --write | --check   (needs torch, h5py)

    --write  makes the fixtures below anew
    --check  fails where one is another one

tests/unit/ops/fp8_codes.txt     the codes of all bf16 numbers: format, the first number of a run, the code of the run
tests/unit/ops/fp8_linear.txt    y = x w^T + b, dx and dw of one layer: sizes of sums, and some of the numbers
tests/reference/fixtures/llama_fp8.h5
                                 loss and gradients of the model and rows of llama.h5, with linear layers in fp8

Everything but the rounding is computed in float64. Operands are rounded by torch's own conversion, which saturates
E4M3 (2.15), but not E5M2: scales are such that it never has to. An operand's scales are the least powers of two with which nothing overflows.
"""
import pathlib
import sys

import h5py
import numpy as np
import torch
import torch.nn.functional as F

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TESTS / "reference"))
import decoder  # noqa: E402
from models import MODELS  # noqa: E402

CODES, LINEAR = TESTS / "unit/ops/fp8_codes.txt", TESTS / "unit/ops/fp8_linear.txt"
LLAMA, MODEL = TESTS / "reference/fixtures/llama.h5", TESTS / "reference/fixtures/llama_fp8.h5"
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
BLOCK = 128
KINDS = ("tensorwise", "blockwise")


def tiles_of(x, rows, columns):
    """x as (tiles, rows, tiles, columns), filled up with zeros."""
    n, m = x.shape
    padded = F.pad(x, (0, -m % columns, 0, -n % rows))
    return padded.view(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)


def rounded(x, dtype, rows=0, columns=0):
    """x (N, M) as the numbers of its codes; tiles of so many rows and columns share a scale, 0: all."""
    n, m = x.shape
    tiles = tiles_of(x, rows or n, columns or m)
    largest = tiles.abs().amax((1, 3), keepdim=True)
    scale = torch.exp2(torch.ceil(torch.log2(largest / torch.finfo(dtype).max)))
    scale = torch.where(largest > 0, scale, torch.ones_like(scale))
    numbers = (tiles / scale).float().to(dtype).double() * scale
    return numbers.reshape(-1, numbers.shape[2] * numbers.shape[3])[:n, :m]


def product(kind, a, b, a_dtype, b_dtype, weights=False):
    """a b, with sums over the columns of a. `weights`: b is a matrix of weights."""
    blockwise = kind == "blockwise"
    along = BLOCK if blockwise else 0
    left = rounded(a, a_dtype, 1 if blockwise else 0, along)
    right = rounded(b, b_dtype, along, along if weights else 1 if blockwise else 0)
    return left @ right


class Fp8Linear(torch.autograd.Function):
    """y = x w^T."""

    @staticmethod
    def forward(ctx, kind, x, w):
        ctx.kind = kind
        ctx.save_for_backward(x, w)
        return product(kind, x, w.T, E4M3, E4M3, weights=True)

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        return None, product(ctx.kind, dy, w, E5M2, E4M3, weights=True), product(ctx.kind, dy.T, x, E5M2, E4M3)


def codes_text():
    lines = []
    numbers = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).float()
    for name, dtype in (("e4m3", E4M3), ("e5m2", E5M2)):
        largest = torch.finfo(dtype).max
        codes = numbers.clamp(-largest, largest).to(dtype).view(torch.uint8).tolist()
        for bits, code in enumerate(codes):
            if bits == 0 or code != codes[bits - 1]:
                lines.append(f"{name} {bits:04x} {code:02x}\n")
    return "".join(lines)


def spread(seed, rows, columns):
    """float32 numbers whose sizes differ by up to 2^15, by a rule that the tests have too."""
    i = np.arange(rows * columns, dtype=np.uint64)
    h = ((i + np.uint64(1)) * np.uint64(2654435761) + np.uint64(seed) * np.uint64(40503)) % np.uint64(1 << 32)
    h = (h ^ (h >> np.uint64(15))) * np.uint64(2246822519) % np.uint64(1 << 32)
    values = ((h >> np.uint64(16)).astype(np.float64) - 32768) * 2.0 ** -((h % np.uint64(16)).astype(np.float64))
    return torch.from_numpy((values * 2.0**-15).astype(np.float32)).double().view(rows, columns)


def linear_text():
    tokens, columns_in, columns = 150, 300, 140
    lines = [f"sizes {tokens} {columns_in} {columns}\n"]
    for kind in KINDS:
        x, w = spread(1, tokens, columns_in).requires_grad_(), spread(2, columns, columns_in).requires_grad_()
        y, dy = Fp8Linear.apply(kind, x, w), spread(3, tokens, columns)
        y.backward(dy)
        exact = {"y": x @ w.T, "dx": dy @ w, "dw": dy.T @ x}
        for name, value in (("y", y), ("dx", x.grad), ("dw", w.grad)):
            flat = value.detach().flatten()
            away = (flat - exact[name].detach().flatten()).norm() / flat.norm()
            lines.append(f"{kind} {name} {flat.norm().item():.9g} {away.item():.3g}")
            lines.extend(f" {number:.9g}" for number in flat[::997].tolist())
            lines.append("\n")
    return "".join(lines)


def llama_loss(kind, parameters, model, rows):
    """The loss of the batch, whose documents go through linear layers together, those of a rank without others."""
    documents = []
    for tokens, weights, lengths in rows:
        ends = np.cumsum(lengths)
        documents += [(tokens[end - n:end], weights[end - n:end]) for end, n in zip(ends, lengths)]
    lengths = [len(tokens) for tokens, _ in documents]
    tokens = torch.from_numpy(np.concatenate([t for t, _ in documents])).long()
    position = torch.cat([torch.arange(n, dtype=torch.float64) for n in lengths])
    document = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    hidden = (document[:, None] != document) | (position[:, None] < position)
    num_heads, num_kv, head_dim = (model[k] for k in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    angles = position[:, None] * decoder.inverse_frequencies(model)
    x = parameters["model.embed_tokens.weight"][tokens]
    for layer in range(model["num_hidden_layers"]):
        p = {n.split(f"layers.{layer}.")[1]: v for n, v in parameters.items() if f"layers.{layer}." in n}
        def linear(y, *names):  # matrices that are multiplied as one
            return Fp8Linear.apply(kind, y, torch.cat([p[name + ".weight"] for name in names]))
        h = decoder.rms_norm(x, p["input_layernorm.weight"], model["rms_norm_eps"])
        qkv = linear(h, *(f"self_attn.{n}_proj" for n in "qkv")).view(len(tokens), -1, head_dim)
        q, k, v = qkv.split([num_heads, num_kv, num_kv], 1)
        q, k = (decoder.rotate(y, angles, 1.0) for y in (q, k))
        k, v = (y.repeat_interleave(num_heads // num_kv, 1) for y in (k, v))
        scores = torch.einsum("ihd,jhd->hij", q, k) * head_dim**-0.5
        attention = torch.einsum("hij,jhd->ihd", scores.masked_fill(hidden, -torch.inf).softmax(-1), v)
        x = x + linear(attention.reshape(len(tokens), -1), "self_attn.o_proj")
        h = decoder.rms_norm(x, p["post_attention_layernorm.weight"], model["rms_norm_eps"])
        gate, up = linear(h, "mlp.gate_proj", "mlp.up_proj").chunk(2, -1)
        x = x + linear(F.silu(gate) * up, "mlp.down_proj")
    x = decoder.rms_norm(x, parameters["model.norm.weight"], model["rms_norm_eps"])
    logits = F.linear(x, parameters["lm_head.weight"])
    # The target of a token is the next one of its document; the first of a document is none.
    weights = torch.from_numpy(np.concatenate([w for _, w in documents])).double() * (position > 0)
    nll = F.cross_entropy(logits[:-1], tokens[1:], reduction="none")
    return (weights[1:] * nll).sum() / weights.sum()


def read_llama():
    with h5py.File(LLAMA) as file:
        parameters = {}
        file["parameters"].visititems(
            lambda name, item: parameters.__setitem__(name, item[()]) if isinstance(item, h5py.Dataset) else None)
        offsets, lengths = file["document_offsets"][()], file["document_lengths"][()]
        rows = [(file["tokens"][i], file["loss_weight"][i], lengths[offsets[i]:offsets[i + 1]].tolist())
                for i in range(len(offsets) - 1)]
        return parameters, rows


def model_results():
    values, rows = read_llama()
    results = {}
    for kind in KINDS:
        parameters = {name: torch.from_numpy(value).double().requires_grad_() for name, value in values.items()}
        loss = llama_loss(kind, parameters, MODELS["llama"], rows)
        gradients = torch.autograd.grad(loss, list(parameters.values()))
        results[kind] = loss.item(), {name: g.numpy().astype(np.float32) for name, g in zip(parameters, gradients)}
    return results


def write_model(results):
    with h5py.File(MODEL, "w") as file:
        for kind, (loss, gradients) in results.items():
            file.attrs[f"loss_{kind}"] = loss
            for name, value in gradients.items():
                file.create_dataset(f"{kind}/{name}", data=value, compression="gzip", shuffle=True)


def is_stored(results):
    with h5py.File(MODEL) as file:
        return all(abs(file.attrs[f"loss_{kind}"] - loss) <= 1e-6 * loss and
                   all(np.linalg.norm(file[f"{kind}/{name}"][()] - value) <= 1e-4 * np.linalg.norm(value)
                       for name, value in gradients.items()) for kind, (loss, gradients) in results.items())


def main():
    if sys.argv[1:] == ["--write"]:
        CODES.write_text(codes_text())
        LINEAR.write_text(linear_text())
        write_model(model_results())
    elif sys.argv[1:] == ["--check"]:
        assert CODES.read_text() == codes_text(), f"{CODES} is out of date"
        assert LINEAR.read_text() == linear_text(), f"{LINEAR} is out of date"
        assert is_stored(model_results()), f"{MODEL} is out of date"
        print("all fixtures are those of this PyTorch")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
