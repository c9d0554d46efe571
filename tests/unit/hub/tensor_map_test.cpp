// SPDX-License-Identifier: Apache-2.0
// Model folders of every family as transformers saves them (tests/hub/make_folders.py): the model's tensors are those
// that plain slicing gives, in whole and in rectangles, and written again the files hold the same.

#include "sft/hub/tensor_map.hpp"

#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "hub/weight_files.hpp"
#include "sft/hub/adapter_config.hpp"
#include "sft/hub/weights.hpp"
#include "sft/io/files.hpp"
#include "support/error_text.hpp"
#include "unit/hub/hub_fixture.hpp"

using namespace sft;
using test::data_error_of;
using test::mentions;

BOOST_AUTO_TEST_SUITE(tensor_map)

namespace {

const std::vector<std::string> linear_names = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                               "gate_proj", "up_proj", "down_proj"};

const std::string folders = std::string(SFT_SOURCE_DIR) + "/tests/hub/folders/";
const std::vector<std::string> families{"phi3",      "glm4",       "mistral3",         "gemma3",
                                        "qwen3_moe", "mixtral",    "gpt_oss",          "gpt_oss_mxfp4",
                                        "glm4_moe",  "minimax_m2", "granitemoehybrid", "hunyuan_v1_dense"};

struct Stored {
  hub::FileTensor tensor;
  std::string bytes;
  bool operator==(const Stored&) const = default;
};

/// Every tensor of the files, by name.
std::map<std::string, Stored> stored_in(const std::vector<std::string>& paths) {
  std::map<std::string, Stored> result;
  for (const std::string& path : paths) {
    const io::RawFile file = io::RawFile::open(path);
    for (const hub::StoredTensor& stored : hub::read_safetensors_header(file)) {
      Stored& item = result[stored.name];
      item.tensor = {stored.name, stored.dtype, stored.shape, stored.end - stored.begin};
      item.bytes.resize(stored.end - stored.begin);
      file.read(stored.begin, item.bytes.size(), item.bytes.data());
    }
  }
  return result;
}

io::Rectangle whole(const io::TensorInfo& tensor) {
  return {.num_rows = tensor.shape[0], .num_columns = tensor.shape.size() > 1 ? tensor.shape[1] : 1};
}

std::vector<float> read(const io::TensorSource& source, const std::string& name, const io::Rectangle& where) {
  std::vector<float> values(static_cast<std::size_t>(where.num_elements()));
  source.read(name, where, DType::float32, values.data());
  return values;
}

/// The rectangle out of a whole tensor.
std::vector<float> cut(const std::vector<float>& values, const io::Rectangle& all, const io::Rectangle& where) {
  std::vector<float> result;
  for (std::int64_t row = where.row_begin; row < where.row_begin + where.num_rows; ++row) {
    const auto begin = values.begin() + row * all.num_columns + where.column_begin;
    result.insert(result.end(), begin, begin + where.num_columns);
  }
  return result;
}

void write_all(const io::TensorSource& source, const hub::WeightsPlan& plan, const std::string& folder) {
  hub::create_weight_files(plan, folder);
  if (const std::string index = plan.index_json(); !index.empty()) {
    test::write_bytes(folder + "/model.safetensors.index.json", index);
  }
  hub::WeightsSink sink(plan, folder);
  for (const io::TensorInfo& tensor : source.tensors()) {
    // Column by column half: what ranks of tp do
    const io::Rectangle all = whole(tensor);
    const std::int64_t half = all.num_columns / 2;
    for (const auto& [begin, count] : {std::pair(std::int64_t{0}, half), std::pair(half, all.num_columns - half)}) {
      const io::Rectangle part{0, all.num_rows, begin, count};
      sink.write(tensor.name, part, DType::float32, read(source, tensor.name, part).data());
    }
  }
  sink.finish();
}

