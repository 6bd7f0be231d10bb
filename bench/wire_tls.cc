#include "wire_tls.h"

#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "bench_keys.h"
#include "measure.h"
#include "net/port_multiplexer.h"
#include "net/stream_greeting.h"
#include "net/stream_link.h"
#include "net/tls_channel.h"

namespace paracord::bench {
namespace {

// A connected socket used directly, without code of this tree, plain or under TLS.
class Raw {
 public:
  Raw(int fd, SSL_CTX* context, bool serves) : fd_(fd) {
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (context == nullptr) return;
    ssl_ = SSL_new(context);
    // The cipher that streams use.
    SSL_set_ciphersuites(ssl_, "TLS_AES_128_GCM_SHA256");
    SSL_set_fd(ssl_, fd);
    if ((serves ? SSL_accept(ssl_) : SSL_connect(ssl_)) != 1) good_ = false;
  }
  ~Raw() {
    SSL_free(ssl_);
    close(fd_);
  }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  bool Read(char* to, uint64_t bytes) {
    for (uint64_t done = 0; good_ && done < bytes;) {
      size_t got = 0;
      if (ssl_ != nullptr) {
        good_ = SSL_read_ex(ssl_, to + done, bytes - done, &got) == 1;
      } else {
        const ssize_t received = recv(fd_, to + done, bytes - done, 0);
        good_ = received > 0;
        got = good_ ? static_cast<size_t>(received) : 0;
      }
      done += got;
    }
    return good_;
  }
  bool Write(const char* from, uint64_t bytes) {
    for (uint64_t done = 0; good_ && done < bytes;) {
      size_t put = 0;
      if (ssl_ != nullptr) {
        good_ = SSL_write_ex(ssl_, from + done, bytes - done, &put) == 1;
      } else {
        const ssize_t sent = send(fd_, from + done, bytes - done, MSG_NOSIGNAL);
        good_ = sent > 0;
        put = good_ ? static_cast<size_t>(sent) : 0;
      }
      done += put;
    }
    return good_;
  }
  bool good() const { return good_; }

 private:
  const int fd_;
  SSL* ssl_ = nullptr;
  bool good_ = true;
};

// A transfer over a raw socket: bytes to the server, and bytes back.
struct Order {
  uint64_t push = 0;
  uint64_t pull = 0;
};

struct RawListener {
  RawListener() : fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(at);
    if (bind(fd, reinterpret_cast<sockaddr*>(&at), size) != 0 || listen(fd, 64) != 0) {
      Fail("cannot listen");
    }
    getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size);
  }
  int Connect() const {
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(client, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0) {
      Fail("cannot connect");
    }
    return client;
  }
  int fd = -1;
  sockaddr_in at{};
};

void ServeRawTls(int listener, SSL_CTX* context, uint64_t bytes_max) {
  while (true) {
    const int fd = accept(listener, nullptr, nullptr);
    if (fd < 0) continue;
    std::thread([fd, context, bytes_max] {
      Raw raw(fd, context, /*serves=*/true);
      std::vector<char> buffer;
      Order order;
      while (raw.Read(reinterpret_cast<char*>(&order), sizeof(order))) {
        const uint64_t wanted = std::min(std::max(order.push, order.pull), bytes_max) + 1;
        if (buffer.size() < wanted) buffer.resize(wanted, 1);
        raw.Read(buffer.data(), order.push);
        raw.Write(buffer.data(), order.pull + 1);  // one more byte acknowledges the push
      }
    }).detach();
  }
}

// Answers "/pull/BYTES" with BYTES bytes, and other calls with none.
class Blocks : public Service {
 public:
  explicit Blocks(uint64_t bytes_max) : block_(bytes_max, 1) {}
  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override {
    request.Clear();
    uint64_t bytes = 0;
    (void)absl::SimpleAtoi(std::string(method.substr(method.rfind('/') + 1)), &bytes);
    const absl::string_view reply(block_.data(), std::min(bytes, uint64_t{block_.size()}));
    call->Reply(Parts{absl::MakeCordFromExternal(reply, [](absl::string_view) {})});
  }

 private:
  const std::vector<char> block_;
};

