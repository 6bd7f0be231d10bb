// Tests which daemon `paracord run` becomes in clusters of Kubeflow's operator.
#include "cli/own_task.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paracord {
namespace {

OwnTaskFlags JobOnly() {
  OwnTaskFlags flags;
  flags.job = "/data/job.json";
  flags.dir = "/job";
  flags.device = "cpu";
  return flags;
}

OwnTask Of(const std::string& jobs, const std::string& type, int index,
           const OwnTaskFlags& flags = JobOnly()) {
  const auto cluster =
      ParseTfConfig(absl::StrCat(R"({"cluster": {)", jobs, R"("ps": ["j-ps-0.ns.svc:2222"],
                   "worker": ["j-worker-0.ns.svc:2222", "j-worker-1.ns.svc:2222"]},
                   "task": {"type": ")",
                                 type, R"(", "index": )", index, R"(}, "environment": "cloud"})"));
  REQUIRE(cluster.ok());
  REQUIRE(cluster->has_value());
  return OwnTaskOf(**cluster, flags);
}

std::string Words(const std::vector<std::string>& words) { return absl::StrJoin(words, " "); }

TEST_CASE("in a cluster with a chief each process becomes its own daemon") {
  const std::string chief = R"("chief": ["j-chief-0.ns.svc:2222"], )";
  CHECK(Words(Of(chief, "chief", 0).becomes) ==
        "paracord-coordinator --dir /job --job /data/job.json");
  CHECK(Words(Of(chief, "ps", 0).becomes) == "paracord-ps --dir /job");
  CHECK(Words(Of(chief, "worker", 0).becomes) ==
        "paracord-worker --dir /job --device cpu --coordinator j-chief-0.ns.svc:2222");
  CHECK(Of(chief, "worker", 0).beside.empty());
}

TEST_CASE("in a cluster without one worker 0 is the coordinator as well, where others find it") {
  const OwnTask first = Of("", "worker", 0);
  CHECK(Words(first.becomes) ==
        "paracord-coordinator --dir /job --job /data/job.json --task chief --listen "
        "j-worker-0.ns.svc:2222");
  CHECK(Words(first.beside) ==
        "paracord-worker --dir /job --device cpu --coordinator j-worker-0.ns.svc:2222");
  CHECK(Words(Of("", "worker", 1).becomes) ==
        "paracord-worker --dir /job --device cpu --coordinator j-worker-0.ns.svc:2222");
  CHECK(Of("", "worker", 1).beside.empty());
}

TEST_CASE("in a cluster without ps each worker becomes paracord-worker, with the job") {
  for (const char* chief : {"", R"("chief": ["c:1"], )"}) {
    for (const int index : {0, 1}) {
      const auto cluster =
          ParseTfConfig(absl::StrCat(R"({"cluster": {)", chief, R"("worker": ["a:1", "b:1"]},)",
                                     R"("task": {"type": "worker", "index": )", index, "}}"));
      REQUIRE(cluster.ok());
      const OwnTask own = OwnTaskOf(**cluster, JobOnly());
      CHECK(Words(own.becomes) == "paracord-worker --dir /job --device cpu --job /data/job.json");
      CHECK(own.beside.empty());
    }
  }
}

TEST_CASE("each daemon gets those of the flags that it has") {
  const std::string chief = R"("chief": ["j-chief-0.ns.svc:2222"], )";
  OwnTaskFlags flags = JobOnly();
  flags.set = {"epochs=2", "name=a b"};
  flags.http = "0.0.0.0:9400";
  flags.log_level = "warn";
  flags.log_format = "json";
  flags.memory_limit = "2GiB";
  flags.threads = 3;
  flags.allow_programs = flags.stay = true;
  const std::string shared = " --log-level warn --log-format json --memory-limit 2GiB";
  CHECK(Words(Of(chief, "chief", 0, flags).becomes) ==
        "paracord-coordinator --dir /job --job /data/job.json --set epochs=2 --set name=a b" +
            shared + " --http 0.0.0.0:9400");
  CHECK(Words(Of(chief, "ps", 0, flags).becomes) ==
        "paracord-ps --dir /job" + shared + " --threads 3 --stay --http 0.0.0.0:9400");
  const std::string worker = "paracord-worker --dir /job --device cpu --coordinator ";
  CHECK(Words(Of(chief, "worker", 0, flags).becomes) ==
        worker + "j-chief-0.ns.svc:2222" + shared +
            " --threads 3 --allow-programs --stay --http 0.0.0.0:9400");
  CHECK(Words(Of(chief, "evaluator", 0, flags).becomes) ==
        worker + "j-chief-0.ns.svc:2222" + shared +
            " --threads 3 --allow-programs --http 0.0.0.0:9400");
  // Two processes on one host cannot share the address of --http.
  const OwnTask both = Of("", "worker", 0, flags);
  CHECK(Words(both.beside) ==
        worker + "j-worker-0.ns.svc:2222" + shared + " --threads 3 --allow-programs --stay");
  CHECK(both.becomes.back() == "0.0.0.0:9400");
}

}  // namespace
}  // namespace paracord
