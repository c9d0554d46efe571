// SPDX-License-Identifier: Apache-2.0
// Attention through cuDNN against the CPU's: the emulated library computes what the descriptors of the graph say, so
// that strides, offsets, masks and scales that are wrong show in the numbers, and waits that are missing as races.

#include <cuda_runtime.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "cudnn/compilations.hpp"
#include "emulation/cudnn/layer.hpp"
#include "ops/cuda/cudnn/graph.hpp"
#include "ops/cuda/cudnn/graph_set.hpp"
#include "runtime/stream_queue.hpp"

namespace sft::ops::testing {

namespace {

namespace fs = std::filesystem;

BOOST_TEST_GLOBAL_FIXTURE(CudnnTest);

/// Kernels, uploads among them, that `run` launches.
template <class F>
long launches_of(F run) {
  const long before = emulation::host_counts().launches;
  run();
  return emulation::host_counts().launches - before;
}

std::size_t num_stored() {
  const fs::path folder = CudnnTest::cache() / "sft/attention";
  if (!fs::exists(folder)) return 0;
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

/// Of two query heads and one of keys, fused in a row.
cuda::cudnn::GraphShape forward_shape(std::int64_t documents) {
  return {.documents = documents,
          .longest = 128,
          .q_heads = 2,
          .kv_heads = 1,
          .head_dim = 64,
          .scale = 0.125F,
          .q_row = 256,
          .k_row = 256,
          .v_row = 256,
          .out_row = 128};
}

/// A backend of its own over the emulated GPU, which compiles its own graphs.
class OwnBackend {
 public:
  /// With working memory for such calls of the library.
  explicit OwnBackend(AttentionKernels kernels,
                      const AttentionNeeds::Library& calls = {
                          .tokens = 512, .q_heads = 8, .kv_heads = 8, .head_dim = 64, .has_backward = true}) {
    const Shapes shapes{
        .tokens = 512, .hidden = 512, .q_heads = 8, .kv_heads = 8, .head_dim = 64, .mlp = 64, .vocab = 64};
    AttentionNeeds needs;
    needs.library = calls;
    const std::size_t bytes = workspace_bytes(device::Kind::cuda, 1, shapes, needs);
    workspace_ = device_->allocate(bytes);
    backend_ = make_backend(*device_, *stream_, kernels);
    backend_->set_workspace(Tensor(workspace_.get(), DType::bf16, {static_cast<std::int64_t>(bytes / 2)}));
  }
  ~OwnBackend() { stream_->synchronize(); }
  OwnBackend(const OwnBackend&) = delete;
  OwnBackend& operator=(const OwnBackend&) = delete;
  Backend& operator*() { return *backend_; }

  /// The memory of the twins after op: see run_on_gpu.
  template <class Op>
  std::vector<std::vector<std::byte>> run(const std::vector<Operand>& operands, Op op) {
    return run_on_gpu(operands, [&](Backend& others, auto of) {
      others.stream().synchronize();
      op(*backend_, of);
      stream_->synchronize();
    });
  }

 private:
  std::unique_ptr<device::Device> device_ = device::make_device(device::Kind::cuda);
  std::unique_ptr<device::Stream> stream_ = device_->make_stream();
  device::Device::Block workspace_;
  std::unique_ptr<Backend> backend_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(cudnn)

// Else attention_test.cpp compares the kernels of this program with themselves.
BOOST_AUTO_TEST_CASE(is_what_runs) {
  Layer layer({4, 2, 64}, 96, 1);
  const auto gpu = [](const Twin& twin) { return twin.gpu(); };
  (void)run_on_gpu(operands_of(layer, true), [&](Backend& backend, auto) {
    for (const std::int64_t window : {0, 7, 50}) {
      const auto plan = backend.plan_attention(documents_of({50, 46}, 0, window), 96, 96);
      layer.forward(backend, gpu, *plan);  // uploads the offsets
      BOOST_TEST(launches_of([&] { layer.forward(backend, gpu, *plan); }) == 0, window);
      layer.backward(backend, gpu, *plan);
      constexpr long delta = 1, copies_of_dk_and_dv = 2;
      BOOST_TEST(launches_of([&] { layer.backward(backend, gpu, *plan); }) == delta + copies_of_dk_and_dv, window);
    }
  });
}

// What cuDNN is not asked for has the bits of this program's own kernels.
BOOST_AUTO_TEST_CASE(leaves_the_rest_to_the_kernels) {
  OwnBackend own(AttentionKernels::own), library(AttentionKernels::cudnn);
  Layer layer({4, 2, 64}, 96, 5);
  const Twin sinks = Twin(DType::float32, {4}).normal(9);
  const auto same = [&](const std::string& what, const Spans& spans, auto change, bool is_backward) {
    const auto op = [&](Backend& backend, auto of) {
      const auto plan = backend.plan_attention(spans, layer.tokens, layer.tokens);
      const Tensor fused = of(layer.qkv);
      AttentionForward call{.q = layer.q(fused),
                            .k = layer.k(fused),
                            .v = layer.v(fused),
                            .out = of(layer.out),
                            .lse = of(layer.lse),
                            .scale = layer.scale,
                            .plan = *plan};
      change(call);
      backend.run(call);
      if (is_backward) layer.backward(backend, of, *plan);
    };
    BOOST_TEST((own.run(operands_of(layer, true), op) == library.run(operands_of(layer, true), op)), what);
  };
  const auto nothing = [](AttentionForward&) {};
  const Spans plain = documents_of({50, 46});
  same("a rectangle", {{0, 48, 48, 48, 48, 0}}, nothing, true);
  same("rows of none between documents", {{0, 20, 0, 20, 0, 0}, {30, 20, 30, 20, 0, 1}}, nothing, true);
  same(
      "a cap", plain, [](AttentionForward& call) { call.softcap = 5.0F; }, false);
  same(
      "sinks", plain, [&](AttentionForward& call) { call.sinks = sinks.gpu(); }, false);
}

// Where a library does without windows alone.
BOOST_AUTO_TEST_CASE(leaves_refused_windows_to_the_kernels) {
  setenv("SFT_EMULATED_CUDNN_REFUSES", "windows", 1);
  OwnBackend own(AttentionKernels::own), library(AttentionKernels::cudnn);
  Layer layer({4, 2, 64}, 96, 11);
  const auto results_of = [&](OwnBackend& backend, std::int64_t window) {
    return backend.run(operands_of(layer, true), [&](Backend& b, auto of) {
      const auto plan = b.plan_attention(documents_of({50, 46}, 0, window), layer.tokens, layer.tokens);
      layer.forward(b, of, *plan);
      layer.backward(b, of, *plan);
    });
  };
  BOOST_TEST((results_of(own, 7) == results_of(library, 7)));
  BOOST_TEST((*library).library_calls().forward == 0);
  // One that hides no key is none.
  (void)results_of(library, 50);
  BOOST_TEST((*library).library_calls().forward == 1);
  BOOST_TEST((*library).library_calls().backward == 1);
  unsetenv("SFT_EMULATED_CUDNN_REFUSES");
}

// Without the output (ulysses), or from a version whose backward pass does not repeat its bits.
BOOST_AUTO_TEST_CASE(leaves_a_backward_pass_to_the_kernels) {
  Layer layer({4, 2, 64}, 96, 6);
  const Spans spans = documents_of({50, 46});
  const auto backward = [&](Backend& backend, auto of, bool has_output) {
    const auto plan = backend.plan_attention(spans, layer.tokens, layer.tokens);
    const Tensor fused = of(layer.qkv), gradient = of(layer.dqkv);
    layer.forward(backend, of, *plan);
    backend.run(AttentionDelta{of(layer.delta), of(layer.out), of(layer.dout)});
    AttentionBackward call{.q = layer.q(fused),
                           .k = layer.k(fused),
                           .v = layer.v(fused),
                           .dout = of(layer.dout),
                           .lse = of(layer.lse),
                           .delta = of(layer.delta),
                           .dq = layer.q(gradient),
                           .dk = layer.k(gradient),
                           .dv = layer.v(gradient),
                           .scale = layer.scale,
                           .plan = *plan};
    if (has_output) call.out = of(layer.out);
    return launches_of([&] { backend.run(call); });
  };
  OwnBackend library(AttentionKernels::cudnn);
  long with_output = 0, without = 0, of_old_version = 0, of_old_version_unordered = 0;
  (void)library.run(operands_of(layer, true), [&](Backend& b, auto of) { with_output = backward(b, of, true); });
  (void)library.run(operands_of(layer, true), [&](Backend& b, auto of) { without = backward(b, of, false); });
  setenv("SFT_EMULATED_CUDNN", "91900", 1);
  BOOST_TEST(!find_attention_library().has_backward);
  BOOST_TEST(find_attention_library().name == "cuDNN 9.19.0");
  {
    OwnBackend old(AttentionKernels::cudnn);
    (void)old.run(operands_of(layer, true), [&](Backend& b, auto of) { of_old_version = backward(b, of, true); });
    OwnBackend unordered(AttentionKernels::cudnn_unordered);
    (void)unordered.run(operands_of(layer, true),
                        [&](Backend& b, auto of) { of_old_version_unordered = backward(b, of, true); });
  }
  unsetenv("SFT_EMULATED_CUDNN");
  OwnBackend own(AttentionKernels::own);
  long of_kernels = 0;
  (void)own.run(operands_of(layer, true), [&](Backend& b, auto of) { of_kernels = backward(b, of, true); });
  BOOST_TEST(with_output != of_kernels);
  BOOST_TEST(without == of_kernels);
  BOOST_TEST(of_old_version == of_kernels);
  BOOST_TEST(of_old_version_unordered == with_output);
}

// Of heads whose backward pass takes memory that grows with the documents: with many of them, of which one is long.
BOOST_AUTO_TEST_CASE(leaves_a_backward_pass_without_bound_to_the_kernels) {
  std::vector<std::int64_t> lengths(31, 2);
  lengths.push_back(246);
  const Spans spans = documents_of(lengths);
  for (const std::int64_t dim : {24, 48}) {
    Layer layer({4, 2, dim}, 308, 17);
    for (const AttentionKernels kernels : {AttentionKernels::cudnn, AttentionKernels::cudnn_unordered}) {
      OwnBackend library(kernels);
      (void)library.run(operands_of(layer, true), [&](Backend& backend, auto of) {
        const auto plan = backend.plan_attention(spans, layer.tokens, layer.tokens);
        layer.forward(backend, of, *plan);
        layer.backward(backend, of, *plan);
      });
      BOOST_TEST((*library).library_calls().forward == 1, dim);
      BOOST_TEST((*library).library_calls().backward == (dim == 48 ? 1 : 0), dim);
    }
  }
}

// Gradients that are not asked for in one order do not repeat their bits, those that are do.
BOOST_AUTO_TEST_CASE(sums_in_any_order_differ_from_time_to_time) {
  Layer layer({8, 2, 64}, 192, 31);
  const Spans spans = documents_of({150, 42});
  for (const AttentionKernels kernels : {AttentionKernels::cudnn, AttentionKernels::cudnn_unordered}) {
    OwnBackend library(kernels);
    const auto gradients = [&] {
      return library.run(operands_of(layer, true), [&](Backend& backend, auto of) {
        const auto plan = backend.plan_attention(spans, layer.tokens, layer.tokens);
        layer.forward(backend, of, *plan);
        layer.backward(backend, of, *plan);
      });
    };
    const auto first = gradients();
    bool repeats = true;
    for (int i = 0; i < 3; ++i) repeats = gradients() == first && repeats;
    BOOST_TEST((*library).library_calls().backward == 4);
    BOOST_TEST(repeats == (kernels == AttentionKernels::cudnn));
  }
}

// Where a result is not float32, or cuDNN is older than 9.19, or a rank has no document, nothing is left to merge with.
BOOST_AUTO_TEST_CASE(a_ring_needs_float32_results) {
  const auto calls_of = [](const Spans& spans, DType dtype) {
    Layer layer({4, 2, 16}, 64, 21);
    Twin result(dtype, {64, 4, 16});
    std::int64_t calls = 0;
    std::vector<Operand> operands = operands_of(layer, false);
    operands.push_back(out(result));
    (void)run_on_gpu(operands, [&](Backend& backend, auto of) {
      const auto plan = backend.plan_attention(spans, 64, 64);
      const std::int64_t before = backend.library_calls().forward;
      const Tensor fused = of(layer.qkv);
      backend.run(AttentionForward{.q = layer.q(fused),
                                   .k = layer.k(fused),
                                   .v = layer.v(fused),
                                   .out = of(result),
                                   .lse = of(layer.lse),
                                   .scale = layer.scale,
                                   .plan = *plan});
      calls = backend.library_calls().forward - before;
    });
    return calls;
  };
  const Spans squares = documents_of({40, 24});
  Spans with_rest = squares;
  with_rest.push_back({40, 24, 0, 40, 40, 1});
  BOOST_TEST(calls_of(squares, DType::float32) == 1);
  BOOST_TEST(calls_of(with_rest, DType::float32) == 1);
  BOOST_TEST(calls_of(with_rest, DType::bf16) == 0);
  BOOST_TEST(calls_of({{0, 40, 0, 40, 0, 0}, {40, 24, 0, 40, 40, 0}}, DType::float32) == 0);  // rows of no square
  setenv("SFT_EMULATED_CUDNN", "91800", 1);
  BOOST_TEST(!find_attention_library().has_float32_results);
  BOOST_TEST(calls_of(squares, DType::float32) == 0);
  BOOST_TEST(calls_of(squares, DType::bf16) == 1);
  unsetenv("SFT_EMULATED_CUDNN");
  BOOST_TEST(find_attention_library().has_float32_results);
}

BOOST_AUTO_TEST_CASE(needs_its_working_memory) {
  Layer layer({8, 2, 64}, 500, 7);
  const Spans spans = documents_of({500});
  OwnBackend own(AttentionKernels::own),
      poor(AttentionKernels::cudnn, {.tokens = 1, .q_heads = 8, .kv_heads = 8, .head_dim = 64, .has_backward = true});
  const auto op = [&](Backend& backend, auto of) {
    const auto plan = backend.plan_attention(spans, layer.tokens, layer.tokens);
    layer.forward(backend, of, *plan);
  };
  (void)poor.run(operands_of(layer, false), op);
  const auto both = [&](Backend& backend, auto of) {
    const auto plan = backend.plan_attention(spans, layer.tokens, layer.tokens);
    layer.backward(backend, of, *plan);
  };
  BOOST_TEST((own.run(operands_of(layer, true), both) == poor.run(operands_of(layer, true), both)));
}

// Of ranks that exchange heads: with no room for gradients of queries in rows of a fused product.
BOOST_AUTO_TEST_CASE(exchanged_heads_do_with_the_memory_that_is_planned) {
  constexpr std::int64_t tokens = 512, heads = 8, dim = 64;
  for (const DType dtype : {DType::bf16, DType::float32}) {
    OwnBackend library(AttentionKernels::cudnn, {.tokens = tokens,
                                                 .q_heads = heads,
                                                 .kv_heads = heads,
                                                 .head_dim = dim,
                                                 .dq_row = heads * dim,
                                                 .has_backward = true});
    Layer layer({heads, heads, dim}, tokens, 41);
    Twin dq(DType::bf16, {tokens, heads, dim}), dkv(dtype, {tokens, 2 * heads, dim});
    std::vector<Operand> operands = operands_of(layer, true);
    operands.insert(operands.end(), {out(dq), out(dkv)});
    (void)library.run(operands, [&](Backend& backend, auto of) {
      const auto plan = backend.plan_attention(documents_of({tokens}), tokens, tokens);
      const Tensor fused = of(layer.qkv), keys = of(dkv);
      layer.forward(backend, of, *plan);
      backend.run(AttentionDelta{of(layer.delta), of(layer.out), of(layer.dout)});
      backend.run(AttentionBackward{.q = layer.q(fused),
                                    .k = layer.k(fused),
                                    .v = layer.v(fused),
                                    .dout = of(layer.dout),
                                    .lse = of(layer.lse),
                                    .delta = of(layer.delta),
                                    .dq = of(dq),
                                    .dk = heads_of(keys, 0, heads),
                                    .dv = heads_of(keys, heads, heads),
                                    .scale = layer.scale,
                                    .plan = *plan,
                                    .out = of(layer.out)});
    });
    BOOST_TEST((*library).library_calls().backward == 1, text_of(dtype));
  }
}

// Without a backward pass, whose memory would do for results that wait to be merged.
BOOST_AUTO_TEST_CASE(merges_in_the_memory_that_is_planned) {
  constexpr std::int64_t tokens = 512;
  OwnBackend library(AttentionKernels::cudnn,
                     {.tokens = tokens, .q_heads = 8, .kv_heads = 8, .head_dim = 64, .merges = true});
  Layer layer({8, 8, 64}, tokens, 31);
  Twin result(DType::float32, {tokens, 8, 64});
  std::vector<Operand> operands = operands_of(layer, false);
  operands.push_back(out(result));
  std::int64_t calls = 0;
  (void)library.run(operands, [&](Backend& backend, auto of) {
    for (const bool merges : {false, true}) {
      const Spans seen = merges ? Spans{{0, tokens, 0, tokens, tokens - 1, 0}} : documents_of({tokens});
      const auto plan = backend.plan_attention(seen, tokens, tokens);
      const Tensor fused = of(layer.qkv);
      backend.run(AttentionForward{.q = layer.q(fused),
                                   .k = layer.k(fused),
                                   .v = layer.v(fused),
                                   .out = of(result),
                                   .lse = of(layer.lse),
                                   .scale = layer.scale,
                                   .plan = *plan,
                                   .merge = merges});
    }
    calls = backend.library_calls().forward;
  });
  BOOST_TEST(calls == 2);
}

BOOST_AUTO_TEST_CASE(keeps_compiled_graphs) {
  Layer layer({2, 1, 16}, 64, 8);
  const Spans spans = documents_of({33, 31});
  const auto op = [&](Backend& backend, auto of) {
    const auto plan = backend.plan_attention(spans, layer.tokens, layer.tokens);
    layer.forward(backend, of, *plan);
    layer.backward(backend, of, *plan);
  };
  const auto run_anew = [&] {
    OwnBackend library(AttentionKernels::cudnn);
    return library.run(operands_of(layer, true), op);
  };
  const std::size_t before = num_stored();
  const auto compiled = run_anew();
  BOOST_TEST(num_stored() == before + 2);  // forward and backward
  const long num_compiled = emulation::cudnn_compilations();
  BOOST_TEST((run_anew() == compiled));
  BOOST_TEST(emulation::cudnn_compilations() == num_compiled);
  BOOST_TEST(num_stored() == before + 2);
  for (const auto& file : fs::directory_iterator(CudnnTest::cache() / "sft/attention")) {
    std::ofstream(file.path(), std::ios::trunc) << "damaged";
  }
  BOOST_TEST((run_anew() == compiled));
  BOOST_TEST(emulation::cudnn_compilations() == num_compiled + 2);
}

// The first call compiles for all documents that are expected, by threads of its own; later ones compile nothing.
BOOST_AUTO_TEST_CASE(compiles_for_the_documents_to_come) {
  const std::vector<Spans> coming = {documents_of({60, 4}), documents_of({64}), documents_of({16, 16, 16, 16}),
                                     documents_of({60, 4}, 0, 30), documents_of({63, 1})};
  constexpr std::size_t num_different = 4;
  Layer layer({2, 1, 32}, 64, 31);
  const auto run_all = [&](OwnBackend& library, bool expects) {
    std::vector<std::size_t> stored;
    for (const Spans& spans : coming) {
      (void)library.run(operands_of(layer, true), [&](Backend& backend, auto of) {
        for (const Spans& other : coming) {
          if (expects) backend.expect_attention(other, layer.tokens, layer.tokens);
        }
        const auto plan = backend.plan_attention(spans, layer.tokens, layer.tokens);
        layer.forward(backend, of, *plan);
        layer.backward(backend, of, *plan);
      });
      stored.push_back(num_stored());
    }
    return stored;
  };
  const std::size_t before = num_stored();
  {
    OwnBackend library(AttentionKernels::cudnn);
    const std::vector<std::size_t> stored = run_all(library, true);
    BOOST_TEST(stored.front() == before + 2 * num_different);
    BOOST_TEST(stored.back() == stored.front());
  }
  fs::remove_all(CudnnTest::cache());
  {
    OwnBackend library(AttentionKernels::cudnn);
    const std::vector<std::size_t> stored = run_all(library, false);
    BOOST_TEST(stored.front() == 2U);
    BOOST_TEST(stored.back() == 2 * num_different);
  }
}

// What many threads compile is what one does, and none of it is lost where there is no folder to keep it in.
BOOST_AUTO_TEST_CASE(threads_compile_what_one_does) {
  using namespace cuda::cudnn;
  std::vector<GraphShape> shapes;
  for (std::int64_t documents = 1; documents <= 32; documents *= 2) {
    shapes.push_back(forward_shape(documents));
  }
  shapes[3].q_row += 1;  // refused: not a multiple of 16 bytes
  fs::remove_all(CudnnTest::cache());
  std::ofstream(CudnnTest::cache()) << "no folder";
  Library library(nullptr);
  const OpenLibrary open = [] {
    (void)cudaSetDevice(0);
    return std::make_unique<Library>(nullptr);
  };
  const std::vector<CompiledGraph> one = compile_graphs(shapes, library, open, 1);
  const std::vector<CompiledGraph> many = compile_graphs(shapes, library, open, 4);
  fs::remove_all(CudnnTest::cache());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    BOOST_TEST(one[i].bytes.empty() == (i == 3));
    BOOST_TEST(many[i].bytes.empty() == (i == 3));
    BOOST_TEST(!one[i].was_stored);
    BOOST_TEST(!many[i].was_stored);
    BOOST_TEST(many[i].problem.empty() == (i != 3));
  }
  (void)compile_graphs(shapes, library, open, 4);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    BOOST_TEST(compile_graphs(shapes, library, open, 2)[i].was_stored == (i != 3));
  }
}

// A graph of an earlier run is taken as it is: what it is of has to be in its name.
BOOST_AUTO_TEST_CASE(names_tell_shapes_apart) {
  using cuda::cudnn::GraphShape;
  GraphShape base = forward_shape(1);
  base.dout_row = 128;
  base.dq_row = 256;
  base.dk_row = base.dv_row = 64;
  base.tokens = base.key_tokens = 256;
  std::vector<std::string> names = {base.name()};
  for (auto member :
       {&GraphShape::documents, &GraphShape::longest, &GraphShape::q_heads, &GraphShape::kv_heads,
        &GraphShape::head_dim, &GraphShape::window, &GraphShape::q_row, &GraphShape::k_row, &GraphShape::v_row,
        &GraphShape::out_row, &GraphShape::dout_row, &GraphShape::dq_row, &GraphShape::dk_row, &GraphShape::dv_row,
        &GraphShape::tokens, &GraphShape::key_tokens, &GraphShape::longest_keys}) {
    GraphShape other = base;
    other.*member += 8;
    names.push_back(other.name());
  }
  GraphShape other = base;
  other.scale = 0.25F;
  names.push_back(other.name());
  other = base;
  other.float32_out = true;
  names.push_back(other.name());
  other = base;
  other.longest_keys = 8;
  other.is_tail = true;
  names.push_back(other.name());
  other = base;
  other.tokens = 0;
  names.push_back(other.name());
  std::ranges::sort(names);
  BOOST_TEST((std::ranges::adjacent_find(names) == names.end()));
}

BOOST_AUTO_TEST_CASE(is_refused_where_it_is_too_old) {
  setenv("SFT_EMULATED_CUDNN", "90300", 1);
  const std::string problem = find_attention_library().problem;
  unsetenv("SFT_EMULATED_CUDNN");
  BOOST_TEST(problem.find("cuDNN 9.3.0 that was found is older than cuDNN 9.18.0") != std::string::npos, problem);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
