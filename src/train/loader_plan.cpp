// SPDX-License-Identifier: Apache-2.0
#include "sft/train/loader_plan.hpp"

namespace sft::train {

data::LoaderPlan loader_plan(const config::Config& config, const mesh::Place& place, std::int64_t first_step,
                             std::int64_t last_step) {
  data::LoaderPlan plan;
  plan.rows_per_micro_batch = config.train.per_device_train_batch_size;
  plan.micro_batches = config.train.gradient_accumulation_steps;
  plan.data_size = place.data_size();
  plan.data_rank = place.data_rank();
  plan.sp_size = place.layout().sp;
  plan.sp_rank = place.coordinates().sp;
  plan.first_step = first_step;
  plan.last_step = last_step;
  plan.shuffle = config.data.shuffle;
  plan.seed = config.data.seed;
  return plan;
}

}  // namespace sft::train
