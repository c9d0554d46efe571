// SPDX-License-Identifier: Apache-2.0
// cuDNN's graph API on the host: descriptors, plans, and their execution as queued work.

#include <cudnn.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "compilations.hpp"
#include "descriptor.hpp"
#include "execution.hpp"
#include "graph.hpp"
#include "runtime/kernel_fault.hpp"
#include "runtime/stream_queue.hpp"

namespace sft::emulation {

namespace {

struct Handle {
  cudaStream_t stream = nullptr;
};

std::atomic<long>& compilations() {
  static std::atomic<long> count = 0;
  return count;
}

std::mutex& mutex() {
  static std::mutex the_mutex;
  return the_mutex;
}
std::set<Handle*>& handles() {
  static auto* all = new std::set<Handle*>;
  return *all;
}
std::string& last_refusal() {
  static thread_local std::string text;
  return text;
}

std::size_t emulated_version() {
  const char* text = std::getenv("SFT_EMULATED_CUDNN");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 92'801;
}

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
      return 8;
    default:
      return 4;  // enumerations, INT32 and FLOAT
  }
}

/// What the caller holds: the contents are shared with descriptors that name them.
using Held = std::shared_ptr<Descriptor>;
Held& held(cudnnBackendDescriptor_t descriptor) { return *static_cast<Held*>(descriptor); }

/// Sets or reads lists of descriptors.
std::shared_ptr<Descriptor> made(cudnnBackendDescriptorType_t type) {
  auto descriptor = std::make_shared<Descriptor>();
  descriptor->type = type;
  descriptor->is_finalized = true;
  return descriptor;
}

template <class T>
void put(Descriptor& to, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
  const auto* begin = reinterpret_cast<const std::byte*>(&value);
  to.attributes[name] = {type, 1, {begin, begin + sizeof value}, {}};
}

void put_text(Descriptor& to, cudnnBackendAttributeName_t name, const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  to.attributes[name] = {CUDNN_TYPE_CHAR, static_cast<std::int64_t>(text.size()), {begin, begin + text.size()}, {}};
}

/// Of an engine's configuration: the graph with its knobs.
OperationGraph graph_of_configuration(const Descriptor& configuration) {
  const auto engine = configuration.other(CUDNN_ATTR_ENGINECFG_ENGINE);
  OperationGraph graph = graph_of(*engine->other(CUDNN_ATTR_ENGINE_OPERATION_GRAPH));
  for (const auto& knob : configuration.others(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES)) {
    graph.knobs[knob->value<int>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, -1)] =
        knob->value<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, -1);
  }
  return graph;
}

void finalize_configuration(Descriptor& configuration) {
  const OperationGraph graph = graph_of_configuration(configuration);
  put(configuration, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, workspace_bytes(graph));
}

/// Attribute `name` becomes a configuration of the engine for this graph; none: of a graph that is known by its plan.
Descriptor& put_configuration(Descriptor& to, cudnnBackendAttributeName_t name,
                              const std::shared_ptr<Descriptor>& operation_graph) {
  const auto engine = made(CUDNN_BACKEND_ENGINE_DESCRIPTOR), found = made(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  if (operation_graph != nullptr) {
    engine->attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {operation_graph}};
  }
  put<std::int64_t>(*engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 2);
  found->attributes[CUDNN_ATTR_ENGINECFG_ENGINE] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {engine}};
  to.attributes[name] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {found}};
  return *found;
}

