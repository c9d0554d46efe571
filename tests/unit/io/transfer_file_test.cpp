// SPDX-License-Identifier: Apache-2.0
#include "sft/io/transfer_file.hpp"

#include <algorithm>
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

const FileUse state{.what = "the optimizer's state", .instead = "offload_optimizer = none"};
const auto nothing = [] {};

constexpr TransferMethod methods[] = {TransferMethod::automatic, TransferMethod::thread};

}  // namespace

BOOST_AUTO_TEST_SUITE(transfer_file)

BOOST_AUTO_TEST_CASE(what_was_written_is_read_whoever_carries_it) {
  const test::TemporaryFolder folder;
  for (const TransferMethod method : methods) {
    constexpr int num_parts = 150;  // more than are under way at a time
    TransferFile file(folder.path(), num_parts * 2 * block, state, FileCache::bypassed, method);
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
      file.wait(batches[part], nothing);
      file.read(batches[part], part * 2 * block, read[part].size(), read[part].data());
    }
    for (std::size_t part = 0; part < num_parts; ++part) {
      file.wait(batches[part], nothing);
      BOOST_TEST(read[part].holds_only(static_cast<int>(part) + 1), "part " << part);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_new_file_holds_zeros_and_has_no_name) {
  const test::TemporaryFolder folder;
  const std::string missing = folder.file("a/b");
  for (const TransferMethod method : methods) {
    TransferFile file(missing, 3 * block, state, FileCache::bypassed, method);
    BOOST_TEST(fs::is_empty(missing));
    const Blocks bytes(3, 77);
    TransferBatch batch;
    file.read(batch, 0, bytes.size(), bytes.data());
    file.wait(batch, nothing);
    BOOST_TEST(bytes.holds_only(0));
  }
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_used_is_named) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.file("file")) << "no folder";
  BOOST_TEST(test::mentions(test::data_error_of([&] { TransferFile(folder.file("file"), block, state); }),
                            {"cannot", folder.file("file")}));
}

BOOST_AUTO_TEST_CASE(a_file_that_finds_no_room_is_refused_before_it_is_used) {
  const test::TemporaryFolder folder;
  const test::FileSizeLimit limit(8 * block);
  const std::string error = test::data_error_of([&] { TransferFile(folder.path(), 9 * block, state); });
  BOOST_TEST(test::mentions(
      error, {"cannot offload the optimizer's state to `" + folder.path() + "` (a rank needs 36.0 KiB there: ",
              "or offload_optimizer = none"}));
  TransferFile(folder.path(), 8 * block, state);
}

BOOST_AUTO_TEST_CASE(a_failed_transfer_is_told_once_by_the_wait_for_it) {
  const test::TemporaryFolder folder;
  for (const TransferMethod method : methods) {
    TransferFile file(folder.path(), 2 * block, state, FileCache::bypassed, method);
    const Blocks bytes(2);
    TransferBatch good, bad;
    file.read(bad, block, bytes.size(), bytes.data());  // ends behind the file
    file.read(good, 0, bytes.size(), bytes.data());
    file.wait(good, nothing);
    BOOST_TEST(test::mentions(test::data_error_of([&] { file.wait(bad, nothing); }),
                              {"cannot read", folder.path(), "Input/output error"}));
    file.wait(bad, nothing);
    {
      const test::FileSizeLimit limit(2 * block);
      file.write(bad, 2 * block, bytes.size(), bytes.data());
      BOOST_TEST(
          test::mentions(test::data_error_of([&] { file.wait(bad, nothing); }), {"cannot write", "File too large"}));
    }
    file.read(bad, 0, bytes.size(), bytes.data());
    file.wait(bad, nothing);
  }
}

BOOST_AUTO_TEST_CASE(transfers_that_nobody_waits_for_end_with_the_file) {
  const test::TemporaryFolder folder;
  for (const TransferMethod method : methods) {
    const Blocks bytes(64);
    TransferBatch batch;
    TransferFile file(folder.path(), 64 * block, state, FileCache::bypassed, method);
    for (std::size_t i = 0; i < 64; ++i) file.read(batch, i * block, block, bytes.data() + i * block);
    file.drain();
    file.read(batch, 0, bytes.size(), bytes.data());
  }
}

BOOST_AUTO_TEST_CASE(through_the_cache_nothing_need_be_aligned) {
  const test::TemporaryFolder folder;
  TransferFile file(folder.path(), 1001, state, FileCache::used);
  BOOST_TEST(!file.is_direct());
  std::vector<char> written(1001), read(1001);
  for (std::size_t i = 0; i < written.size(); ++i) written[i] = static_cast<char>(i * 7);
  TransferBatch batch;
  file.write(batch, 0, 300, written.data());
  file.write(batch, 300, 701, written.data() + 300);
  file.wait(batch, nothing);
  file.read(batch, 1, 1000, read.data() + 1);
  file.wait(batch, nothing);
  BOOST_TEST(std::equal(written.begin() + 1, written.end(), read.begin() + 1));
}

BOOST_AUTO_TEST_CASE(a_wait_lets_other_work_progress) {
  const test::TemporaryFolder folder;
  for (const TransferMethod method : methods) {
    const Blocks bytes(4096);
    TransferFile file(folder.path(), bytes.size(), state, FileCache::bypassed, method);
    TransferBatch batch;
    int num_calls = 0;
    for (int turn = 0; turn < 1000 && num_calls == 0; ++turn) {
      for (int i = 0; i < 16; ++i) file.write(batch, 0, bytes.size(), bytes.data());
      file.wait(batch, [&] { ++num_calls; });
    }
    BOOST_TEST(num_calls > 0);
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_aligned_is_a_mistake) {
  const test::TemporaryFolder folder;
  TransferFile file(folder.path(), 2 * block, state);
  const Blocks bytes(2);
  TransferBatch batch;
  BOOST_CHECK_THROW(file.read(batch, 1, block, bytes.data()), std::logic_error);
  BOOST_CHECK_THROW(file.read(batch, 0, block - 1, bytes.data()), std::logic_error);
  BOOST_CHECK_THROW(file.write(batch, 0, block, bytes.data() + 8), std::logic_error);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::io
