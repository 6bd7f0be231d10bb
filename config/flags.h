// The flags of a program: a table that is filled in at start. Parsing, --help, the manual page
// (--help=man) and the words that shells complete (--help=words) come from it. It takes `--flag
// value` and `--flag=value`; `--` ends the flags. Used in main, in one thread; the targets must
// outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"

namespace paracord {

class Problems;

class Flags {
 public:
  // `program` and `summary` are, for instance, "paracord train" and "Trains on a cluster on this
  // machine."
  Flags(std::string program, std::string summary);

  // `name` has no dashes, and `value` is how help shows the value ("N", "FILE"). A flag that is not
  // given leaves *out unchanged, so its present value is the default, which help shows.
  void String(std::string name, std::string value, std::string help, std::string* out);
  void String(std::string name, std::string value, std::string help,
              std::optional<std::string>* out);
  // This flag may be given again and again.
  void Strings(std::string name, std::string value, std::string help,
               std::vector<std::string>* out);
  void Integer(std::string name, std::string value, std::string help, int64_t low, int64_t high,
               int64_t* out);
  void Integer(std::string name, std::string value, std::string help, int64_t low, int64_t high,
               std::optional<int64_t>* out);
  void Switch(std::string name, std::string help, bool* out);  // --name, --name=false
  // Declares --version, which prints `text` as a line and wins over all but --help.
  void Version(std::string text) { version_ = std::move(text); }
  // Declares an argument without a flag. Arguments come in the order of these calls.
  void Positional(std::string name, std::string help, std::string* out);
  // Declares one, after all others, that need not be given.
  void OptionalPositional(std::string name, std::string help, std::string* out);

  // Returns INVALID_ARGUMENT with one line a problem: an unknown flag with the nearest known one, a
  // value that is missing or malformed, a flag that is given twice, an argument that is missing or
  // one too many. If --help (-h) or one of its forms is given, everything else is ignored.
  absl::Status Parse(std::span<const std::string> args);
  bool help_wanted() const { return help_wanted_; }
  bool version_wanted() const { return version_wanted_; }
  std::string Help() const;
  std::string ManPage() const;
  // Returns one line for each argument and flag, whose fields are separated by tabs: "--dir", or ""
  // for an argument; the name of its value ("DIR", or "" for a switch); its help.
  std::string Words() const;
  // Parses, and prints the help or the version that is wanted, or the problems after `program`.
  // Returns the exit code to leave with, or nullopt to go on.
  std::optional<int> ParseOrExit(std::span<const std::string> args, const std::string& program,
                                 std::ostream& out, std::ostream& err);

 private:
  using Target = std::variant<std::string*, std::optional<std::string>*, std::vector<std::string>*,
                              int64_t*, std::optional<int64_t>*, bool*>;
  struct Entry {
    std::string name;
    std::string value;  // empty: a switch
    std::string help;
    Target target;
    int64_t low = 0;
    int64_t high = 0;
    bool given = false;
    bool optional = false;  // of a positional argument
  };

  Entry* Find(const std::string& name);
  // Returns "", or why `text` is no value of the flag.
  static std::string NameOf(const Entry& positional);  // "[JOB]" of one that is optional
  static std::string Set(const Entry& entry, const std::string& text);
  static std::string Default(const Entry& entry);
  static std::string HelpOf(const Entry& entry);            // with the default
  std::string NearestFlag(const std::string& shown) const;  // "" if none is near
  // --version, where it is declared, and --help, each with its help.
  std::vector<std::pair<std::string, std::string>> OwnFlags() const;
  void ParsePositional(const std::string& arg, size_t place, Problems& problems);

  const std::string program_;
  const std::string summary_;
  std::vector<Entry> flags_;
  std::vector<Entry> positionals_;
  std::string version_;  // empty: not declared
  bool version_wanted_ = false;
  bool help_wanted_ = false;
  std::string help_form_;  // "", "man" or "words"
};

}  // namespace paracord
