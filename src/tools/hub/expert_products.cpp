// SPDX-License-Identifier: Apache-2.0
#include "expert_products.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "sft/hub/expert_factors.hpp"
#include "sft/hub/tensor_map.hpp"

namespace sft::hub {

namespace {

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

std::string without_entry(const std::string& tensor) { return tensor.substr(tensor.find('/') + 1); }

/// A matrix in memory.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> values;
};

Matrix transposed(const Matrix& matrix) {
  Matrix result{matrix.columns, matrix.rows, std::vector<float>(matrix.values.size())};
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t column = 0; column < matrix.columns; ++column) {
      result.values[column * matrix.rows + row] = matrix.values[row * matrix.columns + column];
    }
  }
  return result;
}

Matrix rows_of(const Matrix& matrix, std::int64_t begin, std::int64_t count) {
  const auto first = matrix.values.begin() + begin * matrix.columns;
  return {count, matrix.columns, std::vector<float>(first, first + count * matrix.columns)};
}

/// The adapters of a weight of a layer's experts, by the number of the expert.
struct OfWeight {
  std::vector<Matrix> a;                          ///< (r, in)
  std::vector<std::map<int, Matrix>> parts_of_b;  ///< (rows, r), one behind the other

  void make_room(std::int64_t num_experts) {
    const auto size = static_cast<std::size_t>(num_experts);
    a.resize(std::max(a.size(), size));
    parts_of_b.resize(std::max(parts_of_b.size(), size));
  }
};

class Reader {
 public:
  Reader(const io::TensorSource& adapter, const Shapes& shapes, const config::Lora& lora, const FileLayout& layout,
         const Refuse& refuse)
      : adapter_(adapter), shapes_(shapes), lora_(lora), layout_(layout), refuse_(refuse) {
    for (const io::TensorInfo& tensor : adapter.tensors()) {
      if (!is_of_experts(tensor.name, lora)) continue;
      const std::string name = without_entry(tensor.name);
      if (const auto factor = expert_factor_of(name)) add(*factor, read(tensor));
      if (const auto stacked = stacked_factor_of(name)) add_stacked(*stacked, read(tensor));
    }
  }

  [[nodiscard]] std::vector<ExpertProduct> products() const {
    std::vector<ExpertProduct> result;
    for (const auto& [path, weights] : found_) {
      for (std::size_t expert = 0; expert < weights.a.size(); ++expert) add_products(path, expert, weights, result);
    }
    return result;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    refuse_(why);
    throw std::logic_error("to refuse is to throw");
  }

  [[nodiscard]] Matrix read(const io::TensorInfo& tensor) const {
    if (tensor.shape.size() != 2) refuse(fmt::format("{} is no matrix", without_entry(tensor.name)));
    Matrix matrix{tensor.shape[0], tensor.shape[1], std::vector<float>(tensor.num_elements())};
    adapter_.read(tensor.name, {.row_begin = 0, .num_rows = matrix.rows, .num_columns = matrix.columns}, DType::float32,
                  matrix.values.data());
    return matrix;
  }

  /// Its name in transformers, by which patterns and targets go.
  [[nodiscard]] std::string in_transformers(const std::string& experts, const std::string& parameter) const {
    return fmt::format("{}.{}", module_in_transformers(layout_, experts), parameter);
  }

  [[nodiscard]] bool is_target(const std::string& experts, const std::string& parameter) const {
    return lora_.expert_adapter_of(in_transformers(experts, parameter)).has_value() ||
           lora_.expert_adapter_of(fmt::format("{}.{}", experts, parameter)).has_value();
  }

  [[nodiscard]] bool has_expert(const std::string& experts, std::int64_t number) const {
    return shapes_.contains(fmt::format("model/{}.{}.down_proj.weight", experts, number));
  }

  void add(const ExpertFactor& factor, Matrix matrix) {
    if (!has_expert(factor.experts, factor.expert)) {
      refuse(fmt::format("the model has no expert {} in {}", factor.expert, factor.experts));
    }
    OfWeight& weights = found_[{factor.experts, factor.parameter}];
    weights.make_room(factor.expert + 1);
    (factor.is_a ? weights.a[factor.expert] : weights.parts_of_b[factor.expert][factor.part]) = std::move(matrix);
  }

  /// Which weight PEFT's matrices of that module belong to.
  [[nodiscard]] std::string parameter_of(const StackedFactor& stacked) const {
    const std::vector<std::string>& names = config::expert_parameter_names();
    std::vector<std::string> targets;
    std::ranges::copy_if(names, std::back_inserter(targets),
                         [&](const std::string& name) { return is_target(stacked.experts, name); });
    if (targets.empty() || (stacked.is_inner && targets.size() < 2)) {
      refuse(fmt::format("it has matrices of {}, more than target_parameters of its adapter_config.json names",
                         stacked.experts));
    }
    return stacked.is_inner ? targets.front() : targets.back();
  }

