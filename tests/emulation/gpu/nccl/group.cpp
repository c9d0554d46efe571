// SPDX-License-Identifier: Apache-2.0
#include "group.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "checks.hpp"
#include "runtime/stream_queue.hpp"

namespace sft::emulation {

Group& Group::of_thread() {
  thread_local Group group;
  return group;
}

ncclResult_t Group::end() {
  if (depth_ == 0) return ncclInvalidUsage;
  if (--depth_ > 0) return ncclSuccess;
  return launch();
}

ncclResult_t Group::add(Communicator& communicator, cudaStream_t stream, const Collective& collective) {
  const ncclResult_t result = note(communicator, stream, why_refused(communicator, stream, collective));
  if (result != ncclSuccess) return result;
  part_of(communicator, stream).collectives.push_back(collective);
  return is_open() ? ncclSuccess : launch();
}

ncclResult_t Group::add(Communicator& communicator, cudaStream_t stream, const Transfer& transfer) {
  const ncclResult_t result = note(communicator, stream, why_refused(communicator, stream, transfer));
  if (result != ncclSuccess) return result;
  part_of(communicator, stream).transfers.push_back(transfer);
  return is_open() ? ncclSuccess : launch();
}

ncclResult_t Group::note(Communicator& communicator, cudaStream_t stream, const std::string& refusal) {
  std::string text = refusal;
  for (const Part& part : parts_) {
    if (part.communicator == &communicator && part.stream != stream) {
      text = "one group with two streams of one communicator is not emulated";
    }
  }
  if (communicator.error() != ncclSuccess) return communicator.error();
  if (text.empty()) return ncclSuccess;
  communicator.set_last_error(text + " (" + communicator.describe() + ")");
  if (is_open() && first_error_ == ncclSuccess) first_error_ = ncclInvalidArgument;
  return ncclInvalidArgument;
}

Group::Part& Group::part_of(Communicator& communicator, cudaStream_t stream) {
  const auto found = std::ranges::find(parts_, &communicator, &Part::communicator);
  if (found != parts_.end()) return *found;
  return parts_.emplace_back(Part{&communicator, stream, {}, {}});
}

ncclResult_t Group::launch() {
  const std::vector<Part> parts = std::exchange(parts_, {});
  if (const ncclResult_t error = std::exchange(first_error_, ncclSuccess); error != ncclSuccess) return error;
  for (const Part& part : parts) {
    if (const std::string text = why_overlapping(*part.communicator, part.collectives, part.transfers); !text.empty()) {
      part.communicator->set_last_error(text + " (" + part.communicator->describe() + ")");
      return ncclInvalidUsage;
    }
  }
  for (const Part& part : parts) {
    const auto launch = std::make_shared<Launch>(*part.communicator, part.collectives, part.transfers);
    require_not_captured(part.stream, "a collective");  // one meets those of other ranks, by its number
    enqueue(part.stream, launch->describe(), [launch] { return launch->try_run(); });
  }
  return ncclSuccess;
}

}  // namespace sft::emulation
