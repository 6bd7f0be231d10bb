// Tests which daemon `paracord run` becomes in the clusters that Kubeflow's operator writes.
#include "cli/own_task.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paracord {
namespace {

OwnTask Of(const std::string& jobs, const std::string& type, int index) {
  const auto cluster =
      ParseTfConfig(absl::StrCat(R"({"cluster": {)", jobs, R"("ps": ["j-ps-0.ns.svc:2222"],
                   "worker": ["j-worker-0.ns.svc:2222", "j-worker-1.ns.svc:2222"]},
                   "task": {"type": ")",
                                 type, R"(", "index": )", index, R"(}, "environment": "cloud"})"));
  REQUIRE(cluster.ok());
  REQUIRE(cluster->has_value());
  return OwnTaskOf(**cluster, "/data/job.json", "/job", "cpu");
}

std::string Words(const std::vector<std::string>& words) { return absl::StrJoin(words, " "); }

TEST_CASE("in a cluster with a chief each process becomes its own daemon") {
  const std::string chief = R"("chief": ["j-chief-0.ns.svc:2222"], )";
  CHECK(Words(Of(chief, "chief", 0).becomes) ==
        "paracord-coordinator --job /data/job.json --dir /job");
  CHECK(Words(Of(chief, "ps", 0).becomes) == "paracord-ps --dir /job");
  CHECK(Words(Of(chief, "worker", 0).becomes) ==
        "paracord-worker --dir /job --device cpu --coordinator j-chief-0.ns.svc:2222");
  CHECK(Of(chief, "worker", 0).beside.empty());
}

TEST_CASE("in a cluster without one worker 0 is the coordinator as well, where others find it") {
  const OwnTask first = Of("", "worker", 0);
  CHECK(Words(first.becomes) ==
        "paracord-coordinator --task chief --job /data/job.json --dir /job --listen "
        "j-worker-0.ns.svc:2222");
  CHECK(Words(first.beside) ==
        "paracord-worker --dir /job --device cpu --coordinator j-worker-0.ns.svc:2222");
  CHECK(Words(Of("", "worker", 1).becomes) ==
        "paracord-worker --dir /job --device cpu --coordinator j-worker-0.ns.svc:2222");
  CHECK(Of("", "worker", 1).beside.empty());
}

}  // namespace
}  // namespace paracord
