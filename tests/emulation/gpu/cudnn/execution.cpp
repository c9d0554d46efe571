// SPDX-License-Identifier: Apache-2.0
#include "execution.hpp"

#include <cuda_bf16.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <vector>

#include "runtime/stream_queue.hpp"

namespace sft::emulation {

namespace {

using Kind = GraphOperation::Kind;

std::size_t size_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_BFLOAT16:
      return 2;
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_INT32:
      return 4;
    case CUDNN_DATA_INT64:
      return 8;
    case CUDNN_DATA_BOOLEAN:
      return 1;
    default:
      fault("cuDNN: tensors of type " + std::to_string(type) + " are not emulated");
  }
}

float rounded(float value, cudnnDataType_t type) {
  return type == CUDNN_DATA_BFLOAT16 ? __bfloat162float(__float2bfloat16_rn(value)) : value;
}

/// One document's part of a tensor: its dims but the first, row-major.
struct Part {
  std::array<std::int64_t, 3> dims{};
  std::vector<float> values;

  explicit Part(const GraphTensor& tensor) : dims{tensor.dims[1], tensor.dims[2], tensor.dims[3]} {
    values.resize(static_cast<std::size_t>(dims[0] * dims[1] * dims[2]));
  }
  [[nodiscard]] std::size_t index(std::int64_t i, std::int64_t j, std::int64_t k) const {
    return static_cast<std::size_t>((i * dims[1] + j) * dims[2] + k);
  }
  float& at(std::int64_t i, std::int64_t j, std::int64_t k) { return values[index(i, j, k)]; }
  /// Dims of 1 go for every place.
  [[nodiscard]] const float* row(std::int64_t i, std::int64_t j) const {
    return &values[index(dims[0] == 1 ? 0 : i, dims[1] == 1 ? 0 : j, 0)];
  }
  [[nodiscard]] std::int64_t step() const { return dims[2] == 1 ? 0 : 1; }
  /// Calls visit(i, j, k) for every element.
  template <class Visit>
  void each(const Visit& visit) const {
    for (std::int64_t i = 0; i < dims[0]; ++i) {
      for (std::int64_t j = 0; j < dims[1]; ++j) {
        for (std::int64_t k = 0; k < dims[2]; ++k) visit(i, j, k);
      }
    }
  }
};

/// The operations on one document.
class Document {
 public:
  /// first_summand: where sums begin, to go round.
  Document(const Execution& execution, std::int64_t number, std::int64_t first_summand)
      : x_(execution), number_(number), first_summand_(first_summand) {}

  void run() {
    for (const GraphOperation& operation : x_.graph.operations) {
      const GraphTensor& output = tensor(operation.output);
      Part result(output);
      switch (operation.kind) {
        case Kind::matmul:
          multiply(operation, result);
          break;
        case Kind::pointwise:
          compute(operation, result);
          break;
        case Kind::reduction:
          reduce(operation, result);
          break;
        case Kind::reshape:
          reshape(operation, result);
          break;
      }
      for (float& value : result.values) value = rounded(value, output.type);
      if (!output.is_virtual) store(output, result);
      parts_.insert_or_assign(output.uid, std::move(result));
    }
  }

  /// A number of an integer tensor.
  [[nodiscard]] std::int64_t integer(std::int64_t uid, std::int64_t place) const {
    const GraphTensor& t = tensor(uid);
    if (place >= t.dims[0]) fault("cuDNN: tensor " + std::to_string(uid) + " has fewer numbers than documents");
    const std::byte* from = address(t) + static_cast<std::size_t>(place * t.strides[0]) * size_of(t.type);
    note_read(from, size_of(t.type));
    if (t.type == CUDNN_DATA_INT32) return *reinterpret_cast<const std::int32_t*>(from);
    if (t.type == CUDNN_DATA_INT64) return *reinterpret_cast<const std::int64_t*>(from);
    fault("cuDNN: tensor " + std::to_string(uid) + " has to hold integers");
  }

  [[nodiscard]] const GraphTensor& tensor(std::int64_t uid) const { return x_.graph.tensors.at(uid); }

 private:
  [[nodiscard]] std::byte* address(const GraphTensor& t) const {
    const auto found = x_.memory.find(t.uid);
    if (found == x_.memory.end()) fault("cuDNN: tensor " + std::to_string(t.uid) + " has no memory");
    return static_cast<std::byte*>(found->second);
  }

