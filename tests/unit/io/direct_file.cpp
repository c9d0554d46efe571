// SPDX-License-Identifier: Apache-2.0
#include "sft/io/direct_file.hpp"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "support/error_text.hpp"
#include "support/file_size_limit.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;

namespace sft::io {

namespace {

constexpr std::size_t block = direct_alignment_bytes;

/// Aligned memory of whole blocks.
class Blocks {
 public:
  explicit Blocks(std::size_t count, int value = 0)
      : bytes_(static_cast<unsigned char*>(std::aligned_alloc(block, count * block))), size_(count * block) {
    std::memset(bytes_.get(), value, size_);
  }
  [[nodiscard]] unsigned char* data() const { return bytes_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool holds_only(int value) const {
    for (std::size_t i = 0; i < size_; ++i) {
      if (bytes_.get()[i] != value) return false;
    }
    return true;
  }

 private:
  struct Free {
    void operator()(unsigned char* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<unsigned char, Free> bytes_;
  std::size_t size_;
};

constexpr TransferMethod methods[] = {TransferMethod::automatic, TransferMethod::thread};

}  // namespace

BOOST_AUTO_TEST_SUITE(direct_file)

BOOST_AUTO_TEST_CASE(what_was_written_is_read_whoever_carries_it) {
  const test::TemporaryFolder folder;
  for (const TransferMethod method : methods) {
    constexpr int num_parts = 150;  // more than are under way at a time
    DirectFile file(folder.path(), num_parts * 2 * block, method);
    if (method == TransferMethod::thread) BOOST_TEST(!file.uses_io_uring());
    std::deque<TransferBatch> batches(num_parts);
    std::vector<Blocks> written, read;
    for (int part = 0; part < num_parts; ++part) {
      written.emplace_back(2, part + 1);
      read.emplace_back(2);
    }
    for (std::size_t part = 0; part < num_parts; ++part) {
      file.write(batches[part], part * 2 * block, written[part].size(), written[part].data());
    }
    for (std::size_t part = num_parts; part-- > 0;) {  // in another order than they were started in
      file.wait(batches[part]);
      file.read(batches[part], part * 2 * block, read[part].size(), read[part].data());
    }
    for (std::size_t part = 0; part < num_parts; ++part) {
      file.wait(batches[part]);
      BOOST_TEST(read[part].holds_only(static_cast<int>(part) + 1), "part " << part);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_new_file_holds_zeros_and_has_no_name) {
  const test::TemporaryFolder folder;
  const std::string missing = folder.file("a/b");
  for (const TransferMethod method : methods) {
    DirectFile file(missing, 3 * block, method);
    BOOST_TEST(fs::is_empty(missing));
    const Blocks bytes(3, 77);
    TransferBatch batch;
    file.read(batch, 0, bytes.size(), bytes.data());
    file.wait(batch);
    BOOST_TEST(bytes.holds_only(0));
  }
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_used_is_named) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.file("file")) << "no folder";
  BOOST_TEST(test::mentions(test::data_error_of([&] { DirectFile(folder.file("file"), block); }),
                            {"cannot", folder.file("file")}));
}

BOOST_AUTO_TEST_CASE(a_file_that_finds_no_room_is_refused_before_it_is_used) {
  const test::TemporaryFolder folder;
  const test::FileSizeLimit limit(8 * block);
  const std::string error = test::data_error_of([&] { DirectFile(folder.path(), 9 * block); });
  BOOST_TEST(test::mentions(error, {"cannot make a file of 36864 bytes in " + folder.path(), "free space"}));
  DirectFile(folder.path(), 8 * block);
}

BOOST_AUTO_TEST_CASE(a_failed_transfer_is_told_once_by_the_wait_for_it) {
  const test::TemporaryFolder folder;
  for (const TransferMethod method : methods) {
    DirectFile file(folder.path(), 2 * block, method);
    const Blocks bytes(2);
    TransferBatch good, bad;
    file.read(bad, block, bytes.size(), bytes.data());  // ends behind the file
    file.read(good, 0, bytes.size(), bytes.data());
    file.wait(good);
    BOOST_TEST(test::mentions(test::data_error_of([&] { file.wait(bad); }),
                              {"cannot read", folder.path(), "Input/output error"}));
    file.wait(bad);
    {
      const test::FileSizeLimit limit(2 * block);
      file.write(bad, 2 * block, bytes.size(), bytes.data());
      BOOST_TEST(test::mentions(test::data_error_of([&] { file.wait(bad); }), {"cannot write", "File too large"}));
    }
    file.read(bad, 0, bytes.size(), bytes.data());
    file.wait(bad);
  }
}

BOOST_AUTO_TEST_CASE(transfers_that_nobody_waits_for_end_with_the_file) {
  const test::TemporaryFolder folder;
  for (const TransferMethod method : methods) {
    const Blocks bytes(64);
    TransferBatch batch;
    DirectFile file(folder.path(), 64 * block, method);
    for (std::size_t i = 0; i < 64; ++i) file.read(batch, i * block, block, bytes.data() + i * block);
    file.drain();
    file.read(batch, 0, bytes.size(), bytes.data());
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_aligned_is_a_mistake) {
  const test::TemporaryFolder folder;
  DirectFile file(folder.path(), 2 * block);
  const Blocks bytes(2);
  TransferBatch batch;
  BOOST_CHECK_THROW(file.read(batch, 1, block, bytes.data()), std::logic_error);
  BOOST_CHECK_THROW(file.read(batch, 0, block - 1, bytes.data()), std::logic_error);
  BOOST_CHECK_THROW(file.write(batch, 0, block, bytes.data() + 8), std::logic_error);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::io
