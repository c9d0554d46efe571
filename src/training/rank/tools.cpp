// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/tools.hpp"

#include <fmt/core.h>
#include <utility>
#include <vector>

#include "sft/core/log.hpp"
#include "sft/ops/factory.hpp"
#include "sft/transfer/file_mover.hpp"
#include "sft/transfer/host_mover.hpp"
#include "sft/transfer/staged_file_mover.hpp"

namespace sft::rank {

namespace {

void warn_of_memory(const io::TransferFile& file, const std::string& folder) {
  if (!file.is_memory()) return;
  log_warning(
      fmt::format("activations offloaded to `{}` stay in memory: that folder is a tmpfs; set "
                  "train.offload_folder to a folder on a disk",
                  folder));
}

/// A mover to a file: past the system's cache from a GPU, through it from a CPU.
std::unique_ptr<transfer::Mover> make_file_mover(const model::DecoderBuffers& buffers, const std::string& folder,
                                                 device::Device& device, device::Stream& compute) {
  const std::size_t num_blocks = buffers.num_offloaded(), place_bytes = buffers.offloaded_bytes();
  const bool is_staged = !buffers.staging.empty();
  const transfer::FileMover::File file{
      .folder = folder,
      .use = {.what = "activations",
              .instead = is_staged ? "activation_offload_to = auto" : "activation_offload = false",
              .refused = ExitStatus::configuration,
              .failed = ExitStatus::failure},
      .cache = is_staged ? io::FileCache::bypassed : io::FileCache::used};
  if (is_staged) {
    auto mover = std::make_unique<transfer::StagedFileMover>(file, place_bytes, num_blocks, buffers.staging, device,
                                                             compute, "activations");
    warn_of_memory(mover->file(), folder);
    return mover;
  }
  auto mover = std::make_unique<transfer::FileMover>(file, std::vector<std::size_t>(num_blocks, place_bytes),
                                                     num_blocks, device, compute);
  warn_of_memory(mover->file(), folder);
  return mover;
}

}  // namespace

std::unique_ptr<ops::Backend> DeviceTools::make_ops(device::Device& device, device::Stream& compute,
                                                    ops::AttentionKernels attention, bool repeats_launches) const {
  std::unique_ptr<ops::Backend> ops = ops::make_backend(device, compute, attention, algorithms_);
  return repeats_launches ? ops::make_repeated_backend(std::move(ops)) : std::move(ops);
}

std::unique_ptr<ops::Backend> DeviceTools::make_step_ops(device::Device& device, device::Stream& stream) const {
  return ops::make_step_backend(device, stream);
}

std::unique_ptr<transfer::Mover> DeviceTools::make_mover(const model::DecoderBuffers& buffers,
                                                         const std::string& folder, device::Device& device,
                                                         device::Stream& compute) const {
  if (buffers.policy().location != model::ActivationPolicy::Location::host) {
    return make_file_mover(buffers, folder, device, compute);
  }
  return std::make_unique<transfer::HostMover>(buffers.host_places, buffers.num_offloaded(), device, compute,
                                               "activations", device::Priority::communication);
}

}  // namespace sft::rank
