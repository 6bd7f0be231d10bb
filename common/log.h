// Logs: one line an event, role and task in each line. A role owns its Logger; all of them write to
// the process's one spdlog logger, which main sets up (and the simulator silences). This header
// knows fmt alone: spdlog's own takes three seconds of each file that includes it.
#pragma once

#include <string>
#include <utility>

#include "spdlog/fmt/fmt.h"

namespace paracord {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

class Logger {
 public:
  explicit Logger(std::string task) : task_(std::move(task)) {}  // "ps:0"

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

// "" or what is wrong with a level: debug, info, warn, error and off exist.
std::string CheckLogLevel(const std::string& level);

// To stderr.
void SetUpLogging(const std::string& level);

}  // namespace paracord
