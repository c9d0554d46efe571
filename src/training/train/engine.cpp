// SPDX-License-Identifier: Apache-2.0
#include "sft/train/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "adapter_start.hpp"
#include "initialize.hpp"
#include "not_finite.hpp"
#include "sft/core/activity.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/log.hpp"
#include "sft/device/launch_tape.hpp"
#include "sft/machine/node.hpp"
#include "sft/model/flops.hpp"
#include "sft/model/layer_plan.hpp"
#include "sft/optim/gradient_norm.hpp"
#include "sft/rank/arenas.hpp"
#include "sft/rank/rank_plan.hpp"
#include "sft/rank/updates.hpp"
#include "sft/rank/upload.hpp"
#include "sft/rank/workers.hpp"
#include "sft/sequence/row_cut.hpp"

namespace sft::train {

namespace {

using device::Label;
using device::Space;

/// Tells NEFTune's seeds from those of dropout.
constexpr std::int64_t neftune_seed = 0x4e454654;

/// By kind of attention, of the rows of a step: MicroBatch::masked_squares.
using MaskedSquares = IndexedVector<sequence::AttentionKind, double>;

/// What begin_step and add_micro_batch leave for finish_step.
struct StepUnderWay {
  std::int64_t step = 0;    ///< 1-based
  std::int64_t update = 0;  ///< of the optimizer, 1-based: `step` without those that were left out
  double learning_rate = 0.0;
  rows::BatchCounts counts;            ///< of all ranks
  std::int64_t num_micro_batches = 0;  ///< done
  std::vector<std::int64_t> rows;      ///< of this rank
  MaskedSquares masked_squares;        ///< of this rank's rows, where it owns them
  double aux_loss = 0.0;               ///< sum over the micro-batches, of all ranks
  std::vector<double> choices = {};    ///< RouterBalance::choices_by_layer, the same

  /// Of every token's weighted loss: the denominator of the mean, known before the first pass.
  [[nodiscard]] double gradient_scale() const { return counts.weight_sum > 0 ? 1.0 / counts.weight_sum : 0.0; }
  /// Of each micro-batch's auxiliary loss: a step has their mean, and none where it has no targets.
  [[nodiscard]] double aux_scale(const config::Config& config) const {
    if (counts.weight_sum <= 0) return 0.0;
    return config.model.router_aux_loss_coef / static_cast<double>(config.train.gradient_accumulation_steps);
  }
  void add_routers(const model::RouterBalance& balance) {
    aux_loss += balance.aux_loss();
    const std::vector<double> added = balance.choices_by_layer();
    choices.resize(added.size());
    std::ranges::transform(choices, added, choices.begin(), std::plus());
  }
  [[nodiscard]] std::optional<RouterResult> routers(const config::Model& model) const {
    if (model.num_experts == 0) return std::nullopt;
    return RouterResult{aux_loss / static_cast<double>(num_micro_batches),
                        model::expert_imbalance(choices, model.num_experts)};
  }
};

/// What an engine is made from: its configuration, what follows from it, and every arena as a size. Local.
struct Planned {
  Planned(const config::ValidConfig& config_in, const rows::MicroBatchLimits& limits, const mesh::Place& place,
          device::Kind kind)
      : config(config_in),
        plan(config, limits, place, {kind, machine::num_threads(), machine::unasked_huge_page_bytes()}),
        sizes(plan.measure()) {}