/// A model folder with the tensors of `family`, changed, as zeros.
std::string refusal_of_folder(const std::string& family, const auto& change) {
  const test::TemporaryFolder folder;
  nlohmann::json header = nlohmann::json::object();
  std::map<std::string, hub::FileTensor> tensors;
  for (auto& [name, stored] : stored_in(hub::find_weight_files(folders + family))) tensors[name] = stored.tensor;
  change(tensors);
  std::uint64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    std::uint64_t size = tensor.dtype == "U8" ? 1 : 2;
    for (const std::int64_t dim : tensor.shape) size *= static_cast<std::uint64_t>(dim);
    header[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {at, at + size}}};
    at += size;
  }
  test::write_bytes(folder.file("model.safetensors"), test::safetensors(header.dump(), std::string(at, '\0')));
  test::write_bytes(folder.file("config.json"), io::read_file(folders + family + "/config.json"));
  return data_error_of([&] { static_cast<void>(hub::open_weights(folder.path(), false)); });
}

}  // namespace

BOOST_DATA_TEST_CASE(folders_hold_the_tensors_of_the_model, boost::unit_test::data::make(families), family) {
  const auto source = hub::open_weights(folders + family, false);
  const auto expected = hub::open_weights(folders + family + "/expected", false);
  const std::vector<io::TensorInfo> tensors = source->tensors();
  BOOST_TEST_REQUIRE(tensors.size() == expected->tensors().size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const io::TensorInfo& tensor = tensors[i];
    BOOST_TEST_CONTEXT(tensor.name) {
      BOOST_TEST_REQUIRE(tensor.name == expected->tensors()[i].name);
      BOOST_TEST_REQUIRE(tensor.shape == expected->tensors()[i].shape, boost::test_tools::per_element());
      const io::Rectangle all = whole(tensor);
      const std::vector<float> values = read(*expected, tensor.name, all);
      BOOST_TEST(read(*source, tensor.name, all) == values, boost::test_tools::per_element());
      // Rectangles that begin and end within heads, parts and experts
      for (const std::int64_t row : {std::int64_t{0}, all.num_rows / 3, all.num_rows - 1}) {
        for (const std::int64_t column : {std::int64_t{0}, all.num_columns / 2}) {
          const io::Rectangle part{row, std::max<std::int64_t>((all.num_rows - row) * 2 / 3, 1), column,
                                   std::max<std::int64_t>((all.num_columns - column) * 2 / 3, 1)};
          BOOST_TEST(read(*source, tensor.name, part) == cut(values, all, part), boost::test_tools::per_element());
        }
      }
    }
  }
}

BOOST_DATA_TEST_CASE(what_is_read_is_written_again, boost::unit_test::data::make(families), family) {
  for (const std::uint64_t max_file_bytes : {std::uint64_t{4000}, std::uint64_t{1} << 30}) {
    const test::TemporaryFolder out;
    const auto source = hub::open_weights(folders + family, false);
    hub::FileLayout layout = hub::read_file_layout(folders + family);
    layout.is_mxfp4 = false;
    BOOST_TEST((hub::file_layout_of_json(hub::to_json(layout)) == layout));
    const hub::WeightsPlan plan(source->tensors(), hub::WeightType::bfloat16, max_file_bytes, hub::model_stem, layout);
    write_all(*source, plan, out.path());
    hub::copy_carried(plan, folders + family, out.path());
    const auto written = stored_in(hub::find_weight_files(out.path()));
    if (family == "gpt_oss_mxfp4") {  // which becomes gpt_oss
      test::write_bytes(out.file("config.json"), io::read_file(folders + "gpt_oss/config.json"));
      const auto again = hub::open_weights(out.path(), false);
      for (const io::TensorInfo& tensor : source->tensors()) {
        BOOST_TEST((read(*again, tensor.name, whole(tensor)) == read(*source, tensor.name, whole(tensor))));
      }
      for (const auto& [name, stored] : stored_in({folders + "gpt_oss/model.safetensors"})) {
        BOOST_TEST_REQUIRE(written.contains(name));
        BOOST_TEST((written.at(name).tensor == stored.tensor), name);
      }
    } else {
      BOOST_TEST((written == stored_in(hub::find_weight_files(folders + family))));
    }
  }
}

