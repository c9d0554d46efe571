// SPDX-License-Identifier: Apache-2.0
#pragma once
// A file of events, which TensorBoard draws: curves over the steps of a run, and texts.

#include <cstdint>
#include <fstream>
#include <span>
#include <string>

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
  /// Makes the folder and, at `time_s`, the file, behind which a reader forgets the points of all event files that the
  /// folder holds. The newest of these stays: TensorBoard, where it has that open, goes on to the next file only while
  /// it is there. The others are removed. Throws a data Error.
  EventFile(const std::string& folder, double time_s);
  /// Throws a data Error when it cannot be written, as all that follow.
  void add(const Moment& moment, std::span<const Scalar> scalars);
  /// A text in Markdown.
  void add_text(const Moment& moment, const std::string& tag, const std::string& text);

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  /// A frame around a serialized Event.
  void write(const std::string& event);

  std::string path_;
  std::ofstream stream_;
};

}  // namespace sft::report
