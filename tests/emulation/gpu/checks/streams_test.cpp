// SPDX-License-Identifier: Apache-2.0
// Streams, events and memory as CUDA has them, and what may not be done with them.
#include <cuda_runtime_api.h>

#include <boost/test/unit_test.hpp>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "checks/ends_with_fault.hpp"
#include "checks/kernels.hpp"
#include "runtime/stream_queue.hpp"

using namespace sft;
using test::fault_of;

namespace {

constexpr int size = 256;
constexpr std::size_t bytes = size * sizeof(float);

/// Two streams, device memory, pinned memory, an event.
struct Setup {
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t event = nullptr;
  float *device = nullptr, *other = nullptr, *pinned = nullptr;

  Setup() {
    cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaMalloc(reinterpret_cast<void**>(&device), bytes);
    cudaMalloc(reinterpret_cast<void**>(&other), bytes);
    cudaMallocHost(reinterpret_cast<void**>(&pinned), bytes);
    for (int i = 0; i < size; ++i) pinned[i] = 1;
  }
  void upload() const { cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyDefault, first); }
};

/// The message of what `action` does with a Setup, over several orders: at least one, and none that lacks `words`.
void expect_fault(const std::function<void(Setup&)>& action, const std::string& words) {
  for (unsigned long long seed = 0; seed < 5; ++seed) {
    const std::string text = fault_of([&] {
      emulation::set_seed(seed);
      Setup setup;
      action(setup);
      cudaDeviceSynchronize();
    });
    BOOST_TEST(text.find(words) != std::string::npos, "`" << words << "` is not in: " << text);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_missing_wait_is_a_race) {
  expect_fault(
      [](Setup& s) {
        s.upload();
        test::scale(s.device, size, 2, s.second);
      },
      "a race between streams");
}

BOOST_AUTO_TEST_CASE(a_missing_wait_of_a_writer_for_a_reader_is_a_race) {
  expect_fault(
      [](Setup& s) {
        s.upload();
        cudaStreamSynchronize(s.first);
        test::sum(s.device, size, s.other, s.first);
        cudaMemsetAsync(s.device, 0, bytes, s.second);
      },
      "a race between streams");
}

BOOST_AUTO_TEST_CASE(a_writer_waits_for_all_readers) {
  expect_fault(
      [](Setup& s) {
        s.upload();
        cudaStreamSynchronize(s.first);
        cudaStream_t third = nullptr;
        cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking);
        test::sum(s.device, size, s.other, s.first);
        test::sum(s.device, size, s.other + 1, s.second);
        cudaEventRecord(s.event, s.second);
        cudaStreamWaitEvent(third, s.event, 0);
        cudaMemsetAsync(s.device, 0, bytes, third);  // after one of them
      },
      "a race between streams");
}

BOOST_AUTO_TEST_CASE(an_event_orders_streams_over_several_of_them) {
  for (unsigned long long seed = 0; seed < 200; ++seed) {
    emulation::set_seed(seed);
    Setup s;
    cudaStream_t third = nullptr;
    cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking);
    s.upload();
    cudaEventRecord(s.event, s.first);
    cudaStreamWaitEvent(s.second, s.event, 0);
    cudaEventRecord(s.event, s.second);  // the wait before is not moved by this
    cudaStreamWaitEvent(third, s.event, 0);
    test::scale(s.device, size, 2, third);
    cudaEventRecord(s.event, third);
    cudaEventSynchronize(s.event);
    test::sum(s.device, size, s.other, s.second);  // after the host's wait
    cudaMemcpyAsync(s.pinned, s.other, sizeof(float), cudaMemcpyDefault, s.second);
    while (cudaStreamQuery(s.second) == cudaErrorNotReady) {
    }
    BOOST_TEST(s.pinned[0] == 2 * size);
    cudaDeviceSynchronize();
  }
}

BOOST_AUTO_TEST_CASE(a_wait_before_the_record_waits_for_nothing) {
  expect_fault(
      [](Setup& s) {
        s.upload();
        cudaStreamWaitEvent(s.second, s.event, 0);
        cudaEventRecord(s.event, s.first);
        test::scale(s.device, size, 2, s.second);
      },
      "a race between streams");
}

