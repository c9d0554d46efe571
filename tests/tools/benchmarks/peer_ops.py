#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What PyTorch takes for the products and the attention that `bench_ops --part products` times, in bf16.

usage: peer_ops.py [--device cpu|cuda] [--model NAME] [--tokens N] [--length N] [--head_tokens N] [--repetitions N]

A line for each op: its name, the median time of a call, its rate. torch.mm: forward, input gradient and weight gradient of
every linear layer; logits and weight gradients are float32 where torch.mm can write them, else bf16, as the second line
says, and ours are added to what is there. Attention: scaled_dot_product_attention, causal, with grouped queries, by each of
the backends of BACKENDS alone; `skip NAME: WHY` for one that does not take it. Rates count the causal half, backward five
products of it, as bench_ops does. --head_tokens: rows of logits that bench_ops multiplies at a time (its line head_tokens).
Times are those of CUDA's events, of several calls queued behind one another; on processors, to try this script, the clock's.
"""
import argparse
import statistics
import time

import torch
from model_sizes import MODEL_SIZES
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

WARM_UP_CALLS = 3
SECONDS_OF_A_REPETITION = 0.02
MOST_CALLS = 200
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--model", choices=MODEL_SIZES, default="small")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--head_tokens", type=int, help="all by default")
    parser.add_argument("--repetitions", type=int, default=5)
    return parser.parse_args()


def seconds_of_calls(options, op, calls):
    if options.device == "cpu":
        start = time.perf_counter()
        for _ in range(calls):
            op()
        return time.perf_counter() - start
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(calls):
        op()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3


def median_seconds(options, op):
    seconds_of_calls(options, op, WARM_UP_CALLS)
    one = max(seconds_of_calls(options, op, 1), 1e-7)
    calls = max(1, min(MOST_CALLS, int(SECONDS_OF_A_REPETITION / one)))
    return statistics.median(seconds_of_calls(options, op, calls) / calls for _ in range(options.repetitions))


def report(options, name, flops, op):
    seconds = median_seconds(options, op)
    print(f"{name:<36} {seconds * 1e3:9.4f} ms {flops / seconds / 1e12:9.4g} TF/s", flush=True)


def make(options, *shape):
    return torch.randn(*shape, device=options.device, dtype=torch.bfloat16)


def float32_product(options):
    """torch.mm of bf16 with float32 results, or plain torch.mm where there is none; and what it gives."""
    def product(a, b):
        return torch.mm(a, b, out_dtype=torch.float32)
    try:
        product(make(options, 16, 16), make(options, 16, 16))
    except (RuntimeError, TypeError):
        return torch.mm, "bf16"
    return product, "float32"


def products(options):
    hidden, _, heads, kv_heads, head_dim, mlp, vocab, _ = MODEL_SIZES[options.model]
    product, given = float32_product(options)
    print(f"logits and weight gradients of torch.mm are {given}")
    tokens, head_tokens = options.tokens, options.head_tokens or options.tokens
    layers = {
        "qkv": (tokens, (heads + 2 * kv_heads) * head_dim, hidden, torch.mm),
        "o": (tokens, hidden, heads * head_dim, torch.mm),
        "gate_up": (tokens, 2 * mlp, hidden, torch.mm),
        "down": (tokens, hidden, mlp, torch.mm),
        "head": (head_tokens, vocab, hidden, product),
    }
    for name, (num, rows, columns, forward) in layers.items():
        weight, x, dout = make(options, rows, columns), make(options, num, columns), make(options, num, rows)
        flops = 2 * num * rows * columns
        report(options, f"torch.mm {name}", flops, lambda: forward(x, weight.T))
        report(options, f"torch.mm {name} input gradient", flops, lambda: torch.mm(dout, weight))
        report(options, f"torch.mm {name} weight gradient", flops, lambda: product(dout.T, x))


def attention(options, name, backend):
    _, _, heads, kv_heads, head_dim, _, _, _ = MODEL_SIZES[options.model]
    length = min(options.length, options.tokens)
    documents = options.tokens // length
    # Heads of a token lie beside one another, as a projection leaves them.
    q, k, v = (make(options, documents, length, num, head_dim).transpose(1, 2).requires_grad_()
               for num in (heads, kv_heads, kv_heads))
    dout = make(options, documents, length, heads, head_dim).transpose(1, 2)
    flops = 4 * head_dim * documents * heads * length * (length + 1) / 2

    def forward():
        return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    what = f"{documents} x {length}"
    with sdpa_kernel([backend]):
        with torch.no_grad():
            report(options, f"torch.{name}_forward {what}", flops, forward)
        out = forward()
        report(options, f"torch.{name}_backward {what}", 2.5 * flops,
               lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True))


def main():
    options = parse()
    print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, median of {options.repetitions}")
    products(options)
    for name, backend in BACKENDS.items():
        try:
            attention(options, name, backend)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            print(f"skip torch.{name}: {str(error).splitlines()[0]}", flush=True)


if __name__ == "__main__":
    main()
