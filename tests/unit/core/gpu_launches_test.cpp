// SPDX-License-Identifier: Apache-2.0
#include "sft/core/gpu_launches.hpp"

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "sft/core/error.hpp"

BOOST_AUTO_TEST_SUITE(gpu_launches)

namespace {

constexpr int illegal_address = 700;
const int a_stream = 0, another_stream = 0;  // their addresses stand for handles

/// For cases that are to know of no launch but their own.
void finish_all() {
  for (const void* const stream : {&a_stream, &another_stream}) sft::note_finished(stream, sft::num_launches());
}

std::string message() {
  try {
    sft::throw_if_of_a_kernel(illegal_address, "an illegal memory access was encountered");
  } catch (const sft::Error& error) {
    BOOST_TEST((error.status() == sft::ExitStatus::failure));
    return error.what();
  }
  return "no error";
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_error_names_different_kernels_the_newest_first) {
  finish_all();
  for (const char* const name : {"swiglu", "rms_norm", "rms_norm", "swiglu"}) sft::note_launch(name, &a_stream);
  BOOST_TEST(
      message().starts_with("a CUDA kernel failed (an illegal memory access was encountered; the last kernels "
                            "launched were, newest first, swiglu, rms_norm): run again with CUDA_LAUNCH_BLOCKING=1"),
      message());
}

BOOST_AUTO_TEST_CASE(what_a_stream_has_finished_is_not_named) {
  finish_all();
  sft::note_launch("done", &a_stream);
  sft::note_launch("other", &another_stream);
  sft::note_finished(&a_stream, sft::num_launches());
  sft::note_finished(&a_stream, 0);  // known already
  BOOST_TEST(message().find("newest first, other)") != std::string::npos, message());
  sft::note_launch("late", &a_stream);
  BOOST_TEST(message().find("newest first, late, other)") != std::string::npos, message());
  finish_all();
  BOOST_TEST(message().find("no kernel of this program was under way)") != std::string::npos, message());
}

BOOST_AUTO_TEST_CASE(other_errors_are_none_of_a_kernel) {
  for (const int code : {0, 1, 2, 600}) BOOST_CHECK_NO_THROW(sft::throw_if_of_a_kernel(code, "another"));
}

BOOST_AUTO_TEST_CASE(launches_are_known_since_a_count) {
  const std::uint64_t before = sft::num_launches();
  for (const char* const name : {"a", "b"}) sft::note_launch(name, &a_stream);
  sft::note_launch("c", &another_stream);
  BOOST_TEST(sft::num_launches() == before + 3);
  const std::vector<const char*> launches = sft::launches_since(before, &a_stream);
  BOOST_TEST_REQUIRE(launches.size() == 2u);
  BOOST_TEST(launches[0] == std::string("a"));
  BOOST_TEST(launches[1] == std::string("b"));
}

BOOST_AUTO_TEST_CASE(old_launches_are_forgotten) {
  const std::uint64_t before = sft::num_launches();
  sft::note_launch("old", &a_stream);
  for (int i = 0; i < 1024; ++i) sft::note_launch("new", &a_stream);
  const std::vector<const char*> launches = sft::launches_since(before, &a_stream);
  BOOST_TEST(launches.size() == 1024u);
  for (const char* const name : launches) BOOST_TEST(name == std::string("new"));
}

BOOST_AUTO_TEST_SUITE_END()
