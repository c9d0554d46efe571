// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages for the person who runs the program. Only the rank that owns the console prints. Many hold words of files
// that strangers wrote: whatever these are, a terminal gets printable text (printable).

#include <string>
#include <string_view>

namespace sft {

/// Sets who this process is in messages; rank 0 owns the console. Call once after MPI started.
void set_log_rank(int rank);
[[nodiscard]] int log_rank();

/// One line on standard output, or several, from rank 0 only.
void log_info(const std::string& line);
/// log_info for text with colours: it is printed as it is, so what it holds of files must be printable already.
void log_styled(const std::string& line);
/// Whether log_event tells the time; until this is called it does not.
void set_log_times(bool are_shown);
/// What log_event begins with: "2026-11-22 22:41:07 ", the local time, or nothing.
[[nodiscard]] std::string log_time();
/// log_info for what has just happened, with the time in front where set_log_times asked for it.
void log_event(const std::string& line);
/// Whether a line could not be written to standard output, such as to a full disk.
[[nodiscard]] bool has_lost_output();
/// One line on standard error, from rank 0 only, prefixed `warning: `.
void log_warning(const std::string& line);
/// One line on standard error, from any rank, prefixed `PROGRAM: error: ` with the name that the program was started
/// by.
void log_error(const std::string& line);

/// Valid UTF-8 stays; control characters and stray bytes come out as \xNN, a newline as \n. `keep_layout`: newlines and
/// tabs stay. What is printable already stays as it is.
[[nodiscard]] std::string printable(std::string_view text, bool keep_layout);

}  // namespace sft
