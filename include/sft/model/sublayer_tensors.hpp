// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tensors that a sublayer works in, as it describes them: what it keeps between its passes, and its scratch memory.
// Pure: planning lays them out without a device.

#include <algorithm>
#include <any>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "sft/device/arena.hpp"
#include "sft/model/activation_policy.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::model {

/// The place of a tensor with Lifetime::pass or Lifetime::backward.
enum class ScratchPlace {
  shared,       ///< over the scratch memory of all other sublayers
  alone,        ///< over that of other blocks' sublayers of the same kind
  over_normed,  ///< in the memory of BlockScratch::normed, which it overwrites
  tp_sums,      ///< as `shared`, in the memory that is summed over tp
};

/// A tensor of a sublayer, and how it is laid out.
struct SublayerTensor {
  std::string_view name;
  Lifetime lifetime;
  Tensor tensor;                   ///< for Sizes::tokens tokens; without memory until it is taken
  std::int64_t rows_of_token = 1;  ///< of dim 0: a pass over fewer tokens has so many less; 0: it has them all
  ScratchPlace place = ScratchPlace::shared;
  /// Shared tensors of different turns lie one over the other: the sublayer is done with those of one turn before it
  /// begins the next.
  int turn = 0;
};

/// The form of a tensor, without memory.
[[nodiscard]] inline Tensor form_of(DType dtype, std::initializer_list<std::int64_t> shape) {
  return {nullptr, dtype, shape};
}

/// The tensors of a sublayer by their names.
class SublayerTensors {
 public:
  SublayerTensors() = default;
  explicit SublayerTensors(std::vector<SublayerTensor> all) : all_(std::move(all)) {}

  /// Empty where the sublayer has none of the name, or it has no memory.
  [[nodiscard]] const Tensor& operator[](std::string_view name) const;
  [[nodiscard]] const std::vector<SublayerTensor>& all() const { return all_; }

  /// Takes the tensors of this lifetime, contents undefined.
  void take(device::Arena& arena, Lifetime lifetime);
  /// Takes the scratch tensors of this place, contents undefined. `has_backward`: those with Lifetime::backward, too.
  void take_scratch(device::Arena& arena, ScratchPlace place, bool has_backward);
  /// Gives the tensors with ScratchPlace::over_normed the memory of `normed`, which has bytes_over_normed() or more.
  void place_over(const Tensor& normed);
  /// Bytes of the largest tensor with ScratchPlace::over_normed: each begins where `normed` does.
  [[nodiscard]] std::size_t bytes_over_normed() const;
  /// Views for `num_fewer` tokens less.
  void shorten(std::int64_t num_fewer);

  std::any on_host;  ///< what the forward pass leaves on the host for the backward pass, as the sublayer wants it

 private:
  std::vector<SublayerTensor> all_;
};

/// Lays out alternatives one over the other: lay_out(i) for i below `count` each take what they want of `arena`, which
/// then has the most that one of them took.
template <class LayOut>
void take_in_turn(device::Arena& arena, int count, const LayOut& lay_out) {
  const std::size_t begin = arena.used_bytes();
  std::size_t most = 0;
  for (int i = 0; i < count; ++i) {
    arena.rewind(begin);
    lay_out(i);
    most = std::max(most, arena.used_bytes() - begin);
  }
  arena.rewind(begin);
  static_cast<void>(arena.take(most));
}

}  // namespace sft::model
