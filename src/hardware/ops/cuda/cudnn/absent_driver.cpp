// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 for machines without a GPU, in whose place a process loads it: there is no device, and what cuDNN
// compiles can be loaded, though never launched. With it cuDNN plans and compiles for a GPU that is described to it.
//
// Functions are asked for by name, from the library or by way of cuGetProcAddress, and called with what the driver's
// take; those that are not listed do nothing.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>

namespace {

enum Result : int { done = 0, no_device = 100, not_found = 500 };

/// What handles of modules, kernels and variables point into.
char thing[4096];

}  // namespace

extern "C" {

int cuInit(unsigned /*flags*/) { return no_device; }
int cuDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return done;
}
int cuDeviceGetCount(int* count) {
  *count = 0;
  return done;
}
int cuGetExportTable() { return not_found; }
int cuGetErrorName(int /*error*/, const char** text) {
  *text = "there is no driver of GPUs";
  return done;
}
int cuGetErrorString(int error, const char** text) { return cuGetErrorName(error, text); }

int cuLibraryLoadData(void** library) {
  *library = thing;
  return done;
}
int cuLibraryGetGlobal(void** place, std::size_t* bytes) {
  if (place != nullptr) *place = thing;
  if (bytes != nullptr) *bytes = 8;
  return done;
}
int cuKernelGetAttribute(int* value) {
  *value = 0;
  return done;
}
int cuLibraryLoadFromFile(void** library) { return cuLibraryLoadData(library); }
int cuLibraryGetKernel(void** kernel) { return cuLibraryLoadData(kernel); }
int cuKernelGetFunction(void** function) { return cuLibraryLoadData(function); }
int cuModuleLoadData(void** module) { return cuLibraryLoadData(module); }
int cuModuleGetFunction(void** function) { return cuLibraryLoadData(function); }

#define SFT_DOES_NOTHING(name) \
  int name() { return done; }
SFT_DOES_NOTHING(cuLibraryUnload)
SFT_DOES_NOTHING(cuModuleUnload)
SFT_DOES_NOTHING(cuKernelSetAttribute)
SFT_DOES_NOTHING(cuCtxGetCurrent)
SFT_DOES_NOTHING(cuCtxGetLimit)
SFT_DOES_NOTHING(cuCtxPopCurrent)
SFT_DOES_NOTHING(cuCtxPushCurrent)
SFT_DOES_NOTHING(cuDeviceGet)
SFT_DOES_NOTHING(cuStreamGetCtx)
SFT_DOES_NOTHING(cuLinkCreate)
SFT_DOES_NOTHING(cuLinkAddData)
SFT_DOES_NOTHING(cuLinkComplete)
SFT_DOES_NOTHING(cuLinkDestroy)
SFT_DOES_NOTHING(cuLaunchKernel)
SFT_DOES_NOTHING(cuLaunchKernelEx)
SFT_DOES_NOTHING(cuLaunchCooperativeKernel)
SFT_DOES_NOTHING(cuOccupancyMaxPotentialClusterSize)
SFT_DOES_NOTHING(cuTensorMapEncodeIm2col)
SFT_DOES_NOTHING(cuTensorMapEncodeTiled)

int cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long long flags, int* status);

}  // extern "C"

namespace {

using Function = void (*)();
struct Entry {
  const char* name;
  Function function;
};

int do_nothing() { return done; }

template <class Signature>
Function plain(Signature* function) {
  return reinterpret_cast<Function>(function);
}

}  // namespace

extern "C" {

int cuGetProcAddress(const char* name, void** function, int /*version*/, unsigned long long /*flags*/) {
  static const Entry listed[] = {
      {"cuInit", plain(cuInit)},
      {"cuDriverGetVersion", plain(cuDriverGetVersion)},
      {"cuDeviceGetCount", plain(cuDeviceGetCount)},
      {"cuGetProcAddress", plain(cuGetProcAddress_v2)},
      {"cuGetExportTable", plain(cuGetExportTable)},
      {"cuGetErrorName", plain(cuGetErrorName)},
      {"cuGetErrorString", plain(cuGetErrorString)},
      {"cuLibraryLoadData", plain(cuLibraryLoadData)},
      {"cuLibraryGetKernel", plain(cuLibraryLoadData)},
      {"cuLibraryGetModule", plain(cuLibraryLoadData)},
      {"cuLibraryGetGlobal", plain(cuLibraryGetGlobal)},
      {"cuKernelGetFunction", plain(cuLibraryLoadData)},
      {"cuKernelGetAttribute", plain(cuKernelGetAttribute)},
      {"cuModuleLoadData", plain(cuLibraryLoadData)},
      {"cuModuleLoadDataEx", plain(cuLibraryLoadData)},
      {"cuModuleGetFunction", plain(cuLibraryLoadData)},
      {"cuModuleGetGlobal", plain(cuLibraryGetGlobal)},
      {"cuFuncGetAttribute", plain(cuKernelGetAttribute)},
  };
  Function found = plain(do_nothing);
  for (const Entry& entry : listed) {
    if (std::strcmp(entry.name, name) == 0) found = entry.function;
  }
  *function = reinterpret_cast<void*>(found);
  return done;
}

int cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long long flags, int* status) {
  if (status != nullptr) *status = 0;
  return cuGetProcAddress(name, function, version, flags);
}

}  // extern "C"
