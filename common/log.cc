#include "common/log.h"

#include "spdlog/sinks/stdout_sinks.h"

namespace paracord {

void SetUpLogging(const std::string& level) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("paracord"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  spdlog::set_level(spdlog::level::from_str(level));
  spdlog::flush_on(spdlog::level::info);
}

}  // namespace paracord