  const config::ValidConfig config;
  rank::RankPlan plan;
  rank::RankPlan::Arenas sizes;
};

}  // namespace

EvalSums& EvalSums::operator+=(const EvalSums& other) {
  weighted_nll += other.weighted_nll;
  weight += other.weight;
  num_right += other.num_right;
  entropy += other.entropy;
  num_tokens += other.num_tokens;
  num_target_tokens += other.num_target_tokens;
  return *this;
}

struct Engine::Impl {
  /// Takes what `shared` does not hold of the memory, and the files. Local.
  Impl(std::unique_ptr<Planned> planned_in, rank::SharedBlocks shared, const mesh::Groups& groups_in,
       device::Device& device_in, comm::Collectives& collectives, device::Ledger& ledger,
       const ops::MatmulAlgorithms* algorithms)
      : planned(std::move(planned_in)),
        config(planned->config),
        plan(planned->plan),
        groups(groups_in),
        device(device_in),
        arenas(take_memory(std::move(shared), collectives, ledger)),
        workers(plan, config, groups, device, collectives, rank::DeviceTools(algorithms)),
        updates(plan, workers, device),
        upload(device, compute_stream(), plan.upload) {
    open_optimizers();
    for (const rank::TrainedPart& part : plan.trained) {
      copied.push_back(parallel::make_layout_of_copies(part.shard_map()));
    }
    collectives.set_staging(plan.staging);
  }

  ~Impl() {
    workers.streams.drain();
    for (const rank::TrainedPart& part : plan.trained) part.optimizer->drain();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] device::Stream& compute_stream() const { return *workers.streams.compute; }
  /// All of it, given to the parts of the plan.
  [[nodiscard]] rank::RankPlan::Arenas take_memory(rank::SharedBlocks shared, comm::Collectives& collectives,
                                                   device::Ledger& ledger) {
    rank::RankPlan::Arenas result =
        rank::take_arenas(std::move(planned->sizes), std::move(shared), groups, device, collectives, ledger);
    plan.lay_out(result);
    return result;
  }

  void open_optimizers() {
    const std::string& folder = config.train.offload_folder;
    bool are_direct = true;
    for (const rank::TrainedPart& part : plan.trained) {
      part.optimizer->open(device, updates.stream(), part.storage, folder);
      are_direct = are_direct && (part.optimizer->file_bytes() == 0 || part.optimizer->is_file_direct());
    }
    if (are_direct) return;
    log_warning(
        fmt::format("the file system of {} has no direct I/O: the optimizer's state also passes through the system's "
                    "file cache, which takes memory that is free and is slower",
                    folder));
  }

  /// This rank's metrics and its part of the squared gradient norm, on the host: the one wait for the device in a step.
  std::array<double, model::Metric::count + 1> download_results() {
    std::array<double, model::Metric::count + 1> values{};
    device.copy(plan.downloaded_results.data, plan.results.data, plan.results.size_bytes(), compute_stream());
    device::timed(device.timeline(), {.category = "wait", .what = "wait for the device"},
                  [&] { compute_stream().synchronize(); });
    std::copy_n(plan.downloaded_results.as<double>(), values.size(), values.begin());
    return values;
  }

  /// Sums of the batch's counts over all rows, each counted once. Collective.
  rows::BatchCounts sum_counts(const rows::BatchCounts& counts) const {
    std::array<double, 4> sums{};
    if (plan.place.owns_rows()) {
      sums = {static_cast<double>(counts.num_tokens), static_cast<double>(counts.num_target_tokens), counts.weight_sum,
              counts.length_squares};
    }
    const Activity counting(ActivityKind::works, "the step's counts");
    groups.world.sum(std::span<double>(sums));
    return {.num_tokens = static_cast<std::int64_t>(sums[0]),
            .num_target_tokens = static_cast<std::int64_t>(sums[1]),
            .weight_sum = sums[2],
            .length_squares = sums[3]};
  }

