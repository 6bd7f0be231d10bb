#include "common/failpoint.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/mutex.h"

namespace paracord {
namespace {

struct Point {
  std::string action;  // kill, stop, stall:<ms>, error
  int64_t nth = 0;     // 0: every time
  int64_t hits = 0;
};

struct Points {
  Mutex mu;
  std::map<std::string, Point, std::less<>> by_name ABSL_GUARDED_BY(mu);

  Points() {
    const char* setting = std::getenv(kFailpointsVariable);
    if (setting == nullptr) return;
    MutexLock lock(mu);
    const std::vector<std::string> items = absl::StrSplit(setting, ';', absl::SkipEmpty());
    for (const std::string& item : items) {
      const std::pair<std::string, std::string> pair =
          absl::StrSplit(item, absl::MaxSplits('=', 1));
      const std::vector<std::string> action = absl::StrSplit(pair.second, '@');
      Point point{action[0]};
      if (action.size() > 1 && !absl::SimpleAtoi(action[1], &point.nth)) continue;
      by_name[pair.first] = point;
    }
  }
};

}  // namespace

std::string ArmedFailpoints() {
  const char* const setting = std::getenv(kFailpointsVariable);
  return setting == nullptr ? "" : setting;
}

constinit std::atomic<bool> failpoints_armed = false;

namespace {

// An empty setting arms nothing.
[[maybe_unused]] const bool armed_before_main = [] {
  const bool armed = !ArmedFailpoints().empty();
  failpoints_armed.store(armed, std::memory_order_relaxed);
  return armed;
}();

}  // namespace

absl::Status HitFailpoint(std::string_view name) {
  static Points points;
  std::string action;
  {
    MutexLock lock(points.mu);
    const auto it = points.by_name.find(name);
    if (it == points.by_name.end()) return absl::OkStatus();
    ++it->second.hits;
    if (it->second.nth != 0 && it->second.hits != it->second.nth) return absl::OkStatus();
    action = it->second.action;
  }
  if (action == "kill") ::kill(::getpid(), SIGKILL);
  if (action == "stop") ::kill(::getpid(), SIGSTOP);
  int64_t stall_ms = 0;
  if (action.starts_with("stall:") && absl::SimpleAtoi(action.substr(6), &stall_ms)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(stall_ms));
  }
  if (action == "error") return absl::InternalError(absl::StrCat("failpoint ", std::string(name)));
  return absl::OkStatus();
}

}  // namespace paracord
