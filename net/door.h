// The port at which a daemon listens. Connections that begin with the greeting of streams are
// served here (net/stream_connection.h); all others are handed on to gRPC, so that both share one
// port. A burst of more connections than there are descriptors only waits, and the log says so. It
// has a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "net/served_connections.h"
#include "net/socket_address.h"
#include "net/stream_connection.h"
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
  // nothing has been read. With `credentials` the port asks for TLS: streams are refused, and so is
  // whatever else does not begin a handshake.
  void Open(StreamConnection::Serving streams, std::function<void(int fd)> others,
            std::shared_ptr<Credentials> credentials = nullptr);
  const std::string& address() const { return sockets_.address; }
  const std::string& own_address() const { return sockets_.own_address; }
  // True if other machines can reach one of its sockets.
  bool reaches_out() const { return ReachesOut(sockets_); }

 private:
  // A connection that has not said anything yet.
  struct Silent {
    int fd = -1;
    int64_t since_ms = 0;
  };

  explicit Door(ListeningSockets sockets);
  void Run();
  bool Accept(int listener);
  void SayFull(const std::string& why);
  bool Sort(const Silent& silent, bool readable);
  void ServeStream(int fd);

  const ListeningSockets sockets_;
  const int stop_fd_;
  const int descriptors_;  // that this process may have
  StreamConnection::Serving streams_;
  std::function<void(int)> others_;
  std::shared_ptr<Credentials> credentials_;
  std::vector<Silent> silent_;           // of the thread
  std::optional<int64_t> said_full_ms_;  // of the thread
  ServedConnections served_;             // of the thread while it runs
  std::thread thread_;
};

}  // namespace paracord
