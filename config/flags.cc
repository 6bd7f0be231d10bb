#include "config/flags.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/exit_code.h"
#include "common/one_line.h"
#include "config/json_fields.h"
#include "config/man_page.h"
#include "config/nearest.h"

namespace paracord {
namespace {

// Returns the left column of help: "--ps N".
std::string Shown(const std::string& name, const std::string& value) {
  return absl::StrCat("--", name, value.empty() ? "" : " ", value);
}

}  // namespace

Flags::Flags(std::string program, std::string summary)
    : program_(std::move(program)), summary_(std::move(summary)) {}

void Flags::String(std::string name, std::string value, std::string help, std::string* out) {
  flags_.push_back({std::move(name), std::move(value), std::move(help), out});
}

void Flags::String(std::string name, std::string value, std::string help,
                   std::optional<std::string>* out) {
  flags_.push_back({std::move(name), std::move(value), std::move(help), out});
}

void Flags::Strings(std::string name, std::string value, std::string help,
                    std::vector<std::string>* out) {
  flags_.push_back({std::move(name), std::move(value), std::move(help), out});
}

void Flags::Integer(std::string name, std::string value, std::string help, int64_t low,
                    int64_t high, int64_t* out) {
  flags_.push_back({std::move(name), std::move(value), std::move(help), out, low, high});
}

void Flags::Integer(std::string name, std::string value, std::string help, int64_t low,
                    int64_t high, std::optional<int64_t>* out) {
  flags_.push_back({std::move(name), std::move(value), std::move(help), out, low, high});
}

void Flags::Switch(std::string name, std::string help, bool* out) {
  flags_.push_back({std::move(name), "", std::move(help), out});
}

void Flags::Positional(std::string name, std::string help, std::string* out) {
  positionals_.push_back({std::move(name), "", std::move(help), out});
}

void Flags::OptionalPositional(std::string name, std::string help, std::string* out) {
  Positional(std::move(name), std::move(help), out);
  positionals_.back().optional = true;
}

std::string Flags::NameOf(const Entry& positional) {
  return positional.optional ? absl::StrCat("[", positional.name, "]") : positional.name;
}

Flags::Entry* Flags::Find(const std::string& name) {
  for (Entry& entry : flags_) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

std::string Flags::Set(const Entry& entry, const std::string& text) {
  if (auto* const* out = std::get_if<bool*>(&entry.target)) {
    if (text != "true" && text != "false") return "must be true or false";
    **out = text == "true";
    return "";
  }
  if (text.empty()) return "must not be empty";
  if (auto* const* out = std::get_if<std::string*>(&entry.target)) {
    **out = text;
  } else if (auto* const* optional = std::get_if<std::optional<std::string>*>(&entry.target)) {
    **optional = text;
  } else if (auto* const* strings = std::get_if<std::vector<std::string>*>(&entry.target)) {
    (*strings)->push_back(text);
  } else {
    int64_t number = 0;
    if (!absl::SimpleAtoi(text, &number) || number < entry.low || number > entry.high) {
      return absl::StrCat("must be an integer from ", entry.low, " to ", entry.high);
    }
    if (auto* const* integer = std::get_if<int64_t*>(&entry.target)) **integer = number;
    if (auto* const* integer = std::get_if<std::optional<int64_t>*>(&entry.target)) {
      **integer = number;
    }
  }
  return "";
}

std::string Flags::Default(const Entry& entry) {
  if (auto* const* out = std::get_if<std::string*>(&entry.target)) return **out;
  if (auto* const* out = std::get_if<int64_t*>(&entry.target)) return absl::StrCat(**out);
  return "";
}

std::string Flags::NearestFlag(const std::string& shown) const {
  const std::string name = shown.substr(std::min(shown.size(), shown.find_first_not_of('-')));
  std::vector<std::string_view> known = {"help"};
  if (!version_.empty()) known.push_back("version");
  for (const Entry& entry : flags_) known.push_back(entry.name);
  return NearestName(name, known);
}

std::vector<std::pair<std::string, std::string>> Flags::OwnFlags() const {
  std::vector<std::pair<std::string, std::string>> own;
  if (!version_.empty()) own.emplace_back("--version", "print the version and the protocol");
  own.emplace_back("--help", "print this");
  return own;
}

void Flags::ParsePositional(const std::string& arg, size_t place, Problems& problems) {
  if (place >= positionals_.size()) {
    problems.Add("", absl::StrCat("unexpected argument ", JsonExcerpt(arg)));
    return;
  }
  Entry& entry = positionals_[place];
  entry.given = true;
  const std::string problem = Set(entry, arg);
  if (!problem.empty()) problems.Add(entry.name, problem);
}

absl::Status Flags::Parse(std::span<const std::string> args) {
  Problems problems;
  size_t positional = 0;
  bool flags_ended = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (flags_ended || !absl::StartsWith(arg, "-") || arg == "-") {
      ParsePositional(arg, positional++, problems);
      continue;
    }
    if (arg == "--") {
      flags_ended = true;
      continue;
    }
    if (arg == "--help" || arg == "-h" || arg == "--help=man" || arg == "--help=words") {
      help_wanted_ = true;
      help_form_ = arg.substr(std::min(arg.size(), std::string("--help=").size()));
      return absl::OkStatus();
    }
    if (arg == "--version" && !version_.empty()) {
      version_wanted_ = true;
      continue;
    }
    const size_t equals = arg.find('=');
    const std::string shown = arg.substr(0, equals);
    Entry* entry = absl::StartsWith(arg, "--") ? Find(shown.substr(2)) : nullptr;
    if (entry == nullptr) {
      const std::string nearest = NearestFlag(shown);
      problems.Add(shown, nearest.empty()
                              ? "unknown flag; --help lists them"
                              : absl::StrCat("unknown flag; did you mean `--", nearest, "`?"));
      // The next argument is probably the value of the misspelled flag, so it is skipped.
      const Entry* const meant = Find(nearest);
      const bool takes = meant != nullptr && !meant->value.empty() && equals == std::string::npos;
      if (takes && i + 1 < args.size() && !absl::StartsWith(args[i + 1], "--")) ++i;
      continue;
    }
    const bool repeats = std::holds_alternative<std::vector<std::string>*>(entry->target);
    if (std::exchange(entry->given, true) && !repeats) problems.Add(shown, "is given twice");
    std::string value = "true";
    if (equals != std::string::npos) {
      value = arg.substr(equals + 1);
    } else if (!entry->value.empty()) {
      if (i + 1 == args.size() || absl::StartsWith(args[i + 1], "--")) {
        problems.Add(shown, absl::StrCat("needs a value, ", entry->value));
        continue;
      }
      value = args[++i];
    }
    const std::string problem = Set(*entry, value);
    if (!problem.empty()) problems.Add(shown, absl::StrCat(problem, ", is ", JsonExcerpt(value)));
  }
  if (version_wanted_) return absl::OkStatus();
  for (; positional < positionals_.size(); ++positional) {
    if (positionals_[positional].optional) continue;
    problems.Add(positionals_[positional].name, "is missing");
  }
  return problems.ToStatus();
}

std::string Flags::HelpOf(const Entry& entry) {
  const std::string value = Default(entry);
  return value.empty() ? entry.help : absl::StrCat(entry.help, " (default ", value, ")");
}

std::string Flags::ManPage() const {
  paracord::ManPage page;
  page.name = program_;
  page.summary = summary_.substr(0, summary_.find(". "));
  std::replace(page.summary.begin(), page.summary.end(), '\n', ' ');
  if (page.summary.ends_with(".")) page.summary.pop_back();
  for (const Entry& entry : positionals_) absl::StrAppend(&page.synopsis, NameOf(entry), " ");
  page.synopsis += "[flags]";
  page.description = summary_;
  for (const Entry& entry : positionals_) page.options.emplace_back(entry.name, entry.help);
  for (const Entry& entry : flags_) {
    page.options.emplace_back(Shown(entry.name, entry.value), HelpOf(entry));
  }
  for (const auto& own : OwnFlags()) page.options.push_back(own);
  return ManPageText(page);
}

std::string Flags::Words() const {
  std::string text;
  for (const Entry& entry : positionals_) {
    absl::StrAppend(&text, "\t", entry.name, "\t", entry.help, "\n");
  }
  for (const Entry& entry : flags_) {
    absl::StrAppend(&text, "--", entry.name, "\t", entry.value, "\t", HelpOf(entry), "\n");
  }
  for (const auto& [flag, help] : OwnFlags()) absl::StrAppend(&text, flag, "\t\t", help, "\n");
  return text;
}

std::string Flags::Help() const {
  std::string text = absl::StrCat("usage: ", program_);
  for (const Entry& entry : positionals_) absl::StrAppend(&text, " ", NameOf(entry));
  absl::StrAppend(&text, flags_.empty() ? "" : " [flags]", "\n", summary_, "\n");
  size_t width = OwnFlags().front().first.size();
  for (const Entry& entry : positionals_) width = std::max(width, entry.name.size());
  for (const Entry& entry : flags_) {
    width = std::max(width, Shown(entry.name, entry.value).size());
  }
  auto line = [&](const std::string& left, const std::string& right) {
    absl::StrAppend(&text, "  ", left, std::string(width - left.size() + 2, ' '), right, "\n");
  };
  if (!positionals_.empty()) text += "\n";
  for (const Entry& entry : positionals_) line(entry.name, entry.help);
  text += "\n";
  for (const Entry& entry : flags_) {
    line(Shown(entry.name, entry.value), HelpOf(entry));
  }
  for (const auto& [flag, help] : OwnFlags()) line(flag, help);
  return text;
}

std::optional<int> Flags::ParseOrExit(std::span<const std::string> args, const std::string& program,
                                      std::ostream& out, std::ostream& err) {
  const absl::Status parsed = Parse(args);
  if (parsed.ok() && !help_wanted_ && !version_wanted_) return std::nullopt;
  if (version_wanted_ && !help_wanted_) {
    out << version_ << "\n";
    return static_cast<int>(ExitCode::kDone);
  }
  if (help_wanted_) {
    out << (help_form_ == "man" ? ManPage() : help_form_ == "words" ? Words() : Help());
    return static_cast<int>(ExitCode::kDone);
  }
  err << program << ": " << ForTerminal(std::string(parsed.message())) << "\n";
  return static_cast<int>(ExitCode::kConfiguration);
}

}  // namespace paracord
