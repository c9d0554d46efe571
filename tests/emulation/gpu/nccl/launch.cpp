// SPDX-License-Identifier: Apache-2.0
#include "launch.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "names.hpp"
#include "runtime/stream_queue.hpp"
#include "wait_page.hpp"

namespace sft::emulation {

namespace {

/// Elements of a collective's argument that one round moves.
std::size_t elements_per_round(const Call& call, int num_ranks) {
  const std::size_t pieces = call.kind == Call::Kind::reduce_scatter ? static_cast<std::size_t>(num_ranks) : 1;
  return std::max<std::size_t>(1, slot_bytes / size_of(call.type) / pieces);
}

void copy_from_device(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  note_read(from, bytes);
  std::memcpy(to, from, bytes);
}

void copy_to_device(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  note_write(to, bytes);
  std::memcpy(to, from, bytes);
}

const Hang& hang() {
  static const Hang from_environment = [] {
    const char* text = std::getenv("SFT_EMULATED_NCCL_HANG");
    return text != nullptr ? parse_hang(text) : Hang{};
  }();
  return from_environment;
}

const Failure& failure() {
  static const Failure from_environment = [] {
    const char* text = std::getenv("SFT_EMULATED_NCCL_ERROR");
    return text != nullptr ? parse_failure(text) : Failure{};
  }();
  return from_environment;
}

}  // namespace

Failure parse_failure(const std::string& text) {
  const std::size_t last = text.rfind(':');
  int result = 0;
  const char* const end = text.data() + text.size();
  if (last == std::string::npos || std::from_chars(text.data() + last + 1, end, result).ptr != end || result < 1 ||
      result >= ncclNumResults) {
    throw std::runtime_error("SFT_EMULATED_NCCL_ERROR is NAME:RANK:LAUNCH:RESULT, not " + text);
  }
  return {parse_hang(text.substr(0, last)), static_cast<ncclResult_t>(result)};
}

Hang parse_hang(const std::string& text) {
  const auto fail = [&] { throw std::runtime_error("SFT_EMULATED_NCCL_HANG is NAME:RANK[:LAUNCH], not " + text); };
  const auto number = [&](const std::string& digits) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) fail();
    return value;
  };
  const std::size_t first = text.find(':');
  if (first == std::string::npos) fail();
  const std::size_t second = text.find(':', first + 1);
  Hang result{.name = text.substr(0, first), .rank = -1, .launch = 1};
  if (second != std::string::npos) result.launch = number(text.substr(second + 1));
  result.rank =
      static_cast<int>(number(text.substr(first + 1, second == std::string::npos ? second : second - first - 1)));
  return result;
}

Launch::Launch(Communicator& communicator, std::vector<Collective> collectives, std::vector<Transfer> transfers)
    : communicator_(communicator),
      collectives_(std::move(collectives)),
      transfers_(std::move(transfers)),
      progress_(transfers_.size()) {
  LaunchOrder::mine().add(*this);
  ++communicator_.num_unfinished;
}

std::string Launch::describe() const {
  std::string what = "nothing";
  if (!collectives_.empty()) {
    what = emulation::describe(collectives_[std::min(current_, collectives_.size() - 1)].call);
  } else if (!transfers_.empty()) {
    const Transfer& first = transfers_.front();
    what = std::string(first.is_send ? "ncclSend" : "ncclRecv") + " of " + std::to_string(first.call.count) + " " +
           name_of(first.call.type) + (first.is_send ? " to rank " : " from rank ") + std::to_string(first.peer);
  }
  return what + " as launch " + std::to_string(number_) + " of " + communicator_.describe();
}

bool Launch::try_run() {
  const bool is_aborted = communicator_.state() == Communicator::State::aborted;
  if (!is_aborted) {
    if (communicator_.error() != ncclSuccess || !LaunchOrder::mine().may_run(*this)) return false;
    if (!std::exchange(has_begun_, true)) begin();
    if (is_to_hang()) return false;
    if (is_at(failure().where)) {
      communicator_.fail(failure().result, "told to fail in " + describe());
      return false;
    }
    if (!advance_collective() || !advance_transfers()) {
      watch();
      return false;
    }
  }
  WaitPage::mine().set("", {});
  LaunchOrder::mine().remove(*this);
  --communicator_.num_unfinished;
  return true;
}

