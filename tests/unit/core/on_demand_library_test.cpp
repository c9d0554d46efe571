// SPDX-License-Identifier: Apache-2.0
// Libraries that are loaded at their first use: functions are found, and who lacks one is told what to do.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "sft/core/on_demand_library.hpp"
#include "support/config_error.hpp"

BOOST_AUTO_TEST_SUITE(on_demand_library)

BOOST_AUTO_TEST_CASE(the_first_file_that_loads_is_used) {
  sft::OnDemandLibrary library("the math library", {"libno_such_library.so.1", "libm.so.6"}, "install it");
  auto* const cosine = library.function<double(double)>("cos");
  BOOST_TEST(cosine(0.5) == std::cos(0.5));
}

BOOST_AUTO_TEST_CASE(a_missing_library_is_named_with_what_to_do) {
  sft::OnDemandLibrary library("Magic", {"libno_such_library.so.1", "/nowhere/libno.so"}, "install Magic 3");
  const std::string text = sft::test::refusal([&] { (void)library.function<void()>("magic"); });
  BOOST_TEST(text.find("Magic cannot be used (libno_such_library.so.1: cannot open shared object file") == 0U, text);
  BOOST_TEST(text.find("): install Magic 3") != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(a_library_without_the_function_is_too_old) {
  sft::OnDemandLibrary library("the math library", {"libm.so.6"}, "install it");
  const std::string text = sft::test::refusal([&] { (void)library.function<void()>("cos_of_next_year"); });
  BOOST_TEST(text ==
             "the math library cannot be used (the one that was found has no cos_of_next_year): use a newer one");
}

BOOST_AUTO_TEST_SUITE_END()
