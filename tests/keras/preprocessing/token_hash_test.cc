#include "keras/preprocessing/token_hash.h"

#include <catch2/catch.hpp>
#include <string>

namespace paracord {
namespace {

TEST_CASE("SipHash-2-4 gives the values of its paper") {
  std::string bytes;
  for (char i = 0; i < 15; ++i) bytes += i;
  CHECK(SipHash24({0x0706050403020100, 0x0f0e0d0c0b0a0908}, bytes) == 0xa129ca6149be45e5);
}

TEST_CASE("a salted bin is that of TensorFlow's to_hash_bucket_strong") {
  const auto bin = [](const char* text) {
    const nlohmann::json json = {{"name", "h"}, {"salt", {133, 137}}};
    LayerConfig config("Hashing", "h", json, false);
    TokenHash hash;
    hash.ReadSalt(config);
    CHECK(hash.salted());
    return hash.Bin(text, 1000003);
  };
  CHECK(bin("") == 953272);
  CHECK(bin("a") == 554259);
  CHECK(bin("abcdefg") == 699324);
  CHECK(bin("abcdefgh") == 676107);
  CHECK(bin("hello world, a longer text") == 449936);
}

}  // namespace
}  // namespace paracord
