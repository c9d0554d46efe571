// SPDX-License-Identifier: Apache-2.0
#include "sft/comm/group.hpp"

#include <array>

#include "comm/agreement.hpp"
#include "communicator.hpp"
#include "sft/comm/session.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"

namespace sft::comm {

namespace {

template <class T>
void all_reduce_in_place(const Group& group, std::span<T> values, MPI_Datatype type, MPI_Op operation,
                         const char* name) {
  refuse_inside_agree(group, name);
  Group::Impl& impl = group.impl();
  const Activity waiting = impl.wait_in(name);
  impl.meet();
  impl.check(
      MPI_Allreduce(MPI_IN_PLACE, values.data(), checked_cast<int>(values.size()), type, operation, impl.communicator),
      "MPI_Allreduce");
}

template <class T>
std::vector<T> gather_values(const Group& group, std::span<const T> values, MPI_Datatype type) {
  refuse_inside_agree(group, "all_gather");
  Group::Impl& impl = group.impl();
  const Activity waiting = impl.wait_in("all_gather");
  impl.meet();
  const int count = checked_cast<int>(values.size());
  std::vector<T> all(values.size() * impl.size);
  impl.check(MPI_Allgather(values.data(), count, type, all.data(), count, type, impl.communicator), "MPI_Allgather");
  return all;
}

/// How `work` ended on this rank.
struct Outcome {
  bool failed = false;
  ExitStatus status = ExitStatus::done;
  std::string message;
  bool names_rank = false;  ///< the message says which rank it is about, where that matters
};

Outcome run(const Group& group, const std::function<void()>& work) {
  const Agreement agreement(group);
  try {
    work();
    return {};
  } catch (const SharedError& error) {
    return {true, error.status(), error.what(), true};
  } catch (...) {
    const Error error = current_error();
    return {true, error.status(), error.what()};
  }
}

}  // namespace

int Group::rank() const { return impl_->rank; }
int Group::size() const { return impl_->size; }
const std::string& Group::name() const { return impl_->name; }

void Group::sum(std::span<double> values) const { all_reduce_in_place(*this, values, MPI_DOUBLE, MPI_SUM, "sum"); }
void Group::sum(std::span<std::int64_t> values) const {
  all_reduce_in_place(*this, values, MPI_INT64_T, MPI_SUM, "sum");
}
void Group::max(std::span<double> values) const { all_reduce_in_place(*this, values, MPI_DOUBLE, MPI_MAX, "max"); }
void Group::max(std::span<std::int64_t> values) const {
  all_reduce_in_place(*this, values, MPI_INT64_T, MPI_MAX, "max");
}

void Group::broadcast(std::span<std::int64_t> values, int root) const {
  refuse_inside_agree(*this, "broadcast");
  const Activity waiting = impl_->wait_in("broadcast");
  impl_->meet();
  impl_->check(MPI_Bcast(values.data(), checked_cast<int>(values.size()), MPI_INT64_T, root, impl_->communicator),
               "MPI_Bcast");
}

void Group::broadcast(std::string& text, int root) const { broadcast({}, text, root); }

void Group::broadcast(std::span<std::int64_t> values, std::string& text, int root) const {
  std::vector<std::int64_t> head(values.begin(), values.end());
  head.push_back(static_cast<std::int64_t>(text.size()));
  broadcast(head, root);
  std::copy_n(head.begin(), values.size(), values.begin());
  text.resize(head.back());
  const Activity waiting = impl_->wait_in("broadcast");
  impl_->check(MPI_Bcast(text.data(), checked_cast<int>(text.size()), MPI_CHAR, root, impl_->communicator),
               "MPI_Bcast");
}

std::string Group::deliver(const std::string& text, int from, int to) const {
  refuse_inside_agree(*this, "deliver");
  const int tag = impl_->next_tag();
  const Activity waiting = impl_->wait_in("deliver");
  if (from == to) return rank() == to ? text : "";
  if (rank() == from) {
    impl_->check(MPI_Send(text.data(), checked_cast<int>(text.size()), MPI_CHAR, to, tag, impl_->communicator),
                 "MPI_Send");
  }
  if (rank() != to) return "";
  MPI_Status status;
  impl_->check(MPI_Probe(from, tag, impl_->communicator, &status), "MPI_Probe");
  int length = 0;
  impl_->check(MPI_Get_count(&status, MPI_CHAR, &length), "MPI_Get_count");
  std::string received(length, '\0');
  impl_->check(MPI_Recv(received.data(), length, MPI_CHAR, from, tag, impl_->communicator, MPI_STATUS_IGNORE),
               "MPI_Recv");
  return received;
}

std::vector<double> Group::all_gather(std::span<const double> values) const {
  return gather_values(*this, values, MPI_DOUBLE);
}
std::vector<std::int64_t> Group::all_gather(std::span<const std::int64_t> values) const {
  return gather_values(*this, values, MPI_INT64_T);
}

std::vector<std::string> Group::all_gather(const std::string& text) const {
  refuse_inside_agree(*this, "all_gather");
  const Activity waiting = impl_->wait_in("all_gather");
  impl_->meet();
  const std::size_t num_ranks = size();
  const int length = checked_cast<int>(text.size());
  std::vector<int> lengths(num_ranks);
  impl_->check(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, impl_->communicator), "MPI_Allgather");
  std::vector<int> begins(num_ranks);
  std::int64_t total = 0;
  for (std::size_t r = 0; r < num_ranks; ++r) {
    begins[r] = checked_cast<int>(total);
    total += lengths[r];
  }
  std::string all(total, '\0');
  impl_->check(MPI_Allgatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), begins.data(), MPI_CHAR,
                              impl_->communicator),
               "MPI_Allgatherv");
  std::vector<std::string> texts(num_ranks);
  for (std::size_t r = 0; r < num_ranks; ++r) {
    texts[r] = all.substr(begins[r], lengths[r]);
  }
  return texts;
}

