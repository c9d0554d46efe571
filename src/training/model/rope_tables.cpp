// SPDX-License-Identifier: Apache-2.0
#include "sft/model/rope_tables.hpp"

#include "sft/model/rope.hpp"

namespace sft::model {

RopeTables::RopeTables(const config::Model& model, device::Arena& arena, std::int64_t num_tokens) {
  for (const Rope& rope : ropes(model)) {
    const std::int64_t num_pairs = rope.dims / 2;
    tables_.push_back({.inverse_frequencies = take(arena, DType::float64, {num_pairs}),
                       .cosine = take(arena, DType::float32, {num_tokens, num_pairs}),
                       .sine = take(arena, DType::float32, {num_tokens, num_pairs})});
  }
}

RopeTables RopeTables::first_rows(std::int64_t num_tokens) const {
  RopeTables result = *this;
  for (Table& table : result.tables_) {
    table.cosine = table.cosine.rows(0, num_tokens);
    table.sine = table.sine.rows(0, num_tokens);
  }
  return result;
}

void RopeTables::upload(const config::Model& model, device::Device& device, ops::Backend& backend) const {
  const std::vector<Rope> all = ropes(model);
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    const std::vector<double> frequencies = inverse_frequencies(all[i]);
    const Tensor& copy = tables_[i].inverse_frequencies;
    device.copy(copy.data, frequencies.data(), copy.size_bytes(), backend.stream());
    backend.stream().synchronize();
  }
}

void RopeTables::fill(const config::Model& model, ops::Backend& backend, const Tensor& positions) const {
  const std::vector<Rope> all = ropes(model);
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    const Table& table = tables_[i];
    backend.run(ops::WriteRopeTable{table.cosine,
                                    table.sine,
                                    positions,
                                    table.inverse_frequencies,
                                    {.factor = static_cast<float>(all[i].scaling.attention_factor),
                                     .beta = static_cast<float>(all[i].query_growth),
                                     .length = all[i].scaling.original_max_position_embeddings}});
  }
}

ops::RopeTable RopeTables::operator[](int rope) const {
  const Table& table = tables_.at(rope);
  return {table.cosine, table.sine};
}

}  // namespace sft::model
