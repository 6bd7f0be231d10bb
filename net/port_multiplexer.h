// The port of a daemon. The multiplexer serves streams (net/stream_connection.h) and hands all
// other connections to gRPC; both protocols share the port. A stream begins with its greeting or,
// under TLS, with a ClientHello that offers the streams' protocol. The multiplexer's own thread
// does the TLS handshake and reads the greeting, with the token where one is required. Until the
// greeting is read the connection is unauthenticated: it has no thread, counts in no limit of
// streams, and is closed after 5 s, or as the oldest when more than 1024 are unauthenticated. A TLS
// port closes connections that do not begin with a ClientHello of at most kClientHelloMax. If a
// burst of connections uses up the file descriptors, the rest wait in the kernel's backlog, though
// each attempt to accept (every 100 ms) may close one, and the multiplexer logs a line.
#pragma once

#include <poll.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "net/refused_peers.h"
#include "net/relayed_peers.h"
#include "net/served_connections.h"
#include "net/socket_address.h"
#include "net/stream_connection.h"
#include "net/stream_greeting.h"
#include "net/tls_channel.h"
#include "security/credentials.h"

namespace paracord {

class PortMultiplexer {
 public:
  // Binds the address. Errors are those of ListenAt; RESOURCE_EXHAUSTED if no descriptor is left.
  static absl::StatusOr<std::unique_ptr<PortMultiplexer>> Listen(const std::string& address);
  ~PortMultiplexer();  // ends the streams; connections handed to gRPC stay open
  PortMultiplexer(const PortMultiplexer&) = delete;
  PortMultiplexer& operator=(const PortMultiplexer&) = delete;

  // Starts to accept; called once. `others` gets each gRPC connection as a connected, non-blocking
  // socket from which nothing has been read, on the multiplexer's thread. If `credentials` are set,
  // every connection must be under TLS. `refused` is told of connections that are closed for want
  // of TLS, of a valid certificate, or of the right to call Exchange.
  void Open(StreamConnection::Serving streams, std::function<void(int fd)> others,
            std::shared_ptr<Credentials> credentials = nullptr,
            std::shared_ptr<RefusedPeers> refused = std::make_shared<RefusedPeers>());
  const std::string& address() const { return sockets_.address; }
  const std::string& own_address() const { return sockets_.own_address; }
  // True if another machine can reach the port.
  bool reaches_out() const { return ReachesOut(sockets_); }

 private:
  // A connection whose peer and protocol are not known yet.
  struct UnauthenticatedConnection {
    int fd = -1;
    // Owns the socket once the connection is known to be a stream.
    std::unique_ptr<Channel> channel;
    TlsChannel* shakes = nullptr;  // `channel` during its TLS handshake, and otherwise null
    RelayedPeer peer;              // set after the handshake; in plain text when `channel` is
    ClientGreeting greeting;
    int64_t since_ms = 0;
    // The events that poll waits for; 0: Run peeks again after 20 ms if more bytes came.
    short events = POLLIN;
    int seen = 0;  // bytes of the ClientHello that had come at the last peek
  };

  explicit PortMultiplexer(ListeningSockets sockets);
  void Run();
  bool Accept(int listener);
  void SayFull(const std::string& why);
  static void CloseUnauthenticated(UnauthenticatedConnection& connection);
  static bool HasMore(const UnauthenticatedConnection& connection);
  bool Sort(UnauthenticatedConnection& connection, bool ready);
  bool Look(UnauthenticatedConnection& connection);
  bool LookForTls(UnauthenticatedConnection& connection);
  bool Shake(UnauthenticatedConnection& connection);
  bool AwaitGreeting(UnauthenticatedConnection& connection);
  bool Hear(UnauthenticatedConnection& connection);
  void Refuse(int fd, RefusedPeers::Cause cause, const std::string& name,
              const absl::Status& why) const;
  void ServeStream(std::unique_ptr<Channel> channel, RelayedPeer peer);
  void EndUnbelieved();

  const ListeningSockets sockets_;
  const int stop_fd_;
  const int descriptors_;  // the most descriptors of this process
  StreamConnection::Serving streams_;
  std::function<void(int)> others_;
  std::shared_ptr<Credentials> credentials_;  // null: the port is plain
  std::shared_ptr<RefusedPeers> refused_;
  std::vector<UnauthenticatedConnection> unauthenticated_;  // used by the multiplexer's thread
  std::optional<int64_t> said_full_ms_;                     // used by the multiplexer's thread
  ServedConnections served_;  // used by the multiplexer's thread; destroyed after its end
  std::thread thread_;
};

}  // namespace paracord
