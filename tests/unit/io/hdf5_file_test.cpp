// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <limits>
#include <numeric>
#include <thread>

#include "sft/io/files.hpp"
#include "sft/io/hdf5.hpp"
#include "support/error_text.hpp"
#include "support/file_size_limit.hpp"
#include "support/temporary_folder.hpp"

using sft::io::Hdf5File;
using sft::io::Number;
using sft::io::Rectangle;
using sft::test::data_error_of;
using sft::test::mentions;

BOOST_AUTO_TEST_SUITE(hdf5_file)

BOOST_AUTO_TEST_CASE(attributes_read_back) {
  const sft::test::TemporaryFolder folder;
  const std::string long_text(200000, 'x');  // longer than an HDF5 object header may be
  {
    Hdf5File file = Hdf5File::create(folder.file("a.h5"));
    file.create_dataset("/group/data", Number::int32, {3});
    file.write_string("name", "f\u00fcr");
    file.write_string("empty", "");
    file.write_string("long", long_text);
    file.write_int("count", std::numeric_limits<std::int64_t>::min());
    file.write_float("ratio", 0.1);
    file.write_int("count", 7, "/group/data");
    file.write_int("count", 8, "/group/data");
    file.close();
  }
  const Hdf5File file = Hdf5File::open(folder.file("a.h5"));
  BOOST_TEST(file.read_string("name") == "f\u00fcr");
  BOOST_TEST(file.read_string("empty").empty());
  BOOST_TEST((file.read_string("long") == long_text));
  BOOST_TEST(file.read_int("count") == std::numeric_limits<std::int64_t>::min());
  BOOST_TEST(file.read_float("ratio") == 0.1);
  BOOST_TEST(file.read_int("count", "/group/data") == 8);
  BOOST_TEST(file.read_float("count", "/group/data") == 8.0);
  BOOST_TEST(file.has_attribute("count"));
  BOOST_TEST(!file.has_attribute("count", "/group"));
}

BOOST_AUTO_TEST_CASE(rectangles_read_back_stored_whole_or_in_chunks) {
  constexpr std::int64_t rows = 11;
  constexpr std::int64_t columns = 5;
  std::vector<std::int32_t> values(rows * columns);
  std::iota(values.begin(), values.end(), 0);
  const sft::test::TemporaryFolder folder;
  for (const std::int64_t chunk_rows : {0, 1, 4, 100}) {
    Hdf5File file = Hdf5File::create(folder.file("d.h5"));
    file.create_dataset("/tokens", Number::int32, {rows, columns}, chunk_rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      file.write("/tokens", Number::int32, {.row_begin = row, .num_rows = 1, .num_columns = columns},
                 values.data() + row * columns);
    }
    file.close();
    const Hdf5File reopened = Hdf5File::open(folder.file("d.h5"));
    const std::vector<std::int64_t> shape = {rows, columns};
    BOOST_TEST(reopened.dataset_shape("/tokens") == shape);
    std::vector<double> part(6);
    reopened.read("/tokens", Number::float64, {.row_begin = 3, .num_rows = 2, .column_begin = 1, .num_columns = 3},
                  part.data());
    const std::vector<double> expected = {16, 17, 18, 21, 22, 23};
    BOOST_TEST(part == expected);
  }
}

BOOST_AUTO_TEST_CASE(every_number_type_and_an_empty_dataset_read_back) {
  const sft::test::TemporaryFolder folder;
  Hdf5File file = Hdf5File::create(folder.file("n.h5"));
  const std::int64_t big = std::numeric_limits<std::int64_t>::max();
  const float third = 1.0F / 3.0F;
  const double tenth = 0.1;
  file.create_dataset("/big", Number::int64, {1});
  file.create_dataset("/third", Number::float32, {1});
  file.create_dataset("/tenth", Number::float64, {1});
  file.create_dataset("/none", Number::int32, {0, 4}, 2);
  const Rectangle one = {.num_rows = 1};
  file.write("/big", Number::int64, one, &big);
  file.write("/third", Number::float32, one, &third);
  file.write("/tenth", Number::float64, one, &tenth);
  std::int64_t big_read = 0;
  float third_read = 0;
  double tenth_read = 0;
  file.read("/big", Number::int64, one, &big_read);
  file.read("/third", Number::float32, one, &third_read);
  file.read("/tenth", Number::float64, one, &tenth_read);
  file.read("/none", Number::int32, {.num_rows = 0, .num_columns = 4}, nullptr);
  BOOST_TEST(big_read == big);
  BOOST_TEST(third_read == third);
  BOOST_TEST(tenth_read == tenth);
}

BOOST_AUTO_TEST_CASE(groups_list_their_datasets_sorted) {
  const sft::test::TemporaryFolder folder;
  Hdf5File file = Hdf5File::create(folder.file("g.h5"));
  for (const char* name : {"/model/b.weight", "/model/a.weight", "/model/sub/c"}) {
    file.create_dataset(name, Number::float32, {1});
  }
  const std::vector<std::string> expected = {"a.weight", "b.weight"};
  BOOST_TEST(file.list_datasets("/model") == expected);
  BOOST_TEST(file.has_dataset("/model/sub/c"));
  BOOST_TEST(!file.has_dataset("/model/sub"));
  BOOST_TEST(!file.has_dataset("/nowhere/c"));
}

