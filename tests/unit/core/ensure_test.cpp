// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "sft/core/dtype.hpp"
#include "sft/core/ensure.hpp"

using namespace sft;

namespace {

/// What stands between "internal error: " and the place in the message of the std::logic_error that `broken` throws.
std::string message_of(const std::function<void()>& broken) {
  try {
    broken();
  } catch (const std::logic_error& error) {
    const std::string text = error.what(), prefix = "internal error: ";
    BOOST_TEST(text.starts_with(prefix), text);
    return text.substr(prefix.size(), text.find(", tests/unit/core/ensure_test.cpp:") - prefix.size());
  }
  BOOST_ERROR("held");
  return {};
}

const auto line_that_breaks = SourceLocation::current().line() + 1;
void gather_too_late() { SFT_ENSURE(false, "units are gathered before use"); }

}  // namespace

BOOST_AUTO_TEST_SUITE(ensuring)

BOOST_AUTO_TEST_CASE(what_holds_throws_nothing) {
  const int three = 3;
  const std::vector<int> values(3);
  SFT_ENSURE(true, "never");
  SFT_ENSURE(three == 3, "never");
  SFT_ENSURE(values.size() == three, "never");
  SFT_ENSURE(three + 1 - 2 >= 2 && !values.empty(), "never");
  SFT_ENSURE(three % 2 == 1 || values.empty(), "never");
  SFT_ENSURE(values.begin() != values.end(), "never");
}

BOOST_AUTO_TEST_CASE(a_comparison_tells_both_values) {
  const int three = 3, four = 4;
  BOOST_TEST(message_of([&] { SFT_ENSURE(three == four, "as many rows"); }) == "as many rows: three == four (3 == 4)");
  BOOST_TEST(message_of([&] { SFT_ENSURE(three != 3, "another"); }) == "another: three != 3 (3 != 3)");
  BOOST_TEST(message_of([&] { SFT_ENSURE(four < three, "less"); }) == "less: four < three (4 < 3)");
  BOOST_TEST(message_of([&] { SFT_ENSURE(four <= three, "no more"); }) == "no more: four <= three (4 <= 3)");
  BOOST_TEST(message_of([&] { SFT_ENSURE(three > four, "more"); }) == "more: three > four (3 > 4)");
  BOOST_TEST(message_of([&] { SFT_ENSURE(three >= four, "no less"); }) == "no less: three >= four (3 >= 4)");
}

BOOST_AUTO_TEST_CASE(both_sides_may_be_computed) {
  const std::int64_t begin = 5, count = 7;
  const std::vector<int> values(10);
  BOOST_TEST(message_of([&] { SFT_ENSURE(begin + count <= std::ssize(values), "rows lie within"); }) ==
             "rows lie within: begin + count <= std::ssize(values) (12 <= 10)");
  BOOST_TEST(message_of([&] { SFT_ENSURE(begin - 2 - 1 == 2 * count + 1, "sums"); }) ==
             "sums: begin - 2 - 1 == 2 * count + 1 (2 == 15)");
  BOOST_TEST(message_of([&] { SFT_ENSURE(count % begin == 0, "divides"); }) == "divides: count % begin == 0 (2 == 0)");
  BOOST_TEST(message_of([&] { SFT_ENSURE((begin | 2) % 4 == 0, "bits"); }) == "bits: (begin | 2) % 4 == 0 (3 == 0)");
}

BOOST_AUTO_TEST_CASE(integers_of_other_signs_compare_as_numbers) {
  const int minus_one = -1;
  const std::size_t none = 0;
  SFT_ENSURE(minus_one < none, "never");
  BOOST_TEST(message_of([&] { SFT_ENSURE(minus_one >= none, "not negative"); }) ==
             "not negative: minus_one >= none (-1 >= 0)");
  BOOST_TEST(message_of([&] { SFT_ENSURE(minus_one == std::numeric_limits<std::size_t>::max(), "equal"); }) ==
             "equal: minus_one == std::numeric_limits<std::size_t>::max() (-1 == 18446744073709551615)");
}

BOOST_AUTO_TEST_CASE(values_of_other_types_are_told_in_their_way) {
  const std::string name = "model";
  const DType dtype = DType::bf16;
  const bool is_there = true;
  const double third = 1.0 / 3.0;
  BOOST_TEST(message_of([&] { SFT_ENSURE(name == "adapter", "the name"); }) ==
             "the name: name == \"adapter\" (\"model\" == \"adapter\")");
  BOOST_TEST(message_of([&] { SFT_ENSURE(dtype == DType::float32, "the dtype"); }) ==
             "the dtype: dtype == DType::float32 (1 == 0)");
  BOOST_TEST(message_of([&] { SFT_ENSURE(is_there == false, "nothing there"); }) ==
             "nothing there: is_there == false (true == false)");
  BOOST_TEST(message_of([&] { SFT_ENSURE(third == 0.25, "a quarter"); }) ==
             "a quarter: third == 0.25 (0.3333333333333333 == 0.25)");
}

BOOST_AUTO_TEST_CASE(where_there_are_no_two_values_the_condition_stands_alone) {
  const int three = 3;
  const std::unique_ptr<int> nothing;
  const std::vector<int> values;
  BOOST_TEST(message_of([&] { SFT_ENSURE(!values.empty(), "some"); }) == "some: !values.empty()");
  BOOST_TEST(message_of([&] { SFT_ENSURE(nothing != nullptr, "there"); }) == "there: nothing != nullptr");
  BOOST_TEST(message_of([&] { SFT_ENSURE(values.begin() != values.end(), "found"); }) ==
             "found: values.begin() != values.end()");
  BOOST_TEST(message_of([&] { SFT_ENSURE(three == 3 && three < 2, "both"); }) == "both: three == 3 && three < 2");
  BOOST_TEST(message_of([&] { SFT_ENSURE(three == 4 || three < 2, "either"); }) == "either: three == 4 || three < 2");
  BOOST_TEST(message_of([&] { SFT_ENSURE(false, "nobody comes here"); }) == "nobody comes here");
}

BOOST_AUTO_TEST_CASE(a_condition_is_evaluated_once_and_no_further_than_needed) {
  int num_calls = 0;
  const auto next = [&] { return ++num_calls; };
  SFT_ENSURE(next() == 1, "never");
  BOOST_TEST(message_of([&] { SFT_ENSURE(next() == 1, "once"); }) == "once: next() == 1 (2 == 1)");
  BOOST_TEST(num_calls == 2);
  const int* nothing = nullptr;
  BOOST_TEST(message_of([&] { SFT_ENSURE(nothing != nullptr && *nothing == 1, "there"); }) ==
             "there: nothing != nullptr && *nothing == 1");
  SFT_ENSURE(nothing == nullptr || *nothing == 1, "never");
}

BOOST_AUTO_TEST_CASE(the_message_ends_with_the_place) {
  const auto names_it = [](const std::logic_error& error) {
    const std::string text = error.what();
    return text.starts_with("internal error: units are gathered before use, tests/unit/core/ensure_test.cpp:" +
                            std::to_string(line_that_breaks) + " in ") &&
           text.find("gather_too_late") != std::string::npos;
  };
  BOOST_CHECK_EXCEPTION(gather_too_late(), std::logic_error, names_it);
}

BOOST_AUTO_TEST_SUITE_END()
