// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which algorithm of cuBLASLt a matrix product gets: what its heuristic puts first, or what was measured to be the
// fastest of those that it proposes. Measuring is apart from computing: a run is given a list, and the same list gives
// the same bits.

#include <map>
#include <string>
#include <string_view>

namespace sft::ops {

/// Algorithms by product. Those of another library or GPU mean nothing.
struct MatmulAlgorithms {
  std::string library;  ///< "cuBLASLt 130000 on NVIDIA H200"
  /// Both as a library writes them: sizes, strides, dtypes and alignments of a product, and what names an algorithm.
  std::map<std::string, std::string> of_products;

  /// Null where there is none.
  [[nodiscard]] const std::string* find(const std::string& product) const {
    const auto found = of_products.find(product);
    return found != of_products.end() ? &found->second : nullptr;
  }
};

/// As lines of text: the library, then a product and its algorithm on each.
[[nodiscard]] std::string to_text(const MatmulAlgorithms& algorithms);
/// The inverse. A line that is none, as of a file that was cut off, ends the list.
[[nodiscard]] MatmulAlgorithms read_matmul_algorithms(std::string_view text);

/// What ops::tune_matmul found.
struct MatmulTuning {
  MatmulAlgorithms algorithms;   ///< of the products that were given, and those that were known
  int num_measured = 0;          ///< products
  int num_without_memory = 0;    ///< products left to the heuristic, for the GPU has no room for their operands
  double seconds_first = 0.0;    ///< of one run of each of these products by what the heuristic puts first
  double seconds_fastest = 0.0;  ///< the same by what is taken
};

}  // namespace sft::ops
