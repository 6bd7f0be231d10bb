#include "config/man_page.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace paracord {
namespace {

// Escapes text for roff, in which a backslash begins a command, a hyphen is no minus, and a line
// must not begin with a dot or an apostrophe.
std::string Roff(const std::string& text) {
  std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
  if (escaped.starts_with(".") || escaped.starts_with("'")) escaped.insert(0, "\\&");
  return absl::StrReplaceAll(escaped, {{"\n.", "\n\\&."}, {"\n'", "\n\\&'"}});
}

struct ExitCodeLine {
  const char* codes;
  const char* meaning;
};
// docs/operate.md lists the same exit codes.
constexpr ExitCodeLine kExitCodes[] = {
    {"0", "done"},
    {"1", "the job failed, or what was printed could not be written"},
    {"2", "configuration"},
    {"3", "a port, a directory or a task is in use"},
    {"4", "version"},
    {"5", "no sound checkpoint"},
    {"6", "diverged"},
    {"143", "left after SIGTERM, SIGINT or SIGHUP"},
    {"200 and above", "a restart may help"},
};

}  // namespace

std::string ManPageText(const ManPage& page) {
  const std::string file = absl::StrReplaceAll(page.name, {{" ", "-"}});
  std::string text =
      absl::StrCat(".TH ", absl::AsciiStrToUpper(Roff(file)), " 1\n.SH NAME\n", Roff(file), " \\- ",
                   Roff(page.summary), "\n.SH SYNOPSIS\n.B ", Roff(page.name), "\n",
                   Roff(page.synopsis), "\n.SH DESCRIPTION\n", Roff(page.description), "\n");
  if (!page.options.empty()) text += ".SH OPTIONS\n";
  for (const auto& [option, what] : page.options) {
    absl::StrAppend(&text, ".TP\n.B ", Roff(option), "\n", Roff(what), "\n");
  }
  text += ".SH EXIT STATUS\n";
  for (const ExitCodeLine& line : kExitCodes) {
    absl::StrAppend(&text, ".TP\n.B ", line.codes, "\n", Roff(line.meaning), "\n");
  }
  if (!page.see_also.empty()) text += ".SH SEE ALSO\n";
  for (const std::string& other : page.see_also) {
    absl::StrAppend(&text, ".BR ", Roff(other), " (1)\n");
  }
  return text;
}

}  // namespace paracord
