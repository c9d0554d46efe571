// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where HDF5 1.10 to 1.14 differ. Elsewhere the sources use what all of them have.

#include <hdf5.h>

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

namespace sft::io {

/// A driver class without functions. From 1.13 on it names the version of its layout, and itself by a number: the first
/// of those that are for drivers outside of the library.
inline H5FD_class_t make_empty_driver_class() {
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = H5_VFD_RESERVED;
#endif
  return driver;
}

}  // namespace sft::io