BOOST_AUTO_TEST_CASE(damaged_tensors_are_refused_by_name) {
  using Tensors = std::map<std::string, hub::FileTensor>;
  const std::string layer = "model.layers.1.";
  const std::string qkv = layer + "self_attn.qkv_proj.weight", gate_up = layer + "mlp.gate_up_proj.weight";
  const auto with_shape = [](const std::string& name, const std::vector<std::int64_t>& shape) {
    return [=](Tensors& tensors) { tensors.at(name).shape = shape; };
  };
  BOOST_TEST(mentions(refusal_of_folder("phi3", with_shape(qkv, {63, 32})), {qkv, "63", "32 + 16 + 16 rows"}));
  BOOST_TEST(mentions(refusal_of_folder("phi3", with_shape(qkv, {64})), {qkv, "2 dims"}));
  BOOST_TEST(mentions(refusal_of_folder("phi3", with_shape(gate_up, {12, 32})), {gate_up, "12 + 12 rows"}));
  BOOST_TEST(mentions(refusal_of_folder("phi3", with_shape(gate_up, {24, 0})), {gate_up, "sizes"}));
  const std::string q = layer + "self_attn.q_proj.weight", k_bias = layer + "self_attn.k_proj.bias";
  BOOST_TEST(mentions(refusal_of_folder("glm4", with_shape(q, {31, 8})), {q, "32 rows"}));
  BOOST_TEST(mentions(refusal_of_folder("glm4", with_shape(k_bias, {16, 1})), {k_bias, "1 dims"}));
  const std::string stacked = "model.layers.0.mlp.experts.gate_up_proj";
  BOOST_TEST(mentions(refusal_of_folder("gpt_oss", with_shape(stacked, {4, 32, 128})), {stacked, "3 experts"}));
  BOOST_TEST(mentions(refusal_of_folder("gpt_oss", with_shape(stacked, {3, 4096})), {stacked, "3 dims"}));
  const std::string blocks = stacked + "_blocks", scales = stacked + "_scales";
  BOOST_TEST(mentions(refusal_of_folder("gpt_oss_mxfp4", with_shape(blocks, {3, 128, 1, 15})), {blocks, "MXFP4"}));
  BOOST_TEST(mentions(refusal_of_folder("gpt_oss_mxfp4", with_shape(scales, {3, 128, 2})), {blocks, "MXFP4"}));
  BOOST_TEST(mentions(refusal_of_folder("gpt_oss_mxfp4", [&](Tensors& tensors) { tensors.erase(scales); }),
                      {blocks, "MXFP4"}));
  const auto rename = [](const std::string& from, const std::string& to) {
    return [=](Tensors& tensors) {
      auto node = tensors.extract(from);
      node.key() = node.mapped().name = to;
      tensors.insert(std::move(node));
    };
  };
  const std::string gate = layer + "mlp.gate.weight", gate_in_files = layer + "block_sparse_moe.gate.weight";
  BOOST_TEST(mentions(refusal_of_folder("mixtral", rename(gate_in_files, gate)), {gate, "call it " + gate_in_files}));
  const std::string norm = layer + "self_attn.q_norm.weight",
                    norm_in_files = layer + "self_attn.query_layernorm.weight";
  BOOST_TEST(mentions(refusal_of_folder("hunyuan_v1_dense", rename(norm_in_files, norm)), {norm, norm_in_files}));
  const auto rename_tower = [](Tensors& tensors) {
    Tensors renamed;
    for (const auto& [name, tensor] : tensors) renamed["text." + name] = tensor;
    tensors = std::move(renamed);
  };
  BOOST_TEST(mentions(refusal_of_folder("gemma3", rename_tower), {"no text tower", "language_model.model."}));
}

