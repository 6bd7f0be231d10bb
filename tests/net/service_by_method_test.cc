#include "net/service_by_method.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "proto/protocol.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

// Answers with its name. While `holds`, it keeps callers inside Handle.
class NamedService : public Service {
 public:
  explicit NamedService(std::string name) : name_(std::move(name)) {}
  void Handle(std::string_view, absl::Cord, std::shared_ptr<ServerCall> call) override {
    ++handled;
    while (holds) std::this_thread::yield();
    call->Reply(Parts{absl::Cord(name_)});
    ++answered;
  }
  std::atomic<int> handled = 0, answered = 0;
  std::atomic<bool> holds = false;

 private:
  const std::string name_;
};

absl::StatusOr<std::string> AnswerOf(Service& service, std::string_view method) {
  const auto call = std::make_shared<FakeCall>();
  service.Handle(method, absl::Cord("x"), call);
  REQUIRE(call->answered == 1);
  if (!call->reply.ok()) return call->reply.status();
  return std::string(*call->reply);
}

struct TwoServices {
  TwoServices() {
    both.Add("paracord.ParameterServer", ps);
    both.Add("paracord.Coordinator", coordinator);
  }
  NamedService ps{"ps"}, coordinator{"coordinator"};
  ServiceByMethod both;
};

TEST_CASE("a call goes to the service that its method names, though methods have one name") {
  TwoServices services;
  CHECK(*AnswerOf(services.both, method::kPsHold) == "ps");
  CHECK(*AnswerOf(services.both, method::kWorkerHold) == "coordinator");
  CHECK(*AnswerOf(services.both, method::kExchange) == "ps");
}

TEST_CASE("a method of no service is answered UNIMPLEMENTED and reaches nobody") {
  TwoServices services;
  for (const std::string method :
       {"", "/", "//", "Exchange", "paracord.ParameterServer/Exchange", "/paracord.Parameter/Hold",
        "/paracord.ParameterServer", "/paracord.ParameterServer/Exchange/more", "/\x1b[2J/\xff"}) {
    CAPTURE(method);
    CHECK(absl::IsUnimplemented(AnswerOf(services.both, method).status()));
  }
  CHECK(services.ps.handled + services.coordinator.handled == 0);
}

TEST_CASE("a service that is removed gets no call any more, and callers may try again") {
  TwoServices services;
  services.both.Remove("paracord.Coordinator");
  services.both.Remove("paracord.Stranger");
  const absl::Status gone = AnswerOf(services.both, method::kJoin).status();
  CHECK(absl::IsUnavailable(gone));
  CHECK(std::string(gone.message()).find("paracord.Coordinator") != std::string::npos);
  CHECK(services.coordinator.handled == 0);
  CHECK(*AnswerOf(services.both, method::kPsHold) == "ps");
}

TEST_CASE("removing a service waits for the call that it is being handed") {
  TwoServices services;
  services.coordinator.holds = true;
  std::thread caller(
      [&] { services.both.Handle(method::kJoin, absl::Cord(), std::make_shared<FakeCall>()); });
  while (services.coordinator.handled == 0) std::this_thread::yield();
  int answered = -1;
  std::atomic<bool> removes = false;
  std::thread remover([&] {
    removes = true;
    services.both.Remove("paracord.Coordinator");
    answered = services.coordinator.answered;
  });
  while (!removes) std::this_thread::yield();
  for (int i = 0; i < 10000; ++i) std::this_thread::yield();  // the thread is inside Remove now
  services.coordinator.holds = false;
  remover.join();
  caller.join();
  CHECK(answered == 1);
}

}  // namespace
}  // namespace paracord
