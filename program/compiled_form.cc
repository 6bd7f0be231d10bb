#include "program/compiled_form.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/kernel_file.h"
#include "common/sha256.h"

namespace paracord {
namespace {

// Environment variables read by compilers and plug-ins. Those in kFlags hold flags, or the name of
// a file with flags.
constexpr const char* kFlags[] = {"XLA_FLAGS", "TF_XLA_FLAGS"};
constexpr const char* kOfCompiler[] = {"XLA_FLAGS", "TF_XLA_FLAGS", "LIBTPU_INIT_ARGS",
                                       "PJRT_NPROC", "NPROC"};

// Whether a variable names a file of flags, whose text is not part of a form's key.
bool NamesFlagsFile(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return false;
  return !absl::StartsWith(absl::StripLeadingAsciiWhitespace(value), "-");
}

// Returns the processor's model and instruction sets, on which compiled code depends; "" if the
// kernel does not tell.
std::string ProcessorText() {
  std::istringstream file(ReadKernelFile("/proc/cpuinfo"));
  std::string text;
  // The first processor's lines.
  for (std::string line; std::getline(file, line) && !line.empty();) {
    for (const char* const key : {"model name", "CPU part", "flags", "Features"}) {
      if (line.starts_with(key)) absl::StrAppend(&text, line, "\n");
    }
  }
  return text;
}

}  // namespace

CompiledPlace CompiledIn(Files& files, const std::string& dir, Random& random, bool allowed) {
  if (!allowed) return {};
  KeepPlace keep = PlaceIn(dir, random, "compiled");
  if (keep.directory.empty()) return {};
  keep.bytes_min = 0;
  keep.log = "program";
  return {&files, std::move(keep)};
}

std::optional<KeptBytes> KeptForm(const CompiledPlace& place, const PjrtClient& client,
                                  const ProgramModule& module) {
  if (place.files == nullptr || std::ranges::any_of(kFlags, NamesFlagsFile)) return std::nullopt;
  const absl::StatusOr<std::string> compiled_for = client.CompiledFor(module.replicas);
  const std::string processor = ProcessorText();
  const std::string code = Sha256Hex(module.code);
  if (!compiled_for.ok() || processor.empty() || code.empty()) return std::nullopt;
  std::string depends = absl::StrCat(code, "\n", *compiled_for, "\n", processor);
  for (const char* const name : kOfCompiler) {
    const char* const value = std::getenv(name);
    absl::StrAppend(&depends, name, "=", value == nullptr ? "" : value, "\n");
  }
  const std::string plugin[] = {client.plugin().path()};
  return KeptBytes::Of(*place.files, place.keep, "module", depends, plugin);
}

}  // namespace paracord
