#include "common/log.h"

#include "common/one_line.h"
#include "common/status_text.h"
#include "common/steady_ms.h"
#include "google/protobuf/stubs/logging.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace paracord {
namespace {

// Protobuf's log messages, which quote messages from peers at any length, are shortened and
// limited.
void LogOfProtobuf(google::protobuf::LogLevel level, const char* /*file*/, int /*line*/,
                   const std::string& message) {
  static OncePerSecond may_say;
  if (level != google::protobuf::LOGLEVEL_FATAL && !may_say.Now()) return;
  Logger("protobuf").Warn("{}", OneLine(Sendable(message), kSendableBytesMax));
}

}  // namespace

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
  google::protobuf::SetLogHandler(LogOfProtobuf);
}

}  // namespace paracord