  void add_stacked(const StackedFactor& stacked, const Matrix& matrix) {
    const std::string parameter = parameter_of(stacked);
    const std::int64_t rank = lora_.size_of(in_transformers(stacked.experts, parameter)).rank;
    const std::int64_t of_all = stacked.is_a ? matrix.rows : matrix.columns;
    if (rank < 1 || of_all % rank != 0) {
      refuse(fmt::format("its matrices of {}.{} are {} ranks wide, no multiple of {}", stacked.experts, parameter,
                         of_all, rank));
    }
    const std::int64_t num_experts = of_all / rank;
    if (has_expert(stacked.experts, num_experts)) {
      refuse(fmt::format("its matrices of {}.{} are of {} experts, and the model has more", stacked.experts, parameter,
                         num_experts));
    }
    OfWeight& weights = found_[{stacked.experts, parameter}];
    weights.make_room(num_experts);
    for (std::int64_t expert = 0; expert < num_experts; ++expert) {
      if (stacked.is_a) {
        weights.a[expert] = rows_of(matrix, expert * rank, rank);
        continue;
      }
      Matrix b{matrix.rows, rank, std::vector<float>(matrix.rows * rank)};
      for (std::int64_t i = 0; i < matrix.rows * rank; ++i) b.values[i] = matrix.values[i * num_experts + expert];
      weights.parts_of_b[expert][0] = std::move(b);
    }
  }

  using Path = std::pair<std::string, std::string>;  ///< of the experts, and the weight

  [[nodiscard]] const std::vector<std::int64_t>* shape_of(const std::string& weight) const {
    const auto found = shapes_.find(weight);
    return found == shapes_.end() || found->second.size() != 2 ? nullptr : &found->second;
  }

  void add_products(const Path& path, std::size_t expert, const OfWeight& weights,
                    std::vector<ExpertProduct>& result) const {
    const auto& [experts, parameter] = path;
    const std::string where = fmt::format("model/{}.{}.", experts, expert);
    if (weights.a[expert].values.empty() || weights.parts_of_b[expert].empty()) {
      refuse(fmt::format("it has only one of the two matrices of {}.{}", experts, parameter));
    }
    const Matrix& a = weights.a[expert];
    Matrix b{0, a.rows, {}};
    for (const auto& [number, part] : weights.parts_of_b[expert]) {
      if (part.columns != a.rows) refuse(fmt::format("the matrices of {}.{} differ in rank", experts, parameter));
      b.rows += part.rows;
      b.values.insert(b.values.end(), part.values.begin(), part.values.end());
    }
    const config::AdapterSize size = lora_.size_of(in_transformers(experts, parameter));
    if (size.rank != a.rows) {
      refuse(fmt::format("{}.{} has rank {}, not {}", experts, parameter, a.rows, size.rank));
    }
    const auto add = [&](const std::string& name, const Matrix& of_columns, const Matrix& of_rows) {
      const std::string weight = where + name + ".weight";
      const std::vector<std::int64_t>* const shape = shape_of(weight);
      if (shape == nullptr || (*shape)[0] != of_rows.rows || (*shape)[1] != of_columns.columns) {
        refuse(fmt::format("the model has no {} of {} x {} numbers", without_entry(weight), of_rows.rows,
                           of_columns.columns));
      }
      result.push_back({weight, size.rank, of_rows.rows, of_columns.columns, static_cast<float>(size.scale),
                        of_columns.values, of_rows.values});
    };
    // Experts of gpt-oss have (in, out), and gate and up as one.
    if (shape_of(where + "gate_up_proj.weight") != nullptr) return add(parameter, transposed(b), transposed(a));
    if (parameter == "down_proj") return add(parameter, a, b);
    const std::int64_t half = b.rows / 2;
    add("gate_proj", a, rows_of(b, 0, half));
    add("up_proj", a, rows_of(b, half, b.rows - half));
  }

  const io::TensorSource& adapter_;
  const Shapes& shapes_;
  const config::Lora& lora_;
  const FileLayout& layout_;
  const Refuse& refuse_;
  std::map<Path, OfWeight> found_;
};

}  // namespace

bool is_of_experts(const std::string& tensor, const config::Lora& lora) {
  const std::string name = without_entry(tensor);
  return (lora.adapts_experts() && expert_factor_of(name)) || stacked_factor_of(name);
}

std::vector<ExpertProduct> expert_products_of(const io::TensorSource& adapter, const Shapes& shapes,
                                              const config::Lora& lora, const FileLayout& layout,
                                              const Refuse& refuse) {
  return Reader(adapter, shapes, lora, layout, refuse).products();
}

}  // namespace sft::hub
