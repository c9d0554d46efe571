// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where oneDNN's interface is not ours: its versions describe a matrix product differently (version 3 did away with the
// operation descriptor of version 2), and it knows no memory that is only read.

#include <oneapi/dnnl/dnnl.hpp>

namespace sft::ops::cpu {

/// c = a b (+ bias, where it is given) as oneDNN would run it; converts to false when oneDNN has no such product.
[[nodiscard]] inline dnnl::matmul::primitive_desc describe_matmul(
    const dnnl::engine& engine, const dnnl::memory::desc& a, const dnnl::memory::desc& b,
    const dnnl::memory::desc* bias, const dnnl::memory::desc& c, const dnnl::primitive_attr& attributes) {
  constexpr bool allow_none = true;
#if DNNL_VERSION_MAJOR >= 3
  return bias != nullptr ? dnnl::matmul::primitive_desc(engine, a, b, *bias, c, attributes, allow_none)
                         : dnnl::matmul::primitive_desc(engine, a, b, c, attributes, allow_none);
#else
  const dnnl::matmul::desc operation =
      bias != nullptr ? dnnl::matmul::desc(a, b, *bias, c) : dnnl::matmul::desc(a, b, c);
  return {operation, attributes, engine, allow_none};
#endif
}

/// The address of an operand that is only read: oneDNN's memory objects have one kind of address for all.
[[nodiscard]] inline void* handle_of(const void* data) { return const_cast<void*>(data); }

}  // namespace sft::ops::cpu
