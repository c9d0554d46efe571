// SPDX-License-Identifier: Apache-2.0
// Every instruction set of this machine.

#include "unit/ops/support.hpp"

namespace sft::ops::testing {

std::vector<cpu::Isa> testable_isas() {
  std::vector<cpu::Isa> isas;
  for (const cpu::Isa isa :
       {cpu::Isa::baseline, cpu::Isa::avx2, cpu::Isa::avx512, cpu::Isa::avx512_bf16, cpu::Isa::amx}) {
    if (isa <= cpu::best_isa()) isas.push_back(isa);
  }
  return isas;
}

const cpu::Kernels& tested_kernels(cpu::Isa isa) { return cpu::kernels_of(isa); }

std::unique_ptr<Backend> make_tested_backend(device::Device& device, device::Stream& stream, cpu::Isa isa) {
  return cpu::make_backend(device, stream, isa);
}

}  // namespace sft::ops::testing
