// Tests a multiplexer without descriptors, and many strangers who send incomplete messages.
#include "net/port_multiplexer.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "common/descriptors.h"
#include "net/stream_pair.h"
#include "spdlog/sinks/ringbuffer_sink.h"
#include "spdlog/spdlog.h"

namespace paracord {
namespace {

TEST_CASE(
    "a listener without descriptors says so once, with the limit, and lets connections wait") {
  const auto before = spdlog::default_logger();
  const auto level = spdlog::get_level();
  const auto sink = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(16);
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
  const int next = open("/dev/null", O_RDONLY);
  REQUIRE(next >= 0);
  close(next);
  rlimit files{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &files) == 0);
  rlimit few = files;
  few.rlim_cur = static_cast<rlim_t>(next) + 30;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  // Threads that earlier tests have left behind may say something, too.
  const auto warnings = [&] {
    std::vector<std::string> lines = sink->last_formatted();
    std::erase_if(lines, [](const auto& line) { return !absl::StrContains(line, "may have"); });
    return lines;
  };
  std::vector<int> strangers;
  std::atomic<int> others = 0;
  {
    const auto multiplexer = PortMultiplexer::Listen("127.0.0.1:0");
    REQUIRE(multiplexer.ok());
    (*multiplexer)->Open({}, [&](int fd) {
      close(fd);
      ++others;
    });
    for (int i = 0; i < 10; ++i) {
      NameLookup name((*multiplexer)->address());
      const absl::StatusOr<int> fd = ConnectSocket(name, 10000);
      if (fd.ok()) strangers.push_back(*fd);
    }
    CHECK(Soon([&] { return !warnings().empty(); }));
    // Time for several attempts to accept; nobody in the backlog is closed by them.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    for (const int fd : strangers) {
      char byte = 0;
      const ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
      const int error = errno;
      CHECK(got == -1);
      CHECK(error == EAGAIN);
    }
    for (size_t i = 0; i + 1 < strangers.size(); ++i) close(strangers[i]);
    strangers.erase(strangers.begin(), strangers.end() - 1);
    REQUIRE(write(strangers.back(), "G", 1) == 1);
    CHECK(Soon([&] { return others == 1; }));
  }
  for (const int fd : strangers) close(fd);
  setrlimit(RLIMIT_NOFILE, &files);
  spdlog::set_default_logger(before);
  spdlog::set_level(level);
  const std::vector<std::string> said = warnings();
  REQUIRE(said.size() == 1);
  INFO(said.front());
  CHECK(said.front().find("may have " + std::to_string(next + 30)) != std::string::npos);
}

// Returns the CPU time of the other threads of this process.
int64_t CpuMsOfOthers() {
  const auto ms_of = [](clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1000000;
  };
  return ms_of(CLOCK_PROCESS_CPUTIME_ID) - ms_of(CLOCK_THREAD_CPUTIME_ID);
}

