// SPDX-License-Identifier: Apache-2.0
#include "notice.hpp"

#include <array>
#include <cstdint>
#include <span>

namespace sft::train {

Notice exchange(const Notice& mine, const comm::Group& world) {
  std::array<std::int64_t, 2> values{mine.signal, mine.failed ? 1 : 0};
  world.max(std::span<std::int64_t>(values));
  return {static_cast<int>(values[0]), values[1] != 0};
}

std::exception_ptr fetch(data::Loader& loader, data::MicroBatch& batch) {
  try {
    batch = loader.next();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace sft::train
