#include "cli/trace_file.h"

#include <array>
#include <memory>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "cli/out_file.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

constexpr std::string_view kBegin = "{\"traceEvents\":[\n";

absl::Status Write(Files& files, const std::string& dir, const std::string& out) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(dir));
  ASSIGN_OR_RETURN(const std::unique_ptr<WriteFile> file, files.Create(out));
  RETURN_IF_ERROR(file->Append(kBegin));
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const std::string text, files.ReadWhole(dir + "/" + name));
    const std::string_view whole(text.data(), text.rfind('\n') + 1);  // 0: no line is whole
    RETURN_IF_ERROR(file->Append(whole));
  }
  // Every line ends with a comma; JSON needs a last event without one.
  RETURN_IF_ERROR(file->Append("{\"name\":\"end\",\"ph\":\"M\",\"pid\":0,\"args\":{}}]}\n"));
  return file->Sync();
}

}  // namespace

absl::Status CheckTraceFile(Files& files, const std::string& path) {
  const absl::StatusOr<std::unique_ptr<ReadFile>> there = files.Open(path);
  if (absl::IsNotFound(there.status())) return absl::OkStatus();
  RETURN_IF_ERROR(there.status());
  std::array<char, kBegin.size()> begin;
  if ((*there)->size() >= begin.size()) {
    RETURN_IF_ERROR((*there)->ReadAt(0, begin));
    if (std::string_view(begin.data(), begin.size()) == kBegin) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--trace: ", path, " is there and is no trace: it is left as it is"));
}

absl::Status MergeTraces(Files& files, const std::string& dir, const std::string& out) {
  return ReplaceOutFile(files, out,
                        [&](const std::string& path) { return Write(files, dir, path); });
}

}  // namespace paracord
