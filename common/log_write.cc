// Logger::Write alone, which the CUDA plug-in compiles into itself: it links nothing else of
// common.
#include <algorithm>

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

// Returns the fields among the arguments as "name\x1fvalue\x1e" one after the other; those that are
// empty are left out.
std::string FieldsOf(fmt::format_args args) {
  std::string fields;
  for (const char* const name : kLogFields) {
    if (!args.get(fmt::string_view(name))) continue;
    std::string value = fmt::vformat(std::string("{") + name + "}", args);
    std::replace_if(
        value.begin(), value.end(), [](char c) { return c == '\x1e' || c == '\x1f'; }, ' ');
    if (!value.empty()) fields += std::string(name) + '\x1f' + value + '\x1e';
  }
  return fields;
}

}  // namespace

void Logger::Write(LogLevel level, fmt::string_view format, fmt::format_args args) const {
  const spdlog::level::level_enum as = SpdlogLevel(level);
  if (!spdlog::should_log(as)) return;
  // The sink names the event by the format and finds the fields behind it, where spdlog carries the
  // name of a function: no formatter of spdlog's reads that one, also not after this call.
  const std::string source = std::string(format.data(), format.size()) + '\x1d' + FieldsOf(args);
  spdlog::log(spdlog::source_loc("", 0, source.c_str()), as, "{} {}", task_,
              fmt::vformat(format, args));
}

}  // namespace paracord
