// SPDX-License-Identifier: Apache-2.0
// What a kernel may not do ends the program with a message that says what and where.
#include <cuda_runtime_api.h>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "checks/ends_with_fault.hpp"
#include "checks/faulty_kernels.hpp"
#include "checks/kernels.hpp"
#include "runtime/stream_queue.hpp"

namespace bdata = boost::unit_test::data;
using namespace sft;
using test::Fault;
using test::fault_of;

namespace {

struct Case {
  Fault fault;
  std::vector<std::string> words;  ///< of the message
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.words.front(); }

const std::vector<Case> cases{
    {Fault::shared_read_without_barrier, {"of shared memory: a race", "no barrier lies between", ".cu:"}},
    {Fault::shared_write_without_barrier, {"of shared memory: a race", "no barrier lies between"}},
    {Fault::barrier_of_warps_for_a_block, {"of shared memory: a race", "no barrier lies between"}},
    {Fault::shared_out_of_bounds,
     {"thread (63, 0, 0) writes 4 bytes at byte 256 of the 256 bytes of shared memory", "not within"}},
    {Fault::device_out_of_bounds, {"thread (63, 0, 0) reads 4 bytes at byte 512 of the 512 bytes of device"}},
    {Fault::device_out_of_bounds_by_memcpy, {"reads 256 bytes at byte 260 of the 512 bytes", "not within the memory"}},
    {Fault::misaligned_vector, {"misaligned", "device allocation 1"}},
    {Fault::barrier_in_a_branch, {"wait for others that do not come", "thread (32, 0, 0) and on has ended"}},
    {Fault::barriers_at_two_places, {"wait for others that do not come", "__syncthreads at faulty_kernels.cu"}},
    {Fault::barrier_after_threads_ended, {"wait for others that do not come", "thread (5, 0, 0) and on has ended"}},
    {Fault::exchange_without_all_lanes, {"wait for others that do not come", "__shfl_xor_sync at faulty_kernels.cu"}},
    {Fault::exchange_from_a_lane_that_is_absent, {"by __shfl_xor_sync from lane", "which does not take part"}},
    {Fault::mask_without_the_lane, {"with a mask without this lane"}},
    {Fault::blocks_write_the_same, {"a race, another block of this kernel wrote it"}},
    {Fault::block_reads_what_another_writes, {"a race, another block of this kernel"}},
    {Fault::atomic_and_plain, {"a race"}},
    {Fault::host_memory, {"reads 4 bytes at ordinary host memory"}},
    {Fault::stack_of_another_thread, {"thread (1, 0, 0) writes 4 bytes at ordinary host memory"}},
    {Fault::copy_not_waited_for, {"ended before it waited for its cp.async copies"}},
    {Fault::copy_read_before_the_wait, {"a race"}},
    {Fault::copy_over_what_others_read, {"of shared memory", ": a race"}},
    {Fault::copy_of_nothing_from_a_misaligned_address, {"cp.async of 16 bytes from a misaligned address"}},
};

float* device_floats(int count) {
  void* memory = nullptr;
  BOOST_REQUIRE(cudaMalloc(&memory, static_cast<std::size_t>(count) * sizeof(float)) == cudaSuccess);
  return static_cast<float*>(memory);
}

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  BOOST_REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  return stream;
}

void check_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    BOOST_TEST(text.find(word) != std::string::npos, "`" << word << "` is not in: " << text);
  }
}

}  // namespace

BOOST_DATA_TEST_CASE(faulty_kernels_are_caught_in_every_order, bdata::make(cases) ^ bdata::xrange(cases.size()), c,
                     number) {
  (void)number;
  for (unsigned long long seed = 0; seed < 5; ++seed) {
    const std::string text = fault_of([&] {
      emulation::set_seed(seed);
      float* const values = device_floats(128);
      const cudaStream_t stream = new_stream();
      test::commit(c.fault, values, stream);
      cudaStreamSynchronize(stream);
    });
    check_words(text, c.words);
    check_words(text, {"emulated GPU: ", "SFT_EMULATION_SEED=" + std::to_string(seed)});
  }
}

BOOST_AUTO_TEST_CASE(a_missing_fence_is_caught_and_a_fence_is_enough) {
  const auto run = [](bool has_fence) {
    float *values = device_floats(1000), *partials = device_floats(4), *total = device_floats(1);
    auto* const count = reinterpret_cast<unsigned*>(device_floats(1));
    const cudaStream_t stream = new_stream();
    cudaMemsetAsync(values, 0, 1000 * sizeof(float), stream);
    cudaMemsetAsync(count, 0, sizeof(unsigned), stream);
    test::sum_by_last_block(values, 1000, partials, count, total, has_fence, stream);
    test::sum_by_last_block(values, 1000, partials, count, total, has_fence, stream);
    float result = 1;
    cudaMemcpyAsync(&result, total, sizeof(float), cudaMemcpyDefault, stream);
    BOOST_TEST(result == 0);
  };
  run(true);
  check_words(fault_of([&] { run(false); }), {"reads 4 bytes", "another block of this kernel wrote it"});
}
