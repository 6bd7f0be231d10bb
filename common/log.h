// Logs with one line for each event, and the role and task in each line. Each role owns a Logger;
// all write to the process's spdlog logger, which main sets up and the simulator silences. Named
// arguments with the names of kLogFields are fields of a line in JSON, whether or not the format
// uses them: log.Warn("{peer} is gone", "peer"_a = task). A format has names alone or none. This
// header includes fmt only, because spdlog's headers cost each file three seconds of compile time.
#pragma once

#include <string>
#include <utility>

#include "spdlog/fmt/fmt.h"

namespace paracord {

using namespace fmt::literals;  // "peer"_a

// Who a line is about, such as a task or a certificate; its address; and why.
inline constexpr const char* kLogFields[] = {"peer", "address", "reason"};

enum class LogLevel { kDebug, kInfo, kWarn, kError };

class Logger {
 public:
  explicit Logger(std::string task) : task_(std::move(task)) {}  // a task as "ps:0"

  template <class... Args>
  void Debug(fmt::format_string<Args...> format, Args&&... args) const {
    Write(LogLevel::kDebug, format, fmt::make_format_args(args...));
  }
  template <class... Args>
  void Info(fmt::format_string<Args...> format, Args&&... args) const {
    Write(LogLevel::kInfo, format, fmt::make_format_args(args...));
  }
  template <class... Args>
  void Warn(fmt::format_string<Args...> format, Args&&... args) const {
    Write(LogLevel::kWarn, format, fmt::make_format_args(args...));
  }
  template <class... Args>
  void Error(fmt::format_string<Args...> format, Args&&... args) const {
    Write(LogLevel::kError, format, fmt::make_format_args(args...));
  }

 private:
  void Write(LogLevel level, fmt::string_view format, fmt::format_args args) const;

  const std::string task_;
};

// Returns "" or what is wrong with a level; debug, info, warn, error and off exist.
std::string CheckLogLevel(const std::string& level);

// Sets up the process's logger, which writes to stderr.
void SetUpLogging(const std::string& level);

}  // namespace paracord
