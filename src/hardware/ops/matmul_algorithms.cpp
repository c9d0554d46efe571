// SPDX-License-Identifier: Apache-2.0
#include "sft/ops/matmul_algorithms.hpp"

namespace sft::ops {

std::string to_text(const MatmulAlgorithms& algorithms) {
  std::string text = algorithms.library + '\n';
  for (const auto& [product, algorithm] : algorithms.of_products) text += product + '\t' + algorithm + '\n';
  return text;
}

MatmulAlgorithms read_matmul_algorithms(std::string_view text) {
  MatmulAlgorithms algorithms;
  bool is_first = true;
  while (true) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return algorithms;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (is_first) {
      algorithms.library = line;
      is_first = false;
      continue;
    }
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos) return algorithms;
    algorithms.of_products.emplace(line.substr(0, tab), line.substr(tab + 1));
  }
}

}  // namespace sft::ops
