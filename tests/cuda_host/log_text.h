// Collects what is logged while a LogText lives, for tests.
#pragma once

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>

#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace paracord {

class LogText {
 public:
  LogText() : usual_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_st>(text_)));
  }
  ~LogText() { spdlog::set_default_logger(usual_); }
  std::string text() const { return text_.str(); }
  int lines() const {
    const std::string text = text_.str();
    return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }

 private:
  std::ostringstream text_;
  const std::shared_ptr<spdlog::logger> usual_;
};

}  // namespace paracord
