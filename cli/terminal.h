// The standard output and the standard error of commands. Text from files and other processes
// (names of tasks, variables and paths, messages) never reaches a terminal with control characters,
// which could move the cursor, overwrite text, or type for the user. Used in main's thread; other
// threads write whole lines to std::cerr, through TerminalText.
#pragma once

#include <cstddef>
#include <ostream>
#include <streambuf>
#include <string>

namespace paracord {

// Passes text on to another stream through TerminalText, in whole lines. An incomplete line is
// passed on when this stream is flushed or destroyed.
class TerminalStream : public std::ostream {
 public:
  // `to` must outlive the stream. With `at_once` the stream is flushed after every output.
  explicit TerminalStream(std::ostream& to, bool at_once = false);
  ~TerminalStream() override;

 private:
  class Buffer : public std::streambuf {
   public:
    explicit Buffer(std::ostream& to) : to_(to) {}

   protected:
    int overflow(int character) override;
    std::streamsize xsputn(const char* text, std::streamsize count) override;
    int sync() override;

   private:
    bool Pass(size_t count);

    std::ostream& to_;
    std::string pending_;
  };
  Buffer buffer_;
};

// Returns how many columns the terminal at a descriptor has now; 80 if that is unknown.
size_t TerminalColumns(int descriptor);

// Whether colours may be written: NO_COLOR is unset or empty, and TERM is set and not "dumb".
bool ColoursWanted();

// The standard output (buffered) and the standard error (not buffered) of this process.
std::ostream& TerminalOut();
std::ostream& TerminalErr();

}  // namespace paracord
