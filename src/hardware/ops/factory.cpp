// SPDX-License-Identifier: Apache-2.0
#include "sft/ops/factory.hpp"

#include <algorithm>
#include <utility>

#include "ops/backends.hpp"
#include "ops/cpu/planning.hpp"
#include "ops/cpu/product_counter.hpp"
#include "ops/cuda/planning.hpp"
#include "ops/product_list.hpp"
#include "sft/core/error.hpp"

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

std::unique_ptr<Backend> make_unchecked_backend(device::Device& device, device::Stream& stream,
                                                [[maybe_unused]] AttentionKernels attention,
                                                [[maybe_unused]] const MatmulAlgorithms* algorithms) {
#if SFT_HAVE_CUDA
  if (device.kind() == device::Kind::cuda) return cuda::make_backend(stream, attention, algorithms);
#endif
  return cpu::make_backend(device, stream, cpu::best_isa());
}

}  // namespace

bool is_built([[maybe_unused]] device::Kind kind) {
#if SFT_HAVE_CUDA
  return true;
#else
  return kind == device::Kind::cpu;
#endif
}

void require_built(device::Kind kind) {
  if (is_built(kind)) return;
  throw_config_error("[device] backend = cuda cannot compute",
                     "this program was built without the CUDA toolkit and NCCL, so it has no CUDA kernels",
                     "install both and build again with -DSFT_CUDA=ON, or set [device] backend = cpu");
}

std::unique_ptr<Backend> make_backend(device::Device& device, device::Stream& stream, AttentionKernels attention,
                                      const MatmulAlgorithms* algorithms) {
  require_built(device.kind());
  std::unique_ptr<Backend> backend = make_unchecked_backend(device, stream, attention, algorithms);
#if SFT_CHECKED_OPS
  backend = make_checked_backend(std::move(backend));
#endif
  return backend;
}

std::unique_ptr<Backend> make_step_backend([[maybe_unused]] device::Device& gpu,
                                           [[maybe_unused]] device::Stream& stream) {
  require_built(device::Kind::cuda);
#if SFT_HAVE_CUDA
  std::unique_ptr<Backend> backend = cuda::make_step_backend(stream);
#if SFT_CHECKED_OPS
  backend = make_checked_backend(std::move(backend));
#endif
  return backend;
#else
  return nullptr;
#endif
}

AttentionLibrary find_attention_library() {
#if SFT_HAVE_CUDA
  return cuda::find_attention_library();
#else
  return {.problem = "this program was built without CUDA kernels"};
#endif
}

std::unique_ptr<Backend> make_attention_list([[maybe_unused]] device::Stream& stream,
                                             [[maybe_unused]] AttentionKernels kernels) {
  require_built(device::Kind::cuda);
#if SFT_HAVE_CUDA
  return cuda::make_attention_list(stream, kernels);
#else
  return nullptr;
#endif
}

std::vector<AttentionGraph> listed_attention([[maybe_unused]] const Backend& list) {
#if SFT_HAVE_CUDA
  return cuda::listed_attention(list);
#else
  return {};
#endif
}

std::string kinds_of_attention([[maybe_unused]] const std::vector<sequence::AttentionSpan>& spans,
                               [[maybe_unused]] std::int64_t num_queries, [[maybe_unused]] std::int64_t num_keys) {
#if SFT_HAVE_CUDA
  return cuda::kinds_of_attention(spans, num_queries, num_keys);
#else
  return {};
#endif
}

std::vector<StoredAttention> store_attention([[maybe_unused]] const std::vector<AttentionGraph>& graphs,
                                             [[maybe_unused]] const AbsentGpu& gpu, [[maybe_unused]] int num_threads) {
  require_built(device::Kind::cuda);
#if SFT_HAVE_CUDA
  return cuda::store_attention(graphs, gpu, num_threads);
#else
  return {};
#endif
}

std::string attention_folder() {
#if SFT_HAVE_CUDA
  return cuda::attention_folder();
#else
  return {};
#endif
}

std::string matmul_library([[maybe_unused]] const device::Device& device) {
  require_built(device::Kind::cuda);
#if SFT_HAVE_CUDA
  return cuda::matmul_library(device);
#else
  return "";
#endif
}

void require_fp8_tiles() {
  require_built(device::Kind::cuda);
#if SFT_HAVE_CUDA
  cuda::require_fp8_tiles();
#endif
}

MatmulTuning tune_matmul([[maybe_unused]] device::Device& device, [[maybe_unused]] const ListedProducts& products,
                         [[maybe_unused]] const MatmulAlgorithms& known) {
  require_built(device::Kind::cuda);
#if SFT_HAVE_CUDA
  return cuda::tune_matmul(device, products, known);
#else
  return {};
#endif
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
  // Scratch of one op, whatever the shapes, and after it the attention plans
  const std::size_t own_bytes = cuda::scratch_bytes + cuda::plan_pool_bytes(shapes, attention);
#if SFT_HAVE_CUDA
  return own_bytes + cuda::library_bytes(attention);
#else
  return own_bytes;
#endif
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
