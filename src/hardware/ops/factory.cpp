// SPDX-License-Identifier: Apache-2.0
#include "sft/ops/factory.hpp"

#include <algorithm>
#include <utility>

#include "ops/backends.hpp"
#include "ops/cpu/planning.hpp"
#include "ops/cpu/product_counter.hpp"
#include "ops/cuda/cudnn/working_memory.hpp"
#include "ops/cuda/planning.hpp"
#include "ops/product_list.hpp"

namespace sft::ops {

namespace {

/// A GPU runs the head's products at full speed from 2048 tokens on; more, up to 4096, where their logits take less
/// than 1 GiB.
std::int64_t gpu_loss_chunk_tokens(const Shapes& shapes) {
  constexpr std::int64_t min_tokens = 2048, max_tokens = 4096, granularity = 128;
  constexpr std::int64_t logits_budget_bytes = std::int64_t{1} << 30;
  const std::int64_t row_bytes = std::max<std::int64_t>(shapes.vocab, 1) * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t fitting = logits_budget_bytes / row_bytes / granularity * granularity;
  return std::min(shapes.tokens, std::clamp(fitting, min_tokens, max_tokens));
}

/// Holds each call against the rules of its op in builds with SFT_CHECKED_OPS.
std::unique_ptr<Backend> checked_where_built_so(std::unique_ptr<Backend> backend) {
#if SFT_CHECKED_OPS
  return make_checked_backend(std::move(backend));
#else
  return backend;
#endif
}

}  // namespace

std::unique_ptr<Backend> make_backend(device::Device& device, device::Stream& stream, AttentionKernels attention,
                                      const MatmulAlgorithms* algorithms) {
  return checked_where_built_so(device.kind() == device::Kind::cuda
                                    ? cuda::make_backend(stream, attention, algorithms)
                                    : cpu::make_backend(device, stream, cpu::best_isa()));
}

std::unique_ptr<Backend> make_step_backend(device::Device& /*gpu*/, device::Stream& stream) {
  return checked_where_built_so(cuda::make_step_backend(stream));
}

std::unique_ptr<Backend> make_checked_backend(std::unique_ptr<Backend> inner) {
  return checked::make_backend(std::move(inner));
}

std::unique_ptr<Backend> make_repeated_backend(std::unique_ptr<Backend> inner) {
  return repeated::make_backend(std::move(inner));
}

std::unique_ptr<Backend> make_product_counter(device::Stream& stream) {
  return std::make_unique<cpu::ProductCounter>(cpu::best_isa(), stream);
}

std::unique_ptr<Backend> make_product_list(device::Stream& stream) { return std::make_unique<ProductList>(stream); }

std::size_t workspace_bytes(device::Kind kind, int num_threads, const Shapes& shapes, const AttentionNeeds& attention) {
  if (kind == device::Kind::cpu) return cpu::workspace_bytes(num_threads, shapes, attention);
  // Scratch of one op, whatever the shapes, and after it the attention plans and what cuDNN works in
  return cuda::scratch_bytes + cuda::plan_pool_bytes(shapes, attention) + cuda::cudnn::pool_bytes(attention);
}

std::size_t products_bytes(const Backend& counter, const ProductUse& use) {
  return dynamic_cast<const cpu::ProductCounter&>(counter).code_bytes(use);
}

const ListedProducts& listed_products(const Backend& list) { return dynamic_cast<const ProductList&>(list).products(); }

std::size_t product_copies_bytes(device::Kind kind, int num_threads, const Shapes& shapes) {
  return kind == device::Kind::cpu ? cpu::product_copies_bytes(cpu::best_isa(), num_threads, shapes) : 0;
}

std::int64_t loss_chunk_tokens(device::Kind kind, const Shapes& shapes) {
  return kind == device::Kind::cpu ? cpu::loss_chunk_tokens(shapes) : gpu_loss_chunk_tokens(shapes);
}

const char* cpu_instruction_set() { return cpu::name_of(cpu::best_isa()); }
bool cpu_multiplies_bf16() { return cpu::has_fast_bf16_products(cpu::best_isa()); }

}  // namespace sft::ops
