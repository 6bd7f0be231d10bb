#include "cli/terminal.h"

#include <sys/ioctl.h>

#include <cstdlib>
#include <cstring>
#include <iostream>

#include "common/one_line.h"

namespace paracord {

TerminalStream::TerminalStream(std::ostream& to, bool at_once)
    : std::ostream(nullptr), buffer_(to) {
  rdbuf(&buffer_);
  if (at_once) setf(std::ios::unitbuf);
}

TerminalStream::~TerminalStream() { flush(); }

// Returns false if the text could not be written.
bool TerminalStream::Buffer::Pass(size_t count) {
  to_ << TerminalText(std::string_view(pending_).substr(0, count));
  pending_.erase(0, count);
  return to_.good();
}

int TerminalStream::Buffer::overflow(int character) {
  if (character == traits_type::eof()) return traits_type::not_eof(character);
  const char one = traits_type::to_char_type(character);
  return xsputn(&one, 1) == 1 ? character : traits_type::eof();
}

std::streamsize TerminalStream::Buffer::xsputn(const char* text, std::streamsize count) {
  pending_.append(text, static_cast<size_t>(count));
  const size_t end = pending_.rfind('\n');
  return end == std::string::npos || Pass(end + 1) ? count : 0;
}

int TerminalStream::Buffer::sync() {
  const bool passed = Pass(pending_.size());
  return passed && to_.flush() ? 0 : -1;
}

size_t TerminalColumns(int descriptor) {
  winsize size{};
  const bool told = ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return told ? size.ws_col : 80;
}

bool ColoursWanted() {
  const char* const none = std::getenv("NO_COLOR");
  const char* const kind = std::getenv("TERM");
  return (none == nullptr || *none == '\0') && kind != nullptr && std::strcmp(kind, "dumb") != 0;
}

std::ostream& TerminalOut() {
  static TerminalStream out(std::cout);
  return out;
}

std::ostream& TerminalErr() {
  static TerminalStream err(std::cerr, /*at_once=*/true);
  return err;
}

}  // namespace paracord
