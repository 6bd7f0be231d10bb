// Tests shared memory between two ends in one process, which sockets and mappings treat like two
// processes. tests/e2e has real processes.
#include "net/shared_network.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/shared_memory.h"
#include "fakes.h"
#include "net/echo.h"
#include "net/shared_connection.h"
#include "net/shared_floats.h"

namespace paracord {
namespace {

// A network beneath whose failing calls show its use.
class Beneath : public Network {
 public:
  std::unique_ptr<Link> Dial(const std::string& address) override {
    return std::make_unique<RefusingLink>(address);
  }
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string&, Service&) override {
    return absl::UnimplementedError("beneath");
  }
};

struct SharedPair {
  explicit SharedPair(const std::string& name,
                      int64_t reply_patience_ms = SharedConnection::kReplyPatienceMs)
      : boot(absl::StrCat(name, "-", getpid())) {  // other processes may run the same test
    REQUIRE(EnableSharedMemory());
    absl::StatusOr<std::unique_ptr<Listener>> offered = SharedNetwork::Offer(
        boot, echo, std::make_shared<RequestBudget>(64 << 20), reply_patience_ms);
    REQUIRE(offered.ok());
    listener = *std::move(offered);
    link = network.DialBoot("beneath:1", boot);
  }
  std::string boot;
  Beneath beneath;
  SharedNetwork network{beneath};
  Echo echo;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Link> link;
};

TEST_CASE("shared memory that was given back last is used first") {
  REQUIRE(EnableSharedMemory());
  constexpr size_t kBytes = 123 << 12;
  void* const first = AllocateShared(kBytes);
  void* const last = AllocateShared(kBytes);
  FreeShared(first, kBytes);
  FreeShared(last, kBytes);
  CHECK(AllocateShared(kBytes) == last);
  CHECK(AllocateShared(kBytes) == first);
  FreeShared(first, kBytes);
  FreeShared(last, kBytes);
}

TEST_CASE("a message arrives as it was sent, whatever its parts are made of") {
  SharedPair pair("test-shapes");
  Parts parts;
  absl::Cord whole;
  // The payloads resemble headers, many small chunks, large ordinary memory, and shared memory.
  for (const size_t size : {3u, 700u, 9000u, 20000u, 300000u}) {
    for (int repeat = 0; repeat < 40; ++repeat) {
      absl::Cord part(std::string(size, static_cast<char>('a' + repeat % 26)));
      whole.Append(part);
      parts.push_back(std::move(part));
    }
  }
  auto floats = std::make_shared<SharedFloats>(3 << 20, 1.5f);
  (*floats)[12345] = 7;
  parts.push_back(CordOf(floats));
  whole.Append(parts.back());
  const absl::StatusOr<absl::Cord> reply = Ask(*pair.link, "/Echo", std::move(parts));
  REQUIRE(reply.ok());
  CHECK((*reply == whole));
  const absl::StatusOr<absl::Cord> none = Ask(*pair.link, "/Echo", {});
  REQUIRE(none.ok());
  CHECK(none->empty());
}

// Returns the number of mapped memory files of this size.
int64_t MappingsOf(uint64_t bytes) {
  std::ifstream maps("/proc/self/maps");
  int64_t found = 0;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (line.find("memfd:paracord") == std::string::npos) continue;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2 && end - begin == bytes) ++found;
  }
  return found;
}

