// Sends the bytes after the greeting to the server's or the client's side of a stream, and waits
// until that side closes.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "net/stream_connection.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {
namespace {

constexpr uint64_t kRequestMax = 3000;

// Echoes requests, keeps every eighth call open, and drops every ninth.
class Echo : public Service {
 public:
  void Handle(std::string_view, absl::Cord request, std::shared_ptr<ServerCall> call) override {
    Demand(request.size() <= kRequestMax, "a request is no larger than allowed");
    ++calls_;
    if (calls_ % 9 == 0) return;
    if (calls_ % 8 == 0) {
      call->OnCancel([this] { ++cancelled_; });
      kept_.push_back(std::move(call));
      return;
    }
    call->Reply(Parts{std::move(request)});
  }

 private:
  int calls_ = 0;
  int cancelled_ = 0;
  std::vector<std::shared_ptr<ServerCall>> kept_;
};

void Serve(int fd) {
  Echo echo;
  const auto request_budget = std::make_shared<RequestBudget>(kRequestMax / 2);
  const auto connection = std::make_shared<StreamConnection>(
      fd, StreamConnection::Serving{&echo, request_budget, kRequestMax}, "fuzzer");
  connection->Run();
  connection->Close();
  Demand(request_budget->bytes() < 2 * kRequestMax, "what has arrived is bounded");
}

void Call(int fd) {
  const auto connection =
      std::make_shared<StreamConnection>(fd, StreamConnection::Serving{}, "fuzzer");
  int answered = 0;
  constexpr int kCalls = 4;
  for (int i = 0; i < kCalls; ++i) {
    connection->Call("/Any", Parts{absl::Cord("request")}, 60000, nullptr,
                     [&answered](const absl::StatusOr<absl::Cord>&) { ++answered; });
  }
  connection->Run();
  connection->Close();
  Demand(answered == kCalls, "every call is answered once");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  BeQuiet();
  Input input(data, size);
  const bool serve = input.Number(255) % 2 == 0;
  const std::string_view bytes = input.Rest();
  int ends[2];
  if (bytes.size() > 16384 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return -1;
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  Demand(write(ends[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
         "a socket takes a few bytes");
  shutdown(ends[1], SHUT_WR);
  serve ? Serve(ends[0]) : Call(ends[0]);
  close(ends[1]);
  return 0;
}

}  // namespace paracord::fuzz
