// The vocabulary of a text, according to the job: a list, the lines of a file, or the tokens of
// some text, counted once and kept in DIR/index (kept_bytes.h).
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

// The vocabulary is `listed`, the lines of `file`, or the tokens of `from` (by default the text
// itself), perhaps only the `size` most frequent.
struct VocabularyOptions {
  std::vector<std::string> listed, from;
  uint64_t size = 0;
  std::string file;
};

VocabularyOptions ReadVocabularyOptions(JsonFields& fields, bool words);

// Where to count tokens if no list gives them.
struct VocabularyFrom {
  std::vector<std::string> paths;  // files of the text itself
  std::function<absl::Status(const std::string& path, Vocabulary::Counts& counts)> count;
  bool all = false;  // all tokens, in byte order instead of by frequency
};

absl::StatusOr<Vocabulary> MakeVocabulary(Files& files, const VocabularyOptions& options,
                                          const DataSpec& spec, const VocabularyFrom& from);

}  // namespace paracord
