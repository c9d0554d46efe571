// SPDX-License-Identifier: Apache-2.0
#include "sft/parallel/expert_exchange.hpp"

#include <algorithm>

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"

namespace sft::parallel {

namespace {

/// Rows of each rank for each expert, and which part of them a round takes.
class Counts {
 public:
  Counts(std::span<const std::int32_t> counts, int ep_size)
      : counts_(counts),
        num_experts_(static_cast<std::int64_t>(counts.size()) / ep_size),
        local_experts_(num_experts_ / ep_size) {}

  [[nodiscard]] std::int64_t num_experts() const { return num_experts_; }
  [[nodiscard]] std::int64_t local_experts() const { return local_experts_; }
  [[nodiscard]] std::int64_t of(int rank, std::int64_t expert) const { return counts_[rank * num_experts_ + expert]; }
  /// The row of that run with which a round begins.
  [[nodiscard]] std::int64_t begin(int rank, std::int64_t expert, std::int64_t round, std::int64_t num_rounds) const {
    return of(rank, expert) * round / num_rounds;
  }
  /// Rows that arrive at a rank in all.
  [[nodiscard]] std::int64_t arriving_at(int rank, int ep_size) const {
    std::int64_t rows = 0;
    for (int source = 0; source < ep_size; ++source) {
      for (std::int64_t e = 0; e < local_experts_; ++e) rows += of(source, rank * local_experts_ + e);
    }
    return rows;
  }

