#include "common/log.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/last_events.h"
#include "common/log_format.h"
#include "common/log_lines.h"
#include "common/one_line.h"
#include "common/status_text.h"
#include "common/steady_ms.h"
#include "google/protobuf/stubs/logging.h"
#include "spdlog/sinks/base_sink.h"
#include "spdlog/spdlog.h"

namespace paracord {
namespace {

// Shortens and limits protobuf's log messages, which quote messages from peers at any length.
void LogOfProtobuf(google::protobuf::LogLevel level, const char* /*file*/, int /*line*/,
                   const std::string& message) {
  static OncePerSecond may_say;
  if (level != google::protobuf::LOGLEVEL_FATAL && !may_say.Now()) return;
  Logger("protobuf").Warn("{}", OneLine(Sendable(message), kSendableBytesMax));
}

// Writes lines to stderr, and keeps them for last_events.h.
class DaemonSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  DaemonSink(bool json, bool limited) : json_(json), limited_(limited) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view payload(message.payload.data(), message.payload.size());
    const size_t space = payload.find(' ');  // Logger puts the task first
    const std::string_view task = payload.substr(0, space);
    const std::string_view text =
        space == std::string_view::npos ? std::string_view() : payload.substr(space + 1);
    const int64_t unix_ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(message.time.time_since_epoch())
            .count();
    // Format and fields, present only in lines written by a Logger.
    const std::string_view said = message.source.funcname == nullptr ? "" : message.source.funcname;
    const size_t format_end = std::min(said.find('\x1d'), said.size());
    const std::string_view fields = said.substr(std::min(format_end + 1, said.size()));
    std::string event = EventOf(said.substr(0, format_end));
    if (event == kNoEvent) event = EventOf(text);
    if (limited_ && !text.starts_with("program: ")) {
      const EventLimit::Verdict verdict = limit_.Take(event, unix_ms);
      if (verdict.left_out > 0) {
        const std::string more = absl::StrCat(std::string(task), " ", verdict.left_out,
                                              " more lines of ", event, " were left out");
        Put(spdlog::details::log_msg(message.time, {}, message.logger_name, message.level, more),
            unix_ms, task, event, "", std::string_view(more).substr(task.size() + 1));
      }
      if (!verdict.pass) return;
    }
    Put(message, unix_ms, task, event, fields, text);
  }

  void Put(const spdlog::details::log_msg& message, int64_t unix_ms, std::string_view task,
           std::string_view event, std::string_view fields, std::string_view text) {
    std::string line;
    if (json_) {
      const auto level = spdlog::level::to_string_view(message.level);
      line = JsonLine(unix_ms, {level.data(), level.size()}, task, event, fields, text) + "\n";
    } else {
      spdlog::memory_buf_t formatted;
      formatter_->format(message, formatted);
      // A line that begins with a time was written by this process, whatever text a peer has sent.
      std::string_view whole(formatted.data(), formatted.size());
      if (whole.ends_with('\n')) whole.remove_suffix(1);
      line = absl::StrReplaceAll(TerminalText(whole), {{"\n", "\n  "}}) + "\n";
    }
    RememberEvent(line);
    (void)std::fwrite(line.data(), 1, line.size(), stderr);
  }

  void flush_() override { std::fflush(stderr); }

  const bool json_;
  const bool limited_;
  EventLimit limit_;
};

}  // namespace

std::string CheckLogFormat(const std::string& format) {
  if (format == "text" || format == "json" || format == "auto") return "";
  return "--log-format: there is no format \"" + format + "\"; there are text, json, auto";
}

std::string CheckLogLevel(const std::string& level) {
  for (const char* known : {"debug", "info", "warn", "error", "off"}) {
    if (level == known) return "";
  }
  return "--log-level: there is no level \"" + level +
         "\"; there are debug, info, warn, error, off";
}

void SetUpLogging(const std::string& level, const std::string& format) {
  const bool json = format == "json" || (format == "auto" && isatty(STDERR_FILENO) == 0);
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "paracord", std::make_shared<DaemonSink>(json, /*limited=*/level != "debug")));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  spdlog::set_level(spdlog::level::from_str(level));
  spdlog::flush_on(spdlog::level::info);
  google::protobuf::SetLogHandler(LogOfProtobuf);
}

void SetUpLogging(const std::string& level) { SetUpLogging(level, "text"); }

}  // namespace paracord
