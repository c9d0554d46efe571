// SPDX-License-Identifier: Apache-2.0
// A source for sft_test_headers, which exists for its precompiled header.
