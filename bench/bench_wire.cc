// Measures transfers of parameters between two processes: pulls, applied pushes, and exchanges of
// both, over TCP, unix sockets, shared memory and gRPC. Compares them with a raw socket and memcpy
// in the same run. Then measures exchanges of bf16 values and of table rows. With --tls measures
// streams under TLS and raw OpenSSL sockets instead.
//   bench_wire [--mb-max N] [--rounds N] [--tls]
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/parallel.h"
#include "common/shared_memory.h"
#include "common/thread_loop.h"
#include "config/flags.h"
#include "daemon/daemon_process.h"
#include "exchange/codec.h"
#include "exchange/encoding.h"
#include "exchange/reply_sink.h"
#include "measure.h"
#include "store/dense_partition.h"
#include "store/store.h"
#include "wire_rows.h"
#include "wire_tls.h"

namespace paracord::bench {
namespace {

using SharedFloats = std::vector<float, SharedAllocator<float>>;
const char* const kBootId = "bench-wire";

// Exits with the error of a failed system call.
[[noreturn]] void FailCall(const std::string& what) {
  Fail(absl::StrCat(what, ": ", std::strerror(errno)));
}

// ---- The serving process.

// A service whose methods "/sgd/1000000" and so on exchange with a ps that has one partition of
// 1,000,000 bytes, and whose kRowsMethod exchanges with a ps that has a table.
class Stores : public Service {
 public:
  explicit Stores(const std::vector<uint64_t>& sizes) {
    for (const char* optimizer : {"sgd", "adam"}) {
      for (const uint64_t bytes : sizes) {
        contents_[absl::StrCat("/", optimizer, "/", bytes)] = MakeContent(optimizer, bytes);
      }
    }
    contents_[std::string(kRowsMethod)] = MakeTable();
  }

  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override {
    absl::StatusOr<DecodedRequest> decoded = DecodeExchangeRequest(request);
    request.Clear();
    if (!decoded.ok()) return call->Reply(decoded.status());
    const Store store(*contents_.at(std::string(method)), counters_, waiting_);
    store.Exchange(*std::move(decoded), {},
                   [call](absl::StatusOr<Parts> reply) { call->Reply(std::move(reply)); });
  }

 private:
  static std::unique_ptr<PartitionSet> MakeContent(const char* optimizer, uint64_t bytes) {
    auto content = std::make_unique<PartitionSet>();
    content->plan.set_records(uint64_t{1} << 30);
    content->plan.set_batch(1);
    content->plan.set_split_batches(1 << 30);
    content->optimizer = ParseOptimizer({optimizer, nlohmann::json::object()}).value();
    PartitionContents values{.value = Block(bytes / sizeof(float)), .slots = {}, .ledger = {}};
    values.value.Fill(0.5f);
    for (const SlotSpec& slot : content->optimizer.slots) {
      values.slots.emplace_back(bytes / sizeof(float));
      values.slots.back().Fill(slot.initial);
    }
    Partition::Facts facts{
        .id = 0, .name = "v", .shape = {bytes / sizeof(float)}, .trained = true, .bytes = bytes};
    content->partitions.push_back(
        std::make_unique<DensePartition>(std::move(facts), content->optimizer, std::move(values)));
    content->trained = 1;
    return content;
  }

  std::map<std::string, std::unique_ptr<PartitionSet>> contents_;
  UpdateCounters counters_;
  ThreadLoop loop_;  // never runs, because no pull waits
  WaitingPulls waiting_{loop_, std::make_shared<MemoryShare>()};
};

void ReadFully(int fd, char* to, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t got = recv(fd, to + done, bytes - done, 0);
    if (got <= 0) std::_Exit(0);
    done += static_cast<uint64_t>(got);
  }
}

void WriteFully(int fd, const char* from, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t put = send(fd, from + done, bytes - done, MSG_NOSIGNAL);
    if (put <= 0) std::_Exit(0);
    done += static_cast<uint64_t>(put);
  }
}

