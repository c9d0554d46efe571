// SPDX-License-Identifier: Apache-2.0
#pragma once
// A small decoder on its own, with all that it stands on, on any mesh; two micro-batches of rows that depend on the
// mesh's data ranks alone.

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sft/model/architecture.hpp"
#include "sft/model/decoder.hpp"
#include "sft/model/head_split.hpp"
#include "sft/ops/factory.hpp"
#include "sft/rows/batch.hpp"
#include "sft/sequence/row_cut.hpp"
#include "sft/transfer/host_mover.hpp"
#include "support/collectives_fixture.hpp"
#include "support/engine_fixture.hpp"

namespace sft::test {

inline constexpr std::int64_t num_rows = 2, row_tokens = 24;

/// Whether the ranks of tp cut their tokens between products.
enum class Tokens { whole, cut };

inline constexpr double gradient_divisor = 64.0;

inline config::Model small_model(bool tied) {
  config::Model m;
  m.hidden_size = 48;
  m.num_hidden_layers = 3;
  m.num_attention_heads = 4;
  m.num_key_value_heads = 2;
  m.head_dim = 16;
  m.intermediate_size = 80;
  m.vocab_size = 96;
  m.tie_word_embeddings = tied;
  m.attention_bias = true;
  m.qk_norm = true;
  m.initializer_range = 0.1;
  return m;
}

inline model::Sizes sizes_of(const config::Model& m, const mesh::Place& place, Tokens tokens = Tokens::whole) {
  const int tp = place.size(Axis::tp);
  const parallel::VocabSplit vocab = parallel::split_vocab(m.vocab_size, tp, place.tp_rank());
  return {.tokens = num_rows * row_tokens / place.size(Axis::sp),
          .hidden = m.hidden_size,
          .vocab = vocab.count,
          .vocab_begin = vocab.begin,
          .max_vocab = vocab.max_count,
          .compute = DType::float32,
          .partial = DType::float32,
          .token_slices = tokens == Tokens::cut ? tp : 1,
          .tp_size = tp};
}

inline config::Parallel parallel_of(const mesh::Layout& layout) {
  config::Parallel parallel;
  set_mesh(parallel, layout);
  return parallel;
}

/// Parameters that depend on their name and place alone; norms near 1.
inline void set_parameters(const parallel::ShardMap& map, const Tensor& shard) {
  std::fill_n(shard.as<float>(), shard.num_elements(), 0.0F);
  for (const parallel::Piece& piece : map.pieces()) {
    const parallel::Parameter& p = *piece.parameter;
    const float mean = p.init == parallel::Init::ones ? 1.0F : 0.0F;
    const int seed = static_cast<int>(std::hash<std::string>()(p.name) % 100000U);
    for (const parallel::LogicalRectangle& r : parallel::ShardMap::rectangles(piece)) {
      for (std::int64_t i = 0; i < r.num_rows * r.num_columns; ++i) {
        const std::int64_t row = r.row_begin + i / r.num_columns, column = r.column_begin + i % r.num_columns;
        shard.as<float>()[r.shard_offset + i] = mean + 0.2F * noise(seed, row * 1000 + column);
      }
    }
  }
}

/// A decoder and all that it stands on.
class Stand {
 public:
  /// Cuts the blocks of the model into sublayers another way.
  using ChangeBlocks = std::function<void(IndexedVector<model::BlockIndex, model::BlockParameters>& blocks)>;

  Stand(const config::Model& config, const Mesh& mesh, const model::IsTrainable& is_trainable,
        const config::Lora& lora = {}, const model::ActivationPolicy& activations = {}, Tokens tokens = Tokens::whole,
        const ChangeBlocks& change_blocks = {})
      : model_(config),
        mesh_(mesh),
        sizes_(sizes_of(config, mesh.place, tokens)),
        heads_(model::split_heads(config, mesh.place.size(Axis::tp), mesh.place.tp_rank())),
        architecture_(architecture_of(config, is_trainable, lora, tokens, change_blocks)),
        policy_(parallel::sharding_policy(parallel_of(mesh.place.layout()))),
        parts_(parallel::storage_of(parallel::make_parts(architecture_.parts, mesh.place, policy_, DType::float32))),
        slots_(parts_.front().shard_map().num_units(), policy_, config.tie_word_embeddings),
        buffers_(parts_, policy_, slots_),
        decoder_buffers_(config, lora, architecture_.parameters, sizes_, device::Kind::cpu, activations),
        attention_buffers_(
            parallel::make_sequence_buffers({sizes_.tokens, std::min(sizes_.tokens, row_tokens), heads_.q_heads,
                                             heads_.kv_heads, config.head_dim, DType::float32},
                                            mesh.place.size(Axis::sp), {})) {
    device::Arena sizing;
    lay_out(sizing);
    arena_ = device::Arena(*device_, ledger_, device::Label::workspace, sizing.used_bytes());
    lay_out(arena_);
    backend_->set_workspace(workspace_);
    collectives_->set_staging(staging_);
    for (const parallel::UnitStorage& stored : parts_) set_parameters(stored.shard_map(), stored.parameters());
  }

