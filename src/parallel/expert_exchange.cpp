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
  for (std::int64_t q = 0; q < num_rounds; ++q) {
    Round& round = rounds_.emplace_back();
    const auto part = [&](int rank, std::int64_t expert) {
      return counts.begin(rank, expert, q + 1, num_rounds) - counts.begin(rank, expert, q, num_rounds);
    };

    std::vector<std::int64_t> home;  // of the rows for this rank's own experts
    std::int64_t begin = 0;          // at home, of an expert's
    for (std::int64_t e = 0; e < counts.num_experts(); ++e) {
      const std::int64_t first = begin + counts.begin(ep_rank, e, q, num_rounds), count = part(ep_rank, e);
      begin += counts.of(ep_rank, e);
      const int rank = checked_cast<int>(e / local_experts);
      if (rank == ep_rank) {
        home.push_back(first);
      } else if (count > 0) {
        round.sent.push_back({.home = first, .arrived = 0, .count = count, .rank = rank});
      }
    }

    std::int64_t at = 0;  // among the arrived
    for (std::int64_t e = 0; e < local_experts; ++e) {
      round.offsets.push_back(checked_cast<std::int32_t>(at));
      for (int rank = 0; rank < ep_size; ++rank) {
        const std::int64_t count = part(rank, ep_rank * local_experts + e);
        if (count == 0) continue;
        const bool stays = rank == ep_rank;
        (stays ? round.stays : round.received)
            .push_back({.home = stays ? home[e] : 0, .arrived = at, .count = count, .rank = rank});
        at += count;
      }
      const std::int64_t end = round_up(at, memory.alignment);
      if (end > at) round.gaps.push_back({.home = 0, .arrived = at, .count = end - at, .rank = ep_rank});
      at = end;
    }
    round.offsets.push_back(checked_cast<std::int32_t>(at));
  }
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

void ExpertExchange::dispatch(const ExpertRoute::Round& round, const Tensor& home, const Tensor& arrived) const {
  if (size() == 1) return;
  for (const ExpertRoute::Run& gap : round.gaps) ops_.fill(arrived.rows(gap.arrived, gap.count), 0.0F);
  for (const ExpertRoute::Run& run : round.stays) {
    ops_.copy(arrived.rows(run.arrived, run.count), home.rows(run.home, run.count));
  }
  collectives_.exchange_all(ep_, messages(round.sent, home, &ExpertRoute::Run::home),
                            messages(round.received, arrived, &ExpertRoute::Run::arrived), ops_.stream());
}

void ExpertExchange::give_back(const ExpertRoute::Round& round, const Tensor& home, const Tensor& arrived) const {
  if (size() == 1) return;
  for (const ExpertRoute::Run& run : round.stays) {
    ops_.copy(home.rows(run.home, run.count), arrived.rows(run.arrived, run.count));
  }
  collectives_.exchange_all(ep_, messages(round.received, arrived, &ExpertRoute::Run::arrived),
                            messages(round.sent, home, &ExpertRoute::Run::home), ops_.stream());
}

}  // namespace sft::parallel
