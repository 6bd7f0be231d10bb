#include "data/text_vocabulary.h"

#include <optional>
#include <utility>

#include "common/json_text.h"
#include "common/status_macros.h"
#include "data/data_options.h"
#include "data/kept_bytes.h"
#include "data/record_index.h"

namespace paracord {

VocabularyOptions ReadVocabularyOptions(JsonFields& fields, bool words) {
  VocabularyOptions options;
  const nlohmann::json* value = fields.FindValue("vocabulary");
  if (value != nullptr && value->is_array()) {
    options.listed = ReadStrings(fields, "vocabulary");
  } else if (value != nullptr) {
    fields.Integer("vocabulary", 1, kVocabularyMax, options.size);
  }
  fields.String("vocabulary_file", options.file);
  if (fields.FindValue("vocabulary_from") != nullptr) {
    options.from = ReadPaths(fields, "vocabulary_from");
  }
  const bool listed = !options.listed.empty();
  const bool in_file = !options.file.empty();
  if (listed + in_file + !options.from.empty() > 1 || (in_file && options.size != 0)) {
    fields.Problem("vocabulary", "comes from one of a list, `vocabulary_file`, `vocabulary_from`");
  }
  if (in_file && !words) {
    fields.Problem("vocabulary_file", "is for words; give a list of characters as `vocabulary`");
  }
  return options;
}

absl::StatusOr<Vocabulary> MakeVocabulary(Files& files, const VocabularyOptions& options,
                                          const DataSpec& spec, const VocabularyFrom& from) {
  std::vector<std::string> listed = options.listed;
  if (!options.file.empty()) {
    ASSIGN_OR_RETURN(listed, ReadWords(files, options.file));
  }
  if (!listed.empty()) {
    absl::StatusOr<Vocabulary> vocabulary = Vocabulary::Listed(listed);
    if (vocabulary.ok()) return vocabulary;
    return At(options.file.empty() ? "data (text).vocabulary" : options.file, vocabulary.status());
  }
  std::vector<std::string> paths = from.paths;
  if (!options.from.empty()) {
    ASSIGN_OR_RETURN(paths, ExpandPaths(files, options.from));
  }
  const std::optional<KeptBytes> kept =
      KeptBytes::Of(files, spec.keep, "vocabulary", TextOf(spec.options), paths);
  const std::optional<std::string> known = kept ? kept->Load() : std::nullopt;
  if (std::optional<Vocabulary> recalled = known ? Vocabulary::Decode(*known) : std::nullopt) {
    return *std::move(recalled);
  }
  Vocabulary::Counts counts;
  for (const std::string& path : paths) {
    const absl::Status counted = from.count(path, counts);
    if (!counted.ok()) return At(path, counted);
  }
  const uint64_t size = options.size == 0 ? kVocabularyMax : options.size;
  Vocabulary vocabulary =
      from.all ? Vocabulary::Sorted(counts) : Vocabulary::Frequent(counts, size);
  if (kept) kept->Save(vocabulary.Encode());
  return vocabulary;
}

}  // namespace paracord
