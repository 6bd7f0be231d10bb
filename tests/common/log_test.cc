#include "common/log.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>

#include "common/steady_ms.h"
#include "google/protobuf/stubs/logging.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace paracord {
namespace {

TEST_CASE("protobuf's errors about bad messages are short log lines, at most one a second") {
  const std::shared_ptr<spdlog::logger> usual = spdlog::default_logger();
  SetUpLogging("info");
  std::ostringstream log;
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  const int64_t begin_ms = SteadyMs();
  for (int i = 0; i < 100; ++i) {
    GOOGLE_LOG(ERROR) << "Field " << std::string(100000, 'x') << "\nhas\nlines";
  }
  spdlog::set_default_logger(usual);
  CHECK(log.str().find("protobuf Field xxx") != std::string::npos);
  const int64_t lines = std::ranges::count(log.str(), '\n');
  CHECK(lines >= 1);
  CHECK(lines <= 1 + (SteadyMs() - begin_ms) / 1000);  // it may have been slow
  CHECK(log.str().size() < 3000 * static_cast<size_t>(lines));
}

}  // namespace
}  // namespace paracord
