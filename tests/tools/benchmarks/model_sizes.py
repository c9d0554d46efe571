# SPDX-License-Identifier: Apache-2.0
"""The models of named_models.hpp, for what runs beside our own benchmarks."""

# Hidden size, layers, query heads, key/value heads, head dim, MLP columns, vocabulary, whether embeddings are tied.
MODEL_SIZES = {
    "small": (512, 8, 8, 4, 64, 1408, 32000, True),
    "qwen2.5-0.5b": (896, 24, 14, 2, 64, 4864, 151936, True),
    "qwen3-8b": (4096, 36, 32, 8, 128, 12288, 151936, False),
    "llama-3.1-8b": (4096, 32, 32, 8, 128, 14336, 128256, False),
    "tiny": (64, 2, 4, 2, 16, 96, 272, True),
}
