// Text cut into tokens, characters or words, and the numbers that stand for them. The text is
// UTF-8; what is not is an error that names the byte. Constant once built: many threads look up.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/data_file.h"

namespace paracord {

struct Tokenizer {
  bool words = false;              // parted by ASCII white space; otherwise characters
  bool lowercase = false;          // of ASCII
  bool strip_punctuation = false;  // of ASCII, out of words, as Keras' TextVectorization does

  struct Taken {
    uint64_t tokens = 0;
    size_t bytes = 0;          // of the text, up to the end of the last token
    bool bad = false;          // there is no UTF-8 after these bytes
    bool more_needed = false;  // the text ends inside a token, or before `count`
  };
  using Visit = std::function<void(std::string_view token)>;
  // At most `count` tokens from the start of `text`; with `at_end` nothing follows it.
  Taken Take(std::string_view text, bool at_end, uint64_t count, const Visit& visit) const;
};

// Numbers of tokens. With reserved numbers 0 is padding and 1 any unknown token.
class Vocabulary {
 public:
  static constexpr uint32_t kReserved = 2;

  // How often each token occurs.
  using Counts = absl::flat_hash_map<std::string, uint64_t>;
  // All in the order of their bytes (for characters: of their code points), nothing reserved.
  static Vocabulary Sorted(const Counts& counts);
  // The `size` most frequent, equally frequent ones in the order of their bytes.
  static Vocabulary Frequent(const Counts& counts, uint64_t size);
  // In the given order; INVALID_ARGUMENT if a token occurs twice, or there are too many.
  static absl::StatusOr<Vocabulary> Listed(const std::vector<std::string>& tokens);

  // To be kept (kept_bytes.h); nothing where the bytes are no vocabulary.
  std::string Encode() const;
  static std::optional<Vocabulary> Decode(std::string_view bytes);

  // Nothing for an unknown token where no number is reserved.
  std::optional<uint32_t> Find(std::string_view token) const;
  // One more than the largest number: the input_dim of an Embedding.
  uint32_t size() const { return reserved_ + static_cast<uint32_t>(numbers_.size()); }
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  bool Add(std::string_view token);
  uint32_t reserved_ = kReserved;
  absl::flat_hash_map<std::string, uint32_t> numbers_;
  uint64_t fingerprint_ = 0;
};

constexpr uint64_t kVocabularyMax = uint64_t{1} << 23;  // numbers are float32

// "byte 17 is not UTF-8", of a text that stands at `offset` of its file.
absl::Status NotUtf8(uint64_t offset);

// Adds the tokens of all of a file. Errors name neither path nor row.
absl::Status CountTokens(FileCursor& cursor, const Tokenizer& tokenizer,
                         Vocabulary::Counts& counts);

}  // namespace paracord
