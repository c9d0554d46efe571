// SPDX-License-Identifier: Apache-2.0
#include "support/engine_fixture.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "sft/core/ensure.hpp"
#include "sft/device/factory.hpp"
#include "sft/model/layer_plan.hpp"
#include "support/layout.hpp"

namespace sft::test {
namespace {

/// Elements that are contiguous both in the rank shard and in the logical tensor.
struct Run {
  const parallel::Parameter& parameter;
  std::int64_t logical_begin, shard_begin, count;
};

template <class Visit>
void for_each_run(const parallel::ShardMap& shard_map, const Visit& visit) {
  for (const parallel::Piece& piece : shard_map.pieces()) {
    const std::int64_t columns = piece.parameter->is_vector() ? 1 : piece.parameter->columns;
    for (const parallel::LogicalRectangle& rectangle : parallel::ShardMap::rectangles(piece)) {
      for (std::int64_t row = 0; row < rectangle.num_rows; ++row) {
        visit(Run{*piece.parameter, (rectangle.row_begin + row) * columns + rectangle.column_begin,
                  rectangle.shard_offset + row * rectangle.num_columns, rectangle.num_columns});
      }
    }
  }
}

}  // namespace

config::ValidConfig with_mesh(config::Config config, const mesh::Layout& layout) {
  set_mesh(config.parallel, layout);
  config.data.train_files = {"rows in memory"};
  return config::validate(std::move(config), layout.size());
}

void scatter(const parallel::ShardMap& shard_map, const LogicalTensors& tensors, Tensor shard) {
  for_each_run(shard_map, [&](const Run& run) {
    const std::vector<float>& values = tensors.at(run.parameter.name);
    SFT_ENSURE(std::ssize(values) == run.parameter.elements(), "a whole tensor has its parameter's size");
    std::copy_n(values.data() + run.logical_begin, run.count, shard.as<float>() + run.shard_begin);
  });
}

LogicalTensors gather(const parallel::ShardMap& shard_map, Tensor shard, const test::Mesh& mesh) {
  std::map<std::string, std::vector<double>> sums;
  for (const parallel::Unit& unit : shard_map.units()) {
    for (const parallel::Parameter& parameter : unit.parameters) sums[parameter.name].resize(parameter.elements());
  }
  for_each_run(shard_map, [&](const Run& run) {
    if (!run.parameter.is_owner) return;
    std::copy_n(shard.as<float>() + run.shard_begin, run.count, sums[run.parameter.name].data() + run.logical_begin);
  });
  LogicalTensors tensors;
  for (auto& [name, values] : sums) {
    mesh.groups.world.sum(std::span<double>(values));
    std::vector<float>& whole = tensors[name];
    whole.reserve(values.size());
    for (const double value : values) whole.push_back(static_cast<float>(value));
  }
  return tensors;
}

bool holds_exactly(const parallel::ShardMap& shard_map, Tensor shard, const LogicalTensors& tensors) {
  bool equal = true;
  for_each_run(shard_map, [&](const Run& run) {
    const float* whole = tensors.at(run.parameter.name).data() + run.logical_begin;
    equal = equal && std::equal(whole, whole + run.count, shard.as<float>() + run.shard_begin);
  });
  return equal;
}

void scatter(const std::vector<checkpoint::Entry>& entries, const LogicalTensors& tensors) {
  for (const checkpoint::Entry& entry : entries) scatter(*entry.shard_map, tensors, entry.tensor);
}

LogicalTensors gather(const std::vector<checkpoint::Entry>& entries, const test::Mesh& mesh) {
  LogicalTensors tensors;
  for (const checkpoint::Entry& entry : entries) tensors.merge(gather(*entry.shard_map, entry.tensor, mesh));
  return tensors;
}

bool holds_exactly(const std::vector<checkpoint::Entry>& entries, const LogicalTensors& tensors) {
  return std::ranges::all_of(
      entries, [&](const checkpoint::Entry& entry) { return holds_exactly(*entry.shard_map, entry.tensor, tensors); });
}

EngineFixture::EngineFixture(config::Config config, std::int64_t max_length, test::Mesh mesh,
                             const comm::Session& session, std::unique_ptr<device::Device> device,
                             const comm::Transport& transport)
    : config_(with_mesh(std::move(config), mesh.place.layout())),
      mesh_(std::move(mesh)),
      device_(device ? std::move(device)
                     : device::make_device(device::Kind::cpu,
                                           {.num_local_ranks = session.node().size(), .gpu = session.node().rank()})),
      collectives_(comm::make_collectives(
          *device_, mesh_.groups.of_tensors({.exchanges_matrices = config_->optimizer.needs_whole_matrices()}),
          transport)),
      traffic_(*collectives_),
      engine_(std::make_unique<train::Engine>(
          config_, rows::limits_of_full_rows(config_->train.per_device_train_batch_size, max_length), mesh_.place,
          mesh_.groups, *device_, traffic_, ledger_)) {}

std::vector<rows::MicroBatch> EngineFixture::deal(const std::vector<rows::Row>& rows) const {
  SFT_ENSURE(std::ssize(rows) == config_->effective_batch_rows(), "a step's rows are one effective batch");
  const std::int64_t rows_per_micro_batch = config_->train.per_device_train_batch_size;
  std::vector<rows::MicroBatch> micro_batches;
  rows::BatchCounts step_counts;
  for (std::int64_t micro = 0; micro < config_->train.gradient_accumulation_steps; ++micro) {
    const std::int64_t first = (micro * mesh_.place.data_size() + mesh_.place.data_rank()) * rows_per_micro_batch;
    const std::vector<rows::Row> micro_rows(rows.begin() + first, rows.begin() + first + rows_per_micro_batch);
    micro_batches.push_back(rows::cut_rows(micro_rows, mesh_.place.size(Axis::sp), mesh_.place.rank(Axis::sp),
                                           config_->parallel.attention_method(), config_->parallel.token_slices(),
                                           model::attention_windows(config_->model)));
    micro_batches.back().counts = rows::count_rows(micro_rows);
    step_counts += micro_batches.back().counts;
    for (std::int64_t row = first; row < first + rows_per_micro_batch; ++row) micro_batches.back().rows.push_back(row);
  }
  for (rows::MicroBatch& batch : micro_batches) batch.step_counts = step_counts;
  return micro_batches;
}

train::StepResult EngineFixture::step(const std::vector<rows::Row>& rows, std::int64_t step, double learning_rate) {
  const std::vector<rows::MicroBatch> micro_batches = deal(rows);
  engine_->begin_step(step + 1, learning_rate, micro_batches.front().step_counts);
  for (const rows::MicroBatch& batch : micro_batches) engine_->add_micro_batch(batch);
  return engine_->finish_step();
}

void EngineFixture::set_parameters(const LogicalTensors& tensors) {
  const checkpoint::State state = engine_->state();
  scatter(state.first_entries(), tensors);
  state.refresh();
}

LogicalTensors EngineFixture::gather_parameters() { return gather(engine_->state().first_entries(), mesh_); }

LogicalTensors EngineFixture::gather_gradients() {
  engine_->stream().synchronize();
  LogicalTensors tensors;
  for (const train::PartGradients& part : engine_->gradients()) {
    tensors.merge(gather(*part.shard_map, part.tensor, mesh_));
  }
  return tensors;
}

}  // namespace sft::test
