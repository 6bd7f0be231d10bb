#include "config/proofs.h"

#include <catch2/catch.hpp>
#include <thread>

#include "absl/strings/escaping.h"
#include "tests/no_hashes.h"

namespace paracord {
namespace {

BatchId TheBatch(uint64_t epoch, uint64_t split, uint32_t number) {
  BatchId batch;
  batch.set_epoch(epoch);
  batch.set_split(split);
  batch.set_batch(number);
  return batch;
}

// From Python: hmac.new(b"key", b"paracord rejection" + struct.pack("<QQQ", 1, 2, 3),
// hashlib.sha256).digest()[:16].hex()
TEST_CASE("a rejection is the HMAC of its batch") {
  CHECK(absl::BytesToHexString(RejectionOf("key", TheBatch(1, 2, 3))) ==
        "469504cc3138d61004d6af27da79cca6");
}

// From Python: hmac.new(b"", b"paracord rejection" + struct.pack("<QQQ", 1, 2, 3),
// hashlib.sha256).digest()[:16].hex()
TEST_CASE("a key of no bytes is a key, whichever key was used before it") {
  CHECK_FALSE(RejectionOf("key", TheBatch(1, 2, 3)).empty());
  CHECK(absl::BytesToHexString(RejectionOf("", TheBatch(1, 2, 3))) ==
        "355faa02406a206770d470ee458c439d");
}

TEST_CASE("a rejection is of one batch and one key alone") {
  const BatchId batch = TheBatch(1, 2, 3);
  const std::string rejection = RejectionOf("key", batch);
  CHECK(IsRejection(rejection, "key", batch));
  CHECK_FALSE(IsRejection(rejection, "kez", batch));
  CHECK_FALSE(IsRejection(rejection, "key", TheBatch(1, 2, 4)));
  CHECK_FALSE(IsRejection(rejection, "key", TheBatch(1, 3, 3)));
  CHECK_FALSE(IsRejection(rejection, "key", TheBatch(2, 2, 3)));
  CHECK_FALSE(IsRejection("", "key", batch));
  CHECK_FALSE(IsRejection(rejection.substr(1), "key", batch));
  CHECK_FALSE(IsRejection(rejection + "x", "key", batch));
}

// From Python: hmac.new(b"key", b"paracord lease" + struct.pack("<QQQ", 7, 1, 2),
// hashlib.sha256).digest()[:16].hex()
TEST_CASE("a lease's proof is of its generation, epoch and split, and of all batches of these") {
  const std::string proof = LeaseProofOf("key", 7, 1, 2);
  CHECK(absl::BytesToHexString(proof) == "1c3a2c4a631e59b1fd95500b096d0c4c");
  CHECK(IsLeaseProof(proof, "key", 7, TheBatch(1, 2, 0)));
  CHECK(IsLeaseProof(proof, "key", 7, TheBatch(1, 2, 9)));
  CHECK_FALSE(IsLeaseProof(proof, "kez", 7, TheBatch(1, 2, 0)));
  CHECK_FALSE(IsLeaseProof(proof, "key", 8, TheBatch(1, 2, 0)));
  CHECK_FALSE(IsLeaseProof(proof, "key", 7, TheBatch(2, 2, 0)));
  CHECK_FALSE(IsLeaseProof(proof, "key", 7, TheBatch(1, 3, 0)));
  CHECK_FALSE(IsLeaseProof(RejectionOf("key", TheBatch(7, 1, 2)), "key", 7, TheBatch(1, 2, 0)));
  CHECK_FALSE(IsLeaseProof("", "key", 7, TheBatch(1, 2, 0)));
}

TEST_CASE("a push of several splits shows the proofs of all of them, in their order") {
  const auto proof = [](uint64_t split) { return LeaseProofOf("key", 7, 1, split); };
  const BatchId batch = TheBatch(1, 2, 5);
  CHECK(AreLeaseProofs(proof(2), 1, "key", 7, batch));
  CHECK(AreLeaseProofs(proof(2) + proof(3), 2, "key", 7, batch));
  CHECK_FALSE(AreLeaseProofs(proof(3) + proof(2), 2, "key", 7, batch));
  CHECK_FALSE(AreLeaseProofs(proof(2) + proof(4), 2, "key", 7, batch));
  CHECK_FALSE(AreLeaseProofs(proof(2), 2, "key", 7, batch));
  CHECK_FALSE(AreLeaseProofs(proof(2) + proof(3), 1, "key", 7, batch));
  CHECK_FALSE(AreLeaseProofs(proof(2) + proof(3), 2, "key", 8, batch));
  CHECK_FALSE(AreLeaseProofs("", UINT32_MAX, "key", 7, batch));
}

TEST_CASE("where OpenSSL computes no HMAC, no proof is right") {
  const BatchId batch = TheBatch(1, 2, 3);
  const std::string rejection = RejectionOf("key", batch), proof = LeaseProofOf("key", 7, 1, 2);
  const NoHashes none;
  bool made = true, right = false;
  // A thread caches OpenSSL's algorithms, so the failure is tested in a new thread.
  std::thread([&] {
    made = !RejectionOf("key", batch).empty();
    for (const std::string& shown : {rejection, proof, std::string(), std::string(16, '\0')}) {
      right = right || IsRejection(shown, "key", batch) || IsLeaseProof(shown, "key", 7, batch);
    }
  }).join();
  CHECK_FALSE(made);
  CHECK_FALSE(right);
}

}  // namespace
}  // namespace paracord
