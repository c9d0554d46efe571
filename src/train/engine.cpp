#include "sft/train/engine.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "initialize.hpp"
#include "sft/comm/session.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/error.hpp"
#include "sft/model/architecture.hpp"
#include "sft/model/decoder.hpp"
#include "sft/ops/factory.hpp"
#include "sft/optim/adamw.hpp"
#include "sft/parallel/sequence_attention.hpp"
#include "sft/sequence/attention_schedule.hpp"

namespace sft::train {

namespace {

using device::Label;

constexpr std::int64_t num_metrics = 4;  ///< of Backend::cross_entropy_finish

model::Sizes local_sizes(const config::Config& config, std::int64_t max_length, const mesh::Place& place) {
  const config::Model& m = config.model;
  const int tp = place.layout().tp;
  const sequence::RowCut cut(max_length, place.layout().sp);
  return {.tokens = config.train.per_device_train_batch_size * cut.local_length(),
          .hidden = m.hidden_size,
          .q_heads = place.heads().q_heads,
          .kv_heads = place.heads().kv_heads,
          .head_dim = m.head_dim,
          .mlp = m.intermediate_size / tp,
          .vocab = m.vocab_size / tp,
          .vocab_begin = m.vocab_size / tp * place.coordinates().tp,
          .compute = config.train.precision == config::Precision::bf16 ? DType::bf16 : DType::float32};
}

/// 6 x (weights in products x tokens + layers x heads x head_dim x sum of squared document lengths).
double model_flops(const config::Model& m, double num_tokens, double length_squares) {
  return 6.0 * (static_cast<double>(m.num_matmul_parameters()) * num_tokens +
                static_cast<double>(m.num_hidden_layers * m.num_attention_heads * m.head_dim) * length_squares);
}

}  // namespace

struct Engine::Impl {
  Impl(const config::Config& config_in, std::int64_t max_length_in, const mesh::Place& place_in,
       const mesh::Groups& groups_in, device::Device& device_in, comm::Collectives& collectives_in,
       device::Ledger& ledger)
      : config(config_in),
        max_length(max_length_in),
        place(place_in),
        groups(groups_in),
        device(device_in),
        compute_stream(device.make_stream()),
        comm_stream(device.make_stream()),
        ring_stream(device.make_stream()),
        ops(ops::make_backend(device, *compute_stream)),
        collectives(collectives_in),
        sizes(local_sizes(config, max_length, place)),
        shard_map(model::make_units(config.model), place),
        tp(groups, collectives, *compute_stream),
        units(shard_map, groups,
              {.compute = sizes.compute,
               .reshard_after_forward = config.parallel.reshard_after_forward,
               .tied = config.model.tie_word_embeddings},
              device, *ops, collectives, *comm_stream),
        attention(parallel::make_sequence_attention(
            {sizes.tokens, sequence::RowCut(max_length, place.layout().sp).local_length(), sizes.q_heads,
             sizes.kv_heads, sizes.head_dim, sizes.compute},
            groups.sp, device, *ops, collectives, *ring_stream)),
        decoder({config.model, sizes, device, *ops, units, tp, *attention}, config.parallel.reshard_after_forward),
        adamw(config.optimizer, shard_map, units, *ops) {
    ledger.add(Label::process, device::resident_bytes() + device::later_process_bytes +
                                   checkpoint::index_memory_bytes(place, shard_map));
    allocate(ledger);
    decoder.initialize();
  }

  /// Lays everything out twice: to learn the sizes, then in memory.
  void allocate(device::Ledger& ledger) {
    lay_out();
    const auto real = [&](Label label, device::Arena& arena) {
      arena = device::Arena(device, ledger, label, arena.used_bytes());
    };
    real(Label::parameters, unit_arenas.parameters);
    real(Label::gradients, unit_arenas.gradients);
    real(Label::optimizer, unit_arenas.optimizer);
    real(Label::unit_buffers, unit_arenas.unit_buffers);
    real(Label::activations, model_arenas.activations);
    real(Label::workspace, model_arenas.workspace);
    real(Label::communication, communication);
    lay_out();
    const std::size_t staging_bytes =
        4 * static_cast<std::size_t>(sizes.tokens) * sizeof(std::int32_t) + sizeof(double) * (num_metrics + 1);
    staging = device.allocate_pinned(staging_bytes);
    ledger.add(Label::workspace, staging_bytes);
    ops->set_workspace(workspace);
  }