BOOST_AUTO_TEST_CASE(a_layout_is_known_without_weights_unless_their_names_decide) {
  for (const std::string family : {"phi3", "mixtral", "mistral3"}) {
    const test::TemporaryFolder folder;
    test::write_bytes(folder.file("config.json"), io::read_file(folders + family + "/config.json"));
    if (family == "mistral3") {
      BOOST_TEST(mentions(data_error_of([&] { static_cast<void>(hub::read_file_layout(folder.path())); }),
                          {"cannot read the weights"}));
    } else {
      BOOST_TEST((hub::read_file_layout(folder.path()) == hub::read_file_layout(folders + family)));
    }
  }
  const test::TemporaryFolder none, glm;
  BOOST_TEST((hub::read_file_layout(none.path()) == hub::FileLayout{}));
  test::write_bytes(glm.file("config.json"), io::read_file(folders + "glm4_moe/config.json"));
  BOOST_TEST(hub::read_file_layout(glm.path()).carried.empty());
  BOOST_TEST(hub::read_file_layout(folders + "glm4_moe").carried.size() == 2U);
}

BOOST_AUTO_TEST_CASE(damaged_sizes_in_config_json_are_refused) {
  const std::vector<hub::FileTensor> none;
  const auto refusal = [&](const nlohmann::json& more) {
    nlohmann::json object = nlohmann::json::parse(io::read_file(folders + "glm4/config.json"));
    object.update(more);
    return data_error_of([&] { static_cast<void>(hub::parse_file_layout(object.dump(), "config.json", none)); });
  };
  BOOST_TEST(refusal({{"unknown", 1}}).empty());
  BOOST_TEST(mentions(refusal({{"num_attention_heads", 0}}), {"num_attention_heads", "without heads"}));
  BOOST_TEST(mentions(refusal({{"head_dim", std::int64_t{1} << 60}}), {"head_dim", "size"}));
  BOOST_TEST(mentions(refusal({{"intermediate_size", nullptr}}), {"no intermediate_size"}));
  for (const double factor : {-0.5, 1.5, 0.4}) {
    BOOST_TEST(
        mentions(refusal({{"rope_parameters", {{"partial_rotary_factor", factor}}}}), {"partial_rotary_factor"}));
  }
}

BOOST_AUTO_TEST_CASE(an_adapter_on_a_fused_module_is_one_on_each_part) {
  const std::string base = folders + "phi3", adapters = folders + "phi3_adapters/";
  const hub::FileLayout layout = hub::read_file_layout(base);
  const hub::AdapterConfig config = hub::read_adapter_config(adapters + "trained");
  const auto adapter = hub::open_adapter_weights(adapters + "trained", layout);
  BOOST_TEST(adapter->tensors().size() == 2U * 2U * 6U);

  // What PEFT merges
  const test::TemporaryFolder merged;
  test::write_bytes(merged.file("model.safetensors"), io::read_file(adapters + "merged.safetensors"));
  test::write_bytes(merged.file("config.json"), io::read_file(base + "/config.json"));
  const auto expected = hub::open_weights(merged.path(), false), plain = hub::open_weights(base, false);
  for (const io::TensorInfo& tensor : plain->tensors()) {
    std::vector<float> values = read(*plain, tensor.name, whole(tensor));
    const std::string module = tensor.name.substr(6, tensor.name.size() - 6 - std::string(".weight").size());
    const std::string a_name = "model/base_model.model." + module + ".lora_A.weight";
    const std::vector<io::TensorInfo> all = adapter->tensors();
    const bool is_adapted = std::ranges::find(all, a_name, &io::TensorInfo::name) != all.end();
    if (is_adapted) {
      const config::AdapterSize size = config.lora.size_of(hub::module_in_transformers(layout, module));
      const std::int64_t rank = size.rank;
      const std::vector<float> a = read(*adapter, a_name, {0, rank, 0, tensor.shape[1]});
      const std::vector<float> b =
          read(*adapter, "model/base_model.model." + module + ".lora_B.weight", {0, tensor.shape[0], 0, rank});
      const auto scale = static_cast<float>(size.scale);
      for (std::int64_t row = 0; row < tensor.shape[0]; ++row) {
        for (std::int64_t column = 0; column < tensor.shape[1]; ++column) {
          for (std::int64_t r = 0; r < rank; ++r) {
            values[row * tensor.shape[1] + column] += scale * b[row * rank + r] * a[r * tensor.shape[1] + column];
          }
        }
      }
    }
    const std::vector<float> right = read(*expected, tensor.name, whole(tensor));
    for (std::size_t i = 0; i < values.size(); ++i) BOOST_TEST(std::abs(values[i] - right[i]) < 1e-5F);
  }
}

