// SPDX-License-Identifier: Apache-2.0
// Ten training steps are those of one rank on meshes of up to 16 ranks, with stages, resharding, units, methods of
// attention, recomputation and offloading in all pairs.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "equivalence/baselines.hpp"
#include "equivalence/split_table.hpp"
#include "support/mpi_session.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(splits)

namespace {

using namespace sft;
using test::session;
using test::SplitCase;

std::vector<SplitCase> own_cases() {
  std::vector<SplitCase> cases = test::split_table();
  std::erase_if(cases, [](const SplitCase& c) { return c.layout.size() != session().world().size(); });
  return cases;
}

test::Trajectory run(const SplitCase& c) {
  static const test::TemporaryFolder folder;
  const config::Config config = c.config(folder.path());
  const test::Mesh mesh(session().world(), c.layout, c.task().model(), config.parallel);
  return test::train(c.task(), config, mesh, session());
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_table_has_every_pair) {
  const std::vector<SplitCase> cases = test::split_table();
  for (const std::string& missing : test::missing_combinations(cases)) BOOST_ERROR("no case has " << missing);
  std::set<std::string> meshes;
  for (const SplitCase& c : cases) {
    BOOST_TEST(c.is_legal(), c.name());
    meshes.insert(c.layout.describe());
  }
  BOOST_TEST(meshes.size() >= 80U);
  // Few of them miss some: the check above can fail.
  const std::vector<SplitCase> few(cases.begin(), cases.begin() + 8);
  BOOST_TEST(!test::missing_combinations(few).empty());
}

BOOST_AUTO_TEST_CASE(every_split_trains_like_one_rank) {
  const std::vector<SplitCase> cases = own_cases();
  std::vector<test::Task> tasks;
  std::ranges::transform(cases, std::back_inserter(tasks), &SplitCase::task);
  const test::Baselines baselines(tasks, session());
  for (const SplitCase& c : cases) {
    const test::Deviation worst = test::deviation(run(c), baselines.of(c.task()));
    BOOST_TEST_MESSAGE(c.name() << ": loss " << worst.loss << ", grad norm " << worst.grad_norm);
    BOOST_TEST(worst.loss <= 1e-5, c.name() << ": " << worst.loss);
    BOOST_TEST(worst.grad_norm <= 1e-4, c.name() << ": " << worst.grad_norm);
  }
}

BOOST_AUTO_TEST_CASE(the_same_split_twice_has_the_same_bits) {
  const SplitCase last = own_cases().back();
  const test::Trajectory first = run(last), second = run(last);
  for (std::size_t step = 0; step < first.size(); ++step) {
    BOOST_TEST(first[step].loss == second[step].loss, last.name());
    BOOST_TEST(first[step].grad_norm == second[step].grad_norm, last.name());
  }
}

BOOST_AUTO_TEST_SUITE_END()