  void lay_out() {
    units.lay_out(unit_arenas);
    decoder.lay_out(model_arenas);
    device::Arena& arena = model_arenas.workspace;
    inputs.tokens = take(arena, DType::int32, {sizes.tokens});
    inputs.positions = take(arena, DType::int32, {sizes.tokens});
    inputs.targets = take(arena, DType::int32, {sizes.tokens});
    inputs.weights = take(arena, DType::float32, {sizes.tokens});
    results = take(arena, DType::float64, {num_metrics + 1});
    const std::size_t workspace_bytes = ops::workspace_bytes(device.kind(), attention->workspace_needs());
    workspace = Tensor(arena.take(workspace_bytes), DType::bf16,
                       {static_cast<std::int64_t>(workspace_bytes / size_of(DType::bf16))});
    comm::StagingPlan plan = units.staging();
    if (tp.size() > 1) {
      plan.max_all_reduce_bytes =
          std::max(plan.max_all_reduce_bytes, static_cast<std::size_t>(sizes.tokens * sizes.hidden) * sizeof(float));
    }
    collectives.reserve(communication, plan);
  }

  /// Copies a micro-batch to the device through pinned memory.
  void upload(const data::MicroBatch& batch) {
    auto* host = static_cast<std::byte*>(staging.get());
    compute_stream->synchronize();  // the last upload has left the staging memory
    const auto put = [&](const Tensor& destination, const void* source) {
      const std::size_t bytes = destination.size_bytes();
      std::copy_n(static_cast<const std::byte*>(source), bytes, host);
      device.copy(destination.data, host, bytes, *compute_stream);
      host += bytes;
    };
    ensure(static_cast<std::int64_t>(batch.tokens.size()) == sizes.tokens, "a micro-batch has the planned size");
    put(inputs.tokens, batch.tokens.data());
    put(inputs.positions, batch.positions.data());
    put(inputs.targets, batch.targets.data());
    put(inputs.weights, batch.weights.data());
  }

  /// This rank's metrics and its part of the squared gradient norm, on the host.
  std::array<double, num_metrics + 1> download_results() {
    std::array<double, num_metrics + 1> values{};
    device.copy(staging.get(), results.data, results.size_bytes(), *compute_stream);
    compute_stream->synchronize();
    std::copy_n(static_cast<const double*>(staging.get()), values.size(), values.begin());
    return values;
  }

  /// A NaN has no sign.
  [[nodiscard]] static std::string text_of(double number) {
    return std::isnan(number) ? "nan" : std::to_string(number);
  }

  /// "2, 5": the ranks where `seen` holds; collective.
  [[nodiscard]] std::string ranks_where(bool seen) const {
    const std::vector<std::string> flags = groups.world.all_gather(seen ? "1" : "0");
    std::string ranks;
    for (std::size_t r = 0; r < flags.size(); ++r) {
      if (flags[r] == "1") ranks += (ranks.empty() ? "" : ", ") + std::to_string(r);
    }
    return ranks;
  }

  /// "3, 7 and 12", the first eight at most.
  [[nodiscard]] static std::string list_of(const std::vector<std::int64_t>& rows) {
    constexpr std::size_t limit = 8;
    const std::size_t count = std::min(rows.size(), limit);
    std::string text;
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_end = i + 1 == rows.size();
      text += (i == 0 ? "" : is_end ? " and " : ", ") + std::to_string(rows[i]);
    }
    return rows.size() > limit ? text + " and " + std::to_string(rows.size() - limit) + " more" : text;
  }

