// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "sft/core/cast.hpp"
#include "sft/core/dtype.hpp"
#include "sft/core/error.hpp"
#include "sft/core/program.hpp"

using namespace sft;

BOOST_AUTO_TEST_CASE(checked_cast_keeps_the_value_or_throws) {
  BOOST_TEST(checked_cast<std::uint8_t>(255) == 255);
  BOOST_CHECK_THROW((void)checked_cast<std::uint8_t>(256), std::overflow_error);
  BOOST_CHECK_THROW((void)checked_cast<std::uint64_t>(-1), std::overflow_error);
  BOOST_CHECK_THROW((void)checked_cast<std::int32_t>(std::int64_t{1} << 31), std::overflow_error);
}

BOOST_AUTO_TEST_CASE(round_up_reaches_the_next_multiple) {
  BOOST_TEST(round_up(0, 8) == 0);
  BOOST_TEST(round_up(1, 8) == 8);
  BOOST_TEST(round_up(8, 8) == 8);
  BOOST_TEST(round_up(9, 8) == 16);
}

BOOST_AUTO_TEST_CASE(dtypes_have_their_sizes) {
  BOOST_TEST(size_of(DType::float32) == 4u);
  BOOST_TEST(size_of(DType::bf16) == sizeof(BFloat16));
  BOOST_TEST(size_of(DType::float64) == 8u);
  BOOST_TEST(size_of(DType::int32) == 4u);
}

BOOST_AUTO_TEST_CASE(errors_read_problem_why_what_to_do) {
  const Error whole(ExitStatus::data, "x is broken", "it is short", "copy it again");
  BOOST_TEST(std::string(whole.what()) == "x is broken (it is short): copy it again");
  const Error of_two_lines(ExitStatus::data, "tensor a\n  b", "c\x1b[0m", "copy it");
  BOOST_TEST(std::string(of_two_lines.what()) == "tensor a\\n  b (c\\x1b[0m): copy it");
  BOOST_TEST(std::string(Error(ExitStatus::data, "x is broken", "", "copy it").what()) == "x is broken: copy it");
  BOOST_TEST(std::string(Error(ExitStatus::data, "x is broken", "it is short", "").what()) ==
             "x is broken (it is short)");
}

BOOST_AUTO_TEST_CASE(shorthands_carry_their_exit_status) {
  const auto has_status = [](ExitStatus status) {
    return [status](const Error& error) { return error.status() == status; };
  };
  BOOST_CHECK_EXCEPTION(throw_config_error("a", "b", "c"), Error, has_status(ExitStatus::configuration));
  BOOST_CHECK_EXCEPTION(throw_data_error("a", "b", "c"), Error, has_status(ExitStatus::data));
}

BOOST_AUTO_TEST_CASE(a_lost_integer_names_its_place) {
  const auto line = SourceLocation::current().line() + 1;
  const auto cast = [] { (void)checked_cast<std::uint8_t>(256); };
  const auto names_it = [&](const std::overflow_error& error) {
    return std::string(error.what()).ends_with("tests/unit/core/core_test.cpp:" + std::to_string(line));
  };
  BOOST_CHECK_EXCEPTION(cast(), std::overflow_error, names_it);
}

BOOST_AUTO_TEST_CASE(an_exception_that_nobody_expected_is_a_bug_of_the_program) {
  const auto text_of_error = [](const auto& exception) {
    try {
      throw exception;
    } catch (...) {
      const Error error = current_error();
      BOOST_TEST((error.status() == ExitStatus::failure));
      return std::string(error.what());
    }
  };
  const std::string tail =
      std::string(" (a bug in sft ") + version() + ", not in your input): please report it with the command line";
  BOOST_TEST(text_of_error(std::runtime_error("broken")) == "internal error: broken" + tail);
  BOOST_TEST(text_of_error(std::logic_error("internal error: broken, src/a.cpp:1")) ==
             "internal error: broken, src/a.cpp:1" + tail);
  BOOST_TEST(text_of_error(7) == "internal error: an exception of unknown type" + tail);
}

BOOST_AUTO_TEST_CASE(the_process_started_a_moment_ago) {
  const double now_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const double age_s = now_s - process_start_time_s();
  BOOST_TEST(age_s > -0.1);  // the system counts in ticks of 10 ms
  BOOST_TEST(age_s < 600.0);
}

BOOST_AUTO_TEST_CASE(the_version_has_three_numbers) {
  const std::string text = version();
  BOOST_TEST(std::count(text.begin(), text.end(), '.') == 2);
}
