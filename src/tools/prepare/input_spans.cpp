// SPDX-License-Identifier: Apache-2.0
#include "prepare/input_spans.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>
#include <system_error>

#include "prepare/record_reader.hpp"
#include "sft/core/byte_pack.hpp"

namespace sft::prepare {

namespace {

namespace fs = std::filesystem;

/// An input, as one rank found it.
struct Found {
  std::int64_t size_bytes = InputSpan::unknown_size;
  bool is_divisible = false;
};

Found look_at(const std::string& input, bool is_alone) {
  std::error_code error;
  if (input == standard_input || !fs::is_regular_file(input, error)) return {};
  const std::uintmax_t size = fs::file_size(input, error);
  if (error) return {};
  return {static_cast<std::int64_t>(size), !is_alone && RecordReader::is_divisible(input)};
}

/// What all inputs are. Each rank looks at its share of them.
std::vector<Found> look_at_all(const std::vector<InputSpan>& inputs, const Team& team) {
  BytePacker packer;
  for (std::size_t i = team.rank(); i < inputs.size(); i += team.size()) {
    packer.add(look_at(inputs[i].input, team.size() == 1));
  }
  const std::vector<std::string> messages = team.all_gather(packer.take());
  std::vector<ByteUnpacker> unpackers(messages.begin(), messages.end());
  std::vector<Found> found;
  for (std::size_t i = 0; i < inputs.size(); ++i) found.push_back(unpackers[i % team.size()].get<Found>());
  return found;
}

std::vector<InputSpan> cut(const InputSpan& whole, std::int64_t part_bytes) {
  const std::int64_t num_parts = std::max<std::int64_t>(1, (whole.size_bytes + part_bytes - 1) / part_bytes);
  std::vector<InputSpan> parts(num_parts, whole);
  for (std::int64_t i = 0; i < num_parts; ++i) {
    InputSpan& part = parts[i];
    const std::int64_t begin = whole.size_bytes / num_parts * i;
    const std::int64_t end = i + 1 < num_parts ? whole.size_bytes / num_parts * (i + 1) : whole.size_bytes;
    part.is_part = true;
    part.range.begin = begin;
    if (i + 1 < num_parts) part.range.end = end;
    part.size_bytes = end - begin;
  }
  return parts;
}

/// The largest first, each to the rank that has the least so far.
void choose_readers(std::vector<InputSpan>& spans, int team_size) {
  std::vector<std::size_t> order(spans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return spans[i].size_bytes; });
  std::vector<std::int64_t> load(team_size, 0);
  for (const std::size_t i : order) {
    if (spans[i].reader == InputSpan::everyone) continue;
    const auto least = std::ranges::min_element(load);
    spans[i].reader = static_cast<int>(least - load.begin());
    *least += spans[i].size_bytes;
  }
}

}  // namespace

std::vector<InputSpan> divide_inputs(const std::vector<InputGroup>& groups, const Team& team) {
  constexpr std::int64_t parts_per_rank = 16;
  constexpr std::int64_t least_part_bytes = std::int64_t{64} << 10, most_part_bytes = std::int64_t{16} << 20;
  std::vector<InputSpan> inputs;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (const std::string& file : groups[group].files) inputs.push_back({.input = file, .group = group});
  }
  const std::vector<Found> found = look_at_all(inputs, team);
  std::int64_t total_bytes = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].size_bytes = found[i].size_bytes;
    total_bytes += std::max<std::int64_t>(0, found[i].size_bytes);
  }
  if (team.size() == 1) return inputs;

  const std::int64_t share_bytes = total_bytes / team.size();
  const std::int64_t part_bytes = std::clamp(share_bytes / parts_per_rank, least_part_bytes, most_part_bytes);
  std::vector<InputSpan> spans;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (found[i].is_divisible) {
      const std::vector<InputSpan> parts = cut(inputs[i], part_bytes);
      spans.insert(spans.end(), parts.begin(), parts.end());
    } else {
      spans.push_back(inputs[i]);
      if (inputs[i].size_bytes > share_bytes / 2) spans.back().reader = InputSpan::everyone;
    }
  }
  choose_readers(spans, team.size());
  return spans;
}

std::int64_t num_bytes_read(const std::vector<InputSpan>& spans, int rank) {
  std::int64_t size = 0;
  for (const InputSpan& span : spans) {
    if (span.size_bytes == InputSpan::unknown_size) return 0;
    if (span.is_read_by(rank)) size += span.size_bytes;
  }
  return size;
}

}  // namespace sft::prepare
