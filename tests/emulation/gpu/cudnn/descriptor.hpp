// SPDX-License-Identifier: Apache-2.0
#pragma once
// Descriptors of cuDNN's graph API: a kind, and attributes by name.

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sft::emulation {

struct Descriptor;

/// What one attribute was set to.
struct Attribute {
  cudnnBackendAttributeType_t type;
  std::int64_t count = 0;
  std::vector<std::byte> bytes;                     ///< of numbers, pointers, text
  std::vector<std::shared_ptr<Descriptor>> others;  ///< of descriptors
};

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool is_finalized = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;

  [[nodiscard]] bool has(cudnnBackendAttributeName_t name) const { return attributes.contains(name); }
  /// All elements of an attribute; none where it was not set.
  template <class T>
  [[nodiscard]] std::vector<T> list(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return {};
    std::vector<T> values(found->second.bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), found->second.bytes.data(), values.size() * sizeof(T));
    return values;
  }
  /// The first element.
  template <class T>
  [[nodiscard]] T value(cudnnBackendAttributeName_t name, T otherwise) const {
    const auto found = attributes.find(name);
    if (found == attributes.end() || found->second.bytes.size() < sizeof(T)) return otherwise;
    T first;
    std::memcpy(&first, found->second.bytes.data(), sizeof(T));
    return first;
  }
  /// The descriptors of an attribute; none where it was not set.
  [[nodiscard]] std::vector<std::shared_ptr<Descriptor>> others(cudnnBackendAttributeName_t name) const;
  /// Its first one; null where it was not set.
  [[nodiscard]] std::shared_ptr<Descriptor> other(cudnnBackendAttributeName_t name) const;
};

/// The stream of a handle that is alive. Ends the program for any other.
[[nodiscard]] cudaStream_t stream_of(cudnnHandle_t handle);

/// What cudnnGetLastErrorString says from now on.
cudnnStatus_t refuse(cudnnStatus_t status, const std::string& why);

}  // namespace sft::emulation
