// SPDX-License-Identifier: Apache-2.0
// Sealed files that another program opened for writing: what it left as it was is read, what it changed is refused.

#include <fcntl.h>
#include <hdf5.h>
#include <sys/file.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <numeric>

#include "io/descriptor.hpp"
#include "sft/io/files.hpp"
#include "sft/io/hash.hpp"
#include "sft/io/hdf5.hpp"
#include "sft/io/seal.hpp"
#include "support/damage.hpp"
#include "support/error_text.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;
using sft::io::Hdf5File;
using sft::io::Number;
using sft::io::read_file;
using sft::test::data_error_of;
using sft::test::flip_bit;
using sft::test::mentions;

namespace opened_for_writing {
namespace {

struct Fixture {
  sft::test::TemporaryFolder folder;
  const std::string path = folder.file("sealed.h5");

  /// Writes a sealed file of `size` numbers and returns its bytes.
  std::string write(std::int64_t size) const {
    Hdf5File file = Hdf5File::create(path, sft::io::seal_bytes);
    std::vector<std::int32_t> values(static_cast<std::size_t>(size));
    std::iota(values.begin(), values.end(), 0);
    file.create_dataset("/values", Number::int32, {size});
    file.write("/values", Number::int32, {.num_rows = size}, values.data());
    file.write_string("name", "value");
    file.close();
    sft::io::seal(path);
    return read_file(path);
  }
  static std::int32_t read(const Hdf5File& file, std::int64_t index) {
    std::int32_t value = -1;
    file.read("/values", Number::int32, {.row_begin = index, .num_rows = 1}, &value);
    return value;
  }
  /// As HDF5 does for any program that opens the file for writing.
  void open_and_close() const { Hdf5File::extend(path).close(); }
  /// A copy of a file, taken while HDF5 has it open for writing as other programs do.
  std::string marked_copy(const std::string& file) const {
    std::string copy = folder.file("marked.h5");
    const hid_t writer = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    fs::copy_file(file, copy, fs::copy_options::overwrite_existing);
    BOOST_REQUIRE(H5Fclose(writer) >= 0);
    return copy;
  }
  static std::string check_error(const std::string& file) {
    return data_error_of([&] { sft::io::check_seal(file); });
  }
};

}  // namespace
}  // namespace opened_for_writing

BOOST_FIXTURE_TEST_SUITE(opened_for_writing, opened_for_writing::Fixture)

BOOST_AUTO_TEST_CASE(a_file_that_lost_its_hashes_gets_them_again) {
  for (const std::int64_t size : {100, 5'000'000}) {  // of one block and group, and of several
    const std::string before = write(size);
    open_and_close();
    BOOST_TEST(fs::file_size(path) < before.size());
    BOOST_TEST(check_error(path) == "");
    const Hdf5File file = Hdf5File::open(path);
    BOOST_TEST(file.is_sealed());
    BOOST_TEST(mentions(file.warning(), {path, "opened for writing", "has its hashes again", "alone"}), file.warning());
    for (const std::int64_t index : {std::int64_t{0}, size / 2, size - 1}) BOOST_TEST(read(file, index) == index);
    BOOST_TEST((read_file(path) == before));
    BOOST_TEST(Hdf5File::open(path).warning() == "");
  }
}

