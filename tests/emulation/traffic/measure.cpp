// SPDX-License-Identifier: Apache-2.0
#define BOOST_TEST_MODULE emulation_traffic
#include "emulation/traffic/measure.hpp"

#include <cstdio>
#include <cstring>
#include <utility>

#include "emulation/ops/support.hpp"

namespace sft::ops::testing {

namespace {

std::vector<device::Device::Block>& blocks() {
  static std::vector<device::Device::Block> all;
  return all;
}

struct Row {
  std::string op, shape;
  std::int64_t formula;
  double moved, asked, shared;
};

/// Prints all rows at the end.
class Table {
 public:
  ~Table() {
    std::printf("| op | shape | bytes by formula | moved / formula | asked / moved | shared passes / least |\n");
    std::printf("|---|---|--:|--:|--:|--:|\n");
    for (const Row& row : rows_) {
      std::printf("| %s | %s | %lld | %.4f | %.2f | ", row.op.c_str(), row.shape.c_str(),
                  static_cast<long long>(row.formula), row.moved, row.asked);
      if (row.shared > 0) std::printf("%.2f |\n", row.shared);
      if (row.shared == 0) std::printf("|\n");
    }
  }
  void add(Row row) { rows_.push_back(std::move(row)); }

 private:
  std::vector<Row> rows_;
};

Table& table() {
  static Table the_table;
  return the_table;
}

double ratio(std::uint64_t a, std::uint64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

}  // namespace

Tensor make(DType dtype, std::initializer_list<std::int64_t> shape) {
  Tensor x(nullptr, dtype, shape);
  blocks().push_back(Backends::get().allocate(x.size_bytes()));
  x.data = blocks().back().get();
  if (dtype == DType::float32 || dtype == DType::bf16) Backends::get().gpu().fill(x, 1.0F);
  return x;
}

Tensor make_ids(std::int64_t count) {
  const Tensor ids = make(DType::int32, {count});
  Backends& backends = Backends::get();
  backends.synchronize();
  std::byte* const staging = backends.staging(ids.size_bytes());
  for (std::int64_t i = 0; i < count; ++i) put(staging + 4 * i, DType::int32, static_cast<double>(i));
  backends.copy(ids.data, staging, ids.size_bytes());
  backends.synchronize();
  return ids;
}

void free_tensors() {
  Backends::get().synchronize();
  blocks().clear();
}

void check_traffic(const std::string& op, const std::string& shape, const Budget& budget,
                   const std::function<void(Backend&)>& run) {
  constexpr std::uint64_t sector_bytes = 32;
  Backends& backends = Backends::get();
  backends.synchronize();
  emulation::start_counting_traffic();
  run(backends.gpu());
  backends.synchronize();
  std::uint64_t bytes = 0, sectors = 0, passes = 0, least_passes = 0;
  for (const emulation::LaunchTraffic& launch : emulation::take_traffic()) {
    bytes += launch.bytes();
    sectors += launch.sectors;
    passes += launch.shared_passes;
    least_passes += launch.least_shared_passes;
    BOOST_TEST_MESSAGE(op << " " << shape << ": " << launch.kernel << " reads " << launch.read_bytes << " and writes "
                          << launch.written_bytes << " bytes, asks for " << launch.sectors << " sectors where "
                          << launch.least_sectors << " would do, and takes " << launch.shared_passes
                          << " passes over shared memory where " << launch.least_shared_passes << " would do");
  }
  const std::string what = op + " " + shape;
  const double asked = ratio(sectors * sector_bytes, bytes),
               shared = least_passes == 0 ? 0.0 : ratio(passes, least_passes);
  BOOST_TEST(static_cast<std::int64_t>(bytes) == budget.bytes + budget.others,
             what << " moves " << bytes << " bytes, not " << budget.bytes + budget.others);
  BOOST_TEST(asked <= budget.asked, what << " asks for " << asked << " times the bytes that it moves");
  BOOST_TEST(shared <= budget.shared, what << " takes " << shared << " times the least passes over shared memory");
  table().add({op, shape, budget.bytes, static_cast<double>(bytes) / static_cast<double>(budget.bytes), asked, shared});
}

}  // namespace sft::ops::testing
