// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <numeric>

#include "sft/io/hdf5.hpp"
#include "support/error_text.hpp"
#include "support/open_file_limit.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;
using sft::io::Hdf5File;
using sft::io::Number;
using sft::io::Sources;
using sft::io::VirtualPiece;
using sft::test::data_error_of;
using sft::test::mentions;

namespace {

/// A 1-D dataset /flat of 0 + base, 1 + base, ...
void write_flat(const std::string& path, std::int64_t size, float base) {
  std::vector<float> values(static_cast<std::size_t>(size));
  std::iota(values.begin(), values.end(), base);
  Hdf5File file = Hdf5File::create(path);
  file.create_dataset("/flat", Number::float32, {size});
  file.write("/flat", Number::float32, {.num_rows = size}, values.data());
  file.close();
}

/// A 3 x 4 matrix: elements 0..5 from a.h5 from its element 2 on, 6..11 from b.h5; the cut lies inside row 1.
void write_matrix(const std::string& folder) {
  write_flat(folder + "/a.h5", 8, -2.0F);
  write_flat(folder + "/b.h5", 6, 6.0F);
  const auto piece = [](sft::io::Rectangle target, const char* source, std::int64_t begin, std::int64_t size) {
    return VirtualPiece{.targets = {target},
                        .source_file = source,
                        .source_dataset = "/flat",
                        .source_begin = begin,
                        .source_size = size};
  };
  Hdf5File file = Hdf5File::create(folder + "/whole.h5");
  file.create_virtual_dataset("/model/matrix", io::Number::float32, {3, 4},
                              {piece({0, 1, 0, 4}, "a.h5", 2, 8), piece({1, 1, 0, 2}, "a.h5", 6, 8),
                               piece({1, 1, 2, 2}, "b.h5", 0, 6), piece({2, 1, 0, 4}, "b.h5", 2, 6)});
  file.create_virtual_dataset("/model/vector", io::Number::float32, {6}, {piece({0, 6, 0, 1}, "b.h5", 0, 6)});
  file.close();
}

std::vector<float> read_matrix(const std::string& folder) {
  std::vector<float> values(12);
  Hdf5File::open(folder + "/whole.h5", Sources::same_folder)
      .read("/model/matrix", Number::float32, {0, 3, 0, 4}, values.data());
  return values;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(hdf5_virtual)

BOOST_AUTO_TEST_CASE(pieces_of_other_files_are_one_matrix_also_after_a_move) {
  const sft::test::TemporaryFolder folder;
  fs::create_directory(folder.file("here"));
  write_matrix(folder.file("here"));
  std::vector<float> expected(12);
  std::iota(expected.begin(), expected.end(), 0.0F);
  BOOST_TEST(read_matrix(folder.file("here")) == expected);
  fs::rename(folder.file("here"), folder.file("there"));
  BOOST_TEST(read_matrix(folder.file("there")) == expected);

  std::vector<float> vector(6);
  Hdf5File::open(folder.file("there/whole.h5"), Sources::same_folder)
      .read("/model/vector", Number::float32, {.num_rows = 6}, vector.data());
  BOOST_TEST(std::equal(vector.begin(), vector.end(), expected.begin() + 6));
}

BOOST_AUTO_TEST_CASE(one_mapping_covers_a_piece_that_is_no_rectangle) {
  const sft::test::TemporaryFolder folder;
  write_flat(folder.file("a.h5"), 20, 100.0F);
  Hdf5File file = Hdf5File::create(folder.file("whole.h5"));
  // Of 5 x 6, the slice of columns 2 to 5 from its (0, 1) on: three numbers, two whole rows, two numbers.
  file.create_virtual_dataset("/m", Number::float32, {5, 6},
                              {{.targets = {{0, 1, 3, 3}, {1, 2, 2, 4}, {3, 1, 2, 2}},
                                .source_file = "a.h5",
                                .source_dataset = "/flat",
                                .source_begin = 4,
                                .source_size = 20}});
  file.close();
  std::vector<float> values(30);
  Hdf5File::open(folder.file("whole.h5"), Sources::same_folder)
      .read("/m", Number::float32, {.num_rows = 5, .num_columns = 6}, values.data());
  float next = 104.0F;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t row = i / 6, column = i % 6;
    const bool is_mapped = (row == 0 && column >= 3) || ((row == 1 || row == 2) && column >= 2) ||
                           (row == 3 && (column == 2 || column == 3));
    BOOST_TEST((is_mapped ? values[i] == next++ : std::isnan(values[i])), row << ", " << column);
  }
}

BOOST_AUTO_TEST_CASE(a_source_that_cannot_be_used_is_named_and_gives_no_numbers) {
  const sft::test::TemporaryFolder folder;
  const std::string source = folder.file("b.h5");
  const auto check = [&](const std::string& reason) {
    const Hdf5File whole = Hdf5File::open(folder.file("whole.h5"), Sources::same_folder);
    std::vector<float> values(12, std::numeric_limits<float>::quiet_NaN());
    for (int repeat = 0; repeat < 2; ++repeat) {
      const std::string error = data_error_of([&] {
        whole.read("/model/matrix", Number::float32, {0, 3, 0, 4}, values.data());
      });
      BOOST_TEST(mentions(error, {"whole.h5", "/model/matrix", "b.h5", reason}), error);
    }
    for (std::size_t i = 6; i < values.size(); ++i) BOOST_TEST(std::isnan(values[i]));
    whole.read("/model/matrix", Number::float32, {0, 1, 0, 4}, values.data());
    BOOST_TEST(values[3] == 3.0F);
  };
  write_matrix(folder.path());
  fs::resize_file(source, fs::file_size(source) - 1);
  check("not what was written there");
  Hdf5File::create(source).close();  // without /flat
  check("not what was written there");
  fs::remove(source);
  check("No such file");
  write_matrix(folder.path());
  BOOST_TEST(read_matrix(folder.path()).back() == 11.0F);
}

BOOST_AUTO_TEST_CASE(sources_beyond_the_limit_of_open_files_are_an_error) {
  const sft::test::TemporaryFolder folder;
  write_matrix(folder.path());
  {
    const Hdf5File whole = Hdf5File::open(folder.file("whole.h5"), Sources::same_folder);
    const sft::test::OpenFileLimit limit(1);
    std::vector<float> values(12);
    const std::string error = data_error_of([&] {
      whole.read("/model/matrix", Number::float32, {0, 3, 0, 4}, values.data());
    });
    BOOST_TEST(mentions(error, {"whole.h5", "/model/matrix", ".h5: Too many open files", "ulimit -n"}), error);
  }
  BOOST_TEST(read_matrix(folder.path()).back() == 11.0F);
}

BOOST_AUTO_TEST_CASE(the_same_sources_may_be_open_twice_and_outlive_the_first) {
  const sft::test::TemporaryFolder folder;
  write_matrix(folder.path());
  std::vector<float> values(12);
  auto first = std::make_unique<Hdf5File>(Hdf5File::open(folder.file("whole.h5"), Sources::same_folder));
  const Hdf5File second = Hdf5File::open(folder.file("whole.h5"), Sources::same_folder);
  first->read("/model/matrix", Number::float32, {0, 3, 0, 4}, values.data());
  second.read("/model/matrix", Number::float32, {0, 3, 0, 4}, values.data());
  first.reset();
  second.read("/model/vector", Number::float32, {.num_rows = 6}, values.data());
  BOOST_TEST(values[5] == 11.0F);
}

BOOST_AUTO_TEST_CASE(a_piece_outside_the_shape_is_refused) {
  const sft::test::TemporaryFolder folder;
  Hdf5File file = Hdf5File::create(folder.file("whole.h5"));
  const VirtualPiece piece = {
      .targets = {{2, 2, 0, 4}}, .source_file = "a.h5", .source_dataset = "/flat", .source_begin = 0, .source_size = 8};
  BOOST_TEST(mentions(data_error_of([&] {
                        file.create_virtual_dataset("/m", io::Number::float32, {3, 4}, {piece});
                      }),
                      {"/m", "whole.h5", "(3, 4)"}));
}

BOOST_AUTO_TEST_SUITE_END()
