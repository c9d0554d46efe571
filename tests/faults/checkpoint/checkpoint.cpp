// SPDX-License-Identifier: Apache-2.0
// Damaged checkpoints are refused by name on all ranks; a save that fails leaves no checkpoint. Run on 8 ranks.

#include "support/mpi_session.hpp"

// The main comes first.
#include <filesystem>
#include <fstream>

#include "sft/checkpoint/inspect.hpp"
#include "sft/io/hdf5.hpp"
#include "support/checkpoint_fixture.hpp"
#include "support/error_text.hpp"
#include "support/file_size_limit.hpp"
#include "support/open_file_limit.hpp"
#include "support/shard_path.hpp"

namespace fs = std::filesystem;
using namespace sft;
using test::CheckpointFixture;
using test::data_error_of;
using test::mentions;

namespace {

constexpr test::Layout layout = {1, 2, 2, 2};

/// A checkpoint of step 5 on 8 ranks.
class Saved {
 public:
  Saved() : output_(test::session().world()), mesh_(test::make_checkpoint_mesh(test::session().world(), layout)) {
    CheckpointFixture fixture(mesh_, test::make_units());
    fixture.fill(1);
    fixture.save(output_.path(), {.step = 5});
  }

  [[nodiscard]] const std::string& output_dir() const { return output_.path(); }
  [[nodiscard]] const test::Mesh& mesh() const { return mesh_; }
  [[nodiscard]] std::string folder() const { return checkpoint::path_of(output_.path(), 5); }
  [[nodiscard]] std::string file(const std::string& name) const { return folder() + "/" + name; }
  [[nodiscard]] std::string shard(int rank) const { return test::shard_path(folder(), rank); }

  /// Runs on rank 0 alone.
  void damage(const std::function<void()>& work) const {
    if (mesh_.groups.world.rank() == 0) work();
    test::barrier(mesh_.groups.world);
  }
  /// The data Error of loading into a model of `units`, the same on all ranks.
  [[nodiscard]] std::string load_error(const std::vector<parallel::Unit>& units = test::make_units()) const {
    CheckpointFixture fixture(mesh_, units);
    const std::string text = data_error_of([&] { (void)fixture.load(folder()); });
    for (const std::string& other : mesh_.groups.world.all_gather(text)) BOOST_TEST(other == text);
    return text;
  }

