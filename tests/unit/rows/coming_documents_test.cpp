// SPDX-License-Identifier: Apache-2.0
#include "sft/rows/coming_documents.hpp"

#include <boost/test/unit_test.hpp>
#include <vector>

#include "sft/sequence/attention_schedule.hpp"
#include "support/packed_file.hpp"
#include "support/temporary_folder.hpp"

using namespace sft::rows;

namespace {

constexpr std::int64_t max_length = 200;

/// 40 rows of one to four documents.
struct PackedRows {
  PackedRows() {
    std::vector<Row> rows;
    for (std::int32_t r = 0; r < 40; ++r) {
      std::vector<std::int32_t> lengths = {3 + r * 2};
      for (std::int32_t i = 0; i < r % 4; ++i) lengths.push_back(1 + (7 * r + i) % 30);
      rows.push_back({.tokens = std::vector<std::int32_t>(max_length, 1),
                      .loss_weight = std::vector<float>(max_length, 1.0f),
                      .document_lengths = lengths});
    }
    sft::test::write_packed_file(folder.file("rows.h5"), rows, 64);
  }
  [[nodiscard]] PackedDataset open() const { return PackedDataset({folder.file("rows.h5")}); }
  sft::test::TemporaryFolder folder;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(coming_documents_of_a_rank, PackedRows)

// Schedules that follow from them are those of the micro-batches that the loader delivers.
BOOST_AUTO_TEST_CASE(they_are_those_that_the_loader_delivers) {
  for (const OrderKind order : {OrderKind::trl, OrderKind::endless}) {
    for (const int data_size : {1, 3}) {
      for (const int sp_size : {1, 2}) {
        LoaderPlan plan{.rows_per_micro_batch = 3,
                        .micro_batches = 2,
                        .data_size = data_size,
                        .sp_size = sp_size,
                        .local_multiple = 4,
                        .attention_windows = {0, 20},
                        .first_step = 1,
                        .last_step = 9,
                        .order = order};
        for (plan.data_rank = 0; plan.data_rank < data_size; ++plan.data_rank) {
          const PackedDataset dataset = open(), same = open();
          const std::vector<ComingMicroBatch> coming = coming_documents(dataset, plan, 1000);
          Loader loader(same, plan);
          std::size_t num_seen = 0;
          for (int i = 0; i < 16; ++i) {
            const MicroBatch batch = loader.next();
            // The first rank of sp has the beginning of the first document, if there is one.
            if (batch.attention.front().rounds.front().spans.empty()) continue;
            BOOST_TEST_REQUIRE(num_seen < coming.size());
            const ComingMicroBatch& documents = coming[num_seen++];
            const auto schedules = sft::sequence::make_schedules(
                plan.attention_method, plan.attention_windows, {documents.documents},
                sft::sequence::RowCut(documents.row_length, sp_size), sft::SpRank::from(plan.sp_rank));
            for (const auto kind : schedules.indices()) {
              BOOST_TEST((schedules[kind].rounds == batch.attention[kind].rounds));
              BOOST_TEST(schedules[kind].num_tokens == batch.attention[kind].num_tokens);
            }
          }
          BOOST_TEST(num_seen == coming.size());
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(so_many_rows_are_enough) {
  const PackedDataset dataset = open();
  const LoaderPlan plan{
      .rows_per_micro_batch = 3, .micro_batches = 2, .last_step = std::int64_t{1} << 40, .order = OrderKind::endless};
  BOOST_TEST(coming_documents(dataset, plan, 1).size() == 1U);
  BOOST_TEST(coming_documents(dataset, plan, 7).size() == 3U);
  BOOST_TEST(coming_documents(dataset, {.first_step = 2, .last_step = 2}, 7).empty());
}

BOOST_AUTO_TEST_SUITE_END()
