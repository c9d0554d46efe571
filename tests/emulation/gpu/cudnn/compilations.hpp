// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace sft::emulation {

/// Plans that the emulated cuDNN has made of graphs so far, rather than of what a plan was stored as.
[[nodiscard]] long cudnn_compilations();

}  // namespace sft::emulation
