#pragma once
// The account of every byte a rank uses, by label. Exact for arenas; the process itself (code, libraries, the MPI
// library's own buffers) is entered once, as measured at start with an allowance for what it takes later.

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace sft::device {

enum class Label {
  parameters,
  gradients,
  optimizer,
  unit_buffers,
  activations,
  workspace,
  communication,
  batches,
  process
};
inline constexpr std::size_t num_labels = 9;
[[nodiscard]] const char* name_of(Label label);

class Ledger {
 public:
  void add(Label label, std::size_t bytes) { bytes_[static_cast<std::size_t>(label)] += bytes; }
  void remove(Label label, std::size_t bytes) { bytes_[static_cast<std::size_t>(label)] -= bytes; }
  [[nodiscard]] std::size_t bytes(Label label) const { return bytes_[static_cast<std::size_t>(label)]; }
  [[nodiscard]] std::size_t total_bytes() const;

 private:
  std::array<std::size_t, num_labels> bytes_{};
};

/// What every process takes after its start on top of its arenas: pages of code and oneDNN's kernels in the first step,
/// HDF5 and the staging memory of a checkpoint. Measured: 0 to 4 MiB, less on ranks that write no checkpoint.
inline constexpr std::size_t later_process_bytes = std::size_t{2} << 20;
/// Resident set of this process, in bytes, from the operating system: now, and the highest so far.
[[nodiscard]] std::size_t resident_bytes();
[[nodiscard]] std::size_t peak_resident_bytes();
/// "1.25 GiB", "310.0 MiB"
[[nodiscard]] std::string format_bytes(std::size_t bytes);

}  // namespace sft::device