void Launch::begin() {
  number_ = ++communicator_.num_launches;
  first_collective_ = communicator_.num_collectives;
  communicator_.num_collectives += collectives_.size();
  if (is_to_hang()) return;
  Board& board = communicator_.board();
  board.rank(communicator_.rank()).begun = communicator_.num_collectives;
  for (std::size_t i = 0; i < transfers_.size(); ++i) {
    const auto& [is_send, peer, call, data] = transfers_[i];
    if (is_send) {
      progress_[i].message = ++communicator_.num_sends[static_cast<std::size_t>(peer)];
      board.channel(communicator_.rank(), peer).sends_begun = progress_[i].message;
    } else {
      progress_[i].message = ++communicator_.num_receives[static_cast<std::size_t>(peer)];
      board.channel(peer, communicator_.rank()).receives_begun = progress_[i].message;
    }
  }
}

bool Launch::is_to_hang() const { return is_at(hang()); }

bool Launch::is_at(const Hang& place) const {
  const bool is_named = place.name.empty() || place.name == communicator_.name();
  return place.rank == communicator_.rank() && is_named && number_ >= place.launch;
}

bool Launch::advance_collective() {
  Board& board = communicator_.board();
  while (current_ < collectives_.size()) {
    const Collective& collective = collectives_[current_];
    const std::uint64_t round = communicator_.num_rounds + 1;
    if (!is_published_) {
      for (int rank = 0; rank < board.num_ranks(); ++rank) {
        if (board.rank(rank).consumed + 1 < round) return false;
      }
      publish(collective);
      is_published_ = true;
    }
    for (int rank = 0; rank < board.num_ranks(); ++rank) {
      if (board.rank(rank).published < round) return false;
    }
    if (!all_call_the_same(collective.call)) return false;
    collect(collective);
    board.rank(communicator_.rank()).consumed = round;
    communicator_.num_rounds = round;
    is_published_ = false;
    done_elements_ +=
        std::min(collective.call.count - done_elements_, elements_per_round(collective.call, board.num_ranks()));
    if (done_elements_ < collective.call.count) continue;
    done_elements_ = 0;
    ++current_;
  }
  return true;
}

void Launch::publish(const Collective& collective) {
  Board& board = communicator_.board();
  const Call& call = collective.call;
  const auto num_ranks = static_cast<std::size_t>(board.num_ranks());
  const std::size_t element = size_of(call.type);
  const std::size_t bytes =
      std::min(call.count - done_elements_, elements_per_round(call, board.num_ranks())) * element;
  const auto* from = static_cast<const std::byte*>(collective.send) + done_elements_ * element;
  std::byte* slot = board.slot(communicator_.rank());
  if (call.kind == Call::Kind::reduce_scatter) {
    for (std::size_t piece = 0; piece < num_ranks; ++piece) {
      copy_from_device(slot + piece * bytes, from + piece * call.count * element, bytes);
    }
  } else if (call.kind != Call::Kind::broadcast || call.root == communicator_.rank()) {
    copy_from_device(slot, from, bytes);
  }
  RankState& state = board.rank(communicator_.rank());
  state.call = call;
  state.part_bytes = bytes;
  state.published = communicator_.num_rounds + 1;
}

bool Launch::all_call_the_same(const Call& call) {
  Board& board = communicator_.board();
  for (int rank = 0; rank < board.num_ranks(); ++rank) {
    const Call& other = board.rank(rank).call;
    if (other == call) continue;
    communicator_.fail(ncclInvalidUsage, describe() + ", where rank " + std::to_string(rank) + " calls " +
                                             emulation::describe(other) +
                                             ": the real library would hang or mix up their data");
    return false;
  }
  return true;
}

void Launch::collect(const Collective& collective) {
  Board& board = communicator_.board();
  const Call& call = collective.call;
  const std::size_t element = size_of(call.type);
  const std::size_t bytes = board.rank(communicator_.rank()).part_bytes;
  auto* to = static_cast<std::byte*>(collective.receive) + done_elements_ * element;
  const auto fold_all = [&](std::size_t offset) {
    if (bytes == 0) return;
    note_write(to, bytes);
    std::memcpy(to, board.slot(0) + offset, bytes);
    for (int rank = 1; rank < board.num_ranks(); ++rank) {
      fold(to, board.slot(rank) + offset, bytes / element, call.type, call.operation);
    }
  };
  switch (call.kind) {
    case Call::Kind::all_reduce:
      return fold_all(0);
    case Call::Kind::reduce:
      if (call.root == communicator_.rank()) fold_all(0);
      return;
    case Call::Kind::reduce_scatter:
      return fold_all(static_cast<std::size_t>(communicator_.rank()) * bytes);
    case Call::Kind::broadcast:
      return copy_to_device(to, board.slot(call.root), bytes);
    case Call::Kind::all_gather:
      for (int rank = 0; rank < board.num_ranks(); ++rank) {
        copy_to_device(to + static_cast<std::size_t>(rank) * call.count * element, board.slot(rank), bytes);
      }
      return;
    case Call::Kind::send:
      return;
  }
}

