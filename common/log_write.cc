// Logger::Write in a file of its own, because the CUDA plug-in compiles this file and links nothing
// else of common.
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

// Returns the non-empty fields among the arguments, as concatenated "name\x1fvalue\x1e".
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
  // Passes format and fields to the sink in spdlog's function-name slot: no spdlog formatter reads
  // the slot, during this call or later. The sink derives the event's name from the format.
  const std::string source = std::string(format.data(), format.size()) + '\x1d' + FieldsOf(args);
  spdlog::log(spdlog::source_loc("", 0, source.c_str()), as, "{} {}", task_,
              fmt::vformat(format, args));
}

}  // namespace paracord
