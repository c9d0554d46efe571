// SPDX-License-Identifier: Apache-2.0
#include "machine_of_run.hpp"

#include <fmt/core.h>

#include "apps/common/machines.hpp"
#include "save_model_folder.hpp"
#include "sft/core/error.hpp"
#include "sft/machine/node.hpp"

namespace sft::apps {

rank::Machine machine_of(const RunContext& on, const std::optional<device::OwnMemory>& own) {
  return {.kind = on.device.kind(),
          .num_threads = machine::num_threads(),
          .huge_page_bytes = machine::unasked_huge_page_bytes(),
          .gpu_process_bytes = own ? own->used_bytes + rank::later_gpu_bytes : 0,
          .node_shared_bytes = ModelFolder::shared_bytes(*on.config),
          .is_first_of_node = on.session.node().rank() == 0};
}

simulator::Hardware hardware_of(const RunContext& on, const std::string& name,
                                const std::optional<device::OwnMemory>& own) {
  const bool is_gpu = on.device.kind() == device::Kind::cuda;
  const int ranks_per_node = on.session.node().size(), num_ranks = on.session.world().size();
  simulator::Hardware hardware = simulator::with_ranks_per_node(machine_named(!name.empty() ? name
                                                                              : is_gpu      ? "h100"
                                                                                            : "cpu"),
                                                                ranks_per_node);
  if ((hardware.kind == device::Kind::cuda) != is_gpu) {
    throw_config_error(fmt::format("--machine {} is another machine", name),
                       is_gpu ? "this run computes on GPUs" : "this run computes on CPUs",
                       "give a file that `sft --check --write_machine FILE` wrote here");
  }
  hardware.num_nodes = (num_ranks + ranks_per_node - 1) / ranks_per_node;
  if (own) hardware.device_bytes = own->total_bytes;
  if (const auto bytes = machine::node_memory_bytes()) hardware.node_bytes = *bytes;
  return hardware;
}

}  // namespace sft::apps
