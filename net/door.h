// The port at which a daemon listens. Streams are served here (net/stream_connection.h); all other
// connections are handed on to gRPC, so that both share one port. A stream begins with its
// greeting, or, where the port asks for TLS, with a ClientHello that offers the protocol of
// streams. The TLS handshake and the greeting, which may have to bring the token, are done here on
// the door's thread: until both are over, a connection is a stranger's, which has no thread and
// takes no place of a peer's, and ends when there are too many strangers or its time is over. A
// port that asks for TLS closes connections that begin with anything else. A burst of more
// connections than there are descriptors only waits, and the log says so. It has a thread of its
// own.
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

class Door {
 public:
  // Binds the address, with the errors of ListenAt.
  static absl::StatusOr<std::unique_ptr<Door>> Listen(const std::string& address);
  ~Door();  // ends the streams; what was handed on stays
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  // Starts to take connections; `others` gets a connected socket that does not block, of which
  // nothing has been read. With `credentials` the port asks for TLS.
  void Open(StreamConnection::Serving streams, std::function<void(int fd)> others,
            std::shared_ptr<Credentials> credentials = nullptr,
            std::shared_ptr<RefusedPeers> refused = std::make_shared<RefusedPeers>());
  const std::string& address() const { return sockets_.address; }
  const std::string& own_address() const { return sockets_.own_address; }
  // True if other machines can reach one of its sockets.
  bool reaches_out() const { return ReachesOut(sockets_); }

 private:
  // A connection of which it is not known yet who it is or what it speaks.
  struct Stranger {
    int fd = -1;
    std::unique_ptr<Channel> channel;  // owns the socket once it is known to be a stream's
    TlsChannel* shakes = nullptr;      // the channel, while there is a handshake
    RelayedPeer peer;                  // after the handshake
    ClientGreeting greeting;
    int64_t since_ms = 0;
    short events = POLLIN;  // that it waits for; 0: it is looked at again soon, if more has come
    int seen = 0;           // bytes of its hello that were there at the last look
  };

  explicit Door(ListeningSockets sockets);
  void Run();
  bool Accept(int listener);
  void SayFull(const std::string& why);
  static void CloseStranger(Stranger& stranger);
  static bool HasMore(const Stranger& stranger);
  bool Sort(Stranger& stranger, bool ready);
  bool Look(Stranger& stranger);
  bool LookForTls(Stranger& stranger);
  bool Shake(Stranger& stranger);
  bool AwaitGreeting(Stranger& stranger);
  bool Hear(Stranger& stranger);
  void Refuse(int fd, RefusedPeers::Cause cause, const std::string& name,
              const absl::Status& why) const;
  void ServeStream(std::unique_ptr<Channel> channel, RelayedPeer peer);
  void EndUnbelieved();

  const ListeningSockets sockets_;
  const int stop_fd_;
  const int descriptors_;  // that this process may have
  StreamConnection::Serving streams_;
  std::function<void(int)> others_;
  std::shared_ptr<Credentials> credentials_;  // null: the port is plain
  std::shared_ptr<RefusedPeers> refused_;
  std::vector<Stranger> strangers_;      // of the thread
  std::optional<int64_t> said_full_ms_;  // of the thread
  ServedConnections served_;             // of the thread while it runs
  std::thread thread_;
};

}  // namespace paracord
