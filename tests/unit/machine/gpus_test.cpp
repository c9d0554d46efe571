// SPDX-License-Identifier: Apache-2.0
// Which GPU each rank of a node takes, from what they see.
#include "sft/machine/gpus.hpp"

#include <boost/test/unit_test.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace sft::machine {

namespace {

Gpu make_gpu(const std::string& uuid, int compute_capability = 90) {
  return {uuid, compute_capability, std::size_t{80} << 30, "NVIDIA H100 80GB HBM3"};
}

VisibleGpus see(const std::vector<std::string>& uuids) {
  VisibleGpus visible;
  for (const std::string& uuid : uuids) visible.gpus.push_back(make_gpu(uuid));
  if (uuids.empty()) visible.problem = "the node shows none";
  return visible;
}

/// The UUIDs that the ranks get; the message for those that get none.
std::vector<std::string> deal(const std::vector<VisibleGpus>& seen, bool may_share = false) {
  std::vector<std::string> result;
  const std::vector<DealtGpu> dealt = deal_gpus(seen, may_share);
  BOOST_TEST_REQUIRE(dealt.size() == seen.size());
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    const DealtGpu& gpu = dealt[rank];
    if (gpu.refusal) BOOST_TEST((gpu.refusal->status() == ExitStatus::configuration));
    result.push_back(gpu.refusal ? gpu.refusal->what() : seen[rank].gpus.at(static_cast<std::size_t>(gpu.index)).uuid);
  }
  return result;
}

using Texts = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_SUITE(gpus)

BOOST_AUTO_TEST_CASE(where_all_ranks_see_all_gpus_a_rank_takes_that_of_its_number) {
  const VisibleGpus all = see({"a", "b", "c", "d"});
  BOOST_TEST(deal({all, all, all, all}) == (Texts{"a", "b", "c", "d"}), boost::test_tools::per_element());
  BOOST_TEST(deal({all, all}) == (Texts{"a", "b"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(where_each_rank_sees_one_of_its_own_it_takes_it) {
  const std::vector<VisibleGpus> seen{see({"c"}), see({"a"}), see({"b"})};
  BOOST_TEST(deal(seen) == (Texts{"c", "a", "b"}), boost::test_tools::per_element());
  for (const DealtGpu& gpu : deal_gpus(seen, false)) {
    BOOST_TEST(gpu.index == 0);
    BOOST_TEST(gpu.num_sharing == 1);
  }
}

BOOST_AUTO_TEST_CASE(gpus_that_are_shown_to_several_ranks_go_to_the_first) {
  BOOST_TEST(deal({see({"a", "b"}), see({"a", "b"}), see({"c", "d"}), see({"c", "d"})}) == (Texts{"a", "b", "c", "d"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(fewer_gpus_than_ranks_are_refused) {
  const VisibleGpus all = see({"a", "b"});
  const Texts result = deal({all, all, all});
  BOOST_TEST(result[1] == "b");
  BOOST_TEST(result[2].starts_with("3 ranks on a node where they see 2 GPUs (each rank needs one of its own): "));
  BOOST_TEST(result[2].find("comm = host") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_same_single_gpu_shown_to_two_ranks_is_refused) {
  const Texts result = deal({see({"a"}), see({"a"})});
  BOOST_TEST(result[0] == "a");
  BOOST_TEST(result[1].starts_with("2 ranks on a node where they see 1 GPU ("));
}

BOOST_AUTO_TEST_CASE(shared_gpus_are_dealt_evenly) {
  const VisibleGpus all = see({"a", "b"});
  const std::vector<VisibleGpus> seen(5, all);
  BOOST_TEST(deal(seen, true) == (Texts{"a", "b", "a", "b", "a"}), boost::test_tools::per_element());
  const std::vector<DealtGpu> dealt = deal_gpus(seen, true);
  BOOST_TEST(dealt[0].num_sharing == 3);
  BOOST_TEST(dealt[3].num_sharing == 2);
}

BOOST_AUTO_TEST_CASE(gpus_that_cannot_run_the_kernels_are_passed_over) {
  VisibleGpus mixed = see({"a", "b"});
  mixed.gpus[0].compute_capability = 75;
  BOOST_TEST(deal({mixed}) == (Texts{"b"}), boost::test_tools::per_element());
  const Texts result = deal({mixed, mixed});
  BOOST_TEST(result[1].starts_with("2 ranks on a node where they see 1 GPU ("));
  mixed.gpus.pop_back();
  BOOST_TEST(deal({mixed})[0].starts_with(
      "the GPU NVIDIA H100 80GB HBM3 cannot run this program (its compute capability is 7.5, the least is 8.0): "));
}

BOOST_AUTO_TEST_CASE(a_rank_that_sees_none_is_refused_also_where_others_see_some) {
  const Texts result = deal({see({"a"}), see({})}, true);
  BOOST_TEST(result[0] == "a");
  BOOST_TEST(result[1].starts_with("no CUDA device (the node shows none): "));
}

BOOST_AUTO_TEST_CASE(what_a_rank_sees_travels_as_text) {
  for (const VisibleGpus& visible : {see({}), see({"GPU-00ff"}), see({"a", "b"})}) {
    const VisibleGpus again = from_text(to_text(visible));
    BOOST_TEST(again.problem == visible.problem);
    BOOST_TEST_REQUIRE(again.gpus.size() == visible.gpus.size());
    for (std::size_t i = 0; i < visible.gpus.size(); ++i) {
      BOOST_TEST(again.gpus[i].uuid == visible.gpus[i].uuid);
      BOOST_TEST(again.gpus[i].compute_capability == visible.gpus[i].compute_capability);
      BOOST_TEST(again.gpus[i].memory_bytes == visible.gpus[i].memory_bytes);
      BOOST_TEST(again.gpus[i].name == visible.gpus[i].name);
    }
  }
  BOOST_CHECK_THROW((void)from_text(""), std::logic_error);
  BOOST_CHECK_THROW((void)from_text("\nGPU-1 90\n"), std::logic_error);
}

BOOST_AUTO_TEST_CASE(this_process_sees_gpus_or_says_why_not) {
  const VisibleGpus visible = visible_gpus();
  BOOST_TEST(visible.gpus.empty() == !visible.problem.empty());
}

}  // namespace sft::machine

BOOST_AUTO_TEST_SUITE_END()