void finalize(Descriptor& descriptor) {
  switch (descriptor.type) {
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
      finalize_configuration(descriptor);
      break;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      put<std::int64_t>(descriptor, CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, 32);
      (void)graph_of(descriptor);
      break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      finalize_configuration(put_configuration(descriptor, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                               descriptor.other(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)));
      break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      OperationGraph graph;
      if (descriptor.has(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)) {
        const auto text = descriptor.list<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
        graph = from_json({text.begin(), text.end()});
        put_configuration(descriptor, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, nullptr);
      } else {
        graph = graph_of_configuration(*descriptor.other(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
        ++compilations();
        put_text(descriptor, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, to_json(graph));
      }
      if (const std::string why = unsupported(graph); !why.empty()) throw std::runtime_error(why);
      put(descriptor, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, workspace_bytes(graph));
      break;
    }
    default:
      break;
  }
  descriptor.is_finalized = true;
}

cudnnStatus_t execute(cudnnHandle_t handle, const Descriptor& plan, const Descriptor& pack) {
  const auto text = plan.list<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  const auto execution = std::make_shared<Execution>();
  execution->graph = from_json({text.begin(), text.end()});
  execution->num_workspace_bytes = workspace_bytes(execution->graph);
  execution->workspace = pack.value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
  const auto uids = pack.list<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.list<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (uids.size() != pointers.size()) return refuse(CUDNN_STATUS_BAD_PARAM, "as many numbers as pointers are needed");
  const cudaStream_t stream = stream_of(handle);
  for (std::size_t i = 0; i < uids.size(); ++i) {
    const auto found = execution->graph.tensors.find(uids[i]);
    if (found == execution->graph.tensors.end()) {
      return refuse(CUDNN_STATUS_BAD_PARAM, "the graph has no tensor " + std::to_string(uids[i]));
    }
    const GraphTensor& tensor = found->second;
    const std::string name = "tensor " + std::to_string(tensor.uid);
    if (tensor.is_by_value) {
      execution->scalars[tensor.uid] = tensor.type == CUDNN_DATA_INT32
                                           ? static_cast<float>(*static_cast<const std::int32_t*>(pointers[i]))
                                           : *static_cast<const float*>(pointers[i]);
      continue;
    }
    if (memory_kind(stream, pointers[i], 1) != MemoryKind::device) {
      return refuse(CUDNN_STATUS_BAD_PARAM, name + " is not in the device's memory");
    }
    if (reinterpret_cast<std::uintptr_t>(pointers[i]) % static_cast<std::uintptr_t>(tensor.alignment) != 0) {
      return refuse(CUDNN_STATUS_BAD_PARAM, name + " is not aligned to " + std::to_string(tensor.alignment) + " bytes");
    }
    execution->memory[tensor.uid] = pointers[i];
  }
  for (const auto& [uid, tensor] : execution->graph.tensors) {
    const bool is_there = tensor.is_virtual || execution->memory.contains(uid) || execution->scalars.contains(uid);
    if (!is_there) return refuse(CUDNN_STATUS_BAD_PARAM, "tensor " + std::to_string(uid) + " is missing");
  }
  enqueue(stream, execution->graph.is_backward() ? "cuDNN attention backward" : "cuDNN attention", [execution] {
    execution->run();
    return true;
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

std::vector<std::shared_ptr<Descriptor>> Descriptor::others(cudnnBackendAttributeName_t name) const {
  const auto found = attributes.find(name);
  return found == attributes.end() ? std::vector<std::shared_ptr<Descriptor>>{} : found->second.others;
}

std::shared_ptr<Descriptor> Descriptor::other(cudnnBackendAttributeName_t name) const {
  const auto all = others(name);
  return all.empty() ? nullptr : all.front();
}

long cudnn_compilations() { return compilations(); }

cudaStream_t stream_of(cudnnHandle_t handle) {
  const std::lock_guard lock(mutex());
  auto* const found = reinterpret_cast<Handle*>(handle);
  if (!handles().contains(found)) fault("cuDNN: no handle, or one that was destroyed");
  return found->stream;
}

cudnnStatus_t refuse(cudnnStatus_t status, const std::string& why) {
  last_refusal() = why;
  return status;
}

}  // namespace sft::emulation

using namespace sft::emulation;

// What loads the real library says so where there is none.
size_t cudnnGetVersion() {
  const std::size_t version = emulated_version();
  if (version == 0) throw std::runtime_error("cuDNN cannot be used (there is none by SFT_EMULATED_CUDNN): install it");
  return version;
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "a cudnnStatus_t that is no success";
}
void cudnnGetLastErrorString(char* text, size_t bytes) {
  if (bytes == 0) return;
  const std::string& from = last_refusal();
  const size_t count = std::min(bytes - 1, from.size());
  std::copy_n(from.begin(), count, text);
  text[count] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  const std::lock_guard lock(mutex());
  auto* made_now = new Handle;
  handles().insert(made_now);
  *handle = reinterpret_cast<cudnnHandle_t>(made_now);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  const std::lock_guard lock(mutex());
  auto* const found = reinterpret_cast<Handle*>(handle);
  if (handles().erase(found) == 0) return CUDNN_STATUS_BAD_PARAM;
  delete found;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  (void)stream_of(handle);
  reinterpret_cast<Handle*>(handle)->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = stream_of(handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  auto contents = std::make_shared<Descriptor>();
  contents->type = type;
  *descriptor = new Held(std::move(contents));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<Held*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* elements) {
  Descriptor& to = *held(descriptor);
  if (to.is_finalized) return refuse(CUDNN_STATUS_NOT_INITIALIZED, "the descriptor is finalized");
  Attribute attribute{type, count, {}, {}};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (int64_t i = 0; i < count; ++i) {
      const Held& other = held(static_cast<const cudnnBackendDescriptor_t*>(elements)[i]);
      if (!other->is_finalized) return refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor is named that is not finalized");
      attribute.others.push_back(other);
    }
  } else {
    const auto* begin = static_cast<const std::byte*>(elements);
    attribute.bytes.assign(begin, begin + static_cast<std::size_t>(count) * size_of(type));
  }
  to.attributes[name] = std::move(attribute);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room, int64_t* count, void* elements) {
  const Descriptor& from = *held(descriptor);
  const auto found = from.attributes.find(name);
  const bool is_list = name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE || name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE ||
                       name == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES;
  if (found == from.attributes.end()) {
    if (!is_list) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "attribute " + std::to_string(name) + " is not emulated");
    if (count != nullptr) *count = 0;
    return CUDNN_STATUS_SUCCESS;
  }
  const Attribute& attribute = found->second;
  if (attribute.type != type) return refuse(CUDNN_STATUS_BAD_PARAM, "the attribute is of another type");
  if (count != nullptr) *count = attribute.count;
  if (elements == nullptr) return CUDNN_STATUS_SUCCESS;
  const int64_t copied = std::min(room, attribute.count);
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    std::memcpy(elements, attribute.bytes.data(), static_cast<std::size_t>(copied) * size_of(type));
    return CUDNN_STATUS_SUCCESS;
  }
  // The caller's own descriptors become those that the attribute names.
  for (int64_t i = 0; i < copied; ++i) {
    held(static_cast<cudnnBackendDescriptor_t*>(elements)[i]) = attribute.others[static_cast<std::size_t>(i)];
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  try {
    finalize(*held(descriptor));
    return CUDNN_STATUS_SUCCESS;
  } catch (const std::exception& error) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, error.what());
  }
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variant_pack) {
  const Descriptor &of_plan = *held(plan), &of_pack = *held(variant_pack);
  if (!of_plan.is_finalized || !of_pack.is_finalized) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "plan and variant pack have to be finalized");
  }
  if (has_fault()) return refuse(CUDNN_STATUS_EXECUTION_FAILED, "a kernel broke off");
  return execute(handle, of_plan, of_pack);
}
