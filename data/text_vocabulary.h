// The vocabulary of a text, according to the job: a list, the lines of a file, or the tokens of
// some text, which are counted once and then kept in DIR/index (kept_bytes.h).
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

// The vocabulary is `listed`, or the lines of `file`, or else the tokens of the files `from` (by
// default of the text itself): the `size` most frequent, or as many as are allowed if `size` is 0.
struct VocabularyOptions {
  std::vector<std::string> listed, from;
  uint64_t size = 0;
  std::string file;
};

VocabularyOptions ReadVocabularyOptions(JsonFields& fields, bool words);

// How to count tokens if the job has no list or file of them.
struct VocabularyFrom {
  std::vector<std::string> paths;  // the files of the text itself
  std::function<absl::Status(const std::string& path, Vocabulary::Counts& counts)> count;
  bool all = false;  // all tokens, numbered by their bytes instead of by frequency
};

absl::StatusOr<Vocabulary> MakeVocabulary(Files& files, const VocabularyOptions& options,
                                          const DataSpec& spec, const VocabularyFrom& from);

}  // namespace paracord