TEST_CASE("half a ClientHello is not read again and again while no more of it comes") {
  const TestCa ca("lab");
  const TestProcess ps(ca, ca.Issue("URI:spiffe://lab/ps/0"));
  const auto multiplexer = PortMultiplexer::Listen("127.0.0.1:0");
  REQUIRE(multiplexer.ok());
  (*multiplexer)
      ->Open(
          {}, [](int fd) { close(fd); }, ps.credentials);
  const auto connect_to_it = [&] {
    NameLookup name((*multiplexer)->address());
    const absl::StatusOr<int> fd = ConnectSocket(name, 10000);
    REQUIRE(fd.ok());
    return *fd;
  };
  // Records of one byte are the most expensive to read.
  const std::string message("\x01\x00\x3f\x00", 4);
  std::string half;
  for (size_t i = 0; i < 2500; ++i) {
    half += std::string("\x16\x03\x01\x00\x01", 5) + (i < 4 ? message[i] : '\0');
  }
  std::vector<int> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(connect_to_it());
    REQUIRE(write(strangers.back(), half.data(), half.size()) == static_cast<ssize_t>(half.size()));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const int64_t before_ms = CpuMsOfOthers();
  for (int i = 0; i < 100; ++i) {  // other events at the multiplexer
    close(connect_to_it());
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(CpuMsOfOthers() - before_ms < 80);
#else
  (void)before_ms;
#endif
  for (const int fd : strangers) close(fd);
}

TEST_CASE("certificates of a role without an index get 256 streams, and leave the others theirs") {
  REQUIRE(WantDescriptors(4000).ok());
  const TestCa ca("lab");
  const TestProcess ps(ca, ca.Issue("URI:spiffe://lab/ps/0"));
  const TestProcess any(ca, ca.Issue("URI:spiffe://lab/worker"));
  const TestProcess another(ca, ca.Issue("URI:spiffe://lab/worker"));
  const TestProcess third(ca, ca.Issue("URI:spiffe://lab/worker/3"));
  Echo echo;
  const auto multiplexer = PortMultiplexer::Listen("127.0.0.1:0");
  REQUIRE(multiplexer.ok());
  const auto request_budget = std::make_shared<RequestBudget>(uint64_t{1} << 30);
  const auto refused = std::make_shared<RefusedPeers>();
  (*multiplexer)
      ->Open(
          {&echo, request_budget, uint64_t{1} << 30}, [](int fd) { close(fd); }, ps.credentials,
          refused);
  const auto greeted = [&](const TestProcess& as) -> std::unique_ptr<Channel> {
    NameLookup name((*multiplexer)->address());
    const absl::StatusOr<int> fd = ConnectSocket(name, 10000);
    REQUIRE(fd.ok());
    const auto keys = as.credentials->Current();
    auto tls = TlsChannel::Make(*fd, keys->client.get(), TlsChannel::End::kClient);
    REQUIRE(tls.ok());
    REQUIRE((*tls)->HandshakeWithin(5000).ok());
    if (!GreetStream(**tls, 5000)) return nullptr;
    // A stream without a call ends after 5 s, sooner than the limit for all handshakes.
    std::string call = Framed(CallFrame(1, "/Echo", 1)) + "x";
    iovec piece{call.data(), call.size()};
    REQUIRE((*tls)->Send({&piece, 1}) == static_cast<ssize_t>(call.size()));
    return *std::move(tls);
  };
  std::vector<std::unique_ptr<Channel>> streams;
  for (int i = 0; i < 256; ++i) streams.push_back(greeted(i % 2 == 0 ? any : another));
  for (const auto& stream : streams) REQUIRE(stream != nullptr);
  CHECK(greeted(any) == nullptr);
  CHECK(greeted(another) == nullptr);
  uint64_t noted = 0;
  for (const auto& [who, count] : refused->counts()) {
    if (who.first == RefusedPeers::Cause::kStreams) noted += count;
  }
  CHECK(noted == 2);
  CHECK(absl::StrContains(refused->last(), "): no further stream is served: worker may have 256"));
  CHECK(greeted(third) != nullptr);
  streams.clear();
  CHECK(Soon([&] { return greeted(any) != nullptr; }));
}

ptrdiff_t Threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

// Connects without a certificate, shakes hands, and begins a greeting without sending the token.
std::unique_ptr<Channel> HalfGreeted(const PortMultiplexer& multiplexer, const TestProcess& as) {
  NameLookup name(multiplexer.address());
  const absl::StatusOr<int> fd = ConnectSocket(name, 10000);
  REQUIRE(fd.ok());
  const auto keys = as.credentials->Current();
  auto tls = TlsChannel::Make(*fd, keys->client.get(), TlsChannel::End::kClient);
  REQUIRE(tls.ok());
  if (!(*tls)->HandshakeWithin(5000).ok()) return nullptr;
  std::string half = "paracord/1 a-sec";
  iovec piece{half.data(), half.size()};
  (void)(*tls)->Send({&piece, 1});
  return *std::move(tls);
}

TEST_CASE("strangers who never show the token take no thread and no place of who has it") {
  REQUIRE(WantDescriptors(4000).ok());
  const TestCa ca("lab");
  const TestProcess ps(ca, ca.Issue("URI:spiffe://lab/ps/0"), /*token=*/true);
  const TestProcess friendly(ca, PemPair(), /*token=*/true);
  Echo echo;
  const auto multiplexer = PortMultiplexer::Listen("127.0.0.1:0");
  REQUIRE(multiplexer.ok());
  const auto request_budget = std::make_shared<RequestBudget>(uint64_t{1} << 30);
  (*multiplexer)
      ->Open(
          {&echo, request_budget, uint64_t{1} << 30}, [](int fd) { close(fd); }, ps.credentials);
  const auto link = [&] {
    return MakeStreamLink(std::make_unique<RefusingLink>((*multiplexer)->address()),
                          friendly.credentials);
  };
  const ptrdiff_t threads = Threads();
  std::vector<std::unique_ptr<Channel>> strangers;
  for (int i = 0; i < 1200; ++i) strangers.push_back(HalfGreeted(**multiplexer, friendly));
  CHECK(Threads() <= threads);
  CHECK(Ask(*link(), "/Echo", OnePart("x")).ok());
  const auto ends = [](Channel& channel) {
    char byte = 0;
    iovec room{&byte, 1};
    const ssize_t got = channel.Receive({&room, 1});
    return got == 0 || (got < 0 && errno != EAGAIN);
  };
  for (const auto& stranger : strangers) {
    CHECK((stranger == nullptr || Soon([&] { return ends(*stranger); })));
  }
  CHECK(Ask(*link(), "/Echo", OnePart("x")).ok());
  CHECK(echo.handled == 2);
}

}  // namespace
}  // namespace paracord
