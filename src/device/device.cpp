// SPDX-License-Identifier: Apache-2.0
#include "sft/device/device.hpp"

#include <cstdio>
#include <exception>
#include <stdexcept>

#include "sft/core/log.hpp"
#include "sft/machine/process_memory.hpp"

namespace sft::device {

void Stream::drain() noexcept {
  // Not through the log, whose texts are made in memory that may be lacking here.
  try {
    synchronize();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "warning: rank %d: queued work failed at the end: %s\n", log_rank(),
                 printable(error.what(), /*keep_layout=*/false).c_str());
  } catch (...) {
    std::fprintf(stderr, "warning: rank %d: queued work failed at the end\n", log_rank());
  }
}

void Stream::push(std::unique_ptr<Pending>) { throw std::logic_error("only CPU streams hold pending host work"); }

std::size_t Device::peak_bytes() { return machine::peak_resident_bytes(); }

}  // namespace sft::device
