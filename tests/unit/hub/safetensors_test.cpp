// SPDX-License-Identifier: Apache-2.0
// Headers of safetensors files: what is read, and what is refused by name.

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "hub/weight_files.hpp"
#include "support/error_text.hpp"
#include "unit/hub/hub_fixture.hpp"

using namespace sft;
using test::mentions;
using test::safetensors;

BOOST_AUTO_TEST_SUITE(safetensors_header)

namespace {

std::vector<hub::StoredTensor> read(const std::string& bytes) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("model.safetensors");
  test::write_bytes(path, bytes);
  return hub::read_safetensors_header(io::RawFile::open(path));
}

std::string refusal(const std::string& bytes) {
  return test::data_error_of([&] { static_cast<void>(read(bytes)); });
}

const std::string two = R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},)"
                        R"("__metadata__":{"format":"pt","more":"words"},)"
                        R"("a":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]}}  )";

}  // namespace

BOOST_AUTO_TEST_CASE(tensors_come_in_the_order_of_their_bytes) {
  const std::vector<hub::StoredTensor> tensors = read(safetensors(two, std::string(12, 'x')));
  BOOST_TEST_REQUIRE(tensors.size() == 2U);
  BOOST_TEST(tensors[0].name == "a");
  BOOST_TEST(tensors[0].dtype == "BF16");
  BOOST_TEST(tensors[0].shape == (std::vector<std::int64_t>{1, 2}), boost::test_tools::per_element());
  BOOST_TEST(tensors[0].begin == 8 + two.size());
  BOOST_TEST(tensors[1].begin == 12 + two.size());
  BOOST_TEST(tensors[1].end == 20 + two.size());
  BOOST_TEST(read(safetensors("{}", "")).empty());
}

BOOST_AUTO_TEST_CASE(what_is_no_whole_file_is_refused_with_its_reason) {
  const std::string data(12, 'x');
  BOOST_TEST(mentions(refusal(""), {"no whole safetensors file", "0 bytes"}));
  BOOST_TEST(mentions(refusal(safetensors(two, data).substr(0, 60)), {"its header would have"}));
  BOOST_TEST(mentions(refusal(std::string(8, '\xff') + data), {"its header would have"}));
  BOOST_TEST(mentions(refusal("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), {"a pointer of git-lfs"}));
  BOOST_TEST(mentions(refusal(safetensors(two, data.substr(1))), {"tensor b", "the file is cut"}));
  BOOST_TEST(mentions(refusal(safetensors(two, data + "y")), {"12 bytes, the file holds 13"}));
  const auto one = [&](const std::string& fields) { return refusal(safetensors("{\"a\":{" + fields + "}}", data)); };
  BOOST_TEST(mentions(one(R"("dtype":"F32","shape":[3],"data_offsets":[1,12])"), {"tensor a begins at byte 1"}));
  BOOST_TEST(mentions(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,12])"), {"other bytes than its dtype"}));
  BOOST_TEST(mentions(one(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,12])"), {"other bytes"}));
  BOOST_TEST(mentions(one(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,12])"), {"out of range"}));
  BOOST_TEST(mentions(one(R"("dtype":"F32","shape":[3],"data_offsets":[12,0])"), {"begins at byte 12"}));
  BOOST_TEST(mentions(one(R"("dtype":"F32","shape":[3],"data_offsets":[0])"), {"are not two"}));
  BOOST_TEST(mentions(one(R"("dtype":"F32","shape":[-3],"data_offsets":[0,12])"), {"negative"}));
  BOOST_TEST(mentions(one(R"("dtype":"F32","shape":[3.5],"data_offsets":[0,12])"), {"broken number"}));
  BOOST_TEST(mentions(one(R"("dtype":"F32","shape":[[3]],"data_offsets":[0,12])"), {"an array where none belongs"}));
  BOOST_TEST(mentions(one(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,3],"data_offsets":[0,12])"), {"too many dims"}));
  BOOST_TEST(mentions(one(R"("dtype":"F32","shape":[3])"), {"tensor a lacks"}));
  BOOST_TEST(mentions(one(R"("dtype":{},"shape":[3],"data_offsets":[0,12])"), {"an object where none belongs"}));
  BOOST_TEST(mentions(refusal(safetensors("[]  ", data)), {"no JSON object"}));
  BOOST_TEST(mentions(refusal(safetensors("{\"a\": ", data)), {"no JSON"}));
  BOOST_TEST(mentions(refusal(safetensors("{\"a\": null}", data)), {"null where none belongs"}));
  const std::string twice = R"("a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]})";
  BOOST_TEST(mentions(refusal(safetensors("{" + twice + "," + twice + "}", data)), {"the name a comes twice"}));
}

BOOST_AUTO_TEST_SUITE_END()
