#include "cli/await_done.h"

#include "absl/strings/str_cat.h"
#include "common/exit_code.h"
#include "common/json_text.h"
#include "coordinator/core/job_state.h"
#include "nlohmann/json.hpp"

namespace paracord {
namespace {

// From this exit code on, a restart may help.
constexpr int64_t kMayHelp = 128;

std::string TextIn(const nlohmann::json& summary, const char* key) {
  const auto found = summary.find(key);
  return found != summary.end() && found->is_string() ? found->get<std::string>() : "";
}

bool IsForGood(const nlohmann::json& summary) {
  const auto code = summary.find("exit_code");
  return code != summary.end() && code->is_number_integer() && *code > 0 && *code < kMayHelp;
}

}  // namespace

absl::Status AwaitDone(Files& files, const std::string& dir,
                       const std::function<std::chrono::seconds()>& pause) {
  const std::string path = absl::StrCat(dir, "/", kSummaryName);
  std::string before;
  std::chrono::seconds unchanged(0);
  while (true) {
    const std::string text = files.ReadWhole(path).value_or("");
    const nlohmann::json summary = JsonOf(text);
    const std::string status = summary.is_object() ? TextIn(summary, "status") : "";
    if (status == "done") return absl::OkStatus();
    if (text != before || status != "failed") unchanged = std::chrono::seconds(0);
    before = text;
    const auto enough = IsForGood(summary) ? kFailedForGood : kFailedForNow;
    if (status == "failed" && unchanged >= enough) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the job has failed, and nobody has started it again: ", TextIn(summary, "reason"), " (",
          path, ")"));
    }
    unchanged += pause();
  }
}

}  // namespace paracord
