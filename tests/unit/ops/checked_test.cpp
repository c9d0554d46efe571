// SPDX-License-Identifier: Apache-2.0
// The checked backend over one that computes nothing: for each op a right call passes, and each of its tensors, made
// wrong in every way that the op's comment rules out, is refused by name.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "checked_calls.hpp"
#include "ops/checked/rules.hpp"
#include "sft/device/factory.hpp"
#include "sft/ops/factory.hpp"
#include "sft/ops/null_backend.hpp"

namespace sft::ops::checked {

namespace {

template <std::size_t... Index>
std::set<std::string> names_of(std::index_sequence<Index...> /*all*/) {
  return {std::variant_alternative_t<Index, Call>::name...};
}
std::set<std::string> names_of_calls() { return names_of(std::make_index_sequence<std::variant_size_v<Call>>()); }

struct Fixture {
  std::unique_ptr<device::Device> device = device::make_device(device::Kind::cpu);
  std::unique_ptr<device::Stream> stream = device->make_stream();
  std::unique_ptr<Backend> backend = make_checked_backend(std::make_unique<NullBackend>(*stream));

  void accept(const Op& op, const Tensors& tensors, const std::string& what) const {
    try {
      op.call(*backend, tensors);
    } catch (const std::logic_error& error) {
      BOOST_ERROR(op.name << " refuses " << what << ": " << error.what());
    }
  }
  /// The message names the op, and `name`.
  void refuse(const Op& op, const Tensors& tensors, const std::string& name, const std::string& what) const {
    try {
      op.call(*backend, tensors);
      BOOST_ERROR(op.name << " takes " << name << ' ' << what);
    } catch (const std::logic_error& error) {
      const std::string message = error.what();
      BOOST_TEST(message.find(": " + op.name + ": ") != std::string::npos, message);
      BOOST_TEST(message.find(name) != std::string::npos, name << ' ' << what << " is refused so: " << message);
    }
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(checked, Fixture)

BOOST_AUTO_TEST_CASE(dims_that_do_not_turn_stay_in_place) {
  Memory memory;
  Tensors x = memory.of({{"out", {bf16, {T, n, D}}},
                         {"in", {bf16, {T, n, D}}},
                         {"table.cosine", {DType::float32, {T, D / 2 - 1}}},
                         {"table.sine", {DType::float32, {T, D / 2 - 1}}}});
  const RopeTable table{x["table.cosine"], x["table.sine"]};
  BOOST_CHECK_NO_THROW(backend->run(RopeForward{x["in"], x["in"], table}));
  BOOST_CHECK_EXCEPTION(
      backend->run(RopeForward{x["out"], x["in"], table}), std::logic_error,
      [](const std::exception& e) { return std::string(e.what()).find("out is not in") != std::string::npos; });
}

BOOST_AUTO_TEST_CASE(every_op_has_a_right_call) {
  std::set<std::string> listed;
  for (const Op& op : all_ops()) listed.insert(op.name);
  BOOST_TEST(listed == names_of_calls(), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(every_op_takes_a_right_call) {
  for (const Op& op : all_ops()) {
    Memory memory;
    const Tensors right = memory.of(op.operands);
    accept(op, right, "a right call");
    for (const auto& [name, operand] : op.operands) {
      Tensors changed = right;
      if (operand.has("strided")) {
        changed[name].stride0 = 2 * changed[name].row_elements();
        accept(op, changed, name + " with gaps");
      }
      if (operand.has("optional")) {
        changed[name] = Tensor();
        accept(op, changed, "to do without " + name);
      }
    }
    for (const auto& [name, other] : op.may_be) {
      Tensors changed = right;
      changed[name] = changed[other];
      accept(op, changed, name + " in the place of " + other);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_op_refuses_a_tensor_of_a_wrong_dtype) {
  for (const Op& op : all_ops()) {
    for (const auto& [name, operand] : op.operands) {
      Memory memory;
      Tensors wrong = memory.of(op.operands);
      wrong[name].dtype = operand.dtype == DType::int32 ? float32 : DType::int32;
      refuse(op, wrong, name, "of a wrong dtype");
    }
  }
}

BOOST_AUTO_TEST_CASE(every_op_refuses_a_tensor_of_a_wrong_shape) {
  for (const Op& op : all_ops()) {
    for (const auto& [name, operand] : op.operands) {
      if (operand.has("any shape")) continue;
      for (std::size_t dim = operand.has("any rows") ? 1 : 0; dim < operand.shape.size(); ++dim) {
        if (operand.has("any columns") && dim == 1) continue;
        Memory memory;
        Tensors wrong = memory.of(op.operands);
        std::vector<std::int64_t> shape = operand.shape;
        ++shape[dim];
        wrong[name] = tensor(wrong[name].data, operand.dtype, shape);
        refuse(op, wrong, "", name + " of a wrong shape, dim " + std::to_string(dim));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(every_op_refuses_gaps_where_there_must_be_none) {
  for (const Op& op : all_ops()) {
    for (const auto& [name, operand] : op.operands) {
      if (operand.has("strided") || operand.shape[0] == 1) continue;
      Memory memory;
      Tensors wrong = memory.of(op.operands);
      ++wrong[name].stride0;
      refuse(op, wrong, name, "with gaps");
    }
  }
}

BOOST_AUTO_TEST_CASE(every_op_refuses_tensors_without_memory) {
  for (const Op& op : all_ops()) {
    for (const auto& [name, operand] : op.operands) {
      if (operand.has("optional") || name.starts_with("new_scales")) continue;
      Memory memory;
      Tensors wrong = memory.of(op.operands);
      wrong[name].data = nullptr;
      refuse(op, wrong, name, "without memory");
    }
  }
}

BOOST_AUTO_TEST_CASE(every_op_refuses_to_write_over_another_tensor) {
  for (const Op& op : all_ops()) {
    for (const auto& [name, operand] : op.operands) {
      if (!operand.has("written")) continue;
      for (const auto& [other, other_operand] : op.operands) {
        if (other == name) continue;
        Memory memory;
        Tensors wrong = memory.of(op.operands);
        // Its last element is the first one of the other.
        const std::size_t last = wrong[name].size_bytes() - size_of(operand.dtype);
        wrong[other].data = wrong[name].as<std::byte>() + last;
        refuse(op, wrong, name, "that runs into " + other);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_message_says_what_the_tensor_was) {
  Memory memory;
  Tensors x = memory.of({{"out", {bf16, {T, C}}}, {"tokens", {DType::int32, {T}}}, {"table", {bf16, {V, C}}}});
  x["out"].stride0 = C + 1;
  BOOST_CHECK_EXCEPTION(
      backend->run(EmbeddingForward{x["out"], x["tokens"], x["table"], 0}), std::logic_error,
      [](const std::exception& e) {
        return std::string(e.what()) ==
               "internal error: embedding_forward: out is (6, 8) bf16, its rows 9 elements apart; it must be (6, 8) "
               "float32 or bf16, contiguous";
      });
}

BOOST_AUTO_TEST_CASE(numbers_beside_the_tensors_are_checked) {
  Memory memory;
  Tensors x = memory.of({{"x", {float32, {T, C}}}, {"y", {float32, {T, C}}}});
  BOOST_CHECK_THROW(backend->run(FillNormal{x["x"], 1, -1, 1.0F}), std::logic_error);
  BOOST_CHECK_THROW(backend->run(FillUniform{x["x"], 1, -1, 1.0F}), std::logic_error);
  Tensors seeds = memory.of({{"seed", {DType::uint8, {8}}}});
  const Dropout dropout{.out = x["x"], .in = x["y"], .probability = 0.5F, .seed = seeds["seed"]};
  for (const float probability : {1.0F, -0.1F}) {
    Dropout wrong = dropout;
    wrong.probability = probability;
    BOOST_CHECK_THROW(backend->run(wrong), std::logic_error);
  }
  Dropout before = dropout, shorter = dropout, beside = dropout;
  before.first_index = -1;
  shorter.in = x["y"].rows(0, 1);
  beside.seed.data = static_cast<const std::byte*>(beside.seed.data) + 1;
  for (const Dropout& wrong : {before, shorter, beside}) BOOST_CHECK_THROW(backend->run(wrong), std::logic_error);
  const std::vector<std::int32_t> falling = {0, 4, 3}, beyond = {0, 3, T + 1}, too_few = {0, T};
  Tensors grouped = memory.of({{"b", {float32, {2, C, C}}}});
  for (const ExpertOffsets offsets : {ExpertOffsets(falling), ExpertOffsets(beyond), ExpertOffsets(too_few)}) {
    BOOST_CHECK_THROW(backend->run(GroupedMatmul{.a = x["x"], .b = grouped["b"], .c = x["y"], .offsets = offsets}),
                      std::logic_error);
  }
  BOOST_CHECK_THROW((void)backend->plan_attention({{0, T + 1, 0, T, 0, 0}}, T, T), std::logic_error);
  BOOST_CHECK_THROW((void)backend->plan_attention({{0, T, 1, T, 0, 0}}, T, T), std::logic_error);
}

BOOST_AUTO_TEST_CASE(rounding_says_how_many_blocks_a_step_needs) {
  for (const Op& op : all_ops()) {
    if (!op.operands.contains("new_scales[0]")) continue;
    Memory memory;
    Tensors x = memory.of(op.operands);
    const auto step = [&](std::int64_t first_index, std::int64_t first_block) {
      BlockwiseUpdate made{.update = {.parameters = x["parameters"],
                                      .gradients = x["gradients"],
                                      .state = {x["state[0]"], x["state[1]"]},
                                      .copy = {},
                                      .rule = adamw,
                                      .rounding = {.first_index = first_index}},
                           .scales = {x["scales[0]"], x["scales[1]"]},
                           .new_scales = {x["new_scales[0]"], x["new_scales[1]"]},
                           .first_block = first_block};
      op.name == "raise_scales" ? backend->run(RaiseScales{made}) : backend->run(UpdateBlockwise{made});
    };
    // 600 elements lie in three blocks, from the 168th of a block on in four.
    BOOST_CHECK_NO_THROW(step(1000 * 256 + 168, 1000));
    BOOST_CHECK_THROW(step(1000 * 256 + 169, 1000), std::logic_error);
    BOOST_CHECK_THROW(step(1000 * 256, 999), std::logic_error);
  }
}

BOOST_AUTO_TEST_CASE(memory_is_shared_where_elements_are) {
  std::vector<float> memory(64);
  const Tensor all(memory.data(), float32, {8, 8});
  BOOST_TEST(share_memory(all.rows(0, 4), all.rows(3, 2)));
  BOOST_TEST(!share_memory(all.rows(0, 4), all.rows(4, 4)));
  // Columns side by side of the same rows have no element in common.
  BOOST_TEST(!share_memory(all.columns(0, 3), all.columns(3, 5)));
  BOOST_TEST(share_memory(all.columns(0, 4), all.columns(3, 5)));
  BOOST_TEST(!share_memory(all.rows(1, 3).columns(0, 3), all.columns(3, 5)));
  // Of other distances between rows: 8 and 16 elements.
  Tensor every_second = all.rows(1, 4).columns(0, 2);
  every_second.stride0 = 16;
  BOOST_TEST(!share_memory(every_second, all.rows(2, 1)));
  BOOST_TEST(share_memory(every_second, all.rows(3, 1)));
  BOOST_TEST(!share_memory(every_second, all.columns(2, 6)));
  BOOST_TEST(share_memory(every_second, all.columns(1, 1)));
  BOOST_TEST(share_memory(all.columns(1, 1), every_second));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::checked
