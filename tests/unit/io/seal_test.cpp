// SPDX-License-Identifier: Apache-2.0
#include "sft/io/seal.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <numeric>

#include "sft/io/files.hpp"
#include "sft/io/hash.hpp"
#include "sft/io/hdf5.hpp"
#include "support/damage.hpp"
#include "support/error_text.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;
using sft::io::Hdf5File;
using sft::io::Number;
using sft::test::data_error_of;
using sft::test::flip_bit;
using sft::test::mentions;
using sft::test::overwrite;

namespace {

struct Fixture {
  sft::test::TemporaryFolder folder;
  const std::string path = folder.file("sealed.h5");

  /// A file with /first and /second of `size` numbers each and the attribute "name".
  void write(std::int64_t size, bool is_sealed = true) const {
    Hdf5File file = Hdf5File::create(path, sft::io::seal_bytes);
    std::vector<std::int32_t> values(static_cast<std::size_t>(size));
    std::iota(values.begin(), values.end(), 0);
    for (const char* name : {"/first", "/second"}) {
      file.create_dataset(name, Number::int32, {size});
      file.write(name, Number::int32, {.num_rows = size}, values.data());
    }
    file.write_string("name", "value");
    file.close();
    if (is_sealed) sft::io::seal(path);
  }
  static std::int32_t read(const Hdf5File& file, const char* name, std::int64_t index) {
    std::int32_t value = 0;
    file.read(name, Number::int32, {.row_begin = index, .num_rows = 1}, &value);
    return value;
  }
  std::string open_error() const {
    return data_error_of([this] { (void)Hdf5File::open(path); });
  }
  std::string check_error() const {
    return data_error_of([this] { sft::io::check_seal(path); });
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(seal, Fixture)

BOOST_AUTO_TEST_CASE(a_sealed_file_is_read_as_any_other) {
  constexpr std::int64_t size = 5'000'000;  // the hashes of its blocks fill more than one block
  write(size);
  BOOST_TEST(check_error() == "");
  const Hdf5File file = Hdf5File::open(path);
  BOOST_TEST(file.is_sealed());
  BOOST_TEST(file.read_string("name") == "value");
  for (const std::int64_t index : {std::int64_t{0}, size / 2, size - 1}) {
    BOOST_TEST(read(file, "/first", index) == index);
    BOOST_TEST(read(file, "/second", index) == index);
  }
  std::vector<std::int32_t> values(size), expected(size);
  std::iota(expected.begin(), expected.end(), 0);
  file.read("/second", Number::int32, {.num_rows = size}, values.data());
  BOOST_TEST((values == expected));
}

BOOST_AUTO_TEST_CASE(a_file_without_a_user_block_has_no_seal) {
  Hdf5File::create(path).close();
  BOOST_TEST(!Hdf5File::open(path).is_sealed());
  BOOST_TEST(check_error() == "");
}

BOOST_AUTO_TEST_CASE(any_bit_that_is_not_as_it_was_is_found) {
  write(100);
  const std::size_t size = fs::file_size(path);
  for (std::size_t place = 0; place < size; place += 3) {
    flip_bit(path, place);
    const std::string error = check_error();
    BOOST_TEST(mentions(error, {path, "damaged"}), "byte " << place << ": " << error);
    BOOST_TEST(mentions(open_error(), {path}));  // the file has one block, so that opening meets all of it
    flip_bit(path, place);
  }
  BOOST_TEST(check_error() == "");
}

BOOST_AUTO_TEST_CASE(damage_is_an_error_of_the_read_that_meets_it) {
  constexpr std::int64_t size = 1'000'000;
  write(size);
  const std::size_t place = fs::file_size(path) - 1'000'000;  // in the values of /second
  flip_bit(path, place);
  const Hdf5File file = Hdf5File::open(path);
  BOOST_TEST(read(file, "/first", size - 1) == size - 1);
  BOOST_TEST(read(file, "/second", 0) == 0);
  std::vector<std::int32_t> values(size);
  const auto read_all = [&] { file.read("/second", Number::int32, {.num_rows = size}, values.data()); };
  for (int repeat = 0; repeat < 2; ++repeat) {
    BOOST_TEST(mentions(data_error_of(read_all), {path, "/second", "not those that were written", "restore"}));
  }
}

BOOST_AUTO_TEST_CASE(hashes_that_are_not_as_they_were_are_found) {
  write(5'000'000);
  flip_bit(path, fs::file_size(path) - 100);  // the hash of a block among the last of /second
  BOOST_TEST(mentions(check_error(), {path, "damaged"}));
  const Hdf5File file = Hdf5File::open(path);
  BOOST_TEST(mentions(data_error_of([&] { (void)read(file, "/second", 4'900'000); }), {path, "not those that were"}));
  BOOST_TEST(read(file, "/first", 4'900'000) == 4'900'000);  // its hash lies in another block
}

BOOST_AUTO_TEST_CASE(a_file_of_another_size_is_refused_when_it_is_opened) {
  write(1000);
  const std::size_t size = fs::file_size(path);
  constexpr std::size_t bytes_of_hashes = 16;  // of one block
  for (const std::size_t kept : {size - bytes_of_hashes - 1, size / 2, std::size_t{513}, std::size_t{512}}) {
    write(1000);
    fs::resize_file(path, kept);
    BOOST_TEST(mentions(open_error(), {path, "damaged"}));
    BOOST_TEST(mentions(check_error(), {path, "damaged"}));
  }
  write(1000);
  overwrite(path, size, "more");
  BOOST_TEST(mentions(open_error(), {path, "damaged", std::to_string(size + 4) + " bytes"}));
}

BOOST_AUTO_TEST_CASE(a_file_that_loses_bytes_while_it_is_open_is_noticed) {
  write(1'000'000);
  const Hdf5File file = Hdf5File::open(path);
  fs::resize_file(path, 4'000'000);
  BOOST_TEST(mentions(data_error_of([&] { (void)read(file, "/second", 999'999); }), {path, "shorter"}));
}

BOOST_AUTO_TEST_CASE(a_user_block_of_others_is_no_seal) {
  for (const char* text : {"", "MATLAB 7.3 MAT-file, Platform: GLNXA64"}) {
    write(10, false);
    overwrite(path, 0, text);
    BOOST_TEST(check_error() == "");
    const Hdf5File file = Hdf5File::open(path);
    BOOST_TEST(!file.is_sealed());
    BOOST_TEST(read(file, "/second", 9) == 9);
  }
}

BOOST_AUTO_TEST_CASE(what_is_left_of_a_seal_is_no_user_block_of_others) {
  for (const std::string& damage : {std::string("x"), std::string(100, 'x'), std::string(512, '\0')}) {
    write(10);
    overwrite(path, 0, damage);
    BOOST_TEST(mentions(open_error(), {path, "neither as HDF5"}));
    BOOST_TEST(mentions(check_error(), {path, "neither as HDF5"}));
  }
}

BOOST_AUTO_TEST_CASE(a_rewritten_file_that_lost_its_seal_was_changed) {
  write(10);
  Hdf5File::extend(path).close();
  overwrite(path, 0, "x");
  for (const std::string& error : {open_error(), check_error()}) {
    BOOST_TEST(mentions(error, {path, "was changed after it was written", "neither as HDF5"}), error);
  }
}

BOOST_AUTO_TEST_CASE(a_changed_file_is_sealed_again) {
  write(10);
  Hdf5File file = Hdf5File::extend(path);
  file.write_string("name", "another value");
  file.close();
  BOOST_TEST(mentions(check_error(), {path, "was changed after it was written", "h5repack"}));
  sft::io::seal(path);
  BOOST_TEST(check_error() == "");
  BOOST_TEST(Hdf5File::open(path).read_string("name") == "another value");
}

BOOST_AUTO_TEST_CASE(the_checksum_of_earlier_versions_is_compared_when_asked) {
  write(10, false);
  overwrite(path, 0, "sft-checkpoint " + sft::io::checksum_of_file(path, sft::io::seal_bytes) + "\n");
  BOOST_TEST(check_error() == "");
  BOOST_TEST(!Hdf5File::open(path).is_sealed());
  flip_bit(path, fs::file_size(path) - 3);
  BOOST_TEST(mentions(check_error(), {path, "damaged", "crc32:"}));
}

BOOST_AUTO_TEST_CASE(files_that_cannot_be_read_are_named) {
  BOOST_TEST(mentions(data_error_of([this] { sft::io::seal(path); }), {path, "No such file"}));
  BOOST_TEST(mentions(check_error(), {path, "No such file"}));
}

BOOST_AUTO_TEST_SUITE_END()
