// SPDX-License-Identifier: Apache-2.0
// What the driver tells of a GPU through its management library (NVML), which is loaded when it is asked for: it comes
// with the driver, not with CUDA. Names and numbers are those of NVIDIA's NVML API Reference.
#include <dlfcn.h>

#include <cstdint>
#include <memory>

#include "sft/machine/gpus.hpp"

namespace sft::machine {

namespace {

constexpr int success = 0;       // NVML_SUCCESS
constexpr int clock_of_sms = 1;  // NVML_CLOCK_SM

struct Nvml {
  using Device = void*;
  int (*initialize)() = nullptr;
  int (*shut_down)() = nullptr;
  int (*find)(const char* uuid, Device*) = nullptr;
  int (*clock)(Device, int kind, unsigned* mhz) = nullptr;
  int (*most_clock)(Device, int kind, unsigned* mhz) = nullptr;
  int (*reasons)(Device, unsigned long long*) = nullptr;
};

/// False where the library lacks it.
template <class Function>
bool look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

/// What holds the clock down, of nvmlClocksThrottleReasons; idleness does not.
std::string describe(unsigned long long reasons) {
  constexpr unsigned long long hardware = 0x8, hardware_causes = 0x40 | 0x80;
  struct Reason {
    unsigned long long bits;
    const char* name;
  };
  constexpr Reason names[] = {
      {0x2 | 0x100, "a clock that was set"}, {0x4, "its power limit"},   {0x10, "the clocks of other GPUs"},
      {0x20 | 0x40, "its temperature"},      {0x80, "its power supply"}, {hardware, "its hardware"}};
  if ((reasons & hardware_causes) != 0) reasons &= ~hardware;  // they come with it
  std::string text;
  for (const Reason& reason : names) {
    if ((reasons & reason.bits) != 0) text += (text.empty() ? "" : ", ") + std::string(reason.name);
  }
  return text;
}

}  // namespace

std::optional<GpuClock> gpu_clock(const std::string& uuid, const std::string& library) {
  const std::unique_ptr<void, int (*)(void*)> handle(
      ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL),
      [](void* opened) { return opened == nullptr ? 0 : ::dlclose(opened); });
  Nvml nvml;
  if (handle == nullptr || !look_up(handle.get(), "nvmlInit_v2", nvml.initialize) ||
      !look_up(handle.get(), "nvmlShutdown", nvml.shut_down) ||
      !look_up(handle.get(), "nvmlDeviceGetHandleByUUID", nvml.find) ||
      !look_up(handle.get(), "nvmlDeviceGetClockInfo", nvml.clock) ||
      !look_up(handle.get(), "nvmlDeviceGetMaxClockInfo", nvml.most_clock) ||
      !look_up(handle.get(), "nvmlDeviceGetCurrentClocksThrottleReasons", nvml.reasons) ||
      nvml.initialize() != success) {
    return std::nullopt;
  }
  Nvml::Device device = nullptr;
  unsigned now_mhz = 0, most_mhz = 0;
  unsigned long long reasons = 0;
  const bool is_known =
      nvml.find(uuid.c_str(), &device) == success && nvml.clock(device, clock_of_sms, &now_mhz) == success &&
      nvml.most_clock(device, clock_of_sms, &most_mhz) == success && nvml.reasons(device, &reasons) == success;
  nvml.shut_down();
  if (!is_known) return std::nullopt;
  constexpr double hz_per_mhz = 1e6;
  return GpuClock{now_mhz * hz_per_mhz, most_mhz * hz_per_mhz, describe(reasons)};
}

}  // namespace sft::machine
