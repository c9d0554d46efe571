// SPDX-License-Identifier: Apache-2.0
// Views share the memory of their tensor: each element is found where the definition says, and nothing beyond it.

#include "sft/tensor/tensor.hpp"

#include <boost/test/unit_test.hpp>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace sft {

namespace {

/// (num_rows, num_columns) int32, of which every element is its own number.
struct Numbered {
  Numbered(std::int64_t num_rows, std::int64_t num_columns) : memory(static_cast<std::size_t>(num_rows * num_columns)) {
    std::iota(memory.begin(), memory.end(), 0);
    tensor = Tensor(memory.data(), DType::int32, {num_rows, num_columns});
  }

  std::vector<std::int32_t> memory;
  Tensor tensor;
};

/// The elements of a view, one [i, ...] after the other.
std::vector<std::int32_t> read(const Tensor& view) {
  std::vector<std::int32_t> values;
  for (std::int64_t i = 0; i < view.shape[0]; ++i) {
    const std::int32_t* row = view.as<std::int32_t>() + i * view.stride0;
    values.insert(values.end(), row, row + view.row_elements());
  }
  return values;
}

using Values = std::vector<std::int32_t>;

}  // namespace

BOOST_AUTO_TEST_CASE(a_tensor_is_contiguous_and_knows_its_size) {
  const Tensor x(nullptr, DType::bf16, {5, 2, 3});
  BOOST_TEST(x.ndim == 3);
  BOOST_TEST(x.num_elements() == 30);
  BOOST_TEST(x.row_elements() == 6);
  BOOST_TEST(x.stride0 == 6);
  BOOST_TEST(x.size_bytes() == 60U);
  BOOST_TEST(x.is_contiguous());
  BOOST_TEST(x.empty());  // no memory
  const Tensor vector(nullptr, DType::float32, {7});
  BOOST_TEST(vector.row_elements() == 1);
  BOOST_TEST(vector.stride0 == 1);
  BOOST_TEST(Tensor().empty());
  BOOST_TEST(Tensor().num_elements() == 0);
}

BOOST_AUTO_TEST_CASE(a_tensor_has_one_to_four_dims) {
  BOOST_CHECK_THROW(Tensor(nullptr, DType::float32, {}), std::logic_error);
  BOOST_CHECK_THROW(Tensor(nullptr, DType::float32, {1, 1, 1, 1, 1}), std::logic_error);
  BOOST_TEST(Tensor(nullptr, DType::float32, {2, 3, 4, 5}).num_elements() == 120);
}

BOOST_AUTO_TEST_CASE(rows_are_part_of_the_first_dim) {
  const Numbered n(4, 3);
  const Tensor middle = n.tensor.rows(1, 2);
  BOOST_TEST(read(middle) == (Values{3, 4, 5, 6, 7, 8}), boost::test_tools::per_element());
  BOOST_TEST(middle.is_contiguous());
  BOOST_TEST(n.tensor.rows(4, 0).empty());
  BOOST_CHECK_THROW((void)n.tensor.rows(-1, 2), std::logic_error);
  BOOST_CHECK_THROW((void)n.tensor.rows(3, 2), std::logic_error);
  BOOST_CHECK_THROW((void)n.tensor.rows(1, -1), std::logic_error);
}

BOOST_AUTO_TEST_CASE(columns_are_part_of_every_row) {
  const Numbered n(3, 4);
  const Tensor right = n.tensor.columns(2, 2);
  BOOST_TEST(read(right) == (Values{2, 3, 6, 7, 10, 11}), boost::test_tools::per_element());
  BOOST_TEST(right.stride0 == 4);
  BOOST_TEST(!right.is_contiguous());
  BOOST_TEST(right.size_bytes() == 6 * sizeof(std::int32_t));
  BOOST_TEST(read(right.rows(1, 2).columns(1, 1)) == (Values{7, 11}), boost::test_tools::per_element());
  BOOST_CHECK_THROW((void)n.tensor.columns(3, 2), std::logic_error);
  BOOST_CHECK_THROW((void)n.tensor.columns(-1, 1), std::logic_error);
  BOOST_CHECK_THROW((void)n.tensor.view({3, 2, 2}).columns(0, 1), std::logic_error);
}

BOOST_AUTO_TEST_CASE(a_view_has_the_same_elements_in_other_dims) {
  const Numbered n(4, 6);
  const Tensor heads = n.tensor.view({8, 3});
  BOOST_TEST(heads.stride0 == 3);
  BOOST_TEST(read(heads) == n.memory, boost::test_tools::per_element());
  BOOST_TEST(read(n.tensor.view({24})) == n.memory, boost::test_tools::per_element());
  BOOST_CHECK_THROW((void)n.tensor.view({5, 5}), std::logic_error);
}

BOOST_AUTO_TEST_CASE(a_strided_view_keeps_its_rows) {
  const Numbered n(3, 10);
  const Tensor part = n.tensor.columns(4, 4);
  const Tensor heads = part.view({3, 2, 2});
  BOOST_TEST(heads.stride0 == 10);
  BOOST_TEST(read(heads) == read(part), boost::test_tools::per_element());
  BOOST_TEST(read(heads.view({3, 4})) == read(part), boost::test_tools::per_element());
  BOOST_CHECK_THROW((void)part.view({12}), std::logic_error);
  BOOST_CHECK_THROW((void)part.view({6, 2}), std::logic_error);
}

BOOST_AUTO_TEST_CASE(tensors_of_an_arena_lie_one_after_the_other) {
  device::Arena sizing;
  const Tensor first = take(sizing, DType::float32, {3, 5});
  const Tensor second = take(sizing, DType::bf16, {1});
  BOOST_TEST(!first.empty());
  BOOST_TEST((static_cast<std::byte*>(second.data) - static_cast<std::byte*>(first.data) ==
              static_cast<std::ptrdiff_t>(device::Arena::alignment_bytes)));
  BOOST_TEST(sizing.used_bytes() == 2 * device::Arena::alignment_bytes);
}

BOOST_AUTO_TEST_CASE(what_may_be_written_may_be_read_but_never_the_other_way_round) {
  static_assert(std::is_convertible_v<Tensor, ConstTensor> && !std::is_constructible_v<Tensor, ConstTensor>);
  static_assert(std::is_same_v<decltype(Tensor().as<float>()), float*>);
  static_assert(std::is_same_v<decltype(ConstTensor().as<float>()), const float*>);
  static_assert(std::is_same_v<decltype(ConstTensor().as<const float>()), const float*>);
  const Numbered numbered(4, 6);
  Tensor strided = numbered.tensor.rows(1, 3).columns(2, 2);
  const ConstTensor x = strided;
  BOOST_TEST(x.data == strided.data);
  BOOST_TEST((x.shape == strided.shape));
  BOOST_TEST(x.ndim == 2);
  BOOST_TEST(x.stride0 == 6);
  BOOST_TEST((x.dtype == DType::int32));
  const ConstTensor part = x.rows(1, 1).columns(1, 1).view({1});
  BOOST_TEST(*part.as<std::int32_t>() == 15);
  strided.rows(1, 1).as<std::int32_t>()[1] = -1;
  BOOST_TEST(*part.as<std::int32_t>() == -1);
}

}  // namespace sft
