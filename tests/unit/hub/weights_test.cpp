// SPDX-License-Identifier: Apache-2.0
// Weights of model folders: rectangles of every dtype, several files, and the way back.

#include "sft/hub/weights.hpp"

#include <bit>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "sft/io/files.hpp"
#include "support/error_text.hpp"
#include "unit/hub/hub_fixture.hpp"

using namespace sft;
using test::data_error_of;
using test::mentions;

BOOST_AUTO_TEST_SUITE(weights)

namespace {

const std::vector<io::TensorInfo> tensors{{"model/model.embed_tokens.weight", {5, 6}, DType::float32},
                                          {"model/model.layers.0.o_proj.weight", {4, 3}, DType::float32},
                                          {"model/model.norm.weight", {7}, DType::float32}};

/// Numbers that every dtype holds.
std::vector<float> values_of(const io::TensorInfo& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.num_elements()));
  std::iota(values.begin(), values.end(), static_cast<float>(tensor.shape[0]));
  for (float& value : values) value = (static_cast<int>(value) % 2 == 0 ? 0.125F : -0.25F) * value;
  return values;
}

io::Rectangle whole(const io::TensorInfo& tensor) {
  return {.num_rows = tensor.shape[0], .num_columns = tensor.shape.size() > 1 ? tensor.shape[1] : 1};
}

/// A folder with the tensors, as one process writes it.
void write_folder(const std::string& folder, hub::WeightType type, std::uint64_t max_file_bytes) {
  const hub::WeightsPlan plan(tensors, type, max_file_bytes);
  hub::create_weight_files(plan, folder);
  if (!plan.index_json().empty()) test::write_bytes(folder + "/model.safetensors.index.json", plan.index_json());
  hub::WeightsSink sink(plan, folder);
  for (const io::TensorInfo& tensor : tensors) {
    sink.write(tensor.name, whole(tensor), DType::float32, values_of(tensor).data());
  }
  sink.finish();
}

std::vector<float> read(const io::TensorSource& source, const std::string& name, const io::Rectangle& where) {
  std::vector<float> values(static_cast<std::size_t>(where.num_elements()));
  source.read(name, where, DType::float32, values.data());
  return values;
}

std::string open_error(const std::string& folder) {
  return data_error_of([&] { static_cast<void>(hub::open_weights(folder, false)); });
}

void write_one(const std::string& folder, const std::string& name, const std::string& dtype, std::size_t num_bytes) {
  const std::string header = "{\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[2],\"data_offsets\":[0," +
                             std::to_string(num_bytes) + "]}}";
  test::write_bytes(folder + "/model.safetensors", test::safetensors(header, std::string(num_bytes, '\0')));
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_written_is_read_again_in_every_dtype_and_number_of_files) {
  for (const hub::WeightType type : {hub::WeightType::float32, hub::WeightType::bfloat16, hub::WeightType::float16}) {
    for (const std::uint64_t max_file_bytes : {std::uint64_t{1}, std::uint64_t{80}, std::uint64_t{1} << 30}) {
      const test::TemporaryFolder folder;
      write_folder(folder.path(), type, max_file_bytes);
      const auto source = hub::open_weights(folder.path(), false);
      BOOST_TEST_REQUIRE(source->tensors().size() == tensors.size());
      for (const io::TensorInfo& tensor : tensors) {
        BOOST_TEST(read(*source, tensor.name, whole(tensor)) == values_of(tensor), boost::test_tools::per_element());
      }
      const std::vector<float> all = values_of(tensors[0]);
      const std::vector<float> part = read(*source, tensors[0].name, {1, 3, 2, 2});
      for (std::size_t row = 0; row < 3; ++row) {
        for (std::size_t column = 0; column < 2; ++column) {
          BOOST_TEST(part[2 * row + column] == all[6 * (row + 1) + column + 2]);
        }
      }
      std::vector<std::uint16_t> low(30);
      source->read(tensors[0].name, whole(tensors[0]), DType::bf16, low.data());
      for (std::size_t i = 0; i < low.size(); ++i) BOOST_TEST(low[i] == std::bit_cast<std::uint32_t>(all[i]) >> 16U);
    }
  }
}

BOOST_AUTO_TEST_CASE(ranks_write_rectangles_of_one_file) {
  const test::TemporaryFolder folder, expected;
  write_folder(expected.path(), hub::WeightType::bfloat16, 1 << 20);
  const hub::WeightsPlan plan(tensors, hub::WeightType::bfloat16, 1 << 20);
  hub::create_weight_files(plan, folder.path());
  std::vector<hub::WeightsSink> ranks;
  for (int rank = 0; rank < 2; ++rank) ranks.emplace_back(plan, folder.path());
  for (const io::TensorInfo& tensor : tensors) {
    const io::Rectangle all = whole(tensor);
    const std::vector<float> values = values_of(tensor);
    const std::int64_t cut = all.num_columns / 2;
    for (std::int64_t row = 0; row < all.num_rows; ++row) {
      const float* first = values.data() + row * all.num_columns;
      if (cut > 0) ranks[0].write(tensor.name, {row, 1, 0, cut}, DType::float32, first);
      ranks[1].write(tensor.name, {row, 1, cut, all.num_columns - cut}, DType::float32, first + cut);
    }
  }
  for (hub::WeightsSink& rank : ranks) rank.finish();
  BOOST_TEST((io::read_file(folder.file("model.safetensors")) == io::read_file(expected.file("model.safetensors"))));
}

BOOST_AUTO_TEST_CASE(files_are_what_other_loaders_expect) {
  const hub::WeightsPlan plan(tensors, hub::WeightType::float32, 120);
  BOOST_TEST_REQUIRE(plan.files().size() == 2U);
  BOOST_TEST(plan.files()[0].name == "model-00001-of-00002.safetensors");
  for (const hub::WeightsPlan::File& file : plan.files()) {
    BOOST_TEST(mentions(file.header, {R"("__metadata__":{"format":"pt"})"}));
    BOOST_TEST(file.header.size() % 8 == 0U);
  }
  BOOST_TEST(mentions(plan.index_json(), {R"("total_size": 196)", R"("model.norm.weight": "model-00002-of-00002)"}));
  BOOST_TEST(hub::WeightsPlan(tensors, hub::WeightType::float32, 196).index_json().empty());
}

BOOST_AUTO_TEST_CASE(a_number_that_float16_cannot_hold_is_refused_by_its_tensor) {
  const test::TemporaryFolder folder;
  const hub::WeightsPlan plan(tensors, hub::WeightType::float16, 1 << 20);
  hub::create_weight_files(plan, folder.path());
  hub::WeightsSink sink(plan, folder.path());
  const float large = 70000.0F;
  const std::string message = data_error_of([&] {
    sink.write("model/model.norm.weight", {0, 1, 0, 1}, DType::float32, &large);
  });
  BOOST_TEST(mentions(message, {"model.norm.weight", "70000", "65504", "bfloat16"}));
}

BOOST_AUTO_TEST_CASE(folders_without_whole_weights_are_refused_with_the_reason) {
  const test::TemporaryFolder folder;
  BOOST_TEST(mentions(open_error(folder.path()), {"neither model.safetensors nor"}));
  test::write_bytes(folder.file("pytorch_model.bin"), "PK");
  BOOST_TEST(mentions(open_error(folder.path()), {"pytorch_model.bin", "save_pretrained"}));
  write_one(folder.path(), "a", "I64", 16);
  BOOST_TEST(mentions(open_error(folder.path()), {"tensor a", "dtype I64", "quantized"}));
  write_one(folder.path(), "model.layers.0.self_attn.rotary_emb.inv_freq", "I64", 16);
  BOOST_TEST(hub::open_weights(folder.path(), false)->tensors().empty());
}

BOOST_AUTO_TEST_CASE(an_index_says_which_files_are_read_and_no_more) {
  const test::TemporaryFolder folder;
  const std::string index = folder.file("model.safetensors.index.json");
  write_folder(folder.path(), hub::WeightType::float32, 1);
  const std::string sound = io::read_file(index);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = sound;
    text.replace(text.find(from), from.size(), to);
    test::write_bytes(index, text);
    return open_error(folder.path());
  };
  BOOST_TEST(mentions(with("00003-of-00003", "00004-of-00003"), {"cannot find", "00004-of-00003"}));
  BOOST_TEST(mentions(with("model-00003-of-00003", "../model-00003-of-00003"), {"not in the folder"}));
  BOOST_TEST(mentions(with("weight_map", "weight_mop"), {"no object `weight_map`"}));
  // A tensor that it does not list, one that it lists and no file has, one that it says to be in another file.
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"model.norm.weight", "model.norm.other"},
           {"\"weight_map\": {", "\"weight_map\": {\"more\": \"model-00001-of-00003.safetensors\","},
           {"norm.weight\": \"model-00003-of",
            "norm.weight\": \"model-00001-of-00003.safetensors\", \"y\": \"model-00003-of"},
           {"weight_map", "weight_map"}}) {
    BOOST_TEST(with(from, to).empty());
    const auto source = hub::open_weights(folder.path(), false);
    BOOST_TEST(source->tensors().size() == tensors.size());
    BOOST_TEST(read(*source, tensors[2].name, whole(tensors[2])) == values_of(tensors[2]));
  }
  // A file beside those of the index is not read: what it has is not there.
  BOOST_TEST(with("\"model.norm.weight\": \"model-00003-of-00003.safetensors\"",
                  "\"more\": \"model-00001-of-00003.safetensors\"")
                 .empty());
  BOOST_TEST(hub::open_weights(folder.path(), false)->tensors().size() == tensors.size() - 1);
}

