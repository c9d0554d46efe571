// SPDX-License-Identifier: Apache-2.0
#pragma once
// A set of messages between the ranks of one group that are under way at the same time.

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "communicator.hpp"

namespace sft::comm {

/// Messages of one collective. Sizes and order of the messages between two ranks must be the same on both.
class Transfers {
 public:
  /// `collective` names the caller in errors; `tag` is the group's next_tag() of this collective.
  Transfers(Group group, const char* collective, int tag)
      : group_(std::move(group)), collective_(collective), tag_(tag) {}

  void send(const void* source, std::size_t bytes, int to);
  void receive(void* destination, std::size_t bytes, int from);

  /// Lets MPI make progress; true once all messages are through.
  [[nodiscard]] bool test();

 private:
  Group group_;
  const char* collective_;
  int tag_;
  std::vector<MPI_Request> requests_;
};

/// Lets MPI send what is still on its way. It works only inside its calls, and a message that has been received may
/// still have to be acknowledged: its sender would wait forever for a rank that waits for it in a window.
void let_messages_go_on();

}  // namespace sft::comm
