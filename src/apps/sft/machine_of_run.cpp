// SPDX-License-Identifier: Apache-2.0
#include "machine_of_run.hpp"

#include "save_model_folder.hpp"
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

std::size_t own_bytes(const rank::Datasets& datasets) {
  return machine::resident_bytes() - rank::row_table_bytes(datasets);
}

}  // namespace sft::apps
