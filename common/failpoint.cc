#include "common/failpoint.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/mutex.h"

namespace paracord {

constinit std::atomic<bool> failpoints_armed = false;

namespace {

struct Point {
  enum class Action { kKill, kStop, kStall, kError };
  Action action = Action::kKill;
  int64_t stall_ms = 0;
  int64_t nth = 0;  // 0: every time
  int64_t hits = 0;
};

// Parses the setting of a failpoint, such as "stall:100@3"; nullopt if malformed.
std::optional<Point> ParsePoint(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('@', 1));
  Point point;
  if (parts[0] == "stop") {
    point.action = Point::Action::kStop;
  } else if (parts[0] == "error") {
    point.action = Point::Action::kError;
  } else if (parts[0].starts_with("stall:")) {
    point.action = Point::Action::kStall;
    if (!absl::SimpleAtoi(parts[0].substr(6), &point.stall_ms)) return std::nullopt;
  } else if (parts[0] != "kill") {
    return std::nullopt;
  }
  if (parts.size() > 1 && (!absl::SimpleAtoi(parts[1], &point.nth) || point.nth < 1)) {
    return std::nullopt;
  }
  return point;
}

struct Points {
  Mutex mu;
  std::map<std::string, Point, std::less<>> by_name ABSL_GUARDED_BY(mu);

  // Ends the process on a malformed setting: a test with a misspelt failpoint would test nothing.
  Points() {
    MutexLock lock(mu);
    const std::vector<std::string> items =
        absl::StrSplit(ArmedFailpoints(), ';', absl::SkipEmpty());
    for (const std::string& item : items) {
      const size_t sign = item.find('=');
      const std::optional<Point> point =
          sign == std::string::npos ? std::nullopt : ParsePoint(item.substr(sign + 1));
      if (!point.has_value()) {
        std::fprintf(stderr,
                     "%s: \"%s\" is not NAME=kill|stop|stall:MS|error, with @N or without\n",
                     kFailpointsVariable, item.c_str());
        _exit(2);
      }
      by_name[item.substr(0, sign)] = *point;
    }
  }
};

Points& ThePoints() {
  static Points& points = *new Points;  // never destroyed: a failpoint may be met at exit
  return points;
}

[[maybe_unused]] const bool armed_before_main = [] {
  if (ArmedFailpoints().empty()) return false;
  ThePoints();
  failpoints_armed.store(true, std::memory_order_relaxed);
  return true;
}();

}  // namespace

std::string ArmedFailpoints() {
  const char* const setting = std::getenv(kFailpointsVariable);
  return setting == nullptr ? "" : setting;
}

absl::Status HitFailpoint(std::string_view name) {
  Point point;
  {
    Points& points = ThePoints();
    MutexLock lock(points.mu);
    const auto it = points.by_name.find(name);
    if (it == points.by_name.end()) return absl::OkStatus();
    point = it->second;
    ++it->second.hits;
  }
  if (point.nth != 0 && point.hits + 1 != point.nth) return absl::OkStatus();
  switch (point.action) {
    case Point::Action::kKill:
      ::kill(::getpid(), SIGKILL);
      break;
    case Point::Action::kStop:
      ::kill(::getpid(), SIGSTOP);
      break;
    case Point::Action::kStall:
      std::this_thread::sleep_for(std::chrono::milliseconds(point.stall_ms));
      break;
    case Point::Action::kError:
      return absl::InternalError(absl::StrCat("failpoint ", std::string(name)));
  }
  return absl::OkStatus();
}

}  // namespace paracord
