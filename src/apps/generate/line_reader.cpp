// SPDX-License-Identifier: Apache-2.0
#include "line_reader.hpp"

#include <histedit.h>
#include <langinfo.h>
#include <unistd.h>

#include <clocale>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <string_view>

#include "sft/core/ensure.hpp"
#include "sft/core/stop_signals.hpp"

namespace sft::apps {

namespace {

/// libedit reads characters by the locale. What is typed becomes tokens, which are made of UTF-8.
void take_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(::nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

struct LineReader::Editor {
  Editor() {
    take_utf8();
    history = ::history_init();
    edit = ::el_init("sft-generate", stdin, stdout, stderr);
    SFT_ENSURE(history != nullptr && edit != nullptr, "libedit starts on a terminal");
    HistEvent event;
    ::history(history, &event, H_SETSIZE, 1000);
    ::history(history, &event, H_SETUNIQUE, 1);
    ::el_set(edit, EL_CLIENTDATA, this);
    ::el_set(
        edit, EL_PROMPT, +[](EditLine* e) { return of(e).prompt.data(); });
    ::el_set(edit, EL_EDITOR, "emacs");
    ::el_set(edit, EL_SIGNAL, 1);  // a line that is edited survives Ctrl-Z and a new size of the window
    ::el_set(edit, EL_HIST, ::history, history);
    // While a line is edited Ctrl-C and Ctrl-Z are keys like any other, no signals.
    ::el_set(edit, EL_SETTY, "-d", "-isig", nullptr);
    ::el_set(edit, EL_ADDFN, "interrupt", "leave the line", interrupt);
    ::el_set(edit, EL_ADDFN, "suspend", "stop until the shell goes on", suspend);
    ::el_set(edit, EL_BIND, "^C", "interrupt", nullptr);
    ::el_set(edit, EL_BIND, "^Z", "suspend", nullptr);
    ::el_set(edit, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  }
  ~Editor() {
    ::el_end(edit);
    ::history_end(history);
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  static Editor& of(EditLine* edit) {
    void* self = nullptr;
    ::el_get(edit, EL_CLIENTDATA, &self);
    return *static_cast<Editor*>(self);
  }
  static unsigned char interrupt(EditLine* edit, int /*key*/) {
    of(edit).is_interrupted = true;
    return CC_NEWLINE;
  }

  static unsigned char suspend(EditLine* /*edit*/, int /*key*/) {
    ::kill(0, SIGTSTP);
    return CC_NORM;
  }

  Line read() {
    const SignalsAsAtStart signals;  // libedit handles them, and lets them end its read
    is_interrupted = false;
    int count = 0;
    ::el_set(edit, EL_PREP_TERM, 1);  // before the prompt: what is typed once it is seen are keys
    const char* typed = ::el_gets(edit, &count);
    std::string text(typed == nullptr ? "" : typed, typed == nullptr || count < 0 ? 0 : count);
    if (is_interrupted) {
      std::fputs("^C\n", stdout);
      return {Ending::interrupt, text};
    }
    if (text.empty()) {
      std::fputs("\n", stdout);
      return {Ending::end_of_input, ""};
    }
    if (text.back() == '\n') text.pop_back();
    HistEvent event;
    if (!text.empty()) ::history(history, &event, H_ENTER, text.c_str());
    return {Ending::newline, text};
  }

  History* history = nullptr;
  EditLine* edit = nullptr;
  std::string prompt;
  bool is_interrupted = false;
};

LineReader::LineReader() {
  if (::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0) editor_ = std::make_unique<Editor>();
}

LineReader::~LineReader() = default;

LineReader::Line LineReader::read(const char* prompt) {
  if (editor_ != nullptr) {
    editor_->prompt = prompt;
    return editor_->read();
  }
  std::string line;
  if (!std::getline(std::cin, line)) return {Ending::end_of_input, ""};
  return {Ending::newline, line};
}

}  // namespace sft::apps
