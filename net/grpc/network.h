// The network over gRPC. A generic service serves every method as a stream of messages; a call with
// a single message each way is an ordinary unary call for any generated stub. The port also serves
// our own streams for bulk data (DialBoot; net/port_multiplexer.h). Owned by main; common/rpc.h
// says which threads may call. A link accepts a peer only if its certificate belongs to the cluster
// and to the role that serves the calls (security/call_rights.h). Debian's gRPC has traps (port
// sharing, reconnection on a 5 s grid, unlimited memory); the files of this folder say where we
// avoid them.
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
  // Limit of all requests that arrive or are being answered; above it, peers wait
  // (net/request_budget.h).
  uint64_t requests_bytes_max = uint64_t{2} << 30;
  // If set, the limit, instead of requests_bytes_max.
  std::shared_ptr<MemoryShare> requests = nullptr;
  // A connection without a call for this long is closed; the next call of its client dials again.
  int64_t idle_ms = 300000;
  // How long a gRPC request that arrives may stall while other requests wait for room. A stall is
  // seen only between messages.
  int64_t request_patience_ms = 30000;
  // With credentials, every connection uses TLS, the listener shows a certificate, and a client
  // shows a certificate or the token. Without, plain text is limited to this machine, unless
  // `insecure`.
  std::shared_ptr<Credentials> credentials = {};
  // Learns of every client that a listener refuses or cuts off.
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

  // The limit of requests' memory, of all listeners. Code that receives requests in another way
  // should count them here, too.
  const std::shared_ptr<RequestBudget>& request_budget() const { return requests_; }
  const std::shared_ptr<Credentials>& credentials() const { return options_.credentials; }
  const std::shared_ptr<RefusedPeers>& refused() const { return options_.refused; }

 private:
  const GrpcOptions options_;
  // Shared with calls, which may outlive the network.
  const std::shared_ptr<RequestBudget> requests_;
};

}  // namespace paracord
