// SPDX-License-Identifier: Apache-2.0
#pragma once
// The folder that sft-prepare writes to: its own while it works, and as it was when it fails.

#include <string>
#include <vector>

#include "sft/io/file_lock.hpp"

namespace sft::prepare {

/// A file in the making: written under a name of its own that ends in .tmp.
struct NewFile {
  std::string path;
  std::string temporary_path;
};

/// That of the shard `path`; `tag`: hexadecimal digits.
[[nodiscard]] NewFile new_file(const std::string& path, const std::string& tag);

/// Paths FOLDER/train-*.h5 and FOLDER/eval-*.h5 that are there already, sorted, those of train first.
[[nodiscard]] std::vector<std::string> find_shards(const std::string& folder);

/// The temporary file of the documents that a process of a team reads.
[[nodiscard]] std::string shared_documents_path(const std::string& folder, int rank);

/// For the lifetime of the object no other sft-prepare writes to the folder.
class OutputFolder {
 public:
  /// Makes the folder and locks it. A data Error when another process has it, which is named, and when it holds a whole
  /// set of packed data already. Where the file system has no locks, a warning is all.
  explicit OutputFolder(const std::string& path);
  /// Removes what it made and is empty: of a folder with files that is the lock alone.
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// Whether no other sft-prepare can write to it, so that files of the same names are those of an earlier one.
  [[nodiscard]] bool is_locked() const { return lock_.is_held(); }
  /// Makes room for shards of these names, finished under the temporary ones: removes unfinished files of other names
  /// that an sft-prepare left which was killed. A data Error where there are packed data of other names.
  void make_room(const std::vector<NewFile>& files) const;

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

  std::string path_;
  MadeFolders made_;
  io::FileLock lock_;
};

/// Gives finished files, which are on disk, their names in `folder`; the first comes last, when the names of all others
/// are on disk: where it is, all are. One that has its name already keeps it. A data Error where a file of that name is
/// there beside the temporary one; then those that it named lose their names again.
void name_all(const std::string& folder, const std::vector<NewFile>& files);

/// Refuses a shard of other data, beside which train-00000.h5 is missing.
[[noreturn]] void refuse_part(const std::string& path);

/// Hexadecimal digits that no other process chooses.
[[nodiscard]] std::string random_tag();

}  // namespace sft::prepare
