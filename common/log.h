// Logs: one line an event, role and task in each line. A role owns its Logger; all of them write to
// the process's one spdlog logger, which main sets up (and the simulator silences).
#pragma once

#include <string>
#include <utility>

#include "spdlog/spdlog.h"

namespace paracord {

class Logger {
 public:
  explicit Logger(std::string task) : task_(std::move(task)) {}  // "ps:0"

  template <class... Args>
  void Debug(spdlog::format_string_t<Args...> format, Args&&... args) const {
    Write(spdlog::level::debug, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void Info(spdlog::format_string_t<Args...> format, Args&&... args) const {
    Write(spdlog::level::info, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void Warn(spdlog::format_string_t<Args...> format, Args&&... args) const {
    Write(spdlog::level::warn, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void Error(spdlog::format_string_t<Args...> format, Args&&... args) const {
    Write(spdlog::level::err, format, std::forward<Args>(args)...);
  }

 private:
  template <class... Args>
  void Write(spdlog::level::level_enum level, spdlog::format_string_t<Args...> format,
             Args&&... args) const {
    if (!spdlog::should_log(level)) return;
    spdlog::log(level, "{} {}", task_, fmt::format(format, std::forward<Args>(args)...));
  }

  const std::string task_;
};

// "" or what is wrong with a level: debug, info, warn, error and off exist.
std::string CheckLogLevel(const std::string& level);

// To stderr.
void SetUpLogging(const std::string& level);

}  // namespace paracord
