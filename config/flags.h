// The flags of a program. The program declares its flags at its start; parsing, --help, the manual
// page (--help=man) and the words for shell completion (--help=words) follow from the declarations.
// Accepts `--flag value` and `--flag=value`; `--` ends the flags. Used in main's thread; the
// targets must outlive the Flags.
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

  // String, Strings, Integer and Switch declare a flag. `name` has no dashes; `value` is the
  // placeholder in help ("N", "FILE"). A flag that is not given leaves *out unchanged: the value
  // before Parse is the default. Help shows the default of an integer or of a string that is not
  // empty; an optional has none.
  void String(std::string name, std::string value, std::string help, std::string* out);
  void String(std::string name, std::string value, std::string help,
              std::optional<std::string>* out);
  // Declares a flag that may be given several times; *out gets all values.
  void Strings(std::string name, std::string value, std::string help,
               std::vector<std::string>* out);
  void Integer(std::string name, std::string value, std::string help, int64_t low, int64_t high,
               int64_t* out);
  void Integer(std::string name, std::string value, std::string help, int64_t low, int64_t high,
               std::optional<int64_t>* out);
  void Switch(std::string name, std::string help, bool* out);  // --name, --name=false
  // Declares --version, which prints `text` and a line break. If --version is given, Parse reports
  // no problems.
  void Version(std::string text) { version_ = std::move(text); }
  // Declares an argument without a flag. Arguments are given in the order of their declarations.
  void Positional(std::string name, std::string help, std::string* out);
  // Declares an argument that may be left out. Called after all calls of Positional.
  void OptionalPositional(std::string name, std::string help, std::string* out);

  // INVALID_ARGUMENT has one line for each problem: an unknown flag (with the nearest known name),
  // a missing or malformed value, a flag of a single value that is given twice, a missing or
  // superfluous argument. After --help, in any form, or -h, Parse looks at no further argument and
  // reports no problem.
  absl::Status Parse(std::span<const std::string> args);
  bool help_wanted() const { return help_wanted_; }
  bool version_wanted() const { return version_wanted_; }
  std::string Help() const;
  std::string ManPage() const;
  // Returns a line for each argument and flag, with three fields separated by tabs: the flag
  // ("--dir"), or "" for an argument; the placeholder of the flag's value ("DIR"; "" for a switch),
  // or the name of the argument; the help.
  std::string Words() const;
  // Parses. Then prints help or version to `out` if asked for, or else the problems, after
  // `program`, to `err`. Returns the exit code to leave with, or nullopt to go on.
  std::optional<int> ParseOrExit(std::span<const std::string> args, const std::string& program,
                                 std::ostream& out, std::ostream& err);

 private:
  using Target = std::variant<std::string*, std::optional<std::string>*, std::vector<std::string>*,
                              int64_t*, std::optional<int64_t>*, bool*>;
  struct Entry {
    std::string name;
    std::string value;  // empty for a switch or an argument
    std::string help;
    Target target;
    int64_t low = 0;
    int64_t high = 0;
    bool given = false;
    bool optional = false;  // an argument that may be left out
  };

  Entry* Find(const std::string& name);
  static std::string NameOf(const Entry& positional);  // "[JOB]" if optional
  // Returns "", or why `text` is no value of the flag.
  static std::string Set(const Entry& entry, const std::string& text);
  static std::string Default(const Entry& entry);
  static std::string HelpOf(const Entry& entry);            // the help, with the default
  std::string NearestFlag(const std::string& shown) const;  // "" if none is near
  // Returns --help, and --version if it is declared, each with its help.
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
