// SPDX-License-Identifier: Apache-2.0
#include "checked_calls.hpp"

#include <set>

namespace sft::ops::checked {

Tensor tensor(void* data, DType dtype, const std::vector<std::int64_t>& shape) {
  switch (shape.size()) {
    case 1:
      return {data, dtype, {shape[0]}};
    case 2:
      return {data, dtype, {shape[0], shape[1]}};
    default:
      return {data, dtype, {shape[0], shape[1], shape[2]}};
  }
}

Tensors Memory::of(const std::map<std::string, Operand>& operands) {
  Tensors tensors;
  for (const auto& [name, operand] : operands) {
    bytes_.emplace_back(1 << 16);
    tensors[name] = tensor(bytes_.back().data(), operand.dtype, operand.shape);
  }
  return tensors;
}

namespace {

CrossEntropy chunk_of(const Tensors& x) {
  return {.logits = x.at("logits"),
          .max = x.at("max"),
          .partials = x.at("partials"),
          .targets = x.at("targets"),
          .loss_weights = x.at("loss_weights"),
          .vocab_begin = 0};
}

/// Tensors of a chunk, of which the step writes `written`.
std::map<std::string, Operand> operands_of_chunk(const std::set<std::string>& written) {
  std::map<std::string, Operand> operands = {{"logits", {float32, {T, V}, "any columns"}},
                                             {"max", {float32, {T}}},
                                             {"partials", {float32, {3, T}}},
                                             {"targets", {DType::int32, {T}}},
                                             {"loss_weights", {float32, {T}}}};
  for (const std::string& name : written) operands.at(name).rules += " written";
  return operands;
}

void add_ops_of_decoder(std::vector<Op>& ops) {
  const Operand any_pair_out{bf16, {T, C}, "written strided"}, any_pair_in{bf16, {T, C}, "strided"};
  ops.push_back({"fill", {{"x", {bf16, {T, C}, "written strided, any shape"}}}, [](Backend& b, Tensors x) {
                   b.run(Fill{x["x"], 1.0F});
                 }});
  ops.push_back({"copy", {{"destination", any_pair_out}, {"source", any_pair_in}}, [](Backend& b, Tensors x) {
                   b.run(Copy{x["destination"], x["source"]});
                 }});
  ops.push_back({"add", {{"destination", any_pair_out}, {"source", any_pair_in}}, [](Backend& b, Tensors x) {
                   b.run(Add{x["destination"], x["source"]});
                 }});
  ops.push_back({"scale", {{"x", {bf16, {T, C}, "written, any shape"}}}, [](Backend& b, Tensors x) {
                   b.run(Scale{x["x"], 1.0F});
                 }});
  ops.push_back({"sum_squares",
                 {{"result", {DType::float64, {1}, "written"}}, {"x", {float32, {T, C}, "any shape"}}},
                 [](Backend& b, Tensors x) {
                   b.run(SumSquares{x["result"], x["x"]});
                 }});
  ops.push_back({"divide_by_norm",
                 {{"x", {float32, {T, C}, "written, any shape"}}, {"squares", {DType::float64, {1}}}},
                 [](Backend& b, Tensors x) {
                   b.run(DivideByNorm{x["x"], x["squares"], 1e-7F});
                 }});
  ops.push_back({"fill_normal", {{"x", {bf16, {T, C}, "written, any shape"}}}, [](Backend& b, Tensors x) {
                   b.run(FillNormal{x["x"], 1, 0, 1.0F});
                 }});
  ops.push_back({"fill_uniform", {{"x", {bf16, {T, C}, "written, any shape"}}}, [](Backend& b, Tensors x) {
                   b.run(FillUniform{x["x"], 1, 0, 1.0F});
                 }});
  ops.push_back({"add_uniform", {{"x", {bf16, {T, C}, "written, any shape"}}}, [](Backend& b, Tensors x) {
                   b.run(AddUniform{x["x"], 1, 0, 1.0F});
                 }});
  ops.push_back({"dropout",
                 {{"out", any_pair_out}, {"in", any_pair_in}, {"seed", {DType::uint8, {8}}}},
                 [](Backend& b, Tensors x) {
                   b.run(Dropout{.out = x["out"], .in = x["in"], .probability = 0.5F, .seed = x["seed"]});
                 },
                 {{"out", "in"}}});
  ops.push_back(
      {"embedding_forward",
       {{"out", {bf16, {T, C}, "written"}}, {"tokens", {DType::int32, {T}}}, {"table", {bf16, {V, C}, "any rows"}}},
       [](Backend& b, Tensors x) {
         b.run(EmbeddingForward{x["out"], x["tokens"], x["table"], 0});
       }});
  ops.push_back(
      {"embedding_backward",
       {{"dtable", {float32, {V, C}, "written, any rows"}}, {"tokens", {DType::int32, {T}}}, {"dout", {bf16, {T, C}}}},
       [](Backend& b, Tensors x) {
         b.run(EmbeddingBackward{x["dtable"], x["tokens"], x["dout"], 0});
       }});
  const Operand rows{bf16, {T, C}}, written_rows{bf16, {T, C}, "written"}, weight{bf16, {C}}, rstd{float32, {T}},
      written_rstd{float32, {T}, "written"};
  ops.push_back({"rms_norm_forward",
                 {{"y", written_rows}, {"rstd", written_rstd}, {"x", rows}, {"weight", weight}},
                 [](Backend& b, Tensors x) {
                   b.run(RmsNormForward{x["y"], x["rstd"], x["x"], x["weight"], 1e-5F});
                 }});
  ops.push_back({"add_rms_norm_forward",
                 {{"sum", written_rows},
                  {"y", written_rows},
                  {"rstd", written_rstd},
                  {"x", rows},
                  {"delta", rows},
                  {"weight", weight}},
                 [](Backend& b, Tensors x) {
                   b.run(AddRmsNormForward{.sum = x["sum"],
                                           .y = x["y"],
                                           .rstd = x["rstd"],
                                           .x = x["x"],
                                           .delta = x["delta"],
                                           .weight = x["weight"],
                                           .epsilon = 1e-5F});
                 },
                 {{"sum", "x"}, {"y", "delta"}}});
  ops.push_back({"rms_norm_apply",
                 {{"y", written_rows}, {"x", rows}, {"rstd", rstd}, {"weight", weight}},
                 [](Backend& b, Tensors x) {
                   b.run(RmsNormApply{.y = x["y"], .x = x["x"], .rstd = x["rstd"], .weight = x["weight"]});
                 }});
  ops.push_back({"rms_norm_backward",
                 {{"dx", written_rows},
                  {"dweight", {float32, {C}, "written, optional"}},
                  {"dy", rows},
                  {"x", rows},
                  {"rstd", rstd},
                  {"weight", weight},
                  {"dresidual", {bf16, {T, C}, "optional"}}},
                 [](Backend& b, Tensors x) {
                   b.run(RmsNormBackward{.dx = x["dx"],
                                         .dweight = x["dweight"],
                                         .dy = x["dy"],
                                         .x = x["x"],
                                         .rstd = x["rstd"],
                                         .weight = x["weight"],
                                         .dresidual = x["dresidual"]});
                 },
                 {{"dx", "dresidual"}, {"dx", "x"}}});
  const Operand columns{bf16, {T, C}, "strided"}, written_columns{bf16, {T, C}, "written strided"};
  ops.push_back({"split_norm_squares",
                 {{"squares", written_rstd}, {"x", {bf16, {T, C}, "strided, any columns"}}},
                 [](Backend& b, Tensors x) {
                   b.run(SplitNormSquares{x["squares"], x["x"]});
                 }});
  ops.push_back(
      {"split_norm_forward",
       {{"y", written_columns}, {"rstd", written_rstd}, {"x", columns}, {"squares", rstd}, {"weight", weight}},
       [](Backend& b, Tensors x) {
         b.run(SplitNormForward{.y = x["y"],
                                .rstd = x["rstd"],
                                .x = x["x"],
                                .squares = x["squares"],
                                .weight = x["weight"],
                                .all_columns = 2 * C,
                                .epsilon = 1e-5F});
       }});
  ops.push_back({"split_norm_dots",
                 {{"dots", written_rstd},
                  {"dweight", {float32, {C}, "written, optional"}},
                  {"dy", columns},
                  {"x", columns},
                  {"rstd", rstd},
                  {"weight", weight}},
                 [](Backend& b, Tensors x) {
                   b.run(SplitNormDots{.dots = x["dots"],
                                       .dweight = x["dweight"],
                                       .dy = x["dy"],
                                       .x = x["x"],
                                       .rstd = x["rstd"],
                                       .weight = x["weight"]});
                 }});
  ops.push_back(
      {"split_norm_backward",
       {{"dx", written_columns}, {"dy", columns}, {"x", columns}, {"rstd", rstd}, {"dots", rstd}, {"weight", weight}},
       [](Backend& b, Tensors x) {
         b.run(SplitNormBackward{.dx = x["dx"],
                                 .dy = x["dy"],
                                 .x = x["x"],
                                 .rstd = x["rstd"],
                                 .dots = x["dots"],
                                 .weight = x["weight"],
                                 .all_columns = 2 * C});
       },
       {{"dx", "dy"}}});
  ops.push_back({"soft_cap", {{"x", {float32, {T, C}, "written, any shape"}}}, [](Backend& b, Tensors x) {
                   b.run(SoftCap{x["x"], 30.0F});
                 }});
  const Operand angles{float32, {T, D / 2}}, written_angles{float32, {T, D / 2}, "written"},
      heads{bf16, {T, n, D}, "strided"}, written_heads{bf16, {T, n, D}, "written strided"};
  ops.push_back({"rope_table",
                 {{"cosine", written_angles},
                  {"sine", written_angles},
                  {"positions", {DType::int32, {T}}},
                  {"inverse_frequencies", {DType::float64, {D / 2}}}},
                 [](Backend& b, Tensors x) {
                   b.run(WriteRopeTable{x["cosine"], x["sine"], x["positions"], x["inverse_frequencies"], {}});
                 }});
  ops.push_back({"rope_forward",
                 {{"out", written_heads}, {"in", heads}, {"table.cosine", angles}, {"table.sine", angles}},
                 [](Backend& b, Tensors x) {
                   b.run(RopeForward{x["out"], x["in"], {x["table.cosine"], x["table.sine"]}});
                 },
                 {{"out", "in"}}});
  ops.push_back({"rope_backward",
                 {{"din", written_heads}, {"dout", heads}, {"table.cosine", angles}, {"table.sine", angles}},
                 [](Backend& b, Tensors x) {
                   b.run(RopeBackward{x["din"], x["dout"], {x["table.cosine"], x["table.sine"]}});
                 },
                 {{"din", "dout"}}});
  ops.push_back({"norm_rope_forward",
                 {{"out", written_heads},
                  {"rstd", {float32, {T, n}, "written"}},
                  {"in", heads},
                  {"weight", {bf16, {D}}},
                  {"table.cosine", angles},
                  {"table.sine", angles}},
                 [](Backend& b, Tensors x) {
                   b.run(NormRopeForward{.out = x["out"],
                                         .rstd = x["rstd"],
                                         .in = x["in"],
                                         .weight = x["weight"],
                                         .table = {x["table.cosine"], x["table.sine"]},
                                         .epsilon = 1e-6F});
                 },
                 {{"out", "in"}}});
  ops.push_back({"norm_rope_backward",
                 {{"din", written_heads},
                  {"dweight", {float32, {D}, "written, optional"}},
                  {"dout", heads},
                  {"in", heads},
                  {"rstd", {float32, {T, n}}},
                  {"weight", {bf16, {D}}},
                  {"table.cosine", angles},
                  {"table.sine", angles}},
                 [](Backend& b, Tensors x) {
                   b.run(NormRopeBackward{.din = x["din"],
                                          .dweight = x["dweight"],
                                          .dout = x["dout"],
                                          .in = x["in"],
                                          .rstd = x["rstd"],
                                          .weight = x["weight"],
                                          .table = {x["table.cosine"], x["table.sine"]}});
                 },
                 {{"din", "dout"}}});
  for (const bool transposes : {false, true}) {
    const auto shape = [&](std::int64_t num_rows, std::int64_t num_columns) {
      return transposes ? std::vector{num_columns, num_rows} : std::vector{num_rows, num_columns};
    };
    ops.push_back({"matmul",
                   {{"a", {bf16, shape(T, C), "strided"}},
                    {"b", {bf16, shape(C, F), "strided"}},
                    {"c", {float32, {T, F}, "written strided"}},
                    {"bias", {bf16, {F}, "optional"}}},
                   [transposes](Backend& b, Tensors x) {
                     b.run(Matmul{.a = x["a"],
                                  .b = x["b"],
                                  .c = x["c"],
                                  .transpose_a = transposes,
                                  .transpose_b = transposes,
                                  .bias = x["bias"]});
                   }});
  }
  ops.push_back({"bias_backward",
                 {{"dbias", {float32, {C}, "written"}}, {"dy", {bf16, {T, C}, "strided, any rows"}}},
                 [](Backend& b, Tensors x) {
                   b.run(BiasBackward{x["dbias"], x["dy"]});
                 }});
  ops.push_back({"scale_columns",
                 {{"out", {float32, {T, C}, "written strided"}},
                  {"in", {bf16, {T, C}, "strided"}},
                  {"factors", {float32, {C}}},
                  {"bias", {bf16, {C}, "optional"}}},
                 [](Backend& b, Tensors x) {
                   b.run(ScaleColumns{.out = x["out"], .in = x["in"], .factors = x["factors"], .bias = x["bias"]});
                 }});
  ops.push_back({"add_column_products",
                 {{"sums", {float32, {C}, "written"}},
                  {"a", {bf16, {T, C}, "strided"}},
                  {"b", {bf16, {T, C}, "strided"}},
                  {"factors", {float32, {C}}}},
                 [](Backend& b, Tensors x) {
                   b.run(AddColumnProducts{.sums = x["sums"], .a = x["a"], .b = x["b"], .factors = x["factors"]});
                 }});
  ops.push_back(
      {"add_row_products",
       {{"sums", {float32, {T}, "written"}}, {"a", {bf16, {T, C}, "strided"}}, {"b", {bf16, {T, C}, "strided"}}},
       [](Backend& b, Tensors x) { b.run(AddRowProducts{.sums = x["sums"], .a = x["a"], .b = x["b"]}); }});
  ops.push_back({"magnitude_factors",
                 {{"factors", {float32, {C}, "written"}},
                  {"inverse_norms", {float32, {C}, "written"}},
                  {"magnitudes", {bf16, {C}}},
                  {"squares", {float32, {C}}}},
                 [](Backend& b, Tensors x) {
                   b.run(MagnitudeFactors{.factors = x["factors"],
                                          .inverse_norms = x["inverse_norms"],
                                          .magnitudes = x["magnitudes"],
                                          .squares = x["squares"]});
                 }});
  for (const bool is_nested : {false, true}) {
    const FourBitForm form{.is_nested = is_nested};
    std::map<std::string, Operand> operands = {{"out", {bf16, {T, four_bit_block}, "written"}},
                                               {"records", {DType::uint8, {T * form.record_bytes()}}}};
    if (is_nested) operands["nested"] = {float32, {form.num_nested(T * four_bit_block)}, "any rows"};
    ops.push_back({"read_four_bits", operands, [form](Backend& b, Tensors x) {
                     b.run(ReadFourBits{.out = x["out"],
                                        .records = x["records"],
                                        .form = form,
                                        .nested = form.is_nested ? x["nested"] : Tensor(),
                                        .row_blocks = 1});
                   }});
  }
  const Operand codes{DType::uint8, {T, D}}, scale{float32, {1, 1}};
  ops.push_back(
      {"find_fp8_scale",
       {{"in", {bf16, {T, D}, "strided"}}, {"codes", codes}, {"scales", {float32, {1, 1}, "written"}}},
       [](Backend& b, Tensors x) {
         b.run(FindFp8Scale{.out = {x["codes"], x["scales"], Fp8Format::e4m3, Fp8Tiles::whole}, .in = x["in"]});
       }});
  const Operand written_codes{DType::uint8, {T, D}, "written"};
  ops.push_back({"round_to_fp8",
                 {{"in", {bf16, {T, D}, "strided"}}, {"codes", written_codes}, {"scales", scale}},
                 [](Backend& b, Tensors x) {
                   b.run(RoundToFp8{.out = {x["codes"], x["scales"], Fp8Format::e4m3, Fp8Tiles::whole}, .in = x["in"]});
                 }});
  ops.push_back(
      {"round_to_fp8",
       {{"in", {bf16, {D, T}, "strided"}}, {"codes", written_codes}, {"scales", {float32, {1, T}, "written"}}},
       [](Backend& b, Tensors x) {
         b.run(RoundToFp8{
             .out = {x["codes"], x["scales"], Fp8Format::e5m2, Fp8Tiles::vectors}, .in = x["in"], .transpose = true});
       }});
  ops.push_back(
      {"round_to_fp8",
       {{"in", {bf16, {D, D}, "strided"}},
        {"codes", {DType::uint8, {D, D}, "written"}},
        {"scales", {float32, {1, D}, "written"}},
        {"turned codes", {DType::uint8, {D, D}, "written"}},
        {"turned scales", {float32, {1, D}, "written"}}},
       [](Backend& b, Tensors x) {
         b.run(RoundToFp8{.out = {x["codes"], x["scales"], Fp8Format::e5m2, Fp8Tiles::vectors},
                          .in = x["in"],
                          .turned = {x["turned codes"], x["turned scales"], Fp8Format::e5m2, Fp8Tiles::vectors}});
       }});
  // 12 of the elements behind the first two, of a matrix in one block.
  const Operand run{bf16, {12}}, codes_of_run{DType::uint8, {12}}, scale_of_block{float32, {1, 4}};
  const auto run_of = [](Tensors& x) {
    return Fp8Run{.codes = x["codes"],
                  .in = x["in"],
                  .first = 2,
                  .lines = 5,
                  .terms = 3,
                  .scales = x["scales"],
                  .tiles = Fp8Tiles::blocks};
  };
  ops.push_back({"raise_fp8_scales",
                 {{"in", run}, {"codes", codes_of_run}, {"scales", {float32, {1, 4}, "written"}}},
                 [=](Backend& b, Tensors x) { b.run(RaiseFp8Scales{run_of(x)}); }});
  ops.push_back({"round_fp8_run",
                 {{"in", run}, {"codes", {DType::uint8, {12}, "written"}}, {"scales", scale_of_block}},
                 [=](Backend& b, Tensors x) { b.run(RoundFp8Run{run_of(x)}); }});
  ops.push_back({"arrange_fp8",
                 {{"in", {DType::uint8, {D, T}, "strided"}},
                  {"out", written_codes},
                  {"scales of in", scale_of_block},
                  {"scales of out", {float32, {1, 4}, "written"}}},
                 [](Backend& b, Tensors x) {
                   b.run(ArrangeFp8{.out = x["out"],
                                    .in = x["in"],
                                    .transpose = true,
                                    .out_scales = x["scales of out"],
                                    .in_scales = x["scales of in"]});
                 }});
  ops.push_back({"arrange_fp8",
                 {{"in", {DType::uint8, {D, T}, "strided"}}, {"out", written_codes}},
                 [](Backend& b, Tensors x) { b.run(ArrangeFp8{.out = x["out"], .in = x["in"], .transpose = true}); }});
  ops.push_back({"fp8_matmul",
                 {{"a", codes},
                  {"scales of a", {float32, {1, T}}},
                  {"b", {DType::uint8, {V, D}}},
                  {"scales of b", {float32, {1, 4}}},
                  {"c", {bf16, {T, V}, "written strided"}},
                  {"bias", {bf16, {V}, "optional"}}},
                 [](Backend& b, Tensors x) {
                   b.run(Fp8Matmul{.a = {x["a"], x["scales of a"], Fp8Format::e5m2, Fp8Tiles::vectors},
                                   .b = {x["b"], x["scales of b"], Fp8Format::e4m3, Fp8Tiles::blocks},
                                   .c = x["c"],
                                   .bias = x["bias"]});
                 }});
  const Operand keys{bf16, {Tk, K, D}, "strided"}, statistics{float32, {T, n}};
  for (const bool adds : {false, true}) {
    const DType result = adds ? float32 : bf16;
    std::map<std::string, Operand> operands = {{"q", heads},
                                               {"k", keys},
                                               {"v", keys},
                                               {"out", {result, {T, n, D}, "written strided"}},
                                               {"lse", {float32, {T, n}, "written"}}};
    if (!adds) operands["sinks"] = {bf16, {n}, "optional"};
    ops.push_back({"attention_forward", operands, [adds](Backend& b, Tensors x) {
                     const auto plan = b.plan_attention({}, T, Tk);
                     b.run(AttentionForward{.q = x["q"],
                                            .k = x["k"],
                                            .v = x["v"],
                                            .out = x["out"],
                                            .lse = x["lse"],
                                            .scale = 1.0F,
                                            .plan = *plan,
                                            .merge = adds,
                                            .sinks = x["sinks"]});
                   }});
    ops.push_back({"attention_backward",
                   {{"q", heads},
                    {"k", keys},
                    {"v", keys},
                    {"dout", heads},
                    {"lse", statistics},
                    {"delta", statistics},
                    {"dq", {result, {T, n, D}, "written strided"}},
                    {"dk", {result, {Tk, K, D}, "written strided"}},
                    {"dv", {result, {Tk, K, D}, "written strided"}},
                    {"out", {bf16, {T, n, D}, "strided, optional"}}},
                   [adds](Backend& b, Tensors x) {
                     const auto plan = b.plan_attention({}, T, Tk);
                     b.run(AttentionBackward{.q = x["q"],
                                             .k = x["k"],
                                             .v = x["v"],
                                             .dout = x["dout"],
                                             .lse = x["lse"],
                                             .delta = x["delta"],
                                             .dq = x["dq"],
                                             .dk = x["dk"],
                                             .dv = x["dv"],
                                             .scale = 1.0F,
                                             .plan = *plan,
                                             .accumulate_dq = adds,
                                             .accumulate_dkv = adds,
                                             .out = x["out"]});
                   }});
  }
  ops.push_back({"attention_delta",
                 {{"delta", {float32, {T, n}, "written"}}, {"out", heads}, {"dout", heads}},
                 [](Backend& b, Tensors x) {
                   b.run(AttentionDelta{x["delta"], x["out"], x["dout"]});
                 }});
  ops.push_back(
      {"attention_sinks_backward",
       {{"dsinks", {float32, {n}, "written"}}, {"sinks", {bf16, {n}}}, {"lse", statistics}, {"delta", statistics}},
       [](Backend& b, Tensors x) {
         b.run(AttentionSinksBackward{x["dsinks"], x["sinks"], x["lse"], x["delta"]});
       }});
  ops.push_back({"cross_entropy_max", operands_of_chunk({"max"}),
                 [](Backend& b, Tensors x) { b.run(CrossEntropyMax{chunk_of(x)}); }});
  ops.push_back({"cross_entropy_partials", operands_of_chunk({"logits", "partials"}),
                 [](Backend& b, Tensors x) { b.run(CrossEntropyPartials{chunk_of(x)}); }});
  auto finish = operands_of_chunk({});
  finish["logits"].rules.clear();
  finish["dlogits"] = {float32, {T, V}, "written, optional"};
  finish["metrics"] = {DType::float64, {4}, "written"};
  ops.push_back({"cross_entropy_finish",
                 finish,
                 [](Backend& b, Tensors x) {
                   b.run(CrossEntropyFinish{chunk_of(x), x["dlogits"], 1.0, x["metrics"]});
                 },
                 {{"dlogits", "logits"}}});
}

Update update_of(const Tensors& x) {
  return {.parameters = x.at("parameters"),
          .gradients = x.at("gradients"),
          .state = {x.at("state[0]"), x.at("state[1]")},
          .copy = x.at("copy"),
          .rule = adamw};
}

void add_ops_of_optimizers(std::vector<Op>& ops) {
  const Operand numbers{float32, {N}, "written"};
  ops.push_back({"update",
                 {{"parameters", numbers},
                  {"gradients", {float32, {N}}},
                  {"state[0]", {bf16, {N}, "written"}},
                  {"state[1]", {bf16, {N}, "written"}},
                  {"copy", {bf16, {N}, "written, optional"}}},
                 [](Backend& b, Tensors x) { b.run(update_of(x)); },
                 {{"parameters", "gradients"}}});
  for (const bool is_cut : {false, true}) {
    const Operand codes{DType::uint8, {N}, "written"}, scales{float32, {3}, "written"};
    std::map<std::string, Operand> operands = {{"parameters", numbers},
                                               {"gradients", {float32, {N}}},
                                               {"state[0]", codes},
                                               {"state[1]", codes},
                                               {"copy", {bf16, {N}, "written, optional"}},
                                               {"scales[0]", scales},
                                               {"scales[1]", scales}};
    if (is_cut) {
      operands["new_scales[0]"] = operands["new_scales[1]"] = scales;
      operands["scales[0]"].rules.clear();
      operands["scales[1]"].rules.clear();
    }
    const auto step_of = [](Tensors x) {
      return BlockwiseUpdate{.update = update_of(x),
                             .scales = {x["scales[0]"], x["scales[1]"]},
                             .new_scales = {x["new_scales[0]"], x["new_scales[1]"]}};
    };
    ops.push_back({"update_blockwise",
                   operands,
                   [step_of](Backend& b, Tensors x) { b.run(UpdateBlockwise{step_of(std::move(x))}); },
                   {{"parameters", "gradients"}}});
    if (!is_cut) continue;
    for (const char* not_touched : {"parameters", "copy"}) operands.erase(not_touched);
    for (const char* only_read : {"state[0]", "state[1]"}) operands[only_read].rules.clear();
    ops.push_back({"raise_scales", operands, [step_of](Backend& b, Tensors x) {
                     x["parameters"] = x["copy"] = Tensor();
                     b.run(RaiseScales{step_of(std::move(x))});
                   }});
  }
  ops.push_back({"sum_squares_by_dim",
                 {{"x", {float32, {T, C}}},
                  {"rows", {DType::float64, {T}, "written, optional"}},
                  {"columns", {DType::float64, {C}, "written, optional"}}},
                 [](Backend& b, Tensors x) {
                   b.run(SumSquaresByDim{.x = x["x"], .scale = 1.0, .rows = x["rows"], .columns = x["columns"]});
                 }});
  ops.push_back(
      {"update_factors",
       {{"moment", {float32, {N}, "written"}}, {"sums", {DType::float64, {N}}}, {"factors", {float32, {N}, "written"}}},
       [](Backend& b, Tensors x) {
         b.run(MomentFactors{.moment = x["moment"],
                             .sums = x["sums"],
                             .factors = x["factors"],
                             .count = 1,
                             .beta2 = 0.9,
                             .epsilon = 1e-30,
                             .by_mean = false});
       }});
  for (const bool only_squares : {false, true}) {
    std::map<std::string, Operand> operands = {{"gradients", {float32, {T, C}}},
                                               {"row_factors", {float32, {T}, "optional"}},
                                               {"column_factors", {float32, {C}}},
                                               {"squares", {DType::float64, {1}, only_squares ? "written" : ""}}};
    if (!only_squares) {
      operands["parameters"] = {float32, {T, C}, "written"};
      operands["copy"] = {bf16, {T, C}, "written, optional"};
    }
    ops.push_back(
        {only_squares ? "add_direction_squares" : "update_factored", operands, [only_squares](Backend& b, Tensors x) {
           const FactoredUpdate step{.parameters = x["parameters"],
                                     .gradients = x["gradients"],
                                     .row_factors = x["row_factors"],
                                     .column_factors = x["column_factors"],
                                     .squares = x["squares"],
                                     .copy = x["copy"],
                                     .learning_rate = 1e-3,
                                     .weight_decay = 0.0,
                                     .clip_threshold = 1.0,
                                     .num_elements = T * C};
           only_squares ? b.run(AddDirectionSquares{step}) : b.run(UpdateFactored{step});
         }});
  }
}

}  // namespace

std::vector<Op> all_ops() {
  std::vector<Op> ops;
  add_ops_of_decoder(ops);
  add_ops_of_experts(ops);
  add_ops_of_optimizers(ops);
  return ops;
}

}  // namespace sft::ops::checked
