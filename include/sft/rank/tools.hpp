// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parts of a rank's workers that differ between a run and a rehearsal of it.

#include <memory>
#include <string>

#include "sft/device/device.hpp"
#include "sft/model/decoder_buffers.hpp"
#include "sft/ops/backend.hpp"
#include "sft/ops/matmul_algorithms.hpp"
#include "sft/ops/shapes.hpp"
#include "sft/transfer/mover.hpp"

namespace sft::rank {

/// Makes what computes and what moves activations. All calls are local; devices and streams outlive what is made.
class Tools {
 public:
  Tools() = default;
  virtual ~Tools() = default;
  Tools(const Tools&) = delete;
  Tools& operator=(const Tools&) = delete;

  /// Ops on the compute stream. `repeats_launches`: those that come again may be recorded (make_repeated_backend).
  [[nodiscard]] virtual std::unique_ptr<ops::Backend> make_ops(device::Device& device, device::Stream& compute,
                                                               ops::AttentionKernels attention,
                                                               bool repeats_launches) const = 0;
  /// Ops that end a step, on the stream of the optimizer.
  [[nodiscard]] virtual std::unique_ptr<ops::Backend> make_step_ops(device::Device& device,
                                                                    device::Stream& stream) const = 0;
  /// A mover with a lane and a place for each block that `buffers` offload, of which there is one at least. Files lie
  /// in `folder`.
  [[nodiscard]] virtual std::unique_ptr<transfer::Mover> make_mover(const model::DecoderBuffers& buffers,
                                                                    const std::string& folder, device::Device& device,
                                                                    device::Stream& compute) const = 0;
  /// Whether the other ranks of the world are there, so that sums over them can be made on the host.
  [[nodiscard]] virtual bool has_other_ranks() const = 0;
};

/// The tools of a run: they compute on a device, and move activations of GPUs to the node's memory or to a file behind
/// some of it, those of CPUs to a file behind the system's cache. make_mover() throws a configuration Error where there
/// is no room for the file.
class DeviceTools final : public Tools {
 public:
  /// `algorithms`: null, or of a GPU's products; it outlives what is made.
  explicit DeviceTools(const ops::MatmulAlgorithms* algorithms = nullptr) : algorithms_(algorithms) {}

  [[nodiscard]] std::unique_ptr<ops::Backend> make_ops(device::Device& device, device::Stream& compute,
                                                       ops::AttentionKernels attention,
                                                       bool repeats_launches) const override;
  [[nodiscard]] std::unique_ptr<ops::Backend> make_step_ops(device::Device& device,
                                                            device::Stream& stream) const override;
  [[nodiscard]] std::unique_ptr<transfer::Mover> make_mover(const model::DecoderBuffers& buffers,
                                                            const std::string& folder, device::Device& device,
                                                            device::Stream& compute) const override;
  [[nodiscard]] bool has_other_ranks() const override { return true; }

 private:
  const ops::MatmulAlgorithms* algorithms_;
};

}  // namespace sft::rank
