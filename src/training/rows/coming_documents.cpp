// SPDX-License-Identifier: Apache-2.0
#include "sft/rows/coming_documents.hpp"

#include <cstddef>
#include <numeric>
#include <span>

#include "rows/step_rows.hpp"
#include "sft/sequence/row_cut.hpp"

namespace sft::rows {

std::vector<ComingMicroBatch> coming_documents(const PackedDataset& dataset, const LoaderPlan& plan,
                                               std::int64_t max_rows) {
  const std::vector<std::int32_t> lengths =
      StepRows::are_dealt(dataset, plan) ? dataset.row_lengths() : std::vector<std::int32_t>();
  StepRows rows(dataset.num_rows(), plan, lengths);
  std::vector<ComingMicroBatch> coming;
  std::int64_t num_read = 0;
  for (std::int64_t step = plan.first_step; step < plan.last_step && num_read < max_rows; ++step) {
    const std::vector<std::vector<std::int64_t>> slots = rows.slots(step);
    for (std::size_t i = plan.data_rank; i < slots.size() && num_read < max_rows; i += plan.data_size) {
      ComingMicroBatch batch;
      for (const std::int64_t row : slots[i]) {
        const std::vector<std::int32_t> documents = dataset.read_labels(row).document_lengths;
        batch.documents.insert(batch.documents.end(), documents.begin(), documents.end());
        ++num_read;
      }
      if (batch.documents.empty()) continue;
      const std::int64_t num_tokens = std::reduce(batch.documents.begin(), batch.documents.end(), std::int64_t{0});
      batch.row_length = sequence::joined_row_length(num_tokens, std::ssize(slots[i]) * dataset.max_length(),
                                                     plan.sp_size, plan.local_multiple);
      coming.push_back(std::move(batch));
    }
  }
  return coming;
}

}  // namespace sft::rows
