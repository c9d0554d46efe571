// SPDX-License-Identifier: Apache-2.0
#include "communicator.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <thread>

#include "wait_page.hpp"

namespace sft::emulation {

namespace {

constexpr std::chrono::minutes max_wait_for_ranks(5);

}  // namespace

Communicator::Communicator(const SharedMemoryKey& key, int num_ranks, int rank, const char* name, bool is_blocking)
    : num_sends(num_ranks),
      num_receives(num_ranks),
      num_parts_sent(num_ranks),
      num_parts_received(num_ranks),
      rank_(rank),
      name_(name != nullptr ? name : "without a name"),
      is_blocking_(is_blocking),
      board_(key, num_ranks) {
  if (const int wanted = board_.agree_on_size(num_ranks); wanted != num_ranks) {
    throw std::runtime_error(describe() + ": another rank wants " + std::to_string(wanted) + " ranks");
  }
  cudaGetDevice(&device_);
  RankState& state = board_.rank(rank);
  state.page = WaitPage::mine().key();
  if (state.has_come.exchange(1) != 0) throw std::runtime_error(describe() + ": a second process is this rank");
  wait_for_all([](const RankState& other) { return other.has_come != 0; }, "has not come");
  SharedMemory::close(key);
}

template <class Holds>
void Communicator::wait_for_all(const Holds& holds, const char* otherwise) {
  const auto deadline = std::chrono::steady_clock::now() + max_wait_for_ranks;
  for (int other = 0; other < size(); ++other) {
    while (!holds(board_.rank(other))) {
      if (std::chrono::steady_clock::now() > deadline) {
        throw std::runtime_error(describe() + ": rank " + std::to_string(other) + " " + otherwise);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
}

Communicator::Part Communicator::split(int color, int key) {
  const std::uint64_t number = ++num_splits_;
  RankState& own = board_.rank(rank_);
  // Of the one before, all have read what lies there.
  wait_for_all([&](const RankState& other) { return other.splits_read >= number - 1; }, "is in another split");
  own.split_color = color;
  own.split_key = key;
  own.split_board = SharedMemory::make();
  own.splits_begun = number;
  wait_for_all([&](const RankState& other) { return other.splits_begun >= number; }, "has not come to ncclCommSplit");
  std::vector<int> members;
  for (int other = 0; other < size(); ++other) {
    if (board_.rank(other).split_color == color) members.push_back(other);
  }
  std::ranges::stable_sort(members, {}, [&](int member) { return board_.rank(member).split_key; });
  const Part part{.board = board_.rank(members.front()).split_board,
                  .size = static_cast<int>(members.size()),
                  .rank = static_cast<int>(std::ranges::find(members, rank_) - members.begin())};
  if (part.rank != 0) SharedMemory::close(own.split_board);
  own.splits_read = number;
  return part;
}

std::string Communicator::describe() const {
  return "communicator " + name_ + ", rank " + std::to_string(rank_) + " of " + std::to_string(board_.num_ranks());
}

void Communicator::fail(ncclResult_t result, const std::string& text) {
  ncclResult_t none = ncclSuccess;
  if (!error_.compare_exchange_strong(none, result)) return;
  set_last_error(text);
  std::fprintf(stderr, "emulated NCCL: %s\n", text.c_str());
}

void Communicator::set_last_error(const std::string& text) {
  const std::lock_guard lock(mutex_);
  last_error_ = text;
}

const char* Communicator::last_error() const {
  const std::lock_guard lock(mutex_);
  return last_error_.c_str();
}

bool Communicator::is_finalized() {
  if (num_unfinished == 0) board_.rank(rank_).has_finalized = 1;
  for (int rank = 0; rank < size(); ++rank) {
    if (board_.rank(rank).has_finalized == 0) return false;
  }
  return true;
}

ncclResult_t Communicator::wait_until_finalized() {
  while (error_ == ncclSuccess && !is_finalized()) std::this_thread::sleep_for(std::chrono::microseconds(200));
  return error_;
}

Communicators& Communicators::all() {
  static Communicators communicators;
  return communicators;
}

ncclComm_t Communicators::add(std::unique_ptr<Communicator> communicator) {
  const std::lock_guard lock(mutex_);
  list_.push_back(std::move(communicator));
  return reinterpret_cast<ncclComm_t>(list_.back().get());
}

Communicator* Communicators::find(ncclComm_t handle) const {
  const std::lock_guard lock(mutex_);
  for (const auto& communicator : list_) {
    const bool is_it = reinterpret_cast<ncclComm_t>(communicator.get()) == handle;
    const auto state = communicator->state();
    if (is_it && state != Communicator::State::destroyed && state != Communicator::State::aborted) {
      return communicator.get();
    }
  }
  return nullptr;
}

const Communicator* Communicators::registered(const void* begin, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto* first = static_cast<const std::byte*>(begin);
  for (const auto& communicator : list_) {
    for (const auto& [handle, buffer] : communicator->buffers) {
      if (first < buffer.first + buffer.second && buffer.first < first + bytes) return communicator.get();
    }
  }
  return nullptr;
}

}  // namespace sft::emulation