// A transfer over a raw socket: bytes to the server, and bytes back.
struct RawOrder {
  uint64_t push = 0;
  uint64_t pull = 0;
};

void ServeRaw(int listener, uint64_t bytes_max) {
  const int fd = accept(listener, nullptr, nullptr);
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  std::vector<char> buffer(bytes_max, 1);
  while (true) {
    RawOrder order;
    ReadFully(fd, reinterpret_cast<char*>(&order), sizeof(order));
    ReadFully(fd, buffer.data(), order.push);
    WriteFully(fd, buffer.data(), order.pull + 1);  // one more byte acknowledges the push
  }
}

int ListenRaw(const sockaddr* address, socklen_t size) {
  const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(fd, address, size) != 0 || listen(fd, 1) != 0) FailCall("cannot listen");
  return fd;
}

struct Addresses {
  sockaddr_in tcp{};
  sockaddr_un unix_path{};
  std::string grpc_tcp;
  std::string grpc_unix;
};

[[noreturn]] void Serve(const Addresses& at, int tcp, int unix_fd,
                        const std::vector<uint64_t>& sizes, int ready) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Daemon daemon;
  SetParallelThreads(static_cast<int>(std::thread::hardware_concurrency()));  // like a ps
  Stores stores(sizes);
  const auto listen_tcp = daemon.environment().network.Listen(at.grpc_tcp, stores);
  const auto listen_unix = daemon.environment().network.Listen(at.grpc_unix, stores);
  const auto offer = SharedNetwork::Offer(kBootId, stores, daemon.request_budget());
  if (!listen_tcp.ok() || !listen_unix.ok() || !offer.ok()) Fail("cannot listen");
  std::thread([&] { ServeRaw(tcp, sizes.back()); }).detach();
  std::thread([&] { ServeRaw(unix_fd, sizes.back()); }).detach();
  const std::string address = (*listen_tcp)->address();
  if (write(ready, address.data(), address.size()) < 0) FailCall("write");
  close(ready);
  daemon.Run([](const std::string&) {});
  LeaveProcess(0);
}

// ---- The measuring process.

class RawPeer {
 public:
  RawPeer(const sockaddr* address, socklen_t size)
      : fd_(socket(address->sa_family, SOCK_STREAM, 0)) {
    if (connect(fd_, address, size) != 0) FailCall("cannot connect");
    const int one = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  }
  void Transfer(std::vector<float>& memory, uint64_t push, uint64_t pull) {
    const RawOrder order{push, pull};
    WriteFully(fd_, reinterpret_cast<const char*>(&order), sizeof(order));
    WriteFully(fd_, reinterpret_cast<const char*>(memory.data()), push);
    char arrived = 0;
    ReadFully(fd_, reinterpret_cast<char*>(memory.data()), pull);
    ReadFully(fd_, &arrived, 1);
  }

 private:
  const int fd_;
};

// A worker that exchanges with one partition.
class Client {
 public:
  Client(Link& link, const char* optimizer, std::shared_ptr<SharedFloats> gradient,
         std::vector<float>& values, uint32_t& next_batch, Encoding encoding = ENCODING_FLOAT32,
         uint64_t epoch = 0)
      : link_(link),
        encoding_(encoding),
        epoch_(epoch),
        method_(absl::StrCat("/", optimizer, "/", gradient->size() * sizeof(float))),
        gradient_(std::move(gradient)),
        encoded_(encoding == ENCODING_FLOAT32 ? 0 : gradient_->size()),
        values_(values),
        next_batch_(next_batch) {}

