// A small HTTP/1.1 server for people and tools, with one thread and one request per connection.
// Strangers may connect, so connections, bytes of a head, and the times to send a head, to be
// answered and to read the answer are all bounded. If there are connections_max connections, the
// oldest that does not wait for its answer is closed before a new one is taken; if all wait, the
// new one is closed. Owned by the Monitor.
//
// With credentials the server speaks HTTPS. The certificate is reloaded when its file changes.
// Clients need a certificate only if the credentials limit who may read (--http-clients).
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
  int64_t head_ms = 5000;    // from accept to the end of the head, with the handshake
  int64_t answer_ms = 5000;  // for the handler to answer; a client then gets a 503
  int64_t send_ms = 10000;   // for the client to read the reply
};

class HttpServer {
 public:
  // Sends the reply to a request. May be called from any thread. Only the first call has an effect.
  using Answer = std::function<void(HttpReply reply)>;
  // Called on the server's thread. Must not block.
  using Handler = std::function<void(const std::string& path, Answer answer)>;

  // Listens at "host:port" or "unix:/path". `https`: credentials with a certificate, for HTTPS.
  // Errors are those of ListenAt, and RESOURCE_EXHAUSTED if there is no descriptor or thread left.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const std::string& address, Handler handler, const HttpLimits& limits = {},
      std::shared_ptr<Credentials> https = nullptr);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  const std::string& address() const { return sockets_.address; }  // with the actual port

 private:
  // Replies that other threads have given. Shared with Answer functions, which may outlive the
  // server.
  class Inbox {
   public:
    Inbox();
    ~Inbox();
    void Put(uint64_t connection, HttpReply reply);
    void Wake();
    std::vector<std::pair<uint64_t, HttpReply>> Take();
    int fd() const { return fd_; }

   private:
    const int fd_;  // eventfd
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
  const std::shared_ptr<Credentials> https_;  // null: HTTP in plain text
  const ListeningSockets sockets_;
  const std::optional<std::string> own_host_;  // for ReadHead
  const std::shared_ptr<Inbox> inbox_;
  std::atomic<bool> stopped_{false};
  // Used only on the server's thread.
  std::list<HttpConnection> connections_;  // oldest first
  uint64_t last_id_ = 0;
  int64_t accepts_at_ms_ = 0;  // no connection is accepted before this time
  std::thread thread_;
};

}  // namespace paracord
