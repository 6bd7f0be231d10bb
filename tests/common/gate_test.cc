#include "common/gate.h"

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paracord {
namespace {

class PostedLoop : public EventLoop {
 public:
  int64_t NowMs() const override { return 0; }
  int64_t UnixMs() const override { return 0; }
  void Post(std::function<void()> fn) override { posted.push_back(std::move(fn)); }
  TimerId PostAfter(int64_t, std::function<void()> fn) override {
    Post(std::move(fn));
    return 1;
  }
  void Cancel(TimerId) override {}
  std::vector<std::function<void()>> posted;
};

TEST_CASE("a function that entered a gate does nothing once the gate is closed") {
  std::optional<Gate> gate(std::in_place);
  std::string seen;
  const std::function<void(std::string)> add =
      gate->Enter([&seen](const std::string& text) { seen += text; });
  const Gate::Pass pass = gate->Hold();
  add("a");
  CHECK(pass.open());
  gate.reset();
  add("b");
  CHECK_FALSE(pass.open());
  CHECK(seen == "a");
}

TEST_CASE("a reply is handed to the loop, where the gate may have closed meanwhile") {
  PostedLoop loop;
  std::optional<Gate> gate(std::in_place);
  std::vector<int> seen;
  const std::function<void(std::shared_ptr<int>)> reply = [&] {
    return gate->EnterOn(loop, [&seen](const std::shared_ptr<int>& n) { seen.push_back(*n); });
  }();
  reply(std::make_shared<int>(1));
  CHECK(seen.empty());
  loop.posted[0]();
  CHECK(seen == std::vector{1});
  reply(std::make_shared<int>(2));
  gate.reset();
  loop.posted[1]();
  CHECK(seen == std::vector{1});
}

TEST_CASE("a gate that a function closes is closed for the function behind it") {
  std::optional<Gate> gate(std::in_place);
  int ran = 0;
  auto behind = gate->Enter([&] { ++ran; });
  std::function<void()> ends = gate->Enter([&, behind]() mutable {
    gate.reset();
    behind();
  });
  ends();
  CHECK(ran == 0);
}

}  // namespace
}  // namespace paracord