  void Exchange(bool push, bool pull) {
    ExchangeRequest header;
    std::vector<PieceView> pieces;
    if (pull) header.add_pull()->set_encoding(encoding_);
    if (push) {
      header.mutable_batch()->set_epoch(epoch_);
      header.mutable_batch()->set_batch(next_batch_++);
      PartitionPush& entry = *header.add_push();
      const uint64_t bytes = gradient_->size() * ElementBytes(encoding_);
      entry.set_bytes(bytes);
      entry.set_encoding(encoding_);
      char* from = reinterpret_cast<char*>(gradient_->data());
      if (!encoded_.empty()) {
        from = reinterpret_cast<char*>(encoded_.data());
        Encode(from);
      }
      pieces.push_back({0, 0,
                        absl::MakeCordFromExternal(absl::string_view(from, bytes),
                                                   [held = gradient_](absl::string_view) {})});
    }
    std::promise<absl::StatusOr<absl::Cord>> promise;
    link_.CallInto(method_, EncodeExchange(header, std::move(pieces)), 60000, Land(),
                   [&](absl::StatusOr<absl::Cord> reply) { promise.set_value(std::move(reply)); });
    const absl::StatusOr<absl::Cord> reply = promise.get_future().get();
    if (!reply.ok()) Fail(std::string(reply.status().message()));
    const DecodedReply decoded = DecodeExchangeReply(*reply).value();
    if (push && decoded.header.partitions(0).outcome() != PUSH_APPLIED) Fail("not applied");
    const uint64_t element = ElementBytes(encoding_);
    ParallelFor(decoded.pieces.size(), [&](size_t i) {
      const PieceView& piece = decoded.pieces[i];
      DecodeDense(encoding_, piece.data,
                  std::span(values_).subspan(piece.offset / element, piece.data.size() / element));
    });
  }

 private:
  void Encode(char* to) const {
    constexpr size_t kAtOnce = 256 << 10;  // elements
    const std::span<const float> all(*gradient_);
    ParallelFor((all.size() + kAtOnce - 1) / kAtOnce, [&](size_t i) {
      const size_t first = i * kAtOnce;
      EncodeDense(encoding_, all.subspan(first, std::min(kAtOnce, all.size() - first)),
                  to + first * ElementBytes(encoding_));
    });
  }

  std::shared_ptr<ReplySink> Land() const {
    if (encoding_ != ENCODING_FLOAT32) return nullptr;
    return MakeExchangeSink(UINT64_MAX, [&values = values_](uint32_t, uint64_t offset, uint64_t) {
      return reinterpret_cast<char*>(values.data()) + offset;
    });
  }

  Link& link_;
  const Encoding encoding_;
  const uint64_t epoch_;  // epoch of the batches; each measurement has another
  const std::string method_;
  const std::shared_ptr<SharedFloats> gradient_;
  std::vector<uint16_t, SharedAllocator<uint16_t>> encoded_;
  std::vector<float>& values_;
  uint32_t& next_batch_;
};

struct NamedLink {
  std::string name;
  std::string suffix;  // appended to the names of results
  const char* raw;     // name of the reference to compare with
  Link* link;
};

struct Peers {
  std::vector<NamedLink> links;
  RawPeer* raw_tcp;
  RawPeer* raw_unix;
};

