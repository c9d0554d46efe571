// SPDX-License-Identifier: Apache-2.0
#include "transfers.hpp"

#include <algorithm>

#include "sft/core/cast.hpp"

namespace sft::comm {

namespace {

/// MPI counts are ints: larger messages travel as several of this size.
constexpr std::size_t max_message_bytes = std::size_t{1} << 30;

/// Calls post(begin, count) for every message of a buffer.
template <class Post>
void for_each_message(std::size_t bytes, const Post& post) {
  for (std::size_t begin = 0; begin < bytes; begin += max_message_bytes) {
    post(begin, checked_cast<int>(std::min(max_message_bytes, bytes - begin)));
  }
}

}  // namespace

void Transfers::send(const void* source, std::size_t bytes, int to) {
  const auto* bytes_of_source = static_cast<const std::byte*>(source);
  for_each_message(bytes, [&](std::size_t begin, int count) {
    const Group::Impl& impl = group_.impl();
    impl.check(MPI_Isend(bytes_of_source + begin, count, MPI_BYTE, to, tag_, impl.communicator,
                         &requests_.emplace_back(MPI_REQUEST_NULL)),
               collective_);
  });
}

void Transfers::receive(void* destination, std::size_t bytes, int from) {
  auto* bytes_of_destination = static_cast<std::byte*>(destination);
  for_each_message(bytes, [&](std::size_t begin, int count) {
    const Group::Impl& impl = group_.impl();
    impl.check(MPI_Irecv(bytes_of_destination + begin, count, MPI_BYTE, from, tag_, impl.communicator,
                         &requests_.emplace_back(MPI_REQUEST_NULL)),
               collective_);
  });
}

bool Transfers::test() {
  if (requests_.empty()) return true;
  int finished = 0;
  group_.impl().check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &finished, MPI_STATUSES_IGNORE),
                      collective_);
  if (finished == 0) return false;
  requests_.clear();
  return true;
}

void let_messages_go_on() {
  int is_there = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &is_there, MPI_STATUS_IGNORE);
}

}  // namespace sft::comm