  /// Where the document begins and how many elements from there are its own, those between its rows among them.
  struct Extent {
    std::int64_t begin, size;
  };
  [[nodiscard]] Extent extent_of(const GraphTensor& t) const {
    if (t.offsets_uid == 0) return {number_ * t.strides[0], std::numeric_limits<std::int64_t>::max()};
    const std::int64_t begin = integer(t.offsets_uid, number_), end = integer(t.offsets_uid, number_ + 1);
    return {begin * t.offsets_factor, (end - begin) * t.offsets_factor};
  }

  /// Calls visit(i, j, k, run, address) for each run of neighbouring elements that are the document's, of `run` each
  /// along the dim whose stride is 1.
  template <class Visit>
  void each_run(const GraphTensor& t, const Visit& visit) const {
    int inner = 3;
    for (int dim = 1; dim < 4; ++dim) {
      if (t.strides[dim] == 1 && (t.strides[inner] != 1 || t.dims[dim] > t.dims[inner])) inner = dim;
    }
    if (t.strides[inner] != 1) fault("cuDNN: a tensor without neighbouring elements is not emulated");
    const Extent extent = extent_of(t);
    std::array<std::int64_t, 3> counts = {t.dims[1], t.dims[2], t.dims[3]};
    const std::int64_t run = counts[inner - 1];
    counts[inner - 1] = 1;
    for (std::int64_t i = 0; i < counts[0]; ++i) {
      for (std::int64_t j = 0; j < counts[1]; ++j) {
        for (std::int64_t k = 0; k < counts[2]; ++k) {
          const std::int64_t offset = i * t.strides[1] + j * t.strides[2] + k * t.strides[3];
          if (offset >= extent.size) continue;
          visit(i, j, k, inner, std::min(run, extent.size - offset),
                address(t) + (extent.begin + offset) * static_cast<std::int64_t>(size_of(t.type)));
        }
      }
    }
  }

  /// The document's part of a tensor: of an earlier result, or of memory. Elements that are not the document's are 0.
  const Part& load(std::int64_t uid) {
    const auto found = parts_.find(uid);
    if (found != parts_.end()) return found->second;
    const GraphTensor& t = tensor(uid);
    Part part(t);
    if (t.is_by_value) {
      part.values.front() = x_.scalars.at(uid);
    } else if (t.type == CUDNN_DATA_INT32 || t.type == CUDNN_DATA_INT64) {
      part.values.front() = static_cast<float>(integer(uid, t.dims[0] == 1 ? 0 : number_));
    } else if (t.is_virtual) {
      fault("cuDNN: virtual tensor " + std::to_string(uid) + " is read, and no operation writes it");
    } else {
      each_run(t, [&](std::int64_t i, std::int64_t j, std::int64_t k, int inner, std::int64_t run, std::byte* from) {
        note_read(from, static_cast<std::size_t>(run) * size_of(t.type));
        for (std::int64_t e = 0; e < run; ++e) {
          float& to = part.at(i + (inner == 1 ? e : 0), j + (inner == 2 ? e : 0), k + (inner == 3 ? e : 0));
          if (t.type == CUDNN_DATA_BFLOAT16) {
            __nv_bfloat16 value;
            std::memcpy(&value, from + e * 2, 2);
            to = __bfloat162float(value);
          } else {
            std::memcpy(&to, from + e * 4, 4);
          }
        }
      });
    }
    return parts_.emplace(uid, std::move(part)).first->second;
  }

  /// SFT_EMULATED_CUDNN_WRONG: by how much the pass that it names multiplies its results.
  [[nodiscard]] static float wrong_factor(bool is_backward) {
    const char* const wrong = std::getenv("SFT_EMULATED_CUDNN_WRONG");
    return wrong != nullptr && wrong == std::string(is_backward ? "backward" : "forward") ? 1.25F : 1.0F;
  }

  void store(const GraphTensor& t, Part& part) const {
    const float factor = t.dims[3] > 1 ? wrong_factor(x_.graph.is_backward()) : 1.0F;  // but the log-sum-exp
    each_run(t, [&](std::int64_t i, std::int64_t j, std::int64_t k, int inner, std::int64_t run, std::byte* to) {
      note_write(to, static_cast<std::size_t>(run) * size_of(t.type));
      for (std::int64_t e = 0; e < run; ++e) {
        const float value =
            factor * part.at(i + (inner == 1 ? e : 0), j + (inner == 2 ? e : 0), k + (inner == 3 ? e : 0));
        if (t.type == CUDNN_DATA_BFLOAT16) {
          const __nv_bfloat16 number = __float2bfloat16_rn(value);
          std::memcpy(to + e * 2, &number, 2);
        } else {
          std::memcpy(to + e * 4, &value, 4);
        }
      }
    });
  }