// Receives a whole reply in one block.
class Whole : public ReplySink {
 public:
  explicit Whole(std::vector<char>& block) : block_(block) {}
  uint64_t bytes_max() const override { return block_.size(); }
  Place Look(std::string_view) override {
    return {.looked = 0, .at = block_.data(), .bytes = block_.size()};
  }

 private:
  std::vector<char>& block_;
};

class NoLink : public Link {
 public:
  explicit NoLink(std::string address) : address_(std::move(address)) {}
  void Call(std::string_view, Parts, int64_t, ReplyFn done) override {
    done(absl::UnavailableError("no stream"));
  }
  const std::string& address() const override { return address_; }

 private:
  const std::string address_;
};

struct Process {
  explicit Process(const SecurityOptions& options) {
    auto loaded = Credentials::Load(options, files);
    if (!loaded.ok()) Fail(std::string(loaded.status().message()));
    credentials = *std::move(loaded);
  }
  PosixFiles files;
  std::shared_ptr<Credentials> credentials;
};

struct Ends {
  std::unique_ptr<PortMultiplexer> plain;
  std::unique_ptr<PortMultiplexer> tls;
  RawListener raw_plain;
  RawListener raw_tls;
};

[[noreturn]] void ServeTls(Ends& ends, const Process& ps, uint64_t bytes_max) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Blocks blocks(bytes_max);
  const auto request_budget = std::make_shared<RequestBudget>(uint64_t{1} << 40);
  const auto others = [](int fd) { close(fd); };
  ends.plain->Open({&blocks, request_budget, uint64_t{1} << 40}, others);
  ends.tls->Open({&blocks, request_budget, uint64_t{1} << 40}, others, ps.credentials);
  const auto keys = ps.credentials->Current();
  std::thread([&] { ServeRawTls(ends.raw_plain.fd, nullptr, bytes_max); }).detach();
  ServeRawTls(ends.raw_tls.fd, keys->server.get(), bytes_max);
  std::_Exit(0);
}

// Calls over a stream that move `push` bytes there and `pull` bytes back.
class Streams {
 public:
  Streams(const std::string& address, std::shared_ptr<Credentials> credentials)
      : link_(MakeStreamLink(std::make_unique<NoLink>(address), std::move(credentials))) {}
  void Transfer(std::vector<char>& block, uint64_t push, uint64_t pull) {
    Parts parts;
    if (push > 0) {
      parts.push_back(absl::MakeCordFromExternal(absl::string_view(block.data(), push),
                                                 [](absl::string_view) {}));
    }
    std::promise<absl::StatusOr<absl::Cord>> done;
    link_->CallInto(absl::StrCat("/pull/", pull), std::move(parts), 60000,
                    pull > 0 ? std::make_shared<Whole>(block) : nullptr,
                    [&](absl::StatusOr<absl::Cord> reply) { done.set_value(std::move(reply)); });
    const absl::StatusOr<absl::Cord> reply = done.get_future().get();
    if (!reply.ok()) Fail(std::string(reply.status().message()));
    if (reply->size() != pull) Fail("a reply of another size");
  }

 private:
  const std::unique_ptr<Link> link_;
};

void RawTransfer(Raw& raw, std::vector<char>& block, uint64_t push, uint64_t pull) {
  const Order order{push, pull};
  char arrived = 0;
  raw.Write(reinterpret_cast<const char*>(&order), sizeof(order));
  raw.Write(block.data(), push);
  raw.Read(block.data(), pull);
  if (!raw.Read(&arrived, 1)) Fail("the raw socket broke");
}

// Connects a stream up to its first call.
void ConnectStream(const std::string& address, Credentials& credentials) {
  NameLookup name(address);
  const absl::StatusOr<int> fd = ConnectSocket(name, 1000);
  if (!fd.ok()) Fail("cannot connect");
  const auto keys = credentials.Current();
  auto tls = TlsChannel::Make(*fd, keys->client.get(), TlsChannel::End::kClient);
  if (!tls.ok() || !(*tls)->HandshakeWithin(5000).ok() || !GreetStream(**tls, 5000)) {
    Fail("no handshake");
  }
}

