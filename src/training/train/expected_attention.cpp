// SPDX-License-Identifier: Apache-2.0
#include "expected_attention.hpp"

#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "sft/core/activity.hpp"
#include "sft/rank/coming_attention.hpp"
#include "sft/rows/coming_documents.hpp"

namespace sft::train {

namespace {

/// Of each micro-batch the length of its row, the number of its documents, and their lengths.
std::string packed(const std::vector<rows::ComingMicroBatch>& coming) {
  std::vector<std::int64_t> numbers;
  for (const rows::ComingMicroBatch& batch : coming) {
    numbers.push_back(batch.row_length);
    numbers.push_back(std::ssize(batch.documents));
    numbers.insert(numbers.end(), batch.documents.begin(), batch.documents.end());
  }
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(std::int64_t)};
}

std::vector<rows::ComingMicroBatch> unpacked(const std::string& bytes) {
  std::vector<std::int64_t> numbers(bytes.size() / sizeof(std::int64_t));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  std::vector<rows::ComingMicroBatch> coming;
  for (auto at = numbers.begin(); at != numbers.end();) {
    rows::ComingMicroBatch batch{.row_length = *at++, .documents = {}};
    for (std::int64_t left = *at++; left > 0; --left) batch.documents.push_back(static_cast<std::int32_t>(*at++));
    coming.push_back(std::move(batch));
  }
  return coming;
}

std::string read(const rows::PackedDataset& dataset, const rows::LoaderPlan& plan) {
  const Activity reading(ActivityKind::reads, "reading lengths of documents");
  try {
    return packed(rows::coming_documents(dataset, plan, rank::rows_looked_at));
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace

void expect_attention(ops::Backend& backend, const rows::PackedDataset& dataset, const rows::LoaderPlan& plan,
                      const comm::Group& rows) {
  std::string bytes;
  if (rows.rank() == 0) bytes = read(dataset, plan);
  if (rows.size() > 1) rows.broadcast(bytes, 0);
  for (rows::ComingMicroBatch& batch : unpacked(bytes)) {
    rank::expect_attention(backend, rank::schedules_of(plan, std::move(batch)));
  }
}

}  // namespace sft::train
