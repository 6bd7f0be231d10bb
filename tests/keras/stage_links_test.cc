// What stages send to each other, and that no stage waits on after an error.
#include "keras/stage_links.h"

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

namespace paracord {
namespace {

StageTensors Parcel(float number) { return {{7}, {{number}}}; }

TEST_CASE("parcels arrive in order, values at the next stage and gradients at the one before") {
  StageLinks links(2);
  for (int batch = 0; batch < 2; ++batch) {
    links.Reset();
    std::thread first([&] {
      absl::Status sent;
      for (int i = 0; i < 9 && sent.ok(); ++i) {
        sent = links.SendValues(0, Parcel(static_cast<float>(i)));
      }
      for (int i = 0; i < 9; ++i) {
        const auto gradients = links.ReceiveGradients(0);
        if (!gradients.ok() || gradients->arrays[0][0] != static_cast<float>(10 * i)) {
          sent = absl::InternalError("another parcel");
        }
        links.Report(static_cast<size_t>(i));
      }
      links.End(sent);
    });
    std::thread second([&] {
      std::vector<float> taken;
      for (int i = 0; i < 9; ++i) taken.push_back(links.ReceiveValues(1).value().arrays[0][0]);
      absl::Status sent;
      for (const float each : taken) sent.Update(links.SendGradients(1, Parcel(10 * each)));
      links.End(sent);
    });
    std::vector<size_t> reported;
    while (const auto variable = links.NextReported()) reported.push_back(*variable);
    first.join();
    second.join();
    CHECK(links.status() == absl::OkStatus());
    CHECK(reported == std::vector<size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});
  }
}

TEST_CASE("an error of one stage ends the waiting of all others, and is the one that is told") {
  StageLinks links(3);
  absl::Status first, last;
  std::thread sends([&] {  // more than the receiver takes
    while (first.ok()) first = links.SendValues(0, Parcel(1));
    links.End(first);
  });
  std::thread receives([&] {
    last = links.ReceiveValues(2).status();
    links.End(last);
  });
  std::thread fails([&] {
    REQUIRE(links.ReceiveValues(1).ok());
    links.Report(3);
    links.End(absl::ResourceExhaustedError("no memory"));
  });
  while (links.NextReported().has_value()) {
  }
  for (std::thread* thread : {&sends, &receives, &fails}) thread->join();
  CHECK(absl::IsAborted(first));
  CHECK(absl::IsAborted(last));
  CHECK(links.status() == absl::ResourceExhaustedError("no memory"));
  CHECK_FALSE(links.NextReported().has_value());
  links.Reset();  // starts the next batch
  CHECK(links.SendValues(0, Parcel(2)) == absl::OkStatus());
  CHECK(links.ReceiveValues(1).value().arrays[0][0] == 2);
  CHECK(links.status() == absl::OkStatus());
}

}  // namespace
}  // namespace paracord
