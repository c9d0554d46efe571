// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows of tokens on their way to the ranks of ep that have their experts, and back (Lepikhin et al. 2020, "GShard").
//
// At home, with the tokens, rows lie in the order of all experts (ops::ExpertOrder). A rank of ep has E / ep
// neighbouring experts; what arrives there lies in the order of these, and of each expert in that of the ranks it comes
// from: every run of rows that one rank has for one expert is a message of its own, so nothing is ordered twice. How
// many rows arrive follows from the tokens. Where more would than there is memory for, all ranks go in several rounds,
// in each with about the same part of every run; none is dropped.
//
// Rows travel on a stream of their own, those of a part of a rank's experts after those of another
// (ExpertRoute::Piece), so that experts whose rows are there work while others' rows are on their way (Jiang et al.
// 2024, "Lancet"; He et al. 2022, "FasterMoE").

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/device/device.hpp"
#include "sft/ops/backend.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::parallel {

/// How many rows lie where.
struct ExpertMemory {
  std::int64_t max_arriving = 0;  ///< rows for which there is memory in a round; ep > 1
  std::int64_t alignment = 1;     ///< the rows of an expert begin at multiples of it where it is
  /// The least memory for rounds in which `num_rows` rows arrive: runs of `num_experts` experts from `ep_size` ranks
  /// are cut at whole rows, and aligned.
  [[nodiscard]] static std::int64_t arriving(std::int64_t num_rows, int num_experts, int ep_size,
                                             std::int64_t alignment) {
    return num_rows + num_experts * (ep_size + alignment - 1);
  }
};

/// Which rows go where in one pass through a layer. Pure; all ranks of ep have equal rounds.
class ExpertRoute {
 public:
  /// Neighbouring rows at home and where they arrive, and the other rank; at this one's home with the tokens, or with
  /// the experts.
  struct Run {
    std::int64_t home, arrived, count;
    int rank;
  };
  /// What travels together: the rows for neighbouring experts of each rank, as many of every rank.
  struct Piece {
    std::int64_t first_expert = 0;    ///< among this rank's
    std::int64_t first_row = 0;       ///< among the arrived; `arrived` of runs, and `offsets`, count from there
    std::vector<Run> sent, received;  ///< `arrived` of those sent is not known here, nor `home` of those received: 0
    std::vector<Run> stays;           ///< from this rank to itself
    std::vector<Run> gaps;            ///< rows where nothing arrives, between those of two experts; `arrived` alone
    std::vector<std::int32_t>
        offsets;  ///< of the arrived rows of this rank's experts of the piece (ops::ExpertOffsets)

    [[nodiscard]] std::int64_t num_rows() const { return offsets.back(); }
    [[nodiscard]] std::int64_t num_experts() const { return std::ssize(offsets) - 1; }
  };
  struct Round {
    std::vector<Piece> pieces;  ///< as many on all ranks

    [[nodiscard]] std::int64_t num_rows() const { return pieces.back().first_row + pieces.back().num_rows(); }
  };
  /// Of a round at most, and one where nothing travels.
  static constexpr std::int64_t max_pieces = 2;

  ExpertRoute() = default;
  /// `counts`: rows of each rank of ep for each of all experts, (ep, E). ep_size > 1: rows at home lie without gaps. Of
  /// one rank rows stay where they are, aligned.
  ExpertRoute(std::span<const std::int32_t> counts, int ep_size, int ep_rank, const ExpertMemory& memory);

  [[nodiscard]] const std::vector<Round>& rounds() const { return rounds_; }
  [[nodiscard]] bool is_one_round() const { return rounds_.size() == 1; }

 private:
  std::vector<Round> rounds_;
};

/// Collective over ep, all calls of it.
class ExpertExchange {
 public:
  /// `stream` carries what travels, beside that of the ops. References outlive it.
  ExpertExchange(const comm::Group& ep, device::Device& device, ops::Backend& ops, comm::Collectives& collectives,
                 device::Stream& stream);

  [[nodiscard]] int size() const { return ep_.size(); }

  /// The route of rows of which `counts` (E) int32 belong to each expert, `num_rows` in all. `all_counts` (ep, E) int32
  /// is overwritten. Waits for the device. On a null device rows are spread evenly.
  [[nodiscard]] ExpertRoute plan(const Tensor& counts, const Tensor& all_counts, std::int64_t num_rows,
                                 const ExpertMemory& memory);

  // Of a round, (rows, C) each: what is started runs beside the ops that follow, until it is finished. With one rank
  // home and arrived are the same memory, in which nothing moves.
  /// arrived = the rows of the round's `home` of all ranks, and zeros in the gaps. Before finish_dispatch of a piece
  /// nobody writes its rows in `home`, nor touches those in `arrived`.
  void start_dispatch(const ExpertRoute::Round& round, const Tensor& home, const Tensor& arrived);
  /// Ops that follow have the rows of pieces [0, piece].
  void finish_dispatch(std::size_t piece);
  /// The rows of the piece in `home` = what lies in their places in `arrived`, which is that of the whole round. Nobody
  /// touches those in `home`, nor writes them in `arrived`, before finish_give_back.
  void start_give_back(const ExpertRoute::Piece& piece, const Tensor& home, const Tensor& arrived);
  /// Ops that follow have what was started to come back.
  void finish_give_back();

 private:
  /// Later work of the exchange follows the ops so far.
  void follow_ops();

  comm::Group ep_;
  device::Device& device_;
  ops::Backend& ops_;
  comm::Collectives& collectives_;
  device::Stream& stream_;
  std::unique_ptr<device::Event> ops_done_, given_back_;
  std::vector<std::unique_ptr<device::Event>> arrived_;  ///< by piece
};

}  // namespace sft::parallel
