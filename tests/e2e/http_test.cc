// Daemons of a real cluster show metrics, health and status over HTTP.
#include <catch2/catch.hpp>
#include <string>

#include "common/json_text.h"
#include "e2e/cluster.h"
#include "e2e/train.h"
#include "monitor/http_client.h"

namespace paracord::e2e {
namespace {

// Returns the value of the sample whose line begins with `sample`, or -1.
double Value(const std::string& metrics, const std::string& sample) {
  const size_t at = metrics.find("\n" + sample);
  if (at == std::string::npos) return -1;
  return std::stod(metrics.substr(metrics.find(' ', metrics.find('}', at))));
}

// Returns a number of a status, or 0 if absent.
double Number(const nlohmann::json& status, const std::string& key) {
  return status.is_object() ? status.value(key, 0.0) : 0;
}

std::string BodyOf(const std::string& reply) {
  const size_t end = reply.find("\r\n\r\n");
  return end == std::string::npos ? "" : reply.substr(end + 4);
}

TEST_CASE("each daemon of a cluster shows its health and its metrics, and the job is on a page") {
  Cluster cluster({.ps = 1, .workers = 1, .batch_ms = 4});
  const std::string coordinator = FreeTcpAddress(), ps = FreeTcpAddress(),
                    worker = FreeTcpAddress();
  cluster.Start("ps:0", {}, {"--listen", cluster.address("ps:0"), "--http", ps});
  REQUIRE(WaitUntil(10000, [&] { return CodeOf(Get(ps, "/livez")) == 200; }));
  CHECK(CodeOf(Get(ps, "/readyz")) == 503);  // no coordinator has started
  cluster.Start("coordinator", {},
                {"--listen", cluster.address("coordinator"), "--http", coordinator});
  cluster.Start("worker:0", {}, {"--http", worker});
  REQUIRE(cluster.WaitForBatches(20));
  for (const std::string& address : {coordinator, ps, worker}) {
    CHECK(CodeOf(Get(address, "/livez")) == 200);
    CHECK(CodeOf(Get(address, "/readyz")) == 200);
    CHECK(Value(Get(address, "/metrics"), "process_resident_memory_bytes") > 1e6);
    CHECK(Value(Get(address, "/metrics"), "paracord_insecure_mode") == 0);
  }
  CHECK(Value(Get(ps, "/metrics"),
              "paracord_ps_updates_total{role=\"ps\",task=\"ps:0\",outcome=\"applied\"}") > 0);
  CHECK(Value(Get(worker, "/metrics"), "paracord_worker_batches_total") >= 20);
  CHECK(Value(Get(worker, "/metrics"), "paracord_worker_exchange_seconds_count") >= 20);
  CHECK(Value(Get(coordinator, "/metrics"), "paracord_job_batches_done") >= 20);
  CHECK(Get(coordinator, "/").find("<!doctype html>") != std::string::npos);
  const nlohmann::json status = JsonOf(BodyOf(Get(coordinator, "/status.json")));
  REQUIRE(status.is_object());
  CHECK(status.at("phase") == "training");
  CHECK(status.at("batches_done").get<uint64_t>() >= 20);
  CHECK_FALSE(status.at("curves").at("step").empty());
  CHECK_FALSE(status.at("events").empty());
  CHECK_FALSE(status.at("ps")[0].at("largest").empty());
}

TEST_CASE("an address for HTTP that is taken or not this machine's is refused by name") {
  Cluster cluster({.ps = 1, .workers = 1});
  const std::string taken = FreeTcpAddress();
  cluster.Start("ps:0", {}, {"--listen", cluster.address("ps:0"), "--http", taken});
  REQUIRE(WaitUntil(10000, [&] { return CodeOf(Get(taken, "/livez")) == 200; }));
  cluster.Start("coordinator", {}, {"--listen", cluster.address("coordinator"), "--http", taken});
  CHECK(cluster.at("coordinator").Wait(10000) == 3);
  CHECK(cluster.Logged("coordinator", taken));
  cluster.Start("coordinator", {},
                {"--listen", cluster.address("coordinator"), "--http", "0.0.0.0:1"});
  CHECK(cluster.at("coordinator").Wait(10000) == 2);
  CHECK(cluster.Logged("coordinator", "--insecure"));
}

TEST_CASE("train shows its job on a page, and refuses an address for others before it starts") {
  Train train;
  const auto refused = train.Start({"--http", "0.0.0.0:1"});
  CHECK(refused->Wait(10000) == 2);
  CHECK(train.Said("--insecure"));
  const std::string at = FreeTcpAddress();
  const auto command = train.Start({"--ps", "1", "--workers", "1", "--http", at});
  REQUIRE(WaitUntil(
      20000, [&] { return Number(JsonOf(BodyOf(Get(at, "/status.json"))), "batches_done") > 0; }));
  CHECK(train.Said("http://" + at + "/"));
  CHECK(Get(at, "/").find("<!doctype html>") != std::string::npos);
  command->Signal(SIGINT);
  CHECK(command->Wait(30000) == 143);
}

}  // namespace
}  // namespace paracord::e2e
