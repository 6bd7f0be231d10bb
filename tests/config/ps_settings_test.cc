// Tests which settings of a job change what a ps does to values.
#include "config/ps_settings.h"

#include <catch2/catch.hpp>
#include <string>

#include "config/job.h"

namespace paracord {
namespace {

TEST_CASE("a ps updates values alike whatever timeouts and end the job has") {
  Job job;
  job.optimizer = {"sgd", {{"learning_rate", 0.25}}};
  Job longer = job;
  longer.epochs += 2;
  longer.timeouts.orphan_ms += 1000;
  CHECK(PsSettings(longer) != PsSettings(job));
  CHECK(SameUpdates(PsSettings(longer), PsSettings(job)));
  Job slower = job;
  slower.optimizer = {"sgd", {{"learning_rate", 0.125}}};
  CHECK_FALSE(SameUpdates(PsSettings(slower), PsSettings(job)));
  for (const std::string text : {"", "{", "[]", "{}"}) {
    CHECK_FALSE(SameUpdates(text, PsSettings(job)));
    CHECK_FALSE(SameUpdates(PsSettings(job), text));
    CHECK_FALSE(SameUpdates(text, text));
  }
}

}  // namespace
}  // namespace paracord
