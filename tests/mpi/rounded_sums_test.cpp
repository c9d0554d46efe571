// SPDX-License-Identifier: Apache-2.0
// Sums whose numbers travel as bf16: rounded once on the way to whoever adds them up, in float32 and in rank order.
#include <algorithm>
#include <cstring>

#include "sft/core/dtype.hpp"
#include "support/collectives_fixture.hpp"
#include "support/collectives_memory.hpp"

namespace sft::test {

namespace {

constexpr std::int64_t rounded_counts[] = {1, 3, 1000, 16'385, 300'001};

/// The sum of what all ranks of the world have at `i`, as it arrives.
float arrived(int size, std::int64_t i) {
  float sum = rounded(noise(0, i));
  for (int r = 1; r < size; ++r) sum += rounded(noise(r, i));
  return sum;
}

/// Each call in three kinds of memory or ways: of messages, of a window, and of copies through the host.
struct RoundedSums : CollectivesFixture {
  RoundedSums() {
    const comm::StagingPlan plan{std::size_t{100} << 10, std::size_t{100} << 10};
    device::Arena sizing;
    (void)comm::take_host_staging(sizing, plan);
    copies = device::Arena(*device, ledger, device::Label::communication, sizing.used_bytes(), device::Space::pinned);
    comm::StagingMemory memory = comm::take_host_staging(copies, plan);
    memory.host_copies = memory.host_copies.rows(0, 16 << 10);  // so little that large sums go in rounds
    through_host->set_staging(memory);
  }

  /// Calls make(collectives, x, wire) with x = this rank's noise in each kind of memory, and check(x) behind it.
  template <class Make, class Check>
  void in_each_way(std::int64_t count, const Make& make, const Check& check) {
    std::vector<std::uint16_t> on_wire(static_cast<std::size_t>(count));
    const Tensor wire = tensor_of(on_wire, DType::bf16);
    const auto try_way = [&](comm::Collectives& way, const Tensor& x) {
      if (size == 1) std::ranges::fill(on_wire, std::uint16_t{0x7fc0});  // nobody rounds
      make(way, x, wire);
      stream->synchronize();
      check(x.as<float>());
    };
    std::vector<float> first = noise_vector<float>(rank, count), second = first;
    try_way(*collectives, tensor_of(first));
    try_way(*through_host, tensor_of(second));
    const auto block = allocate_for_collectives(*collectives, world, comm::MemoryUse::reduced, wire.size_bytes() * 2);
    const std::vector<float> own = noise_vector<float>(rank, count);
    std::memcpy(block.get(), own.data(), own.size() * sizeof(float));
    try_way(*collectives, Tensor(block.get(), DType::float32, {count}));
  }

  device::Arena copies;
  std::unique_ptr<comm::Collectives> through_host =
      comm::make_collectives(*device, {world}, {.way = comm::Transport::Way::host_copy});
};

}  // namespace

BOOST_AUTO_TEST_SUITE(rounded_sums)

BOOST_FIXTURE_TEST_CASE(an_all_reduce_rounds_what_is_sent_and_the_sum, RoundedSums) {
  for (const std::int64_t count : rounded_counts) {
    in_each_way(
        count,
        [&](comm::Collectives& way, const Tensor& x, const Tensor& wire) {
          way.all_reduce(world, x, comm::ReduceOp::sum, *stream, wire);
        },
        [&](const float* sums) {
          std::int64_t num_wrong = 0;
          for (std::int64_t i = 0; i < count; ++i) {
            num_wrong += sums[i] != (size == 1 ? noise(0, i) : rounded(arrived(size, i)));
          }
          BOOST_TEST(num_wrong == 0, count << " elements");
        });
  }
}

BOOST_FIXTURE_TEST_CASE(a_reduce_scatter_rounds_what_is_sent_and_not_the_sum, RoundedSums) {
  for (const std::int64_t count : rounded_counts) {
    in_each_way(
        count * size,
        [&](comm::Collectives& way, const Tensor& x, const Tensor& wire) {
          way.reduce_scatter(world, x, *stream, wire);
        },
        [&](const float* sums) {
          std::int64_t num_wrong = 0;
          for (std::int64_t i = rank * count; i < (rank + 1) * count; ++i) {
            num_wrong += sums[i] != (size == 1 ? noise(0, i) : arrived(size, i));
          }
          BOOST_TEST(num_wrong == 0, count << " elements a rank");
        });
  }
}

BOOST_FIXTURE_TEST_CASE(a_reduce_scatter_adds_it_to_float32, RoundedSums) {
  for (const std::int64_t count : rounded_counts) {
    std::vector<float> local;
    in_each_way(
        count * size,
        [&](comm::Collectives& way, const Tensor& x, const Tensor& wire) {
          local.assign(static_cast<std::size_t>(count), 0.25F);
          way.reduce_scatter_add(world, tensor_of(local), x, *stream, wire);
        },
        [&](const float*) {
          std::int64_t num_wrong = 0;
          for (std::int64_t i = 0; i < count; ++i) {
            const std::int64_t at = rank * count + i;
            const float sum = size == 1 ? noise(0, at) : arrived(size, at);
            num_wrong += local[static_cast<std::size_t>(i)] != 0.25F + sum;
          }
          BOOST_TEST(num_wrong == 0, count << " elements a rank");
        });
  }
}

BOOST_FIXTURE_TEST_CASE(only_sums_of_float32_are_rounded, RoundedSums) {
  if (size == 1) return;
  std::vector<std::uint16_t> on_wire(8 * static_cast<std::size_t>(size));
  const Tensor wire = tensor_of(on_wire, DType::bf16);
  std::vector<double> doubles(on_wire.size());
  std::vector<float> floats(on_wire.size()), longer(on_wire.size() * 2);
  const auto throws = [&](const Tensor& x, comm::ReduceOp op) {
    BOOST_CHECK_THROW(collectives->all_reduce(world, x, op, *stream, wire), std::logic_error);
  };
  throws(tensor_of(doubles), comm::ReduceOp::sum);
  throws(tensor_of(floats), comm::ReduceOp::max);
  throws(tensor_of(longer), comm::ReduceOp::sum);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::test
