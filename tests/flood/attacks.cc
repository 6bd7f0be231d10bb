#include "tests/flood/attacks.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <utility>

#include "common/rpc.h"
#include "exchange/codec.h"
#include "net/grpc/network.h"
#include "net/name_lookup.h"
#include "net/socket_address.h"
#include "net/stream_greeting.h"
#include "proto/protocol.h"
#include "proto/stream.pb.h"

namespace paracord::flood {
namespace {

using namespace std::chrono_literals;
using Stop = std::atomic<bool>;

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// A connected socket, closed by the destructor.
class Socket {
 public:
  explicit Socket(const std::string& address) {
    NameLookup name(address);
    const absl::StatusOr<int> fd = ConnectSocket(name, 2000);
    if (fd.ok()) fd_ = *fd;
  }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }
  // Sends all bytes, but gives up if the peer is gone or reads nothing for a while.
  bool Send(std::string_view bytes) const {
    while (!bytes.empty()) {
      pollfd ready{fd_, POLLOUT, 0};
      if (fd_ < 0 || poll(&ready, 1, 500) <= 0) return false;
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  bool Gone() const {
    pollfd ready{fd_, POLLIN, 0};
    char byte = 0;
    return fd_ < 0 || (poll(&ready, 1, 0) > 0 && recv(fd_, &byte, 1, MSG_PEEK) <= 0);
  }

 private:
  int fd_ = -1;
};

void WaitFor(const Stop& stop) {
  while (!stop) std::this_thread::sleep_for(20ms);
}

void InThreads(int count, const std::function<void(int)>& run) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(run, i);
  for (std::thread& thread : threads) thread.join();
}

std::string Http2Frame(char type, char flags, uint32_t stream, const std::string& body) {
  std::string frame(9, '\0');
  for (size_t i = 0; i < 3; ++i) frame[i] = static_cast<char>(body.size() >> (16 - 8 * i));
  frame[3] = type;
  frame[4] = flags;
  for (size_t i = 0; i < 4; ++i) frame[5 + i] = static_cast<char>(stream >> (24 - 8 * i));
  return frame + body;
}

std::string StreamCall(uint64_t call, const std::string& method, uint64_t body_bytes) {
  StreamFrame frame;
  frame.set_kind(StreamFrame::CALL);
  frame.set_call(call);
  frame.set_method(method);
  frame.set_body_bytes(body_bytes);
  const std::string text = frame.SerializeAsString();
  std::string framed(4, '\0');
  framed[0] = static_cast<char>(text.size());
  framed[1] = static_cast<char>(text.size() >> 8);
  return framed + text;
}

Fence FenceOf(const PsDescription& described) {
  Fence fence;
  fence.set_run_id(described.run_id());
  fence.set_generation(described.generation());
  fence.set_boot_id(described.boot_id());
  fence.set_protocol(kProtocol);
  return fence;
}

void IdleSockets(const std::string& address, const PsDescription&, const Stop& stop) {
  std::vector<Socket> sockets;
  while (sockets.size() < 2000 && !stop) sockets.emplace_back(address);
  WaitFor(stop);
}

// Pushes bodies of 64 MiB that fit no partition. The sender itself keeps only 1 MiB.
void LargePushes(const std::string& address, const PsDescription& described, const Stop& stop) {
  GrpcNetwork network;
  ExchangeRequest header;
  *header.mutable_fence() = FenceOf(described);
  header.mutable_batch();
  const absl::Cord piece(std::string(1 << 20, 'x'));
  std::vector<PieceView> pieces;
  for (uint64_t i = 0; i < 64; ++i) pieces.push_back({0, i << 20, piece});
  InThreads(32, [&](int i) {
    const std::unique_ptr<Link> link =
        i % 2 == 0 ? network.Dial(address) : network.DialBoot(address, "nobody");
    while (!stop) {
      auto answered = std::make_shared<std::atomic<bool>>(false);
      link->Call(method::kExchange, EncodeExchange(header, pieces), 30000,
                 [answered](const absl::StatusOr<absl::Cord>&) { *answered = true; });
      while (!stop && !*answered) std::this_thread::sleep_for(5ms);
    }
  });
}

// A client on top of the gRPC library: each connection has 4 calls at a time, with a message of 64
// MiB each.
void LargeMessages(const std::string& address, const PsDescription&, const Stop& stop) {
  const grpc::Slice message(std::string(64 << 20, 'x'));
  InThreads(32, [&](int) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    grpc::GenericStub stub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
    while (!stop) {
      grpc::CompletionQueue queue;
      std::array<grpc::ClientContext, 4> contexts;
      std::array<grpc::ByteBuffer, 4> replies;
      std::array<grpc::Status, 4> statuses;
      std::vector<std::unique_ptr<grpc::GenericClientAsyncResponseReader>> calls;
      for (size_t i = 0; i < contexts.size(); ++i) {
        contexts[i].set_deadline(std::chrono::system_clock::now() + 5s);
        calls.push_back(stub.PrepareUnaryCall(&contexts[i], std::string(method::kExchange),
                                              grpc::ByteBuffer(&message, 1), &queue));
        calls.back()->StartCall();
        calls.back()->Finish(&replies[i], &statuses[i], nullptr);
      }
      void* tag = nullptr;
      bool ok = false;
      for (size_t over = 0; over < contexts.size();) {
        const auto soon = std::chrono::system_clock::now() + 50ms;
        if (queue.AsyncNext(&tag, &ok, soon) == grpc::CompletionQueue::GOT_EVENT) ++over;
        if (!stop) continue;
        for (grpc::ClientContext& context : contexts) context.TryCancel();
      }
      queue.Shutdown();
    }
  });
}

// Half of the connections stay below the rate at which the daemon cuts them. None reads an answer.
void PingStorm(const std::string& address, const PsDescription&, const Stop& stop) {
  std::string pings;
  for (int i = 0; i < 100; ++i) pings += Http2Frame(6, 0, 0, "12345678");
  InThreads(8, [&](int i) {
    const auto pause = i % 2 == 0 ? 6ms : 0ms;  // 16,000 pings a second
    while (!stop) {
      const Socket socket(address);
      bool takes = socket.Send(std::string(kPreface) + Http2Frame(4, 0, 0, ""));
      while (takes && !stop && !socket.Gone()) {
        takes = socket.Send(pings);
        std::this_thread::sleep_for(pause);
      }
      std::this_thread::sleep_for(10ms);
    }
  });
}

// Each connection sends the greatest allowed number of pings per second in one burst.
void PingBursts(const std::string& address, const PsDescription&, const Stop& stop) {
  std::string pings = std::string(kPreface) + Http2Frame(4, 0, 0, "");
  for (int i = 0; i < 19000; ++i) pings += Http2Frame(6, 0, 0, "12345678");
  InThreads(8, [&](int) {
    while (!stop) {
      const Socket socket(address);
      (void)socket.Send(pings);
      for (int i = 0; i < 50 && !stop && !socket.Gone(); ++i) std::this_thread::sleep_for(20ms);
    }
  });
}

bool Greets(const Socket& socket) {
  constexpr int64_t kPatienceMs = 2000;
  const std::unique_ptr<Channel> channel = MakePlainChannel(dup(socket.fd()));
  return GreetStream(*channel, kPatienceMs);
}

// Asks for values again and again without reading the answers.
void SlowReaders(const std::string& address, const PsDescription& described, const Stop& stop) {
  ExchangeRequest header;
  *header.mutable_fence() = FenceOf(described);
  for (const PartitionDescription& partition : described.partitions()) {
    PartitionPull& pull = *header.add_pull();
    pull.set_partition(partition.id());
    pull.set_encoding(ENCODING_BF16);  // a copy for each reader
  }
  const std::string body = header.SerializeAsString();
  InThreads(32, [&](int) {
    while (!stop) {
      const Socket socket(address);
      bool takes = socket.fd() >= 0 && Greets(socket);
      for (uint64_t call = 1; takes && !stop; ++call) {
        takes = socket.Send(StreamCall(call, std::string(method::kExchange), body.size()) + body);
        if (call % 100 == 0) std::this_thread::sleep_for(1ms);
      }
      std::this_thread::sleep_for(50ms);
    }
  });
}

void EndlessHeaders(const std::string& address, const PsDescription&, const Stop& stop) {
  const std::string more = Http2Frame(9, 0, 1, std::string(4096, 'x'));
  InThreads(8, [&](int) {
    while (!stop) {
      const Socket socket(address);
      bool takes =
          socket.Send(std::string(kPreface) + Http2Frame(4, 0, 0, "") + Http2Frame(1, 0, 1, "x"));
      while (takes && !stop && !socket.Gone()) takes = socket.Send(more);
      std::this_thread::sleep_for(10ms);
    }
  });
}

void Garbage(const std::string& address, const PsDescription&, const Stop& stop) {
  InThreads(8, [&](int i) {
    std::mt19937 random(static_cast<uint32_t>(i));
    while (!stop) {
      const Socket socket(address);
      std::string bytes(1 + random() % 4000, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      const int kind = static_cast<int>(random() % 4);
      if (kind == 0) bytes = kStreamGreeting + bytes;
      if (kind == 1) bytes = std::string(kPreface) + bytes;
      if (kind == 2) bytes = "\x16\x03\x01" + bytes;  // the beginning of TLS
      (void)socket.Send(bytes);
      std::this_thread::sleep_for(2ms);
    }
  });
}

// Connections that stop in the middle of a greeting or message.
void HalfOpen(const std::string& address, const PsDescription&, const Stop& stop) {
  const std::string beginnings[] = {
      "p",
      std::string(kStreamGreeting).substr(0, 5),
      std::string(kPreface).substr(0, 10),
      std::string(kStreamGreeting) + StreamCall(1, "/paracord.ParameterServer/Exchange", 1 << 26) +
          std::string(70000, 'x'),
      std::string(kPreface) + Http2Frame(4, 0, 0, ""),
      std::string("\x16\x03\x01\x02\x00\x01", 6)};
  std::vector<Socket> sockets;
  for (size_t i = 0; i < 600 && !stop; ++i) {
    sockets.emplace_back(address);
    (void)sockets.back().Send(beginnings[i % std::size(beginnings)]);
  }
  WaitFor(stop);
}

}  // namespace

const std::vector<Attack>& Attacks() {
  static const std::vector<Attack> attacks = {
      {"2000 idle sockets", IdleSockets},
      {"32 x 64 MiB pushes", LargePushes},
      {"128 x 64 MiB messages", LargeMessages},
      {"ping storm", PingStorm},
      {"bursts of pings", PingBursts},
      {"slow readers", SlowReaders},
      {"endless headers", EndlessHeaders},
      {"garbage", Garbage},
      {"half-open connections", HalfOpen},
  };
  return attacks;
}

}  // namespace paracord::flood
