// The network over gRPC: every method is served as a stream of messages by one generic service, so
// a call of one message each way is an ordinary unary call to anybody's generated stub. At the same
// port it serves our own streams, which peers of ours take for the bulk (DialBoot; net/door.h).
// Owned by main; see common/rpc.h for threads. Debian's gRPC has traps that this class avoids (port
// sharing, reconnection on a 5 s grid, unlimited memory): the
// grpc_*.cc files say where.
#pragma once

#include <memory>
#include <string>

#include "common/rpc.h"
#include "net/intake.h"

namespace paracord {

struct GrpcOptions {
  int64_t message_bytes_max = 16 << 20;  // one part; a message has as many parts as it needs
  uint64_t request_bytes_max = uint64_t{64} << 30;  // one request, all parts
  // All requests that are arriving or being answered; above it their peers wait (net/intake.h).
  uint64_t requests_bytes_max = uint64_t{2} << 30;
  // Of a gRPC request that brings nothing while others wait for it. Its bytes are seen a message at
  // a time, and one has up to 16 MiB.
  int64_t request_patience_ms = 30000;
};

class GrpcNetwork : public Network {
 public:
  explicit GrpcNetwork(GrpcOptions options = {});
  std::unique_ptr<Link> Dial(const std::string& address) override;
  std::unique_ptr<Link> DialBoot(const std::string& address, const std::string& boot_id) override;
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Service& service) override;

  // Of all listeners; what comes into this process by other ways counts there too.
  const std::shared_ptr<Intake>& intake() const { return intake_; }

 private:
  const GrpcOptions options_;
  const std::shared_ptr<Intake> intake_;  // shared with calls, which may outlive the network
};

}  // namespace paracord