  /// Two micro-batches, forward and backward; returns the loss of all ranks. Collective.
  double run(std::optional<std::uint64_t> dropout_seed = {}) {
    parallel::TensorParallel tp(mesh_.groups.tp, *device_, *collectives_, *stream_, *tp_stream_,
                                sizes_.token_slices > 1, {}, mesh_.groups.kv_replicas);
    parallel::ShardedUnits units(parts_, buffers_, policy_, slots_, mesh_.groups, *device_, *backend_, *collectives_,
                                 *comm_stream_, *gather_stream_);
    const auto attention =
        attention_buffers_->make_attention(mesh_.groups.sp, *device_, *backend_, *collectives_, *ring_stream_);
    transfer::HostMover mover(decoder_buffers_.host_places, decoder_buffers_.num_offloaded(), *device_, *stream_,
                              "activations", device::Priority::communication);
    const std::unique_ptr<device::Stream> expert_stream = device_->make_stream();
    parallel::ExpertExchange experts(mesh_.groups.ep, *device_, *backend_, *collectives_, *expert_stream);
    model::Decoder decoder(
        {model_, sizes_, *device_, *backend_, units, tp, *attention, decoder_buffers_.adapters, experts},
        architecture_.parameters, decoder_buffers_, &mover);
    decoder.initialize();
    units.parameters_written();
    units.begin_step(2);
    std::vector<double> metrics(4);
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      forward_backward(decoder, micro_batch, tensor_of(metrics, DType::float64), dropout_seed);
    }
    units.finish_step();
    stream_->synchronize();
    std::array<double, 1> loss{mesh_.place.owns_tokens() ? metrics[0] / gradient_divisor : 0.0};
    mesh_.groups.world.sum(std::span<double>(loss));
    return loss[0];
  }

