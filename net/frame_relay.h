// Forwards bytes between gRPC's clients and gRPC, and protects gRPC 1.51, which has no bounds of
// its own. The relay cuts a connection whose header block never ends, or that floods gRPC with
// PING, SETTINGS or resets (net/header_blocks.h). It refuses a certificate for a while after two
// connections were cut for beginning or resetting too many requests (net/offenders.h). The relay
// stops reading from a client that leaves its answers unread, because gRPC would buffer the
// answers, and from a client for whose requests the request budget has no room
// (net/arriving_requests.h). With credentials, TLS ends here: gRPC gets plain text and learns the
// peer's identity from RelayedPeers. A client without a certificate has to show the token, and is a
// stranger until gRPC has seen the token: the relay forwards at most kUnauthenticatedBytesMax of a
// stranger, cuts a stranger after 5 s, and cuts the oldest stranger when there are too many. A
// single thread serves all connections.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/descriptors.h"
#include "common/mutex.h"
#include "net/arriving_requests.h"
#include "net/header_blocks.h"
#include "net/offenders.h"
#include "net/refused_peers.h"
#include "net/relayed_peers.h"
#include "net/request_budget.h"
#include "net/tls_channel.h"
#include "net/wake_list.h"

namespace paracord {

struct FrameRelayOptions {
  std::shared_ptr<Credentials> credentials = nullptr;  // if set, all clients must speak TLS
  // Counts the bytes of arriving requests.
  std::shared_ptr<RequestBudget> request_budget =
      std::make_shared<RequestBudget>(MemoryShare::kUnlimited);
  // How long the client whose request is the oldest in the request budget may send hardly anything
  // while other clients wait for the request budget.
  int64_t patience_ms = RequestBudget::kPatienceMs;
  int handshakes_max = 1024;      // TLS handshakes at once; one more ends the oldest
  int unauthenticated_max = 256;  // strangers at once; one more ends the oldest
  std::shared_ptr<RefusedPeers> refused = std::make_shared<RefusedPeers>();
};

class FrameRelay {
 public:
  explicit FrameRelay(FrameRelayOptions options = {});
  // Passes on received bytes for at most 300 ms more, and then ends all connections.
  ~FrameRelay();
  FrameRelay(const FrameRelay&) = delete;
  FrameRelay& operator=(const FrameRelay&) = delete;

  // Takes ownership of a connected, non-blocking socket, and calls `deliver` with the socket that
  // gRPC shall serve instead. Without credentials Add itself calls `deliver`; with credentials the
  // relay's thread does, after the TLS handshake. If the handshake fails, the peer is refused or
  // descriptors run out, the connection ends without a call of `deliver`.
  void Add(int client, std::function<void(int fd)> deliver);
  // The peers behind the delivered sockets, keyed by NAME, where gRPC sees "unix-abstract:NAME".
  const std::shared_ptr<RelayedPeers>& peers() const { return peers_; }

  // The most bytes of a stranger that are forwarded to gRPC: more than a first call has. Further
  // bytes wait until gRPC has seen the token.
  static constexpr size_t kUnauthenticatedBytesMax = 64 << 10;

 private:
  // A single direction of a connection.
  struct Direction {
    std::string pending;           // received and not yet sent; blocks further receiving
    int64_t pending_since_ms = 0;  // when a byte was last sent, or `pending` got its first byte
    bool ended = false;            // the sender has closed its sending direction
  };
  struct Connection {
    uint64_t id = 0;
    std::unique_ptr<Channel> client;
    TlsChannel* tls = nullptr;         // `client`, if it is encrypted; null in plain text
    std::function<void(int)> deliver;  // the argument of Add; null once called
    int64_t since_ms = 0;              // when Add was called
    bool unauthenticated = false;      // the client is a stranger: it has not shown the token
    size_t unauthenticated_bytes = 0;  // bytes forwarded while the client is a stranger
    int server = -1;                   // the relay's socket towards gRPC; -1 before delivery
    std::string name;                  // the name of `server`, which gRPC sees as its peer
    PeerCertificate certificate;
    std::string certificate_name;         // name and serial; "" without a certificate
    bool only_looks = false;              // the certificate is a monitor's or an operator's
    HeaderBlocks blocks;                  // the frames of the client
    HeaderBlocks answers{/*preface=*/0};  // the frames of gRPC
    FrameRate asks{FrameRate::kAsksMax};
    FrameRate resets{FrameRate::kResetsMax};
    std::unique_ptr<ArrivingRequests> requests;
    bool full = false;  // the request budget has no room: nothing more is read from the client
    bool kept = false;  // the TLS channel may hold received bytes, which epoll cannot see
    Direction up;       // from the client to gRPC
    Direction down;     // from gRPC to the client
  };

  void Run();
  void TakeNew();
  void TakeWoken();
  template <class IsFn>
  void EndOldest(IsFn is);
  void LookAtUnauthenticated(Connection& connection);
  bool Tick(Connection& connection);
  bool Serve(Connection& connection);
  bool Shake(Connection& connection);
  int Pair(Connection& connection, RelayedPeer peer);
  bool Watch(const Connection& connection, int fd) const;
  bool Pump(Connection& connection);
  bool PumpUp(Connection& connection);
  bool MoveUp(Connection& connection);
  ssize_t ReceiveUp(Connection& connection, std::span<char> to);
  bool MayPass(Connection& connection, std::span<const char> bytes);
  bool MoveDown(Connection& connection);
  void SetInterest(Connection& connection) const;
  void End(Connection& connection);

  const FrameRelayOptions options_;
  const int epoll_fd_;
  const int descriptors_ = DescriptorsMax();  // the most descriptors of this process
  const std::shared_ptr<WakeList> wakes_ = std::make_shared<WakeList>();
  const std::string name_;  // prefix of socket names, unique on the host
  const std::shared_ptr<RelayedPeers> peers_ = std::make_shared<RelayedPeers>();
  std::atomic<uint64_t> last_{0};  // id of the last connection
  std::atomic<int> shaking_{0};    // connections whose handshake is not done
  std::atomic<bool> stop_{false};
  Mutex mu_;
  // Connections that the relay's thread has not taken over yet.
  std::vector<std::unique_ptr<Connection>> new_ ABSL_GUARDED_BY(mu_);
  // The following members are used by the relay's thread only.
  int unauthenticated_ = 0;  // connections of strangers
  Offenders offenders_;
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;  // keyed by connection id
  std::vector<char> scratch_;
  std::thread thread_;
};

}  // namespace paracord
