// Logs a line for each event, with the task of the process or the part of the program that writes
// the line. All Loggers write to the one spdlog logger of the process, which main sets up and the
// simulator silences. A named argument whose name is in kLogFields becomes a field of a JSON line,
// even if the format does not use the argument: log.Warn("{peer} is gone", "peer"_a = task). A
// format has either only named arguments or none. This header includes fmt only, because the
// headers of spdlog cost each file three seconds of compile time.
#pragma once

#include <string>
#include <utility>

#include "spdlog/fmt/fmt.h"

namespace paracord {

using namespace fmt::literals;  // "peer"_a

// `peer`: what a line is about, such as a task or certificate. `reason`: why it happened.
inline constexpr const char* kLogFields[] = {"peer", "address", "reason"};

enum class LogLevel { kDebug, kInfo, kWarn, kError };

class Logger {
 public:
  explicit Logger(std::string task) : task_(std::move(task)) {}  // `task` is such as "ps:0"

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

// Returns "" if the level exists (debug, info, warn, error, off), otherwise an error message.
std::string CheckLogLevel(const std::string& level);

// Sets up the process's logger, which writes lines of text to stderr.
void SetUpLogging(const std::string& level);

}  // namespace paracord
