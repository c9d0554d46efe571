#pragma once
// A file driver for the HDF5 library that never lets it meet a failed write. The library's own POSIX driver passes an
// ENOSPC on, and the library then crashes when it ends (use of a freed file in H5F__close_cb). This one notes the first
// failure for us and tells the library that all is well; we ask after every write and after the close.

#include <hdf5.h>

namespace sft::io {

/// What the system said first; 0 while nothing failed. Outlives the files opened with it.
struct IoStatus {
  int first_errno = 0;

  void note(int value) {
    if (first_errno == 0) first_errno = value;
  }
};

/// Makes the files opened with `access_properties` use the driver. Files that the library opens on its own (sources of
/// virtual datasets) use it too, for reading, without a status.
void set_noting_driver(hid_t access_properties, IoStatus& status);

}  // namespace sft::io
