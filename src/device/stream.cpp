#include <stdexcept>

#include "sft/device/device.hpp"

namespace sft::device {

void Stream::push(std::unique_ptr<Pending>) { throw std::logic_error("only CPU streams hold pending host work"); }

}  // namespace sft::device
