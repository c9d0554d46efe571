// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records -> documents in several threads, delivered in the order of the records.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "prepare/record_reader.hpp"
#include "sft/prepare/example.hpp"

namespace sft::prepare {

/// Which batches of records are made.
struct Share {
  int rank = 0, size = 1;
};

/// What became of a record.
struct MadeExample {
  std::size_t span = 0;    ///< of the inputs
  std::int64_t batch = 0;  ///< number in the span of the batch of records that it was made in
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

  /// What is added now is of this span. Of its batches, whose borders depend on its records alone, those are made whose
  /// number is the share's rank modulo its size.
  void begin_span(std::size_t span, Share share);
  void add(RawRecord record);
  void finish();
  /// Of all records of the span that were added and finished, made or not.
  [[nodiscard]] std::int64_t num_batches() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sft::prepare
