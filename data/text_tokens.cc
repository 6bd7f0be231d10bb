#include "data/text_tokens.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/bytes.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "common/utf8.h"
#include "data/data_options.h"

namespace paracord {
namespace {

constexpr size_t kPeekBytes = 64 << 10;
constexpr size_t kTokenBytesMax = 1 << 20;

bool IsSpace(char c) { return absl::ascii_isspace(static_cast<unsigned char>(c)); }

// Returns the bytes of the word at the start of `text`, which begins with no space; counts only
// whole characters.
size_t WordBytes(std::string_view text, bool& bad, bool at_end) {
  size_t at = 0;
  while (at < text.size() && !IsSpace(text[at])) {
    const Utf8Char next = FirstUtf8(text.substr(at));
    if (next.bytes == 0) {
      bad = at_end || text.size() - at >= kUtf8BytesMax;
      return bad ? at : text.size();
    }
    at += next.bytes;
  }
  return at;
}

}  // namespace

Tokenizer::Consumed Tokenizer::Take(std::string_view text, bool at_end, uint64_t count,
                                    const Visit& visit) const {
  Consumed taken;
  std::string changed;
  size_t at = 0;
  while (taken.tokens < count) {
    while (words && at < text.size() && IsSpace(text[at])) ++at;
    if (words) taken.bytes = at;
    if (at == text.size()) break;
    size_t size = 0;
    if (words) {
      size = WordBytes(text.substr(at), taken.bad, at_end);
    } else {
      size = FirstUtf8(text.substr(at)).bytes;
      taken.bad = size == 0 && (at_end || text.size() - at >= kUtf8BytesMax);
    }
    if (taken.bad) {
      taken.bytes = at + (words ? size : 0);
      return taken;
    }
    if (!at_end && (size == 0 || (words && at + size == text.size()))) break;
    std::string_view token = text.substr(at, size);
    at += size;
    taken.bytes = at;
    if (lowercase || strip_punctuation) {
      changed.clear();
      for (const char c : token) {
        const auto byte = static_cast<unsigned char>(c);
        if (strip_punctuation && words && absl::ascii_ispunct(byte)) continue;
        changed.push_back(lowercase ? absl::ascii_tolower(byte) : c);
      }
      if (changed.empty()) continue;
      token = changed;
    }
    visit(token);
    ++taken.tokens;
  }
  taken.more_needed = taken.tokens < count && !at_end;
  return taken;
}

bool Vocabulary::Add(std::string_view token) {
  const auto number = static_cast<uint32_t>(reserved_ + numbers_.size());
  fingerprint_ = Mix64(fingerprint_, token);
  return numbers_.try_emplace(std::string(token), number).second;
}

Vocabulary Vocabulary::Sorted(const Counts& counts) {
  std::vector<std::string_view> tokens;
  for (const auto& [token, count] : counts) tokens.push_back(token);
  std::sort(tokens.begin(), tokens.end());
  Vocabulary vocabulary;
  vocabulary.reserved_ = 0;
  for (const std::string_view token : tokens) vocabulary.Add(token);
  return vocabulary;
}

Vocabulary Vocabulary::Frequent(const Counts& counts, uint64_t size) {
  // Sorted by descending count, then bytes.
  std::vector<std::pair<uint64_t, std::string_view>> order;
  for (const auto& [token, count] : counts) {
    order.emplace_back(std::numeric_limits<uint64_t>::max() - count, token);
  }
  std::sort(order.begin(), order.end());
  if (order.size() > size) order.resize(static_cast<size_t>(size));
  Vocabulary vocabulary;
  for (const auto& [rank, token] : order) vocabulary.Add(token);
  return vocabulary;
}

absl::StatusOr<Vocabulary> Vocabulary::Listed(const std::vector<std::string>& tokens) {
  if (tokens.size() > kVocabularyMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("holds ", tokens.size(), " words, more than ", kVocabularyMax));
  }
  Vocabulary vocabulary;
  for (const std::string& token : tokens) {
    if (vocabulary.Add(token)) continue;
    return absl::InvalidArgumentError(absl::StrCat("holds ", Quoted(token), " twice"));
  }
  return vocabulary;
}

std::string Vocabulary::Encode() const {
  std::vector<std::string_view> tokens(numbers_.size());
  for (const auto& [token, number] : numbers_) tokens[number - reserved_] = token;
  std::string bytes;
  AppendVarint(reserved_, bytes);
  for (const std::string_view token : tokens) {
    AppendVarint(token.size(), bytes);
    bytes += token;
  }
  return bytes;
}

std::optional<Vocabulary> Vocabulary::Decode(std::string_view bytes) {
  uint64_t reserved = 0, size = 0;
  if (!TakeVarint(bytes, reserved) || (reserved != 0 && reserved != kReserved)) return std::nullopt;
  Vocabulary vocabulary;
  vocabulary.reserved_ = static_cast<uint32_t>(reserved);
  while (!bytes.empty()) {
    if (!TakeVarint(bytes, size) || size > bytes.size()) return std::nullopt;
    if (vocabulary.numbers_.size() == kVocabularyMax) return std::nullopt;
    if (!vocabulary.Add(bytes.substr(0, static_cast<size_t>(size)))) return std::nullopt;
    bytes.remove_prefix(static_cast<size_t>(size));
  }
  return vocabulary;
}

std::optional<uint32_t> Vocabulary::Find(std::string_view token) const {
  const auto found = numbers_.find(absl::string_view(token.data(), token.size()));
  if (found != numbers_.end()) return found->second;
  if (reserved_ == 0) return std::nullopt;
  return 1;
}

absl::Status NotUtf8(uint64_t offset) {
  return absl::InvalidArgumentError(absl::StrCat("byte ", offset, " is not UTF-8"));
}

absl::Status EachToken(FileCursor& cursor, const Tokenizer& tokenizer,
                       const std::function<absl::Status(std::string_view token)>& visit) {
  absl::Status visited;
  const auto visit_one = [&](std::string_view token) {
    if (visited.ok()) visited = visit(token);
  };
  constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();
  for (size_t want = kPeekBytes;;) {
    ASSIGN_OR_RETURN(const std::string_view text, cursor.Peek(want));
    const bool at_end = text.size() < want;
    const Tokenizer::Consumed taken = tokenizer.Take(text, at_end, kAll, visit_one);
    if (taken.bad) return NotUtf8(cursor.position() + taken.bytes);
    RETURN_IF_ERROR(visited);
    cursor.Skip(taken.bytes);
    if (at_end) return absl::OkStatus();
    want = taken.bytes > 0 ? kPeekBytes : want * 2;
    if (want > kTokenBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat(
          "byte ", cursor.position(), " begins a word longer than ", kTokenBytesMax, " bytes"));
    }
  }
}

absl::Status CountTokens(FileCursor& cursor, const Tokenizer& tokenizer,
                         Vocabulary::Counts& counts) {
  return EachToken(cursor, tokenizer, [&](std::string_view token) -> absl::Status {
    ++counts[absl::string_view(token.data(), token.size())];
    if (counts.size() <= kVocabularyMax) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("there are more than ", kVocabularyMax, " different words"));
  });
}

}  // namespace paracord
