// SPDX-License-Identifier: Apache-2.0
// Which of NCCL's variables are set beside those that the user has set.

#include "comm/nccl/environment.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <map>
#include <string>

namespace {

using Variables = std::map<std::string, std::string>;

/// Those that are set for a user who has set `own`.
Variables variables_for(const Variables& own) {
  const auto set = sft::comm::nccl_variables([&](const char* name) -> const char* {
    const auto found = own.find(name);
    return found == own.end() ? nullptr : found->second.c_str();
  });
  return {set.begin(), set.end()};
}

/// What NCCL_ALGO says of one collective: its own list, or that of all.
std::string list_of(const std::string& algo, const std::string& collective) {
  const std::size_t own = algo.find(";" + collective + ":");
  const std::size_t begin = own == std::string::npos ? 0 : own + collective.size() + 2;
  return algo.substr(begin, algo.find(';', begin) - begin);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(nccl_environment)

BOOST_AUTO_TEST_CASE(nothing_is_summed_in_switches) {
  const Variables set = variables_for({});
  BOOST_TEST(set.at("NCCL_NVLS_ENABLE") == "0");
  BOOST_TEST(set.at("NCCL_COLLNET_ENABLE") == "0");
  BOOST_TEST(set.at("NCCL_LAUNCH_ORDER_IMPLICIT") == "1");
  BOOST_TEST(set.at("NCCL_RUNTIME_CONNECT") == "0");
  BOOST_TEST(set.count("NCCL_ALGO") == 0U);
  BOOST_TEST(variables_for({{"NCCL_NVLS_ENABLE", "0"}}).count("NCCL_ALGO") == 0U);
}

BOOST_AUTO_TEST_CASE(with_nvls_gathers_use_it_and_sums_do_not) {
  for (const char* value : {"1", "2"}) {
    const Variables set = variables_for({{"NCCL_NVLS_ENABLE", value}});
    BOOST_TEST(set.count("NCCL_NVLS_ENABLE") == 0U);
    const std::string algo = set.at("NCCL_ALGO");
    for (const char* collective : {"allgather", "broadcast", "sendrecv"}) {
      BOOST_TEST(list_of(algo, collective) == "^collnetdirect,collnetchain");
    }
    for (const char* sum : {"allreduce", "reducescatter", "reduce"}) {
      BOOST_TEST(list_of(algo, sum) == "^collnetdirect,collnetchain,nvls,nvlstree");
    }
  }
}

BOOST_AUTO_TEST_CASE(what_the_user_has_set_stays) {
  const Variables own{{"NCCL_NVLS_ENABLE", "1"}, {"NCCL_ALGO", ""}, {"NCCL_RUNTIME_CONNECT", "1"}};
  const Variables set = variables_for(own);
  for (const auto& [name, value] : own) BOOST_TEST(set.count(name) == 0U);

  setenv("NCCL_RUNTIME_CONNECT", "1", /*overwrite=*/1);
  unsetenv("NCCL_COLLNET_ENABLE");
  sft::comm::set_nccl_environment();
  BOOST_TEST(std::string(std::getenv("NCCL_RUNTIME_CONNECT")) == "1");
  BOOST_TEST(std::string(std::getenv("NCCL_COLLNET_ENABLE")) == "0");
}

BOOST_AUTO_TEST_SUITE_END()
