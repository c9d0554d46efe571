// SPDX-License-Identifier: Apache-2.0
#pragma once
// A file of events, which TensorBoard draws: curves over the steps of a run, and texts.

#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace sft::report {

/// A number with a name, such as train/loss.
struct Scalar {
  std::string tag;
  double value = 0.0;
};

/// When something happened.
struct Moment {
  std::int64_t step = 0;
  double time_s = 0.0;  ///< since 1970, in UTC
};

/// The file FOLDER/events.out.tfevents.SECONDS.HOST.PROCESS, in the format of TensorFlow's tf.summary: TFRecord frames
/// with masked CRC-32C, in them messages of event.proto. What is added is on its way to the disk when the call returns.
class EventFile {
 public:
  /// Makes the folder and, at `time_s`, the file. It begins a session, at which a TensorBoard that is open forgets the
  /// points that it read before. Throws a data Error.
  EventFile(const std::string& folder, double time_s);
  /// Takes the points out of the event files that the folder held before, so that every reader finds a point once: call
  /// it when all of them are in this file. The newest stays as a file without a point, because a TensorBoard that has
  /// it open goes on to this file only while it is there; the others are removed.
  void replace_earlier() const;
  /// Throws a data Error when it cannot be written, as all that follow.
  void add(const Moment& moment, std::span<const Scalar> scalars);
  /// A text in Markdown.
  void add_text(const Moment& moment, const std::string& tag, const std::string& text);

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  /// A frame around a serialized Event.
  void write(const std::string& event);

  std::string path_;
  std::vector<std::string> earlier_;  ///< the event files before this one, the newest last
  std::ofstream stream_;
};

}  // namespace sft::report
