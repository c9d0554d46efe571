// SPDX-License-Identifier: Apache-2.0
#include "support/collectives_fixture.hpp"

namespace sft::test {

namespace {

constexpr std::int64_t part_elements = 50'000;  // several rounds of the staging memory

struct TwoStreams : CollectivesFixture {
  std::unique_ptr<device::Stream> other = device->make_stream();
};

std::vector<float> gathered(int size) {
  std::vector<float> all;
  for (int r = 0; r < size; ++r) {
    const std::vector<float> part = noise_vector<float>(r, part_elements);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(streams)

BOOST_FIXTURE_TEST_CASE(collectives_of_one_stream_run_in_order, TwoStreams) {
  // Each call uses what the one before it made, and nothing is waited for in between.
  std::vector<float> part = noise_vector<float>(0, part_elements);
  if (rank != 0) std::fill(part.begin(), part.end(), -1.0F);
  std::vector<float> full(part.size() * static_cast<std::size_t>(size)), sum(part.size(), 0.0F);
  collectives->all_reduce(world, tensor_of(part), comm::ReduceOp::max, *stream);
  collectives->all_gather(world, tensor_of(full), tensor_of(part), *stream);
  collectives->reduce_scatter_add(world, tensor_of(sum), tensor_of(full), *stream);
  collectives->all_reduce(world, tensor_of(sum), comm::ReduceOp::max, *stream);
  stream->synchronize();
  std::vector<float> expected = noise_vector<float>(0, part_elements);
  for (float& value : expected) {
    float total = value;
    for (int r = 1; r < size; ++r) total += value;
    value = total;
  }
  BOOST_TEST((sum == expected));
}

BOOST_FIXTURE_TEST_CASE(streams_overlap_and_may_be_waited_for_in_any_order, TwoStreams) {
  for (const bool first_stream_first : {true, false}) {
    std::vector<float> part = noise_vector<float>(rank, part_elements);
    std::vector<float> full(part.size() * static_cast<std::size_t>(size));
    std::vector<float> gradients = gathered(size), shard(part.size(), 0.0F);
    std::vector<float> mine = noise_vector<float>(rank + 100, 3000), theirs(mine.size());
    std::vector<float> total = noise_vector<float>(rank, 100'000);
    collectives->all_gather(world, tensor_of(full), tensor_of(part), *stream);
    collectives->reduce_scatter_add(world, tensor_of(shard), tensor_of(gradients), *other);
    collectives->exchange(world, tensor_of(mine), (rank + 1) % size, tensor_of(theirs), (rank - 1 + size) % size,
                          *stream);
    collectives->all_reduce(world, tensor_of(total), comm::ReduceOp::sum, *other);
    for (int i = 0; i < 100; ++i) {
      stream->poll();
      other->poll();
    }
    (first_stream_first ? stream : other)->synchronize();
    (first_stream_first ? other : stream)->synchronize();
    BOOST_TEST((full == gathered(size)));
    BOOST_TEST((theirs == noise_vector<float>((rank - 1 + size) % size + 100, 3000)));
    BOOST_TEST(same_on_all_ranks(world, total));
    const std::vector<float> piece = noise_vector<float>(rank, part_elements);
    std::int64_t num_wrong = 0;
    for (std::size_t i = 0; i < piece.size(); ++i) {
      float sum = piece[i];
      for (int r = 1; r < size; ++r) sum += piece[i];
      num_wrong += shard[i] != sum;
    }
    BOOST_TEST(num_wrong == 0);
  }
}

BOOST_FIXTURE_TEST_CASE(reductions_on_two_streams_share_the_staging_memory, TwoStreams) {
  std::vector<float> first_full = noise_vector<float>(rank, part_elements * size), second_full = first_full;
  std::vector<float> first(part_elements, 0.0F), second(part_elements, 0.0F);
  collectives->reduce_scatter_add(world, tensor_of(first), tensor_of(first_full), *stream);
  collectives->reduce_scatter_add(world, tensor_of(second), tensor_of(second_full), *other);
  other->synchronize();
  stream->synchronize();
  BOOST_TEST((first == second));
}

BOOST_FIXTURE_TEST_CASE(an_event_ends_with_its_collective, TwoStreams) {
  const auto event = device->make_event();
  std::vector<float> part = noise_vector<float>(rank, part_elements);
  std::vector<float> full(part.size() * static_cast<std::size_t>(size));
  std::vector<float> total(10, 1.0F);
  collectives->all_gather(world, tensor_of(full), tensor_of(part), *stream);
  event->record(*stream);
  collectives->all_reduce(world, tensor_of(total), comm::ReduceOp::sum, *stream);
  other->wait(*event);
  BOOST_TEST((full == gathered(size)));
  stream->synchronize();
  BOOST_TEST(total[9] == static_cast<float>(size));
}

BOOST_FIXTURE_TEST_CASE(ranks_need_not_keep_pace, TwoStreams) {
  // Every rank waits at other places than its neighbours.
  std::vector<std::vector<float>> totals(20, std::vector<float>(2000, 1.0F));
  for (std::size_t i = 0; i < totals.size(); ++i) {
    collectives->all_reduce(world, tensor_of(totals[i]), comm::ReduceOp::sum, *stream);
    if (i % static_cast<std::size_t>(rank + 2) == 0) stream->synchronize();
  }
  stream->synchronize();
  for (const std::vector<float>& total : totals) BOOST_TEST(total.back() == static_cast<float>(size));
}

}  // namespace sft::test

BOOST_AUTO_TEST_SUITE_END()
