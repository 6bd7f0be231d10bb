// The network over gRPC. A listener serves every method as a stream of messages in both directions;
// for a generated stub, a call with a single message each way is an ordinary unary call. The
// listener's port also serves our own streams for bulk data, which DialBoot uses
// (net/port_multiplexer.h). With credentials, a link accepts a peer only if the peer's certificate
// belongs to the cluster and, if a single role serves the called method, to that role
// (security/call_rights.h). common/rpc.h says which threads may call. The files of this folder say
// which traps of Debian's gRPC they avoid.
#pragma once

#include <memory>
#include <string>

#include "common/rpc.h"
#include "net/refused_peers.h"
#include "net/request_budget.h"
#include "security/credentials.h"

namespace paracord {

struct GrpcOptions {
  // Limit of a part; a request or reply has any number of parts.
  int64_t message_bytes_max = 2 << 20;
  uint64_t request_bytes_max = uint64_t{64} << 30;  // limit of a request, all parts together
  // Limit of all requests together that are arriving or being answered; above it, peers wait
  // (net/request_budget.h).
  uint64_t requests_bytes_max = uint64_t{2} << 30;
  // If set, limits all requests together in place of requests_bytes_max.
  std::shared_ptr<MemoryShare> requests = nullptr;
  // A listener closes a gRPC connection without a call for this long; the next call dials again.
  int64_t idle_ms = 300000;
  // How long a gRPC request that is arriving may stall while other requests wait for room. A stall
  // is noticed only between messages.
  int64_t request_patience_ms = 30000;
  // With credentials, every connection uses TLS, the listener shows a certificate, and a client
  // shows a certificate or the token. Without, plain text is limited to this machine, unless
  // `insecure`.
  std::shared_ptr<Credentials> credentials = {};
  // Counts the clients that listeners refuse or cut off.
  std::shared_ptr<RefusedPeers> refused = std::make_shared<RefusedPeers>();
  bool insecure = false;
};

class GrpcNetwork : public Network {
 public:
  explicit GrpcNetwork(GrpcOptions options = {});
  std::unique_ptr<Link> Dial(const std::string& address) override;
  std::unique_ptr<Link> DialBoot(const std::string& address, const std::string& boot_id) override;
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Service& service) override;

  // The limit of the memory of requests to all listeners. Code that receives requests in another
  // way should count them here, too.
  const std::shared_ptr<RequestBudget>& request_budget() const { return requests_; }
  const std::shared_ptr<Credentials>& credentials() const { return options_.credentials; }
  const std::shared_ptr<RefusedPeers>& refused() const { return options_.refused; }

 private:
  const GrpcOptions options_;
  // Shared with calls, which may outlive the network.
  const std::shared_ptr<RequestBudget> requests_;
};

}  // namespace paracord
