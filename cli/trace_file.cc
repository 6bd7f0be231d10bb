#include "cli/trace_file.h"

#include <memory>
#include <string_view>

#include "common/status_macros.h"

namespace paracord {

absl::Status MergeTraces(Files& files, const std::string& dir, const std::string& out) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(dir));
  ASSIGN_OR_RETURN(const std::unique_ptr<WriteFile> file, files.Create(out));
  RETURN_IF_ERROR(file->Append("{\"traceEvents\":[\n"));
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const std::string text, files.ReadWhole(dir + "/" + name));
    const std::string_view whole(text.data(), text.rfind('\n') + 1);  // 0: no line is whole
    RETURN_IF_ERROR(file->Append(whole));
  }
  // The lines end with a comma: this is the last event.
  return file->Append("{\"name\":\"end\",\"ph\":\"M\",\"pid\":0,\"args\":{}}]}\n");
}

}  // namespace paracord
