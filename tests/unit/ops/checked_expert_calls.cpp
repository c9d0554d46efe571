// SPDX-License-Identifier: Apache-2.0
#include "checked_calls.hpp"

namespace sft::ops::checked {

namespace {

constexpr std::int64_t E = 4, k = 2, R = 20, columns = 6;
constexpr DType int32 = DType::int32, float64 = DType::float64;
constexpr std::array<std::int32_t, 5> offsets = {0, 4, 4, 12, 18};

void add_routers(std::vector<Op>& ops) {
  ops.push_back({"router_forward",
                 {{"logits", {float32, {T, E}}},
                  {"correction", {float32, {E}, "optional"}},
                  {"experts", {int32, {T, k}, "written"}},
                  {"weights", {float32, {T, k}, "written"}}},
                 [](Backend& b, Tensors x) {
                   b.run(RouterForward{.logits = x["logits"],
                                       .correction = x["correction"],
                                       .experts = x["experts"],
                                       .weights = x["weights"],
                                       .rule = {.score = RouterScore::sigmoid}});
                 }});
  ops.push_back({"router_backward",
                 {{"dlogits", {float32, {T, E}, "written"}},
                  {"logits", {float32, {T, E}}},
                  {"experts", {int32, {T, k}}},
                  {"dweights", {float32, {T, k}}}},
                 [](Backend& b, Tensors x) {
                   b.run(RouterBackward{.dlogits = x["dlogits"],
                                        .logits = x["logits"],
                                        .experts = x["experts"],
                                        .dweights = x["dweights"],
                                        .rule = {}});
                 }});
  ops.push_back({"router_sums",
                 {{"logits", {float32, {T, E}, "any rows"}},
                  {"expert_counts", {int32, {E}}},
                  {"counts", {float64, {E}, "written"}},
                  {"probabilities", {float64, {E}, "written"}}},
                 [](Backend& b, Tensors x) {
                   b.run(RouterSums{.logits = x["logits"],
                                    .expert_counts = x["expert_counts"],
                                    .counts = x["counts"],
                                    .probabilities = x["probabilities"]});
                 }});
  ops.push_back({"router_sums_backward",
                 {{"dlogits", {float32, {T, E}, "written"}}, {"logits", {float32, {T, E}}}, {"counts", {float64, {E}}}},
                 [](Backend& b, Tensors x) {
                   b.run(RouterSumsBackward{
                       .dlogits = x["dlogits"], .logits = x["logits"], .counts = x["counts"], .factor = 1.0});
                 }});
}

void add_rows(std::vector<Op>& ops) {
  ops.push_back({"expert_order",
                 {{"experts", {int32, {T, k}}},
                  {"counts", {int32, {E}, "written"}},
                  {"offsets", {int32, {E + 1}, "written"}},
                  {"choices", {int32, {R}, "written, any rows"}},
                  {"rows", {int32, {T, k}, "written"}}},
                 [](Backend& b, Tensors x) {
                   b.run(ExpertOrder{.experts = x["experts"],
                                     .counts = x["counts"],
                                     .offsets = x["offsets"],
                                     .choices = x["choices"],
                                     .rows = x["rows"],
                                     .alignment = 2});
                 }});
  ops.push_back(
      {"gather_tokens",
       {{"out", {bf16, {R, C}, "written"}},
        {"in", {bf16, {T, C}}},
        {"choices", {int32, {R}}},
        {"weights", {float32, {T, k}, "optional"}}},
       [](Backend& b, Tensors x) {
         b.run(GatherTokens{
             .out = x["out"], .in = x["in"], .choices = x["choices"], .weights = x["weights"], .num_choices = k});
       }});
  ops.push_back({"combine_rows",
                 {{"out", {float32, {T, C}, "written"}},
                  {"in", {bf16, {R, C}, "any rows"}},
                  {"rows", {int32, {T, k}}},
                  {"weights", {float32, {T, k}, "optional"}}},
                 [](Backend& b, Tensors x) {
                   b.run(CombineRows{.out = x["out"], .in = x["in"], .rows = x["rows"], .weights = x["weights"]});
                 }});
  ops.push_back(
      {"combine_weights_backward",
       {{"dweights", {float32, {T, k}, "written"}},
        {"dout", {bf16, {T, C}}},
        {"in", {bf16, {R, C}, "any rows"}},
        {"rows", {int32, {T, k}}}},
       [](Backend& b, Tensors x) {
         b.run(CombineWeightsBackward{.dweights = x["dweights"], .dout = x["dout"], .in = x["in"], .rows = x["rows"]});
       }});
}

void add_products(std::vector<Op>& ops) {
  for (const bool transpose : {false, true}) {
    const auto b_shape =
        transpose ? std::vector<std::int64_t>{E, columns, C} : std::vector<std::int64_t>{E, C, columns};
    ops.push_back(
        {"grouped_matmul",
         {{"a", {bf16, {R, C}}},
          {"b", {bf16, b_shape}},
          {"c", {bf16, {R, columns}, "written"}},
          {"bias", {bf16, {E, columns}, "optional"}}},
         [transpose](Backend& b, Tensors x) {
           b.run(GroupedMatmul{
               .a = x["a"], .b = x["b"], .c = x["c"], .offsets = offsets, .transpose_b = transpose, .bias = x["bias"]});
         }});
  }
  ops.push_back(
      {"grouped_weight_gradient",
       {{"dweight", {float32, {E, columns, C}, "written"}}, {"x", {bf16, {R, columns}}}, {"y", {bf16, {R, C}}}},
       [](Backend& b, Tensors x) {
         b.run(GroupedWeightGradient{.dweight = x["dweight"], .x = x["x"], .y = x["y"], .offsets = offsets});
       }});
  ops.push_back({"grouped_bias_gradient",
                 {{"dbias", {float32, {E, columns}, "written"}}, {"dy", {bf16, {R, columns}, "any rows"}}},
                 [](Backend& b, Tensors x) {
                   b.run(GroupedBiasGradient{.dbias = x["dbias"], .dy = x["dy"], .offsets = offsets});
                 }});
}

void add_gates(std::vector<Op>& ops) {
  ops.push_back({"gated_forward",
                 {{"act", {bf16, {T, F}, "written"}}, {"gate_up", {bf16, {T, 2 * F}}}},
                 [](Backend& b, Tensors x) {
                   b.run(GatedForward{.act = x["act"], .gate_up = x["gate_up"], .rule = {.gate = Gate::gelu_tanh}});
                 }});
  ops.push_back({"gated_backward",
                 {{"dgate_up", {bf16, {T, 2 * F}, "written"}},
                  {"act", {bf16, {T, F}, "written"}},
                  {"dact", {bf16, {T, F}}},
                  {"gate_up", {bf16, {T, 2 * F}}}},
                 [](Backend& b, Tensors x) {
                   b.run(GatedBackward{.dgate_up = x["dgate_up"],
                                       .act = x["act"],
                                       .dact = x["dact"],
                                       .gate_up = x["gate_up"],
                                       .rule = {.gate = Gate::clamped_swish}});
                 },
                 {{"dgate_up", "gate_up"}, {"act", "dact"}}});
}

}  // namespace

void add_ops_of_experts(std::vector<Op>& ops) {
  add_routers(ops);
  add_rows(ops);
  add_products(ops);
  add_gates(ops);
}

}  // namespace sft::ops::checked
