// SPDX-License-Identifier: Apache-2.0
#include "sft/checkpoint/loaded_weights.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <vector>

#include "sft/checkpoint/state.hpp"
#include "sft/comm/session.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"

namespace sft::checkpoint {

namespace {

constexpr const char* get_again =
    "copy or download the file again, or take weights from before (a file that was cut off while it was copied may "
    "have "
    "holes, and a run that diverged leaves such numbers)";

/// Matrices that a design may set to zero at first, so that what they belong to changes nothing until it is trained.
constexpr std::array may_begin_as_zeros{".q_proj.weight", ".o_proj.weight", ".down_proj.weight", "lm_head.weight"};

/// In a form that compilers vectorize: the largest exponent is that of NaN and Inf.
bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t exponent_bits = 0x7f800000U;
  std::uint32_t largest = 0;
  for (const float value : values) largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & exponent_bits);
  return largest < exponent_bits;
}

/// The place of a matrix's element, "(row, column)", or of a vector's.
std::string place_text(const io::Rectangle& where, std::int64_t element) {
  const std::string row = std::to_string(where.row_begin + element / where.num_columns);
  return "(" + row + ", " + std::to_string(where.column_begin + element % where.num_columns) + ")";
}

}  // namespace

void require_finite(const std::string& source, const std::string& name, const io::Rectangle& where,
                    std::span<const float> values) {
  if (all_finite(values)) return;
  const auto found = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  throw_data_error(name.substr(name.find('/') + 1) + " of " + source + " holds " + (std::isnan(*found) ? "NaN" : "Inf"),
                   "its element " + place_text(where, found - values.begin()) + " is no finite number", get_again);
}

void LoadedWeights::add(const std::string& source, const std::string& name, const parallel::Parameter& parameter,
                        const io::Rectangle& where, std::span<const float> values) {
  require_finite(source, name, where, values);
  if (!parameter.is_vector()) {
    bool& is_zero = is_zero_.try_emplace(parameter.name, true).first->second;
    is_zero = is_zero && std::ranges::all_of(values, [](float value) { return value == 0.0F; });
  }
  if (!takes_fingerprint_ || !parameter.is_owner) return;
  sum_.add(parameter.name, parameter.is_vector() ? 1 : parameter.columns, where, values);
}

void LoadedWeights::check_zeros(const std::string& source, const State& weights, const comm::Group& world) const {
  std::vector<std::string> names;
  std::vector<std::int64_t> has_nonzeros;  // 1: a rank saw something else than zeros
  for (const Entry& entry : weights.entries()) {
    if (entry.name != "model") continue;
    for (const parallel::StoredTensor& tensor : entry.layout->tensors(*entry.shard_map)) {
      if (tensor.parameter->is_vector()) continue;
      const auto found = is_zero_.find(tensor.parameter->name);
      names.push_back(tensor.parameter->name);
      has_nonzeros.push_back(found != is_zero_.end() && !found->second ? 1 : 0);
    }
  }
  if (names.empty()) return;
  world.max(std::span<std::int64_t>(has_nonzeros));
  std::string first_kept;
  int num_kept = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (has_nonzeros[i] != 0) continue;
    const std::string& name = names[i];
    const auto is_end = [&](const char* end) { return name.ends_with(end); };
    if (std::ranges::none_of(may_begin_as_zeros, is_end)) {
      throw comm::SharedError(ExitStatus::data, name + " of " + source + " is all zeros",
                              "no model that was trained, or that could be, has such a matrix", get_again);
    }
    if (num_kept++ == 0) first_kept = name;
  }
  if (num_kept == 0) return;
  const std::string others = num_kept == 1 ? " is" : " and " + std::to_string(num_kept - 1) + " more matrices are";
  log_warning(first_kept + others + " all zeros in " + source +
              ": right where blocks were added to a model, or it was never trained; else the file is damaged");
}

std::string LoadedWeights::fingerprint(const comm::Group& world) const {
  SFT_ENSURE(takes_fingerprint_, "a fingerprint is asked for at the beginning");
  constexpr std::uint64_t low = 0xffffffffU;
  std::array<std::int64_t, 2> halves{static_cast<std::int64_t>(sum_.value() & low),
                                     static_cast<std::int64_t>(sum_.value() >> 32U)};  // no sum of them overflows
  world.sum(std::span<std::int64_t>(halves));
  io::ElementSum all;
  all.add(static_cast<std::uint64_t>(halves[0]) + (static_cast<std::uint64_t>(halves[1]) << 32U));
  return all.text();
}

}  // namespace sft::checkpoint
