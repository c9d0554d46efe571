// SPDX-License-Identifier: Apache-2.0
#pragma once
// The folder that sft-prepare writes to: its own while it works, and as it was when it fails.

#include <string>
#include <vector>

#include "sft/io/file_lock.hpp"

namespace sft::data {

/// Paths FOLDER/train-*.h5 and FOLDER/eval-*.h5 that are there already, sorted, those of train first.
[[nodiscard]] std::vector<std::string> find_shards(const std::string& folder);

/// For the lifetime of the object no other sft-prepare writes to the folder.
class OutputFolder {
 public:
  /// Makes the folder and locks it. A data Error when another process has it, which is named, and when it holds packed
  /// data already. Removes unfinished files of an sft-prepare that was killed. Where the file system has no locks, a
  /// warning is all.
  explicit OutputFolder(const std::string& path);
  /// Removes what it made and is empty: of a folder with files that is the lock alone.
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  /// The folders that have to be made, the innermost last.
  class MadeFolders {
   public:
    explicit MadeFolders(const std::string& path);
    ~MadeFolders();
    MadeFolders(const MadeFolders&) = delete;
    MadeFolders& operator=(const MadeFolders&) = delete;

   private:
    std::vector<std::string> paths_;
  };

  MadeFolders made_;
  io::FileLock lock_;
};

/// Files of one split or several: written under names of their own that end in .tmp, and named all together.
class NewFiles {
 public:
  NewFiles();
  /// Removes the files, named or not, unless they were kept.
  ~NewFiles();
  NewFiles(const NewFiles&) = delete;
  NewFiles& operator=(const NewFiles&) = delete;

  /// The name to write under: no other process chooses it.
  std::string add(const std::string& final_path);
  /// Gives all of them, which are on disk, their names in `folder`; the first comes last, when the names of all others
  /// are on disk: where it is, all are. A data Error where a file of that name is there already.
  void rename_all(const std::string& folder);
  void keep() { final_paths_.clear(); }

 private:
  [[nodiscard]] std::string temporary(const std::string& final_path) const;

  std::string tag_;  ///< of the names in the making
  std::vector<std::string> final_paths_;
  std::size_t num_waiting_ = 0;  ///< the first so many are not renamed yet
};

}  // namespace sft::data
