#include "config/nodes.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

Cluster ClusterOf(const std::string& jobs) {
  const auto parsed = ParseTfConfig("{\"cluster\": {" + jobs + "}}");
  INFO(parsed.status());
  REQUIRE((parsed.ok() && parsed->has_value()));
  return **parsed;
}

TEST_CASE("the workers of a cluster without ps are its ps, and the first its coordinator") {
  const Cluster cluster = ClusterOf(R"("worker": ["a:1", "b:1", "c:1"])");
  CHECK(HasNodes(cluster));
  CHECK(*PsAddressesOf(cluster) == std::vector<std::string>{"a:1", "b:1", "c:1"});
  CHECK(CoordinatorOf(cluster) == "a:1");
  CHECK(IsNode(cluster, {Role::kWorker, 2}));
  CHECK_FALSE(IsNode(cluster, {Role::kWorker, 3}));
  CHECK_FALSE(IsNode(cluster, {Role::kEvaluator, 0}));
  const Cluster led = ClusterOf(R"("chief": ["z:1"], "worker": ["a:1"])");
  CHECK(HasNodes(led));
  CHECK(CoordinatorOf(led) == "z:1");
}

TEST_CASE("a cluster with ps has no nodes, and its workers may have any indices") {
  const Cluster cluster = ClusterOf(R"("ps": ["p:1"], "worker": {"3": "a:1"})");
  CHECK_FALSE(HasNodes(cluster));
  CHECK_FALSE(IsNode(cluster, {Role::kWorker, 3}));
  CHECK(*PsAddressesOf(cluster) == std::vector<std::string>{"p:1"});
  CHECK(CoordinatorOf(cluster).empty());
  CHECK(PsAddressesOf(Cluster())->empty());
  CHECK_FALSE(HasNodes(Cluster()));
}

TEST_CASE("a node's worker and its ps have its memory together, and the same part of it") {
  for (const uint64_t limit : {uint64_t{256} << 20, uint64_t{3} << 30, uint64_t{1} << 62}) {
    CHECK(kNodeMemoryParts * NodeMemoryPart(limit) == limit);
  }
}

TEST_CASE("a node finds its index by its host's name, where that names one node alone") {
  const Cluster pods = ClusterOf(
      R"("worker": ["it-worker-0.it-worker:7400", "it-worker-1.it-worker:7400", "c:7400"])");
  CHECK(NodeOnHost(pods, "it-worker-1") == 1u);
  CHECK(NodeOnHost(pods, "it-worker-0") == 0u);
  CHECK(NodeOnHost(pods, "c") == 2u);
  CHECK_FALSE(NodeOnHost(pods, "it-worker").has_value());
  CHECK_FALSE(NodeOnHost(pods, "it-worker-2").has_value());
  CHECK_FALSE(NodeOnHost(pods, "").has_value());
  const Cluster shared = ClusterOf(R"("worker": ["a:1", "a:2", "unix:/a"])");
  CHECK_FALSE(NodeOnHost(shared, "a").has_value());
  CHECK_FALSE(NodeOnHost(ClusterOf(R"("ps": ["p:1"], "worker": ["a:1"])"), "a").has_value());
}

TEST_CASE("an index that the workers of a cluster without ps lack is named with its key") {
  const Cluster hole = ClusterOf(R"("worker": {"0": "a:1", "2": "c:1"})");
  const absl::Status status = PsAddressesOf(hole).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()).starts_with("cluster.worker has index 2 and no index 1"));
  const Cluster headless = ClusterOf(R"("worker": {"1": "b:1"})");
  CHECK(std::string(PsAddressesOf(headless).status().message()).find("no index 0") !=
        std::string::npos);
  CHECK(CoordinatorOf(headless).empty());
}

}  // namespace
}  // namespace paracord
