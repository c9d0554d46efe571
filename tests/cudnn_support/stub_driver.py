#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes C of a libcuda for machines without a GPU: every function of the toolkit's stub library is there; there is no
device, and what cuDNN compiles can be loaded, though never launched. With it cuDNN plans for a GPU that is described to it.

usage: stub_driver.py STUB_LIBRARY OUTPUT.c
"""

import subprocess
import sys

# Those that answer more than "done".
WRITTEN = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

enum { done = 0, no_device = 100, not_found = 500 };
static char thing[4096]; /* that handles of modules, kernels and variables point into */

int cuInit(unsigned flags) { return no_device; }
int cuDriverGetVersion(int* version) { *version = 13000; return done; }
int cuDeviceGetCount(int* count) { *count = 0; return done; }
int cuGetExportTable(void) { return not_found; }
int cuGetErrorName(int error, const char** text) { *text = "an error of the stub"; return done; }
int cuGetErrorString(int error, const char** text) { *text = "an error of the stub"; return done; }

/* The newest function of a name, as the runtime asks for it. */
static int look_up(const char* name, void** function) {
  char versioned[256];
  for (int version = 4; version >= 2; --version) {
    snprintf(versioned, sizeof versioned, "%s_v%d", name, version);
    if ((*function = dlsym(RTLD_DEFAULT, versioned))) return done;
  }
  return (*function = dlsym(RTLD_DEFAULT, name)) ? done : not_found;
}
int cuGetProcAddress(const char* name, void** function, int version, unsigned long flags) {
  return look_up(name, function);
}
int cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long flags, int* status) {
  const int result = look_up(name, function);
  if (status) *status = result ? 1 : 0;
  return result;
}

int cuLibraryLoadData(void** library) { *library = thing; return done; }
int cuLibraryGetKernel(void** kernel) { *kernel = thing; return done; }
int cuLibraryGetModule(void** module) { *module = thing; return done; }
int cuKernelGetFunction(void** function) { *function = thing; return done; }
int cuModuleLoadData(void** module) { *module = thing; return done; }
int cuModuleLoadDataEx(void** module) { *module = thing; return done; }
int cuModuleGetFunction(void** function) { *function = thing; return done; }
int cuLibraryGetGlobal(void** place, unsigned long* bytes) {
  if (place) *place = thing;
  if (bytes) *bytes = 8;
  return done;
}
int cuModuleGetGlobal_v2(void** place, unsigned long* bytes) { return cuLibraryGetGlobal(place, bytes); }
int cuKernelGetAttribute(int* value) { *value = 0; return done; }
int cuFuncGetAttribute(int* value) { *value = 0; return done; }
"""


def main():
    stub, output = sys.argv[1:]
    listed = subprocess.run(["nm", "-D", "--defined-only", stub], check=True, capture_output=True, text=True).stdout
    names = sorted({fields[2] for fields in map(str.split, listed.splitlines())
                    if len(fields) == 3 and fields[2].startswith("cu")})
    rest = [name for name in names if f"int {name}(" not in WRITTEN]
    with open(output, "w") as file:
        file.write(WRITTEN)
        file.writelines(f"int {name}(void) {{ return done; }}\n" for name in rest)


if __name__ == "__main__":
    main()
