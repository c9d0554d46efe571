// SPDX-License-Identifier: Apache-2.0
#include "sft/device/device.hpp"

#include "sft/machine/process_memory.hpp"

namespace sft::device {

std::size_t Device::peak_bytes() { return machine::peak_resident_bytes(); }

}  // namespace sft::device
