// SPDX-License-Identifier: Apache-2.0
#pragma once
// Included before everything else where kernels are compiled for the host: calls of memcpy and memset in kernels are
// checked like loads and stores.

#include <stddef.h>

extern "C" {
void* memcpy(void* destination, const void* source, size_t bytes) noexcept __asm__("sft_emulation_memcpy");
void* memset(void* destination, int value, size_t bytes) noexcept __asm__("sft_emulation_memset");
}
