// Logger::Write alone, which the CUDA plug-in compiles into itself: it links nothing else of
// common.
#include "common/log.h"
#include "spdlog/spdlog.h"

namespace paracord {
namespace {

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void Logger::Write(LogLevel level, fmt::string_view format, fmt::format_args args) const {
  const spdlog::level::level_enum as = SpdlogLevel(level);
  if (!spdlog::should_log(as)) return;
  // The sink names the event by the format, which spdlog carries as the name of a function.
  const std::string event(format.data(), format.size());
  spdlog::log(spdlog::source_loc("", 1, event.c_str()), as, "{} {}", task_,
              fmt::vformat(format, args));
}

}  // namespace paracord
