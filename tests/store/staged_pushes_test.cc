#include "store/staged_pushes.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "absl/strings/cord.h"

namespace paracord {
namespace {

TEST_CASE("a piece does not hold the memory of a message that is mostly something else") {
  for (const size_t around : {size_t{0}, size_t{100000}}) {
    const std::string message(around + 64, 'x');
    bool let_go = false;
    StagedPushes staged(1 << 20);
    {
      const absl::Cord bytes =
          absl::MakeCordFromExternal(message, [&let_go](absl::string_view) { let_go = true; });
      DecodedRequest request;
      request.header.mutable_staged()->set_id("a");
      request.header.mutable_staged()->set_bytes(64);
      request.pieces.push_back({0, 0, bytes.Subcord(around / 2, 64)});
      const absl::Status kept = staged.Keep(std::move(request), bytes.size(), 0);
      REQUIRE(kept.ok());
    }
    CHECK(let_go == (around > 0));
    staged.Clear();
    CHECK(let_go);
  }
}

}  // namespace
}  // namespace paracord
