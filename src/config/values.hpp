#pragma once
// Text <-> the value types of the configuration. read() throws std::invalid_argument whose message is what it expected;
// write() is the exact inverse: read(write(x)) == x, bit for bit for doubles.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/config/config.hpp"

namespace sft::config {

void read(const std::string& text, bool& value);
void read(const std::string& text, int& value);
void read(const std::string& text, std::int64_t& value);
void read(const std::string& text, std::uint64_t& value);
void read(const std::string& text, double& value);
void read(const std::string& text, std::string& value);
void read(const std::string& text, std::vector<std::string>& value);  // separated by white space or commas
void read(const std::string& text, Precision& value);
void read(const std::string& text, Scheduler& value);
void read(const std::string& text, BackendChoice& value);
void read(const std::string& text, RopeScaling& value);

[[nodiscard]] std::string write(bool value);
[[nodiscard]] std::string write(int value);
[[nodiscard]] std::string write(std::int64_t value);
[[nodiscard]] std::string write(std::uint64_t value);
[[nodiscard]] std::string write(double value);
[[nodiscard]] std::string write(const std::string& value);
[[nodiscard]] std::string write(const std::vector<std::string>& value);
[[nodiscard]] std::string write(Precision value);
[[nodiscard]] std::string write(Scheduler value);
[[nodiscard]] std::string write(BackendChoice value);
[[nodiscard]] std::string write(const RopeScaling& value);

}  // namespace sft::config
