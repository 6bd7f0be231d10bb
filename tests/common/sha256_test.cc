#include "common/sha256.h"

#include <catch2/catch.hpp>

#include "tests/no_hashes.h"

namespace paracord {
namespace {

TEST_CASE("SHA-256 is that of the standard's examples") {
  CHECK(Sha256Hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(Sha256Hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("a text has no SHA-256 where OpenSSL computes none") {
  const NoHashes none;
  CHECK(Sha256Hex("abc").empty());
}

}  // namespace
}  // namespace paracord