TEST_CASE("segments that nobody uses any more are given back, and the peer unmaps them") {
  SharedPair pair("test-trim");
  constexpr uint64_t kBytes = uint64_t{77} << 20;  // gets a separate segment
  TrimSharedMemory();
  const uint64_t closed = SharedSegmentsClosed();
  absl::StatusOr<absl::Cord> reply =
      Ask(*pair.link, "/Echo", Parts{CordOf(std::make_shared<SharedFloats>(kBytes / 4, 2.5f))});
  REQUIRE(reply.ok());
  CHECK(MappingsOf(kBytes) >= 2);  // the caller's mapping and the peer's
  // The peer may release the request late. From then on only the reply's segment is in use.
  REQUIRE(Soon([&] { return IdleSharedBytes() >= kBytes; }));
  TrimSharedMemory();
  TrimSharedMemory();
  CHECK(MappingsOf(kBytes) >= 2);  // the reply is still in use
  reply = absl::StatusOr<absl::Cord>();
  CHECK(Soon([&] { return IdleSharedBytes() >= kBytes; }));
  TrimSharedMemory();
  CHECK(MappingsOf(kBytes) >= 2);  // used since the previous call
  TrimSharedMemory();
  CHECK(SharedSegmentsClosed() > closed);
  CHECK(IdleSharedBytes() <= kIdleKept);
  // The peer may release the request late.
  CHECK(Soon([&] {
    TrimSharedMemory();
    return MappingsOf(kBytes) == 0;
  }));
  // Both ends go on.
  CHECK(Ask(*pair.link, "/Echo", Parts{CordOf(std::make_shared<SharedFloats>(kBytes / 4, 1.5f))})
            .ok());
}

TEST_CASE("sent memory is kept until its receiver has released it, and no longer") {
  SharedPair pair("test-release");
  auto floats = std::make_shared<SharedFloats>(100000, 2.0f);
  const std::weak_ptr<SharedFloats> watched = floats;
  REQUIRE(Ask(*pair.link, "/Keep", Parts{CordOf(std::move(floats))}).ok());
  CHECK_FALSE(watched.expired());
  SECTION("by dropping the bytes") { pair.echo.Forget(); }
  SECTION("also when the link is gone in between") {
    pair.link = nullptr;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK_FALSE(watched.expired());
    pair.echo.Forget();
  }
  CHECK(Soon([&] { return watched.expired(); }));
}

