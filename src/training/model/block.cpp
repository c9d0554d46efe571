// SPDX-License-Identifier: Apache-2.0
#include "sft/model/block.hpp"

#include <cstddef>
#include <functional>

#include "sft/model/sublayer.hpp"

namespace sft::model {

namespace {

/// SublayerBuffers::stream.
struct Stream {
  explicit Stream(const SublayerTensors& all)
      : x(all["x"]), rstd(all["rstd"]), branch(all["branch"]), branch_rstd(all["branch_rstd"]) {}

  Tensor x, rstd, branch, branch_rstd;
};

float epsilon_of(const Context& c) { return static_cast<float>(c.config.rms_norm_eps); }

/// The residual stream on its way to a sublayer: stream.x = previous + the slice of delta, unless `previous`
/// is empty and x is there already; and the slice of normed, what the sublayer reads of it.
void enter_sublayer(const Context& c, const LayerPlan& plan, const NormGroups& norms, const Tensor& previous,
                    const Stream& stream, BlockScratch& scratch) {
  const Tensor normed = c.tp.slice(scratch.normed);
  if (!plan.norms_inputs) {
    if (!previous.empty()) {
      c.ops.run(ops::Copy{stream.x, previous});
      c.ops.run(ops::Add{stream.x, c.tp.slice(scratch.delta)});
    }
    c.ops.run(ops::Copy{normed, stream.x});
  } else if (previous.empty()) {
    c.ops.run(ops::RmsNormForward{normed, stream.rstd, stream.x, norm_weight(c, norms.input), epsilon_of(c)});
  } else {
    c.ops.run(ops::AddRmsNormForward{.sum = stream.x,
                                     .y = normed,
                                     .rstd = stream.rstd,
                                     .x = previous,
                                     .delta = c.tp.slice(scratch.delta),
                                     .weight = norm_weight(c, norms.input),
                                     .epsilon = epsilon_of(c)});
  }
}

/// The slice of normed again, of the stream as it was.
void read_again(const Context& c, const LayerPlan& plan, const NormGroups& norms, const Stream& stream,
                BlockScratch& scratch) {
  const Tensor normed = c.tp.slice(scratch.normed);
  if (!plan.norms_inputs) return c.ops.run(ops::Copy{normed, stream.x});
  c.ops.run(ops::RmsNormApply{.y = normed, .x = stream.x, .rstd = stream.rstd, .weight = norm_weight(c, norms.input)});
}

/// What writes it and starts its gather over tp; the references outlive it.
std::function<void()> normed_again(const Context& c, const LayerPlan& plan, const NormGroups& norms,
                                   const Stream& stream, BlockScratch& scratch) {
  return [&c, &plan, &norms, &scratch, stream] {
    read_again(c, plan, norms, stream, scratch);
    c.tp.start_gather(scratch.normed);
  };
}

/// The slice of delta = what a sublayer adds to the residual stream, of the terms of all ranks in delta. Overwrites
/// normed where there is a norm.
void finish_branch(const Context& c, const LayerPlan& plan, const NormGroups& norms, const Stream& stream,
                   BlockScratch& scratch) {
  c.tp.reduce(scratch.delta);
  const Tensor delta = c.tp.slice(scratch.delta);
  if (plan.norms_branches) {
    const Tensor normed = c.tp.slice(scratch.normed);
    c.ops.run(ops::Copy{stream.branch, delta});
    c.ops.run(
        ops::RmsNormForward{normed, stream.branch_rstd, stream.branch, norm_weight(c, norms.branch), epsilon_of(c)});
    if (!scratch.shares_branch_memory) c.ops.run(ops::Copy{delta, normed});
  } else if (plan.scales_branches()) {
    c.ops.run(ops::Scale{delta, plan.residual_multiplier});
  }
}

/// dbranch = the gradient of what the sublayer's products give, of the slice of dx.
void begin_branch_backward(const Context& c, const LayerPlan& plan, const NormGroups& norms, const Stream& stream,
                           BlockScratch& scratch) {
  const Tensor dbranch = c.tp.slice(scratch.dbranch), dx = c.tp.slice(scratch.dx);
  if (plan.norms_branches) {
    c.ops.run(ops::RmsNormBackward{.dx = dbranch,
                                   .dweight = c.units.accumulated_gradient(norms.branch),
                                   .dy = dx,
                                   .x = stream.branch,
                                   .rstd = stream.branch_rstd,
                                   .weight = norm_weight(c, norms.branch)});
  } else if (plan.scales_branches()) {
    c.ops.run(ops::Copy{dbranch, dx});
    c.ops.run(ops::Scale{dbranch, plan.residual_multiplier});
  }
  c.tp.gather(scratch.dbranch);
}

/// The slice of dx += the gradient of the stream through what the sublayer reads of it, of the slice of dnormed.
void leave_sublayer_backward(const Context& c, const LayerPlan& plan, const NormGroups& norms, const Stream& stream,
                             BlockScratch& scratch) {
  const Tensor dx = c.tp.slice(scratch.dx);
  if (!plan.norms_inputs) return c.ops.run(ops::Add{dx, c.tp.slice(scratch.dnormed)});
  c.ops.run(ops::RmsNormBackward{.dx = dx,
                                 .dweight = c.units.accumulated_gradient(norms.input),
                                 .dy = c.tp.slice(scratch.dnormed),
                                 .x = stream.x,
                                 .rstd = stream.rstd,
                                 .weight = norm_weight(c, norms.input),
                                 .dresidual = dx});
}

/// Ends sublayer number `i`, whose stream the branch joins, and enters the next one with its unit.
void pass_on(const Context& c, const BlockParameters& p, std::size_t i, BlockBuffers& buffers, BlockScratch& scratch) {
  const BlockSublayer& next = p.sublayers[i + 1];
  const Stream before(buffers[i].stream);
  finish_branch(c, p.plan, p.sublayers[i].norms, before, scratch);
  c.units.enter(next.unit);
  enter_sublayer(c, p.plan, next.norms, before.x, Stream(buffers[i + 1].stream), scratch);
}

/// The forward pass, in which pass(number, sublayer) runs a sublayer.
template <class Pass>
void run_block(const Context& c, const BlockParameters& p, const Tensor& previous, BlockBuffers& buffers,
               BlockScratch& scratch, const Pass& pass) {
  const std::size_t last = p.sublayers.size() - 1;
  c.units.enter(p.sublayers.front().unit);
  enter_sublayer(c, p.plan, p.sublayers.front().norms, previous, Stream(buffers.front().stream), scratch);
  for (std::size_t i = 0; i <= last; ++i) {
    c.tp.gather(scratch.normed);
    pass(i, *p.sublayers[i].layer);
    if (i < last) pass_on(c, p, i, buffers, scratch);
  }
  finish_branch(c, p.plan, p.sublayers[last].norms, Stream(buffers[last].stream), scratch);
}

/// The backward pass of a sublayer whose unit is in use.
void differentiate(const Context& c, const LayerPlan& plan, const BlockSublayer& sublayer, SublayerBuffers& buffers,
                   BlockScratch& scratch) {
  const Stream stream(buffers.stream);
  begin_branch_backward(c, plan, sublayer.norms, stream, scratch);
  sublayer.layer->backward(c, buffers.own, scratch, normed_again(c, plan, sublayer.norms, stream, scratch));
}

}  // namespace

void block_forward(const Context& c, const BlockParameters& p, const Tensor& previous, BlockBuffers& buffers,
                   BlockScratch& scratch) {
  run_block(c, p, previous, buffers, scratch,
            [&](std::size_t i, const Sublayer& layer) { layer.forward(c, buffers[i].own, scratch); });
}

void block_generate(const Context& c, const BlockParameters& p, const Tensor& previous, BlockBuffers& buffers,
                    BlockScratch& scratch, const BlockTextState& state, std::int64_t num_before,
                    CachedAttention& attention) {
  run_block(c, p, previous, buffers, scratch, [&](std::size_t i, const Sublayer& layer) {
    layer.generate(c, buffers[i].own, scratch, {state[i], num_before, attention});
  });
}

void block_recompute(const Context& c, const BlockParameters& p, const ActivationPolicy& policy, BlockBuffers& buffers,
                     BlockScratch& scratch) {
  if (policy.keeps_all()) return;
  const std::size_t last = p.sublayers.size() - 1;
  c.units.enter(p.sublayers.front().unit);
  for (std::size_t i = 0; i <= last; ++i) {
    const auto read_normed = [&] {
      if (i == 0) read_again(c, p.plan, p.sublayers[i].norms, Stream(buffers[i].stream), scratch);
      c.tp.gather(scratch.normed);
    };
    p.sublayers[i].layer->recompute(c, policy, buffers[i].own, scratch, read_normed, /*gives_delta=*/i < last);
    if (i < last) pass_on(c, p, i, buffers, scratch);
  }
}

void block_backward(const Context& c, const BlockParameters& p, BlockBuffers& buffers, BlockScratch& scratch) {
  for (std::size_t i = p.sublayers.size(); i-- > 0;) {
    c.units.enter(p.sublayers[i].unit);
    differentiate(c, p.plan, p.sublayers[i], buffers[i], scratch);
    leave_sublayer_backward(c, p.plan, p.sublayers[i].norms, Stream(buffers[i].stream), scratch);
  }
}

}  // namespace sft::model