void Group::agree(const std::function<void()>& work) const {
  refuse_inside_agree(*this, "agree");
  const Outcome mine = run(*this, work);
  const Activity agreeing(ActivityKind::waits, "agree");
  std::int64_t distance = mine.failed ? size() - rank() : 0;  // from the end of the group to the lowest failing rank
  max(std::span(&distance, 1));
  if (distance == 0) return;

  const int failing_rank = size() - static_cast<int>(distance);
  std::string message = mine.message;
  broadcast(message, failing_rank);
  std::int64_t num_same = mine.failed && mine.message == message ? 1 : 0;
  sum(std::span(&num_same, 1));
  std::array<std::int64_t, 3> details = {static_cast<int>(mine.status), log_rank(), mine.names_rank ? 1 : 0};
  broadcast(details, failing_rank);
  const auto [status, world_rank, names_rank] = details;
  if (names_rank == 0 && num_same < size()) message = "rank " + std::to_string(world_rank) + ": " + message;
  throw SharedError(static_cast<ExitStatus>(status), message);
}

Group Group::split(int color, int key, const std::string& name) const {
  refuse_inside_agree(*this, "split");
  const Activity waiting = impl_->wait_in("split");
  impl_->meet();
  MPI_Comm part = MPI_COMM_NULL;
  impl_->check(MPI_Comm_split(impl_->communicator, color, key, &part), "MPI_Comm_split");
  return make_group(part, name);
}

Group make_cartesian(const Group& world, std::span<const int> sizes) {
  refuse_inside_agree(world, "make_cartesian");
  const std::vector<int> periodic(sizes.size(), 1);
  MPI_Comm grid = MPI_COMM_NULL;
  const Group::Impl& impl = world.impl();
  impl.meet();
  impl.check(MPI_Cart_create(impl.communicator, checked_cast<int>(sizes.size()), sizes.data(), periodic.data(),
                             /*reorder=*/0, &grid),
             "MPI_Cart_create");
  return make_group(grid, "mesh");
}

Group cartesian_group(const Group& grid, std::span<const bool> kept_dims, const std::string& name) {
  refuse_inside_agree(grid, "cartesian_group");
  const std::vector<int> kept(kept_dims.begin(), kept_dims.end());
  MPI_Comm part = MPI_COMM_NULL;
  const Group::Impl& impl = grid.impl();
  impl.check(MPI_Cart_sub(impl.communicator, kept.data(), &part), "MPI_Cart_sub");
  return make_group(part, name);
}

Group self_group() {
  MPI_Comm self = MPI_COMM_NULL;
  if (MPI_Comm_dup(MPI_COMM_SELF, &self) != MPI_SUCCESS) {
    throw Error(ExitStatus::failure, "MPI gave no communicator", "MPI_Comm_dup failed", "check the MPI installation");
  }
  return make_group(self, "self");
}

}  // namespace sft::comm
