// SPDX-License-Identifier: Apache-2.0
// What the real cuDNN says of this program's graphs for an H200 that is not there: which it supports, what they work
// with, and that they can be stored. Numbers and speed it does not say.

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/cuda/cudnn/absent_gpu.hpp"
#include "ops/cuda/cudnn/graph.hpp"
#include "ops/cuda/cudnn/graph_set.hpp"
#include "ops/cuda/cudnn/working_memory.hpp"

namespace sft::ops::cuda::cudnn {

namespace {

const AbsentGpu an_h200{.compute_capability = 90,
                        .multiprocessors = 132,
                        .memory_bytes = 150'000'000'000,
                        .driver_file = SFT_ABSENT_DRIVER};

PlannedGpu planned(const AbsentGpu& gpu) {
  return {.properties = properties_of(gpu),
          .compute_capability = gpu.compute_capability,
          .multiprocessors = gpu.multiprocessors};
}

Library& library() {
  static Library the_library = [] {
    load_absent_driver(an_h200);
    return Library(planned(an_h200));
  }();
  return the_library;
}

/// Heads as models have them, in a fused product.
struct Heads {
  const char* of;
  std::int64_t num, num_kv, dim;
  [[nodiscard]] std::int64_t fused() const { return (num + 2 * num_kv) * dim; }
};
constexpr Heads llama{"Llama 3.1 8B", 32, 8, 128}, small{"Qwen 2.5 0.5B", 14, 2, 64}, wide{"Gemma 2 9B", 16, 8, 256},
    without_groups{"Llama 2 7B", 32, 32, 128}, odd{"Phi 2", 32, 32, 80}, of_one_rank{"of 70B at tp 8", 8, 1, 128},
    mistral{"Mistral 7B", 32, 8, 128}, gemma{"Gemma 3 4B", 8, 4, 256}, olmo{"OLMo 3 7B", 32, 32, 128};

GraphShape shape_of(const Heads& heads, std::int64_t documents, std::int64_t longest, std::int64_t tokens) {
  GraphShape shape{.documents = documents,
                   .longest = longest,
                   .q_heads = heads.num,
                   .kv_heads = heads.num_kv,
                   .head_dim = heads.dim,
                   .scale = 0.1F,
                   .q_row = heads.fused(),
                   .k_row = heads.fused(),
                   .v_row = heads.fused(),
                   .out_row = heads.num * heads.dim};
  if (tokens == 0) return shape;
  shape.dout_row = heads.num * heads.dim;
  shape.dq_row = heads.fused();
  shape.dk_row = shape.dv_row = heads.num_kv * heads.dim;
  shape.tokens = tokens;
  return shape;
}

/// Bytes that the graph works with, held against what is planned for it, in a line of the table.
void check_graph(const Heads& heads, const GraphShape& shape, std::size_t planned_bytes) {
  const std::string beside = shape.is_rectangle() ? fmt::format("x {}", shape.longest_keys)
                             : shape.window > 0   ? fmt::format("window {}", shape.window)
                                                  : "";
  const std::string what =
      fmt::format("{:<14} {:>2}/{:<2} x {:<3} {:<8} {:>5} documents of {:>7} {:<12}{:<8}", heads.of, heads.num,
                  heads.num_kv, heads.dim, shape.is_backward() ? "backward" : "forward", shape.documents, shape.longest,
                  beside, shape.float32_out ? "float32" : "");
  try {
    const Graph graph(library(), shape);
    const std::size_t bytes = graph.workspace_bytes(), stored = graph.serialize().size();
    fmt::print("{}: {:>12} bytes of {:>12} planned, stored in {}\n", what, bytes, planned_bytes, stored);
    BOOST_TEST(bytes <= planned_bytes, what);
    BOOST_TEST(stored > 50'000U, what);
    // No tenth more than it takes, but for the room of the counters.
    if (shape.is_backward()) BOOST_TEST(static_cast<double>(planned_bytes) <= 1.1 * static_cast<double>(bytes), what);
  } catch (const Refusal& refusal) {
    BOOST_ERROR(what + ": " + refusal.what());
  }
}

std::size_t planned(const GraphShape& s) {
  return s.is_backward() ? backward_bytes(s.tokens, s.q_heads, s.kv_heads, s.head_dim, s.dq_row) : forward_bytes;
}

void check_shape(const Heads& heads, std::int64_t documents, std::int64_t longest, std::int64_t tokens,
                 std::int64_t window = 0) {
  GraphShape shape = shape_of(heads, documents, longest, tokens);
  shape.window = window;
  check_graph(heads, shape, planned(shape));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cudnn_support)

BOOST_AUTO_TEST_CASE(forward) {
  check_shape(llama, 16, 4096, 0);
  check_shape(llama, 1, std::int64_t{1} << 20, 0);
  for (const Heads& heads : {small, wide, without_groups, odd, of_one_rank}) check_shape(heads, 16, 4096, 0);
}

BOOST_AUTO_TEST_CASE(backward) {
  if (!repeats_backward(version().number)) {
    BOOST_TEST_MESSAGE("cuDNN " << version().number << ": no backward pass that repeats its bits");
    // What it would work with instead grows with the square of the documents: it is not to be asked for.
    const GraphShape shape = shape_of(llama, 1, 8192, 8192);
    BOOST_TEST(Graph(library(), shape).workspace_bytes() > 4 * planned(shape));
    return;
  }
  check_shape(llama, 16, 4096, 8192);
  check_shape(llama, 1, 65'536, 65'536);
  check_shape(llama, 64, 4096, 8192);  // as spread as Documents lets them be
  for (const Heads& heads : {small, wide, without_groups, odd, of_one_rank}) check_shape(heads, 16, 4096, 8192);
}

BOOST_AUTO_TEST_CASE(windows) {
  for (const std::int64_t tokens : {0, 8192}) {
    if (tokens > 0 && !repeats_backward(version().number)) continue;
    for (const Heads& heads : {mistral, gemma, olmo, small, odd, of_one_rank}) {
      check_shape(heads, 16, 4096, tokens, 1024);
    }
    check_shape(mistral, 1, 8192, tokens, 4096);
    // Of one token, of no round number, and a row short of the longest document.
    for (const std::int64_t window : {1, 77, 4095}) check_shape(mistral, 16, 4096, tokens, window);
  }
}

// The first round of a ring.
BOOST_AUTO_TEST_CASE(float32_results) {
  BOOST_TEST_REQUIRE(has_float32_results(version().number));
  const auto check = [](const Heads& heads, std::int64_t documents, std::int64_t longest, std::int64_t window) {
    GraphShape shape = shape_of(heads, documents, longest, 0);
    shape.float32_out = true;
    shape.window = window;
    check_graph(heads, shape, planned(shape));
  };
  for (const Heads& heads : {llama, small, wide, without_groups, odd, of_one_rank}) check(heads, 16, 4096, 0);
  check(llama, 2, std::int64_t{1} << 20, 0);
  for (const Heads& heads : {mistral, gemma, olmo}) check(heads, 16, 4096, 1024);
}

// What other ranks of a ring have: every query of a piece sees all keys.
BOOST_AUTO_TEST_CASE(rectangles) {
  BOOST_TEST_REQUIRE(has_float32_results(version().number));
  const auto check = [](const Heads& heads, std::int64_t keys) {
    GraphShape shape = shape_of(heads, 1, 4096, 0);
    shape.float32_out = true;
    shape.longest_keys = keys;
    check_graph(heads, shape, planned(shape));
    shape.k_row = shape.v_row = 2 * heads.num_kv * heads.dim;  // keys that came from another rank
    check_graph(heads, shape, planned(shape));
  };
  for (const Heads& heads : {llama, small, wide, without_groups, odd, of_one_rank}) check(heads, 65'536);
  check(llama, 128);
  check(llama, std::int64_t{1} << 20);
}

// By offsets of every tensor of its own, and of rows that differ: gradients beside one another, as ulysses has them.
BOOST_AUTO_TEST_CASE(other_rows) {
  GraphShape shape = shape_of(llama, 4, 2048, 0);
  shape.q_row += 1024;
  shape.k_row = 2048;
  shape.out_row += 8;
  check_graph(llama, shape, planned(shape));
}

// By two threads, each with a library of its own, as by one; and from the store the next time.
BOOST_AUTO_TEST_CASE(threads_compile_at_a_time) {
  std::vector<GraphShape> shapes;
  for (std::int64_t documents = 1; documents <= 8; documents *= 2) {
    shapes.push_back(shape_of(llama, documents, 4096, 0));
    if (repeats_backward(version().number)) shapes.push_back(shape_of(llama, documents, 4096, 8192));
  }
  const auto compile = [&](int num_threads) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    std::vector<CompiledGraph> graphs = compile_graphs(
        shapes, library(), [] { return std::make_unique<Library>(planned(an_h200)); }, num_threads);
    fmt::print("{} graphs by {} threads in {:.1f} s\n", shapes.size(), num_threads,
               std::chrono::duration<double>(Clock::now() - start).count());
    return graphs;
  };
  const std::filesystem::path cache =
      std::filesystem::temp_directory_path() / fmt::format("sft-cudnn-support-{}", ::getpid());
  const auto empty_store = [&] {
    std::filesystem::remove_all(cache);
    setenv("XDG_CACHE_HOME", cache.c_str(), 1);
  };
  empty_store();
  const std::vector<CompiledGraph> one = compile(1);
  empty_store();
  const std::vector<CompiledGraph> two = compile(2), stored = compile(2);
  std::filesystem::remove_all(cache);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    BOOST_TEST(one[i].problem == "");
    BOOST_TEST(two[i].problem == "");
    BOOST_TEST(one[i].bytes.size() > 50'000U);
    BOOST_TEST(two[i].bytes.size() == one[i].bytes.size());
    BOOST_TEST(!two[i].was_stored);
    BOOST_TEST(stored[i].was_stored);
    BOOST_TEST((stored[i].bytes == two[i].bytes));
    BOOST_TEST(Graph(library(), shapes[i], stored[i].bytes).workspace_bytes() <= planned(shapes[i]));
  }
}

/// `text` with another number behind `key`.
std::string with_number(const std::string& text, const std::string& key, long number) {
  const std::size_t begin = text.find("\"" + key + "\": ");
  BOOST_TEST_REQUIRE(begin != std::string::npos, key);
  const std::size_t end = text.find_first_of(",}", begin);
  return text.substr(0, begin) + fmt::format("\"{}\": {}", key, number) + text.substr(end);
}

/// Machine code of a stored graph, as text.
std::vector<std::string> code_of(const std::vector<std::uint8_t>& graph) {
  const std::string text(graph.begin(), graph.end()), key = "\"cubin\":\"";
  std::vector<std::string> all;
  for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at)) {
    const std::size_t begin = at + key.size();
    at = text.find('"', begin);
    all.push_back(text.substr(begin, at - begin));
  }
  return all;
}

// A run finds a graph by versions, compute capability and multiprocessors. Other clocks and memory than those it was
// compiled with do not change its code. (The library refuses to load it where some of these differ: which is open.)
BOOST_AUTO_TEST_CASE(code_does_not_depend_on_clocks_and_memory) {
  std::vector<GraphShape> shapes = {shape_of(llama, 4, 4096, 0)};
  if (repeats_backward(version().number)) shapes.push_back(shape_of(llama, 4, 4096, 8192));
  (void)library();
  const PlannedGpu gpu = planned(an_h200);
  PlannedGpu other = gpu;
  for (const auto& [key, number] : {std::pair("totalGlobalMem", 80'000'000'000L),
                                    {"smClockRateKHz", 1'000'000L},
                                    {"memClockRateKHz", 2'000'000L},
                                    {"l2CacheSize", 52'428'800L},
                                    {"driverVer", 12'080L},
                                    {"memoryBusWidth", 6144L},
                                    {"pciDeviceId", 9L}}) {
    other.properties = with_number(other.properties, key, number);
  }
  Library ours(gpu), theirs(other);
  for (const GraphShape& shape : shapes) {
    const Graph graph(ours, shape);
    const std::vector<std::uint8_t> stored = graph.serialize();
    BOOST_TEST(!code_of(stored).empty());
    BOOST_TEST((code_of(Graph(theirs, shape).serialize()) == code_of(stored)));
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_for_it_is_refused) {
  GraphShape shape = shape_of(llama, 4, 2048, 0);
  shape.q_row += 1;  // not a multiple of 16 bytes
  BOOST_CHECK_THROW(Graph(library(), shape), Refusal);
  shape = shape_of({"none", 7, 2, 64}, 4, 2048, 0);
  BOOST_CHECK_THROW(Graph(library(), shape), Refusal);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::cuda::cudnn
