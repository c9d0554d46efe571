// SPDX-License-Identifier: Apache-2.0
#include "not_finite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "sft/comm/session.hpp"

namespace sft::train {

namespace {

/// A NaN has no sign.
std::string text_of(double number) { return std::isnan(number) ? "nan" : std::to_string(number); }

/// "3, 7 and 12", the first eight at most.
std::string list_of(const std::vector<std::int64_t>& rows) {
  constexpr std::size_t limit = 8;
  const std::size_t count = std::min(rows.size(), limit);
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_end = i + 1 == rows.size();
    text += (i == 0 ? "" : is_end ? " and " : ", ") + std::to_string(rows[i]);
  }
  return rows.size() > limit ? text + " and " + std::to_string(rows.size() - limit) + " more" : text;
}

/// "2, 5": the ranks where `seen` holds. Collective.
std::string ranks_where(bool seen, const comm::Group& world) {
  const std::int64_t mine = seen ? 1 : 0;
  const std::vector<std::int64_t> flags = world.all_gather(std::span(&mine, 1));
  std::string ranks;
  for (std::size_t r = 0; r < flags.size(); ++r) {
    if (flags[r] != 0) ranks += (ranks.empty() ? "" : ", ") + std::to_string(r);
  }
  return ranks;
}

/// What the lowest rank where `seen` holds says. Collective.
std::string first_where(bool seen, const std::string& text, const comm::Group& world) {
  for (const std::string& said : world.all_gather(seen ? text : "")) {
    if (!said.empty()) return said;
  }
  return "";
}

}  // namespace

NotFiniteText describe_not_finite(const NotFinite& seen, const comm::Group& world) {
  const bool is_loss = !std::isfinite(seen.local_loss);
  const std::string loss_ranks = ranks_where(is_loss, world);
  const std::string loss_rows = first_where(
      is_loss, "rank " + std::to_string(world.rank()) + " read row " + list_of(seen.rows) + " of the data in this step",
      world);
  const std::string shard_ranks = ranks_where(!std::isfinite(seen.local_square_sum), world);
  const std::string where = !loss_ranks.empty() ? "first seen in the loss of rank " + loss_ranks + "; " + loss_rows
                            : !shard_ranks.empty()
                                ? "the loss is finite; seen in the gradient shard of rank " + shard_ranks
                                : "finite on every rank, but not their sum";
  return {fmt::format("loss {} and gradient norm {} at step {} are not finite", text_of(seen.loss), text_of(seen.norm),
                      seen.step),
          where};
}

void throw_not_finite(const NotFiniteText& text) {
  throw comm::SharedError(
      ExitStatus::numerical, text.problem, text.where,
      "resume from the last checkpoint, if there is one, with a lower learning_rate, or look at the rows of this step; "
      "train.nan_policy = skip leaves such steps out");
}

void throw_eval_not_finite(const EvalNotFinite& seen, const comm::Group& world) {
  const bool is_mine = !std::isfinite(seen.local_loss);
  const std::string ranks = ranks_where(is_mine, world);
  const std::string rows = first_where(
      is_mine, "rank " + std::to_string(world.rank()) + " read row " + list_of(seen.rows) + " of data.eval_files then",
      world);
  throw comm::SharedError(
      ExitStatus::numerical,
      "eval_loss " + text_of(seen.loss) + " after step " + std::to_string(seen.step) + " is not finite",
      ranks.empty() ? "finite on every rank, but not their sum" : "first seen on rank " + ranks + "; " + rows,
      "look at these rows, or resume from an earlier checkpoint with a lower learning_rate");
}

}  // namespace sft::train
