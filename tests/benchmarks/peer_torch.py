#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a user would run instead of bench_step: the same 40M Llama of transformers, trained by PyTorch on processors.

usage: peer_torch.py [--precision fp32|bf16] [--compile] [--rows N] [--length N] [--steps N] [--threads N]
       torchrun --nproc-per-node 4 peer_torch.py --fsdp --rows 1 --threads 1

bf16 is autocast over float32 weights. --fsdp shards every block and the rest with FSDP2 over gloo. Prints the lines of
bench_step; torch.mm is oneDNN's product here.
"""
import argparse
import os
import statistics
import time

import torch
import transformers

WARM_UP_STEPS = 2
VOCAB_SIZE = 32000


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--fsdp", action="store_true")
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    return parser.parse_args()


def make_model():
    config = transformers.LlamaConfig(hidden_size=512, num_hidden_layers=8, num_attention_heads=8,
                                      num_key_value_heads=4, head_dim=64, intermediate_size=1408,
                                      vocab_size=VOCAB_SIZE, tie_word_embeddings=True, use_cache=False)
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM._from_config(config, attn_implementation="sdpa").train()


def shard(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for block in model.model.layers:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)


def matmul_seconds(dtype, size=2048):
    a, b = (torch.randn(size, size).to(dtype) for _ in range(2))
    start = time.perf_counter()
    torch.mm(a, b)
    return time.perf_counter() - start


def main():
    options = parse()
    torch.set_num_threads(options.threads)
    num_ranks, rank = 1, 0
    if options.fsdp:
        torch.distributed.init_process_group("gloo")
        num_ranks, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    model = make_model()
    num_parameters = sum(p.numel() for p in model.parameters())  # tied: the table is the head's matrix
    if options.fsdp:
        shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=not options.fsdp)
    forward = torch.compile(model) if options.compile else model
    dtype = torch.bfloat16 if options.precision == "bf16" else torch.float32

    step_seconds, step_processor_seconds, mm_seconds = [], [], []
    for step in range(WARM_UP_STEPS + options.steps):
        tokens = torch.randint(0, VOCAB_SIZE, (options.rows, options.length))
        start, processor_start = time.perf_counter(), time.process_time()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            loss = forward(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if options.fsdp:
            torch.distributed.barrier()
        if step >= WARM_UP_STEPS:
            step_seconds.append(time.perf_counter() - start)
            step_processor_seconds.append(time.process_time() - processor_start)
            mm_seconds += [matmul_seconds(dtype) for _ in range(3)]

    if rank == 0:
        step_s, num_tokens = statistics.median(step_seconds), num_ranks * options.rows * options.length
        attention = 6 * 8 * 8 * 64 * num_ranks * options.rows * options.length**2
        model_flops = (6 * num_parameters * num_tokens + attention) / step_s
        matmul_flops = num_ranks * 2 * 2048**3 / min(mm_seconds)
        print(f"step_s             {step_s:.4f}")
        print(f"step_processor_s   {num_ranks * statistics.median(step_processor_seconds):.4f}")
        print(f"tokens_per_second  {num_tokens / step_s:.0f}")
        print(f"model_gflops       {model_flops / 1e9:.1f}")
        print(f"matmul_gflops      {matmul_flops / 1e9:.1f}")
        print(f"share_of_matmul    {model_flops / matmul_flops:.3f}")
    if options.fsdp:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
