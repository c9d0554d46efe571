// SPDX-License-Identifier: Apache-2.0
#include "sft/generate/generator.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "sft/core/ensure.hpp"
#include "sft/device/arena.hpp"
#include "sft/machine/node.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/model/architecture.hpp"
#include "sft/model/cached_decoder.hpp"
#include "sft/model/linear/adapter_buffers.hpp"
#include "sft/ops/factory.hpp"
#include "sft/rank/workers.hpp"

namespace sft::generate {

namespace {

using device::Label;
using device::Space;

/// Most tokens that are read in one pass: enough for products at full speed.
constexpr std::int64_t max_pass_tokens = 256;

model::Sizes sizes_of(const config::Model& m, DType compute, std::int64_t max_tokens) {
  const std::int64_t tokens = std::min(max_tokens, max_pass_tokens);
  return {.tokens = tokens,
          .hidden = m.hidden_size,
          .vocab = m.vocab_size,
          .vocab_begin = 0,
          .max_vocab = m.vocab_size,
          .compute = compute,
          .partial = compute,
          .experts = {.tokens = tokens,
                      .count = m.num_experts,
                      .choices = m.num_experts_per_tok,
                      .columns = m.moe_intermediate_size}};
}

/// What attention's scores are multiplied with.
float attention_scale(const config::Model& m) {
  if (m.attention_multiplier != 0.0) return static_cast<float>(m.attention_multiplier);
  return 1.0F / std::sqrt(static_cast<float>(m.head_dim));
}

bool no_parameter(const std::string&) { return false; }

struct Arenas {
  device::Arena parameters, cache, workspace, pinned;
};

template <class Visit>
void for_each_arena(Arenas& arenas, const Visit& visit) {
  visit(Label::parameters, Space::device, arenas.parameters);
  visit(Label::activations, Space::device, arenas.cache);
  visit(Label::workspace, Space::device, arenas.workspace);
  visit(Label::workspace, Space::pinned, arenas.pinned);
}

/// Everything as a size, then as memory.
struct Plan {
  Plan(const config::ValidConfig& config, DType compute, std::int64_t max_tokens, device::Kind kind_in)
      : kind(kind_in),
        place(config, 0),
        sizes(sizes_of(config->model, compute, max_tokens)),
        architecture(model::make_architecture(config->model, no_parameter)),
        parts(parallel::storage_of(parallel::make_parts(architecture.parts, place, policy, compute))),
        slots(parts.front().shard_map().num_units(), policy, config->model.tie_word_embeddings),
        unit_buffers(parts, policy, slots),
        decoder(config->model, architecture.parameters, sizes, max_tokens) {}
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  void lay_out(Arenas& arenas) {
    device::Arena nothing;
    const parallel::UnitBuffers::Arenas no_buffers{nothing, nothing, nothing, nothing, nothing};
    for (parallel::UnitStorage& weights : parts) weights.lay_out(nothing, arenas.parameters, nothing);
    unit_buffers.lay_out(no_buffers, no_buffers);
    SFT_ENSURE(nothing.used_bytes() == 0, "weights alone are stored, once");
    decoder.lay_out(arenas.cache, arenas.workspace);
    tokens = take(arenas.workspace, DType::int32, {2, sizes.tokens});
    pinned_tokens = take(arenas.pinned, DType::int32, {2, sizes.tokens});
    logits = take(arenas.workspace, DType::float32, {sizes.vocab});
    pinned_logits = take(arenas.pinned, DType::float32, {sizes.vocab});
    const std::size_t bytes = ops::workspace_bytes(
        kind, machine::num_threads(), model::op_shapes(architecture.parameters, sizes), decoder.attention_needs());
    ops_workspace = take(arenas.workspace, DType::bf16, {static_cast<std::int64_t>(bytes / size_of(DType::bf16))});
  }

  const device::Kind kind;
  const mesh::Place place;
  const model::Sizes sizes;
  const model::Architecture architecture;
  const parallel::ShardingPolicy policy{.reshard = config::Reshard::never};
  parallel::StoredParts parts;
  const parallel::SlotAssignment slots;
  parallel::UnitBuffers unit_buffers;
  model::CachedDecoderBuffers decoder;
  model::AdapterBuffers adapters;
  Tensor tokens, pinned_tokens;  ///< (2, most tokens of a pass): tokens, then positions
  Tensor logits, pinned_logits;  ///< (V)
  Tensor ops_workspace;
};

}  // namespace

struct Generator::Impl {
  Impl(const config::Model& model, DType compute, std::int64_t max_tokens_in, const comm::Group& world,
       device::Device& device_in, comm::Collectives& collectives, device::Ledger& ledger)
      : config(config::validate(model)),
        max_tokens(max_tokens_in),
        device(device_in),
        plan(config, compute, max_tokens, device.kind()),
        groups(world, plan.place, {}),
        arenas(allocate(ledger)),
        workers({plan.parts, plan.unit_buffers, plan.policy, plan.slots}, groups, /*cuts_tokens=*/false, /*tp_wire=*/{},
                device, collectives, rank::DeviceTools()),
        attention(attention_scale(config->model), static_cast<float>(config->model.attn_logit_softcapping),
                  plan.decoder.windows, *workers.ops),
        decoder({config->model, plan.sizes, device, *workers.ops, workers.units, workers.tp, attention, plan.adapters,
                 workers.experts},
                attention, plan.architecture.parameters, plan.decoder) {
    workers.ops->set_workspace(plan.ops_workspace);
    decoder.initialize();
  }

