// SPDX-License-Identifier: Apache-2.0
#include "communicator.hpp"

#include <cuda_runtime_api.h>

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
  const auto deadline = std::chrono::steady_clock::now() + max_wait_for_ranks;
  for (int other = 0; other < num_ranks; ++other) {
    while (board_.rank(other).has_come == 0) {
      if (std::chrono::steady_clock::now() > deadline) {
        throw std::runtime_error(describe() + ": rank " + std::to_string(other) + " has not come");
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  SharedMemory::close(key);
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