  /// Whole gradients by name. Collective.
  [[nodiscard]] LogicalTensors gradients() const {
    return gather_parts(true, [](const parallel::UnitStorage& part) { return part.gradients(); });
  }
  /// Whole parameters by name, of those that are trained or of the others. Collective.
  [[nodiscard]] LogicalTensors parameters(bool trained) const {
    return gather_parts(trained, [](const parallel::UnitStorage& part) { return part.parameters(); });
  }
  void set_trained(const LogicalTensors& tensors) {
    for (const parallel::UnitStorage& stored : parts_) {
      if (stored.part().has_gradient) scatter(stored.shard_map(), tensors, stored.parameters());
    }
  }
  /// Of the first part that is trained.
  [[nodiscard]] Tensor gradient_shard() const {
    return std::ranges::find_if(parts_, [](const auto& stored) { return stored.part().has_gradient; })->gradients();
  }
  [[nodiscard]] std::size_t storage_bytes() const { return storage_bytes_; }
  /// Of what blocks keep, and of what they share.
  [[nodiscard]] std::size_t activation_bytes() const { return activation_bytes_; }
  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_bytes_; }

 private:
  static model::Architecture architecture_of(const config::Model& config, const model::IsTrainable& is_trainable,
                                             const config::Lora& lora, Tokens tokens,
                                             const ChangeBlocks& change_blocks) {
    model::Architecture result = model::make_architecture(config, is_trainable, lora, 1, tokens == Tokens::cut);
    if (change_blocks) change_blocks(result.parameters.blocks);
    return result;
  }
  /// Whole tensors of all parts that are trained, or of the others. Collective.
  template <class ShardOf>
  [[nodiscard]] LogicalTensors gather_parts(bool trained, ShardOf shard_of) const {
    LogicalTensors tensors;
    for (const parallel::UnitStorage& stored : parts_) {
      if (stored.part().has_gradient == trained) tensors.merge(gather(stored.shard_map(), shard_of(stored), mesh_));
    }
    return tensors;
  }
  void lay_out(device::Arena& arena) {
    const std::size_t before = arena.used_bytes();
    for (parallel::UnitStorage& stored : parts_) stored.lay_out(arena, arena, arena);
    storage_bytes_ = arena.used_bytes() - before;
    const parallel::UnitBuffers::Arenas arenas{arena, arena, arena, arena, arena};
    buffers_.lay_out(arenas, arenas);
    device::Arena activations, workspace, host;
    decoder_buffers_.lay_out(activations, workspace, workspace, host);
    activation_bytes_ = activations.used_bytes();
    workspace_bytes_ = workspace.used_bytes();
    decoder_buffers_.lay_out(arena, arena, arena, arena);
    attention_buffers_->lay_out(arena);
    const std::size_t bytes =
        ops::workspace_bytes(device::Kind::cpu, 1, model::op_shapes(architecture_.parameters, sizes_),
                             attention_buffers_->attention_needs());
    workspace_ = take(arena, DType::bf16, {static_cast<std::int64_t>(bytes / size_of(DType::bf16))});
    comm::StagingPlan plan = parallel::ShardedUnits::staging(parts_, policy_);
    plan.max_all_reduce_bytes =
        std::max(plan.max_all_reduce_bytes, static_cast<std::size_t>(sizes_.tokens * sizes_.hidden) * sizeof(float));
    staging_ = comm::take_staging(device::Kind::cpu, arena, plan);
  }

  /// A row of one document and, in the second micro-batch, one of two and a padded tail: fewer tokens come first.
  void forward_backward(model::Decoder& decoder, int micro_batch, Tensor metrics,
                        std::optional<std::uint64_t> dropout_seed) {
    std::vector<rows::Row> rows = {{{}, {}, {24}}};
    if (micro_batch > 0) rows.push_back({{}, {}, {10, 12}});
    const int first = 7 * micro_batch + 3 * mesh_.place.data_rank();
    for (rows::Row& row : rows) {
      for (std::int64_t t = 0; t < row_tokens; ++t) {
        row.tokens.push_back(static_cast<std::int32_t>((31 * t + first) % model_.vocab_size));
        row.loss_weight.push_back(t % 5 == 2 ? 0.0F : 1.0F);
      }
    }
    rows::MicroBatch batch =
        rows::cut_rows(rows, mesh_.place.size(Axis::sp), mesh_.place.rank(Axis::sp), {}, sizes_.token_slices);
    decoder.forward_backward({tensor_of(batch.tokens, DType::int32), tensor_of(batch.positions, DType::int32),
                              tensor_of(batch.targets, DType::int32), tensor_of(batch.loss_weights), 0,
                              dropout_seed ? Tensor(&*dropout_seed, DType::uint8, {8}) : Tensor()},
                             batch.attention, {1.0 / gradient_divisor}, metrics);
    stream_->synchronize();
  }

  config::Model model_;
  const Mesh& mesh_;
  model::Sizes sizes_;
  model::HeadSplit heads_;
  model::Architecture architecture_;
  parallel::ShardingPolicy policy_;
  parallel::StoredParts parts_;
  parallel::SlotAssignment slots_;
  parallel::UnitBuffers buffers_;
  model::DecoderBuffers decoder_buffers_;
  std::unique_ptr<parallel::SequenceBuffers> attention_buffers_;
  std::size_t storage_bytes_ = 0, activation_bytes_ = 0, workspace_bytes_ = 0;
  Tensor workspace_;
  comm::StagingMemory staging_;
  device::Ledger ledger_;
  std::unique_ptr<device::Device> device_ = device::make_device(device::Kind::cpu);
  device::Arena arena_;
  std::unique_ptr<comm::Collectives> collectives_ = comm::make_collectives(*device_, mesh_.groups.of_tensors());
  std::unique_ptr<device::Stream> stream_ = device_->make_stream(), comm_stream_ = device_->make_stream(),
                                  gather_stream_ = device_->make_stream(), ring_stream_ = device_->make_stream(),
                                  tp_stream_ = device_->make_stream();
  std::unique_ptr<ops::Backend> backend_ = ops::make_checked_backend(ops::make_backend(*device_, *stream_));
};

}  // namespace sft::test
