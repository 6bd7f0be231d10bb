// The flags of a program: a table filled in at start, from which parsing, --help, the manual page
// (--help=man) and what shells complete (--help=words) come.
// Takes `--flag value` and `--flag=value`; `--` ends the flags. Used in main, in one thread; what
// it points to outlives it.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"

namespace paracord {

class Flags {
 public:
  // "paracord train", "Trains on a cluster on this machine."
  Flags(std::string program, std::string summary);

  // `name` without dashes, `value` as help shows it ("N", "FILE"). An unset flag leaves *out alone,
  // so what it holds now is the default, and help shows it.
  void String(std::string name, std::string value, std::string help, std::string* out);
  void String(std::string name, std::string value, std::string help,
              std::optional<std::string>* out);
  // May be given again and again.
  void Strings(std::string name, std::string value, std::string help,
               std::vector<std::string>* out);
  void Integer(std::string name, std::string value, std::string help, int64_t low, int64_t high,
               int64_t* out);
  void Integer(std::string name, std::string value, std::string help, int64_t low, int64_t high,
               std::optional<int64_t>* out);
  void Switch(std::string name, std::string help, bool* out);  // --name, --name=false
  // An argument without a flag, in the order of these calls.
  void Positional(std::string name, std::string help, std::string* out);

  // INVALID_ARGUMENT with one line a problem: unknown flag with the nearest known, missing or
  // malformed value, a flag given twice, a positional missing or too many. With --help (-h) or one
  // of its forms nothing else counts.
  absl::Status Parse(std::span<const std::string> args);
  bool help_wanted() const { return help_wanted_; }
  std::string Help() const;
  std::string ManPage() const;
  // One line for each argument and flag, with tabs between its parts: "--dir", or "" for an
  // argument; what its value is called ("DIR", "" for a switch); what it is for.
  std::string Words() const;
  // Parses; prints the help that is wanted, or what is wrong after `program`, and gives the exit
  // code to leave with.
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
  };

  Entry* Find(const std::string& name);
  // "" or what is wrong with `text`.
  static std::string Set(const Entry& entry, const std::string& text);
  static std::string Default(const Entry& entry);
  static std::string HelpOf(const Entry& entry);            // with the default
  std::string NearestFlag(const std::string& shown) const;  // "" if none is near

  const std::string program_;
  const std::string summary_;
  std::vector<Entry> flags_;
  std::vector<Entry> positionals_;
  bool help_wanted_ = false;
  std::string help_form_;  // "", "man" or "words"
};

}  // namespace paracord
