// SPDX-License-Identifier: Apache-2.0
#include "reference/fixture.hpp"

#include <numeric>

#include "sft/config/parse.hpp"
#include "sft/io/hdf5.hpp"

namespace sft::test {
namespace {

template <class T>
std::vector<T> read_whole(const io::Hdf5File& file, const std::string& name, io::Number type) {
  const std::vector<std::int64_t> shape = file.dataset_shape(name);
  const io::Rectangle all{.num_rows = shape[0], .num_columns = shape.size() == 2 ? shape[1] : 1};
  std::vector<T> values(all.num_rows * all.num_columns);
  file.read(name, type, all, values.data());
  return values;
}

LogicalTensors read_group(const io::Hdf5File& file, const std::string& group) {
  LogicalTensors tensors;
  for (const std::string& name : file.list_datasets(group)) {
    tensors[name] = read_whole<float>(file, group + "/" + name, io::Number::float32);
  }
  return tensors;
}

}  // namespace

ReferenceFixture read_reference(const std::string& family) {
  const std::string path = SFT_SOURCE_DIR "/tests/reference/fixtures/" + family + ".h5";
  const io::Hdf5File file = io::Hdf5File::open(path);
  const rows::PackedDataset dataset({path});
  ReferenceFixture fixture;
  fixture.model = config::parse(file.read_string("config"), {}, path).model;
  fixture.max_length = dataset.max_length();
  for (std::int64_t row = 0; row < dataset.num_rows(); ++row) fixture.rows.push_back(dataset.read_row(row));
  fixture.parameters = read_group(file, "/parameters");
  fixture.gradients = read_group(file, "/gradients");
  fixture.loss = file.read_float("loss");

  const auto document = file.read_int("logits_document");
  const std::vector<std::int32_t>& lengths = fixture.rows[0].document_lengths;
  const auto begin = fixture.rows[0].tokens.begin() + std::accumulate(lengths.begin(), lengths.begin() + document, 0);
  fixture.logits_tokens.assign(begin, begin + lengths[document]);
  fixture.logits = read_whole<double>(file, "/logits", io::Number::float64);
  return fixture;
}

ReferenceFixture read_fp8_reference(const std::string& kind) {
  ReferenceFixture fixture = read_reference("llama");
  const io::Hdf5File file = io::Hdf5File::open(SFT_SOURCE_DIR "/tests/reference/fixtures/llama_fp8.h5");
  fixture.gradients = read_group(file, "/" + kind);
  fixture.loss = file.read_float("loss_" + kind);
  return fixture;
}

}  // namespace sft::test
