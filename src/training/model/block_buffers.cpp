// SPDX-License-Identifier: Apache-2.0
#include "sft/model/block_buffers.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "sft/model/sublayer.hpp"

namespace sft::model {

namespace {

/// The lifetimes of the tensors of the stream around a sublayer; `branch`: with its rstd.
struct StreamLifetimes {
  Lifetime x, x_rstd, branch;
};

/// The stream around a sublayer.
std::vector<SublayerTensor> stream_tensors(const Sizes& s, const LayerPlan& plan, const StreamLifetimes& needed) {
  const Tensor stream = form_of(s.compute, {s.slice_tokens(), s.hidden});
  const Tensor rstd = form_of(DType::float32, {s.slice_tokens()});
  std::vector<SublayerTensor> tensors = {{"x", needed.x, stream}};
  if (plan.norms_inputs) tensors.push_back({"rstd", needed.x_rstd, rstd});
  if (!plan.norms_branches) return tensors;
  tensors.push_back({"branch", needed.branch, stream});
  tensors.push_back({"branch_rstd", needed.branch, rstd});
  return tensors;
}

/// The x of all sublayers but the first follows from those before. The last branch is input, as what gives it is not
/// computed again; and nothing but a pass through the last sublayer stands between its x and the next block.
StreamLifetimes stream_lifetimes(bool is_first, bool is_last, const ActivationPolicy& policy) {
  const Lifetime branch = is_last ? Lifetime::input : Lifetime::followers;
  if (is_first) return {Lifetime::input, Lifetime::input, branch};
  return {is_last && !policy.keeps_all() ? Lifetime::pass : Lifetime::followers, Lifetime::followers, branch};
}

template <class Block, class Visit>
void for_each_list(Block& block, const Visit& visit) {
  for (auto& buffers : block) {
    visit(buffers.stream);
    visit(buffers.own);
  }
}

/// Scratch memory of the sublayers of all blocks, with their streams, one over the other.
void take_sublayer_scratch(device::Arena& arena, device::Arena& tp_sums, bool has_backward, AllBlockBuffers& blocks) {
  std::vector<SublayerBuffers*> all;
  for (BlockBuffers& block : blocks) {
    for (SublayerBuffers& buffers : block) all.push_back(&buffers);
  }
  const auto take_of_all = [&](device::Arena& from, ScratchPlace place) {
    take_in_turn(from, static_cast<int>(all.size()), [&](int i) {
      SublayerBuffers& buffers = *all[static_cast<std::size_t>(i)];
      buffers.stream.take_scratch(from, place, has_backward);
      buffers.own.take_scratch(from, place, has_backward);
    });
  };
  take_of_all(arena, ScratchPlace::alone);
  take_of_all(arena, ScratchPlace::shared);
  take_of_all(tp_sums, ScratchPlace::tp_sums);
}

void shorten(Tensor& tensor, std::int64_t num_tokens) {
  if (!tensor.empty()) tensor = tensor.rows(0, num_tokens);
}

}  // namespace

AllBlockBuffers make_block_buffers(const DecoderParameters& parameters, const Sizes& sizes,
                                   const ActivationPolicy& policy) {
  AllBlockBuffers all;
  for (const BlockParameters& block : parameters.blocks) {
    BlockBuffers buffers;
    const std::size_t last = block.sublayers.size() - 1;
    for (std::size_t i = 0; i <= last; ++i) {
      buffers.push_back(
          {SublayerTensors(stream_tensors(sizes, block.plan, stream_lifetimes(i == 0, i == last, policy))),
           SublayerTensors(block.sublayers[i].layer->tensors(sizes, policy))});
    }
    all.push_back(std::move(buffers));
  }
  return all;
}

ops::Shapes op_shapes(const DecoderParameters& parameters, const Sizes& s) {
  ops::Shapes shapes{.tokens = s.tokens, .hidden = s.hidden, .vocab = s.max_vocab, .compute = s.compute};
  for (const BlockParameters& block : parameters.blocks) {
    for (const BlockSublayer& sublayer : block.sublayers) sublayer.layer->fit_shapes(s, shapes);
  }
  return shapes;
}

BlockScratch take_scratch(device::Arena& arena, device::Arena& tp_sums, const Sizes& s, const config::Model& model,
                          const DecoderParameters& parameters, AllBlockBuffers& blocks) {
  BlockScratch b;
  const auto element_bytes = static_cast<std::int64_t>(size_of(s.compute));
  std::int64_t num_elements = s.tokens * s.hidden;
  for (BlockBuffers& block : blocks) {
    for_each_list(block, [&](const SublayerTensors& list) {
      num_elements = std::max(num_elements, static_cast<std::int64_t>(list.bytes_over_normed()) / element_bytes);
    });
  }
  const Tensor normed = take(arena, s.compute, {num_elements});
  b.normed = normed.rows(0, s.tokens * s.hidden).view({s.tokens, s.hidden});
  for (BlockBuffers& block : blocks) {
    for_each_list(block, [&](SublayerTensors& list) { list.place_over(normed); });
  }
  take_sublayer_scratch(arena, tp_sums, /*has_backward=*/true, blocks);

  b.shares_branch_memory = s.shares_branches();
  b.delta = b.shares_branch_memory ? b.normed : take(tp_sums, s.partial, {s.tokens, s.hidden});
  b.dnormed = b.delta;
  b.dx = take(arena, s.compute, {s.tokens, s.hidden});
  const bool changes_branches = std::ranges::any_of(
      parameters.blocks, [](const BlockParameters& block) { return block.plan.changes_branches(); });
  b.dbranch = changes_branches ? take(arena, s.compute, {s.tokens, s.hidden}) : b.dx;
  b.ropes = RopeTables(model, arena, s.tokens);
  return b;
}

BlockScratch take_forward_scratch(device::Arena& arena, const Sizes& s, const config::Model& model,
                                  AllBlockBuffers& blocks) {
  BlockScratch b;
  b.normed = take(arena, s.compute, {s.tokens, s.hidden});
  b.delta = take(arena, s.partial, {s.tokens, s.hidden});
  take_sublayer_scratch(arena, arena, /*has_backward=*/false, blocks);
  b.ropes = RopeTables(model, arena, s.tokens);
  return b;
}

void take_activations(device::Arena& arena, const ActivationPolicy& policy, Share share, BlockBuffers& block) {
  for (const Lifetime lifetime : kept_lifetimes) {
    if (policy.keeps(lifetime) != (share == Share::kept)) continue;
    for_each_list(block, [&](SublayerTensors& list) { list.take(arena, lifetime); });
  }
}

std::vector<Tensor> kept_tensors(const BlockBuffers& block, const ActivationPolicy& policy) {
  std::vector<Tensor> kept;
  for (const Lifetime lifetime : kept_lifetimes) {
    if (!policy.keeps(lifetime)) continue;
    for_each_list(block, [&](const SublayerTensors& list) {
      for (const SublayerTensor& x : list.all()) {
        if (x.lifetime == lifetime && !x.tensor.empty()) kept.push_back(x.tensor);
      }
    });
  }
  return kept;
}

BlockBuffers first_tokens(BlockBuffers all, const Sizes& sizes, std::int64_t num_tokens) {
  const std::int64_t num_fewer = sizes.tokens - num_tokens;
  for (SublayerBuffers& buffers : all) {
    buffers.stream.shorten(num_fewer / sizes.token_slices);
    buffers.own.shorten(num_fewer);
  }
  return all;
}

BlockScratch first_tokens(BlockScratch all, std::int64_t num_tokens) {
  for (Tensor* tensor : {&all.normed, &all.delta, &all.dx, &all.dnormed, &all.dbranch}) shorten(*tensor, num_tokens);
  all.ropes = all.ropes.first_rows(num_tokens);
  return all;
}

}  // namespace sft::model