  /// Of a matmul: how many rows, columns or summands count.
  std::int64_t limit(std::int64_t uid, std::int64_t otherwise) const {
    return uid == 0 ? otherwise : std::min(otherwise, integer(uid, number_));
  }

  /// Heads of the smaller operand go for several of the larger one.
  void multiply(const GraphOperation& operation, Part& c) {
    const Part &a = load(operation.inputs[0]), &b = load(operation.inputs[1]);
    const std::int64_t rows = limit(operation.inputs[2], c.dims[1]), columns = limit(operation.inputs[3], c.dims[2]),
                       depth = limit(operation.inputs[4], a.dims[2]);
    for (std::int64_t h = 0; h < c.dims[0]; ++h) {
      const std::int64_t of_a = h * a.dims[0] / c.dims[0], of_b = h * b.dims[0] / c.dims[0];
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t n = 0; n < depth; ++n) {
          const std::int64_t i = (first_summand_ + n) % depth;
          const float factor = a.values[a.index(of_a, row, i)];
          const float* __restrict from = &b.values[b.index(of_b, i, 0)];
          float* __restrict to = &c.values[c.index(h, row, 0)];
          for (std::int64_t column = 0; column < columns; ++column) to[column] += factor * from[column];
        }
      }
    }
  }

  void compute(const GraphOperation& operation, Part& y) {
    if (operation.mode == CUDNN_POINTWISE_GEN_INDEX) {
      y.each([&](std::int64_t i, std::int64_t j, std::int64_t k) {
        y.at(i, j, k) = static_cast<float>(std::array{number_, i, j, k}.at(operation.axis));
      });
      return;
    }
    const Part& x = load(operation.inputs[0]);
    const Part& b = operation.inputs[1] != 0 ? load(operation.inputs[1]) : x;
    const Part& t = operation.inputs[2] != 0 ? load(operation.inputs[2]) : x;
    const auto map = [&](auto function) {
      for (std::int64_t i = 0; i < y.dims[0]; ++i) {
        for (std::int64_t j = 0; j < y.dims[1]; ++j) {
          const float *of_x = x.row(i, j), *of_b = b.row(i, j), *of_t = t.row(i, j);
          float* __restrict to = &y.values[y.index(i, j, 0)];
          for (std::int64_t k = 0; k < y.dims[2]; ++k) {
            to[k] = function(of_x[k * x.step()], of_b[k * b.step()], of_t[k * t.step()]);
          }
        }
      }
    };
    with_function(operation.mode, map);
  }

  /// Calls map(function) with the pointwise function of up to three numbers that `mode` names.
  template <class Map>
  static void with_function(int mode, const Map& map) {
    switch (mode) {
      case CUDNN_POINTWISE_IDENTITY:
        return map([](float x, float, float) { return x; });
      case CUDNN_POINTWISE_ADD:
        return map([](float x, float b, float) { return x + b; });
      case CUDNN_POINTWISE_SUB:
        return map([](float x, float b, float) { return x - b; });
      case CUDNN_POINTWISE_MUL:
        return map([](float x, float b, float) { return x * b; });
      case CUDNN_POINTWISE_DIV:
        return map([](float x, float b, float) { return x / b; });
      case CUDNN_POINTWISE_EXP:
        return map([](float x, float, float) { return std::exp(x); });
      case CUDNN_POINTWISE_LOG:
        return map([](float x, float, float) { return std::log(x); });
      case CUDNN_POINTWISE_CMP_LT:
        return map([](float x, float b, float) { return x < b ? 1.0F : 0.0F; });
      case CUDNN_POINTWISE_CMP_LE:
        return map([](float x, float b, float) { return x <= b ? 1.0F : 0.0F; });
      case CUDNN_POINTWISE_CMP_GT:
        return map([](float x, float b, float) { return x > b ? 1.0F : 0.0F; });
      case CUDNN_POINTWISE_CMP_GE:
        return map([](float x, float b, float) { return x >= b ? 1.0F : 0.0F; });
      case CUDNN_POINTWISE_LOGICAL_AND:
        return map([](float x, float b, float) { return x != 0 && b != 0 ? 1.0F : 0.0F; });
      case CUDNN_POINTWISE_BINARY_SELECT:
        return map([](float x, float b, float t) { return t != 0 ? x : b; });
      default:
        fault("cuDNN: pointwise operation " + std::to_string(mode) + " is not emulated");
    }
  }

  /// An output has a dim of one, or one that divides the input's: neighbours are put together.
  void reduce(const GraphOperation& operation, Part& y) {
    const Part& x = load(operation.inputs[0]);
    const bool is_max = operation.mode == CUDNN_REDUCE_TENSOR_MAX;
    if (!is_max && operation.mode != CUDNN_REDUCE_TENSOR_ADD) {
      fault("cuDNN: reduction " + std::to_string(operation.mode) + " is not emulated");
    }
    std::ranges::fill(y.values, is_max ? -std::numeric_limits<float>::infinity() : 0.0F);
    for (std::int64_t i = 0; i < x.dims[0]; ++i) {
      for (std::int64_t j = 0; j < x.dims[1]; ++j) {
        const float* const from = x.row(i, j);
        float* const row = &y.values[y.index(i * y.dims[0] / x.dims[0], j * y.dims[1] / x.dims[1], 0)];
        for (std::int64_t k = 0; k < x.dims[2]; ++k) {
          float& to = row[y.dims[2] == 1 ? 0 : k * y.dims[2] / x.dims[2]];
          to = is_max ? std::max(to, from[k]) : to + from[k];
        }
      }
    }
  }

  /// The same elements by other dims and strides.
  void reshape(const GraphOperation& operation, Part& y) {
    const Part& x = load(operation.inputs[0]);
    const GraphTensor &from = tensor(operation.inputs[0]), &to = tensor(operation.output);
    const auto offset = [](const GraphTensor& t, std::int64_t i, std::int64_t j, std::int64_t k) {
      return i * t.strides[1] + j * t.strides[2] + k * t.strides[3];
    };
    const std::int64_t last = offset(from, x.dims[0] - 1, x.dims[1] - 1, x.dims[2] - 1);
    std::vector<const float*> elements(static_cast<std::size_t>(last + 1));  // by where they lie
    x.each([&](std::int64_t i, std::int64_t j, std::int64_t k) {
      elements[static_cast<std::size_t>(offset(from, i, j, k))] = &x.values[x.index(i, j, k)];
    });
    y.each([&](std::int64_t i, std::int64_t j, std::int64_t k) {
      const std::int64_t place = offset(to, i, j, k);
      const float* const found = place <= last ? elements[static_cast<std::size_t>(place)] : nullptr;
      if (found == nullptr) fault("cuDNN: a reshape names elements that its input has not");
      y.at(i, j, k) = *found;
    });
  }

  const Execution& x_;
  std::int64_t number_, first_summand_;
  std::unordered_map<std::int64_t, Part> parts_;
};

