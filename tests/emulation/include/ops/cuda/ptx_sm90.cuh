// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stands in for src/hardware/ops/cuda/ptx_sm90.cuh where kernels are compiled for the host: the same functions.

#include "ops/cuda/ptx.cuh"
#include "runtime/wgmma.hpp"

#define SFT_SITE_PARAMETERS const char *file = __builtin_FILE(), int line = __builtin_LINE()

namespace sft::ops::cuda::ptx {

inline std::uint32_t shared_address(const void* pointer) { return sft::emulation::shared_address(pointer); }

inline void show_to_wgmma() { sft::emulation::show_to_wgmma(); }
inline void wgmma_begin() { sft::emulation::begin_wgmma(); }
inline void wgmma_commit() { sft::emulation::commit_wgmma(); }
template <int kNewest>
void wgmma_wait(SFT_SITE_PARAMETERS) {
  sft::emulation::wait_wgmma(kNewest, {file, line});
}
template <int kBlocks>
void hold_sums(float (&/*d*/)[kBlocks][4]) {}

template <bool kTransposesB, int kBlocks>
void wgmma(float (&d)[kBlocks][4], std::uint64_t a, std::uint64_t b, bool adds, SFT_SITE_PARAMETERS) {
  sft::emulation::start_wgmma({d[0], 8 * kBlocks, nullptr, a, b, kTransposesB, adds}, {file, line});
}
template <bool kTransposesB, int kBlocks>
void wgmma(float (&d)[kBlocks][4], const std::uint32_t (&a)[4], std::uint64_t b, bool adds, SFT_SITE_PARAMETERS) {
  sft::emulation::start_wgmma({d[0], 8 * kBlocks, a, 0, b, kTransposesB, adds}, {file, line});
}

}  // namespace sft::ops::cuda::ptx

#undef SFT_SITE_PARAMETERS