  void initialize_parameters_of(const parallel::ShardMap& shard_map, Tensor parameters,
                                bool keeps_copies = false) const {
    initialize_parameters(shard_map, config.model.init_seed, config.model.initializer_range, parameters, *workers.ops,
                          keeps_copies);
  }
  /// Memory for the master weights of a part where they lie in a file: that of the gradients, between two steps.
  [[nodiscard]] static Tensor master_scratch(const rank::TrainedPart& part) { return part.storage.gradients(); }
  /// `keeps_copies`: those of the model's parameters stay as they were loaded.
  void initialize_trainable(bool keeps_copies) {
    for (const rank::TrainedPart& part : plan.trained) {
      transfer::OffloadedShard* in_file = part.optimizer->master_in_file();
      if (in_file != nullptr && keeps_copies) in_file->read(0, master_scratch(part));
      initialize_parameters_of(part.shard_map(), in_file != nullptr ? master_scratch(part) : part.storage.parameters(),
                               keeps_copies);
      if (in_file != nullptr) in_file->write(0, master_scratch(part));
    }
  }
  void zero_optimizers() const {
    for (const rank::TrainedPart& part : plan.trained) part.optimizer->zero(*workers.ops);
  }
  [[nodiscard]] AdapterStart adapter_start() { return {config, plan, groups.world, device, compute_stream()}; }
  /// Magnitudes of adapters begin with the norms of the weights that they belong to, which are loaded. Collective.
  void initialize_magnitudes() {
    if (!config.lora.use_peft || !config.lora.use_dora) return;
    refresh_weights();
    workers.decoder.for_each_weight_norm([&](const parallel::ParameterGroup& magnitude, const Tensor& found) {
      const parallel::UnitStorage& storage = plan.parts[magnitude.part];  // in memory, as all that is kept in float32
      const parallel::Parameter* parameter = &storage.shard_map().unit(magnitude.unit).parameters[magnitude.first];
      for (const parallel::Piece& piece : storage.shard_map().pieces()) {
        if (piece.parameter != parameter) continue;
        workers.ops->run(ops::Copy{storage.parameters().rows(piece.shard_offset, piece.count),
                                   found.rows(piece.begin, piece.count)});
      }
    });
  }
  /// After the master weights were loaded or made.
  void refresh_weights() {
    workers.units.refresh_compute_copy();
    for (const rank::TrainedPart& part : plan.trained) {
      transfer::OffloadedShard* in_file = part.optimizer->master_in_file();
      if (in_file == nullptr) continue;
      in_file->read(0, master_scratch(part));
      workers.ops->run(ops::Copy{part.storage.compute_copy(), master_scratch(part)});
    }
    workers.units.parameters_written();
  }

  /// NEFTune's noise on the embeddings of a micro-batch: that of a token follows from the step, its row and its place
  /// there, so it is the same on every mesh.
  [[nodiscard]] std::vector<model::EmbeddingNoise> embedding_noise(std::int64_t step,
                                                                   const rows::MicroBatch& batch) const {
    std::vector<model::EmbeddingNoise> noise;
    const double alpha = config.train.neftune_noise_alpha;
    if (alpha == 0.0) return noise;
    for (const rows::RowPart& part : batch.row_parts) {
      const auto elements = static_cast<double>(part.row_tokens * config.model.hidden_size);
      noise.push_back({.begin = part.local,
                       .num_tokens = part.num_tokens,
                       .seed = seed_of({neftune_seed, step, batch.rows.at(part.row)}),
                       .first_token = part.from,
                       .bound = static_cast<float>(alpha / std::sqrt(elements))});
    }
    return noise;
  }

  /// Different for all micro-batches of the run and all ranks, but those of a tp group.
  [[nodiscard]] std::uint64_t dropout_seed(std::int64_t step, std::int64_t micro_batch) const {
    return seed_of({step, micro_batch, std::int64_t{plan.place.rank() / plan.place.size(Axis::tp)}});
  }
  /// train.seed mixed with these.
  [[nodiscard]] std::uint64_t seed_of(std::initializer_list<std::int64_t> parts) const {
    constexpr std::uint64_t odd = 0x9e3779b97f4a7c15U;
    std::uint64_t seed = config.train.seed;
    for (const std::int64_t part : parts) {
      seed = (seed ^ (seed >> 31U)) * odd + static_cast<std::uint64_t>(part);
    }
    return seed * odd;
  }

