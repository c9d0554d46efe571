// SPDX-License-Identifier: Apache-2.0
#include "graph.hpp"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace sft::emulation {

namespace {

using nlohmann::json;
using Kind = GraphOperation::Kind;

/// Adds the tensor of an attribute, and its offsets, to the graph: its uid; 0 where the attribute was not set.
std::int64_t add_tensor(OperationGraph& graph, const std::shared_ptr<Descriptor>& descriptor) {
  if (descriptor == nullptr) return 0;
  GraphTensor tensor;
  tensor.uid = descriptor->value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
  tensor.dims = descriptor->list<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  tensor.strides = descriptor->list<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  tensor.type = descriptor->value(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  tensor.is_virtual = descriptor->value(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false);
  tensor.is_by_value = descriptor->value(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false);
  tensor.alignment = descriptor->value<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1);
  tensor.offsets_uid = add_tensor(graph, descriptor->other(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC));
  if (tensor.uid == 0 || tensor.dims.size() != 4 || tensor.strides.size() != 4) {
    throw std::runtime_error("a tensor is without a number, or not of rank 4");
  }
  graph.tensors.emplace(tensor.uid, tensor);
  return tensor.uid;
}

GraphOperation operation_of(OperationGraph& graph, const Descriptor& descriptor) {
  const auto tensor = [&](cudnnBackendAttributeName_t name) { return add_tensor(graph, descriptor.other(name)); };
  switch (descriptor.type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return {.kind = Kind::matmul,
              .inputs = {tensor(CUDNN_ATTR_OPERATION_MATMUL_ADESC), tensor(CUDNN_ATTR_OPERATION_MATMUL_BDESC),
                         tensor(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC),
                         tensor(CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC),
                         tensor(CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC)},
              .output = tensor(CUDNN_ATTR_OPERATION_MATMUL_CDESC)};
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
      const auto what = descriptor.other(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      if (what == nullptr) throw std::runtime_error("a pointwise operation is without what it does");
      return {.kind = Kind::pointwise,
              .mode = what->value<int>(CUDNN_ATTR_POINTWISE_MODE, -1),
              .axis = what->value<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS, -1),
              .inputs = {tensor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC), tensor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
                         tensor(CUDNN_ATTR_OPERATION_POINTWISE_TDESC)},
              .output = tensor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC)};
    }
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: {
      const auto what = descriptor.other(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
      if (what == nullptr) throw std::runtime_error("a reduction is without what it does");
      return {.kind = Kind::reduction,
              .mode = what->value<int>(CUDNN_ATTR_REDUCTION_OPERATOR, -1),
              .inputs = {tensor(CUDNN_ATTR_OPERATION_REDUCTION_XDESC)},
              .output = tensor(CUDNN_ATTR_OPERATION_REDUCTION_YDESC)};
    }
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return {.kind = Kind::reshape,
              .inputs = {tensor(CUDNN_ATTR_OPERATION_RESHAPE_XDESC)},
              .output = tensor(CUDNN_ATTR_OPERATION_RESHAPE_YDESC)};
    default:
      throw std::runtime_error("operation " + std::to_string(descriptor.type) + " is not emulated");
  }
}

/// Puts every operation behind those whose results it reads.
std::vector<GraphOperation> in_order(std::vector<GraphOperation> operations) {
  std::vector<GraphOperation> ordered;
  while (!operations.empty()) {
    const auto is_ready = [&](const GraphOperation& operation) {
      return std::ranges::none_of(operation.inputs, [&](std::int64_t uid) {
        return uid != 0 && std::ranges::any_of(operations, [&](const auto& other) { return other.output == uid; });
      });
    };
    const auto next = std::ranges::find_if(operations, is_ready);
    if (next == operations.end()) throw std::runtime_error("the operations read one another's results in a circle");
    ordered.push_back(*next);
    operations.erase(next);
  }
  return ordered;
}

constexpr std::int64_t stages_of_ordered_sums = 4;

}  // namespace

bool OperationGraph::is_backward() const {
  return std::ranges::count(operations, Kind::matmul, &GraphOperation::kind) > 2;
}

bool OperationGraph::sums_in_order() const { return !is_backward() || knobs.contains(CUDNN_KNOB_TYPE_STAGES); }