void MeasureConnections(const Ends& ends, const Process& worker, int rounds) {
  const auto keys = worker.credentials->Current();
  const std::vector<Way> ways = {
      {"raw OpenSSL, mTLS",
       [&] {
         Raw raw(ends.raw_tls.Connect(), keys->client.get(), /*serves=*/false);
         std::vector<char> none;
         RawTransfer(raw, none, 0, 0);
       },
       "", "connect_raw_tls"},
      {"stream, plain",
       [&] {
         NameLookup name(ends.plain->address());
         const auto channel = MakePlainChannel(ConnectSocket(name, 1000).value());
         if (!GreetStream(*channel, 5000)) Fail("no greeting");
       },
       "", "connect_plain"},
      {"stream, mTLS", [&] { ConnectStream(ends.tls->address(), *worker.credentials); },
       "raw OpenSSL, mTLS", "connect_mtls"}};
  PrintTurns("a connection until its first answer", 0, ways, rounds);
  const std::vector<Timing> timings = TakeTurns({ways[2]}, rounds);
  PrintGoal("mTLS, a connection", timings[0].median * 1e3, Bound::kAtMost, 10, "ms");
}

void MeasureRates(const Ends& ends, const Process& client, const std::vector<uint64_t>& sizes,
                  int rounds) {
  const auto keys = client.credentials->Current();
  Raw raw_plain(ends.raw_plain.Connect(), nullptr, /*serves=*/false);
  Raw raw_tls(ends.raw_tls.Connect(), keys->client.get(), /*serves=*/false);
  Streams plain(ends.plain->address(), nullptr);
  Streams tls(ends.tls->address(), client.credentials);
  for (const uint64_t bytes : sizes) {
    const std::string size =
        bytes < 1000000 ? absl::StrCat(bytes / 1000, "KB") : absl::StrCat(bytes / 1000000, "MB");
    std::vector<char> block(bytes, 2);
    for (const auto& [what, push, pull] : std::initializer_list<std::array<uint64_t, 3>>{
             {0, 0, bytes}, {1, bytes, 0}, {2, bytes, bytes}}) {
      const char* const name = std::array{"pull", "push", "exchange"}[what];
      const std::vector<Way> ways = {
          {"raw TCP", [&, push, pull] { RawTransfer(raw_plain, block, push, pull); }, "", ""},
          {"raw OpenSSL", [&, push, pull] { RawTransfer(raw_tls, block, push, pull); }, "",
           absl::StrCat("tls_", name, "_", size, "_raw")},
          {"stream, plain", [&, push, pull] { plain.Transfer(block, push, pull); }, "raw TCP", ""},
          {"stream, TLS", [&, push, pull] { tls.Transfer(block, push, pull); }, "raw OpenSSL",
           absl::StrCat("tls_", name, "_", size)}};
      PrintTurns(absl::StrCat(size, ": ", name, " under TLS"), bytes < 1000000 ? 0 : push + pull,
                 ways, bytes < 10000000 ? rounds * 20 : rounds);
    }
  }
}

}  // namespace

void MeasureTls(const std::vector<uint64_t>& sizes, int rounds) {
  signal(SIGPIPE, SIG_IGN);
  // Configures malloc as the daemons do (daemon/daemon_process.cc).
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 16 << 20);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  BenchKeys keys;
  const Process ps(keys.Issue("spiffe://benchmark/ps/0"));
  const Process worker(keys.Issue("spiffe://benchmark/worker/0"));
  const Process with_token(keys.Issue(""));  // a token allows every call
  Ends ends;
  for (std::unique_ptr<PortMultiplexer>* const multiplexer : {&ends.plain, &ends.tls}) {
    absl::StatusOr<std::unique_ptr<PortMultiplexer>> made = PortMultiplexer::Listen("127.0.0.1:0");
    if (!made.ok()) Fail(std::string(made.status().message()));
    *multiplexer = *std::move(made);
  }
  const pid_t server = fork();  // before any thread exists
  if (server == 0) ServeTls(ends, ps, sizes.back());
  CountProcess(server);
  MeasureRates(ends, with_token, sizes, rounds);
  MeasureConnections(ends, worker, rounds * 20);
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
}

}  // namespace paracord::bench
