// SPDX-License-Identifier: Apache-2.0
// Shards without a seal, as sft-prepare wrote them at first: they are read as ever, and damage on which HDF5 would hang
// or make up values is refused. The fixture has 512-byte, unsealed HDF5 structures of format 1.8.

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "sft/io/files.hpp"
#include "sft/rows/packed_dataset.hpp"
#include "support/damage.hpp"
#include "support/error_text.hpp"
#include "support/temporary_folder.hpp"

using sft::rows::PackedDataset;
using sft::test::data_error_of;
using sft::test::mentions;
using sft::test::overwrite;

namespace unsealed {
namespace {

struct Fixture {
  sft::test::TemporaryFolder folder;
  const std::string path = folder.file("unsealed.h5");
  std::string bytes = sft::io::read_file(SFT_SOURCE_DIR "/tests/faults/data/fixtures/unsealed.h5");

  Fixture() { sft::io::write_file_atomically(path, bytes); }

  std::string refusal() const {
    return data_error_of([this] { PackedDataset({path}).verify(); });
  }
  /// The places of `text` in the file.
  std::vector<std::size_t> places_of(const std::string& text) const {
    std::vector<std::size_t> places;
    for (std::size_t place = bytes.find(text); place != std::string::npos; place = bytes.find(text, place + 1)) {
      places.push_back(place);
    }
    return places;
  }
};

}  // namespace
}  // namespace unsealed

BOOST_FIXTURE_TEST_SUITE(unsealed, unsealed::Fixture)

BOOST_AUTO_TEST_CASE(a_sound_one_is_read) {
  const PackedDataset dataset({path});
  BOOST_TEST(refusal() == "");
  BOOST_TEST(dataset.tokenizer() == "byte");
  BOOST_TEST(dataset.fingerprint().starts_with("sampled-xxh128:"));
  std::int64_t num_tokens = 0;
  for (std::int64_t row = 0; row < dataset.num_rows(); ++row) {
    for (const std::int32_t length : dataset.read_row(row).document_lengths) num_tokens += length;
  }
  BOOST_TEST(num_tokens == dataset.num_tokens());
}

BOOST_AUTO_TEST_CASE(a_damaged_heap_of_texts_hangs_nobody) {
  const std::size_t heap = places_of("GCOL").at(0);
  const std::string last_text = "small.jsonl";
  const std::size_t free_space = places_of(last_text).back() + 16;  // texts take whole words of 8 bytes
  const auto zero = [&](std::size_t place) {
    sft::io::write_file_atomically(path, bytes);
    overwrite(path, place, std::string(16, '\0'));
    return refusal();
  };
  BOOST_TEST(mentions(zero(free_space), {path, "global heap", "damaged"}));
  for (std::size_t place = heap; place < free_space; place += 8) {
    const std::string error = zero(place);  // of a text that is not used there is none
    BOOST_TEST((error.empty() || mentions(error, {path})), error);
  }
}

BOOST_AUTO_TEST_CASE(rows_that_the_chunk_index_has_lost_are_refused_not_read_as_zeros) {
  int num_indices = 0;
  for (const std::size_t place : places_of("TREE")) {
    constexpr std::size_t chunk_index = 1, kind_offset = 4, first_row_offset = 32;
    if (bytes[place + kind_offset] != chunk_index) continue;
    ++num_indices;
    sft::io::write_file_atomically(path, bytes);
    overwrite(path, place + first_row_offset, std::string("\x40\x42\x0f\0\0\0\0\0", 8));  // row 1000000
    BOOST_TEST(mentions(refusal(), {path, "cannot read the dataset"}), refusal());
  }
  BOOST_TEST(num_indices == 4);
}

BOOST_AUTO_TEST_SUITE_END()