OperationGraph graph_of(const Descriptor& descriptor) {
  OperationGraph graph;
  std::vector<GraphOperation> operations;
  for (const auto& operation : descriptor.others(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    operations.push_back(operation_of(graph, *operation));
  }
  graph.operations = in_order(std::move(operations));
  for (const GraphOperation& operation : graph.operations) {
    if (operation.kind != Kind::reduction) continue;
    const GraphTensor& sum = graph.tensors.at(operation.output);
    GraphTensor& summands = graph.tensors.at(operation.inputs[0]);
    if (sum.offsets_uid != 0 && sum.offsets_uid == summands.offsets_uid) {
      summands.offsets_factor = summands.dims[1] / sum.dims[1];
    }
  }
  return graph;
}

std::string unsupported(const OperationGraph& graph) {
  for (const auto& [uid, tensor] : graph.tensors) {
    const bool is_heads = tensor.type == CUDNN_DATA_BFLOAT16 ||
                          (tensor.type == CUDNN_DATA_FLOAT && tensor.offsets_uid != 0 && tensor.dims[3] > 1);
    if (tensor.is_virtual || tensor.is_by_value || !is_heads) continue;
    const std::int64_t elements = tensor.type == CUDNN_DATA_BFLOAT16 ? 8 : 4;  // of 16 bytes
    for (int i = 0; i < 4; ++i) {
      if (tensor.dims[i] > 1 && tensor.strides[i] != 1 && tensor.strides[i] % elements != 0) {
        return "tensor " + std::to_string(uid) + " has a stride that is no multiple of 16 bytes";
      }
    }
  }
  const char* const refused = std::getenv("SFT_EMULATED_CUDNN_REFUSES");
  const bool has_window = std::ranges::any_of(graph.operations, [](const GraphOperation& operation) {
    return operation.kind == Kind::pointwise && operation.mode == CUDNN_POINTWISE_CMP_GT;
  });
  if (has_window && refused != nullptr && refused == std::string("windows")) {
    return "windows are refused by SFT_EMULATED_CUDNN_REFUSES";
  }
  if (!graph.is_backward()) return {};
  const auto stages = graph.knobs.find(CUDNN_KNOB_TYPE_STAGES);
  if (stages != graph.knobs.end() && stages->second != stages_of_ordered_sums) {
    return "ordered sums of a backward pass are emulated with the knob STAGES = 4 alone";
  }
  return {};
}

std::int64_t workspace_bytes(const OperationGraph& graph) {
  constexpr std::int64_t fixed = 17'408;
  if (!graph.is_backward()) return fixed;
  // A counter for each head and 64 queries, as the real one's grows.
  const auto scores = std::ranges::find(graph.operations, Kind::matmul, &GraphOperation::kind);
  const GraphTensor& queries = graph.tensors.at(scores->inputs[0]);
  return fixed + queries.dims[0] * queries.dims[1] * ((queries.dims[2] + 63) / 64) * 8;
}

std::string to_json(const OperationGraph& graph) {
  json j = {{"tensors", json::array()}, {"operations", json::array()}, {"knobs", json::array()}};
  for (const auto& [uid, t] : graph.tensors) {
    j["tensors"].push_back({uid, t.dims, t.strides, int{t.type}, t.is_virtual, t.is_by_value, t.alignment,
                            t.offsets_uid, t.offsets_factor});
  }
  for (const GraphOperation& o : graph.operations) {
    j["operations"].push_back({static_cast<int>(o.kind), o.mode, o.axis, o.inputs, o.output});
  }
  for (const auto& [knob, value] : graph.knobs) j["knobs"].push_back({knob, value});
  return j.dump();
}

OperationGraph from_json(const std::string& text) {
  const json j = json::parse(text);
  OperationGraph graph;
  for (const json& t : j.at("tensors")) {
    const GraphTensor tensor{.uid = t.at(0),
                             .dims = t.at(1),
                             .strides = t.at(2),
                             .type = static_cast<cudnnDataType_t>(t.at(3).get<int>()),
                             .is_virtual = t.at(4),
                             .is_by_value = t.at(5),
                             .alignment = t.at(6),
                             .offsets_uid = t.at(7),
                             .offsets_factor = t.at(8)};
    graph.tensors.emplace(tensor.uid, tensor);
  }
  for (const json& o : j.at("operations")) {
    graph.operations.push_back({.kind = static_cast<Kind>(o.at(0).get<int>()),
                                .mode = o.at(1),
                                .axis = o.at(2),
                                .inputs = o.at(3),
                                .output = o.at(4)});
  }
  for (const json& k : j.at("knobs")) graph.knobs.emplace(k.at(0).get<int>(), k.at(1).get<std::int64_t>());
  return graph;
}

}  // namespace sft::emulation
