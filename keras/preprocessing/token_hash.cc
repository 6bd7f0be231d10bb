#include "keras/preprocessing/token_hash.h"

#include <bit>

#include "common/fingerprint64.h"

namespace paracord {
namespace {

// Reads at most 8 bytes as a little-endian number.
uint64_t Word(std::string_view bytes) {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    word |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return word;
}

struct SipState {
  uint64_t v0, v1, v2, v3;
  void Round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void Take(uint64_t word) {
    v3 ^= word;
    Round();
    Round();
    v0 ^= word;
  }
};

}  // namespace

uint64_t SipHash24(const std::array<uint64_t, 2>& key, std::string_view text) {
  SipState state{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
                 key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
  const uint64_t length = text.size();
  for (; text.size() >= 8; text.remove_prefix(8)) state.Take(Word(text.substr(0, 8)));
  state.Take(Word(text) | length << 56);
  state.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) state.Round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

void TokenHash::ReadSalt(LayerConfig& config) {
  const nlohmann::json* salt = config.Value("salt");
  if (salt == nullptr) return;
  const bool two = salt->is_array() && salt->size() == 2;
  const nlohmann::json& first = two ? (*salt)[0] : *salt;
  const nlohmann::json& second = two ? (*salt)[1] : *salt;
  if (!first.is_number_integer() || !second.is_number_integer()) {
    return config.Fail("salt", "must be a whole number, or a list of two");
  }
  salt_ = {static_cast<uint64_t>(first.get<int64_t>()),
           static_cast<uint64_t>(second.get<int64_t>())};
}

int64_t TokenHash::Bin(std::string_view text, uint64_t bins) const {
  const uint64_t hash = salt_.has_value() ? SipHash24(*salt_, text) : Fingerprint64(text);
  return static_cast<int64_t>(hash % bins);
}

}  // namespace paracord
