// SPDX-License-Identifier: Apache-2.0
#include "sft/checkpoint/save.hpp"

#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <optional>
#include <sstream>

#include "file_map.hpp"
#include "folder.hpp"
#include "header.hpp"
#include "own_parts.hpp"
#include "sft/comm/agreed_gather.hpp"
#include "sft/comm/session.hpp"
#include "sft/core/ensure.hpp"
#include "sft/io/hash.hpp"
#include "sft/io/raw_file.hpp"
#include "shard_layout.hpp"

namespace sft::checkpoint {

namespace {

constexpr std::size_t write_bytes = std::size_t{1} << 20;  ///< that are hashed and written at a time

constexpr std::size_t number_length = 21, hash_length = 64, name_length = 64;  ///< at most, in texts for other ranks

/// The same on ranks of one node, else others.
std::string node_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  io::ContentHash hash;
  hash.add(std::string(name.data()));
  return hash.text();
}

/// The map of these entries but for files and regions.
FileMap map_without_files(const std::vector<Entry>& entries, const mesh::Place& place) {
  FileMap map;
  map.layout = place.layout();
  std::vector<const parallel::ShardMap*> cuts;
  for (const Entry& entry : entries) {
    const auto found = std::ranges::find(cuts, entry.shard_map);
    const auto number = static_cast<int>(found - cuts.begin());
    if (found == cuts.end()) {
      cuts.push_back(entry.shard_map);
      map.cuts.push_back({entry.shard_map->shard_axes(), entry.shard_map->units()});
    }
    const std::vector<parallel::StoredTensor> tensors = entry.layout->tensors(*entry.shard_map);
    MappedEntry mapped{.name = entry.name,
                       .dtype = entry.dtype(),
                       .cut = number,
                       .tensors = {},
                       .is_as_parameters = is_as_parameters(tensors),
                       .parts = {}};
    for (const parallel::StoredTensor& tensor : tensors) {
      mapped.tensors.push_back({entry.name + "/" + tensor.parameter->name, tensor.shape, entry.dtype()});
    }
    map.entries.push_back(std::move(mapped));
  }
  return map;
}

/// Share of a rank, told to the others: its node, and how much it writes of each entry. Rank 0 names all files.
struct RankWrites {
  std::string node;
  std::string shard_prefix;
  std::vector<std::int64_t> counts;

  [[nodiscard]] bool has_any() const {
    return std::ranges::any_of(counts, [](std::int64_t count) { return count > 0; });
  }
};

std::string text_of(const RankWrites& writes) {
  return fmt::format("{} {} {}", writes.node, writes.shard_prefix, fmt::join(writes.counts, " "));
}

RankWrites writes_of(const std::string& text) {
  RankWrites writes;
  std::istringstream words(text);
  words >> writes.node >> writes.shard_prefix;
  for (std::int64_t count = 0; words >> count;) writes.counts.push_back(count);
  return writes;
}

/// The first line has the file.
std::string text_of(const LaidOutFile& made) {
  std::string text = to_text(made.file);
  for (const std::uint64_t begin : made.begins) text += fmt::format("{} ", begin);
  return text;
}

LaidOutFile laid_out_of(const std::string& text, const std::string& source) {
  const std::size_t end = text.find('\n');
  LaidOutFile made{.file = parse_shard_files(text.substr(0, end), source).front(), .begins = {}};
  std::istringstream numbers(text.substr(end + 1));
  for (std::uint64_t begin = 0; numbers >> begin;) made.begins.push_back(begin);
  return made;
}

}  // namespace

struct Save::Impl {
  Impl(const std::string& output_dir, const config::Config& wanted, std::string tokenizer_name,
       const mesh::Place& where, const mesh::Groups& groups, const std::vector<Entry>& entries, Position at)
      : folder(path_of(output_dir, at.step)),
        config(wanted),
        tokenizer(std::move(tokenizer_name)),
        rank(where.rank()),
        world(groups.world),
        position(std::move(at)),
        plan(entries),
        map(map_without_files(entries, where)) {}

  /// What `work`, a collective, throws, all ranks do. What a failed save leaves takes room that the next try may need.
  template <class Work>
  auto or_discard(const Work& work) const {
    try {
      return work();
    } catch (const comm::SharedError&) {
      discard();
      throw;
    }
  }
  void discard() const {
    if (world.rank() == 0) discard_folder(folder);
  }

  std::vector<RankWrites> gather_writes(const std::function<void()>& before);
  void lay_out_files(const std::vector<Entry>& entries, const std::vector<RankWrites>& writes,
                     const std::function<void(const WritePlan&)>& beside);
  void gather_parts(const std::vector<Entry>& entries);
  /// Some bytes of this rank's region of an entry.
  struct Chunk {
    std::size_t entry, begin, num_bytes;
  };
  /// Writes the regions of this rank; `fill(chunk)` gives the address of its bytes.
  template <class Fill>
  void write_all(const Fill& fill) noexcept;
  void gather_hashes(const std::function<void()>& before);
  /// On rank 0.
  std::string finish();

