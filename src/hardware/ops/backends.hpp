// SPDX-License-Identifier: Apache-2.0
#pragma once
// The backends that ops::make_backend and its neighbours choose from, each made in a folder of its own.

#include <cstddef>
#include <memory>

#include "ops/cpu/isa.hpp"
#include "sft/ops/backend.hpp"
#include "sft/ops/factory.hpp"
#include "sft/ops/matmul_algorithms.hpp"
#include "sft/ops/shapes.hpp"

// ops::Backend on host processors: every op runs at once, in vectorised loops and oneDNN products on OpenMP threads.
namespace sft::ops::cpu {

/// Ops queued on `stream` of `device` with the kernels of `isa`. Results do not depend on the number of threads, but
/// for those of matrix products. After each op that may take long it lets the device's other streams progress.
[[nodiscard]] std::unique_ptr<Backend> make_backend(device::Device& device, device::Stream& stream, Isa isa);
/// The same with matrix products of `isa` and all other ops of `kernels`, which outlives the backend.
[[nodiscard]] std::unique_ptr<Backend> make_backend(device::Device& device, device::Stream& stream, Isa isa,
                                                    const Kernels& kernels);

}  // namespace sft::ops::cpu

// The CUDA implementation of ops::Backend. It defines is_built, require_built and the functions of factory.hpp and
// attention_graphs.hpp that are for GPUs alone, too. Programs that run on no GPU link absent.cpp in its place, which
// refuses.
namespace sft::ops::cuda {

/// A backend whose ops are queued on `stream`, of a CUDA device that the calling thread has taken.
/// Throws a configuration Error where cuDNN is asked for and cannot be used.
/// `algorithms`: as ops::make_backend's.
[[nodiscard]] std::unique_ptr<Backend> make_backend(device::Stream& stream, AttentionKernels attention,
                                                    const MatmulAlgorithms* algorithms);

/// See ops::make_step_backend.
[[nodiscard]] std::unique_ptr<Backend> make_step_backend(device::Stream& stream);

}  // namespace sft::ops::cuda

// A backend that holds every call against the rules of its op before another backend runs it.
namespace sft::ops::checked {

/// See ops::make_checked_backend.
[[nodiscard]] std::unique_ptr<Backend> make_backend(std::unique_ptr<Backend> inner);

}  // namespace sft::ops::checked

// A backend whose ops are queued together where the same ones come again.
namespace sft::ops::repeated {

/// See ops::make_repeated_backend.
[[nodiscard]] std::unique_ptr<Backend> make_backend(std::unique_ptr<Backend> inner);

}  // namespace sft::ops::repeated
