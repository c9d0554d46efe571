// SPDX-License-Identifier: Apache-2.0
// A source for sft_headers, which exists for its precompiled header.