  /// What the lowest rank where `seen` holds says; collective.
  [[nodiscard]] std::string first_where(bool seen, const std::string& text) const {
    for (const std::string& said : groups.world.all_gather(seen ? text : "")) {
      if (!said.empty()) return said;
    }
    return "";
  }

  /// Ends the run with the ranks whose own tokens have such a loss, and the first one's rows; where none has, those
  /// whose gradient shard, a sum over all ranks, has such a norm; where none has either, the global sum alone has.
  /// Collective.
  [[noreturn]] void throw_not_finite(std::int64_t step, double loss, double norm,
                                     const std::array<double, num_metrics + 1>& local,
                                     const std::vector<std::int64_t>& rows) const {
    const bool is_loss = !std::isfinite(local[0]);
    const std::string loss_ranks = ranks_where(is_loss);
    const std::string loss_rows = first_where(is_loss, "rank " + std::to_string(groups.world.rank()) + " read row " +
                                                           list_of(rows) + " of the data in this step");
    const std::string shard_ranks = ranks_where(!std::isfinite(local[num_metrics]));
    const std::string where = !loss_ranks.empty() ? "first seen in the loss of rank " + loss_ranks + "; " + loss_rows
                              : !shard_ranks.empty()
                                  ? "the loss is finite; seen in the gradient shard of rank " + shard_ranks
                                  : "finite on every rank, but not their sum";
    throw comm::SharedError(ExitStatus::numerical,
                            "loss " + text_of(loss) + " and gradient norm " + text_of(norm) + " at step " +
                                std::to_string(step) + " are not finite",
                            where,
                            "resume from the last checkpoint, if there is one, with a lower learning_rate, or look at "
                            "the rows of this step");
  }

  const config::Config config;
  const std::int64_t max_length;
  const mesh::Place place;
  const mesh::Groups& groups;
  device::Device& device;
  std::unique_ptr<device::Stream> compute_stream, comm_stream, ring_stream;
  std::unique_ptr<ops::Backend> ops;
  comm::Collectives& collectives;
  const model::Sizes sizes;
  const parallel::ShardMap shard_map;
  parallel::TensorParallel tp;
  parallel::ShardedUnits units;
  std::unique_ptr<parallel::SequenceAttention> attention;
  model::Decoder decoder;
  optim::ShardedAdamW adamw;

  parallel::ShardedUnits::Arenas unit_arenas;
  model::Decoder::Arenas model_arenas;
  device::Arena communication;
  device::Device::Block staging;  ///< pinned: one micro-batch up, the results down
  model::Inputs inputs;
  Tensor results;  ///< (num_metrics + 1) float64: metrics, then the sum of squared gradients
  Tensor workspace;
};

Engine::Engine(const config::Config& config, std::int64_t max_length, const mesh::Place& place,
               const mesh::Groups& groups, device::Device& device, comm::Collectives& collectives,
               device::Ledger& ledger)
    : impl_(std::make_unique<Impl>(config, max_length, place, groups, device, collectives, ledger)) {}

Engine::~Engine() {
  impl_->comm_stream->synchronize();
  impl_->ring_stream->synchronize();
  impl_->compute_stream->synchronize();
}

void Engine::initialize() {
  const config::Model& m = impl_->config.model;
  const checkpoint::State s = state();
  initialize_parameters(impl_->shard_map, m.init_seed, m.initializer_range, s.parameters, *impl_->ops);
  impl_->ops->fill(s.exp_avg, 0.0F);
  impl_->ops->fill(s.exp_avg_sq, 0.0F);
  parameters_changed();
}

