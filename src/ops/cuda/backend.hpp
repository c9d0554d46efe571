// SPDX-License-Identifier: Apache-2.0
#pragma once
// The CUDA implementation of ops::Backend, and what it needs.

#include <cstddef>
#include <memory>

#include "sft/ops/backend.hpp"
#include "sft/ops/shapes.hpp"

namespace sft::ops::cuda {

/// A backend whose ops are queued on `stream`, of a CUDA device that the calling thread has taken.
[[nodiscard]] std::unique_ptr<Backend> make_backend(device::Stream& stream);

/// See ops::workspace_bytes: scratch of one op, whatever the shapes, and behind it the attention plans.
[[nodiscard]] std::size_t workspace_bytes(const Shapes& shapes, const AttentionNeeds& attention);

}  // namespace sft::ops::cuda
