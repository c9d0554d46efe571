// SPDX-License-Identifier: Apache-2.0
#include "sft/model/sublayer_tensors.hpp"

#include <algorithm>

namespace sft::model {

namespace {

void take(device::Arena& arena, Tensor& tensor) { tensor.data = arena.take(tensor.size_bytes()); }

bool is_scratch(const SublayerTensor& x) { return x.lifetime == Lifetime::pass || x.lifetime == Lifetime::backward; }

}  // namespace

const Tensor& SublayerTensors::operator[](std::string_view name) const {
  static const Tensor none;
  const auto found = std::ranges::find(all_, name, &SublayerTensor::name);
  return found == all_.end() ? none : found->tensor;
}

void SublayerTensors::take(device::Arena& arena, Lifetime lifetime) {
  for (SublayerTensor& x : all_) {
    if (x.lifetime == lifetime) model::take(arena, x.tensor);
  }
}

void SublayerTensors::take_scratch(device::Arena& arena, ScratchPlace place, bool has_backward) {
  int num_turns = 1;
  for (const SublayerTensor& x : all_) num_turns = std::max(num_turns, x.turn + 1);
  take_in_turn(arena, num_turns, [&](int turn) {
    for (SublayerTensor& x : all_) {
      const bool is_needed = x.lifetime == Lifetime::pass || (x.lifetime == Lifetime::backward && has_backward);
      if (is_needed && x.place == place && x.turn == turn) model::take(arena, x.tensor);
    }
  });
}

void SublayerTensors::place_over(const Tensor& normed) {
  for (SublayerTensor& x : all_) {
    if (is_scratch(x) && x.place == ScratchPlace::over_normed) x.tensor.data = normed.data;
  }
}

std::size_t SublayerTensors::bytes_over_normed() const {
  std::size_t most = 0;
  for (const SublayerTensor& x : all_) {
    if (is_scratch(x) && x.place == ScratchPlace::over_normed) most = std::max(most, x.tensor.size_bytes());
  }
  return most;
}

void SublayerTensors::shorten(std::int64_t num_fewer) {
  for (SublayerTensor& x : all_) {
    if (x.rows_of_token > 0 && x.tensor.data != nullptr) {
      x.tensor = x.tensor.rows(0, x.tensor.shape[0] - x.rows_of_token * num_fewer);
    }
  }
}

}  // namespace sft::model
