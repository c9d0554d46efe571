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
#include <string_view>
#include <vector>

#include "ops/cuda/cudnn/absent_gpu.hpp"
#include "ops/cuda/cudnn/graph.hpp"
#include "ops/cuda/cudnn/graph_set.hpp"
#include "ops/cuda/cudnn/working_memory.hpp"
#include "sft/ops/shapes.hpp"

namespace sft::ops::cuda::cudnn {

namespace {

const AbsentGpu an_h200{.compute_capability = 90,
                        .multiprocessors = 132,
                        .memory_bus_bits = 6144,
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
    mistral{"Mistral 7B", 32, 8, 128}, gemma{"Gemma 3 4B", 8, 4, 256}, olmo{"OLMo 3 7B", 32, 32, 128},
    uneven{"Danube 3 4B", 32, 8, 120};  // no multiple of 16

/// Of these heads the first, or all where the program was asked for `every_head`: at night.
std::vector<Heads> tried(std::vector<Heads> heads) {
  const auto& suite = boost::unit_test::framework::master_test_suite();
  const bool every = suite.argc > 1 && std::string_view(suite.argv[1]) == "every_head";
  if (!every) heads.erase(heads.begin() + 1, heads.end());
  return heads;
}

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
  shape.tokens = shape.key_tokens = tokens;
  return shape;
}

/// Bytes that the graph works with, held against what is planned for it, in a line of the table.
void check_graph(const Heads& heads, const GraphShape& shape, std::size_t planned_bytes) {
  const std::string beside = shape.longest_keys > 0 ? fmt::format("x {}", shape.longest_keys)
                             : shape.window > 0     ? fmt::format("window {}", shape.window)
                                                    : "";
  const std::string what = fmt::format(
      "{:<14} {:>2}/{:<2} x {:<3} {:<8} {:>5} documents of {:>7} {:<12}{:<8}", heads.of, heads.num, heads.num_kv,
      heads.dim, shape.is_backward() ? "backward" : "forward", shape.documents, shape.longest, beside,
      !shape.in_order     ? "any order"
      : shape.float32_out ? "float32"
                          : "");
  try {
    const Graph graph(library(), shape);
    const std::size_t bytes = graph.workspace_bytes(), stored = graph.serialize().size();
    fmt::print("{}: {:>12} bytes of {:>12} planned, stored in {}\n", what, bytes, planned_bytes, stored);
    BOOST_TEST(bytes <= planned_bytes, what);
    BOOST_TEST(stored > 50'000U, what);
    // No tenth more than it takes, but for the room of the counters.
    if (shape.is_backward() && shape.in_order)
      BOOST_TEST(static_cast<double>(planned_bytes) <= 1.1 * static_cast<double>(bytes), what);
  } catch (const Refusal& refusal) {
    BOOST_ERROR(what + ": " + refusal.what());
  }
}

std::size_t planned(const GraphShape& s) {
  if (!s.is_backward()) return forward_bytes;
  return backward_bytes({.tokens = s.tokens,
                         .key_tokens = s.key_tokens,
                         .q_heads = s.q_heads,
                         .kv_heads = s.kv_heads,
                         .head_dim = s.head_dim,
                         .dq_row = s.dq_row});
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
  check_shape(uneven, 16, 4096, 0);
  for (const Heads& heads : tried({small, wide, without_groups, odd, of_one_rank})) check_shape(heads, 16, 4096, 0);
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
  for (const Heads& heads : tried({small, wide, without_groups, odd, of_one_rank})) check_shape(heads, 16, 4096, 8192);
}

// Which all versions have, with no more memory than the other one takes.
BOOST_AUTO_TEST_CASE(backward_in_any_order) {
  const auto check = [](const Heads& heads, std::int64_t documents, std::int64_t longest, std::int64_t tokens,
                        std::int64_t window = 0) {
    GraphShape shape = shape_of(heads, documents, longest, tokens);
    shape.in_order = false;
    shape.window = window;
    check_graph(heads, shape, planned(shape));
  };
  check(llama, 16, 4096, 8192);
  check(llama, 1, 65'536, 65'536);
  check(mistral, 16, 4096, 8192, 1024);
  for (const Heads& heads : tried({small, wide, without_groups, odd, of_one_rank})) check(heads, 16, 4096, 8192);
  GraphShape tail = shape_of(of_one_rank, 4, 4096, 8192);  // gathered keys
  tail.dq_row = tail.out_row;
  tail.k_row = tail.v_row = 2 * of_one_rank.dim;
  tail.longest_keys = 32'768;
  tail.key_tokens = 4 * 8192;
  tail.is_tail = true;
  tail.in_order = false;
  check_graph(of_one_rank, tail, planned(tail));
}

// Why such heads are not for it (ops::bounds_backward_of_library).
BOOST_AUTO_TEST_CASE(backward_of_heads_of_no_multiple_of_16_grows_with_documents) {
  constexpr std::int64_t longest = 4096;
  for (const std::int64_t dim : {8, 72, 120, 200}) {
    BOOST_TEST(!ops::bounds_backward_of_library(dim));
    const Heads heads{"any", 32, 8, dim};
    for (const std::int64_t documents : {1, 16, 64}) {
      GraphShape shape = shape_of(heads, documents, longest, 8192);
      shape.in_order = false;
      const std::int64_t sums = documents * longest * heads.num * (dim + 1);
      BOOST_TEST(Graph(library(), shape).workspace_bytes() >= static_cast<std::size_t>(sums) * sizeof(float), dim);
    }
  }
}

BOOST_AUTO_TEST_CASE(windows) {
  for (const std::int64_t tokens : {0, 8192}) {
    if (tokens > 0 && !repeats_backward(version().number)) continue;
    for (const Heads& heads : tried({mistral, gemma, olmo, small, odd, of_one_rank})) {
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
  for (const Heads& heads : tried({llama, small, wide, without_groups, odd, of_one_rank})) check(heads, 16, 4096, 0);
  check(llama, 2, std::int64_t{1} << 20, 0);
  for (const Heads& heads : tried({mistral, gemma, olmo})) check(heads, 16, 4096, 1024);
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
  for (const Heads& heads : tried({llama, small, wide, without_groups, odd, of_one_rank})) check(heads, 65'536);
  check(llama, 128);
  check(llama, std::int64_t{1} << 20);
}

// Gradients of a ring: of whole documents out of the fused product, and of pieces of rectangles.
BOOST_AUTO_TEST_CASE(rings_backward) {
  const auto check = [](const Heads& heads, std::int64_t keys, bool in_order = true) {
    if (in_order && !repeats_backward(version().number)) return;
    GraphShape shape = shape_of(heads, 1, 4096, 4096);
    shape.in_order = in_order;
    shape.longest_keys = keys;
    shape.key_tokens = keys;
    shape.dq_row = shape.out_row;
    check_graph(heads, shape, planned(shape));
    shape.k_row = shape.v_row = 2 * heads.num_kv * heads.dim;  // keys that came from another rank
    check_graph(heads, shape, planned(shape));
    GraphShape squares = shape_of(heads, 16, 4096, 8192);
    squares.dq_row = shape.out_row;
    squares.in_order = in_order;
    check_graph(heads, squares, planned(squares));
  };
  for (const Heads& heads : tried({llama, small, wide, without_groups, odd, of_one_rank})) check(heads, 65'536);
  check(llama, 128);
  check(llama, std::int64_t{1} << 18);
  for (const Heads& heads : tried({llama, small})) check(heads, 65'536, /*in_order=*/false);
}

// Gathered keys: each chunk of a rank's queries in a call, heads some at a time, gradients one behind the other.
BOOST_AUTO_TEST_CASE(tails) {
  const auto check = [](const Heads& heads, std::int64_t ranks, std::int64_t keys, std::int64_t window) {
    const std::int64_t kv_heads = std::max<std::int64_t>(1, heads.num_kv / ranks);
    const Heads some{heads.of, heads.num / heads.num_kv * kv_heads, kv_heads, heads.dim};
    for (const std::int64_t tokens : {0, 8192}) {
      if (tokens > 0 && !repeats_backward(version().number)) continue;
      GraphShape shape = shape_of(some, 4, 4096, tokens);
      shape.q_row = heads.fused();
      shape.out_row = heads.num * heads.dim;
      shape.k_row = shape.v_row = 2 * kv_heads * heads.dim;
      shape.longest_keys = keys;
      shape.is_tail = true;
      shape.window = window;
      if (tokens > 0) {
        shape.dout_row = shape.out_row;
        shape.dq_row = some.num * some.dim;
        shape.key_tokens = ranks * tokens;
      }
      check_graph(some, shape, planned(shape));
    }
  };
  for (const Heads& heads : tried({llama, small, wide, without_groups, odd})) check(heads, 4, 32'768, 0);
  for (const Heads& heads : tried({mistral, gemma, olmo})) check(heads, 4, 8192, 1024);
  check(llama, 8, 65'536, 0);
  check(llama, 2, 128, 0);
}

// By offsets of every tensor of its own, and of rows that differ: gradients beside one another, as ulysses has them.
BOOST_AUTO_TEST_CASE(other_rows) {
  GraphShape shape = shape_of(llama, 4, 2048, 0);
  shape.q_row += 1024;
  shape.k_row = 2048;
  shape.out_row += 8;
  check_graph(llama, shape, planned(shape));
}

// All that comes in is columns of one tensor; gradients have rows of their own.
BOOST_AUTO_TEST_CASE(exchanged_heads) {
  if (!repeats_backward(version().number)) return;
  const auto check = [](const Heads& heads, std::int64_t ranks, std::int64_t window) {
    const Heads some{heads.of, heads.num / ranks, std::max<std::int64_t>(1, heads.num_kv / ranks), heads.dim};
    GraphShape shape = shape_of(some, 16, 4096, 8192);
    shape.window = window;
    shape.q_row = shape.k_row = shape.v_row = shape.dout_row = shape.out_row =
        (3 * some.num + 2 * some.num_kv) * some.dim;
    shape.dq_row = some.num * some.dim;
    check_graph(some, shape, planned(shape));
  };
  for (const Heads& heads : tried({llama, small, without_groups})) check(heads, 2, 0);
  check(llama, 16, 0);
  check(mistral, 4, 1024);
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

using Numbers = std::vector<std::pair<std::string, long>>;

/// The H200 with other numbers.
PlannedGpu with_numbers(const Numbers& numbers) {
  PlannedGpu gpu = planned(an_h200);
  for (const auto& [key, number] : numbers) gpu.properties = with_number(gpu.properties, key, number);
  return gpu;
}

bool loads(const std::vector<std::uint8_t>& stored, const GraphShape& shape, const Numbers& numbers) {
  Library theirs(with_numbers(numbers));
  try {
    (void)Graph(theirs, shape, stored);
    return true;
  } catch (const Refusal&) {
    return false;
  }
}

// A run finds a graph by versions, compute capability and multiprocessors. Other clocks and memory than those it was
// compiled with do not change its code.
BOOST_AUTO_TEST_CASE(code_does_not_depend_on_clocks_and_memory) {
  std::vector<GraphShape> shapes = {shape_of(llama, 4, 4096, 0)};
  if (repeats_backward(version().number)) shapes.push_back(shape_of(llama, 4, 4096, 8192));
  (void)library();
  Library theirs(with_numbers({{"totalGlobalMem", 80'000'000'000},
                               {"smClockRateKHz", 1'000'000},
                               {"memClockRateKHz", 2'000'000},
                               {"l2CacheSize", 50'000'000},
                               {"memoryBusWidth", 5120},
                               {"pciDeviceId", 9}}));
  for (const GraphShape& shape : shapes) {
    const std::vector<std::uint8_t> stored = Graph(library(), shape).serialize();
    BOOST_TEST(!code_of(stored).empty());
    BOOST_TEST((code_of(Graph(theirs, shape).serialize()) == code_of(stored)));
  }
}

// What the library compares when it loads one: what GPUs of a compute capability have in common, multiprocessors, the
// width of the memory's bus (9.28), and the driver, which may be newer from 9.26 on. All of it is known ahead.
BOOST_AUTO_TEST_CASE(a_stored_graph_loads_where_it_is_for_such_a_gpu) {
  const GraphShape shape = shape_of(llama, 4, 4096, 0);
  const std::vector<std::uint8_t> stored = Graph(library(), shape).serialize();
  const long driver = CUDART_VERSION / 1000 * 1000;
  BOOST_TEST(loads(stored, shape, {{"driverVer", driver}, {"memoryBusWidth", 6144}}));
  BOOST_TEST(loads(stored, shape,
                   {{"totalGlobalMem", 80'000'000'000},
                    {"smClockRateKHz", 1'000'000},
                    {"memClockRateKHz", 2'000'000},
                    {"l2CacheSize", 50'000'000},
                    {"pciDeviceId", 9},
                    {"cudaDeviceId", 3}}));
  BOOST_TEST(loads(stored, shape, {{"driverVer", driver + 10}}) == (version().number >= 92600));
  BOOST_TEST(!loads(stored, shape, {{"driverVer", driver - 20}}));
  for (const char* const key : {"multiProcessorCount", "deviceVer", "maxSharedMemoryPerBlockOptin"}) {
    BOOST_TEST(!loads(stored, shape, {{key, 100}}), key);
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
