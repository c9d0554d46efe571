// SPDX-License-Identifier: Apache-2.0
#include "compare.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "sft/checkpoint/inspect.hpp"

namespace sft::apps {

namespace {

constexpr double infinitely = std::numeric_limits<double>::infinity();
constexpr const char* loss = "loss";
constexpr const char* gradient_norm = "gradient norm";
constexpr const char* weights = "weights";

double relative(double a, double b) { return a == b ? 0.0 : std::abs(a - b) / std::max(std::abs(a), std::abs(b)); }

bool is_weight(const io::TensorInfo& tensor) {
  const std::string entry = io::entry_of(tensor.name);
  return entry == "model" || entry == "adapter";
}

using ByName = std::map<std::string, io::TensorInfo>;

ByName by_name(const io::TensorSource& source) {
  ByName tensors;
  for (const io::TensorInfo& tensor : source.tensors()) tensors.emplace(tensor.name, tensor);
  return tensors;
}

/// The root mean square of each entry that an optimizer keeps.
std::map<std::string, double> sizes_of_entries(const io::TensorSource& source) {
  std::map<std::string, double> squares, counts;
  for (const io::TensorInfo& tensor : source.tensors()) {
    if (is_weight(tensor) || tensor.dtype == DType::uint8) continue;
    const double norm = checkpoint::measure(source, tensor).norm;
    squares[io::entry_of(tensor.name)] += norm * norm;
    counts[io::entry_of(tensor.name)] += static_cast<double>(tensor.num_elements());
  }
  for (auto& [entry, sum] : squares) sum = std::sqrt(sum / counts[entry]);
  return squares;
}

/// 0 / 0 is 0.
double ratio(double part, double whole) { return part == 0.0 ? 0.0 : part / whole; }

}  // namespace

std::string digits_of(double apart) {
  if (apart == 0.0) return "all";
  return apart < 1.0 ? fmt::format("{:.1f}", -std::log10(apart)) : "none";
}

std::vector<Gap> compare_steps(const std::vector<StepNumbers>& first, const std::vector<StepNumbers>& second,
                               const Rounding& rounding) {
  std::vector<Gap> gaps;
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    const StepNumbers &a = first[i], &b = second[i];
    const std::string where = fmt::format("step {}", i + 1);
    if (a.num_tokens != b.num_tokens || a.num_target_tokens != b.num_target_tokens) {
      gaps.push_back({"tokens", where, infinitely, 0.0});
    }
    gaps.push_back({loss, where, relative(a.loss, b.loss), rounding.loss});
    gaps.push_back({gradient_norm, where, relative(a.grad_norm, b.grad_norm), rounding.gradient});
  }
  return gaps;
}

std::vector<Gap> compare_tensors(const io::TensorSource& start, const io::TensorSource& first,
                                 const io::TensorSource& second, std::int64_t num_steps, const Rounding& rounding) {
  constexpr double least_share = 0.01;
  const ByName at_start = by_name(start), others = by_name(second);
  const std::map<std::string, double> sizes = sizes_of_entries(first);
  std::vector<Gap> gaps;
  ByName alone = others;
  for (const io::TensorInfo& tensor : first.tensors()) {
    alone.erase(tensor.name);
    if (tensor.dtype == DType::uint8) continue;
    const std::string entry = io::entry_of(tensor.name), what = is_weight(tensor) ? weights : entry;
    Gap gap{what, tensor.name.substr(tensor.name.find('/') + 1), infinitely, 0.0};
    const auto other = others.find(tensor.name);
    if (other != others.end() && other->second.shape == tensor.shape) {
      const checkpoint::Difference apart = checkpoint::compare(first, tensor, second, other->second);
      if (is_weight(tensor)) {
        const double moved = checkpoint::compare(first, tensor, start, at_start.at(tensor.name)).norm;
        const double roundings = std::sqrt(static_cast<double>(num_steps)) * rounding.stored * apart.before_norm;
        gap.apart = ratio(apart.norm, moved);
        gap.explained = rounding.movement + ratio(roundings, moved);
      } else {
        const double least = least_share * sizes.at(entry) * std::sqrt(static_cast<double>(tensor.num_elements()));
        gap.apart = ratio(apart.norm, std::max(apart.before_norm, least));
        gap.explained = rounding.moments;
      }
    }
    gaps.push_back(std::move(gap));
  }
  for (const auto& [name, tensor] : alone) {
    gaps.push_back({is_weight(tensor) ? weights : io::entry_of(name), name, infinitely, 0.0});
  }
  return gaps;
}

std::vector<Gap> worst_of_each(const std::vector<Gap>& gaps) {
  std::vector<Gap> worst;
  const auto share = [](const Gap& gap) {
    return std::isnan(gap.apart) ? infinitely : ratio(gap.apart, gap.explained);
  };
  for (const Gap& gap : gaps) {
    const auto found = std::ranges::find(worst, gap.what, &Gap::what);
    if (found == worst.end()) {
      worst.push_back(gap);
    } else if (share(gap) > share(*found)) {
      *found = gap;
    }
  }
  return worst;
}

std::string first_sign(const std::vector<Gap>& gaps) {
  const auto found = std::ranges::find_if(gaps, [](const Gap& gap) { return !gap.holds(); });
  if (found == gaps.end()) return "";
  const std::string place = fmt::format("first at the {} of {}", found->what, found->where);
  if (found->what == "tokens") return place + ": they did not train on the same rows";
  if (found->what == loss && found->where == "step 1") {
    return place + ": they begin with other weights or other rows, or the forward passes differ";
  }
  if (found->what == gradient_norm && found->where == "step 1") {
    return place + ": the loss agrees, so a backward pass, or a sum of gradients over an axis, differs";
  }
  if (found->what == loss || found->what == gradient_norm) return place + ": the step before it changed other weights";
  if (found->what == weights) return fmt::format("first at {}: its gradient, or its update", found->where);
  return fmt::format("first at {} of {}: its gradient", found->what, found->where);
}

}  // namespace sft::apps