BOOST_AUTO_TEST_CASE(adapters_on_parts_become_one_that_peft_loads) {
  const std::string adapters = folders + "phi3_adapters/";
  const hub::FileLayout layout = hub::read_file_layout(folders + "phi3");
  const test::TemporaryFolder own, out;
  test::write_bytes(own.file("adapter_model.safetensors"), io::read_file(adapters + "own.safetensors"));
  const auto source = hub::open_adapter_weights(own.path(), {});  // by the names of the model
  config::Lora lora;
  lora.use_peft = true;
  lora.lora_r = 2;
  lora.lora_alpha = 3;
  lora.lora_target_modules = {"q_proj", "v_proj", "gate_proj", "up_proj", "o_proj"};
  const hub::WeightsPlan plan(source->tensors(), hub::WeightType::float32, std::uint64_t{1} << 30, hub::adapter_stem,
                              layout, &lora);
  write_all(*source, plan, out.path());
  const auto made_tensors = stored_in({out.file("adapter_model.safetensors")});
  const auto peft_tensors = stored_in({adapters + "joined/adapter_model.safetensors"});
  BOOST_TEST(made_tensors.size() == peft_tensors.size());
  for (const auto& [name, stored] : peft_tensors) {
    BOOST_TEST_REQUIRE(made_tensors.contains(name), name);
    BOOST_TEST(made_tensors.at(name).tensor.shape == stored.tensor.shape, boost::test_tools::per_element());
    BOOST_TEST((made_tensors.at(name) == stored), name);
  }

  const auto made = nlohmann::json::parse(hub::make_adapter_config(lora, "", linear_names, layout));
  const auto wanted = nlohmann::json::parse(io::read_file(adapters + "joined/adapter_config.json"));
  for (const char* field : {"r", "lora_alpha", "rank_pattern", "alpha_pattern", "target_modules"}) {
    BOOST_TEST((made.at(field) == wanted.at(field)), field);
  }
  test::write_bytes(out.file("adapter_config.json"), made.dump());
  const hub::AdapterConfig again = hub::read_adapter_config(out.path());
  BOOST_TEST(again.lora.size_of("model.layers.1.self_attn.qkv_proj").rank == 4);
  BOOST_TEST(again.lora.size_of("model.layers.1.self_attn.o_proj").rank == 4);
  BOOST_TEST(again.lora.size_of("model.layers.1.self_attn.qkv_proj").scale == 0.75);  // and B is twice as large
}

