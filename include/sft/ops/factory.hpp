// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one place that knows which compute backends this program has, and what they need. Planning asks for sizes by the
// kind of a device: nothing has to be there for it. A program has the CUDA kernels where its build has them and its
// target links them (SFT_NO_GPU in CMake leaves them out).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sft/device/device.hpp"
#include "sft/ops/backend.hpp"
#include "sft/ops/listed_products.hpp"
#include "sft/ops/matmul_algorithms.hpp"
#include "sft/ops/shapes.hpp"

namespace sft::ops {

/// Whether this program has kernels for `kind`.
[[nodiscard]] bool is_built(device::Kind kind);
/// Throws a configuration Error unless it has.
void require_built(device::Kind kind);

/// A backend whose ops are queued on `stream` of `device`; both outlive it. Throws a configuration Error when absent.
/// `attention` and `algorithms`, null or a list that outlives the backend, are for GPUs; with cudnn, a configuration
/// Error too where cuDNN cannot be used.
[[nodiscard]] std::unique_ptr<Backend> make_backend(device::Device& device, device::Stream& stream,
                                                    AttentionKernels attention = AttentionKernels::own,
                                                    const MatmulAlgorithms* algorithms = nullptr);

/// A backend for what ends a step, beside another one of the same GPU that has all ops: fill, copy, sum_squares,
/// update, update_blockwise and update_factored; any other op is a std::logic_error. It holds no library. Both outlive
/// it.
[[nodiscard]] std::unique_ptr<Backend> make_step_backend(device::Device& gpu, device::Stream& stream);
/// Scratch bytes of its ops, for set_workspace. Pure.
inline constexpr std::size_t step_workspace_bytes = std::size_t{8} << 10;

/// cuDNN as this program would use it. `problem`: why it cannot, with what to do; empty: it can. Loads the library.
struct AttentionLibrary {
  std::string problem;
  std::string name = {};             ///< "cuDNN 9.28.1"
  bool has_backward = false;         ///< that repeats its bits; all have one that does not
  bool has_float32_results = false;  ///< of the forward pass, to which those over other keys are added

  /// Whether it computes the backward pass where `kernels` say that it shall.
  [[nodiscard]] bool computes_backward(AttentionKernels kernels) const {
    return has_backward_of_library(kernels) && (has_backward || !sums_in_order(kernels));
  }
};
[[nodiscard]] AttentionLibrary find_attention_library();

/// What an algorithm on this GPU is for: MatmulAlgorithms::library. `device` is a GPU.
[[nodiscard]] std::string matmul_library(const device::Device& device);

/// Throws a configuration Error where the library of GPUs' products has none with scales of tiles of 8-bit floats:
/// before cuBLAS 12.9. Loads the library.
void require_fp8_tiles();

/// Times, on random numbers, what the heuristic of cuBLASLt proposes for each of `products`, of which the memory need
/// not exist, and takes what is faster by more than the clock's noise; what `known` has of this library is taken as it
/// is. Takes device memory for the time of the call, a third of what is free at most. `device` is a GPU.
[[nodiscard]] MatmulTuning tune_matmul(device::Device& device, const ListedProducts& products,
                                       const MatmulAlgorithms& known);

/// A backend that holds every call against the rules of its op (describe.hpp) before `inner` runs it: std::logic_error
/// names the op and the tensor, and says what it is and what it must be. make_backend's are so where the build says
/// SFT_CHECKED_OPS (the debug preset); tests of the ops always are.
[[nodiscard]] std::unique_ptr<Backend> make_checked_backend(std::unique_ptr<Backend> inner);

/// A backend whose ops `inner` runs, those that may come again with the same arguments by way of a tape on its stream
/// (device::LaunchTape), while that is on; std::logic_error where the stream can have none. What is wrong with an op
/// may then be thrown later, by what settles the tape.
[[nodiscard]] std::unique_ptr<Backend> make_repeated_backend(std::unique_ptr<Backend> inner);

/// Scratch bytes that every op of a model of these shapes needs at most (Backend::set_workspace), `attention` among
/// them. On the CPU they grow with `num_threads`, the OpenMP threads of the rank (machine/node.hpp). Pure.
[[nodiscard]] std::size_t workspace_bytes(device::Kind kind, int num_threads, const Shapes& shapes,
                                          const AttentionNeeds& attention = {});

/// A null backend that notes the matrix products it is given, for products_bytes. `stream` outlives it.
[[nodiscard]] std::unique_ptr<Backend> make_product_counter(device::Stream& stream);

/// A null backend that lists the matrix products it is given, each kind once, cut as a GPU's library needs them.
/// `stream` outlives it.
[[nodiscard]] std::unique_ptr<Backend> make_product_list(device::Stream& stream);
/// What `list`, of make_product_list, was given, over addresses that must not be used.
[[nodiscard]] const ListedProducts& listed_products(const Backend& list);

/// How a run uses the products of a step.
struct ProductUse {
  int num_threads = 1;
  std::int64_t num_lengths = 1;       ///< different numbers of tokens that products are given
  std::int64_t most_expert_rows = 0;  ///< rows that routing gives an expert, at most
};

/// Host memory that the CPU's backend keeps beside its workspace when it is given the products that `counter` was
/// given: their machine code and the library that makes it; none where all of them are small. `counter` is of
/// make_product_counter. Pure but for the instruction set of this processor.
[[nodiscard]] std::size_t products_bytes(const Backend& counter, const ProductUse& use);

/// Host memory that the threads of the ops allocate for the time of a product and may keep: on CPUs without AVX-512,
/// for copies of its operands. Pure but for the instruction set of this processor.
[[nodiscard]] std::size_t product_copies_bytes(device::Kind kind, int num_threads, const Shapes& shapes);

/// Tokens whose logits the loss holds at a time: enough for the head's products to run at full speed, few enough for
/// the (tokens, V) float32 logits to be small beside the parameters; at most shapes.tokens. Pure.
[[nodiscard]] std::int64_t loss_chunk_tokens(device::Kind kind, const Shapes& shapes);

/// "AVX-512 + AMX", "AVX-512 + BF16", "AVX-512", "AVX2" or "baseline": the instruction set the CPU kernels run with
/// (for tables and benchmarks).
[[nodiscard]] const char* cpu_instruction_set();
/// Whether the CPU kernels multiply bf16 numbers as such; else they make float32 of them first, which takes as long as
/// float32 products do.
[[nodiscard]] bool cpu_multiplies_bf16();

}  // namespace sft::ops
