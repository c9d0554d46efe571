// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/isa.hpp"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>

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

namespace avx512bf16 {
void enter_attention_pairs(Kernels& table);
}

namespace amx {
void enter_attention_amx(Kernels& table);
void enter_packed_matmul_amx(Kernels& table);
}  // namespace amx

namespace {

/// Whether the processor has AMX for bf16 and the operating system lets this process use its tiles.
bool has_amx() {
  constexpr unsigned leaf = 7, amx_bf16 = 1U << 22, amx_tile = 1U << 24;  // in EDX
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(leaf, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return (edx & amx_bf16) != 0 && (edx & amx_tile) != 0 && syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

// The levels of the x86-64 psABI, by those of their instructions that compilers can ask for by name; no processor has
// these without the rest.
bool has_x86_64_v3() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
         __builtin_cpu_supports("bmi") != 0 && __builtin_cpu_supports("bmi2") != 0;
}
bool has_x86_64_v4() {
  return has_x86_64_v3() && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512cd") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0;
}

Isa best_isa_of_processor() {
  if (has_x86_64_v4()) {
    if (__builtin_cpu_supports("avx512bf16") == 0) return Isa::avx512;
    return has_amx() ? Isa::amx : Isa::avx512_bf16;
  }
  return has_x86_64_v3() ? Isa::avx2 : Isa::baseline;
}

}  // namespace

Isa isa_limit(const char* onednn_name) {
  std::string name = onednn_name != nullptr ? onednn_name : "";
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (name.find("AMX") != std::string::npos) return Isa::amx;
  if (name == "AVX512_CORE_BF16" || name == "AVX512_CORE_FP16" || name.starts_with("AVX10")) return Isa::avx512_bf16;
  if (name.starts_with("AVX512")) return Isa::avx512;
  if (name.starts_with("AVX2")) return Isa::avx2;
  if (name == "AVX" || name == "SSE41") return Isa::baseline;
  return Isa::amx;
}

Isa best_isa() {
  static const Isa best = std::min(best_isa_of_processor(), isa_limit(std::getenv("ONEDNN_MAX_CPU_ISA")));
  return best;
}

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::amx:
      return "AVX-512 + AMX";
    case Isa::avx512_bf16:
      return "AVX-512 + BF16";
    case Isa::avx512:
      return "AVX-512";
    case Isa::avx2:
      return "AVX2";
    case Isa::baseline:
      break;
  }
  return "baseline";
}

// Measured: Intel's processors with AMX, which a virtual machine may hide, begin one vdpbf16ps, twice the work of an
// FMA, in the time of four FMAs (fifth generation of Xeon); AMD's Zen 4 does in that of one. Assumed, for want of such
// machines: other processors of AMD, and Intel's Cooper Lake, whose fastest bf16 instruction it is, do likewise.
bool has_fast_bf16_products(Isa isa) {
  if (isa == Isa::avx512_bf16) return __builtin_cpu_is("intel") == 0 || __builtin_cpu_is("cooperlake") != 0;
  return isa == Isa::amx;
}

const Kernels& kernels_of(Isa isa) {
  // What fills a table is itself compiled for its instruction set: only the table that is asked for is filled.
  const auto filled = [](auto... fills) {
    Kernels table{};
    (fills(table), ...);
    return table;
  };
  switch (isa) {
    case Isa::amx: {
      static const Kernels table = filled(avx512::fill_table, amx::enter_attention_amx, amx::enter_packed_matmul_amx);
      return table;
    }
    case Isa::avx512_bf16: {
      static const Kernels table = has_fast_bf16_products(isa)
                                       ? filled(avx512::fill_table, avx512bf16::enter_attention_pairs)
                                       : filled(avx512::fill_table);
      return table;
    }
    case Isa::avx512: {
      static const Kernels table = filled(avx512::fill_table);
      return table;
    }
    case Isa::avx2: {
      static const Kernels table = filled(avx2::fill_table);
      return table;
    }
    case Isa::baseline:
      break;
  }
  static const Kernels table = filled(baseline::fill_table);
  return table;
}

}  // namespace sft::ops::cpu
