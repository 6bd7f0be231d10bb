// A small HTTP/1.1 server for people and their tools: one thread, one request a connection, and a
// bound for everything, because strangers may reach it: connections, bytes of a head, and the time
// to send a head, to be answered and to read the answer. When it is full, the connection that has
// waited longest without a request makes room; if all wait for answers, a new one is closed. Owned
// by main. Debian 12's cpp-httplib is not used: it bounds neither the headers of a request nor its
// time as a whole, so that four clients which send a byte now and then hold all of its threads, and
// supervisors get no answer.
//
// With credentials it speaks HTTPS: it proves its name by the certificate, read again when that
// changes, and asks nobody for theirs, because there is only something to read. A handshake counts
// as a part of the head.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "monitor/http_connection.h"
#include "monitor/http_message.h"
#include "net/socket_address.h"
#include "security/credentials.h"

namespace paracord {

struct HttpLimits {
  size_t connections_max = 64;
  size_t head_bytes_max = 8192;
  int64_t head_ms = 5000;    // from the connection to the end of the head, with the handshake
  int64_t answer_ms = 5000;  // for the handler; after it the answer is 503
  int64_t send_ms = 10000;   // for the reader
};

class HttpServer {
 public:
  // Called at most once for a request, from any thread; later calls have no effect.
  using Answer = std::function<void(HttpReply reply)>;
  // Runs on the server's thread, and must not wait.
  using Handler = std::function<void(const std::string& path, Answer answer)>;

  // Listens at "host:port" or "unix:/path", for HTTPS if there are credentials, which must have a
  // certificate. Errors are those of ListenAt.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const std::string& address, Handler handler, const HttpLimits& limits = {},
      std::shared_ptr<Credentials> https = nullptr);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  const std::string& address() const { return sockets_.address; }  // with the actual port

 private:
  // Answers from other threads. They may come when the server is gone, so they share it.
  class Inbox {
   public:
    Inbox();
    ~Inbox();
    void Put(uint64_t connection, HttpReply reply);
    void Wake();
    std::vector<std::pair<uint64_t, HttpReply>> Take();
    int fd() const { return fd_; }

   private:
    const int fd_;  // an eventfd
    Mutex mu_;
    std::vector<std::pair<uint64_t, HttpReply>> replies_ ABSL_GUARDED_BY(mu_);
  };

  HttpServer(const std::string& address, ListeningSockets sockets, Handler handler,
             const HttpLimits& limits, std::shared_ptr<Credentials> https);
  void Run();
  void Wait();
  void Accept(int listener);
  bool MakeRoom();
  void TakeAnswers();
  void Serve(HttpConnection& connection);

  const Handler handler_;
  const HttpLimits limits_;
  const std::shared_ptr<Credentials> https_;  // null: plain text
  const ListeningSockets sockets_;
  const std::optional<std::string> own_host_;  // that requests have to be for; nullopt: any
  const std::shared_ptr<Inbox> inbox_;
  std::atomic<bool> stopped_{false};
  // On the server's thread alone.
  std::list<HttpConnection> connections_;  // the oldest first
  uint64_t last_id_ = 0;
  int64_t accepts_at_ms_ = 0;  // after a time without descriptors
  std::thread thread_;
};

}  // namespace paracord
