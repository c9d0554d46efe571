#define BOOST_TEST_MODULE ops
#include <boost/test/unit_test.hpp>

#include <string>

#include "sft/core/error.hpp"
#include "sft/device/factory.hpp"
#include "sft/ops/factory.hpp"

namespace sft::ops {
namespace {

/// A device of another kind; nothing else of it is ever asked.
class CudaDevice final : public device::Device {
 public:
  [[nodiscard]] device::Kind kind() const override { return device::Kind::cuda; }
  [[nodiscard]] std::string description() const override { return "none"; }
  [[nodiscard]] Block allocate(std::size_t) override { return {}; }
  [[nodiscard]] Block allocate_pinned(std::size_t) override { return {}; }
  [[nodiscard]] std::unique_ptr<device::Stream> make_stream() override { return {}; }
  [[nodiscard]] std::unique_ptr<device::Event> make_event() override { return {}; }
  void copy(void*, const void*, std::size_t, device::Stream&) override {}
  void fill_zero(void*, std::size_t, device::Stream&) override {}
};

}  // namespace

BOOST_AUTO_TEST_CASE(makes_a_cpu_backend_on_the_given_stream) {
  const auto device = device::make_device(device::Kind::cpu, 0, 1);
  const auto stream = device->make_stream();
  const auto backend = make_backend(*device, *stream);
  BOOST_TEST(&backend->stream() == stream.get());
  BOOST_TEST(ops::is_built(device::Kind::cpu));
  const std::size_t least = workspace_bytes(device::Kind::cpu, {});
  BOOST_TEST(least > 0u);
  const WorkspaceNeeds long_rows{.num_keys = 1 << 20, .longest_lane = 1 << 18, .num_kv_heads = 8, .head_dim = 128};
  BOOST_TEST(workspace_bytes(device::Kind::cpu, long_rows) > least);
  BOOST_TEST(std::string(cpu_instruction_set()).size() > 0u);
}

BOOST_AUTO_TEST_CASE(an_absent_backend_is_a_configuration_error_that_says_what_to_set) {
  const auto cpu = device::make_device(device::Kind::cpu, 0, 1);
  const auto stream = cpu->make_stream();
  CudaDevice device;
  BOOST_TEST(!ops::is_built(device::Kind::cuda));
  BOOST_CHECK_EXCEPTION((void)make_backend(device, *stream), Error, [](const Error& error) {
    return error.status() == ExitStatus::configuration &&
           std::string(error.what()).find("no CUDA kernels") != std::string::npos &&
           std::string(error.what()).find("backend = cpu") != std::string::npos;
  });
}

}  // namespace sft::ops
