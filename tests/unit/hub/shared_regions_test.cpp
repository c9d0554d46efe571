// SPDX-License-Identifier: Apache-2.0
// Columns of matrices that ranks lay together: threads stand for the ranks of a node.

#include "sft/hub/shared_regions.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "sft/io/files.hpp"
#include "unit/hub/hub_fixture.hpp"

using namespace sft;

BOOST_AUTO_TEST_SUITE(shared_regions)

namespace {

const std::vector<io::TensorInfo> tensors{{"model/model.norm.weight", {700}, DType::float32},
                                          {"model/model.layers.0.mlp.down_proj.weight", {3000, 700}, DType::float32},
                                          {"model/model.layers.0.self_attn.o_proj.weight", {701, 900}, DType::float32},
                                          {"model/model.layers.1.mlp.down_proj.weight", {9000, 700}, DType::float32}};

std::vector<float> values_of(const io::TensorInfo& tensor, const io::Rectangle& where) {
  const std::int64_t width = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
  std::vector<float> values;
  for (std::int64_t row = where.row_begin; row < where.row_begin + where.num_rows; ++row) {
    for (std::int64_t column = where.column_begin; column < where.column_begin + where.num_columns; ++column) {
      values.push_back(static_cast<float>((row * width + column) % 251));
    }
  }
  return values;
}

/// What rank `rank` of `num_ranks` has: columns of matrices in pieces of rows; the vector is rank 0's.
void give(io::TensorSink& sink, int rank, int num_ranks, int num_absent = 0) {
  for (const io::TensorInfo& tensor : tensors) {
    if (tensor.shape.size() == 1) {
      const io::Rectangle all{.num_rows = tensor.shape[0], .num_columns = 1};
      if (rank == 0) sink.write(tensor.name, all, DType::float32, values_of(tensor, all).data());
      continue;
    }
    const std::int64_t parts = num_ranks + num_absent;
    const std::int64_t begin = tensor.shape[1] * rank / parts, end = tensor.shape[1] * (rank + 1) / parts;
    for (std::int64_t row = 0; row < tensor.shape[0]; row += 400) {
      const io::Rectangle piece{row, std::min<std::int64_t>(400, tensor.shape[0] - row), begin, end - begin};
      sink.write(tensor.name, piece, DType::float32, values_of(tensor, piece).data());
    }
  }
}

/// Runs `work(rank)` for all ranks at once; their errors.
template <class Work>
std::vector<std::string> on_ranks(int num_ranks, const Work& work) {
  std::vector<std::string> errors(num_ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(rank);
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

struct Folder {
  Folder() { hub::create_weight_files(plan, folder.path()); }
  hub::WeightsPlan plan{tensors, hub::WeightType::bfloat16, std::uint64_t{1} << 40};
  test::TemporaryFolder folder;
  std::vector<std::uint64_t> memory = std::vector<std::uint64_t>(hub::SharedRegions::memory_bytes(plan) / 8 + 1);
  [[nodiscard]] std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(memory)); }
};

std::string expected_file() {
  Folder expected;
  hub::WeightsSink sink(expected.plan, expected.folder.path());
  give(sink, 0, 1);
  sink.finish();
  return io::read_file(expected.folder.file("model.safetensors"));
}

}  // namespace

BOOST_AUTO_TEST_CASE(columns_of_ranks_are_written_as_regions) {
  const std::string expected = expected_file();
  for (const int num_ranks : {1, 2, 3, 7}) {
    Folder made;
    const std::vector<std::string> errors = on_ranks(num_ranks, [&](int rank) {
      hub::SharedRegions regions(made.plan, made.bytes(), num_ranks);
      hub::RegionCounter counter(made.plan, regions);
      give(counter, rank, num_ranks);
      regions.start();
      hub::WeightsSink sink(made.plan, made.folder.path(), &regions);
      give(sink, rank, num_ranks);
      sink.finish();
    });
    BOOST_TEST((errors == std::vector<std::string>(num_ranks)));
    BOOST_TEST((io::read_file(made.folder.file("model.safetensors")) == expected));
  }
}