StepResult Engine::step(const data::StepBatch& batch, std::int64_t step, double learning_rate) {
  Impl& e = *impl_;
  std::array<double, 4> counts{};
  if (e.place.owns_rows()) {
    counts = {static_cast<double>(batch.counts.num_tokens), static_cast<double>(batch.counts.num_target_tokens),
              batch.counts.weight_sum, batch.counts.length_squares};
  }
  e.groups.world.sum(std::span<double>(counts));
  const double weight_sum = counts[2];
  const double scale = weight_sum > 0 ? 1.0 / weight_sum : 0.0;

  e.units.begin_step();
  e.device.fill_zero(e.results.data, e.results.size_bytes(), *e.compute_stream);
  const Tensor metrics = e.results.rows(0, num_metrics);
  for (const data::MicroBatch& micro_batch : batch.micro_batches) {
    e.upload(micro_batch);
    e.decoder.forward_backward(e.inputs, micro_batch.attention, static_cast<float>(scale), metrics);
  }
  e.units.finish_gradients();
  e.adamw.sum_squares(e.results.rows(num_metrics, 1));

  const auto local = e.download_results();
  auto sums = local;
  if (!e.place.owns_tokens()) std::fill_n(sums.begin(), num_metrics, 0.0);
  e.groups.world.sum(std::span<double>(sums));
  const double norm = std::sqrt(sums[num_metrics]);
  if (!std::isfinite(sums[0]) || !std::isfinite(norm)) {
    e.throw_not_finite(step, sums[0] * scale, norm, local, batch.rows);
  }

  e.adamw.step(step, learning_rate, optim::clipping_factor(norm, e.config.optimizer.max_grad_norm));

  const double num_targets = std::max(counts[1], 1.0);
  return {.loss = sums[0] * scale,
          .grad_norm = norm,
          .mean_token_accuracy = sums[2] / num_targets,
          .entropy = sums[3] / num_targets,
          .num_tokens = static_cast<std::int64_t>(counts[0]),
          .num_target_tokens = static_cast<std::int64_t>(counts[1]),
          .model_flops = model_flops(e.config.model, counts[0], counts[3])};
}

std::vector<float> Engine::logits(const std::vector<std::int32_t>& tokens, bool last_only) {
  Impl& e = *impl_;
  ensure(e.groups.world.size() == 1, "logits run on one rank");
  ensure(!tokens.empty() && std::cmp_less_equal(tokens.size(), e.sizes.tokens), "tokens fit one row");
  data::MicroBatch batch;
  batch.tokens = tokens;
  batch.positions.resize(tokens.size());
  std::iota(batch.positions.begin(), batch.positions.end(), 0);
  const auto capacity = static_cast<std::size_t>(e.sizes.tokens);
  batch.tokens.resize(capacity);
  batch.positions.resize(capacity);
  batch.targets.resize(capacity);
  batch.weights.resize(capacity);
  batch.attention = sequence::schedule_ring({{checked_cast<std::int32_t>(tokens.size())}}, {e.max_length, 1}, 0);
  e.upload(batch);

  const auto num_tokens = static_cast<std::int64_t>(tokens.size());
  const std::int64_t count = last_only ? 1 : num_tokens;
  std::vector<float> result(static_cast<std::size_t>(count * e.sizes.vocab));
  const device::Device::Block block = e.device.allocate(result.size() * sizeof(float));
  const Tensor out(block.get(), DType::float32, {count, e.sizes.vocab});
  e.decoder.forward_logits(e.inputs, batch.attention, num_tokens - count, count, out);
  e.device.copy(result.data(), out.data, out.size_bytes(), *e.compute_stream);
  e.compute_stream->synchronize();
  return result;
}

const parallel::ShardMap& Engine::shard_map() const { return impl_->shard_map; }

checkpoint::State Engine::state() const {
  return {impl_->units.parameter_shard(), impl_->units.exp_avg(), impl_->units.exp_avg_sq()};
}

void Engine::parameters_changed() {
  impl_->units.refresh_compute_shard();
  impl_->units.parameters_written();
}

device::Stream& Engine::stream() { return *impl_->compute_stream; }

Tensor Engine::gradients() const { return impl_->units.gradient_shard(); }

}  // namespace sft::train
