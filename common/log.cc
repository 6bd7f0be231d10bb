#include "common/log.h"

#include "spdlog/sinks/stdout_sinks.h"

namespace paracord {

std::string CheckLogLevel(const std::string& level) {
  for (const char* known : {"debug", "info", "warn", "error", "off"}) {
    if (level == known) return "";
  }
  return "--log-level: there is no level \"" + level +
         "\"; there are debug, info, warn, error, off";
}

void SetUpLogging(const std::string& level) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("paracord"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  spdlog::set_level(spdlog::level::from_str(level));
  spdlog::flush_on(spdlog::level::info);
}

}  // namespace paracord