  const std::unique_ptr<Planned> planned;
  const config::Config& config;
  rank::RankPlan& plan;
  const mesh::Groups& groups;
  device::Device& device;
  rank::RankPlan::Arenas arenas;
  rank::RankWorkers workers;
  rank::Updates updates;
  rank::Upload upload;
  /// By RankPlan::trained: of its parameters those that replace the model's own.
  std::vector<std::unique_ptr<parallel::StoredLayout>> copied;
  StepUnderWay current;
};

Engine::Engine(const config::ValidConfig& config, const rows::MicroBatchLimits& limits, const mesh::Place& place,
               const mesh::Groups& groups, device::Device& device, comm::Collectives& collectives,
               device::Ledger& ledger, const ops::MatmulAlgorithms* algorithms) {
  std::unique_ptr<Planned> planned;
  groups.world.agree([&] {
    planned = std::make_unique<Planned>(config, limits, place, device.kind());
    ledger.add(Label::process, Space::host, machine::resident_bytes() + planned->plan.later_process_bytes());
  });
  rank::SharedBlocks shared = rank::share_blocks(planned->sizes, groups, collectives);
  groups.world.agree([&] {
    impl_ =
        std::make_unique<Impl>(std::move(planned), std::move(shared), groups, device, collectives, ledger, algorithms);
  });
}

Engine::~Engine() = default;

void Engine::initialize(Start start) {
  Impl& e = *impl_;
  e.initialize_trainable(/*keeps_copies=*/false);
  for (const parallel::UnitStorage& stored : e.plan.parts) {
    if (!stored.part().has_gradient) e.initialize_parameters_of(stored.shard_map(), stored.parameters());
  }
  if (start == Start::anew) e.adapter_start().begin();
  e.initialize_magnitudes();
  e.zero_optimizers();
  state().refresh();
}

void Engine::initialize_beside_weights(Start start) {
  Impl& e = *impl_;
  if (e.config.lora.use_peft) e.initialize_trainable(/*keeps_copies=*/true);
  if (start == Start::anew) e.adapter_start().begin();
  e.initialize_magnitudes();
  e.zero_optimizers();
  state().refresh();
}

void Engine::split_weights_as_saved() {
  impl_->adapter_start().go_on();
  state().refresh();
}

void Engine::begin_step(std::int64_t step, double learning_rate, const rows::BatchCounts& counts,
                        std::int64_t num_skipped) {
  Impl& e = *impl_;
  e.current = {.step = step,
               .update = step - num_skipped,
               .learning_rate = learning_rate,
               .counts = e.sum_counts(counts),
               .num_micro_batches = 0,
               .rows = {},
               .masked_squares = MaskedSquares(model::attention_windows(e.config.model).size())};
  e.workers.units.begin_step(e.config.train.gradient_accumulation_steps);
  e.device.fill_zero(e.plan.results.data, e.plan.results.size_bytes(), e.compute_stream());
}

void Engine::add_micro_batch(const rows::MicroBatch& batch) {
  Impl& e = *impl_;
  StepUnderWay& step = e.current;
  const std::int64_t num_micro_batches = e.config.train.gradient_accumulation_steps;
  SFT_ENSURE(step.num_micro_batches < num_micro_batches, "a step has no more micro-batches");
  if (step.num_micro_batches + 1 == num_micro_batches) {
    e.updates.before_last_micro_batch(step.update, step.learning_rate,
                                      e.config.train.nan_policy == config::NanPolicy::stop);
  }
  const std::int64_t number = step.num_micro_batches++;
  device::timed(e.device.timeline(), {.category = "step", .what = "", .of = "micro-batch", .number = number}, [&] {
    const model::Inputs inputs = e.upload.put(batch, e.dropout_seed(step.step, number));
    device::defer_launches(e.compute_stream().tape(), [&] {
      e.workers.decoder.forward_backward(inputs, batch.attention, {step.gradient_scale(), step.aux_scale(e.config)},
                                         e.plan.results.rows(0, model::Metric::count),
                                         e.embedding_noise(step.step, batch));
    });
  });
  step.add_routers(e.plan.decoder.balance);
  step.rows.insert(step.rows.end(), batch.rows.begin(), batch.rows.end());
  if (!e.plan.place.owns_rows()) return;
  for (const sequence::AttentionKind kind : batch.masked_squares.indices()) {
    step.masked_squares[kind] += batch.masked_squares[kind];
  }
}

StepResult Engine::finish_step() {
  Impl& e = *impl_;
  rank::RankPlan& plan = e.plan;
  const StepUnderWay& step = e.current;
  SFT_ENSURE(step.num_micro_batches == e.config.train.gradient_accumulation_steps, "a step has all its micro-batches");
  e.updates.finish_gradients();

  const auto local = e.download_results();
  std::vector<double> sums(local.begin(), local.end());
  sums.insert(sums.end(), step.masked_squares.begin(), step.masked_squares.end());
  if (!plan.place.owns_tokens()) std::fill_n(sums.begin(), model::Metric::count, 0.0);
  {
    const Activity adding(ActivityKind::works, "loss and gradient norm");
    e.groups.world.sum(std::span<double>(sums));
  }
  const double norm = std::sqrt(sums[model::Metric::count]),
               loss = sums[model::Metric::weighted_loss] * step.gradient_scale();
  std::string left_out;
  if (!std::isfinite(sums[model::Metric::weighted_loss]) || !std::isfinite(norm)) {
    const NotFiniteText text = describe_not_finite(
        {step.step, loss, norm, local[model::Metric::weighted_loss], local[model::Metric::count], step.rows},
        e.groups.world);
    if (e.config.train.nan_policy == config::NanPolicy::stop) throw_not_finite(text);
    left_out = fmt::format("{} ({})", text.problem, text.where);
  } else {
    e.updates.update(step.update, step.learning_rate, optim::clipping_factor(norm, e.config.optimizer.max_grad_norm));
  }

  const rows::BatchCounts& counts = step.counts;
  const MaskedSquares hidden(std::vector<double>(sums.begin() + local.size(), sums.end()));
  const model::TokenCounts tokens{static_cast<double>(counts.num_tokens), counts.length_squares, hidden};
  const auto num_targets = static_cast<double>(std::max<std::int64_t>(counts.num_target_tokens, 1));
  return {.loss = loss,
          .grad_norm = norm,
          .mean_token_accuracy = sums[model::Metric::num_right] / num_targets,
          .entropy = sums[model::Metric::entropy] / num_targets,
          .num_tokens = counts.num_tokens,
          .num_target_tokens = counts.num_target_tokens,
          .model_flops = model::model_flops(*plan.architecture, e.config.lora.use_peft, tokens),
          .routers = step.routers(e.config.model),
          .left_out = left_out};
}

EvalSums Engine::evaluate(const rows::MicroBatch& batch) {
  Impl& e = *impl_;
  e.device.fill_zero(e.plan.results.data, e.plan.results.size_bytes(), e.compute_stream());
  const model::Inputs inputs = e.upload.put(batch);
  e.workers.decoder.forward_loss(inputs, batch.attention, e.plan.results.rows(0, model::Metric::count));
  const auto metrics = e.download_results();
  EvalSums sums;
  if (e.plan.place.owns_tokens()) {
    sums.weighted_nll = metrics[model::Metric::weighted_loss];
    sums.num_right = metrics[model::Metric::num_right];
    sums.entropy = metrics[model::Metric::entropy];
  }
  if (e.plan.place.owns_rows()) {
    sums.weight = batch.counts.weight_sum;
    sums.num_tokens = static_cast<double>(batch.counts.num_tokens);
    sums.num_target_tokens = static_cast<double>(batch.counts.num_target_tokens);
  }
  return sums;
}

std::vector<float> Engine::logits(const std::vector<std::int32_t>& tokens, bool last_only) {
  Impl& e = *impl_;
  const model::Sizes& sizes = e.plan.sizes;
  SFT_ENSURE(e.groups.world.size() == 1, "logits run on one rank");
  SFT_ENSURE(!tokens.empty(), "tokens fit one row");
  SFT_ENSURE(tokens.size() <= sizes.tokens, "tokens fit one row");
  rows::MicroBatch batch;
  batch.tokens = tokens;
  batch.positions.resize(tokens.size());
  std::iota(batch.positions.begin(), batch.positions.end(), 0);
  batch.targets.resize(tokens.size());
  batch.loss_weights.resize(tokens.size());
  const auto num_tokens = std::ssize(tokens);
  batch.row_parts = {{.local = 0, .from = 0, .num_tokens = num_tokens, .row_tokens = num_tokens, .row = 0}};
  batch.attention = sequence::make_schedules({}, model::attention_windows(e.config.model),
                                             {{checked_cast<std::int32_t>(num_tokens)}}, {num_tokens, 1}, 0);
  const model::Inputs inputs = e.upload.put(batch);

  const std::int64_t count = last_only ? 1 : num_tokens;
  std::vector<float> result(count * sizes.vocab);
  const device::Device::Block block = e.device.allocate(result.size() * sizeof(float));
  const Tensor out(block.get(), DType::float32, {count, sizes.vocab});
  e.workers.decoder.forward_logits(inputs, batch.attention, num_tokens - count, count, out);
  e.device.copy(result.data(), out.data, out.size_bytes(), e.compute_stream());
  e.compute_stream().synchronize();
  return result;
}

parallel::ParameterCounts Engine::num_parameters() const { return impl_->plan.num_parameters(); }

bool Engine::repeats_launches() const { return impl_->plan.repeats_launches; }

bool Engine::steps_early() const { return impl_->plan.updates_early(); }

std::uint64_t Engine::offloaded_bytes() const { return impl_->plan.offloaded_bytes(); }

std::uint64_t Engine::activation_file_bytes() const { return impl_->plan.decoder.offloaded_file_bytes(); }

checkpoint::State Engine::state() const {
  Impl& e = *impl_;
  return {e.plan.saved_entries(), [&e] { e.refresh_weights(); }};
}

Tensor Engine::snapshot_memory() const { return impl_->plan.snapshot; }

checkpoint::State Engine::weights() const {
  const checkpoint::State all = state();
  if (!impl_->config.lora.use_peft) return {all.first_entries(), [all] { all.refresh(); }};
  std::vector<checkpoint::Entry> weights;
  for (const parallel::UnitStorage& stored : impl_->plan.parts) {
    if (stored.part().has_gradient) continue;
    weights.push_back({.name = "model",
                       .shard_map = &stored.shard_map(),
                       .tensor = stored.parameters(),
                       .four_bits = stored.part().four_bits ? &stored : nullptr});
  }
  const std::vector<checkpoint::Entry> trained = all.first_entries();  // first those by RankPlan::trained
  for (std::size_t i = 0; i < impl_->plan.trained.size(); ++i) {
    const checkpoint::Entry& part = trained[i];
    const parallel::StoredLayout& copies = *impl_->copied[i];
    if (copies.tensors(*part.shard_map).empty()) continue;
    weights.push_back({"model", part.shard_map, part.tensor, part.in_file, &copies});
  }
  return {std::move(weights), [all] { all.refresh(); }};
}

checkpoint::State Engine::adapter() const {
  const checkpoint::State all = state();
  return {all.first_entries(), [all] { all.refresh(); }};
}

device::Stream& Engine::stream() {
  impl_->updates.wait();
  return impl_->compute_stream();
}

ops::Backend& Engine::backend() { return *impl_->workers.ops; }

std::vector<PartGradients> Engine::gradients() const {
  std::vector<PartGradients> gradients;
  for (const rank::TrainedPart& part : impl_->plan.trained) {
    gradients.push_back({&part.shard_map(), part.storage.gradients()});
  }
  return gradients;
}

}  // namespace sft::train