bool Launch::advance_transfers() {
  bool is_done = true;
  for (std::size_t i = 0; i < transfers_.size(); ++i) {
    if (!progress_[i].is_done) advance(transfers_[i], progress_[i]);
    is_done = is_done && progress_[i].is_done;
  }
  return is_done;
}

void Launch::advance(const Transfer& transfer, Progress& progress) {
  // Messages of a channel follow each other: this one waits for those before it.
  for (std::size_t i = 0; &transfers_[i] != &transfer; ++i) {
    const Transfer& earlier = transfers_[i];
    if (earlier.is_send == transfer.is_send && earlier.peer == transfer.peer && !progress_[i].is_done) return;
  }
  Board& board = communicator_.board();
  Channel& channel = transfer.is_send ? board.channel(communicator_.rank(), transfer.peer)
                                      : board.channel(transfer.peer, communicator_.rank());
  if (transfer.is_send) {
    write_part(transfer, progress, channel);
  } else {
    read_part(transfer, progress, channel);
  }
}

void Launch::write_part(const Transfer& transfer, Progress& progress, Channel& channel) {
  auto& num_parts = communicator_.num_parts_sent[static_cast<std::size_t>(transfer.peer)];
  if (channel.read != num_parts) return;  // the part before is still there
  if (progress.is_written) {
    progress.is_done = true;
    return;
  }
  if (channel.receives_begun < progress.message) return;  // a send waits for its receiver
  const std::size_t total = transfer.call.count * size_of(transfer.call.type);
  const std::size_t bytes = std::min(total - progress.done_bytes, channel_bytes);
  copy_from_device(channel.part, transfer.data + progress.done_bytes, bytes);
  channel.call = transfer.call;
  channel.part_bytes = bytes;
  progress.done_bytes += bytes;
  progress.is_written = progress.done_bytes == total;
  channel.written = ++num_parts;
}

void Launch::read_part(const Transfer& transfer, Progress& progress, Channel& channel) {
  auto& num_parts = communicator_.num_parts_received[static_cast<std::size_t>(transfer.peer)];
  if (channel.written == num_parts) return;
  if (!(channel.call == transfer.call)) {
    communicator_.fail(ncclInvalidUsage, describe() + " receives " + std::to_string(transfer.call.count) + " " +
                                             name_of(transfer.call.type) + " from rank " +
                                             std::to_string(transfer.peer) + ", which sends " +
                                             emulation::describe(channel.call) +
                                             ": the real library would hang or cut the data");
    return;
  }
  copy_to_device(transfer.data + progress.done_bytes, channel.part, channel.part_bytes);
  progress.done_bytes += channel.part_bytes;
  progress.is_done = progress.done_bytes == transfer.call.count * size_of(transfer.call.type);
  channel.read = ++num_parts;
}

std::vector<SharedMemoryKey> Launch::missing() const {
  Board& board = communicator_.board();
  std::vector<SharedMemoryKey> result;
  if (current_ < collectives_.size()) {
    for (int rank = 0; rank < board.num_ranks(); ++rank) {
      if (board.rank(rank).begun <= first_collective_ + current_) result.push_back(board.rank(rank).page);
    }
    return result;
  }
  for (std::size_t i = 0; i < transfers_.size(); ++i) {
    const auto& [is_send, peer, call, data] = transfers_[i];
    const std::uint64_t begun = is_send ? board.channel(communicator_.rank(), peer).receives_begun
                                        : board.channel(peer, communicator_.rank()).sends_begun;
    if (!progress_[i].is_done && begun < progress_[i].message) result.push_back(board.rank(peer).page);
  }
  return result;
}

void Launch::watch() {
  if (communicator_.error() != ncclSuccess) return;
  WaitPage& page = WaitPage::mine();
  page.set(describe(), missing());
  const auto circle = page.find_circle();
  if (!circle) return;
  communicator_.fail(ncclInvalidUsage,
                     "possible deadlock of communicators on one device: " + *circle +
                         "; queue them in the same order on all ranks, with NCCL_LAUNCH_ORDER_IMPLICIT=1");
}

}  // namespace sft::emulation
