// SPDX-License-Identifier: Apache-2.0
#pragma once
// What sp_method = auto takes: the method that sends the fewest bytes.

#include <string>
#include <vector>

#include "sft/config/valid_config.hpp"
#include "sft/data/packed_dataset.hpp"

namespace sft::plan {

/// What the choice depends on, beside the configuration.
struct SpFacts {
  double document_tokens = 0.0;     ///< mean length of a document
  double micro_batch_tokens = 0.0;  ///< mean tokens of a micro-batch, on all ranks of sp together
  int ranks_per_node = 1;           ///< on every node at least, numbered node by node

  /// The facts of a run that trains on `data`.
  [[nodiscard]] static SpFacts of(const config::ValidConfig& config, const data::PackedDataset& data,
                                  int ranks_per_node);
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

/// Sets sp_method and ulysses_size where they are auto. Pure.
[[nodiscard]] ResolvedSpMethod resolve_sp_method(const config::ValidConfig& config, const SpFacts& facts);

}  // namespace sft::plan
