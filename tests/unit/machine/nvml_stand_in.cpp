// SPDX-License-Identifier: Apache-2.0
// A library that answers as NVML does, for GPUs whose UUIDs begin with 0.
#include <cstring>

namespace {
constexpr int success = 0, invalid_argument = 2, not_found = 6;
int the_gpu = 0;
int num_users = 0;
}  // namespace

extern "C" {

int nvmlInit_v2() {
  ++num_users;
  return success;
}
int nvmlShutdown() {
  --num_users;
  return success;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (num_users == 0 || std::strncmp(uuid, "GPU-0", 5) != 0) return not_found;
  *device = &the_gpu;
  return success;
}
int nvmlDeviceGetClockInfo(void* device, int kind, unsigned* mhz) {
  *mhz = 1395;
  return device == &the_gpu && kind == 1 ? success : invalid_argument;
}
int nvmlDeviceGetMaxClockInfo(void* device, int kind, unsigned* mhz) {
  *mhz = 1980;
  return device == &the_gpu && kind == 1 ? success : invalid_argument;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = 0x4 | 0x8 | 0x40 | 0x1;  // power limit, hardware, its temperature, idle
  return device == &the_gpu ? success : invalid_argument;
}

}  // extern "C"
