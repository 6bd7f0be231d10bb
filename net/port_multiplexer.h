// The port of a daemon. The multiplexer serves streams (net/stream_connection.h) and hands all
// other connections to gRPC; both protocols share the port. A stream begins with its greeting or,
// under TLS, with a ClientHello that offers the streams' protocol. The multiplexer's own thread
// does the TLS handshake of a stream and reads the greeting, with the token where one is required.
// Until then the connection is unauthenticated: it has no thread, counts in no limit of streams, is
// closed after 5 s, and is closed earlier if it is the oldest of more than 1024. A TLS port closes
// connections that do not begin with a ClientHello of at most kClientHelloMax. If a burst of
// connections uses up the file descriptors, the rest wait in the kernel's backlog, and the
// multiplexer logs a line.
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
  // Binds the address. Errors are those of ListenAt, and RESOURCE_EXHAUSTED if the process has no
  // descriptor left besides the sockets.
  static absl::StatusOr<std::unique_ptr<PortMultiplexer>> Listen(const std::string& address);
  ~PortMultiplexer();  // ends the streams; connections handed to gRPC stay open
  PortMultiplexer(const PortMultiplexer&) = delete;
  PortMultiplexer& operator=(const PortMultiplexer&) = delete;

  // Starts to accept; called once. `others` is called on the multiplexer's thread with each
  // connection for gRPC: a connected, non-blocking socket from which nothing has been read. If
  // `credentials` are set, every connection must be under TLS. `refused` is told of connections
  // that are closed because they lack TLS, a valid certificate, a stream's greeting or token, or
  // the right to call Exchange.
  void Open(StreamConnection::Serving streams, std::function<void(int fd)> others,
            std::shared_ptr<Credentials> credentials = nullptr,
            std::shared_ptr<RefusedPeers> refused = std::make_shared<RefusedPeers>());
  const std::string& address() const { return sockets_.address; }
  const std::string& own_address() const { return sockets_.own_address; }
  // The answer of ReachesOut (net/socket_address.h) for the port's sockets.
  bool reaches_out() const { return ReachesOut(sockets_); }

 private:
  // A connection whose peer and protocol are not known yet.
  struct UnauthenticatedConnection {
    int fd = -1;
    // Owns the socket once the connection is known to be a stream.
    std::unique_ptr<Channel> channel;
    TlsChannel* shakes = nullptr;  // `channel` during its TLS handshake, and otherwise null
    RelayedPeer peer;              // set after the handshake; in plain text together with `channel`
    ClientGreeting greeting;
    int64_t since_ms = 0;
    // The events that poll waits for. 0: Run looks every 20 ms whether more bytes have come.
    short events = POLLIN;
    int seen = 0;  // bytes of the ClientHello that had come at the last peek
  };

  explicit PortMultiplexer(ListeningSockets sockets);
  void Run();
  bool HasRoom() const;
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
  ServedConnections served_;  // used by the multiplexer's thread while it runs
  std::thread thread_;
};

}  // namespace paracord
