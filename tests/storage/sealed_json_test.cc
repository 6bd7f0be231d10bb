// JSON with a right checksum around wrong contents.
#include "storage/sealed_json.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

TEST_CASE("what is sealed is opened, and what is nested deeply is damaged") {
  nlohmann::ordered_json object = {{"a", {1, 2}}};
  const std::string whole = SealJson(object, "crc");
  CHECK(OpenSealedJson(whole, "crc", "file").value().at("a").size() == 2);
  nlohmann::ordered_json deep = nlohmann::ordered_json::array();
  for (int i = 0; i < 70; ++i) deep = nlohmann::ordered_json::array({deep});
  object["deep"] = deep;
  const absl::Status status = OpenSealedJson(SealJson(object, "crc"), "crc", "file").status();
  CHECK(absl::IsDataLoss(status));
  CHECK(std::string(status.message()).starts_with("file: damaged"));
}

}  // namespace
}  // namespace paracord
