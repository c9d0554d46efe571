// SPDX-License-Identifier: Apache-2.0
#pragma once
// An array that lies in two places, as one: whoever loads or saves it reads and writes parts.

#include "sft/device/device.hpp"
#include "sft/tensor/tensor.hpp"
#include "sft/transfer/offloaded_shard.hpp"

namespace sft::optim {

/// `front`, then `back`: each a flat tensor that the device can copy, or a shard elsewhere.
class JoinedShard final : public transfer::OffloadedShard {
 public:
  struct Part {
    Tensor memory;
    transfer::OffloadedShard* elsewhere = nullptr;  ///< instead

    [[nodiscard]] std::int64_t num_elements() const {
      return elsewhere != nullptr ? elsewhere->num_elements() : memory.num_elements();
    }
  };

  /// Front and back are of this dtype.
  JoinedShard(DType dtype, const Part& front, const Part& back) : dtype_(dtype), front_(front), back_(back) {}
  /// Before the first read or write. Both outlive this.
  void open(device::Device& device, device::Stream& stream) {
    device_ = &device;
    stream_ = &stream;
  }

  [[nodiscard]] DType dtype() const override { return dtype_; }
  [[nodiscard]] std::int64_t num_elements() const override { return front_.num_elements() + back_.num_elements(); }
  void read(std::int64_t begin, const Tensor& values) override;
  void write(std::int64_t begin, const ConstTensor& values) override;
  void clear() override;

 private:
  /// Calls visit(part, first element within it, those of `values`) for the parts that hold them.
  template <class Values, class Visit>
  void for_each_part(std::int64_t begin, const Values& values, const Visit& visit) const;
  void copy(const Tensor& to, const ConstTensor& from) const;

  DType dtype_;
  Part front_, back_;
  device::Device* device_ = nullptr;
  device::Stream* stream_ = nullptr;
};

}  // namespace sft::optim
