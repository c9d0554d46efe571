// SPDX-License-Identifier: Apache-2.0
// Collectives of the CPU on ordinary memory (messages) and on memory that the ranks of a node share (windows), beside a
// plain copy of the same bytes in the same run.
//
//   mpirun -np 4 ./bench_collectives
//
// One line for each collective and size of a rank's part (of the whole tensor for all_reduce), medians over samples of
// messages, windows and copies in turn:
//   cpu_us     processor time of a call, the mean of the ranks: what counts where ranks share cores
//   time_us    from the first rank's begin to the last one's end
//   gb_s       bytes that a rank must send, by time_us
//   of_memcpy  cpu_us over that of copying these bytes once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/comm/session.hpp"
#include "sft/device/factory.hpp"
#include "support/barrier.hpp"
#include "support/collectives_memory.hpp"

namespace {

using namespace sft;

enum class Kind { all_gather, reduce_scatter_add, all_reduce };
constexpr std::size_t largest_part_bytes = std::size_t{16} << 20;

double processor_s() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

struct Cost {
  std::vector<double> processor, elapsed;  ///< seconds of a call, of each sample
};

class Bench {
 public:
  explicit Bench(comm::Session& session)
      : session_(session),
        device_(device::make_device(device::Kind::cpu,
                                    {.num_local_ranks = session.node().size(), .gpu = session.node().rank()})),
        collectives_(comm::make_collectives(*device_, {world()})),
        stream_(device_->make_stream()) {
    const std::size_t size = static_cast<std::size_t>(world().size()), most = largest_part_bytes * size;
    local_ = device_->allocate(largest_part_bytes);
    full_ = device_->allocate(most);
    gathered_ = test::allocate_for_collectives(*collectives_, world(), comm::MemoryUse::gathered, most);
    reduced_ = test::allocate_for_collectives(*collectives_, world(), comm::MemoryUse::reduced, most);
    const comm::StagingPlan plan{most, most};
    device::Arena sizing;
    static_cast<void>(comm::take_staging(device_->kind(), sizing, plan));
    staging_ = device::Arena(*device_, ledger_, device::Label::communication, sizing.used_bytes());
    collectives_->set_staging(comm::take_staging(device_->kind(), staging_, plan));
    std::memset(local_.get(), 0, largest_part_bytes);
    for (const auto* block : {&full_, &gathered_, &reduced_}) std::memset(block->get(), 0, most);
  }

  void print(Kind kind, std::size_t bytes) {
    const char* name = kind == Kind::all_gather           ? "all_gather"
                       : kind == Kind::reduce_scatter_add ? "reduce_scatter_add"
                                                          : "all_reduce";
    const int size = world().size();
    const std::size_t sent = kind == Kind::all_reduce
                                 ? 2 * bytes * static_cast<std::size_t>(size - 1) / static_cast<std::size_t>(size)
                                 : bytes * static_cast<std::size_t>(size - 1);
    const int num_calls = static_cast<int>(std::clamp<std::size_t>((std::size_t{16} << 20) / bytes, 1, 200));
    Cost messages, windows, copies;
    for (int sample = 0; sample < 9; ++sample) {
      measure(messages, num_calls, [&] { call(kind, bytes, full_.get()); });
      measure(windows, num_calls, [&] { call(kind, bytes, (kind == Kind::all_gather ? gathered_ : reduced_).get()); });
      measure(copies, num_calls, [&] { copy(sent); });
    }
    if (world().rank() != 0) return;
    for (const auto& [way, cost] : {std::pair{"messages", &messages}, std::pair{"windows", &windows}}) {
      const double elapsed_s = median(cost->elapsed), cpu_s = median(cost->processor);
      std::printf("%-19s %9zu %-9s %10.1f %10.1f %7.2f %10.2f\n", name, bytes, way, cpu_s * 1e6, elapsed_s * 1e6,
                  static_cast<double>(sent) / elapsed_s / 1e9, cpu_s / median(copies.processor));
    }
    std::fflush(stdout);
  }

 private:
  [[nodiscard]] const comm::Group& world() const { return session_.world(); }

  void call(Kind kind, std::size_t bytes, void* memory) {
    const auto n = static_cast<std::int64_t>(bytes / sizeof(float));
    const Tensor local(local_.get(), DType::float32, {n}), part(memory, DType::float32, {n});
    const Tensor full(memory, DType::float32, {n * world().size()});
    if (kind == Kind::all_gather) collectives_->all_gather(world(), full, local, *stream_);
    if (kind == Kind::reduce_scatter_add) collectives_->reduce_scatter_add(world(), local, full, *stream_);
    if (kind == Kind::all_reduce) collectives_->all_reduce(world(), part, comm::ReduceOp::sum, *stream_);
    stream_->synchronize();
  }

  void copy(std::size_t bytes) {
    for (std::size_t begin = 0; begin < bytes; begin += largest_part_bytes) {
      std::memcpy(local_.get(), static_cast<std::byte*>(full_.get()) + begin,
                  std::min(largest_part_bytes, bytes - begin));
    }
  }

  template <class Work>
  void measure(Cost& cost, int num_calls, const Work& work) {
    test::barrier(world());
    const double processor_begin = processor_s();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < num_calls; ++i) work();
    double processor = processor_s() - processor_begin;
    double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    world().sum(std::span(&processor, 1));
    world().max(std::span(&elapsed, 1));
    cost.processor.push_back(processor / world().size() / num_calls);
    cost.elapsed.push_back(elapsed / num_calls);
  }

  comm::Session& session_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<comm::Collectives> collectives_;
  std::unique_ptr<device::Stream> stream_;
  device::Ledger ledger_;
  device::Arena staging_;
  device::Device::Block local_, full_, gathered_, reduced_;
};

int run(comm::Session& session) {
  Bench bench(session);
  if (session.world().rank() == 0) {
    std::printf("%-19s %9s %-9s %10s %10s %7s %10s\n", "collective", "bytes", "way", "cpu_us", "time_us", "gb_s",
                "of_memcpy");
  }
  for (const Kind kind : {Kind::all_gather, Kind::reduce_scatter_add, Kind::all_reduce}) {
    for (std::size_t bytes = 1 << 10; bytes <= largest_part_bytes; bytes *= 4) bench.print(kind, bytes);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return comm::run_program(argc, argv, run); }
