// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cudnn/graph_set.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <thread>

#include "ops/cuda/cudnn/store.hpp"

namespace sft::ops::cuda::cudnn {

namespace {

/// Where this process begins among `count` things. Numbers of neighbouring processes, times the golden ratio, lie far
/// apart (Knuth, The Art of Computer Programming 3, 6.4).
std::size_t first_of(std::size_t count) {
  constexpr std::uint32_t golden_ratio = 2'654'435'769U;  // times 2^32
  const std::uint64_t place = static_cast<std::uint32_t>(::getpid()) * golden_ratio;
  return static_cast<std::size_t>((place & 0xffffffffU) * count >> 32U);
}

CompiledGraph compile(Library& library, const GraphShape& shape) {
  const std::string name = library.name() + "-" + shape.name();
  CompiledGraph graph{.bytes = read_graph(name), .problem = {}};
  graph.was_stored = !graph.bytes.empty();
  if (graph.was_stored) return graph;
  const auto start = std::chrono::steady_clock::now();
  try {
    graph.bytes = Graph(library, shape).serialize();
    write_graph(name, graph.bytes);
  } catch (const std::exception& error) {
    graph.problem = error.what();
  }
  graph.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return graph;
}

}  // namespace

std::vector<CompiledGraph> compile_graphs(const std::vector<GraphShape>& shapes, Library& library,
                                          const OpenLibrary& open, int num_threads) {
  std::vector<CompiledGraph> graphs(shapes.size());
  std::atomic<std::size_t> num_taken = 0;
  const std::size_t first = first_of(shapes.size());
  const auto work = [&](Library& own) {
    for (std::size_t i = num_taken++; i < shapes.size(); i = num_taken++) {
      const std::size_t place = (first + i) % shapes.size();
      graphs[place] = compile(own, shapes[place]);
    }
  };
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < std::min<std::size_t>(std::max(num_threads, 1), shapes.size()); ++i) {
    others.emplace_back([&] {
      try {
        work(*open());
      } catch (const std::exception&) {  // the other threads do its part
      }
    });
  }
  work(library);
  for (std::thread& other : others) other.join();
  return graphs;
}

}  // namespace sft::ops::cuda::cudnn
