// SPDX-License-Identifier: Apache-2.0
#pragma once
// What sp_method = auto takes: of the methods that the memory suffices for, the one that sends the fewest bytes.

#include <optional>
#include <string>
#include <vector>

#include "sft/config/valid_config.hpp"
#include "sft/rank/datasets.hpp"
#include "sft/rank/pieces.hpp"

namespace sft::rank {

/// What the choice depends on, beside the configuration.
struct SpFacts {
  double document_tokens = 0.0;        ///< mean length of a document
  double micro_batch_tokens = 0.0;     ///< mean tokens of a micro-batch, on all ranks of sp together
  int ranks_per_node = 1;              ///< on every node at least, numbered node by node
  std::optional<SpChoice> saved = {};  ///< of the checkpoint that the run goes on from, where its mesh is this one

  /// The facts of a run on `datasets`.
  [[nodiscard]] static SpFacts of(const config::ValidConfig& config, const Datasets& datasets, int ranks_per_node);
};

/// A method, neither part of it auto, and what a rank sends by it over sp, in the mean over the ranks of an sp group:
/// for one token in one layer, forward and backward, in bytes.
struct SpCandidate {
  config::SpMethod method;
  int ulysses_size;
  double bytes;
};

/// Every method that fits the heads and sp_size, ranks that exchange heads being on one node; ring first; all_gather
/// where it takes about as much memory as the ring or less. Each is asked what it sends (plan_traffic), for a
/// micro-batch of the mean size in documents of about the mean length. Of more than 16 ranks in sp, 16 are asked. Pure.
[[nodiscard]] std::vector<SpCandidate> sp_candidates(const config::ValidConfig& config, const SpFacts& facts);

/// A configuration with an sp_method, and why it has this one, for people; empty where there was nothing to choose.
struct ResolvedSpMethod {
  config::ValidConfig config;
  std::string why;
};

/// Sets sp_method and ulysses_size where they are auto. sp_method = auto goes on with the saved method, where the run
/// fits so; else it takes the method that sends least, where the run fits with it; else, of all ways that fit, in
/// whatever pieces (fit_in_pieces), the one that then sends least, of equal ones the one of fewer groups of heads. A
/// ulysses_size that is auto is the largest with which the run fits. Where nothing fits, the first choice stays. Asks
/// `fits` some times, on all ranks alike; not at all where there is nothing to choose.
[[nodiscard]] ResolvedSpMethod resolve_sp_method(const config::ValidConfig& config, const SpFacts& facts,
                                                 const Fits& fits);

}  // namespace sft::rank
