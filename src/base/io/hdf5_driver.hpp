// SPDX-License-Identifier: Apache-2.0
#pragma once
// A file driver for the HDF5 library that never lets it meet a failed write. The library's own POSIX driver passes an
// ENOSPC on, and the library then crashes when it ends (use of a freed file in H5F__close_cb). This one notes the first
// failure for us and tells the library that all is well; we ask after every write and after the close. It also notes
// the sources of virtual datasets that the library could not use: the library reads their part as the fill value. And
// it checks what it reads: bytes of a sealed file against the seal, global heaps of others for what hangs the library.
// It opens no other file that a file leads to but those that it may have.

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "descriptor.hpp"
#include "sealed_bytes.hpp"
#include "sft/io/hdf5.hpp"

namespace sft::io {

/// What went wrong with a file and its sources, and which sources it may have.
struct IoStatus {
  Sources sources = Sources::none;
  std::string path;                                ///< of the file itself
  std::shared_ptr<Descriptor> opened;              ///< of it, where it is open already: the driver takes it over
  int first_errno = 0;                             ///< what the system said first of the file; 0 while nothing failed
  bool has_shortened = false;                      ///< bytes are gone that were there when it was opened
  std::string damage;                              ///< which bytes are not those that were written; "" while none
  std::map<std::string, std::string> bad_sources;  ///< file name -> why it could not be used

  void note(int value) {
    if (first_errno == 0) first_errno = value;
  }
};

/// Makes the file opened with `access_properties` use the driver, and the sources that the library opens for it. Its
/// own bytes come through `seal`, unless that is null.
void set_noting_driver(hid_t access_properties, const std::shared_ptr<IoStatus>& status,
                       const std::shared_ptr<SealedBytes>& seal);

/// Whether these bytes can be the begin of a global heap's collection. Global heaps hold the texts of variable length
/// of HDF5 files. They carry no checksum, and the library (1.10 at least) never ends when it meets a damaged one, so
/// the driver looks at each before the library does.
[[nodiscard]] bool begins_global_heap(const char* bytes, std::size_t size);

/// Why the collection of a global heap that begins at `address` of an open file cannot be what HDF5 wrote there; ""
/// when it can. (HDF5 File Format Specification 3.0, III.E "Disk Format: Level 1E - Global Heap".)
[[nodiscard]] std::string damage_of_global_heap(int descriptor, std::uint64_t address);

}  // namespace sft::io
