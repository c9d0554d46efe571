// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the benchmarks of a training step share: their command lines, and the model they train.

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/mesh/layout.hpp"
#include "tools/benchmarks/named_models.hpp"

namespace sft::bench {

/// Options of a command line with defaults, each in a variable.
class CommandLine {
 public:
  explicit CommandLine(const char* program) : description_(program) { description_.add_options()("help", "this text"); }

  /// `value` holds the default; it lives as long as this.
  template <class Value>
  void add(const char* name, Value& value, const char* help) {
    description_.add_options()(name, boost::program_options::value(&value)->default_value(value), help);
  }
  /// The size of every axis that has a key.
  void add_mesh(AxisArray<int>& sizes) {
    for (const config::AxisKeys& keys : config::axis_keys) {
      add((std::string(name_of(keys.axis)) + "_size").c_str(), sizes[keys.axis], "ranks along this axis of the mesh");
    }
  }
  /// False: help was asked for, and printed.
  [[nodiscard]] bool parse(int argc, char** argv) const {
    namespace po = boost::program_options;
    po::variables_map values;
    po::store(po::parse_command_line(argc, argv, description_), values);
    po::notify(values);
    if (!values.contains("help")) return true;
    std::cout << description_;
    return false;
  }

 private:
  boost::program_options::options_description description_;
};

/// A Llama of 512 wide layers with 8 query and 4 key/value heads of 64 each, and tied embeddings.
inline config::Config small_llama(std::int64_t num_layers, std::int64_t vocab_size, const std::string& precision) {
  config::Config config;
  config.model = model_by_name("small");
  config.model.num_hidden_layers = num_layers;
  config.model.vocab_size = vocab_size;
  config.train.precision = precision == "bf16" ? config::Precision::bf16 : config::Precision::fp32;
  return config;
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace sft::bench
