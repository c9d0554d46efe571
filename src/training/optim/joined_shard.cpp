// SPDX-License-Identifier: Apache-2.0
#include "joined_shard.hpp"

#include <algorithm>

#include "sft/core/ensure.hpp"

namespace sft::optim {

template <class Values, class Visit>
void JoinedShard::for_each_part(std::int64_t begin, const Values& values, const Visit& visit) const {
  const std::int64_t border = front_.num_elements(), count = values.num_elements();
  const std::int64_t in_front = std::clamp<std::int64_t>(border - begin, 0, count);
  if (in_front > 0) visit(front_, begin, values.rows(0, in_front));
  if (in_front < count) visit(back_, begin + in_front - border, values.rows(in_front, count - in_front));
}

void JoinedShard::copy(const Tensor& to, const ConstTensor& from) const {
  SFT_ENSURE(device_ != nullptr, "a joined array is open before it is read");
  device_->copy(to.data, from.data, from.size_bytes(), *stream_);
  stream_->synchronize();
}

void JoinedShard::read(std::int64_t begin, const Tensor& values) {
  for_each_part(begin, values, [&](const Part& part, std::int64_t at, const Tensor& to) {
    if (part.elsewhere != nullptr) return part.elsewhere->read(at, to);
    copy(to, part.memory.rows(at, to.num_elements()));
  });
}

void JoinedShard::write(std::int64_t begin, const ConstTensor& values) {
  for_each_part(begin, values, [&](const Part& part, std::int64_t at, const ConstTensor& from) {
    if (part.elsewhere != nullptr) return part.elsewhere->write(at, from);
    copy(part.memory.rows(at, from.num_elements()), from);
  });
}

void JoinedShard::clear() {
  for (const Part* part : {&front_, &back_}) {
    if (part->elsewhere != nullptr) {
      part->elsewhere->clear();
    } else if (!part->memory.empty()) {
      device_->fill_zero(part->memory.data, part->memory.size_bytes(), *stream_);
      stream_->synchronize();
    }
  }
}

}  // namespace sft::optim
