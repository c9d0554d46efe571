// SPDX-License-Identifier: Apache-2.0
#include "communicator.hpp"

#include <array>
#include <utility>

#include "sft/comm/launcher.hpp"
#include "sft/core/log.hpp"
#include "sft/machine/node.hpp"

namespace sft::comm {

Group::Impl::Impl(MPI_Comm owned, std::string group_name) : communicator(owned), name(std::move(group_name)) {
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  check(MPI_Comm_rank(communicator, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(communicator, &size), "MPI_Comm_size");
}

Group::Impl::Impl(int planned_rank, int planned_size, std::string group_name)
    : name(std::move(group_name)), rank(planned_rank), size(planned_size) {}

Group::Impl::~Impl() {
  if (communicator == MPI_COMM_NULL) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Comm_free(&communicator);
}

void Group::Impl::check(int code, const char* call) const {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(ExitStatus::failure,
              std::string(call) + " failed in group " + name + " on rank " + std::to_string(log_rank()), text.data(),
              "look for an earlier message of another rank or of the MPI library");
}

void Group::Impl::meet() const {
  static const bool ranks_share_cores = machine::ranks_share_cores(num_local_ranks());
  if (!ranks_share_cores || size == 1) return;
  MPI_Request all_are_here = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(communicator, &all_are_here), "MPI_Ibarrier");
  int finished = 0;
  for (int num_tests = 1;; ++num_tests) {
    check(MPI_Test(&all_are_here, &finished, MPI_STATUS_IGNORE), "MPI_Test");
    if (finished != 0) return;
    machine::pause_between_tests(num_tests);
  }
}

Group planned_group(int rank, int size, const std::string& name) {
  return Group(std::make_shared<Group::Impl>(rank, size, name));
}

Group make_group(MPI_Comm owned, const std::string& name) { return Group(std::make_shared<Group::Impl>(owned, name)); }

}  // namespace sft::comm
