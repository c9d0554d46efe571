#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a user would run instead of bench_step: the same model of transformers, trained by PyTorch.

usage: peer_torch.py [--device cpu|cuda] [--model NAME] [--layers N] [--precision fp32|bf16] [--compile] [--rows N]
                     [--length N] [--accumulation N] [--steps N] [--threads N]
       torchrun --nproc-per-node 4 peer_torch.py --fsdp --rows 1 --threads 1

bf16 is autocast over float32 weights, attention is SDPA. --fsdp shards every block and the rest with FSDP2 over gloo, on
processors. Prints the lines of bench_step; torch.mm is oneDNN's product here. Status 3: the GPU's memory does not suffice.
"""
import argparse
import os
import statistics
import sys
import time

import torch
import transformers
from model_sizes import MODEL_SIZES

WARM_UP_STEPS = 2
MODEL_TYPES = {
    "small": transformers.LlamaConfig,
    "qwen2.5-0.5b": transformers.Qwen2Config,
    "qwen3-8b": transformers.Qwen3Config,
    "llama-3.1-8b": transformers.LlamaConfig,
    "tiny": transformers.Qwen3Config,
}


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--model", choices=MODEL_SIZES, default="small")
    parser.add_argument("--layers", type=int, help="those of the model by default")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--fsdp", action="store_true")
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--accumulation", type=int, default=1)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    return parser.parse_args()


def make_model(options):
    hidden, layers, heads, kv_heads, head_dim, mlp, vocab, is_tied = MODEL_SIZES[options.model]
    config = MODEL_TYPES[options.model](
        hidden_size=hidden, num_hidden_layers=options.layers or layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=head_dim, intermediate_size=mlp, vocab_size=vocab,
        tie_word_embeddings=is_tied, max_position_embeddings=max(options.length, 2048), use_cache=False)
    torch.manual_seed(0)
    with torch.device(options.device):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    return model.train()


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


def synchronize(options):
    if options.device == "cuda":
        torch.cuda.synchronize()
    if options.fsdp:
        torch.distributed.barrier()


def train_step(options, model, forward, optimizer):
    vocab = model.config.vocab_size
    for _ in range(options.accumulation):
        tokens = torch.randint(0, vocab, (options.rows, options.length), device=options.device)
        with torch.autocast(options.device, torch.bfloat16, enabled=options.precision == "bf16"):
            loss = forward(input_ids=tokens, labels=tokens).loss / options.accumulation
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def run(options):
    torch.set_num_threads(options.threads)
    num_ranks, rank = 1, 0
    if options.fsdp:
        torch.distributed.init_process_group("gloo")
        num_ranks, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    model = make_model(options)
    config = model.config
    num_parameters = sum(p.numel() for p in model.parameters())
    if not config.tie_word_embeddings:  # the table itself is in no product
        num_parameters -= config.vocab_size * config.hidden_size
    if options.fsdp:
        shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=not options.fsdp)
    forward = torch.compile(model) if options.compile else model
    dtype = torch.bfloat16 if options.precision == "bf16" else torch.float32

    step_seconds, step_processor_seconds, mm_seconds = [], [], []
    for step in range(WARM_UP_STEPS + options.steps):
        synchronize(options)
        start, processor_start = time.perf_counter(), time.process_time()
        train_step(options, model, forward, optimizer)
        synchronize(options)
        if step >= WARM_UP_STEPS:
            step_seconds.append(time.perf_counter() - start)
            step_processor_seconds.append(time.process_time() - processor_start)
            if options.device == "cpu":
                mm_seconds += [matmul_seconds(dtype) for _ in range(3)]

    if rank == 0:
        step_s = statistics.median(step_seconds)
        num_rows = num_ranks * options.rows * options.accumulation
        num_tokens = num_rows * options.length
        heads_width = config.num_attention_heads * config.head_dim
        attention = 6 * config.num_hidden_layers * heads_width * num_rows * options.length**2
        model_flops = (6 * num_parameters * num_tokens + attention) / step_s
        print(f"layers             {config.num_hidden_layers}")
        print(f"step_s             {step_s:.4f}")
        print(f"tokens_per_second  {num_tokens / step_s:.0f}")
        if options.device == "cuda":
            print(f"model_tflops       {model_flops / 1e12:.1f}")
            print(f"peak_gpu_mib       {torch.cuda.max_memory_reserved() / 2**20:.1f}")
        else:
            matmul_flops = num_ranks * 2 * 2048**3 / min(mm_seconds)
            print(f"step_processor_s   {num_ranks * statistics.median(step_processor_seconds):.4f}")
            print(f"model_gflops       {model_flops / 1e9:.1f}")
            print(f"matmul_gflops      {matmul_flops / 1e9:.1f}")
            print(f"share_of_matmul    {model_flops / matmul_flops:.3f}")
    if options.fsdp:
        torch.distributed.destroy_process_group()


def main():
    try:
        run(parse())
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