 private:
  std::span<const std::int32_t> counts_;
  std::int64_t num_experts_, local_experts_;
};

std::int64_t num_rounds_of(const Counts& counts, int ep_size, const ExpertMemory& memory) {
  if (ep_size == 1) return 1;
  const int local_experts = checked_cast<int>(counts.local_experts());
  const std::int64_t most = memory.max_arriving - ExpertMemory::arriving(0, local_experts, ep_size, memory.alignment);
  SFT_ENSURE(most > 0, "there is memory for rows that arrive");
  std::int64_t num_rounds = 1;
  for (int rank = 0; rank < ep_size; ++rank) {
    num_rounds = std::max(num_rounds, (counts.arriving_at(rank, ep_size) + most - 1) / most);
  }
  return num_rounds;
}

std::vector<comm::Message> messages(const std::vector<ExpertRoute::Run>& runs, const Tensor& rows,
                                    std::int64_t ExpertRoute::Run::*begin) {
  std::vector<comm::Message> all;
  for (const ExpertRoute::Run& run : runs) all.push_back({rows.rows(run.*begin, run.count), run.rank});
  return all;
}

}  // namespace

ExpertRoute::ExpertRoute(std::span<const std::int32_t> counts_in, int ep_size, int ep_rank,
                         const ExpertMemory& memory) {
  const Counts counts(counts_in, ep_size);
  const std::int64_t num_rounds = num_rounds_of(counts, ep_size, memory), local_experts = counts.local_experts();
  const std::int64_t num_pieces = ep_size == 1 ? 1 : std::min(max_pieces, local_experts);
  std::vector<std::int64_t> home{0};  // where each expert's rows begin
  for (std::int64_t e = 0; e < counts.num_experts(); ++e) home.push_back(home.back() + counts.of(ep_rank, e));
  for (std::int64_t q = 0; q < num_rounds; ++q) {
    Round& round = rounds_.emplace_back();
    const auto part = [&](int rank, std::int64_t expert) {
      return counts.begin(rank, expert, q + 1, num_rounds) - counts.begin(rank, expert, q, num_rounds);
    };
    const auto first_at_home = [&](std::int64_t expert) {
      return home[expert] + counts.begin(ep_rank, expert, q, num_rounds);
    };
    std::int64_t first_row = 0;
    for (std::int64_t p = 0; p < num_pieces; ++p) {
      Piece& piece = round.pieces.emplace_back();
      const std::int64_t first = local_experts * p / num_pieces, end = local_experts * (p + 1) / num_pieces;
      piece.first_expert = first;
      piece.first_row = first_row;
      for (int rank = 0; rank < ep_size; ++rank) {
        for (std::int64_t e = first; e < end && rank != ep_rank; ++e) {
          const std::int64_t expert = rank * local_experts + e, count = part(ep_rank, expert);
          if (count > 0)
            piece.sent.push_back({.home = first_at_home(expert), .arrived = 0, .count = count, .rank = rank});
        }
      }

      std::int64_t at = 0;  // among the arrived of the piece
      for (std::int64_t e = first; e < end; ++e) {
        piece.offsets.push_back(checked_cast<std::int32_t>(at));
        const std::int64_t expert = ep_rank * local_experts + e;
        for (int rank = 0; rank < ep_size; ++rank) {
          const std::int64_t count = part(rank, expert);
          if (count == 0) continue;
          const bool stays = rank == ep_rank;
          (stays ? piece.stays : piece.received)
              .push_back({.home = stays ? first_at_home(expert) : 0, .arrived = at, .count = count, .rank = rank});
          at += count;
        }
        const std::int64_t padded = round_up(at, memory.alignment);
        if (padded > at) piece.gaps.push_back({.home = 0, .arrived = at, .count = padded - at, .rank = ep_rank});
        at = padded;
      }
      piece.offsets.push_back(checked_cast<std::int32_t>(at));
      first_row += at;
    }
  }
}

ExpertExchange::ExpertExchange(const comm::Group& ep, device::Device& device, ops::Backend& ops,
                               comm::Collectives& collectives, device::Stream& stream)
    : ep_(ep),
      device_(device),
      ops_(ops),
      collectives_(collectives),
      stream_(stream),
      ops_done_(device.make_event()),
      given_back_(device.make_event()) {
  for (std::int64_t p = 0; p < ExpertRoute::max_pieces; ++p) arrived_.push_back(device.make_event());
}

ExpertRoute ExpertExchange::plan(const Tensor& counts, const Tensor& all_counts, std::int64_t num_rows,
                                 const ExpertMemory& memory) {
  const std::int64_t num_experts = counts.num_elements();
  std::vector<std::int32_t> on_host;  // a null device copies nothing: what stands there first is taken for the counts
  for (int rank = 0; rank < size(); ++rank) {
    for (std::int64_t e = 0; e < num_experts; ++e) {
      on_host.push_back(checked_cast<std::int32_t>(num_rows * (e + 1) / num_experts - num_rows * e / num_experts));
    }
  }
  Tensor source = counts;
  if (size() > 1) {
    collectives_.all_gather(ep_, all_counts.view({size() * num_experts}), counts, ops_.stream());
    source = all_counts;
  }
  device_.copy(on_host.data(), source.data, source.size_bytes(), ops_.stream());
  ops_.stream().synchronize();
  return {on_host, size(), ep_.rank(), memory};
}

void ExpertExchange::follow_ops() {
  ops_done_->record(ops_.stream());
  stream_.wait(*ops_done_);
}

void ExpertExchange::start_dispatch(const ExpertRoute::Round& round, const Tensor& home, const Tensor& arrived) {
  if (size() == 1) return;
  follow_ops();
  for (std::size_t p = 0; p < round.pieces.size(); ++p) {
    const ExpertRoute::Piece& piece = round.pieces[p];
    const Tensor rows = arrived.rows(piece.first_row, piece.num_rows());
    collectives_.exchange_all(ep_, messages(piece.sent, home, &ExpertRoute::Run::home),
                              messages(piece.received, rows, &ExpertRoute::Run::arrived), stream_);
    arrived_[p]->record(stream_);
  }
  for (const ExpertRoute::Piece& piece : round.pieces) {  // beside what travels
    const Tensor rows = arrived.rows(piece.first_row, piece.num_rows());
    for (const ExpertRoute::Run& gap : piece.gaps) ops_.run(ops::Fill{rows.rows(gap.arrived, gap.count), 0.0F});
    for (const ExpertRoute::Run& run : piece.stays) {
      ops_.run(ops::Copy{rows.rows(run.arrived, run.count), home.rows(run.home, run.count)});
    }
  }
}

void ExpertExchange::finish_dispatch(std::size_t piece) {
  if (size() > 1) device::timed_wait(device_.timeline(), ops_.stream(), *arrived_[piece], "wait for tokens");
}

void ExpertExchange::start_give_back(const ExpertRoute::Piece& piece, const Tensor& home, const Tensor& arrived) {
  if (size() == 1) return;
  const Tensor rows = arrived.rows(piece.first_row, piece.num_rows());
  follow_ops();
  collectives_.exchange_all(ep_, messages(piece.received, rows, &ExpertRoute::Run::arrived),
                            messages(piece.sent, home, &ExpertRoute::Run::home), stream_);
  for (const ExpertRoute::Run& run : piece.stays) {
    ops_.run(ops::Copy{home.rows(run.home, run.count), rows.rows(run.arrived, run.count)});
  }
}

void ExpertExchange::finish_give_back() {
  if (size() == 1) return;
  given_back_->record(stream_);
  device::timed_wait(device_.timeline(), ops_.stream(), *given_back_, "wait for experts");
}

}  // namespace sft::parallel