// The service sends its own memory, and can neither reuse nor free it until the reply is released.
TEST_CASE("a caller that keeps a reply too long loses it, and replies_valid() says so") {
  SharedPair pair("test-patience", /*reply_patience_ms=*/1000);
  auto floats = std::make_shared<SharedFloats>(100000, 2.0f);
  const std::weak_ptr<SharedFloats> watched = floats;
  pair.echo.Offer(CordOf(std::move(floats)));
  absl::StatusOr<absl::Cord> reply = Ask(*pair.link, "/Offered", {});
  REQUIRE(reply.ok());
  CHECK(reply->size() == 400000);
  CHECK(pair.link->replies_valid());
  pair.echo.Offer({});  // from here on only the reply holds the memory
  SECTION("in time") {
    *reply = absl::Cord();
    CHECK(Soon([&] { return watched.expired(); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(2400));
    CHECK(pair.link->replies_valid());
    CHECK(Ask(*pair.link, "/Echo", {}).ok());
  }
  SECTION("too late") {
    CHECK(Soon([&] { return watched.expired(); }));
    CHECK_FALSE(pair.link->replies_valid());
    // Calls use the network beneath once the caller has noticed.
    CHECK(Soon([&] { return absl::IsUnimplemented(Ask(*pair.link, "/Echo", {}).status()); }));
    CHECK(reply->size() == 400000);  // still mapped
  }
  SECTION("while its own request is still read, which is waited for") {
    auto gradient = std::make_shared<SharedFloats>(100000, 3.0f);
    const std::weak_ptr<SharedFloats> sent = gradient;
    REQUIRE(Ask(*pair.link, "/Keep", Parts{CordOf(std::move(gradient))}).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(2400));
    CHECK_FALSE(sent.expired());
    CHECK_FALSE(watched.expired());
    CHECK(pair.link->replies_valid());
    pair.echo.Forget();
    CHECK(Soon([&] { return sent.expired() && watched.expired(); }));
    CHECK_FALSE(pair.link->replies_valid());
  }
}

TEST_CASE("errors, deadlines and cancellation travel") {
  std::promise<absl::Status> cancelled;  // outlives the link, which may still be setting it
  SharedPair pair("test-errors");
  const absl::Status refused = Ask(*pair.link, "/Refuse", {}).status();
  CHECK(refused.code() == absl::StatusCode::kAborted);
  CHECK(refused.message() == "beneath:1: not this one");
  CHECK(absl::IsDeadlineExceeded(Ask(*pair.link, "/Park", {}, 50).status()));
  CHECK(Soon([&] { return pair.echo.cancelled == 1; }));
  pair.link->Call("/Park", {}, 5000, [&](const absl::StatusOr<absl::Cord>& reply) {
    cancelled.set_value(reply.status());
  });
  REQUIRE(Soon([&] { return pair.echo.handled == 3; }));
  pair.link = nullptr;
  CHECK(cancelled.get_future().get().code() == absl::StatusCode::kCancelled);
  CHECK(Soon([&] { return pair.echo.cancelled == 2; }));
}

TEST_CASE("a peer that leaves ends the calls, and the network beneath takes over") {
  std::promise<absl::Status> broken;  // outlives the link, which may still be setting it
  SharedPair pair("test-leaves");
  pair.link->Call("/Park", {}, 5000, [&](const absl::StatusOr<absl::Cord>& reply) {
    broken.set_value(reply.status());
  });
  REQUIRE(Soon([&] { return pair.echo.handled == 1; }));
  pair.listener = nullptr;
  CHECK(absl::IsUnavailable(broken.get_future().get()));
  CHECK(Soon([&] { return absl::IsUnimplemented(Ask(*pair.link, "/Echo", {}).status()); }));
  CHECK(absl::IsUnimplemented(
      Ask(*pair.network.DialBoot("beneath:1", "test-nobody"), "/Echo", {}).status()));
}

TEST_CASE("calls from many threads at once are answered each with its own") {
  SharedPair pair("test-threads");
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      auto floats = std::make_shared<SharedFloats>(20000, static_cast<float>(t));
      const absl::Cord bytes = CordOf(floats);
      for (int i = 0; i < 200; ++i) {
        const absl::StatusOr<absl::Cord> reply = Ask(*pair.link, "/Echo", Parts{bytes});
        if (!reply.ok() || !(*reply == bytes)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

// ---- Hostile peers.

class RawPeer {
 public:
  explicit RawPeer(
      uint64_t request_bytes_max = 1 << 20,
      std::shared_ptr<RequestBudget> request_budget = std::make_shared<RequestBudget>(256 << 20)) {
    std::array<int, 2> ends{};
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
    fd_ = ends[0];
    connection = std::make_shared<SharedConnection>(ends[1], &echo, std::move(request_budget),
                                                    request_bytes_max, "raw");
    thread_ = std::thread([this] { connection->Run(); });
  }
  ~RawPeer() {
    close(fd_);
    thread_.join();
  }
  void Send(const std::string& bytes, int attached = -1, size_t copies = 1) {
    REQUIRE(Sends(bytes, attached, copies));
  }
  bool Sends(const std::string& bytes, int attached = -1, size_t copies = 1) {
    std::string copy = bytes;
    iovec data{copy.data(), copy.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    if (attached >= 0) {
      header.msg_control = control.data();
      header.msg_controllen = CMSG_SPACE(copies * sizeof(int));
      cmsghdr* const with = CMSG_FIRSTHDR(&header);
      with->cmsg_level = SOL_SOCKET;
      with->cmsg_type = SCM_RIGHTS;
      with->cmsg_len = CMSG_LEN(copies * sizeof(int));
      const std::array<int, 2> files{attached, attached};
      std::memcpy(CMSG_DATA(with), files.data(), copies * sizeof(int));
    }
    return sendmsg(fd_, &header, MSG_NOSIGNAL) >= 0;
  }
  // Reads until the peer ends its side.
  bool Refused() {
    const timeval patience{30, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    char byte = 0;
    while (true) {
      const ssize_t got = recv(fd_, &byte, 1, 0);
      if (got <= 0) return got == 0;
    }
  }

  Echo echo;
  std::shared_ptr<SharedConnection> connection;

 private:
  int fd_ = -1;
  std::thread thread_;
};

SharedPacket SegmentPacket(uint64_t bytes, uint64_t segment = 1) {
  SharedPacket packet;
  packet.set_kind(SharedPacket::SEGMENT);
  packet.set_segment(segment);
  packet.set_segment_bytes(bytes);
  return packet;
}

SharedPacket CallTo(uint64_t segment, uint64_t offset, uint64_t size) {
  SharedPacket packet;
  packet.set_kind(SharedPacket::CALL);
  packet.set_call(1);
  packet.set_method("/Echo");
  SharedPiece& piece = *packet.add_pieces();
  piece.set_segment(segment);
  piece.set_offset(offset);
  piece.set_size(size);
  return packet;
}

TEST_CASE("a peer that breaks the rules is dropped, and nothing of it is served") {
  RawPeer peer;
  const int fd = memfd_create("hostile", MFD_ALLOW_SEALING);
  REQUIRE(ftruncate(fd, 8192) == 0);
  SECTION("no packet") { peer.Send("\xff\xff\xff"); }
  SECTION("a kind that is not there") {
    SharedPacket packet;
    packet.set_kind(static_cast<SharedPacket::Kind>(77));
    peer.Send(packet.SerializeAsString());
  }
  SECTION("a reply to nothing") {
    SharedPacket packet;
    packet.set_kind(SharedPacket::REPLY);
    peer.Send(packet.SerializeAsString());
  }
  SECTION("a memory file that may shrink under us") {
    peer.Send(SegmentPacket(8192).SerializeAsString(), fd);
  }
  SECTION("a memory file smaller than it is said to be") {
    REQUIRE(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    peer.Send(SegmentPacket(1 << 30).SerializeAsString(), fd);
  }
  SECTION("a segment without a file") { peer.Send(SegmentPacket(8192).SerializeAsString()); }
  SECTION("a file with something else") {
    SharedPacket packet;
    packet.set_kind(SharedPacket::CALL);
    peer.Send(packet.SerializeAsString(), fd);
  }
  SECTION("two files in one packet, of which neither stays open") {
    REQUIRE(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    const auto open_files = [] {
      const std::filesystem::directory_iterator all("/proc/self/fd");
      return std::distance(begin(all), end(all));
    };
    const auto before = open_files();
    peer.Send(SegmentPacket(8192).SerializeAsString(), fd, /*copies=*/2);
    CHECK(peer.Refused());
    CHECK(Soon([&] { return open_files() <= before; }));
  }
  CHECK(peer.Refused());
  CHECK(peer.echo.handled == 0);
  close(fd);
}

TEST_CASE("a peer that names more memory than it gave is dropped, and nothing of it is served") {
  RawPeer peer;
  const int fd = memfd_create("hostile", MFD_ALLOW_SEALING);
  REQUIRE(ftruncate(fd, 8192) == 0);
  SECTION("places outside of a segment") {
    REQUIRE(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    peer.Send(SegmentPacket(8192).SerializeAsString(), fd);
    const auto [segment, offset, size] = GENERATE(
        std::array<uint64_t, 3>{2, 0, 16}, std::array<uint64_t, 3>{1, 8193, 0},
        std::array<uint64_t, 3>{1, 8000, 193}, std::array<uint64_t, 3>{1, 16, UINT64_MAX - 8});
    peer.Send(CallTo(segment, offset, size).SerializeAsString());
  }
  SECTION("more segments than are mapped at once") {
    REQUIRE(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    for (uint64_t segment = 1; segment <= SharedMapping::kMappingsMax; ++segment) {
      peer.Send(SegmentPacket(8192, segment).SerializeAsString(), fd);
    }
    CHECK(peer.connection->alive());
    peer.Send(SegmentPacket(8192, SharedMapping::kMappingsMax + 1).SerializeAsString(), fd);
  }
  SECTION("more than a request may have") {
    REQUIRE(ftruncate(fd, 2 << 20) == 0);
    REQUIRE(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    peer.Send(SegmentPacket(2 << 20).SerializeAsString(), fd);
    peer.Send(CallTo(1, 0, 2 << 20).SerializeAsString());
  }
  CHECK(peer.Refused());
  CHECK(peer.echo.handled == 0);
  close(fd);
}

SharedPacket PartOfCall(uint64_t call, size_t bytes) {
  SharedPacket packet;
  packet.set_kind(SharedPacket::CALL);
  packet.set_call(call);
  packet.set_more(true);
  packet.add_pieces()->set_bytes(std::string(bytes, 'x'));
  return packet;
}

TEST_CASE("messages follow one another, and the bytes in the socket are bounded") {
  RawPeer peer(/*request_bytes_max=*/uint64_t{1} << 36);
  SECTION("two that are not whole") {
    peer.Send(PartOfCall(1, 10).SerializeAsString());
    peer.Send(PartOfCall(2, 10).SerializeAsString());
  }
  SECTION("one of very many places") {
    const int fd = memfd_create("many", MFD_ALLOW_SEALING);
    REQUIRE(ftruncate(fd, 8192) == 0);
    REQUIRE(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    peer.Send(SegmentPacket(8192).SerializeAsString(), fd);
    close(fd);
    SharedPacket part = CallTo(1, 0, 1);
    part.set_more(true);
    for (int i = 1; i < 1024; ++i) *part.add_pieces() = part.pieces(0);
    const std::string bytes = part.SerializeAsString();
    for (int sent = 0; sent < 1024; ++sent) peer.Send(bytes);
    CHECK(peer.connection->alive());
    peer.Send(bytes);
  }
  SECTION("one that is never whole") {
    const std::string part = PartOfCall(1, 30000).SerializeAsString();
    for (int sent = 0; sent < (64 << 20) / 30000 + 1; ++sent) peer.Send(part);
  }
  CHECK(peer.Refused());
  CHECK(peer.echo.handled == 0);
}

TEST_CASE("bytes that come through sockets are bounded for all connections together") {
  std::atomic<int64_t> now_ms{0};
  const auto request_budget =
      std::make_shared<RequestBudget>(1 << 20, 0, [&now_ms] { return now_ms.load(); });
  RawPeer first(/*request_bytes_max=*/1 << 30, request_budget);
  RawPeer second(/*request_bytes_max=*/1 << 30, request_budget);
  SharedPacket part = PartOfCall(1, 30000);
  part.set_method("/Echo");
  const std::string more = part.SerializeAsString();
  part.set_more(false);
  const std::string last = part.SerializeAsString();
  for (int sent = 0; sent < 50; ++sent) first.Send(more);
  REQUIRE(Soon([&] { return request_budget->bytes() == 50 * 30000; }));
  auto all = std::async(std::launch::async, [&] {
    for (int sent = 0; sent < 999; ++sent) {
      if (!second.Sends(more)) return false;
    }
    return second.Sends(last);
  });
  CHECK(all.wait_for(std::chrono::milliseconds(300)) == std::future_status::timeout);
  CHECK(Soon([&] { return request_budget->bytes() == 51 * 30000; }));
  SECTION("until the first is answered") {
    first.Send(last);
    CHECK(Soon([&] { return first.echo.handled == 1; }));
  }
  SECTION("until the first is given up, which has stopped") {
    // A busy machine looks seldom, and gives up nobody right after a long time without a look.
    auto refused = std::async(std::launch::async, [&] { return first.Refused(); });
    while (refused.wait_for(std::chrono::milliseconds(250)) == std::future_status::timeout) {
      now_ms += 1000;
    }
    CHECK(refused.get());
    CHECK(first.echo.handled == 0);
  }
  CHECK(all.get());
  CHECK(Soon([&] { return second.echo.handled == 1; }));
  CHECK(Soon([&] { return request_budget->bytes() == 0; }));
}

TEST_CASE("a peer that never lets go of replies is dropped") {
  RawPeer peer;
  SharedPacket call;
  call.set_kind(SharedPacket::CALL);
  call.set_method("/Echo");
  for (int i = 0; i < 3; ++i) call.add_pieces()->set_bytes(std::string(9000, 'x'));
  int sent = 0;
  for (; sent < 100 && peer.connection->alive(); ++sent) {
    call.set_call(static_cast<uint64_t>(sent));
    if (!peer.Sends(call.SerializeAsString())) break;
    Soon([&] { return peer.echo.handled > sent || !peer.connection->alive(); });
  }
  CHECK(sent < 30);
  CHECK(peer.Refused());
}

}  // namespace
}  // namespace paracord