BOOST_AUTO_TEST_CASE(errors_name_file_and_object) {
  const sft::test::TemporaryFolder folder;
  const std::string path = folder.file("e.h5");
  Hdf5File file = Hdf5File::create(path);
  file.create_dataset("/floats", Number::float32, {2, 3});
  file.write_string("text", "word");
  file.write_float("number", 0.5);
  float value = 0;
  std::int32_t integer = 0;
  const auto reads = [&](const char* name) { return data_error_of([&] { (void)file.read_int(name); }); };
  BOOST_TEST(mentions(reads("absent"), {path, "absent"}));
  BOOST_TEST(mentions(reads("text"), {path, "text", "not one number"}));
  BOOST_TEST(mentions(reads("number"), {path, "number", "no whole number"}));
  BOOST_TEST(mentions(data_error_of([&] { (void)file.read_string("number"); }), {path, "number", "not one text"}));
  BOOST_TEST(mentions(data_error_of([&] { (void)file.read_int("x", "/gone"); }), {path, "x", "/gone"}));
  BOOST_TEST(mentions(data_error_of([&] { (void)file.dataset_shape("/gone"); }), {path, "/gone"}));
  BOOST_TEST(mentions(data_error_of([&] { (void)file.list_datasets("/gone"); }), {path, "/gone"}));
  BOOST_TEST(
      mentions(data_error_of([&] { file.read("/floats", Number::float32, {.row_begin = 2, .num_rows = 1}, &value); }),
               {path, "/floats", "[2, 3)", "(2, 3)"}));
  BOOST_TEST(mentions(data_error_of([&] { file.read("/floats", Number::int32, {.num_rows = 1}, &integer); }),
                      {path, "/floats", "whole numbers"}));
  BOOST_TEST(mentions(data_error_of([&] { file.create_dataset("/floats", Number::float32, {1}); }), {path, "/floats"}));
}

BOOST_AUTO_TEST_CASE(what_is_no_hdf5_file_is_refused) {
  const sft::test::TemporaryFolder folder;
  const auto opens = [&](const std::string& path) { return data_error_of([&] { (void)Hdf5File::open(path); }); };
  BOOST_TEST(mentions(opens(folder.file("gone.h5")), {folder.file("gone.h5"), "no such file"}));
  BOOST_TEST(mentions(opens(folder.path()), {folder.path(), "no file"}));
  sft::io::write_file_atomically(folder.file("text.h5"), "this is text");
  BOOST_TEST(mentions(opens(folder.file("text.h5")), {folder.file("text.h5"), "as HDF5"}));

  Hdf5File file = Hdf5File::create(folder.file("cut.h5"));
  const std::vector<float> values(10000, 1.0F);
  file.create_dataset("/values", Number::float32, {10000});
  file.write("/values", Number::float32, {.num_rows = 10000}, values.data());
  file.close();
  std::filesystem::resize_file(folder.file("cut.h5"), 20000);
  BOOST_TEST(mentions(opens(folder.file("cut.h5")), {folder.file("cut.h5"), "truncated"}));
  BOOST_TEST(mentions(data_error_of([&] { (void)Hdf5File::create(folder.file("none/x.h5")); }),
                      {folder.file("none/x.h5"), "No such file"}));
  // Of a file that cannot be made, not that it was not there before.
  BOOST_TEST(!mentions(data_error_of([] { (void)Hdf5File::create("/sys/x.h5"); }), {"No such file"}));
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_an_error_and_the_library_lives_on) {
  const sft::test::TemporaryFolder folder;
  const std::string path = folder.file("full.h5");
  const std::vector<float> values(1 << 20, 1.0F);
  {
    const sft::test::FileSizeLimit limit(64 << 10);
    const std::string of_data = data_error_of([&] {
      Hdf5File file = Hdf5File::create(path);
      file.create_dataset("/values", Number::float32, {1 << 20});
      file.write("/values", Number::float32, {.num_rows = 1 << 20}, values.data());
      file.close();
    });
    BOOST_TEST(mentions(of_data, {path, "/values", "File too large", "free space"}));
    const std::string of_names = data_error_of([&] {
      Hdf5File file = Hdf5File::create(path);
      for (int i = 0; i < 2000; ++i) file.create_dataset("/group/" + std::to_string(i), Number::float32, {1});
      file.close();
    });
    BOOST_TEST(mentions(of_names, {path, "File too large", "free space"}));
  }
  Hdf5File file = Hdf5File::create(path);
  file.create_dataset("/values", Number::float32, {1 << 20});
  file.write("/values", Number::float32, {.num_rows = 1 << 20}, values.data());
  file.close();
}

BOOST_AUTO_TEST_CASE(threads_may_share_the_library) {
  const sft::test::TemporaryFolder folder;
  constexpr std::int64_t size = 1000;
  const auto work = [&](const std::string& name, float value) {
    for (int repeat = 0; repeat < 50; ++repeat) {
      Hdf5File file = Hdf5File::create(folder.file(name));
      const std::vector<float> values(size, value);
      file.create_dataset("/values", Number::float32, {size}, 100);
      file.write("/values", Number::float32, {.num_rows = size}, values.data());
      file.close();
      std::vector<float> read(size);
      Hdf5File::open(folder.file(name)).read("/values", Number::float32, {.num_rows = size}, read.data());
      if (read != values) throw std::runtime_error("wrong values in " + name);
    }
  };
  std::thread other(work, "other.h5", 1.0F);
  work("own.h5", 2.0F);
  other.join();
}

BOOST_AUTO_TEST_SUITE_END()
