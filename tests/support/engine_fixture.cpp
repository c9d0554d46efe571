#include "support/engine_fixture.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "sft/config/parse.hpp"
#include "sft/core/error.hpp"
#include "sft/device/factory.hpp"

namespace sft::test {
namespace {

/// Elements that are contiguous both in the rank shard and in the logical tensor.
struct Run {
  const parallel::Parameter& parameter;
  std::int64_t logical_begin, shard_begin, count;
};

template <class Visit>
void for_each_run(const parallel::Registry& registry, const Visit& visit) {
  for (const parallel::Piece& piece : registry.pieces()) {
    const std::int64_t columns = piece.parameter->is_vector() ? 1 : piece.parameter->columns;
    for (const parallel::LogicalRectangle& rectangle : parallel::Registry::rectangles(piece)) {
      for (std::int64_t row = 0; row < rectangle.num_rows; ++row) {
        visit(Run{*piece.parameter, (rectangle.row_begin + row) * columns + rectangle.column_begin,
                  rectangle.shard_offset + row * rectangle.num_columns, rectangle.num_columns});
      }
    }
  }
}

config::Config with_mesh(config::Config config, const mesh::Layout& layout) {
  config.parallel.dp_replicate_size = layout.dp_replicate;
  config.parallel.dp_shard_size = layout.dp_shard;
  config.parallel.sp_size = layout.sp;
  config.parallel.tp_size = layout.tp;
  config.data.train_files = {"rows in memory"};
  config::validate(config, layout.size());
  return config;
}

}  // namespace

mesh::Mesh make_lone_mesh(const comm::Session& session, int num_kv_heads) {
  mesh::Mesh mesh(session, {.dp_replicate = session.world().size()}, num_kv_heads);
  const comm::Group self = session.world().split(session.world().rank(), 0, "self");
  mesh.layout = {};
  mesh.coordinates = {};
  mesh.world = mesh.replicate = mesh.data = mesh.tokens = self;
  return mesh;
}

void scatter(const parallel::Registry& registry, const LogicalTensors& tensors, Tensor shard) {
  for_each_run(registry, [&](const Run& run) {
    const std::vector<float>& values = tensors.at(run.parameter.name);
    ensure(std::ssize(values) == run.parameter.elements(), "a whole tensor has its parameter's size");
    std::copy_n(values.data() + run.logical_begin, run.count, shard.as<float>() + run.shard_begin);
  });
}

LogicalTensors gather(const parallel::Registry& registry, Tensor shard, const mesh::Mesh& mesh) {
  std::map<std::string, std::vector<double>> sums;
  for (const parallel::Unit& unit : registry.units()) {
    for (const parallel::Parameter& parameter : unit.parameters) sums[parameter.name].resize(parameter.elements());
  }
  for_each_run(registry, [&](const Run& run) {
    if (!run.parameter.counts) return;
    std::copy_n(shard.as<float>() + run.shard_begin, run.count, sums[run.parameter.name].data() + run.logical_begin);
  });
  LogicalTensors tensors;
  for (auto& [name, values] : sums) {
    mesh.parameters.sum(std::span<double>(values));
    std::vector<float>& whole = tensors[name];
    whole.reserve(values.size());
    for (const double value : values) whole.push_back(static_cast<float>(value));
  }
  return tensors;
}

bool holds_exactly(const parallel::Registry& registry, Tensor shard, const LogicalTensors& tensors) {
  bool equal = true;
  for_each_run(registry, [&](const Run& run) {
    const float* whole = tensors.at(run.parameter.name).data() + run.logical_begin;
    equal = equal && std::equal(whole, whole + run.count, shard.as<float>() + run.shard_begin);
  });
  return equal;
}

EngineFixture::EngineFixture(config::Config config, std::int64_t max_length, mesh::Mesh mesh,
                             const comm::Session& session, std::unique_ptr<device::Device> device)
    : config_(with_mesh(std::move(config), mesh.layout)),
      mesh_(std::move(mesh)),
      device_(device ? std::move(device)
                     : device::make_device(device::Kind::cpu, session.node().rank(), session.node().size())),
      engine_(std::make_unique<train::Engine>(config_, max_length, mesh_, *device_, ledger_)) {}

train::StepResult EngineFixture::step(const std::vector<data::Row>& rows, std::int64_t step, double learning_rate) {
  ensure(std::ssize(rows) == config_.effective_batch_rows(), "a step's rows are one effective batch");
  const std::int64_t rows_per_micro_batch = config_.train.per_device_train_batch_size;
  data::StepBatch batch;
  std::vector<data::Row> own_rows;
  for (std::int64_t micro = 0; micro < config_.train.gradient_accumulation_steps; ++micro) {
    const std::int64_t first = (micro * mesh_.data_size() + mesh_.data_rank()) * rows_per_micro_batch;
    const std::vector<data::Row> micro_rows(rows.begin() + first, rows.begin() + first + rows_per_micro_batch);
    batch.micro_batches.push_back(data::cut_rows(micro_rows, mesh_.layout.sp, mesh_.sp.rank()));
    own_rows.insert(own_rows.end(), micro_rows.begin(), micro_rows.end());
    for (std::int64_t row = first; row < first + rows_per_micro_batch; ++row) batch.rows.push_back(row);
  }
  batch.counts = data::count_rows(own_rows);
  return engine_->step(batch, step + 1, learning_rate);
}

void EngineFixture::set_parameters(const LogicalTensors& tensors) {
  scatter(engine_->registry(), tensors, engine_->state().parameters);
  engine_->parameters_changed();
}

LogicalTensors EngineFixture::gather_gradients() {
  engine_->stream().synchronize();
  return gather(engine_->registry(), engine_->gradients(), mesh_);
}

}  // namespace sft::test
