// SPDX-License-Identifier: Apache-2.0
#pragma once
// Values of the options of programs, read as sft reads those of its keys: 1e3 is a number, yes a truth,
// $VAR and ~ stand for something in paths.

#include <boost/any.hpp>
#include <boost/program_options.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "sft/config/values.hpp"

namespace sft::cli {

/// Thrown while options are read, which adds the option's name.
class InvalidValue : public boost::program_options::error_with_option_name {
 public:
  explicit InvalidValue(std::string expectation)
      : error_with_option_name("expected " + expectation), expectation_(std::move(expectation)) {}

  /// Such as "a whole number".
  [[nodiscard]] const std::string& expectation() const { return expectation_; }

 private:
  std::string expectation_;
};

/// How an option of type T becomes a value: each of its words by config::read.
template <class T>
class OptionValue final : public boost::program_options::typed_value<T> {
 public:
  explicit OptionValue(T* target) : boost::program_options::typed_value<T>(target) {}

 private:
  void xparse(boost::any& stored, const std::vector<std::string>& words) const override {
    namespace po = boost::program_options;
    if constexpr (is_list) {
      if (stored.empty()) stored = T{};
      for (const std::string& word : words) boost::any_cast<T&>(stored).push_back(read<typename T::value_type>(word));
    } else {
      if (!stored.empty()) throw po::multiple_occurrences();
      if (words.empty()) {
        po::typed_value<T>::xparse(stored, words);  // what the option alone means
      } else {
        stored = read<T>(words.front());
      }
    }
  }

  template <class Item>
  static Item read(const std::string& word) {
    Item item{};
    try {
      config::read(word, item);
    } catch (const std::invalid_argument& expectation) {
      throw InvalidValue(expectation.what());
    }
    return item;
  }

  static constexpr bool is_list = std::is_same_v<T, std::vector<std::string>> || std::is_same_v<T, std::vector<double>>;
};

/// The value of a number, or of several where T is a vector. `target` may be null: the value is then looked up by name.
template <class T>
boost::program_options::typed_value<T>* number(T* target = nullptr, const char* name = "N") {
  return (new OptionValue<T>(target))->value_name(name);  // Program_options owns it
}

/// A path, or several where T is a vector; `name` is FILE, FOLDER or CHECKPOINT, which shells then complete.
template <class T = std::string>
boost::program_options::typed_value<T>* path(const char* name, T* target = nullptr) {
  return (new OptionValue<T>(target))->value_name(name);
}

/// True or false; the option alone is true, --no_OPTION false.
inline boost::program_options::typed_value<bool>* truth(bool* target = nullptr) {
  return (new OptionValue<bool>(target))->implicit_value(true, "true")->value_name("BOOL");
}

/// Name of the value of what is shown without one.
inline constexpr const char* unnamed = "FLAG";

/// A truth that is false unless it is given, and shown without a value.
inline boost::program_options::typed_value<bool>* flag(bool* target) {
  return truth(target)->default_value(false, "false")->value_name(unnamed);
}

}  // namespace sft::cli
