// SPDX-License-Identifier: Apache-2.0
#pragma once
// What this process queued last on its GPU. A kernel runs after its launch has returned; where it breaks off, CUDA
// answers every later call with the same error and never says which kernel it was. Read by sources of kernels too:
// C++17.

#include <cstdint>
#include <string>
#include <vector>

namespace sft {

/// Notes that a kernel, or work of a library, is about to be queued on a stream, known by its handle. `name` must live
/// as long as the process. From any thread; takes an addition and two stores.
void note_launch(const char* name, const void* stream) noexcept;

/// How often note_launch was called.
[[nodiscard]] std::uint64_t num_launches() noexcept;

/// The names that were noted for the stream since num_launches() was `count`, oldest first; of the last 1024 at most.
[[nodiscard]] std::vector<const char*> launches_since(std::uint64_t count, const void* stream);

/// Notes that the stream has finished what was noted for it before num_launches() was `count`: none of that will break
/// off.
void note_finished(const void* stream, std::uint64_t count);

/// Whether a kernel broke off: `cuda_error`, the number of a cudaError_t, is one of those that CUDA answers with from
/// then on, whatever it is asked.
[[nodiscard]] bool is_of_a_kernel(int cuda_error) noexcept;

/// Throws an Error that names the last launches that may not be finished where is_of_a_kernel(cuda_error). `text`:
/// CUDA's own words for it.
void throw_if_of_a_kernel(int cuda_error, const char* text);

}  // namespace sft
