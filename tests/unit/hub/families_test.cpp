// SPDX-License-Identifier: Apache-2.0
// Properties of all families together.

#include <boost/test/unit_test.hpp>
#include <set>
#include <string>

#include "hub/families/family.hpp"

using namespace sft;

BOOST_AUTO_TEST_SUITE(families)

BOOST_AUTO_TEST_CASE(each_family_has_names_of_its_own_and_can_be_read) {
  std::set<std::string> architectures, model_types;
  for (const hub::Family& family : hub::all_families()) {
    BOOST_TEST(architectures.insert(family.architecture).second, family.architecture);
    BOOST_TEST(model_types.insert(family.model_type).second, family.model_type);
    BOOST_TEST(hub::find_family(family.model_type) == &family);
    BOOST_TEST((family.read != nullptr), family.architecture);
    BOOST_TEST((family.choices.empty() || family.write != nullptr), family.architecture);
  }
  BOOST_TEST(hub::find_family("bert") == nullptr);
}

BOOST_AUTO_TEST_CASE(no_model_can_be_written_as_one_of_two_families) {
  const auto may_be_both = [](const hub::Choice& a, const hub::Choice& b) {
    return (a.required & ~(b.required | b.possible)) == 0 && (b.required & ~(a.required | a.possible)) == 0;
  };
  for (const hub::Family& one : hub::all_families()) {
    for (const hub::Family& other : hub::all_families()) {
      if (&one == &other) continue;
      for (const hub::Choice& a : one.choices) {
        for (const hub::Choice& b : other.choices) {
          BOOST_TEST(!may_be_both(a, b), one.architecture << " and " << other.architecture);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