BOOST_AUTO_TEST_CASE(of_two_files_with_a_tensor_the_last_one_counts) {
  const test::TemporaryFolder folder;
  const std::string header = R"({"model.norm.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  for (const auto& [name, value] : {std::pair<std::string, float>{"a", 1.0F}, {"b", 2.0F}}) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    test::write_bytes(folder.file(name + ".safetensors"), test::safetensors(header, bytes));
  }
  test::write_bytes(folder.file("model.safetensors.index.json"),
                    R"({"weight_map": {"x": "b.safetensors", "model.norm.weight": "a.safetensors"}})");
  const auto source = hub::open_weights(folder.path(), false);
  BOOST_TEST_REQUIRE(source->tensors().size() == 1U);
  BOOST_TEST(read(*source, "model/model.norm.weight", {0, 1, 0, 1}).front() == 2.0F);
}

BOOST_AUTO_TEST_CASE(a_tied_head_without_a_table_is_the_table) {
  const test::TemporaryFolder folder;
  const std::vector<io::TensorInfo> head{{"model/lm_head.weight", {2, 3}, DType::float32}};
  const hub::WeightsPlan plan(head, hub::WeightType::float32, 1 << 20);
  hub::create_weight_files(plan, folder.path());
  hub::WeightsSink sink(plan, folder.path());
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  sink.write(head[0].name, whole(head[0]), DType::float32, values.data());
  sink.finish();
  const auto source = hub::open_weights(folder.path(), true);
  BOOST_TEST_REQUIRE(source->tensors().size() == 1U);
  BOOST_TEST(read(*source, "model/model.embed_tokens.weight", whole(head[0])) == values);
  BOOST_TEST(hub::open_weights(folder.path(), false)->tensors().front().name == "model/lm_head.weight");
  BOOST_CHECK_NO_THROW(hub::check_tied_head(folder.path()));
}

BOOST_AUTO_TEST_CASE(a_tied_head_is_left_out_and_must_be_the_embedding) {
  const test::TemporaryFolder folder;
  const std::vector<io::TensorInfo> both{{"model/lm_head.weight", {2, 3}, DType::float32},
                                         {"model/model.embed_tokens.weight", {2, 3}, DType::float32}};
  const hub::WeightsPlan plan(both, hub::WeightType::float32, 1 << 20);
  hub::create_weight_files(plan, folder.path());
  hub::WeightsSink sink(plan, folder.path());
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  for (const io::TensorInfo& tensor : both) sink.write(tensor.name, whole(tensor), DType::float32, values.data());
  sink.finish();
  BOOST_TEST(hub::open_weights(folder.path(), true)->tensors().size() == 1U);
  BOOST_TEST(hub::open_weights(folder.path(), false)->tensors().size() == 2U);
  BOOST_CHECK_NO_THROW(hub::check_tied_head(folder.path()));
  const float other = 7;
  sink.write("model/lm_head.weight", {1, 1, 2, 1}, DType::float32, &other);
  sink.finish();
  BOOST_TEST(mentions(data_error_of([&] { hub::check_tied_head(folder.path()); }), {"row 1", "tie_word_embeddings"}));
}

BOOST_AUTO_TEST_SUITE_END()
