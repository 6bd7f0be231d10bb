// Cuts text into tokens, which are characters or words, and numbers the tokens. Text must be UTF-8;
// an error names the first invalid byte. Find may be called by any thread.
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
  // True: a token is a word between ASCII white space; false: a character.
  bool words = false;
  bool lowercase = false;  // whether A to Z become a to z; other letters stay
  // With `words`, whether all ASCII punctuation is removed from words, like by Keras'
  // TextVectorization. A word of nothing but punctuation is no token.
  bool strip_punctuation = false;

  struct Consumed {
    uint64_t tokens = 0;
    // At least up to the end of the last token; if `bad`, up to the bad byte.
    size_t bytes = 0;
    bool bad = false;  // whether invalid UTF-8 follows these bytes
    // Fewer than `count` tokens were found, and more text may follow.
    bool more_needed = false;
  };
  using Visit = std::function<void(std::string_view token)>;
  // Calls `visit` with at most `count` tokens from the start of `text`. `at_end`: no text follows.
  Consumed Take(std::string_view text, bool at_end, uint64_t count, const Visit& visit) const;
};

// The numbers of tokens. If numbers are reserved, 0 is padding and 1 stands for unknown tokens.
class Vocabulary {
 public:
  static constexpr uint32_t kReserved = 2;

  // How often each token occurs.
  using Counts = absl::flat_hash_map<std::string, uint64_t>;
  // Numbers all tokens from 0, without reserved numbers, in the order of their UTF-8 bytes. For
  // single characters this is the order of their code points.
  static Vocabulary Sorted(const Counts& counts);
  // Numbers the `size` most frequent tokens from kReserved on, the most frequent first. Ties are in
  // the order of their bytes.
  static Vocabulary Frequent(const Counts& counts, uint64_t size);
  // Numbers the tokens in the given order from kReserved on. Returns INVALID_ARGUMENT if a token
  // occurs twice, or if there are more than kVocabularyMax.
  static absl::StatusOr<Vocabulary> Listed(const std::vector<std::string>& tokens);

  // Encode returns the vocabulary as bytes, for kept_bytes.h. Decode returns nullopt for other
  // bytes.
  std::string Encode() const;
  static std::optional<Vocabulary> Decode(std::string_view bytes);

  // Returns the number of a token. Nullopt: it is unknown, and no numbers are reserved.
  std::optional<uint32_t> Find(std::string_view token) const;
  // The largest number plus 1: the input_dim of an Embedding of the tokens.
  uint32_t size() const { return reserved_ + static_cast<uint32_t>(numbers_.size()); }
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  bool Add(std::string_view token);
  uint32_t reserved_ = kReserved;
  absl::flat_hash_map<std::string, uint32_t> numbers_;
  uint64_t fingerprint_ = 0;
};

constexpr uint64_t kVocabularyMax = uint64_t{1} << 23;  // float32 holds all numbers exactly

// Returns the error "byte 17 is not UTF-8", where 17 is `offset` in the file.
absl::Status NotUtf8(uint64_t offset);

// Calls `visit` with all tokens of a file, until `visit` returns an error, which is returned.
absl::Status EachToken(FileCursor& cursor, const Tokenizer& tokenizer,
                       const std::function<absl::Status(std::string_view token)>& visit);

// Adds the tokens of a file to `counts`. Errors name neither path nor row.
absl::Status CountTokens(FileCursor& cursor, const Tokenizer& tokenizer,
                         Vocabulary::Counts& counts);

}  // namespace paracord