BOOST_AUTO_TEST_CASE(work_runs_late_and_in_different_orders) {
  int num_late = 0, num_first_before_second = 0;
  constexpr int num_seeds = 100;
  for (unsigned long long seed = 0; seed < num_seeds; ++seed) {
    emulation::set_seed(seed);
    Setup s;
    std::string order;
    emulation::enqueue(s.first, "first", [&order] { return order += 'a', true; });
    emulation::enqueue(s.second, "second", [&order] { return order += 'b', true; });
    num_late += order.empty() ? 1 : 0;
    cudaDeviceSynchronize();
    BOOST_TEST(order.size() == 2);
    num_first_before_second += order == "ab" ? 1 : 0;
  }
  BOOST_TEST(num_late == num_seeds);
  BOOST_TEST(num_first_before_second > num_seeds / 5);
  BOOST_TEST(num_first_before_second < num_seeds * 4 / 5);
}

BOOST_AUTO_TEST_CASE(a_stream_waits_for_its_first_task_that_is_not_done) {
  Setup s;
  int num_tries = 0;
  std::string order;
  emulation::enqueue(s.first, "collective", [&] { return ++num_tries == 3; });
  emulation::enqueue(s.first, "behind", [&] { return order += 'a', true; });
  emulation::enqueue(s.second, "beside", [&] { return order += 'b', true; });
  cudaStreamSynchronize(s.second);
  cudaStreamSynchronize(s.first);
  BOOST_TEST(num_tries == 3);
  BOOST_TEST(order.size() == 2);
}

BOOST_AUTO_TEST_CASE(the_host_cannot_touch_device_memory) {
  expect_fault([](Setup& s) { s.device[7] = 1; }, "the host touched byte 28 of the 1024 bytes of device allocation");
  expect_fault([](Setup& s) { s.pinned[0] = s.device[0]; }, "the host touched byte 0");
}

BOOST_AUTO_TEST_CASE(what_was_destroyed_cannot_be_used) {
  const auto destroy_stream = [](Setup& s) { cudaStreamDestroy(s.first); };
  expect_fault([&](Setup& s) { destroy_stream(s), s.upload(); }, "cudaMemcpyAsync was given a destroyed stream");
  expect_fault([&](Setup& s) { destroy_stream(s), cudaEventRecord(s.event, s.first); }, "a destroyed stream");
  expect_fault([&](Setup& s) { destroy_stream(s), test::scale(s.device, size, 2, s.first); }, "a destroyed stream");
  const auto destroy_event = [](Setup& s) { cudaEventDestroy(s.event); };
  expect_fault([&](Setup& s) { destroy_event(s), cudaEventRecord(s.event, s.first); }, "given a destroyed event");
  expect_fault([&](Setup& s) { destroy_event(s), cudaStreamWaitEvent(s.first, s.event, 0); }, "a destroyed event");
  expect_fault([&](Setup& s) { destroy_event(s), cudaEventDestroy(s.event); }, "given a destroyed event");
  expect_fault([](Setup& s) { cudaEventRecord(reinterpret_cast<cudaEvent_t>(s.first), s.first); }, "never was");
}

BOOST_AUTO_TEST_CASE(freed_memory_cannot_be_used) {
  expect_fault([](Setup& s) { cudaFree(s.device), cudaFree(s.device); }, "cudaFree of byte 0 of the freed 1024 bytes");
  expect_fault([](Setup& s) { cudaFree(s.device + 1); }, "cudaFree of byte 4 of the 1024 bytes");
  expect_fault([](Setup& s) { cudaFree(s.pinned); }, "cudaFree of byte 0 of the 1024 bytes of pinned");
  expect_fault([](Setup& s) { cudaFree(s.device), s.upload(); }, "cudaMemcpyAsync of byte 0 of the freed 1024 bytes");
  expect_fault(
      [](Setup& s) {
        test::scale(s.device, size, 2, s.first);
        cudaFree(s.device);
      },
      "kernel scale");
}

