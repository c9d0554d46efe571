// SPDX-License-Identifier: Apache-2.0
#pragma once
// State in pinned memory of the node, copied to buffers in a GPU's memory and back on two streams, one for each
// direction of the link, beside the ops. The host waits for nothing.
//
// Why the state travels, where ZeRO-Offload (Ren et al. 2021) runs AdamW on the node's processors: with both moments
// and the master weights 12 bytes a parameter go each way, at the same time, over a link of the GPU's own, so 24 bytes
// through the memory that all GPUs of the node share. On the processors it would be 28, with the gradients, and the
// copies of gradients and new weights beside. And the bits are those of state in the GPU's memory: the kernel is the
// same.

#include <memory>
#include <vector>

#include "sft/device/device.hpp"
#include "state_array.hpp"
#include "state_transfers.hpp"

namespace sft::optim {

class HostTransfers final : public StateTransfers {
 public:
  /// `state`: the parts of `arrays`, where they lie. Their memory, arrays, device and stream outlive this; the stream
  /// carries the ops.
  HostTransfers(const std::vector<StateArray>& arrays, std::vector<Tensor> state, std::size_t num_buffers,
                device::Device& device, device::Stream& compute_stream);
  ~HostTransfers() override { drain(); }
  HostTransfers(const HostTransfers&) = delete;
  HostTransfers& operator=(const HostTransfers&) = delete;

  void begin_step() override;
  void end_step() override;
  void start_reading(std::size_t buffer, const std::vector<Transfer>& transfers) override;
  void finish_reading(std::size_t buffer) override;
  void start_writing(std::size_t buffer, const std::vector<Transfer>& transfers) override;
  void finish_writing(std::size_t buffer) override;
  void drain() noexcept override;

 private:
  struct Events {
    std::unique_ptr<device::Event> read, written;
  };

  /// Where the transfer lies between steps.
  [[nodiscard]] Tensor stored(const Transfer& transfer) const;

  const std::vector<StateArray>& arrays_;
  const std::vector<Tensor> state_;
  device::Device& device_;
  device::Stream& compute_stream_;
  std::unique_ptr<device::Stream> read_stream_, write_stream_;
  std::unique_ptr<device::Event> computed_, all_written_;
  std::vector<Events> buffers_;
};

}  // namespace sft::optim
