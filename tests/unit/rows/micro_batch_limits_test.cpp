// SPDX-License-Identifier: Apache-2.0
#include "sft/rows/micro_batch_limits.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>

#include "sft/sequence/row_cut.hpp"
#include "support/packed_file.hpp"
#include "support/temporary_folder.hpp"

using namespace sft::rows;

namespace micro_batch_limits {
namespace {

constexpr std::int64_t max_length = 200;

/// 40 rows of 3 to 159 tokens.
struct MixedRows {
  MixedRows() {
    std::vector<Row> rows;
    for (std::int32_t r = 0; r < 40; ++r) {
      rows.push_back({.tokens = std::vector<std::int32_t>(max_length, 1),
                      .loss_weight = std::vector<float>(max_length, 1.0f),
                      .document_lengths = {3 + r * 4}});
    }
    sft::test::write_packed_file(folder.file("mixed.h5"), rows, 64);
  }
  [[nodiscard]] PackedDataset open() const { return PackedDataset({folder.file("mixed.h5")}); }
  sft::test::TemporaryFolder folder;
};

}  // namespace
}  // namespace micro_batch_limits

BOOST_FIXTURE_TEST_SUITE(micro_batch_limits, micro_batch_limits::MixedRows)

BOOST_AUTO_TEST_CASE(limits_are_those_of_the_micro_batches_that_come) {
  const PackedDataset dataset = open();
  for (const int data_size : {1, 3}) {
    for (const int sp_size : {1, 2}) {
      LoaderPlan plan{
          .rows_per_micro_batch = 3, .micro_batches = 2, .data_size = data_size, .sp_size = sp_size, .last_step = 9};
      const MicroBatchLimits limits = measure_limits(dataset, plan);
      std::set<std::int64_t> lengths;
      for (plan.data_rank = 0; plan.data_rank < data_size; ++plan.data_rank) {
        const PackedDataset same = open();
        Loader loader(same, plan);
        for (int i = 0; i < 18; ++i) lengths.insert(std::ssize(loader.next().tokens) * sp_size);
      }
      BOOST_TEST(limits.tokens == *lengths.rbegin());
      BOOST_TEST(limits.num_lengths == std::ssize(lengths));
      BOOST_TEST(limits.document_tokens == 159);
      BOOST_TEST(limits.tokens < 3 * max_length);
    }
  }
}

BOOST_AUTO_TEST_CASE(long_runs_have_the_longest_rows_as_their_limit) {
  const PackedDataset dataset = open();
  LoaderPlan plan{.rows_per_micro_batch = 1, .last_step = std::int64_t{1} << 40, .order = OrderKind::endless};
  BOOST_TEST(measure_limits(dataset, plan).tokens == 160);  // 159, rounded up
  plan.rows_per_micro_batch = 3;
  BOOST_TEST(measure_limits(dataset, plan).tokens == 480);  // 159 at the end of an epoch and again, and 155
  plan.rows_per_micro_batch = 4000;                         // all rows, a hundred times
  BOOST_TEST(measure_limits(dataset, plan).tokens >= 100 * 40 * 81);
  BOOST_TEST(measure_limits(dataset, plan).tokens <= 4000 * max_length);
  BOOST_TEST(measure_limits(dataset, plan).document_tokens == 159);
  plan.order = OrderKind::trl;  // no step has a row twice
  BOOST_TEST(measure_limits(dataset, plan).tokens == sft::sequence::joined_row_length(40 * 81, 4000 * max_length, 1));
  BOOST_TEST(measure_limits(dataset, {.last_step = 0}).tokens == 1);
}

BOOST_AUTO_TEST_CASE(either_of_two_is_the_larger) {
  MicroBatchLimits limits{.tokens = 5, .document_tokens = 4, .num_lengths = 1};
  limits |= MicroBatchLimits{.tokens = 3, .document_tokens = 9, .num_lengths = 7};
  BOOST_TEST(limits.tokens == 5);
  BOOST_TEST(limits.document_tokens == 9);
  BOOST_TEST(limits.num_lengths == 7);
}

BOOST_AUTO_TEST_SUITE_END()
