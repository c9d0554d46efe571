// SPDX-License-Identifier: Apache-2.0
// NVRTC as the headers of cuDNN's frontend call it, for kernels of its own for norms, which attention never asks for:
// so that no program needs the library. (cuDNN itself loads NVRTC for what it compiles.)
#include <nvrtc.h>

namespace {

constexpr nvrtcResult refused = NVRTC_ERROR_INTERNAL_ERROR;

}  // namespace

extern "C" {

nvrtcResult nvrtcCreateProgram(nvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*) {
  return refused;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram*) { return refused; }
nvrtcResult nvrtcCompileProgram(nvrtcProgram, int, const char* const*) { return refused; }
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, size_t*) { return refused; }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char*) { return refused; }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram, size_t*) { return refused; }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram, char*) { return refused; }

}  // extern "C"
