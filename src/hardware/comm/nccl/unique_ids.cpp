// SPDX-License-Identifier: Apache-2.0
#include "unique_ids.hpp"

#include <fmt/format.h>

#include "comm/mpi/communicator.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"

namespace sft::comm {

std::vector<ncclUniqueId> share_unique_ids(const Group& group, int per_root) {
  const int count = num_roots(group.size(), per_root);
  std::vector<ncclUniqueId> ids;
  for (int root = 0; root < count; ++root) {
    if (rank_of_root(root, count, group.size()) != group.rank()) continue;
    const ncclResult_t result = ncclGetUniqueId(&ids.emplace_back());
    if (result == ncclSuccess) continue;
    throw Error(ExitStatus::failure, fmt::format("NCCL did not start in group {} on rank {}", group.name(), log_rank()),
                ncclGetErrorString(result), "run again with NCCL_DEBUG=INFO");
  }
  std::vector<int> bytes(group.size()), begins(bytes.size());
  for (int root = 0; root < count; ++root) {
    const auto maker = rank_of_root(root, count, group.size());
    bytes[maker] = static_cast<int>(sizeof(ncclUniqueId));
    begins[maker] = root * static_cast<int>(sizeof(ncclUniqueId));
  }
  std::vector<ncclUniqueId> all(count);
  const Group::Impl& impl = group.impl();
  impl.check(MPI_Allgatherv(ids.data(), static_cast<int>(ids.size() * sizeof(ncclUniqueId)), MPI_BYTE, all.data(),
                            bytes.data(), begins.data(), MPI_BYTE, impl.communicator),
             "MPI_Allgatherv");
  return all;
}

}  // namespace sft::comm
