// SPDX-License-Identifier: Apache-2.0
#pragma once
// A right call of every op, with what may be changed of its tensors and still be right.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sft/ops/backend.hpp"

namespace sft::ops::checked {

/// A tensor of a right call, and what may be changed of it.
struct Operand {
  DType dtype;
  std::vector<std::int64_t> shape;
  /// Of: "written", "strided", "optional"; "any shape", "any rows", "any columns": no other tensor says how many.
  std::string rules = {};

  [[nodiscard]] bool has(const std::string& rule) const { return rules.find(rule) != std::string::npos; }
};

using Tensors = std::map<std::string, Tensor>;

struct Op {
  std::string name;
  std::map<std::string, Operand> operands;
  std::function<void(Backend&, Tensors)> call;
  /// Which written tensor may be which other one.
  std::map<std::string, std::string> may_be = {};
};

[[nodiscard]] Tensor tensor(void* data, DType dtype, const std::vector<std::int64_t>& shape);

/// Memory of an operand that no other has.
class Memory {
 public:
  [[nodiscard]] Tensors of(const std::map<std::string, Operand>& operands);

 private:
  std::vector<std::vector<std::byte>> bytes_;
};

inline constexpr std::int64_t T = 6, Tk = 5, C = 8, n = 4, K = 2, D = 16, F = 12, V = 10, N = 600;
inline constexpr DType bf16 = DType::bf16, float32 = DType::float32;
inline constexpr AdamW adamw{1e-3, 0.9, 0.999, 1e-8, 0.0, 0.1, 0.1};

/// The ops of experts, among all_ops().
void add_ops_of_experts(std::vector<Op>& ops);

/// One call of every op, of some with and without what makes a difference.
[[nodiscard]] std::vector<Op> all_ops();

}  // namespace sft::ops::checked
