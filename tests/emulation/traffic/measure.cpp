// SPDX-License-Identifier: Apache-2.0
#include "emulation/traffic/measure.hpp"

#include <array>
#include <cstdio>
#include <vector>

#include "emulation/ops/support.hpp"
#include "runtime/traffic.hpp"

namespace sft::ops::testing {

namespace {

std::vector<device::Device::Block>& blocks() {
  static std::vector<device::Device::Block> all;
  return all;
}

/// What is printed at the end.
class Table {
 public:
  ~Table() {
    std::printf("\n| op | shape | bytes by formula | moved / formula | asked / moved | bank conflicts |\n");
    std::printf("|---|---|--:|--:|--:|--:|\n%s", rows_.c_str());
  }
  void add(const std::string& op, const std::string& shape, std::int64_t formula, double moved, double asked,
           std::int64_t num_conflicts) {
    std::array<char, 256> row{};
    std::snprintf(row.data(), row.size(), "| %s | %s | %lld | %.3f | %.2f | %lld |\n", op.c_str(), shape.c_str(),
                  static_cast<long long>(formula), moved, asked, static_cast<long long>(num_conflicts));
    rows_ += row.data();
  }

 private:
  std::string rows_;
};

Table& table() {
  static Table the_table;
  return the_table;
}

/// A tensor whose element number i is value(i).
template <class Value>
Tensor uploaded(DType dtype, std::initializer_list<std::int64_t> shape, Value value) {
  Backends& backends = Backends::get();
  Tensor x(nullptr, dtype, shape);
  blocks().push_back(backends.allocate(x.size_bytes()));
  x.data = blocks().back().get();
  backends.synchronize();
  std::byte* const staging = backends.staging(x.size_bytes());
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    put(staging + static_cast<std::size_t>(i) * size_of(dtype), dtype, value(i));
  }
  backends.copy(x.data, staging, x.size_bytes());
  backends.synchronize();
  return x;
}

double ratio(std::int64_t a, std::int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

}  // namespace

Tensor make(DType dtype, std::initializer_list<std::int64_t> shape) {
  return uploaded(dtype, shape, [](std::int64_t) { return 1.0; });
}

Tensor make_ids(std::int64_t count) {
  return uploaded(DType::int32, {count}, [](std::int64_t i) { return static_cast<double>(i); });
}

FreesTensors::~FreesTensors() {
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
  std::int64_t moved = 0, asked = 0, num_conflicts = 0, matrix_products = 0, matrix_loads = 0;
  for (const emulation::LaunchTraffic& launch : emulation::take_traffic()) {
    moved += static_cast<std::int64_t>(launch.bytes());
    asked += static_cast<std::int64_t>(launch.sectors * sector_bytes);
    num_conflicts += static_cast<std::int64_t>(launch.shared_passes - launch.least_shared_passes);
    matrix_products += static_cast<std::int64_t>(launch.matrix_products);
    matrix_loads += static_cast<std::int64_t>(launch.matrix_loads);
    BOOST_TEST_MESSAGE(op << " " << shape << ": " << launch.kernel << " reads " << launch.read_bytes << " and writes "
                          << launch.written_bytes << " bytes, asks for " << launch.sectors << " sectors, "
                          << launch.least_sectors << " if none had gaps, and passes " << launch.shared_passes
                          << " times over shared memory, " << launch.least_shared_passes << " without conflicts; "
                          << launch.matrix_loads << " loads and " << launch.matrix_products << " products of matrices");
  }
  const std::string what = op + " " + shape;
  const std::int64_t may_move = budget.formula + budget.others, may_ask = (moved + budget.asked_again) / 16 * 17;
  BOOST_TEST(moved == may_move, what << " moves " << moved << " bytes, not " << may_move);
  BOOST_TEST((!budget.is_memory_bound || 4 * moved <= 5 * budget.formula), what << " moves far more than it has to");
  BOOST_TEST(asked <= may_ask, what << " asks for " << asked << " bytes, not " << may_ask << " or less");
  BOOST_TEST(num_conflicts == budget.bank_conflicts,
             what << " has " << num_conflicts << " bank conflicts, not " << budget.bank_conflicts);
  BOOST_TEST(matrix_products == budget.matrix_products,
             what << " has " << matrix_products << " products of matrices, not " << budget.matrix_products);
  BOOST_TEST(matrix_loads == budget.matrix_loads,
             what << " has " << matrix_loads << " loads of matrices, not " << budget.matrix_loads);
  table().add(op, shape, budget.formula, ratio(moved, budget.formula), ratio(asked, moved), num_conflicts);
}

}  // namespace sft::ops::testing
