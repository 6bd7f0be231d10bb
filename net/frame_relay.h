// Stands between gRPC's clients and gRPC: passes bytes on in both directions, and cuts a connection
// whose header block does not end, or that sends PING and SETTINGS, or resets requests, without end
// (net/header_blocks.h), or whose certificate does so over several connections (net/offenders.h):
// gRPC 1.51 would keep the block, and the answers, without a bound. If a
// client does not read its answers, nothing more is taken from it, since gRPC would keep the
// answers; nor while the intake has no room for its requests (net/arriving_requests.h). TLS ends
// here: gRPC gets plain text, and the relay says who the peer is. A client that has to show the
// token is a stranger until gRPC has seen it: few bytes of a stranger are passed on, and it is cut
// when its time is over, or when there are too many. One thread serves all
// connections.
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
#include "net/intake.h"
#include "net/offenders.h"
#include "net/refused_peers.h"
#include "net/relayed_peers.h"
#include "net/tls_channel.h"
#include "net/wake_list.h"

namespace paracord {

struct FrameRelayOptions {
  std::shared_ptr<Credentials> credentials = nullptr;  // with them, all clients must speak TLS
  // Counts the requests that are arriving.
  std::shared_ptr<Intake> intake = std::make_shared<Intake>(MemoryShare::kUnlimited);
  int64_t patience_ms = Intake::kPatienceMs;  // with a client while others wait for it
  int handshakes_max = 1024;                  // at once, of TLS; another ends the oldest
  int strangers_max = 256;                    // that have yet to show the token; the same
  std::shared_ptr<RefusedPeers> refused = std::make_shared<RefusedPeers>();
};

class FrameRelay {
 public:
  explicit FrameRelay(FrameRelayOptions options = {});
  // Passes on the bytes in flight for a moment, and then ends all connections.
  ~FrameRelay();
  FrameRelay(const FrameRelay&) = delete;
  FrameRelay& operator=(const FrameRelay&) = delete;

  // Takes a connected socket that does not block, and calls `deliver` with a socket that is
  // connected to it through the relay: at once, or with credentials, once the peer has shown who it
  // is, on the relay's thread. If the peer cannot, or there are no descriptors, the connection ends
  // and `deliver` is not called.
  void Add(int client, std::function<void(int fd)> deliver);
  // Says who is behind a delivered socket, whose peer gRPC calls "unix-abstract:NAME".
  const std::shared_ptr<RelayedPeers>& peers() const { return peers_; }

  // Bytes of a stranger that gRPC gets; its first call and more fit. What is beyond waits.
  static constexpr size_t kStrangerBytesMax = 64 << 10;

 private:
  // One direction of a connection.
  struct Way {
    std::string pending;  // read and not written yet; then nothing more is read
    int64_t pending_since_ms = 0;
    bool ended = false;  // its source has
  };
  struct Connection {
    uint64_t id = 0;
    std::unique_ptr<Channel> client;
    TlsChannel* tls = nullptr;         // the client's channel, if it is one of TLS
    std::function<void(int)> deliver;  // until the connection is delivered
    int64_t since_ms = 0;              // when its handshake began
    bool stranger = false;             // delivered, and has not shown the token
    size_t stranger_bytes = 0;         // of it that were passed on
    int server = -1;                   // after delivery
    std::string name;                  // of that socket
    PeerCertificate certificate;
    std::string certificate_name;  // with its serial; "" without one
    bool only_looks = false;       // a monitor's or an operator's
    HeaderBlocks blocks;
    HeaderBlocks answers{/*preface=*/0};
    FrameRate asks{FrameRate::kAsksMax};
    FrameRate resets{FrameRate::kResetsMax};
    std::unique_ptr<ArrivingRequests> requests;
    bool full = false;  // the intake has no room for more of them
    bool kept = false;  // its channel may have more than was taken, of which no socket tells
    Way up;             // from the client
    Way down;           // to it
  };

  void Run();
  void TakeNew();
  void TakeWoken();
  template <class IsFn>
  void EndOldest(IsFn is);
  void LookAtStranger(Connection& connection);
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
  const int descriptors_ = DescriptorsMax();  // that this process may have
  const std::shared_ptr<WakeList> wakes_ = std::make_shared<WakeList>();
  const std::string name_;  // of this relay; no other process of the host has it
  const std::shared_ptr<RelayedPeers> peers_ = std::make_shared<RelayedPeers>();
  std::atomic<uint64_t> last_{0};  // id of the last connection
  std::atomic<int> shaking_{0};    // connections whose handshake is not done
  std::atomic<bool> stop_{false};
  Mutex mu_;
  std::vector<std::unique_ptr<Connection>> new_ ABSL_GUARDED_BY(mu_);
  // Used by the relay's thread only.
  int strangers_ = 0;
  Offenders offenders_;
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;  // by id
  std::vector<char> scratch_;
  std::thread thread_;
};

}  // namespace paracord
