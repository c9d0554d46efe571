// SPDX-License-Identifier: Apache-2.0
// A number of one kind does not stand for a number of another.

#include "sft/core/index.hpp"

#include <boost/test/unit_test.hpp>
#include <string>
#include <type_traits>
#include <vector>

namespace sft {

namespace {

using Apple = Index<struct AppleKind>;
using Pear = Index<struct PearKind>;

template <class A, class B>
concept Comparable = requires(A a, B b) {
  a == b;
};
template <class Vector, class Number>
concept IndexedBy = requires(Vector vector, Number number) {
  vector[number];
};

static_assert(std::is_convertible_v<Apple, int>);
static_assert(Apple::from(3) == 3);
static_assert(!std::is_convertible_v<Apple, Pear>);
static_assert(Comparable<Apple, Apple> && Comparable<Apple, int> && !Comparable<Apple, Pear>);
static_assert(IndexedBy<IndexedVector<Apple, double>, Apple> && IndexedBy<IndexedVector<Apple, double>, int>);
static_assert(!IndexedBy<IndexedVector<Apple, double>, Pear>);

}  // namespace

BOOST_AUTO_TEST_SUITE(indices)

BOOST_AUTO_TEST_CASE(an_index_counts) {
  int sum = 0;
  for (Apple apple = 0; apple < 4; ++apple) sum += apple;
  BOOST_TEST(sum == 0 + 1 + 2 + 3);
  BOOST_TEST(Apple() == 0);
}

BOOST_AUTO_TEST_CASE(a_range_has_every_index_once) {
  std::vector<int> found;
  for (const Apple apple : IndexRange<Apple>(3)) found.push_back(apple);
  BOOST_TEST(found == (std::vector<int>{0, 1, 2}), boost::test_tools::per_element());
  found.clear();
  for (const Apple apple : IndexedVector<Apple, int>({5, 6, 7}).reversed_indices()) found.push_back(apple);
  BOOST_TEST(found == (std::vector<int>{2, 1, 0}), boost::test_tools::per_element());
  for (const Apple apple : IndexedVector<Apple, int>().reversed_indices()) BOOST_TEST(false, "the last is " << apple);
  for (const Apple apple : IndexedVector<Apple, int>().indices()) BOOST_TEST(false, "no vector has element " << apple);
}

BOOST_AUTO_TEST_CASE(a_vector_holds_one_for_each) {
  IndexedVector<Apple, std::string> names(2);
  BOOST_TEST(names[0].empty());
  names[Apple(1)] = "Boskoop";
  names.push_back("Elstar");
  BOOST_TEST(names.size() == 3);
  BOOST_TEST((names == IndexedVector<Apple, std::string>{"", "Boskoop", "Elstar"}));
  BOOST_TEST(names.front().empty());
  BOOST_TEST(names[names.last()] == "Elstar");
  IndexedVector<Apple, bool> eaten(2);
  eaten[1] = true;
  BOOST_TEST(!eaten[0]);
  BOOST_TEST(eaten[1]);
  BOOST_TEST(names.back() == "Elstar");
  BOOST_TEST((names == IndexedVector<Apple, std::string>(std::vector<std::string>{"", "Boskoop", "Elstar"})));
  names.clear();
  BOOST_TEST(names.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft
