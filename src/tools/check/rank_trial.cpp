// SPDX-License-Identifier: Apache-2.0
#include "rank_trial.hpp"

#include <array>
#include <chrono>
#include <thread>

#include "sft/device/factory.hpp"
#include "sft/machine/node.hpp"
#include "sft/ops/factory.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::check {

ProductTrial::ProductTrial(device::Device& device, DType dtype, std::int64_t n)
    : n_(n), stream_(device.make_stream()), backend_(ops::make_backend(device, *stream_)), dtype_(dtype) {
  const ops::Shapes shapes{
      .tokens = n, .hidden = n, .q_heads = 1, .kv_heads = 1, .head_dim = 64, .mlp = n, .vocab = n, .compute = dtype};
  const std::size_t workspace_bytes = ops::workspace_bytes(device.kind(), machine::num_threads(), shapes);
  workspace_ = device.allocate(workspace_bytes);
  backend_->set_workspace(
      Tensor(workspace_.get(), DType::bf16, {static_cast<std::int64_t>(workspace_bytes / size_of(DType::bf16))}));
  for (device::Device::Block* block : {&a_, &b_, &c_}) {
    *block = device.allocate(n * n * size_of(dtype));
    backend_->run(ops::Fill{Tensor(block->get(), dtype, {n, n}), 1.0F});
  }
}

void ProductTrial::multiply() {
  const auto matrix = [&](const device::Device::Block& block) { return Tensor(block.get(), dtype_, {n_, n_}); };
  backend_->run(ops::Matmul{.a = matrix(a_), .b = matrix(b_), .c = matrix(c_)});
}

double ProductTrial::num_flops() const {
  const auto n = static_cast<double>(n_);
  return 2 * n * n * n;
}

CopyTrial::CopyTrial(device::Device& device, std::size_t bytes)
    : device_(device),
      bytes_(bytes),
      stream_(device.make_stream()),
      from_(device.allocate(bytes)),
      to_(device.allocate(bytes)) {
  device.fill_zero(from_.get(), bytes, *stream_);
}

void CopyTrial::copy() { device_.copy(to_.get(), from_.get(), bytes_, *stream_); }

std::optional<machine::GpuClock> clock_under_load(ProductTrial& products, double product_s) {
  const std::string uuid = device::own_gpu().uuid;
  if (!machine::gpu_clock(uuid)) return std::nullopt;
  // Long enough for a clock that slept to rise.
  constexpr double load_s = 0.3;
  const auto start = std::chrono::steady_clock::now();
  for (double queued_s = 0; queued_s < load_s; queued_s += product_s) products.multiply();
  std::this_thread::sleep_until(start + std::chrono::duration<double>(load_s / 2));
  std::optional<machine::GpuClock> clock = machine::gpu_clock(uuid);
  products.wait();
  return clock;
}

}  // namespace sft::check