BOOST_AUTO_TEST_CASE(copies_stay_within_their_allocations) {
  expect_fault([](Setup& s) { cudaMemcpyAsync(s.device + 1, s.pinned, bytes, cudaMemcpyDefault, s.first); },
               "beyond its end");
  expect_fault([](Setup& s) { cudaMemsetAsync(s.device + 1, 0, bytes, s.first); }, "beyond its end");
  expect_fault([](Setup& s) { cudaMemcpyAsync(s.device, s.other, bytes, cudaMemcpyHostToDevice, s.first); },
               "the kind of the copy");
  expect_fault([](Setup& s) { cudaMemcpyAsync(s.device, s.device + 1, 8, cudaMemcpyDefault, s.first); }, "overlap");
}

BOOST_AUTO_TEST_CASE(pageable_memory_is_staged_or_waited_for) {
  for (unsigned long long seed = 0; seed < 20; ++seed) {
    emulation::set_seed(seed);
    Setup s;
    const long copies_before = emulation::host_counts().pageable_copies;
    std::vector<float> host(size, 3);
    cudaMemcpyAsync(s.device, host.data(), bytes, cudaMemcpyDefault, s.first);
    host.assign(size, 0);
    cudaMemcpyAsync(host.data(), s.device, bytes, cudaMemcpyDefault, s.first);
    BOOST_TEST(host[size - 1] == 3);
    BOOST_TEST(emulation::host_counts().pageable_copies == copies_before + 2);
  }
}

BOOST_AUTO_TEST_CASE(work_makes_no_cuda_call) {
  expect_fault(
      [](Setup& s) {
        cudaLaunchHostFunc(
            s.first, [](void* e) { cudaEventQuery(static_cast<cudaEvent_t>(e)); }, s.event);
      },
      "which may make no CUDA call");
}

BOOST_AUTO_TEST_CASE(launches_that_cuda_refuses_are_refused) {
  Setup s;
  const auto is_refused = [&](dim3 grid, dim3 block, std::size_t shared_bytes) {
    try {
      test::launch_empty(grid, block, shared_bytes, s.first);
    } catch (const std::runtime_error&) {
      return true;
    }
    return false;
  };
  BOOST_TEST(!is_refused(1, 1024, 163 << 10));
  BOOST_TEST(is_refused(0, 1, 0));
  BOOST_TEST(is_refused(1, 0, 0));
  BOOST_TEST(is_refused(1, 1025, 0));
  BOOST_TEST(is_refused(1, dim3(1, 1, 65), 0));
  BOOST_TEST(is_refused(dim3(1, 65536), 1, 0));
  BOOST_TEST(is_refused(1, 1, (163 << 10) + 1));
  cudaDeviceSynchronize();
}

BOOST_AUTO_TEST_CASE(memory_is_limited_and_filled_with_what_is_no_number) {
  Setup s;
  std::size_t free_bytes = 0, total_bytes = 0;
  BOOST_TEST(cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess);
  void* memory = nullptr;
  BOOST_TEST(cudaMalloc(&memory, free_bytes + 1) == cudaErrorMemoryAllocation);
  BOOST_TEST(cudaGetLastError() == cudaErrorMemoryAllocation);
  BOOST_TEST(cudaGetLastError() == cudaSuccess);
  cudaMemcpyAsync(s.pinned, s.device, bytes, cudaMemcpyDefault, s.first);
  cudaStreamSynchronize(s.first);
  BOOST_TEST(s.pinned[size - 1] != s.pinned[size - 1]);
}

BOOST_AUTO_TEST_CASE(another_device_has_other_memory) {
  expect_fault(
      [](Setup& s) {
        cudaSetDevice(1);
        cudaStream_t stream = nullptr;
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        test::scale(s.device, size, 2, stream);
        cudaDeviceSynchronize();
      },
      "memory of another GPU");
}

BOOST_AUTO_TEST_CASE(every_thread_says_which_device_it_uses) {
  expect_fault(
      [](Setup& s) {
        cudaSetDevice(0);
        std::thread([&s] { cudaStreamQuery(s.first); }).join();
      },
      "cudaStreamQuery was called by a thread that has chosen no device");
}
