// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the activations of blocks wait for the backward pass when the device's memory is too small for them: two blocks
// work in the memory of the device in turn, while those of all others lie elsewhere (as in Rhu et al. 2016).

#include <cstddef>
#include <memory>
#include <vector>

#include "sft/device/device.hpp"
#include "sft/model/architecture.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::model {

/// One place for each block. save, then load, once in a pass; wait comes between them, and before the memory of their
/// tensors is written or read by others. Errors of the copies surface in any later call.
class ActivationStore {
 public:
  virtual ~ActivationStore() = default;

  /// Starts copying `tensors`, contiguous, to the block's place once the ops queued so far have written them.
  virtual void save(BlockIndex block, const std::vector<Tensor>& tensors) = 0;
  /// Starts copying them back once the ops queued so far are done with the memory of `tensors`, which have the sizes of
  /// those that were saved.
  virtual void load(BlockIndex block, const std::vector<Tensor>& tensors) = 0;
  /// Makes later ops of the compute stream wait for the block's last save or load, if there was one.
  virtual void wait(BlockIndex block) = 0;
};

/// Bytes of a place for `tensors`.
[[nodiscard]] std::size_t place_bytes(const std::vector<Tensor>& tensors);

/// In pinned memory of the node, copied on a stream of its own beside the compute stream. For GPUs; on a CPU it works
/// as well, but saves no memory.
class HostActivationStore final : public ActivationStore {
 public:
  /// `places`: one for each block, contiguous, of place_bytes(). Their memory, the device and its stream outlive it.
  HostActivationStore(device::Device& device, device::Stream& compute_stream, IndexedVector<BlockIndex, Tensor> places);
  ~HostActivationStore() override;
  HostActivationStore(const HostActivationStore&) = delete;
  HostActivationStore& operator=(const HostActivationStore&) = delete;

  void save(BlockIndex block, const std::vector<Tensor>& tensors) override;
  void load(BlockIndex block, const std::vector<Tensor>& tensors) override;
  void wait(BlockIndex block) override;

 private:
  /// Calls copy(tensor, its bytes in the block's place) on the stream, behind the compute stream.
  template <class Copy>
  void copy_each(BlockIndex block, const std::vector<Tensor>& tensors, const Copy& copy);

  device::Device& device_;
  device::Stream& compute_stream_;
  IndexedVector<BlockIndex, Tensor> places_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Event> compute_done_;
  IndexedVector<BlockIndex, std::unique_ptr<device::Event>> done_;
};

}  // namespace sft::model
