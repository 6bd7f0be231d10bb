// The network over gRPC. One generic service serves every method as a stream of messages, so that a
// call with one message each way is an ordinary unary call for any generated stub. The same port
// serves our own streams, which peers of ours use for bulk data (DialBoot; net/door.h). Owned by
// main; see common/rpc.h for threads. A link believes a peer only if its certificate is of the
// cluster and of the role that serves the calls (security/call_rights.h). Debian's gRPC has traps
// that this class avoids (port sharing, reconnection on a 5 s grid, unlimited memory); the files of
// this folder say where.
#pragma once

#include <memory>
#include <string>

#include "common/rpc.h"
#include "net/intake.h"
#include "net/refused_peers.h"
#include "security/credentials.h"

namespace paracord {

struct GrpcOptions {
  int64_t message_bytes_max = 2 << 20;  // of one part; a message has as many parts as it needs
  uint64_t request_bytes_max = uint64_t{64} << 30;  // of one request, all parts
  // The limit for all requests that are arriving or being answered; above it their peers wait
  // (net/intake.h).
  uint64_t requests_bytes_max = uint64_t{2} << 30;
  std::shared_ptr<MemoryShare> requests = nullptr;  // if set, it has the limit and the spare bytes
  // A connection on which there was no call for so long is ended; the caller's next call makes
  // another one.
  int64_t idle_ms = 300000;
  // How long a gRPC request may bring nothing while others wait for it. Its bytes become visible a
  // message at a time.
  int64_t request_patience_ms = 30000;
  // With credentials, every connection uses TLS, and both sides show who they are. Without, plain
  // text goes to and from this machine only, unless `insecure`.
  std::shared_ptr<Credentials> credentials = {};
  // Hears of clients that listeners refuse.
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

  // The intake of all listeners. Requests that reach the process in other ways should count there,
  // too.
  const std::shared_ptr<Intake>& intake() const { return intake_; }
  const std::shared_ptr<Credentials>& credentials() const { return options_.credentials; }
  const std::shared_ptr<RefusedPeers>& refused() const { return options_.refused; }

 private:
  const GrpcOptions options_;
  const std::shared_ptr<Intake> intake_;  // shared with calls, which may outlive the network
};

}  // namespace paracord
