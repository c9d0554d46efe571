// SPDX-License-Identifier: Apache-2.0
#include "sft/prepare/document.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <random>

#include "support/error_text.hpp"
#include "support/file_size_limit.hpp"
#include "support/temporary_folder.hpp"

using namespace sft::prepare;

BOOST_AUTO_TEST_SUITE(document)

BOOST_AUTO_TEST_CASE(pieces_come_back_as_they_were_stored) {
  std::mt19937 generator(4);
  std::vector<Document> documents(40);
  const sft::test::TemporaryFolder folder;
  DocumentStore store(folder.path());
  for (Document& document : documents) {
    const std::size_t length =
        generator() % (generator() % 8 == 0 ? 3000 : 30);  // some longer than what is read at once
    for (std::size_t i = 0; i < length; ++i) {
      document.tokens.push_back(static_cast<std::int32_t>(generator() % 272));
      document.loss_weight.push_back(static_cast<float>(generator() % 3) / 2.0f);
    }
    store.append(document, static_cast<std::int64_t>(length));
  }
  BOOST_TEST(store.size() == std::ssize(documents));
  BOOST_TEST(std::filesystem::is_empty(folder.path()));
  for (std::int64_t d = 0; d < store.size(); ++d) {
    const Document& expected = documents[static_cast<std::size_t>(d)];
    for (std::size_t begin = 0; begin <= expected.tokens.size(); begin += 1 + expected.tokens.size() / 30) {
      const std::size_t length = (expected.tokens.size() - begin + 1) / 2;
      std::vector<std::int32_t> tokens(length);
      std::vector<float> weights(length);
      store.read(d, static_cast<std::int64_t>(begin), tokens, weights);
      BOOST_TEST(
          std::equal(tokens.begin(), tokens.end(), expected.tokens.begin() + static_cast<std::ptrdiff_t>(begin)));
      BOOST_TEST(std::equal(weights.begin(), weights.end(),
                            expected.loss_weight.begin() + static_cast<std::ptrdiff_t>(begin)));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_shortened_document_ends_there) {
  const sft::test::TemporaryFolder folder;
  DocumentStore store(folder.path());
  store.append({{1, 2, 3}, {0.0f, 0.0f, 1.0f}}, 2);
  BOOST_TEST(store.lengths() == std::vector<std::int32_t>{2});
  std::vector<std::int32_t> tokens(3);
  std::vector<float> weights(3);
  BOOST_CHECK_THROW(store.read(0, 0, tokens, weights), std::logic_error);
}

BOOST_AUTO_TEST_CASE(a_full_disk_and_a_missing_folder_are_named) {
  const sft::test::TemporaryFolder folder;
  DocumentStore store(folder.path());
  const Document document = {std::vector<std::int32_t>(1000, 7), std::vector<float>(1000, 1.0f)};
  const std::string full = sft::test::data_error_of([&] {
    const sft::test::FileSizeLimit limit(1024 * 1024);
    for (int i = 0; i < 1000; ++i) store.append(document, 1000);
  });
  BOOST_TEST(sft::test::mentions(full, {folder.path(), "File too large", "free space"}));
  const std::string missing = sft::test::data_error_of([&] { DocumentStore(folder.file("none")); });
  BOOST_TEST(sft::test::mentions(missing, {folder.file("none"), "No such file"}));
}

BOOST_AUTO_TEST_SUITE_END()
