// Cuts text into tokens, characters or words, and numbers them. Text is UTF-8; an error names the
// first invalid byte. A vocabulary is constant once built: Find is called by any thread.
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
  bool words = false;      // true: words between ASCII white space; false: characters
  bool lowercase = false;  // A to Z become a to z; other letters stay
  // With `words`, removes all ASCII punctuation from words, like Keras' TextVectorization. A word
  // of punctuation alone is no token.
  bool strip_punctuation = false;

  struct Consumed {
    uint64_t tokens = 0;
    size_t bytes = 0;          // at least to the end of the last token; if `bad`, to the bad byte
    bool bad = false;          // invalid UTF-8 follows these bytes
    bool more_needed = false;  // fewer than `count` tokens were found, and more text may follow
  };
  using Visit = std::function<void(std::string_view token)>;
  // Visits at most `count` tokens from the start of `text`. `at_end` says that no text follows.
  Consumed Take(std::string_view text, bool at_end, uint64_t count, const Visit& visit) const;
};

// The numbers of tokens. If numbers are reserved, 0 is padding and 1 stands for any unknown token.
class Vocabulary {
 public:
  static constexpr uint32_t kReserved = 2;

  // The number of occurrences of each token.
  using Counts = absl::flat_hash_map<std::string, uint64_t>;
  // Numbers all tokens from 0, without reserved numbers, in the order of their UTF-8 bytes. For
  // single characters this is the order of code points.
  static Vocabulary Sorted(const Counts& counts);
  // Numbers the `size` most frequent tokens; ties are in the order of their bytes.
  static Vocabulary Frequent(const Counts& counts, uint64_t size);
  // Numbers the tokens in the given order. Returns INVALID_ARGUMENT if a token occurs twice, or if
  // there are too many.
  static absl::StatusOr<Vocabulary> Listed(const std::vector<std::string>& tokens);

  // Encode returns the vocabulary as bytes, to be kept by kept_bytes.h. Decode returns nullopt if
  // the bytes are no vocabulary.
  std::string Encode() const;
  static std::optional<Vocabulary> Decode(std::string_view bytes);

  // Returns nullopt for an unknown token if no numbers are reserved, otherwise 1.
  std::optional<uint32_t> Find(std::string_view token) const;
  // The largest number plus 1: the input_dim of an Embedding.
  uint32_t size() const { return reserved_ + static_cast<uint32_t>(numbers_.size()); }
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  bool Add(std::string_view token);
  uint32_t reserved_ = kReserved;
  absl::flat_hash_map<std::string, uint32_t> numbers_;
  uint64_t fingerprint_ = 0;
};

constexpr uint64_t kVocabularyMax = uint64_t{1} << 23;  // float32 holds all numbers exactly

// Returns the error "byte 17 is not UTF-8" for a byte at `offset` in the file.
absl::Status NotUtf8(uint64_t offset);

// Visits all tokens of a file until `visit` returns an error. Errors name neither path nor row.
absl::Status EachToken(FileCursor& cursor, const Tokenizer& tokenizer,
                       const std::function<absl::Status(std::string_view token)>& visit);

// Adds all tokens of a file to `counts`. Errors name neither path nor row.
absl::Status CountTokens(FileCursor& cursor, const Tokenizer& tokenizer,
                         Vocabulary::Counts& counts);

}  // namespace paracord