// `only`: names of results to measure; empty: all.
void Measure(const Peers& peers, uint64_t bytes, int rounds, const std::set<std::string>& only) {
  const uint64_t elements = bytes / sizeof(float);
  auto gradient = std::make_shared<SharedFloats>(elements, 0.001f);
  std::vector<float> values(elements, 0);
  std::vector<float> other(elements, 0);
  std::map<std::string, uint32_t> next;  // next batch of each optimizer
  std::vector<std::unique_ptr<Client>> clients;
  const std::string size =
      bytes < 1000000 ? absl::StrCat(bytes / 1000, " KB") : absl::StrCat(bytes / 1000000, " MB");
  const auto table = [&](const char* what, const std::string& result, const char* optimizer,
                         bool push, bool pull) {
    const uint64_t moved = bytes * ((push ? 1 : 0) + (pull ? 1 : 0));
    const auto raw = [&, push, pull](RawPeer* peer) {
      return [&, peer, push, pull] { peer->Transfer(other, push ? bytes : 0, pull ? bytes : 0); };
    };
    const auto named = [&](const std::string& suffix) {
      return absl::StrCat(result, "_", absl::StrReplaceAll(size, {{" ", ""}}), suffix);
    };
    std::vector<Way> ways = {{"memcpy",
                              [&, moved] {
                                for (uint64_t done = 0; done < moved; done += bytes) {
                                  std::memcpy(other.data(), values.data(), bytes);
                                }
                              },
                              "", named("_memcpy")},
                             {"raw TCP", raw(peers.raw_tcp), "", named("_raw_tcp")},
                             {"raw unix", raw(peers.raw_unix), "", named("_raw_unix")}};
    for (const auto& [name, suffix, raw_way, link] : peers.links) {
      clients.push_back(
          std::make_unique<Client>(*link, optimizer, gradient, values, next[optimizer]));
      ways.push_back({name,
                      [client = clients.back().get(), push, pull] { client->Exchange(push, pull); },
                      raw_way, named(suffix)});
    }
    if (!only.empty()) {
      std::erase_if(ways, [&](const Way& way) { return !only.contains(way.result); });
    }
    if (ways.empty()) return;
    PrintTurns(absl::StrCat(size, ": ", what), bytes < 1000000 ? 0 : moved, ways, rounds);
  };
  table("pull", "pull", "sgd", false, true);
  table("push, SGD applied", "push_sgd", "sgd", true, false);
  table("push, Adam applied", "push_adam", "adam", true, false);
  table("exchange (push and pull), SGD applied", "exchange", "sgd", true, true);
}

// Counts bytes as if they were float32, to make the numbers comparable.
void MeasureBf16(const Peers& peers, uint64_t bytes, int rounds) {
  auto gradient = std::make_shared<SharedFloats>(bytes / sizeof(float), 0.001f);
  std::vector<float> values(bytes / sizeof(float), 0);
  uint32_t next = 0;
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<Way> ways;
  const std::string size = absl::StrCat(bytes / 1000000, "MB");
  for (const auto& [name, suffix, raw_way, link] : peers.links) {
    for (const Encoding encoding : {ENCODING_FLOAT32, ENCODING_BF16}) {
      clients.push_back(
          std::make_unique<Client>(*link, "sgd", gradient, values, next, encoding, /*epoch=*/1));
      const bool half = encoding == ENCODING_BF16;
      ways.push_back({absl::StrCat(name, half ? ", bf16" : ", float32"),
                      [client = clients.back().get()] { client->Exchange(true, true); },
                      half ? absl::StrCat(name, ", float32") : "",
                      half ? absl::StrCat("exchange_bf16_", size, suffix) : ""});
    }
  }
  PrintTurns(absl::StrCat(bytes / 1000000, " MB: exchange as bf16"), 2 * bytes, ways, rounds);
}

// Measures every size over every channel to the serving process, which listens at `at`, and over
// TCP at `bound`.
void MeasureAll(const Addresses& at, const char* bound, const std::vector<uint64_t>& sizes,
                int64_t rounds, const std::set<std::string>& wanted) {
  Daemon daemon;
  SetParallelThreads(static_cast<int>(std::thread::hardware_concurrency()));  // like a worker
  GrpcNetwork sockets;
  const std::unique_ptr<Link> tcp_stream = sockets.DialBoot(bound, kBootId);
  const std::unique_ptr<Link> unix_stream = sockets.DialBoot(at.grpc_unix, kBootId);
  const std::unique_ptr<Link> grpc = sockets.Dial(bound);
  const std::unique_ptr<Link> shared = daemon.environment().network.DialBoot(at.grpc_unix, kBootId);
  RawPeer raw_tcp(reinterpret_cast<const sockaddr*>(&at.tcp), sizeof(at.tcp));
  RawPeer raw_unix(reinterpret_cast<const sockaddr*>(&at.unix_path), sizeof(at.unix_path));
  const Peers peers{{{"TCP", "", "raw TCP", tcp_stream.get()},
                     {"unix socket", "_unix", "raw unix", unix_stream.get()},
                     {"shared memory", "_shared", "raw unix", shared.get()},
                     {"gRPC on TCP", "_grpc", "raw TCP", grpc.get()}},
                    &raw_tcp,
                    &raw_unix};
  for (const uint64_t bytes : sizes) {
    // Repeats short measurements until pauses by other programs average out.
    const int64_t repeated = rounds * (bytes < 10000000 ? 20 : 1);
    Measure(peers, bytes, static_cast<int>(repeated), wanted);
    if (bytes >= 1000000 && wanted.empty()) MeasureBf16(peers, bytes, static_cast<int>(repeated));
  }
  if (wanted.empty()) {
    MeasureRows(
        {{"TCP", "rows", tcp_stream.get(), 2}, {"shared memory", "rows_shared", shared.get(), 3}},
        static_cast<int>(rounds));
  }
}

