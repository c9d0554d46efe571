// SPDX-License-Identifier: Apache-2.0
// The memory of a mesh, planned on one rank: least and most of all its ranks, and what a larger mesh saves.

#include "sft/planner/rank_ledgers.hpp"

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>

#include "sft/core/cast.hpp"
#include "sft/device/arena.hpp"
#include "sft/io/hdf5.hpp"
#include "sft/machine/node.hpp"
#include "sft/model/flops.hpp"
#include "sft/rank/memory.hpp"
#include "support/small_run.hpp"

namespace sft::planner {

using namespace rank;

namespace {

using device::Label;

constexpr std::size_t process_bytes = std::size_t{100} << 20U;

struct Fixture : test::SmallRun {
  Fixture() { config.train.per_device_train_batch_size = 2; }

  [[nodiscard]] MemoryTable plan(const mesh::Layout& layout) {
    test::set_mesh(config.parallel, layout);
    return plan_memory(valid(), datasets(), {}, process_bytes);
  }
};

const MemoryRange& range_of(const MemoryTable& table, Label label) {
  return table.labels[static_cast<std::size_t>(label)];
}

}  // namespace

BOOST_AUTO_TEST_SUITE(memory)

BOOST_FIXTURE_TEST_CASE(all_ranks_of_1024_hold_as_much_but_rank_0_writes_the_index_and_some_read_rows, Fixture) {
  const MemoryTable table = plan({{Axis::dp_replicate, 4}, {Axis::dp_shard, 32}, {Axis::sp, 2}, {Axis::tp, 4}});
  for (std::size_t i = 0; i < device::num_labels; ++i) {
    const auto label = static_cast<Label>(i);
    BOOST_TEST_CONTEXT(device::name_of(label)) {
      const MemoryRange& range = range_of(table, label);
      if (label == Label::snapshot) continue;  // below
      BOOST_TEST(range.least_bytes > 0U);
      BOOST_TEST(range.most_rank == 0);
      BOOST_TEST((range.least_bytes == range.most_bytes) == (label != Label::process && label != Label::batches));
    }
  }
  const std::size_t later_bytes = range_of(table, Label::process).least_bytes - process_bytes;
  BOOST_TEST(later_bytes >= rank::later_process_bytes);
  // Of small products on one thread: copies of their operands, or their machine code and the library.
  constexpr std::size_t most_product_bytes = std::size_t{3} << 20U;
  BOOST_TEST(later_bytes <= rank::later_process_bytes + most_product_bytes);
  BOOST_TEST(table.total.most_rank == 0);
  const auto spread_of = [](const MemoryRange& range) { return range.most_bytes - range.least_bytes; };
  BOOST_TEST(spread_of(table.total) ==
             spread_of(range_of(table, Label::process)) + spread_of(range_of(table, Label::batches)));
}

BOOST_FIXTURE_TEST_CASE(the_table_is_least_and_most_of_the_ledgers, Fixture) {
  const MemoryTable table = plan({{Axis::dp_replicate, 2}, {Axis::dp_shard, 3}, {Axis::sp, 1}, {Axis::tp, 2}});
  const Datasets all = datasets();
  const mesh::Place first(valid(), 0);
  std::size_t least_bytes = table.total.most_bytes, most_bytes = 0;
  for (const WorldRank rank : IndexRange<WorldRank>(12)) {
    const device::Ledger ledger = plan_ledger(valid(), all, first.peer(rank), {}, process_bytes);
    std::size_t sum_bytes = 0;
    for (std::size_t i = 0; i < device::num_labels; ++i) {
      const std::size_t bytes = ledger.bytes(static_cast<Label>(i));
      BOOST_TEST(bytes >= table.labels[i].least_bytes);
      BOOST_TEST(bytes <= table.labels[i].most_bytes);
      if (rank == table.labels[i].most_rank) BOOST_TEST(bytes == table.labels[i].most_bytes);
      sum_bytes += bytes;
    }
    BOOST_TEST(sum_bytes == ledger.total_bytes());
    least_bytes = std::min(least_bytes, sum_bytes);
    most_bytes = std::max(most_bytes, sum_bytes);
  }
  BOOST_TEST(least_bytes == table.total.least_bytes);
  BOOST_TEST(most_bytes == table.total.most_bytes);
}

BOOST_FIXTURE_TEST_CASE(copies_for_saving_are_what_a_checkpoint_holds, Fixture) {
  config.checkpoint.save_steps = 1;
  for (const mesh::Layout layout : {mesh::Layout{}, mesh::Layout{{Axis::dp_shard, 4}},
                                    mesh::Layout{{Axis::dp_replicate, 2}, {Axis::dp_shard, 2}, {Axis::tp, 2}}}) {
    config.checkpoint.async = false;
    test::set_mesh(config.parallel, layout);
    const MemoryTable plain = plan(layout);
    BOOST_TEST(range_of(plain, Label::snapshot).most_bytes == 0U);
    config.checkpoint.async = true;
    const MemoryTable with_copies = plan(layout);
    BOOST_TEST(with_copies.total.most_bytes - plain.total.most_bytes ==
               range_of(with_copies, Label::snapshot).most_bytes);
    std::size_t copies_bytes = 0;
    const mesh::Place first(valid(), 0);
    for (int rank = 0; rank < layout.size(); ++rank) {
      copies_bytes += plan_ledger(valid(), datasets(), first.peer(WorldRank::from(rank)), {}, process_bytes)
                          .bytes(Label::snapshot, device::Space::pinned);
    }
    const std::size_t saved_bytes = 12 * static_cast<std::size_t>(model::weight_counts(config.model).all);
    BOOST_TEST(copies_bytes >= saved_bytes);  // and what aligns three entries on each rank
    BOOST_TEST(copies_bytes <= saved_bytes + 3 * device::Arena::alignment_bytes * layout.size());
  }
  config.checkpoint.save_steps = 0;
  BOOST_TEST(range_of(plan({}), Label::snapshot).most_bytes == 0U);
}

BOOST_FIXTURE_TEST_CASE(sharding_divides_what_is_stored, Fixture) {
  const MemoryTable whole = plan({});
  const auto num_parameters = static_cast<std::size_t>(model::weight_counts(config.model).all);
  BOOST_TEST(range_of(whole, Label::optimizer).most_bytes == 8 * num_parameters);
  BOOST_TEST(range_of(whole, Label::gradients).most_bytes == 4 * num_parameters);
  BOOST_TEST(range_of(whole, Label::parameters).most_bytes == 6 * num_parameters);  // float32 and bf16
  BOOST_TEST(range_of(whole, Label::unit_buffers).most_bytes == 0U);
  for (const int dp_shard : {2, 4}) {
    const MemoryTable sharded = plan({{Axis::dp_shard, dp_shard}});
    const auto divisor = static_cast<std::size_t>(dp_shard);
    for (const Label label : {Label::optimizer, Label::gradients}) {
      BOOST_TEST(range_of(sharded, label).most_bytes * divisor == range_of(whole, label).most_bytes);
    }
    const std::size_t parameters_bytes = 4 * num_parameters / divisor, copy_bytes = 2 * num_parameters / divisor;
    BOOST_TEST(range_of(sharded, Label::parameters).most_bytes ==
               parameters_bytes + round_up(copy_bytes, device::Arena::alignment_bytes));
    BOOST_TEST(range_of(sharded, Label::unit_buffers).most_bytes > 0U);
    BOOST_TEST(range_of(sharded, Label::activations).most_bytes == range_of(whole, Label::activations).most_bytes);
  }
}

BOOST_FIXTURE_TEST_CASE(evaluation_takes_batches_and_nothing_else, Fixture) {
  const MemoryTable plain = plan({{Axis::dp_shard, 2}, {Axis::sp, 2}});
  test::write_packed_file(folder.file("eval.h5"), test::make_awkward_rows(5, 48, 2), test::small_vocab_size);
  config.data.eval_files = {folder.file("eval.h5")};
  const MemoryTable evaluated = plan({{Axis::dp_shard, 2}, {Axis::sp, 2}});
  for (std::size_t i = 0; i < device::num_labels; ++i) {
    const auto label = static_cast<Label>(i);
    BOOST_TEST_CONTEXT(device::name_of(label)) {
      const std::size_t before = range_of(plain, label).most_bytes, after = range_of(evaluated, label).most_bytes;
      BOOST_TEST((label == Label::batches ? after > before : after == before));
    }
  }
}

/// A data set of one row that is one document, of which nothing is written but its length.
std::string write_long_row(const test::TemporaryFolder& folder, std::int64_t length) {
  const std::string path = folder.file("long.h5");
  io::Hdf5File file = io::Hdf5File::create(path);
  file.create_dataset("/tokens", io::Number::int32, {1, length});
  file.create_dataset("/loss_weight", io::Number::float32, {1, length});
  const auto document = checked_cast<std::int32_t>(length);
  file.create_dataset("/document_lengths", io::Number::int32, {1});
  file.write("/document_lengths", io::Number::int32, {.num_rows = 1}, &document);
  const std::array<std::int64_t, 2> offsets{0, 1};
  file.create_dataset("/document_offsets", io::Number::int64, {2});
  file.write("/document_offsets", io::Number::int64, {.num_rows = 2}, offsets.data());
  for (const char* name : {"format", "tokenizer", "packing_strategy", "source"}) {
    file.write_string(name, std::string(name) == "format" ? "sft-packed" : "none");
  }
  for (const char* name : {"format_version", "num_rows", "num_documents"}) file.write_int(name, 1);
  for (const char* name : {"pad_token_id", "eos_token_id"}) file.write_int(name, 0);
  for (const char* name : {"max_length", "num_tokens", "num_target_tokens"}) file.write_int(name, length);
  file.write_int("vocab_size", test::small_vocab_size);
  file.close();
  return path;
}

BOOST_FIXTURE_TEST_CASE(a_row_of_16_million_tokens_is_counted_in_64_bits, Fixture) {
  constexpr std::int64_t length = std::int64_t{1} << 24, tile_tokens = 4096;
  config.data.train_files = {write_long_row(folder, length)};
  config.train.per_device_train_batch_size = 1;
  config.train.activation_checkpointing = config::ActivationCheckpointing::full;
  config.train.mlp_tile_tokens = tile_tokens;
  const config::Model& m = config.model;
  for (const int sp : {1, 16}) {
    const std::int64_t tokens = length / sp;
    const MemoryTable table = plan({{Axis::sp, sp}});
    // The inputs of the blocks, bf16, and the inverse root of each and of what leaves the last one.
    BOOST_TEST(range_of(table, Label::activations).most_bytes ==
               static_cast<std::size_t>(tokens * (m.num_hidden_layers * (2 * m.hidden_size + 4) + 4)));
    // Of a block: product and attention, the gradient of the product with the middle in its place, what sublayers read
    // and that of the stream; and no MLP of all tokens.
    const std::int64_t qkv = (m.num_attention_heads + 2 * m.num_key_value_heads) * m.head_dim;
    const std::int64_t least = tokens * 2 * (3 * m.hidden_size + 2 * qkv);
    BOOST_TEST(range_of(table, Label::workspace).most_bytes > static_cast<std::size_t>(least));
    config.train.mlp_tile_tokens = 0;
    const MemoryTable whole = plan({{Axis::sp, sp}});
    config.train.mlp_tile_tokens = tile_tokens;
    BOOST_TEST(range_of(whole, Label::workspace).most_bytes - range_of(table, Label::workspace).most_bytes ==
               static_cast<std::size_t>(tokens * 2 * (m.hidden_size + 3 * m.intermediate_size - qkv)));
  }
}

BOOST_AUTO_TEST_CASE(a_table_has_a_line_for_each_label_and_names_the_rank_with_the_most) {
  MemoryTable table;
  for (std::size_t i = 0; i < device::num_labels; ++i) table.labels[i] = {i, i, 0};
  table.labels[static_cast<std::size_t>(Label::batches)] = {std::size_t{1} << 20U, std::size_t{3} << 19U, 5};
  table.total = {std::size_t{5} << 30U, std::size_t{6} << 30U, 7};
  const std::string expected =
      "  memory per rank     least      most\n"
      "  parameters            0 B       0 B\n"
      "  gradients             1 B       1 B\n"
      "  optimizer             2 B       2 B\n"
      "  unit buffers          3 B       3 B\n"
      "  activations           4 B       4 B\n"
      "  workspace             5 B       5 B\n"
      "  communication         6 B       6 B\n"
      "  batches           1.0 MiB   1.5 MiB  rank 5\n"
      "  snapshot              8 B       8 B\n"
      "  process               9 B       9 B\n"
      "  total            5.00 GiB  6.00 GiB  rank 7\n";
  BOOST_TEST(format_memory(table) == expected);

  table.on_gpu = {std::size_t{4} << 30U, std::size_t{4} << 30U, 0};
  table.on_node = {std::size_t{1} << 30U, std::size_t{2} << 30U, 7};
  BOOST_TEST(format_memory(table) == expected +
                                         "  on the GPU       4.00 GiB  4.00 GiB\n"
                                         "  on the node      1.00 GiB  2.00 GiB  rank 7\n");
}

BOOST_AUTO_TEST_CASE(a_plan_for_gpus_says_what_lies_where) {
  Fixture fixture;
  test::set_mesh(fixture.config.parallel, {{Axis::dp_shard, 2}});
  constexpr std::size_t gpu_process_bytes = std::size_t{700} << 20U;
  const auto plan = [&](const Machine& machine) {
    return plan_memory(fixture.valid(), fixture.datasets(), machine, process_bytes);
  };
  const MemoryTable on_cpu = plan({});
  BOOST_TEST(on_cpu.on_gpu.most_bytes == 0u);
  BOOST_TEST(on_cpu.on_node.most_bytes == on_cpu.total.most_bytes);

  const Machine machine{.kind = device::Kind::cuda, .num_threads = 1, .gpu_process_bytes = gpu_process_bytes};
  const MemoryTable on_gpu = plan(machine);
  BOOST_TEST(on_gpu.on_gpu.most_bytes + on_gpu.on_node.most_bytes == on_gpu.total.most_bytes);
  BOOST_TEST(range_of(on_gpu, Label::parameters).most_bytes == range_of(on_cpu, Label::parameters).most_bytes);
  BOOST_TEST(on_gpu.on_gpu.most_bytes > gpu_process_bytes + range_of(on_gpu, Label::parameters).most_bytes);
  BOOST_TEST(range_of(on_gpu, Label::process).least_bytes ==
             process_bytes + rank::later_process_bytes + gpu_process_bytes);
  BOOST_TEST(range_of(on_gpu, Label::communication).most_bytes == 0u);  // NCCL brings its own

  // Copies through the node are in its memory alone.
  fixture.config.device.comm = config::CommChoice::host;
  const MemoryTable copied = plan(machine);
  BOOST_TEST(copied.on_gpu.most_bytes == on_gpu.on_gpu.most_bytes);
  BOOST_TEST(range_of(copied, Label::communication).most_bytes ==
             copied.on_node.most_bytes - on_gpu.on_node.most_bytes);
  BOOST_TEST(range_of(copied, Label::communication).most_bytes >= std::size_t{16} << 20U);

  // A CUDA-aware MPI needs what MPI needs on CPUs, on the GPU.
  fixture.config.device.comm = config::CommChoice::mpi;
  const MemoryTable by_mpi = plan(machine);
  BOOST_TEST(by_mpi.on_node.most_bytes == on_gpu.on_node.most_bytes);
  BOOST_TEST(range_of(by_mpi, Label::communication).most_bytes == range_of(on_cpu, Label::communication).most_bytes);
}

BOOST_AUTO_TEST_CASE(state_of_a_gpu_in_the_memory_of_its_node) {
  Fixture fixture;
  fixture.config.model.num_hidden_layers = 8;  // more units than windows
  test::set_mesh(fixture.config.parallel, {{Axis::dp_shard, 2}});
  const auto plan = [&](device::Kind kind) {
    return plan_memory(fixture.valid(), fixture.datasets(), {.kind = kind}, process_bytes);
  };
  fixture.config.parallel.zero_stage = 2;
  const MemoryTable on_cpu = plan(device::Kind::cpu), on_gpu = plan(device::Kind::cuda);
  fixture.config.train.offload_optimizer = fixture.config.train.offload_parameters = config::Offload::host;
  const MemoryTable moved = plan(device::Kind::cuda);
  const std::size_t n = static_cast<std::size_t>(model::weight_counts(fixture.config.model).all) / 2;
  const std::size_t windows_bytes = range_of(moved, Label::optimizer).most_bytes - 8 * n;
  BOOST_TEST(moved.on_node.most_bytes - on_gpu.on_node.most_bytes == 12 * n);
  BOOST_TEST(on_gpu.on_gpu.most_bytes - moved.on_gpu.most_bytes == 12 * n - windows_bytes);
  BOOST_TEST(windows_bytes > 0U);
  BOOST_TEST(windows_bytes < 12 * n);
  BOOST_TEST(range_of(moved, Label::parameters).most_bytes == range_of(on_gpu, Label::parameters).most_bytes);

  // At stage 3 the bf16 copy goes too.
  fixture.config.parallel.zero_stage = 3;
  const MemoryTable all_moved = plan(device::Kind::cuda);
  fixture.config.train.offload_optimizer = fixture.config.train.offload_parameters = config::Offload::none;
  const MemoryTable at_stage_3 = plan(device::Kind::cuda);
  BOOST_TEST(all_moved.on_node.most_bytes - at_stage_3.on_node.most_bytes == 14 * n);
  BOOST_TEST(at_stage_3.on_gpu.most_bytes - all_moved.on_gpu.most_bytes == 14 * n - windows_bytes);

  fixture.config.train.offload_optimizer = fixture.config.train.offload_parameters = config::Offload::host;
  fixture.config.parallel.zero_stage = 2;
  BOOST_TEST(plan(device::Kind::cpu).total.most_bytes == on_cpu.total.most_bytes);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::planner