/// Offsets of all tensors have to say what the lengths of queries say, or those of keys where there are as many rows as
/// keys of the longest document.
void check_lengths(const Execution& execution, const Document& document, std::int64_t number,
                   const GraphOperation& scores) {
  const std::int64_t queries = document.integer(scores.inputs[2], number);
  const std::int64_t keys = document.integer(scores.inputs[3], number);
  const GraphTensor& matrix = execution.graph.tensors.at(scores.output);
  for (const auto& [uid, t] : execution.graph.tensors) {
    if (t.offsets_uid == 0) continue;
    const std::int64_t row = *std::max_element(t.strides.begin() + 1, t.strides.end());
    const std::int64_t size =
        t.offsets_factor * (document.integer(t.offsets_uid, number + 1) - document.integer(t.offsets_uid, number));
    const auto has = [&t](std::int64_t rows) { return t.dims[2] == rows || t.dims[3] == rows; };  // keys lie transposed
    if (has(matrix.dims[2]) && size == queries * row) continue;
    if (has(matrix.dims[3]) && size == keys * row) continue;
    fault("cuDNN: document " + std::to_string(number) + " has " + std::to_string(queries) + " queries and " +
          std::to_string(keys) + " keys, and tensor " + std::to_string(uid) + ", whose rows are " +
          std::to_string(row) + " elements apart, " + std::to_string(size) + " elements by its offsets");
  }
}

}  // namespace

void Execution::run() const {
  if (num_workspace_bytes > 0) {
    note_write(workspace, static_cast<std::size_t>(num_workspace_bytes));
    std::memset(workspace, 0xff, static_cast<std::size_t>(num_workspace_bytes));
  }
  const auto product = std::ranges::find(graph.operations, Kind::matmul, &GraphOperation::kind);
  const std::int64_t lengths_uid = product->inputs[2];
  const std::int64_t num_documents = graph.tensors.at(product->inputs[0]).dims[0];
  static std::atomic<std::int64_t> num_unordered{::getpid()};
  const std::int64_t first_summand = graph.sums_in_order() ? 0 : ++num_unordered;
  for (std::int64_t number = 0; number < num_documents; ++number) {
    Document document(*this, number, first_summand);
    if (lengths_uid != 0) {
      check_lengths(*this, document, number, *product);
      if (document.integer(lengths_uid, number) == 0) continue;
    }
    document.run();
  }
}

}  // namespace sft::emulation
