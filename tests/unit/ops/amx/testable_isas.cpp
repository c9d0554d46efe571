// SPDX-License-Identifier: Apache-2.0
// AMX alone: attention and products on packed copies in tiles that are in software, every other op as this machine has
// it.

#include "unit/ops/support.hpp"

namespace sft::ops::cpu::amx_in_software {
void enter_attention_amx(Kernels& table);
void enter_packed_matmul_amx(Kernels& table);
}  // namespace sft::ops::cpu::amx_in_software

namespace sft::ops::testing {

std::vector<cpu::Isa> testable_isas() { return {cpu::Isa::amx}; }

const cpu::Kernels& tested_kernels(cpu::Isa) {
  static const cpu::Kernels kernels = [] {
    cpu::Kernels table = cpu::kernels_of(cpu::best_isa());
    cpu::amx_in_software::enter_attention_amx(table);
    cpu::amx_in_software::enter_packed_matmul_amx(table);
    return table;
  }();
  return kernels;
}

std::unique_ptr<Backend> make_tested_backend(device::Device& device, device::Stream& stream, cpu::Isa isa) {
  return cpu::make_backend(device, stream, cpu::best_isa(), tested_kernels(isa));
}

}  // namespace sft::ops::testing
