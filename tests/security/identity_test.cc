#include <catch2/catch.hpp>

#include "proto/protocol.h"
#include "security/call_rights.h"
#include "security/peer_identity.h"
#include "security/security_options.h"

namespace paracord {
namespace {

TEST_CASE("an identity is read from its URI and written as it was") {
  for (const std::string uri :
       {"spiffe://lab/ps/0", "spiffe://a.b-c_9/worker/65535", "spiffe://lab/coordinator/0",
        "spiffe://lab/operator", "spiffe://lab/monitor/3", "spiffe://lab/worker"}) {
    const auto identity = ParsePeerIdentity(uri);
    REQUIRE(identity.ok());
    CHECK(identity->Uri() == uri);
  }
  CHECK(ParsePeerIdentity("spiffe://lab/worker/3")->Task() == "worker:3");
  CHECK(ParsePeerIdentity("spiffe://lab/worker")->Task() == "worker");
}

TEST_CASE("a URI that is no identity is refused with what is wrong") {
  for (const auto& [uri, what] : std::vector<std::pair<std::string, std::string>>{
           {"http://lab/ps/0", "another scheme"},
           {"spiffe://", "a cluster that is no name"},
           {"spiffe:///ps/0", "a cluster that is no name"},
           {"spiffe://Lab/ps/0", "a cluster that is no name"},
           {"spiffe://lab", "names no role"},
           {"spiffe://lab/", "a role that is none of"},
           {"spiffe://lab/chief/0", "a role that is none of"},
           {"spiffe://lab/ps/", "an index that is no number"},
           {"spiffe://lab/ps/-1", "an index that is no number"},
           {"spiffe://lab/ps/01", "an index that is no number"},
           {"spiffe://lab/ps/99999999999", "an index that is no number"},
           {"spiffe://lab/ps/0/1", "more than a role and an index"},
           {"spiffe://lab/ps/0\n", "an index that is no number"},
           {"spiffe://" + std::string(3000, 'a'), "is too long"}}) {
    CAPTURE(uri);
    const absl::Status status = ParsePeerIdentity(uri).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(std::string(status.message()).find(what) != std::string::npos);
    CHECK(std::string(status.message()).find('\n') == std::string::npos);
  }
}

TEST_CASE("what is not in the table of rights is refused to every role") {
  for (const PeerRole role : kPeerRoles) {
    for (const std::string method :
         {"", "/", "/paracord.ParameterServer/Exchang", "/paracord.ParameterServer/Exchange/",
          "/paracord.Coordinator/Exchange", "/paracord.ListenerCheck/Check"}) {
      CHECK_FALSE(Allowed(method, role));
      const Access access(PeerIdentity{"lab", role, 0});
      CHECK(absl::IsPermissionDenied(access.Check(method)));
    }
  }
  CHECK(Access().Check("/anything").ok());
}

TEST_CASE("a worker's certificate has no right of another role where the cluster has ps") {
  const PeerIdentity first{"lab", PeerRole::kWorker, 0}, any{"lab", PeerRole::kWorker, {}};
  for (const PeerIdentity& worker : {first, any}) {
    for (const PeerRole role : kPeerRoles) {
      CHECK(CallsAs(worker, role, {}) == (role == PeerRole::kWorker));
      CHECK(Serves(worker, role, "a:1", {}) == (role == PeerRole::kWorker));
    }
    for (const CallRight& right : CallRights()) {
      CAPTURE(right.method);
      CHECK(Access(worker).Check(right.method).ok() == Allowed(right.method, PeerRole::kWorker));
    }
  }
}

TEST_CASE("in a cluster without ps the worker at an address serves as the ps of its own index") {
  const NodeRights nodes{.ps = {"a:1", "b:1", "c:1"}, .coordinator = true};
  const PeerIdentity any{"lab", PeerRole::kWorker, {}};
  for (uint32_t at = 0; at < 3; ++at) {
    CAPTURE(at);
    for (uint32_t index = 0; index < 5; ++index) {
      CAPTURE(index);
      const PeerIdentity worker{"lab", PeerRole::kWorker, index};
      CHECK(Serves(worker, PeerRole::kPs, nodes.ps[at], nodes) == (index == at));
      CHECK_FALSE(Serves(worker, PeerRole::kPs, "d:1", nodes));
      CHECK_FALSE(Serves(worker, PeerRole::kPs, "", nodes));
    }
    CHECK(Serves(any, PeerRole::kPs, nodes.ps[at], nodes));
  }
  CHECK_FALSE(Serves(any, PeerRole::kPs, "d:1", nodes));
  CHECK(ServerText(PeerRole::kPs, "b:1", nodes) == "worker:1, which is the ps at this address");
  CHECK(ServerText(PeerRole::kPs, "b:1", {}) == "a ps");
}

TEST_CASE(
    "in a cluster without ps and chief the certificate of worker:0 alone is the coordinator's") {
  const NodeRights led{.ps = {"a:1", "b:1"}, .coordinator = false};
  const NodeRights alone{.ps = {"a:1", "b:1"}, .coordinator = true};
  for (const auto& index :
       {std::optional<uint32_t>(0), std::optional<uint32_t>(1), std::optional<uint32_t>()}) {
    CAPTURE(index.value_or(99));
    const PeerIdentity worker{"lab", PeerRole::kWorker, index};
    const bool leads = index == 0;  // a certificate without an index could be any worker's
    CHECK(Serves(worker, PeerRole::kCoordinator, "a:1", alone) == leads);
    CHECK_FALSE(Serves(worker, PeerRole::kCoordinator, "a:1", led));
    CHECK_FALSE(CallsAs(worker, PeerRole::kOperator, alone));
    CHECK(Access(worker, alone).Check(method::kAdopt).ok() == leads);
    CHECK(Access(worker, alone).Check(method::kLoad).ok() == leads);
    CHECK_FALSE(Access(worker, led).Check(method::kAdopt).ok());
    CHECK(Access(worker, led).Check(method::kExchange).ok());
  }
  for (const PeerRole role : {PeerRole::kPs, PeerRole::kOperator, PeerRole::kMonitor}) {
    for (const PeerRole other : kPeerRoles) {
      CHECK(CallsAs({"lab", role, 0}, other, alone) == (role == other));
      CHECK(Serves({"lab", role, 0}, other, "a:1", alone) == (role == other));
    }
  }
}

TEST_CASE("flags of security that do not go together are refused by name") {
  const SecurityOptions none;
  CHECK(CheckSecurityOptions(none, true).ok());
  const auto problem = [](const SecurityOptions& options, bool listens) {
    return std::string(CheckSecurityOptions(options, listens).message());
  };
  const auto with = [](const std::string& cert, const std::string& key, const std::string& ca,
                       const std::string& token, bool insecure = false) {
    return SecurityOptions{.cert = cert,
                           .key = key,
                           .ca = ca,
                           .token_file = token,
                           .cluster = "",
                           .insecure = insecure};
  };
  CHECK(problem(with("c", "k", "a", ""), true).empty());
  CHECK(problem(with("c", "k", "a", "t"), true).empty());
  CHECK(problem(with("", "", "a", "t"), false).empty());
  CHECK(problem(with("", "", "", "", true), true).empty());
  CHECK(problem(with("c", "", "a", ""), true).find("--tls-key FILE") != std::string::npos);
  CHECK(problem(with("", "k", "a", ""), true).find("--tls-cert FILE") != std::string::npos);
  CHECK(problem(with("c", "k", "", ""), true).find("--tls-ca FILE") != std::string::npos);
  CHECK(problem(with("", "", "", "t"), false).find("--tls-ca FILE") != std::string::npos);
  CHECK(problem(with("", "", "a", "t"), true).find("cannot serve") != std::string::npos);
  CHECK(problem(with("", "", "a", ""), false).find("--token-file FILE") != std::string::npos);
  CHECK(problem(with("c", "k", "a", "", true), true).find("--insecure") != std::string::npos);
}

}  // namespace
}  // namespace paracord
