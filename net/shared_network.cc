#include "net/shared_network.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/try_thread.h"
#include "net/served_connections.h"

namespace paracord {
namespace {

// limit of a message; only places are transmitted
constexpr uint64_t kBytesMax = uint64_t{64} << 30;
constexpr int kSharedReapMs = 1000;  // how long the memory of a dead peer may stay

struct Name {
  sockaddr_un address{};
  socklen_t size = 0;
};

// The abstract socket address of a boot id: no file, and gone with its process.
Name NameOf(const std::string& boot_id) {
  const std::string text = absl::StrCat("paracord/", boot_id.substr(0, 64));
  Name name;
  name.address.sun_family = AF_UNIX;
  std::memcpy(name.address.sun_path + 1, text.data(), text.size());
  name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

int NewSocket() { return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); }

bool MayShareWith(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  if (SharedNetwork::MayShare(peer.uid, geteuid())) return true;
  static OncePerSecond may_say;
  if (may_say.Now()) {
    Logger("connection")
        .Warn("no shared memory for process {} of user {}: this one runs as user {}", peer.pid,
              peer.uid, geteuid());
  }
  return false;
}

// Uses shared memory while the peer lives, and otherwise the network beneath.
class SharedLink : public Link {
 public:
  SharedLink(std::unique_ptr<Link> beneath, std::shared_ptr<SharedConnection> connection)
      : beneath_(std::move(beneath)), connection_(std::move(connection)) {}
  ~SharedLink() override { connection_->Close(); }

  void Call(std::string_view method, Parts request, int64_t deadline_ms, ReplyFn done) override {
    CallInto(method, std::move(request), deadline_ms, nullptr, std::move(done));
  }
  void CallInto(std::string_view method, Parts request, int64_t deadline_ms,
                std::shared_ptr<ReplySink> sink, ReplyFn done) override {
    if (connection_->alive()) {
      connection_->Call(method, std::move(request), deadline_ms, std::move(done));
    } else {
      beneath_->CallInto(method, std::move(request), deadline_ms, std::move(sink), std::move(done));
    }
  }
  const std::string& address() const override { return beneath_->address(); }
  bool shares_memory() const override { return connection_->alive(); }
  bool replies_valid() const override { return connection_->replies_valid(); }
  bool lost_shared_memory() const override { return !connection_->alive(); }

 private:
  const std::unique_ptr<Link> beneath_;
  const std::shared_ptr<SharedConnection> connection_;
};

class SharedListener : public Listener {
 public:
  SharedListener(int fd, std::string address, Service& service,
                 std::shared_ptr<RequestBudget> request_budget, int64_t reply_patience_ms,
                 const Access& access)
      : fd_(fd),
        address_(std::move(address)),
        service_(service),
        requests_(std::move(request_budget)),
        reply_patience_ms_(reply_patience_ms),
        access_(access),
        thread_([this] { Accept(); }) {}
  ~SharedListener() override {
    shutdown(fd_, SHUT_RDWR);
    thread_.join();
    close(fd_);
  }
  std::string address() const override { return address_; }

 private:
  void Accept() {
    while (true) {
      pollfd wanted{.fd = fd_, .events = POLLIN, .revents = 0};
      poll(&wanted, 1, kSharedReapMs);
      served_.Reap();
      if (wanted.revents == 0) continue;
      const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0) {
        Serve(fd);
      } else if (errno == EINVAL || errno == EBADF) {
        return;  // shut down
      } else {
        // There are no descriptors left.
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
    }
  }

  void Serve(int fd) {
    if (!MayShareWith(fd)) {
      close(fd);
      return;
    }
    auto connection = std::make_shared<SharedConnection>(
        fd, &service_, requests_, kBytesMax, "shared memory", reply_patience_ms_, access_);
    served_.Add([connection] { connection->Run(); }, [connection] { connection->Abort(); });
  }

  const int fd_;
  const std::string address_;
  Service& service_;
  const std::shared_ptr<RequestBudget> requests_;
  const int64_t reply_patience_ms_;
  const Access access_;       // the rights of every peer
  ServedConnections served_;  // used by the accepting thread while it runs
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Link> SharedNetwork::DialBoot(const std::string& address,
                                              const std::string& boot_id) {
  std::unique_ptr<Link> link = beneath_.DialBoot(address, boot_id);
  const Name name = NameOf(boot_id);
  const int fd = NewSocket();
  if (fd < 0) return link;
  // connect would block on a listener whose process is stopped.
  const timeval patience{.tv_sec = 0, .tv_usec = 100000};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (connect(fd, reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0 ||
      !MayShareWith(fd)) {
    close(fd);
    return link;
  }
  auto connection = std::make_shared<SharedConnection>(fd, nullptr, nullptr, kBytesMax, address);
  // The connection outlives the link until the peer has released our messages.
  std::optional<std::thread> reader = TryThread([connection] { connection->Run(); });
  if (!reader.has_value()) return link;
  reader->detach();
  return std::make_unique<SharedLink>(std::move(link), std::move(connection));
}

absl::StatusOr<std::unique_ptr<Listener>> SharedNetwork::Offer(
    const std::string& boot_id, Service& service, std::shared_ptr<RequestBudget> request_budget,
    int64_t reply_patience_ms, const Access& access) {
  const Name name = NameOf(boot_id);
  const int fd = NewSocket();
  if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0 ||
      listen(fd, 64) != 0) {
    const int error = errno;
    if (fd >= 0) close(fd);
    return absl::UnavailableError(absl::StrCat("no socket for shared memory: ", strerror(error)));
  }
  return std::make_unique<SharedListener>(fd, absl::StrCat("shared:", boot_id), service,
                                          std::move(request_budget), reply_patience_ms, access);
}

}  // namespace paracord