BOOST_AUTO_TEST_CASE(regions_are_as_large_as_they_can_be) {
  Folder made;
  std::vector<std::uint64_t> sizes;
  std::mutex lock;
  const auto note = [&](std::size_t, std::uint64_t, std::uint64_t size, const char*) {
    const std::scoped_lock held(lock);
    sizes.push_back(size);
  };
  constexpr std::uint64_t part = 1000, whole = 9000 * 700 * 2;  // of the last tensor
  const std::vector<std::string> errors = on_ranks(2, [&](int rank) {
    hub::SharedRegions regions(made.plan, made.bytes(), 2);
    const auto each = [&](const auto& visit) {
      for (std::uint64_t at = rank * part; at < whole; at += 2 * part) visit(at, std::min(part, whole - at));
    };
    each([&](std::uint64_t at, std::uint64_t size) { regions.expect(3, at, size); });
    regions.start();
    const std::string bytes(part, 'x');
    each([&](std::uint64_t at, std::uint64_t size) { regions.put(3, at, size, bytes.data(), note); });
  });
  BOOST_TEST((errors == std::vector<std::string>(2)));
  std::ranges::sort(sizes);
  BOOST_TEST_REQUIRE(sizes.size() == whole / hub::SharedRegions::region_bytes + 1);
  BOOST_TEST(sizes[0] == whole % hub::SharedRegions::region_bytes);
  BOOST_TEST(sizes[1] == hub::SharedRegions::region_bytes);
}

BOOST_AUTO_TEST_CASE(what_other_nodes_have_is_left_to_them) {
  Folder made;
  // Two ranks of three: no region is whole here
  const std::vector<std::string> errors = on_ranks(2, [&](int rank) {
    hub::SharedRegions regions(made.plan, made.bytes(), 2);
    hub::RegionCounter counter(made.plan, regions);
    give(counter, rank, 2, 1);
    regions.start();
    hub::WeightsSink sink(made.plan, made.folder.path(), &regions);
    give(sink, rank, 2, 1);
    sink.finish();
  });
  BOOST_TEST((errors == std::vector<std::string>(2)));
  hub::WeightsSink other_node(made.plan, made.folder.path());
  give(other_node, 2, 2, 1);
  other_node.finish();
  BOOST_TEST((io::read_file(made.folder.file("model.safetensors")) == expected_file()));
}

BOOST_AUTO_TEST_CASE(another_order_than_that_of_the_files_is_written_all_the_same) {
  Folder made;
  const auto backwards = [&](io::TensorSink& sink, int rank) {
    for (const std::size_t tensor : {3, 2, 1}) {
      const std::int64_t half = tensors[tensor].shape[1] / 2;
      const io::Rectangle part{0, tensors[tensor].shape[0], rank * half, half};
      sink.write(tensors[tensor].name, part, DType::float32, values_of(tensors[tensor], part).data());
    }
  };
  const std::vector<std::string> errors = on_ranks(2, [&](int rank) {
    hub::SharedRegions regions(made.plan, made.bytes(), 2);
    hub::RegionCounter counter(made.plan, regions);
    backwards(counter, rank);
    regions.start();
    hub::WeightsSink sink(made.plan, made.folder.path(), &regions);
    backwards(sink, rank);
    const io::Rectangle all{.num_rows = tensors[0].shape[0], .num_columns = 1};
    if (rank == 0) sink.write(tensors[0].name, all, DType::float32, values_of(tensors[0], all).data());
    sink.finish();
  });
  BOOST_TEST((errors == std::vector<std::string>(2)));
  BOOST_TEST((io::read_file(made.folder.file("model.safetensors")) == expected_file()));
}

BOOST_AUTO_TEST_CASE(a_rank_that_fails_ends_the_waits_of_the_others) {
  for (const bool before_start : {true, false}) {
    Folder made;
    const std::vector<std::string> errors = on_ranks(3, [&](int rank) {
      hub::SharedRegions regions(made.plan, made.bytes(), 3);
      hub::RegionCounter counter(made.plan, regions);
      if (rank == 1 && before_start) return regions.fail("the disk is full");
      give(counter, rank, 3);
      regions.start();
      if (rank == 1) return regions.fail("the disk is full");
      hub::WeightsSink sink(made.plan, made.folder.path(), &regions);
      give(sink, rank, 3);
      sink.finish();
    });
    BOOST_TEST(errors[0] == "the disk is full");
    BOOST_TEST(errors[2] == "the disk is full");
  }
}

BOOST_AUTO_TEST_SUITE_END()
