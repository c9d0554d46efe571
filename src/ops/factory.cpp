#include "sft/ops/factory.hpp"

#include "ops/cpu/backend.hpp"
#include "sft/core/error.hpp"

namespace sft::ops {

bool is_built(device::Kind kind) { return kind == device::Kind::cpu; }

void require_built(device::Kind kind) {
  if (is_built(kind)) return;
  throw_config_error("[device] backend = cuda cannot compute", "this build has no CUDA kernels",
                     "set [device] backend = cpu");
}

std::unique_ptr<Backend> make_backend(device::Device& device, device::Stream& stream) {
  require_built(device.kind());
  return cpu::make_backend(stream, cpu::best_isa());
}

std::size_t workspace_bytes(device::Kind kind, const WorkspaceNeeds& needs) {
  return kind == device::Kind::cpu ? cpu::workspace_bytes(needs) : 0;
}

const char* cpu_instruction_set() { return cpu::name_of(cpu::best_isa()); }

}  // namespace sft::ops