  std::string folder;
  config::Config config;
  std::string tokenizer;
  int rank;
  comm::Group world;
  Position position;
  WritePlan plan;
  FileMap map;  ///< of ranks all regions, of hashes those of this rank
  bool is_written = false;
  std::exception_ptr error;
};

std::vector<RankWrites> Save::Impl::gather_writes(const std::function<void()>& before) {
  RankWrites own{.node = node_name(), .shard_prefix = rank == 0 ? new_shard_prefix(position.step) : "-", .counts = {}};
  for (const EntryWrites& writes : plan.entries()) own.counts.push_back(writes.num_elements);
  const std::size_t max_length = hash_length + name_length + own.counts.size() * number_length;
  std::vector<RankWrites> all;
  for (const std::string& text : comm::agree_and_gather(world, max_length, [&] {
         if (before) before();
         if (rank == 0) begin_folder(folder);
         return text_of(own);
       })) {
    all.push_back(writes_of(text));
  }
  return all;
}

void Save::Impl::lay_out_files(const std::vector<Entry>& entries, const std::vector<RankWrites>& writes,
                               const std::function<void(const WritePlan&)>& beside) {
  // 1. All files follow from how much each rank writes of each entry, and on which node.
  const std::size_t num_entries = entries.size();
  std::vector<std::string> nodes;
  std::vector<bool> has_any;
  for (const RankWrites& one : writes) {
    nodes.push_back(one.node);
    has_any.push_back(one.has_any());
  }
  const FileGroups groups = group_files(nodes, has_any, config.checkpoint.files_per_node);

  // 2. The first rank of each file makes it.
  const int own_file = groups.file_of_rank[rank];
  const auto lay_out_own = [&]() -> std::string {
    if (beside) beside(plan);
    if (own_file < 0 || groups.members[own_file].front() != rank) return "";
    std::vector<std::string> names;
    for (const Entry& entry : entries) names.push_back(entry.name);
    const std::vector<std::string> datasets = dataset_names(names);
    std::vector<EntryType> types;
    std::vector<std::int64_t> sizes(num_entries, 0);
    for (std::size_t i = 0; i < num_entries; ++i) {
      types.push_back({datasets[i], entries[i].dtype()});
      for (const int member : groups.members[own_file]) sizes[i] += writes[member].counts[i];
    }
    return text_of(lay_out(temporary_path(folder), shard_file_name(writes.front().shard_prefix, rank), types, sizes));
  };
  const std::size_t max_length = name_length + hash_length + (1 + num_entries) * number_length;
  const std::vector<std::string> files =
      or_discard([&] { return comm::agree_and_gather(world, max_length, lay_out_own); });

  // 3. Where each rank's regions lie.
  map.ranks.resize(world.size());
  for (const std::vector<int>& members : groups.members) {
    LaidOutFile laid_out = laid_out_of(files[members.front()], folder);
    for (const int member : members) {
      RankRegions& regions = map.ranks[member];
      regions.file = static_cast<int>(map.files.size());
      for (std::size_t i = 0; i < num_entries; ++i) {
        const std::int64_t count = writes[member].counts[i];
        regions.regions.push_back({.begin = count > 0 ? laid_out.begins[i] : 0, .num_elements = count, .hash = ""});
        laid_out.begins[i] += static_cast<std::uint64_t>(count) * size_of(entries[i].dtype());
      }
    }
    map.files.push_back(laid_out.file);
  }
  for (RankRegions& regions : map.ranks) regions.regions.resize(num_entries);
}

void Save::Impl::gather_parts(const std::vector<Entry>& entries) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    MappedEntry& entry = map.entries[i];
    if (entry.is_as_parameters) continue;
    const Cut& cut = map.cuts[entry.cut];
    const std::vector<OwnPart> own = own_parts(entries[i]);
    std::string text;
    for (const OwnPart& part : own) {
      const io::Rectangle& w = part.where;
      text += fmt::format("{} {} {} {} {} ", part.tensor, w.row_begin, w.num_rows, w.column_begin, w.num_columns);
    }
    for (int owner = 0; owner < world.size(); ++owner) {
      if (owner_of(map.layout, cut.copy_axes(), owner) != owner) continue;
      std::istringstream numbers(world.deliver(text, owner, 0));
      if (world.rank() != 0) continue;
      FilePart part{};
      io::Rectangle& w = part.where;
      while (numbers >> part.tensor >> w.row_begin >> w.num_rows >> w.column_begin >> w.num_columns) {
        entry.parts[owner].push_back(part);
        part.position += w.num_elements();
      }
    }
  }
}

