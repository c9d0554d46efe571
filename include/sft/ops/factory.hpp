#pragma once
// The one place that knows which compute backends this program was built with.

#include <memory>

#include "sft/ops/backend.hpp"

namespace sft::ops {

/// Whether this build has kernels for `kind`.
[[nodiscard]] bool is_built(device::Kind kind);
/// Throws a configuration Error unless it has.
void require_built(device::Kind kind);

/// A backend whose ops are queued on `stream` of `device`; both outlive it. Throws a configuration Error when absent.
[[nodiscard]] std::unique_ptr<Backend> make_backend(device::Device& device, device::Stream& stream);

/// What the scratch memory of a backend depends on: the largest calls of attention_backward that write dk and dv in
/// bf16 rather than float32. Nothing else depends on shapes.
struct WorkspaceNeeds {
  std::int64_t num_keys = 0;      ///< Tk; 0: there is no such call
  std::int64_t longest_lane = 0;  ///< most keys of a lane
  std::int64_t num_kv_heads = 0, head_dim = 0;
};

/// Scratch bytes that every op needs at most on this device (the matrix library's, the attention tiles' and the sums
/// over queries). On the CPU they grow with the number of OpenMP threads; 0 where the build has no kernels.
[[nodiscard]] std::size_t workspace_bytes(device::Kind kind, const WorkspaceNeeds& needs);

/// "AVX-512 + AMX", "AVX-512", "AVX2" or "baseline": the instruction set the CPU kernels run with (for tables and
/// benchmarks).
[[nodiscard]] const char* cpu_instruction_set();

}  // namespace sft::ops
