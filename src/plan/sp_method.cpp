// SPDX-License-Identifier: Apache-2.0
#include "sft/plan/sp_method.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "sft/core/format.hpp"

namespace sft::plan {

namespace {

using config::SpMethod;

constexpr double gradient_bytes = 4.0;  ///< float32: of what has to be summed

/// Heads of a tp rank, and bytes of a number in the compute dtype.
struct Sizes {
  explicit Sizes(const config::Config& config)
      : q_heads(config.model.num_attention_heads / config.parallel.tp_size),
        kv_heads(std::max<std::int64_t>(1, config.model.num_key_value_heads / config.parallel.tp_size)),
        head_dim(static_cast<double>(config.model.head_dim)),
        compute_bytes(config.train.precision == config::Precision::fp32 ? 4.0 : 2.0) {}

  std::int64_t q_heads, kv_heads;
  double head_dim, compute_bytes;
};

/// Ranks of a ring of `ring_size` that see keys of a rank: with short documents only those that hold the neighbouring
/// tokens of its two chunks.
double num_readers(int ring_size, const SpFacts& facts) {
  const double chunk_tokens = facts.micro_batch_tokens / (2.0 * ring_size);
  return std::min(ring_size - 1.0, 2.0 * std::ceil(facts.document_tokens / std::max(1.0, chunk_tokens)));
}

/// Keys and values of `kv_heads` heads, in both passes, and their gradients back, to each reader.
double bytes_of_keys(const Sizes& sizes, double kv_heads, double readers) {
  return readers * 2.0 * kv_heads * sizes.head_dim * (2.0 * sizes.compute_bytes + gradient_bytes);
}

/// The exchange of heads among `size` ranks (parallel::HeadDeal), and the ring between them.
double bytes_of_heads(const Sizes& sizes, int size, double readers) {
  const std::int64_t heads = sizes.q_heads / size, queries_per_key = sizes.q_heads / sizes.kv_heads;
  const std::int64_t shared = std::gcd(heads, queries_per_key), sent_kv_heads = heads / shared;
  const auto q = static_cast<double>(heads), kv = static_cast<double>(sent_kv_heads);
  const double dkv_bytes = shared < queries_per_key ? gradient_bytes : sizes.compute_bytes;
  // Queries, keys and values, and the output back; with dout a second time, and the gradients back.
  const double exchanged = (2.0 * (q + 2.0 * kv) + q + 2.0 * q) * sizes.compute_bytes + 2.0 * kv * dkv_bytes;
  return (size - 1.0) * sizes.head_dim * exchanged + bytes_of_keys(sizes, size * kv, readers);
}

/// "ulysses", "hybrid of 4 x 2 (ulysses x ring)".
std::string describe(const SpCandidate& candidate, int sp_size) {
  switch (candidate.method) {
    case SpMethod::all_gather:
      return "all_gather";
    case SpMethod::ulysses:
      return "ulysses";
    case SpMethod::hybrid:
      return "hybrid of " + std::to_string(candidate.ulysses_size) + " x " +
             std::to_string(sp_size / candidate.ulysses_size);
    case SpMethod::ring:
    case SpMethod::automatic:
      break;
  }
  return "ring";
}

std::string kibibytes(double bytes) { return format_text("%.1f", bytes / 1024.0); }

}  // namespace

SpFacts SpFacts::of(const config::ValidConfig& config, const data::PackedDataset& data, int ranks_per_node) {
  const auto num_tokens = static_cast<double>(data.num_tokens());
  return {num_tokens / static_cast<double>(std::max<std::int64_t>(1, data.num_documents())),
          num_tokens / static_cast<double>(data.num_rows()) *
              static_cast<double>(config->train.per_device_train_batch_size),
          ranks_per_node};
}

std::vector<SpCandidate> sp_candidates(const config::ValidConfig& config, const SpFacts& facts) {
  const config::Parallel& parallel = config->parallel;
  const Sizes sizes(config);
  const double readers = num_readers(parallel.sp_size, facts);
  // Of the zigzag's pairs of ranks one in two needs only one of two chunks: the ring sends both, all_gather does not.
  constexpr double share_of_chunks = 0.75;
  const double bytes = bytes_of_keys(sizes, static_cast<double>(sizes.kv_heads), readers);
  std::vector<SpCandidate> candidates = {{SpMethod::ring, 1, bytes}};
  // A head of the whole row is as much as sp_size heads of a rank's tokens.
  const bool fits_memory_of_ring = parallel.sp_size <= 2 * sizes.kv_heads;
  if (fits_memory_of_ring) candidates.push_back({SpMethod::all_gather, 1, share_of_chunks * bytes});
  for (int size = 2; size <= parallel.sp_size; ++size) {
    const bool is_within_node = facts.ranks_per_node % (size * parallel.tp_size) == 0;
    if (parallel.sp_size % size != 0 || sizes.q_heads % size != 0 || !is_within_node) continue;
    const int ring_size = parallel.sp_size / size;
    candidates.push_back({ring_size == 1 ? SpMethod::ulysses : SpMethod::hybrid, size,
                          bytes_of_heads(sizes, size, num_readers(ring_size, facts))});
  }
  return candidates;
}

ResolvedSpMethod resolve_sp_method(const config::ValidConfig& config, const SpFacts& facts) {
  const config::Parallel& parallel = config->parallel;
  const auto with = [&config](SpMethod method, int ulysses_size) {
    return config.with([=](config::Config& changed) {
      changed.parallel.sp_method = method;
      changed.parallel.ulysses_size = ulysses_size;
    });
  };
  const std::vector<SpCandidate> candidates = sp_candidates(config, facts);
  const std::string sp_size = std::to_string(parallel.sp_size);
  if (parallel.sp_method == SpMethod::hybrid && parallel.ulysses_size == 0) {
    const int size = std::ranges::max(candidates, {}, &SpCandidate::ulysses_size).ulysses_size;
    return {with(SpMethod::hybrid, size), "ulysses_size = " + std::to_string(size) + ": the most of sp_size = " +
                                              sp_size + " ranks whose heads divide and that share a node"};
  }
  if (parallel.sp_method != SpMethod::automatic) return {config, ""};
  const SpCandidate best = *std::ranges::min_element(candidates, {}, &SpCandidate::bytes);
  config::ValidConfig resolved = with(best.method, best.method == SpMethod::hybrid ? best.ulysses_size : 0);
  if (parallel.sp_size == 1) return {std::move(resolved), ""};
  std::string why = "auto: sends the least, " + kibibytes(best.bytes) + " KiB a token and layer;";
  std::string separator = " ";
  for (const SpCandidate& other : candidates) {
    if (other.method == best.method && other.ulysses_size == best.ulysses_size) continue;
    why += separator + describe(other, parallel.sp_size) + " " + kibibytes(other.bytes);
    separator = ", ";
  }
  return {std::move(resolved), why};
}

}  // namespace sft::plan
