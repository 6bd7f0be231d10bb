#include "node/departures.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

TEST_CASE("a node ends with the greater code of its worker and its ps") {
  Departures departures;
  CHECK(departures.Add(Role::kPs, 0, "the job is done"));
  CHECK(departures.Add(Role::kWorker, 3, "another worker has its task"));
  CHECK_FALSE(departures.Add(Role::kWorker, 202, "once more"));
  CHECK(departures.Has(Role::kWorker));
  CHECK_FALSE(departures.Has(Role::kCoordinator));
  CHECK(departures.Last().code == 3);
  CHECK(departures.Last().reason == "worker: another worker has its task");
}

TEST_CASE("a node ends as its coordinator has ended the job, whatever its worker left with") {
  Departures departures;
  departures.Add(Role::kWorker, 2, "its data differ from those of the others");
  departures.Add(Role::kPs, 0, "the job is done");
  departures.Add(Role::kCoordinator, 0, "the job is done");
  CHECK(departures.Last().code == 0);
  CHECK(departures.Last().reason == "coordinator: the job is done");
}

TEST_CASE(
    "a node ends with the code of the role that failed, though its coordinator had to leave") {
  Departures departures;
  departures.Add(Role::kWorker, 203, "the device is lost");
  departures.Tell(Role::kCoordinator);
  departures.Tell(Role::kPs);
  departures.Add(Role::kCoordinator, 143, "its worker has left");
  departures.Add(Role::kPs, 143, "drained");
  CHECK(departures.Last().code == 203);
  CHECK(departures.Last().reason == "worker: the device is lost");
}

}  // namespace
}  // namespace paracord