BOOST_AUTO_TEST_CASE(hashes_of_which_a_crash_left_a_part_are_written_again) {
  const std::string before = write(300'000);
  open_and_close();
  for (std::size_t size = fs::file_size(path); size < before.size(); size += 150) {
    sft::io::write_file_atomically(path, before.substr(0, size));
    BOOST_TEST(read(Hdf5File::open(path), 299'999) == 299'999);
    BOOST_TEST((read_file(path) == before));
  }
}

BOOST_AUTO_TEST_CASE(a_file_in_use_is_read_and_stays_as_it_is) {
  const std::string before = write(5'000'000);
  open_and_close();
  const std::string cut = read_file(path);
  const sft::io::Descriptor user(path, O_RDONLY);
  BOOST_REQUIRE(::flock(user.value(), LOCK_SH) == 0);  // as HDF5 locks what it has open
  const Hdf5File file = Hdf5File::open(path);
  BOOST_TEST(mentions(file.warning(), {path, "stays cut", "another program has it open"}), file.warning());
  for (const std::int64_t index : {0, 2'500'000, 4'999'999}) BOOST_TEST(read(file, index) == index);
  BOOST_TEST((read_file(path) == cut));
}

BOOST_AUTO_TEST_CASE(a_change_is_refused_wherever_it_is) {
  write(100);
  open_and_close();
  const std::size_t cut_size = fs::file_size(path);
  for (std::size_t place = 0; place < cut_size; place += 3) {
    flip_bit(path, place);
    BOOST_TEST(check_error(path) != "", "byte " << place);
    BOOST_TEST(data_error_of([this] { (void)Hdf5File::open(path); }) != "", "byte " << place);
    BOOST_TEST(fs::file_size(path) == cut_size);
    flip_bit(path, place);
  }
  write(100);
  Hdf5File writer = Hdf5File::extend(path);
  writer.write_string("name", "other");
  writer.close();
  BOOST_TEST(mentions(check_error(path), {path, "was changed after it was written", "h5repack"}));
}

BOOST_AUTO_TEST_CASE(a_file_that_is_open_for_writing_is_read) {
  const std::string before = write(5'000'000);
  const std::string copy = marked_copy(path);
  BOOST_TEST((read_file(copy) != before));
  BOOST_TEST(check_error(copy) == "");
  const Hdf5File file = Hdf5File::open(copy);
  BOOST_TEST(mentions(file.warning(), {copy, "open for writing in another program", "h5clear"}), file.warning());
  BOOST_TEST(file.read_string("name") == "value");
  BOOST_TEST(read(file, 4'999'999) == 4'999'999);
}

BOOST_AUTO_TEST_CASE(a_file_that_is_open_for_writing_and_changed_is_refused) {
  write(100);
  const std::string copy = marked_copy(path);
  const std::size_t size = fs::file_size(copy);
  for (std::size_t place = 0; place < size; place += 3) {
    flip_bit(copy, place);
    BOOST_TEST(mentions(check_error(copy), {copy, "damaged"}), "byte " << place);
    flip_bit(copy, place);
  }
}

BOOST_AUTO_TEST_CASE(hashes_that_are_cut_off_while_a_file_is_read_are_made_again) {
  constexpr std::int64_t size = 10'000'000;  // more than one block of hashes
  const std::string before = write(size);
  open_and_close();
  const std::size_t cut_size = fs::file_size(path);
  const auto open_whole = [&] {
    sft::io::write_file_atomically(path, before);
    return Hdf5File::open(path);
  };
  const Hdf5File file = open_whole();
  fs::resize_file(path, cut_size);
  for (const std::int64_t index : {size / 2, size - 1}) BOOST_TEST(read(file, index) == index);

  const Hdf5File changed = open_whole();
  flip_bit(path, cut_size - 200'000);  // in the values
  fs::resize_file(path, cut_size);
  std::vector<std::int32_t> values(size);
  const auto read_all = [&] { changed.read("/values", Number::int32, {.num_rows = size}, values.data()); };
  BOOST_TEST(mentions(data_error_of(read_all), {path, "not those that were written"}));
}

BOOST_AUTO_TEST_CASE(earlier_checksums_do_not_count_the_marks) {
  write(100);
  const std::string sum = sft::io::checksum_of_file(path, sft::io::seal_bytes);
  BOOST_TEST(sft::io::checksum_of_file(marked_copy(path), sft::io::seal_bytes) == sum);
}

BOOST_AUTO_TEST_CASE(a_file_without_a_seal_that_is_open_for_writing_is_read_with_a_warning) {
  const std::string plain = folder.file("plain.h5");
  Hdf5File::create(plain).close();
  const std::string copy = marked_copy(plain);
  BOOST_TEST(mentions(Hdf5File::open(copy).warning(), {copy, "open for writing", "no hashes"}));
  BOOST_TEST(Hdf5File::open(plain).warning() == "");
}

BOOST_AUTO_TEST_SUITE_END()
