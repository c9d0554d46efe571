// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records -> documents in several threads, delivered in the order of the records.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "data/record_reader.hpp"
#include "sft/data/example.hpp"

namespace sft::data {

/// A record and the number of its input file.
struct NumberedRecord {
  RawRecord raw;
  std::size_t file = 0;
};

/// What became of a record.
struct MadeExample {
  std::size_t file = 0;
  std::int64_t line = 0;
  Document document;
  std::string refusal;  ///< why there is no document; "": there is one
};

/// Delivers to one function, in the thread that calls add() and finish(), whatever the number of threads. What the
/// function throws, and errors of the maker that concern more than a record, come out of these two, after which the
/// object is only to be destroyed.
class ExamplePipeline {
 public:
  using Take = std::function<void(MadeExample&&)>;

  /// num_threads >= 1 make documents beside the calling one; with 1 the calling one does it itself. `maker` and
  /// `census` outlive the object.
  ExamplePipeline(const ExampleMaker& maker, int num_threads, RecordCensus& census, Take take);
  ~ExamplePipeline();

  void add(NumberedRecord record);
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sft::data
