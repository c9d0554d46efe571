// SPDX-License-Identifier: Apache-2.0
#pragma once
// What each process of a team found in the spans that it read, and all of them together.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "prepare/input_spans.hpp"
#include "sft/core/error.hpp"
#include "sft/prepare/document.hpp"
#include "sft/prepare/prepare.hpp"

namespace sft::prepare {

/// Most skipped records that a summary names.
inline constexpr std::size_t max_listed_skips = 20;

/// A batch of records. They follow each other as order() does.
struct BatchPlace {
  std::size_t span = 0;
  std::int64_t batch = 0;  ///< in the span

  [[nodiscard]] std::pair<std::size_t, std::int64_t> order() const { return {span, batch}; }
};

/// A record that was refused.
struct Refusal {
  BatchPlace place;
  std::int64_t line = 0;  ///< from 1, in the span
  std::string why;
};

/// Why a process could not go on.
struct Failure {
  ExitStatus status = ExitStatus::done;  ///< done: it could
  Refusal refusal;
  bool is_of_record = false;  ///< else `why` is the whole text of the error, and there is no line
};

/// What one process found.
struct ReadingResults {
  struct OfSpan {
    std::int64_t num_lines = 0;               ///< that end in it
    std::vector<std::int64_t> num_documents;  ///< of this process's batches; one number where it reads all of them
  };

  Failure failure;
  PrepareSummary summary;        ///< counts, lengths and census
  std::vector<Refusal> skipped;  ///< the first of them
  std::vector<OfSpan> spans;     ///< of all; those that it does not read are empty
  std::string table;             ///< that DocumentStore::join() takes; "" without a team
};

[[nodiscard]] std::string pack(const ReadingResults& results);

/// The results of all processes.
class JoinedResults {
 public:
  /// Messages of pack(), in the order of the ranks. Adds what became of all records to `summary`. The first failure in
  /// the order of the records is thrown.
  JoinedResults(const std::vector<InputSpan>& spans, const std::vector<std::string>& messages,
                const PrepareOptions& options, PrepareSummary& summary);

  /// Documents of a group of inputs.
  [[nodiscard]] std::int64_t num_documents(std::size_t group) const;
  /// Of all spans, in order.
  [[nodiscard]] std::vector<DocumentRun> order() const;
  [[nodiscard]] const std::vector<std::string>& tables() const { return tables_; }

 private:
  void add(const std::string& message);
  /// FILE:LINE of a refusal; "FILE, row N" of a file that another stands in for.
  [[nodiscard]] std::string place_of(const Refusal& refusal) const;

  const std::vector<InputSpan>& spans_;
  const std::map<std::string, std::string>& stands_for_;
  PrepareSummary& summary_;
  Failure first_failure_;
  std::vector<Refusal> skipped_;
  std::vector<std::int64_t> num_lines_;                                ///< of each span
  std::vector<std::vector<std::vector<std::int64_t>>> num_documents_;  ///< by rank, span and own batch
  std::vector<std::string> tables_;
};

}  // namespace sft::prepare
