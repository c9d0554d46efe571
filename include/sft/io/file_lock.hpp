// SPDX-License-Identifier: Apache-2.0
#pragma once
// One process at a time: a lock that the system gives back when its holder ends, however that ends.

#include <chrono>
#include <string>

namespace sft::io {

/// A record lock (fcntl) on a file, which network file systems know too. The file says, for people, who holds it or was
/// the last to do so. It stays behind unless it is removed.
class FileLock {
 public:
  /// Opens the file, makes it where it is missing, and asks for the lock until it is granted or `patience` is over. A
  /// data Error when the file cannot be opened.
  explicit FileLock(std::string path, std::chrono::milliseconds patience = std::chrono::milliseconds(0));
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// Where it is not, either another process holds it, or the file system has no locks.
  [[nodiscard]] bool is_held() const { return error_ == 0; }
  [[nodiscard]] bool is_held_by_another() const;
  /// "process 4711 on host node07 since 2026-01-31 12:00:00 UTC": the process that holds it, as far as the file says
  /// it.
  [[nodiscard]] std::string holder() const;
  /// Adds a line for people to a lock that is held: how what it was held for came out.
  void add_line(const std::string& line);
  /// What the system said where it granted none.
  [[nodiscard]] std::string reason() const;
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Whether the file still has its name: not if somebody removed it, and perhaps made it anew.
  [[nodiscard]] bool is_in_place() const;
  /// Removes the file of a lock that is held; others may then make a new one and hold that.
  void remove();

 private:
  int try_once();

  std::string path_;
  int descriptor_ = -1;
  int error_ = 0;  ///< of the last attempt
};

/// A lock as another process sees it.
struct LockState {
  bool exists = false;   ///< the file
  bool is_held = false;  ///< by a process, as far as the file system knows locks
  std::string holder;    ///< as FileLock::holder(), of the last one where nobody holds it; empty: it does not say
  std::string lines;     ///< that were added behind that
};
/// Asks without taking the lock, so that whoever wants it meanwhile gets it.
[[nodiscard]] LockState state_of_lock(const std::string& path);

}  // namespace sft::io
