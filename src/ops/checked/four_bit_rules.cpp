// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "ops/checked/call.hpp"

namespace sft::ops::checked {

void check_read_four_bits(const ReadFourBits& read) {
  Call call("read_four_bits");
  call.require_dims("out", read.out, 2);
  const std::vector<std::int64_t> shape = shape_of(read.out);
  call.require(shape[1] % four_bit_block == 0, fmt::format("out has rows of {}, no whole blocks", shape[1]));
  const std::int64_t row_blocks = shape[1] / four_bit_block;
  call.out("out", read.out, shape, any_compute);
  call.in("records", read.records, {shape[0] * row_blocks * read.form.record_bytes()}, DType::uint8);
  if (read.form.is_nested) {
    call.require_dims("nested", read.nested, 1);
    call.in("nested", read.nested, shape_of(read.nested), DType::float32);
    const std::int64_t end = read.first_block + (shape[0] - 1) * read.row_blocks + row_blocks;
    call.require(read.first_block >= 0 && read.row_blocks >= row_blocks &&
                     end <= (read.nested.num_elements() - 1) * nested_scale_block,
                 "nested has no scale of some block");
  } else {
    call.require(read.nested.empty(), "nested is for nested scales");
  }
  call.check_memory();
}

}  // namespace sft::ops::checked
