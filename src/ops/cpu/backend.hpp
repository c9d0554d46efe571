#pragma once
// ops::Backend on host processors: every op runs at once, in vectorised loops and oneDNN products on OpenMP threads.

#include <memory>

#include "ops/cpu/isa.hpp"
#include "sft/ops/backend.hpp"
#include "sft/ops/factory.hpp"

namespace sft::ops::cpu {

/// Ops queued on `stream` with the kernels of `isa`. Results do not depend on the number of threads, but for those of
/// matrix products.
[[nodiscard]] std::unique_ptr<Backend> make_backend(device::Stream& stream, Isa isa);

/// Scratch bytes that every op needs at most, on as many threads as OpenMP uses.
[[nodiscard]] std::size_t workspace_bytes(const WorkspaceNeeds& needs);

}  // namespace sft::ops::cpu
