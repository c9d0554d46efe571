#include "ops/cpu/isa.hpp"

#include <array>

namespace sft::ops::cpu {

namespace baseline {
void fill_table(Kernels& table);
}
namespace avx2 {
void fill_table(Kernels& table);
}
namespace avx512 {
void fill_table(Kernels& table);
}

Isa best_isa() {
  if (__builtin_cpu_supports("x86-64-v4") != 0) return Isa::avx512;
  if (__builtin_cpu_supports("x86-64-v3") != 0) return Isa::avx2;
  return Isa::baseline;
}

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return "AVX-512";
    case Isa::avx2:
      return "AVX2";
    case Isa::baseline:
      break;
  }
  return "baseline";
}

const Kernels& kernels_of(Isa isa) {
  static const std::array<Kernels, 3> tables = [] {
    std::array<Kernels, 3> filled{};
    baseline::fill_table(filled[static_cast<std::size_t>(Isa::baseline)]);
    avx2::fill_table(filled[static_cast<std::size_t>(Isa::avx2)]);
    avx512::fill_table(filled[static_cast<std::size_t>(Isa::avx512)]);
    return filled;
  }();
  return tables[static_cast<std::size_t>(isa)];
}

}  // namespace sft::ops::cpu
