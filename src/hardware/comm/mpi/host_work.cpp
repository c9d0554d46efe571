// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <vector>

#include "local_work.hpp"
#include "reduce.hpp"

namespace sft::comm {

namespace {

std::vector<const void*> in_rank_order(const Contributions& parts) {
  std::vector<const void*> sources;
  for (int r = 0; r < parts.size; ++r) sources.push_back(parts.part(r));
  return sources;
}

class HostWork final : public LocalWork {
 public:
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    constexpr std::size_t part_bytes = std::size_t{512} << 10;
#pragma omp parallel for schedule(static) if (bytes > 2 * part_bytes)
    for (std::size_t begin = 0; begin < bytes; begin += part_bytes) {
      std::memcpy(to + begin, from + begin, std::min(part_bytes, bytes - begin));
    }
  }
  void reduce(void* out, const Contributions& parts, std::int64_t num_elements, DType dtype, ReduceOp op) override {
    comm::reduce(out, in_rank_order(parts), num_elements, dtype, op);
  }
  void add_sum(float* out, const Contributions& parts, std::int64_t num_elements) override {
    comm::add_sum(out, in_rank_order(parts), num_elements);
  }
  void round_to_bf16(std::byte* to, const float* from, std::int64_t num_elements) override {
    comm::round_to_bf16(reinterpret_cast<std::uint16_t*>(to), from, num_elements);
  }
  void sum_bf16(float* out, const Contributions& parts, std::int64_t num_elements, bool adds) override {
    comm::sum_bf16(out, in_rank_order(parts), num_elements, adds);
  }
};

}  // namespace

std::unique_ptr<LocalWork> make_host_work() { return std::make_unique<HostWork>(); }

}  // namespace sft::comm
