// The vocabulary of a text, as a job asks for it: a list, the lines of a file, or the tokens of
// some text, which are counted once and kept in DIR/index (kept_bytes.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "config/job.h"
#include "config/json_fields.h"
#include "data/text_tokens.h"

namespace paracord {

// The vocabulary is `listed`, the lines of `file`, or the tokens of `from` (by default of the text
// itself), of which only the most frequent `size` may be kept.
struct VocabularyOptions {
  std::vector<std::string> listed, from;
  uint64_t size = 0;
  std::string file;
};

VocabularyOptions ReadVocabularyOptions(JsonFields& fields, bool words);

// A VocabularyFrom says where tokens are counted if no list says what they are.
struct VocabularyFrom {
  std::vector<std::string> paths;  // of the text itself
  std::function<absl::Status(const std::string& path, Vocabulary::Counts& counts)> count;
  bool all = false;  // all tokens in the order of their bytes, instead of by their frequency
};

absl::StatusOr<Vocabulary> MakeVocabulary(Files& files, const VocabularyOptions& options,
                                          const DataSpec& spec, const VocabularyFrom& from);

}  // namespace paracord
