#include "monitor/http_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <variant>

#include "common/steady_ms.h"
#include "common/try_thread.h"

namespace paracord {
namespace {

// Pause of accepting when the process has no descriptors left.
constexpr int64_t kPauseMs = 200;

// Returns the host that requests must name (ReadHead). Returns nullopt, for any host, if the page
// is not only for browsers on this machine, or if browsers verify the name by HTTPS.
std::optional<std::string> OwnHost(const std::string& address, const ListeningSockets& sockets,
                                   bool https) {
  if (https || !sockets.socket_path.empty() || ReachesOut(sockets)) return std::nullopt;
  return address.substr(0, address.rfind(':'));
}

}  // namespace

HttpServer::Inbox::Inbox() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

HttpServer::Inbox::~Inbox() { ::close(fd_); }

void HttpServer::Inbox::Wake() {
  const uint64_t one = 1;
  (void)!::write(fd_, &one, sizeof one);
}

void HttpServer::Inbox::Put(uint64_t connection, HttpReply reply) {
  {
    MutexLock lock(mu_);
    replies_.emplace_back(connection, std::move(reply));
  }
  Wake();
}

std::vector<std::pair<uint64_t, HttpReply>> HttpServer::Inbox::Take() {
  uint64_t ignored = 0;
  (void)!::read(fd_, &ignored, sizeof ignored);
  MutexLock lock(mu_);
  return std::exchange(replies_, {});
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address,
                                                              Handler handler,
                                                              const HttpLimits& limits,
                                                              std::shared_ptr<Credentials> https) {
  absl::StatusOr<ListeningSockets> sockets = ListenAt(address);
  if (!sockets.ok()) return sockets.status();
  std::unique_ptr<HttpServer> server(
      new HttpServer(address, *std::move(sockets), std::move(handler), limits, std::move(https)));
  if (server->inbox_->fd() < 0) {
    return absl::ResourceExhaustedError("the HTTP server has no descriptor left for itself");
  }
  std::optional<std::thread> thread = TryThread([raw = server.get()] { raw->Run(); });
  if (!thread.has_value()) {
    return absl::ResourceExhaustedError("there is no room for the HTTP server's thread");
  }
  server->thread_ = *std::move(thread);
  return server;
}

HttpServer::HttpServer(const std::string& address, ListeningSockets sockets, Handler handler,
                       const HttpLimits& limits, std::shared_ptr<Credentials> https)
    : handler_(std::move(handler)),
      limits_(limits),
      https_(std::move(https)),
      sockets_(std::move(sockets)),
      own_host_(OwnHost(address, sockets_, https_ != nullptr)),
      inbox_(std::make_shared<Inbox>()) {}

HttpServer::~HttpServer() {
  stopped_ = true;
  inbox_->Wake();
  if (thread_.joinable()) thread_.join();
  for (const int fd : sockets_.fds) ::close(fd);
  RemoveSocket(sockets_);
}

void HttpServer::Run() {
  while (!stopped_) {
    Wait();
    TakeAnswers();
    const int64_t now_ms = SteadyMs();
    for (HttpConnection& connection : connections_) {
      if (connection.deadline_ms() <= now_ms) connection.Expire(now_ms + limits_.send_ms);
    }
    std::erase_if(connections_, [](const HttpConnection& connection) {
      return connection.state() == HttpConnection::State::kClosed;
    });
  }
}

// Polls all sockets until the next event or deadline, and handles the events.
void HttpServer::Wait() {
  std::vector<pollfd> polled = {{inbox_->fd(), POLLIN, 0}};
  const int64_t now_ms = SteadyMs();
  int64_t until_ms = now_ms + 60000;
  const bool accepts = accepts_at_ms_ <= now_ms;
  if (!accepts) until_ms = accepts_at_ms_;
  for (const int fd : sockets_.fds) polled.push_back({accepts ? fd : -1, POLLIN, 0});
  std::vector<HttpConnection*> served;
  for (HttpConnection& connection : connections_) {
    // While a connection waits for its answer, further input stays in the kernel.
    const bool waits = connection.state() == HttpConnection::State::kAnswering;
    polled.push_back({waits ? -1 : connection.fd(), connection.events(), 0});
    served.push_back(&connection);
    until_ms = std::min(until_ms, connection.deadline_ms());
  }
  const int64_t wait_ms = std::max<int64_t>(0, until_ms - now_ms);
  if (::poll(polled.data(), polled.size(), static_cast<int>(wait_ms)) <= 0) return;
  const size_t first = 1 + sockets_.fds.size();
  for (size_t i = 0; i < served.size(); ++i) {
    if (polled[first + i].revents != 0) Serve(*served[i]);
  }
  for (size_t i = 0; i < sockets_.fds.size(); ++i) {
    if (polled[1 + i].revents != 0) Accept(sockets_.fds[i]);
  }
}

void HttpServer::Serve(HttpConnection& connection) {
  if (!connection.ShakeHands()) return;
  if (connection.state() != HttpConnection::State::kHead) return connection.GoOn();
  const std::optional<std::string> head = connection.ReadHeadBytes(limits_.head_bytes_max);
  if (!head.has_value()) return;
  const auto path = ReadHead(*head, own_host_);
  const int64_t now_ms = SteadyMs();
  if (const auto* const refusal = std::get_if<HttpReply>(&path)) {
    return connection.Send(*refusal, now_ms + limits_.send_ms);
  }
  connection.AwaitAnswer(now_ms + limits_.answer_ms);
  handler_(std::get<std::string>(path), [inbox = inbox_, id = connection.id()](HttpReply reply) {
    inbox->Put(id, std::move(reply));
  });
}

void HttpServer::TakeAnswers() {
  for (auto& [id, reply] : inbox_->Take()) {
    for (HttpConnection& connection : connections_) {
      const bool waits = connection.state() == HttpConnection::State::kAnswering;
      if (connection.id() == id && waits) connection.Send(reply, SteadyMs() + limits_.send_ms);
    }
  }
}

// Closes the connection that has waited longest for a request. Connections that wait for an answer
// stay. Returns false if no connection can be closed.
bool HttpServer::MakeRoom() {
  if (connections_.size() < limits_.connections_max) return true;
  const auto goes =
      std::find_if(connections_.begin(), connections_.end(), [](const auto& connection) {
        return connection.state() != HttpConnection::State::kAnswering;
      });
  if (goes == connections_.end()) return false;
  connections_.erase(goes);
  return true;
}

void HttpServer::Accept(int listener) {
  constexpr int kAtOnce = 16;
  for (int i = 0; i < kAtOnce; ++i) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      const bool nothing = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
      if (!nothing) accepts_at_ms_ = SteadyMs() + kPauseMs;
      return;
    }
    if (!MakeRoom()) {
      ::close(fd);
      continue;
    }
    connections_.emplace_back(++last_id_, fd, https_.get(), SteadyMs() + limits_.head_ms);
  }
}

}  // namespace paracord
