// SPDX-License-Identifier: Apache-2.0
#pragma once
// A set of ranks that communicate: lifetime, identity, and small messages between hosts.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sft/core/error.hpp"

namespace sft::comm {

/// An MPI communicator. Cheap to copy (shared); freed with its last copy, collectively. All host collectives below are
/// collective over the group and blocking: all ranks make the same calls in the same order, with equally long spans and
/// equal roots, and none inside the work of agree(). An MPI error is thrown as an Error (ExitStatus::failure) that
/// names the group, the call and the rank, on the ranks that see it; more values or characters than an int counts are a
/// std::overflow_error.
class Group {
 public:
  struct Impl;
  /// No group: may be assigned to, compared and destroyed, and nothing else.
  Group() = default;
  explicit Group(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  /// For messages: "world", "tp", "fsdp" ...
  [[nodiscard]] const std::string& name() const;
  /// Whether the two are the same communicator.
  [[nodiscard]] bool operator==(const Group& other) const { return impl_ == other.impl_; }

  /// Element by element over the ranks, in place, on every rank.
  void sum(std::span<double> values) const;
  void sum(std::span<std::int64_t> values) const;
  void max(std::span<double> values) const;
  void max(std::span<std::int64_t> values) const;
  /// Every rank ends with the values of `root`, a rank of this group.
  void broadcast(std::span<std::int64_t> values, int root) const;
  /// Every rank ends with the text of `root`; lengths may differ before.
  void broadcast(std::string& text, int root) const;
  /// Both, the values together with the length of the text.
  void broadcast(std::span<std::int64_t> values, std::string& text, int root) const;
  /// The text of rank `from`, on rank `to`; nothing on all others, which do not wait. All ranks call it.
  [[nodiscard]] std::string deliver(const std::string& text, int from, int to) const;
  /// The `values` of all ranks in rank order, on every rank: those of rank r begin at r * values.size().
  [[nodiscard]] std::vector<double> all_gather(std::span<const double> values) const;
  [[nodiscard]] std::vector<std::int64_t> all_gather(std::span<const std::int64_t> values) const;
  /// All ranks' texts in rank order, on every rank; lengths may differ.
  [[nodiscard]] std::vector<std::string> all_gather(const std::string& text) const;

  /// Runs `work` on every rank, then agrees: if any rank threw, every rank throws the same SharedError (session.hpp),
  /// with status and message of the lowest failing rank; unless all ranks threw that message, or it was a SharedError
  /// already, the message names the rank, as one of the world. Use it around work that can fail on one rank.
  ///
  /// `work` makes no collective call: a rank that throws would leave the others waiting in it. All that are declared
  /// here and in collectives.hpp, another agree among them, throw a std::logic_error there, over any group but one of
  /// this rank alone, in which nobody waits. Destructors cannot refuse: `work` destroys neither the last copy of a
  /// group nor Collectives. run_program takes a SharedError as held by the whole world, so one that agree throws over a
  /// smaller group has to be caught before.
  void agree(const std::function<void()>& work) const;

  /// A group of the ranks that gave the same color, ordered by (key, rank). Collective.
  [[nodiscard]] Group split(int color, int key, const std::string& name) const;

  [[nodiscard]] Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

/// The grid of MPI_Cart_create over `sizes`, the slowest first, with the rank order of `world`, whose size is their
/// product; then MPI_Cart_sub: the ranks of that grid that differ from this one only along the dims whose flag is set.
/// Collective over `world` and `grid`.
[[nodiscard]] Group make_cartesian(const Group& world, std::span<const int> sizes);
[[nodiscard]] Group cartesian_group(const Group& grid, std::span<const bool> kept_dims, const std::string& name);
/// The group of this rank alone. Local.
[[nodiscard]] Group self_group();

/// A group of ranks that are not there, for planning: it has a rank, a size and a name, and must not communicate.
/// Local.
[[nodiscard]] Group planned_group(int rank, int size, const std::string& name);

}  // namespace sft::comm