template <class Fill>
void Save::Impl::write_all(const Fill& fill) noexcept {
  try {
    SFT_ENSURE(!is_written, "a checkpoint is written once");
    is_written = true;
    RankRegions& own = map.ranks[rank];
    if (own.file < 0) return;
    const std::string& name = map.files[own.file].name;
    io::RawFile file = io::RawFile::extend(temporary_path(folder) + "/" + name);
    for (std::size_t i = 0; i < plan.entries().size(); ++i) {
      const std::size_t num_bytes = plan.entries()[i].num_bytes();
      if (num_bytes == 0) continue;
      io::ContentHash hash;
      for (std::size_t at = 0; at < num_bytes; at += write_bytes) {
        const std::size_t count = std::min(write_bytes, num_bytes - at);
        const std::byte* bytes = fill(Chunk{.entry = i, .begin = at, .num_bytes = count});
        hash.add(bytes, count);
        file.write(own.regions[i].begin + at, count, bytes);
      }
      own.regions[i].hash = hash.text();
    }
    file.sync();
  } catch (...) {
    error = std::current_exception();
  }
}

void Save::Impl::gather_hashes(const std::function<void()>& before) {
  const auto own_hashes = [&] {
    if (before) before();
    SFT_ENSURE(is_written, "a checkpoint is written before it is committed");
    if (error) std::rethrow_exception(error);
    std::string text;
    for (const StoredRegion& region : map.ranks[rank].regions) {
      text += fmt::format("{} ", region.hash.empty() ? "-" : region.hash);
    }
    return text;
  };
  const std::vector<std::string> all =
      or_discard([&] { return comm::agree_and_gather(world, plan.entries().size() * hash_length, own_hashes); });
  for (std::size_t other = 0; other < all.size(); ++other) {
    std::istringstream hashes(all[other]);
    for (StoredRegion& region : map.ranks[other].regions) {
      hashes >> region.hash;
      if (region.hash == "-") region.hash.clear();
    }
  }
}

std::string Save::Impl::finish() {
  std::string date = write_map(temporary_path(folder), config, tokenizer, position, map);
  commit_folder(folder);
  return date;
}

Save::Save(const std::string& output_dir, const config::Config& config, const std::string& tokenizer,
           const mesh::Place& place, const mesh::Groups& groups, const std::vector<Entry>& entries,
           const Position& position, const LocalWork& local)
    : impl_(std::make_unique<Impl>(output_dir, config, tokenizer, place, groups, entries, position)) {
  impl_->lay_out_files(entries, impl_->gather_writes(local.before), local.beside);
  impl_->gather_parts(entries);
}

Save::~Save() = default;

const std::string& Save::folder() const { return impl_->folder; }
const WritePlan& Save::plan() const { return impl_->plan; }
void Save::discard() noexcept { impl_->discard(); }
bool Save::has_failed() const { return impl_->error != nullptr; }

void Save::write(const std::byte* snapshot) noexcept {
  impl_->write_all([&](const Impl::Chunk& chunk) {
    return snapshot + impl_->plan.entries()[chunk.entry].snapshot_begin + chunk.begin;
  });
}

void Save::write(const State& state, device::Device& device, device::Stream& stream) noexcept {
  // Regions are read in ascending order, so each chunk goes on where the last one ended.
  std::optional<device::Device::Block> staging;
  std::size_t range = 0;
  std::int64_t done = 0;  // elements of that range
  impl_->write_all([&](const Impl::Chunk& chunk) {
    if (!staging) staging.emplace(device.allocate(write_bytes, device::Space::pinned));
    if (chunk.begin == 0) range = 0, done = 0;
    const Entry& from = state.entries()[chunk.entry];
    const EntryWrites& writes = impl_->plan.entries()[chunk.entry];
    auto* to = static_cast<std::byte*>(staging->get());
    for (auto left = static_cast<std::int64_t>(chunk.num_bytes / size_of(writes.dtype)); left > 0;) {
      const MemoryRange& memory = writes.ranges[range];
      const Tensor values(to, writes.dtype, {std::min(left, memory.count - done)});
      if (from.in_file != nullptr) {
        from.in_file->read(memory.begin + done, values);
      } else {
        const Tensor source = from.tensor.rows(memory.begin + done, values.num_elements());
        device.copy(to, source.data, values.size_bytes(), stream);
      }
      to += values.size_bytes();
      left -= values.num_elements();
      done += values.num_elements();
      if (done == memory.count) ++range, done = 0;
    }
    stream.synchronize();
    return static_cast<const std::byte*>(staging->get());
  });
}

std::string Save::commit(const std::function<void()>& before) {
  impl_->gather_hashes(before);
  std::string date;
  impl_->or_discard([&] {
    impl_->world.agree([&] {
      if (impl_->world.rank() == 0) date = impl_->finish();
    });
  });
  return date;
}

std::string save(const std::string& output_dir, const config::Config& config, const std::string& tokenizer,
                 const mesh::Place& place, const mesh::Groups& groups, const State& state, const Position& position,
                 device::Device& device, device::Stream& stream) {
  Save saving(output_dir, config, tokenizer, place, groups, state.entries(), position);
  saving.write(state, device, stream);
  std::string date = saving.commit();
  groups.world.agree([&] {
    if (groups.world.rank() != 0) return;
    remove_old(saving.folder(), position.lineage, config.checkpoint.save_total_limit,
               position.decisions.best_checkpoint);
  });
  return date;
}

}  // namespace sft::checkpoint