int Main(int argc, char** argv) {
  int64_t mb_max = 64;
  int64_t rounds = 15;
  std::string only;
  Flags flags("bench_wire", "Moves parameters between two processes.");
  flags.Integer("mb-max", "N", "megabytes of the largest variable", 1, 1024, &mb_max);
  flags.Integer("rounds", "N", "repetitions of each way; 20 times as many up to 1 MB", 1, 10000,
                &rounds);
  flags.String("only", "NAMES",
               "the results of these names alone (--json has the names), to profile them", &only);
  bool tls = false;
  flags.Switch("tls", "streams under TLS, and what a connection costs", &tls);
  if (const std::optional<int> code = ParseBench(flags, argc, argv)) return *code;
  const std::set<std::string> wanted = absl::StrSplit(only, ',', absl::SkipEmpty());
  std::vector<uint64_t> sizes = {4000};
  for (const int64_t mb : {1, 16, 64, 256}) {
    if (mb <= mb_max) sizes.push_back(static_cast<uint64_t>(mb) * 1000000);
  }
  PrintMachine();
  if (tls) {
    MeasureTls(sizes, static_cast<int>(rounds));
    return 0;
  }

  Addresses at;
  std::string dir = "/tmp/paracord-bench-XXXXXX";
  if (mkdtemp(dir.data()) == nullptr) FailCall("mkdtemp");
  at.tcp.sin_family = AF_INET;
  at.tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.unix_path.sun_family = AF_UNIX;
  std::snprintf(at.unix_path.sun_path, sizeof(at.unix_path.sun_path), "%s/raw", dir.c_str());
  at.grpc_unix = absl::StrCat("unix:", dir, "/grpc");
  at.grpc_tcp = "127.0.0.1:0";
  const int tcp = ListenRaw(reinterpret_cast<sockaddr*>(&at.tcp), sizeof(at.tcp));
  socklen_t size = sizeof(at.tcp);
  getsockname(tcp, reinterpret_cast<sockaddr*>(&at.tcp), &size);
  const int unix_fd = ListenRaw(reinterpret_cast<sockaddr*>(&at.unix_path), sizeof(at.unix_path));
  int ready[2];
  if (pipe(ready) != 0) FailCall("pipe");
  const pid_t server = fork();  // before any thread exists
  if (server == 0) {
    close(ready[0]);
    Serve(at, tcp, unix_fd, sizes, ready[1]);
  }
  close(ready[1]);
  char bound[128] = {};
  CountProcess(server);
  if (read(ready[0], bound, sizeof(bound) - 1) <= 0) Fail("the serving process did not start");

  MeasureAll(at, bound, sizes, rounds, wanted);
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  unlink(at.unix_path.sun_path);
  unlink((dir + "/grpc").c_str());
  rmdir(dir.c_str());
  LeaveProcess(0);
}

}  // namespace
}  // namespace paracord::bench

int main(int argc, char** argv) { return paracord::bench::Main(argc, argv); }