  Arenas allocate(device::Ledger& ledger) {
    ledger.add(Label::process, Space::host, machine::resident_bytes());
    Arenas result;
    plan.lay_out(result);
    for_each_arena(result, [&](Label label, Space space, device::Arena& arena) {
      arena = device::Arena(device, ledger, label, arena.used_bytes(), space);
    });
    plan.lay_out(result);
    return result;
  }

  [[nodiscard]] device::Stream& stream() const { return *workers.streams.compute; }

  /// One pass over tokens that fit into it.
  void read(std::span<const std::int32_t> part, bool is_last) {
    const auto n = static_cast<std::int64_t>(part.size());
    const auto position = static_cast<std::int32_t>(text.size());
    const Tensor ids = plan.pinned_tokens.rows(0, 1).view({plan.sizes.tokens}).rows(0, n);
    const Tensor positions = plan.pinned_tokens.rows(1, 1).view({plan.sizes.tokens}).rows(0, n);
    std::memcpy(ids.data, part.data(), ids.size_bytes());
    std::iota(positions.as<std::int32_t>(), positions.as<std::int32_t>() + n, position);
    device.copy(plan.tokens.data, plan.pinned_tokens.data, plan.tokens.size_bytes(), stream());
    decoder.forward(plan.tokens.rows(0, 1).view({plan.sizes.tokens}).rows(0, n),
                    plan.tokens.rows(1, 1).view({plan.sizes.tokens}).rows(0, n), position,
                    is_last ? plan.logits : Tensor());
    if (is_last) device.copy(plan.pinned_logits.data, plan.logits.data, plan.logits.size_bytes(), stream());
    stream().synchronize();
    text.insert(text.end(), part.begin(), part.end());
  }

  const config::ValidConfig config;
  const std::int64_t max_tokens;
  device::Device& device;
  Plan plan;
  const mesh::Groups groups;
  Arenas arenas;
  rank::UnitWorkers workers;
  model::CachedAttention attention;
  model::CachedDecoder decoder;
  std::vector<std::int32_t> text;
};

Generator::Generator(const config::Model& model, DType compute, std::int64_t max_tokens, const comm::Group& world,
                     device::Device& device, comm::Collectives& collectives, device::Ledger& ledger)
    : impl_(std::make_unique<Impl>(model, compute, max_tokens, world, device, collectives, ledger)) {}

Generator::~Generator() { impl_->workers.streams.drain(); }

checkpoint::State Generator::weights() const {
  Impl& g = *impl_;
  std::vector<checkpoint::Entry> entries;
  for (const parallel::UnitStorage& weights : g.plan.parts) {
    entries.push_back({"model", &weights.shard_map(), weights.parameters()});
  }
  return {std::move(entries), [&g] { g.workers.units.parameters_written(); }};
}

device::Stream& Generator::stream() { return impl_->stream(); }
std::int64_t Generator::max_tokens() const { return impl_->max_tokens; }
std::int64_t Generator::vocab_size() const { return impl_->plan.sizes.vocab; }
const std::vector<std::int32_t>& Generator::tokens() const { return impl_->text; }

std::vector<float> Generator::append(std::span<const std::int32_t> tokens) {
  Impl& g = *impl_;
  SFT_ENSURE(!tokens.empty(), "at least one token is appended");
  SFT_ENSURE(std::ssize(g.text) + std::ssize(tokens) <= g.max_tokens, "a text fits the cache that was planned for it");
  while (!tokens.empty()) {
    const std::size_t count = std::min<std::size_t>(tokens.size(), g.plan.sizes.tokens);
    g.read(tokens.first(count), count == tokens.size());
    tokens = tokens.subspan(count);
  }
  const float* logits = g.plan.pinned_logits.as<float>();
  return {logits, logits + g.plan.pinned_logits.num_elements()};
}

void Generator::rewind(std::int64_t num_tokens) {
  SFT_ENSURE(num_tokens >= 0, "a text is cut within itself");
  SFT_ENSURE(num_tokens <= std::ssize(impl_->text), "a text is cut within itself");
  if (num_tokens == std::ssize(impl_->text)) return;
  impl_->text.resize(impl_->plan.decoder.can_cut_text() ? num_tokens : 0);
}

}  // namespace sft::generate
