// The vocabulary of a text, as the job asks for it: a list, the lines of a file, or the tokens of
// some text, which are counted once and then kept (kept_bytes.h).
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

// The vocabulary is `listed` if that is not empty; otherwise the lines of `file`; otherwise the
// tokens in the files `from` (if there are none, in the text itself): the `size` most frequent, or
// kVocabularyMax if `size` is 0.
struct VocabularyOptions {
  std::vector<std::string> listed, from;
  uint64_t size = 0;
  std::string file;
};

VocabularyOptions ReadVocabularyOptions(JsonFields& fields, bool words);

// How to count tokens if the job has neither a list nor a file of them.
struct VocabularyFrom {
  std::vector<std::string> paths;  // the files of the text itself
  std::function<absl::Status(const std::string& path, Vocabulary::Counts& counts)> count;
  // Takes all tokens, and numbers them by their bytes instead of by frequency.
  bool all = false;
};

absl::StatusOr<Vocabulary> MakeVocabulary(Files& files, const VocabularyOptions& options,
                                          const DataSpec& spec, const VocabularyFrom& from);

}  // namespace paracord