 private:
  test::SharedFolder output_;
  test::Mesh mesh_;
};

void flip_byte(const std::string& path, std::streamoff offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const auto byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(offset);
  file.put(byte);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_whole_checkpoint_is_none_of_them) {
  const Saved saved;
  BOOST_TEST(saved.load_error().empty());
}

BOOST_AUTO_TEST_CASE(a_missing_shard_is_named) {
  const Saved saved;
  saved.damage([&] { fs::remove(saved.shard(3)); });
  BOOST_TEST(mentions(saved.load_error(), {"-00003.h5", "cannot find", "rank 3"}));
  BOOST_TEST(
      mentions(data_error_of([&] { (void)checkpoint::open_source(saved.folder()); }), {"-00003.h5", "cannot find"}));
  BOOST_TEST(mentions(data_error_of([&] { checkpoint::verify(saved.folder()); }), {"-00003.h5", "cannot find"}));
}

BOOST_AUTO_TEST_CASE(a_shard_that_one_rank_cannot_open_is_named) {
  const Saved saved;
  std::optional<test::OpenFileLimit> limit;
  if (saved.mesh().groups.world.rank() == 5) limit.emplace(0);  // not even its own shard
  BOOST_TEST(mentions(saved.load_error(), {"-0000", "Too many open files", "rank 5"}));
}

BOOST_AUTO_TEST_CASE(a_cut_shard_is_named) {
  const Saved saved;
  saved.damage([&] { fs::resize_file(saved.shard(6), 1000); });
  BOOST_TEST(mentions(saved.load_error(), {"-00006.h5", "1000 bytes"}));
}

BOOST_AUTO_TEST_CASE(a_flipped_bit_is_found) {
  const Saved saved;
  const auto middle = static_cast<std::streamoff>(fs::file_size(saved.shard(7)) / 2);
  test::barrier(saved.mesh().groups.world);
  saved.damage([&] { flip_byte(saved.shard(7), middle); });
  BOOST_TEST(mentions(saved.load_error(), {"-00007.h5", "checksum", "xxh128:"}));
  BOOST_TEST(mentions(data_error_of([&] { checkpoint::verify(saved.folder()); }), {"-00007.h5", "checksum"}));
}

BOOST_AUTO_TEST_CASE(a_flipped_bit_of_the_index_is_found_wherever_it_is) {
  const Saved saved;
  const auto size = static_cast<std::streamoff>(fs::file_size(saved.file("checkpoint.h5")));
  test::barrier(saved.mesh().groups.world);
  // In the line of the checksum, in the zeros behind it, and all over the HDF5 part.
  for (const std::streamoff place : {std::streamoff{3}, std::streamoff{25}, std::streamoff{400}, std::streamoff{515},
                                     size / 4, size / 3, size / 2, size - 1}) {
    saved.damage([&] { flip_byte(saved.file("checkpoint.h5"), place); });
    BOOST_TEST(mentions(saved.load_error(), {"checkpoint.h5", "damaged"}));
    BOOST_TEST(mentions(data_error_of([&] { checkpoint::verify(saved.folder()); }), {"checkpoint.h5", "damaged"}));
    test::barrier(saved.mesh().groups.world);
    saved.damage([&] { flip_byte(saved.file("checkpoint.h5"), place); });
  }
  BOOST_TEST(saved.load_error().empty());
}

BOOST_AUTO_TEST_CASE(a_cut_or_missing_index_is_named) {
  const Saved saved;
  saved.damage([&] { fs::resize_file(saved.file("checkpoint.h5"), 2000); });
  BOOST_TEST(mentions(saved.load_error(), {"checkpoint.h5", "damaged"}));
  saved.damage([&] { fs::remove(saved.file("checkpoint.h5")); });
  BOOST_TEST(mentions(saved.load_error(), {saved.folder(), "no complete checkpoint"}));
}

BOOST_AUTO_TEST_CASE(another_format_or_version_is_refused) {
  const Saved saved;
  const auto rewrite = [&](const std::string& format, std::int64_t version) {
    saved.damage([&] {
      io::Hdf5File file = io::Hdf5File::create(saved.file("checkpoint.h5"));
      file.write_string("format", format);
      file.write_int("format_version", version);
      file.close();
    });
  };
  rewrite("sft-packed", 1);
  BOOST_TEST(mentions(saved.load_error(), {"checkpoint.h5", "sft-packed"}));
  rewrite("sft-checkpoint", 3);
  BOOST_TEST(mentions(saved.load_error(), {"checkpoint.h5", "format_version is 3", "1 to 2"}));
}

BOOST_AUTO_TEST_CASE(another_model_is_refused_by_tensor) {
  const Saved saved;
  std::vector<parallel::Unit> units = test::make_units();
  units[2].parameters.push_back(units[2].parameters.back());
  units[2].parameters.back().name = "lm_head.weight";
  BOOST_TEST(mentions(saved.load_error(units), {"checkpoint.h5", "it has no model/lm_head.weight"}));

  units = test::make_units();
  units[2].parameters.clear();
  BOOST_TEST(mentions(saved.load_error(units), {"checkpoint.h5", "the model has no model.norm.weight"}));

  units = test::make_units();
  units[0].parameters[0].columns = 10;
  BOOST_TEST(mentions(saved.load_error(units), {"model.embed_tokens.weight", "(20, 12)", "(20, 10)"}));
}

BOOST_AUTO_TEST_CASE(a_full_disk_on_one_rank_fails_all_and_leaves_no_checkpoint) {
  const Saved saved;
  CheckpointFixture fixture(saved.mesh(), test::make_units());
  fixture.fill(2);
  for (const int full_rank : {5, 0}) {
    std::optional<test::FileSizeLimit> limit;
    if (saved.mesh().groups.world.rank() == full_rank) limit.emplace(1024);
    const std::string error = data_error_of([&] { fixture.save(saved.output_dir(), {.step = 10}); });
    BOOST_TEST(mentions(error, {"-0000" + std::to_string(full_rank) + ".h5", "File too large"}), error);
    BOOST_TEST(checkpoint::list(saved.output_dir()).size() == 1U);
    test::barrier(saved.mesh().groups.world);
    BOOST_TEST(!fs::exists(checkpoint::path_of(saved.output_dir(), 10) + ".tmp"));  // the disk may be full of it
    test::barrier(saved.mesh().groups.world);
  }
  fixture.save(saved.output_dir(), {.step = 10});
  fixture.fill(3);
  (void)fixture.load(checkpoint::path_of(saved.output_dir(), 10));
  BOOST_TEST(fixture.is_filled(2));
  BOOST_TEST(std::distance(fs::directory_iterator(saved.output_dir()), fs::directory_iterator()) == 2);
}

BOOST_AUTO_TEST_CASE(a_save_that_is_given_up_leaves_nothing) {
  const Saved saved;
  CheckpointFixture fixture(saved.mesh(), test::make_units());
  fixture.give_up(saved.output_dir(), {.step = 10});
  test::barrier(saved.mesh().groups.world);
  BOOST_TEST(std::distance(fs::directory_iterator(saved.output_dir()), fs::directory_iterator()) == 1);
  test::barrier(saved.mesh().groups.world);
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_made_is_named) {
  const Saved saved;
  CheckpointFixture fixture(saved.mesh(), test::make_units());
  const std::string output_dir = saved.file("checkpoint.h5") + "/below";  // a file is in the way
  BOOST_TEST(mentions(data_error_of([&] { fixture.save(output_dir, {.step = 1}); }), {output_dir, "cannot make"}));
}