/// What adapters began with is behind them, part by part, and scales that differ are in B.
BOOST_AUTO_TEST_CASE(what_adapters_began_with_is_a_further_part_of_them) {
  const std::string layer = "/base_model.model.model.layers.0.self_attn.", q = layer + "q_proj.lora_",
                    k = layer + "k_proj.lora_", o = layer + "o_proj.lora_";
  hub::FileLayout layout = hub::read_file_layout(folders + "phi3");
  const std::int64_t q_rows = layout.num_attention_heads * layout.head_dim,
                     k_rows = layout.num_key_value_heads * layout.head_dim;
  std::vector<io::TensorInfo> tensors;
  const auto add = [&](const std::string& module, std::int64_t rank, std::int64_t rows) {
    for (const std::string entry : {"adapter", "adapter_start"}) {
      tensors.push_back({entry + module + "A.weight", {rank, 8}, DType::float32});
      tensors.push_back({entry + module + "B.weight", {rows, rank}, DType::float32});
    }
  };
  add(q, 2, q_rows);
  add(k, 3, k_rows);
  add(o, 2, 8);
  config::Lora lora;
  lora.lora_r = 2;
  lora.lora_alpha = 6;
  lora.rank_pattern = {{"k_proj", 3}};
  lora.init_lora_weights = {config::LoraInit::pissa, {}};
  const hub::TensorMap map(layout, tensors, hub::AdapterRanks::added, &lora);
  BOOST_TEST_REQUIRE(map.files().size() == 4U);
  const std::vector<std::int64_t> a_shape{10, 8}, b_shape{q_rows + 2 * k_rows, 10}, o_shape{8, 10};
  BOOST_TEST(map.files()[0].shape == a_shape, boost::test_tools::per_element());
  BOOST_TEST(map.files()[1].shape == b_shape, boost::test_tools::per_element());
  BOOST_TEST(map.files()[3].shape == o_shape, boost::test_tools::per_element());
  const auto first_of = [&](const std::string& name) { return map.tensor(name).stripes.front().first; };
  BOOST_TEST(first_of("adapter" + q + "A.weight") == 0);
  BOOST_TEST(first_of("adapter_start" + q + "A.weight") == 2 * 8);
  BOOST_TEST(first_of("adapter" + k + "A.weight") == 4 * 8);
  BOOST_TEST(first_of("adapter_start" + k + "A.weight") == 7 * 8);
  BOOST_TEST(first_of("adapter_start" + q + "B.weight") == 2);
  BOOST_TEST(first_of("adapter" + k + "B.weight") == q_rows * 10 + 4);
  BOOST_TEST(first_of("adapter_start" + k + "B.weight") == q_rows * 10 + 7);
  BOOST_TEST(first_of("adapter_start" + o + "B.weight") == 2);
  // Scales 6 / 2 and 6 / 3, by what PEFT takes for twice the alpha and ten ranks
  BOOST_TEST(map.tensor("adapter" + q + "B.weight").factor == 2.5F);
  BOOST_TEST(map.tensor("adapter_start" + k + "B.weight").factor == 5.0F / 3.0F);
  BOOST_TEST(map.tensor("adapter" + k + "A.weight").factor == 1.0F);
  BOOST_TEST(map.tensor("adapter" + o + "B.weight").factor == 2.5F);  // of the same rank, by zeros
}

BOOST_AUTO_TEST_CASE(adapters_of_a_text_tower_name_it) {
  hub::FileLayout layout = hub::read_file_layout(folders + "mistral3");
  layout.carried.clear();
  const std::string q = "base_model.model.model.layers.0.self_attn.q_proj";
  const std::vector<io::TensorInfo> tensors{{"adapter/" + q + ".lora_A.weight", {2, 8}, DType::float32},
                                            {"adapter/" + q + ".lora_B.weight", {32, 2}, DType::float32}};
  const hub::TensorMap map(layout, tensors);
  BOOST_TEST(map.files()[0].name == "base_model.model.model.language_model.layers.0.self_attn.q_proj.lora_A.weight");
  config::Lora lora;
  lora.use_peft = true;
  lora.lora_target_modules = {"q_proj", "v_proj"};
  const std::string text = hub::make_adapter_config(lora, "", linear_names, layout);
  const auto pattern = nlohmann::json::parse(text).at("target_modules").get<std::string>();
  const hub::TargetModules targets = hub::TargetModules::matching(pattern);
  BOOST_TEST(targets.contains("model.language_model.layers.0.self_attn.q_proj"));
  BOOST_TEST(!targets.contains("model.vision_tower.transformer.layers.0.attention.q_proj"));
  BOOST_TEST(hub::tensors_of_model(layout, map.files(), "x").at(0).name == "model/" + q + ".lora_A.weight");
}

BOOST_AUTO_TEST_SUITE_END()
