#pragma once
// The order in which the checkpoints of a folder were saved. It is that of steps only while a run goes straight on: one
// that begins again at an earlier step leaves later checkpoints of an abandoned branch behind.

#include <cstdint>
#include <string>

namespace sft::checkpoint {

/// Keeps the `limit` complete checkpoints beside `folder` that were saved last, `folder` among them, and removes the
/// others; 0 keeps all. One whose checkpoint.h5 cannot be read counts as the oldest.
void prune(const std::string& folder, std::int64_t limit);

}  // namespace sft::checkpoint
