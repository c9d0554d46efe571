// SPDX-License-Identifier: Apache-2.0
#include "scarce_engine.hpp"

#include <optional>

#include "sft/device/factory.hpp"
#include "support/awkward_data.hpp"
#include "support/engine_fixture.hpp"
#include "support/failing_device.hpp"
#include "support/file_size_limit.hpp"

namespace sft::test {

config::ValidConfig scarce_config(const mesh::Layout& layout, const std::string& offload_folder) {
  config::Config config;
  config.model = small_qwen2();
  config.model.num_hidden_layers = 4;  // of which two keep their activations in memory
  config.train.per_device_train_batch_size = 1;
  if (!offload_folder.empty()) {
    config.train.offload_folder = offload_folder;
    config.train.activation_offload = true;
    config.train.offload_optimizer = config::Offload::nvme;
  }
  return with_mesh(config, layout);
}

void set_engine_up(const config::ValidConfig& config, const Scarcity& scarcity, const comm::Session& session) {
  constexpr std::int64_t max_length = 48;
  const comm::Group& world = session.world();
  const bool is_scarce = world.rank() == scarcity.rank;
  const Mesh mesh(world, mesh::layout_of(config->parallel), config->model, config->parallel);
  FailingDevice device(device::make_device(device::Kind::cpu, {.num_local_ranks = session.node().size()}));
  const auto collectives = comm::make_collectives(device, mesh.groups.of_tensors());
  device::Ledger ledger;
  std::optional<NoWindows> no_windows;
  if (is_scarce && !scarcity.has_windows) no_windows.emplace();
  std::optional<FileSizeLimit> no_file_space;
  if (is_scarce && !scarcity.has_file_space) no_file_space.emplace(4096);
  if (is_scarce) device.fail_at(scarcity.failing_request);
  const auto limits = rows::limits_of_full_rows(config->train.per_device_train_batch_size, max_length);
  const train::Engine engine(config, limits, mesh.place, mesh.groups, device, *collectives, ledger);
}

}  // namespace sft::test
