#include "data/text_source.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "common/utf8.h"
#include "config/json_fields.h"
#include "data/data_options.h"
#include "data/record_index.h"
#include "data/row_source.h"
#include "data/skipgram_source.h"
#include "data/text_tokens.h"
#include "data/text_vocabulary.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr uint64_t kTextWindowMax = 1 << 20;
constexpr size_t kWordBytesGuess = 8;
constexpr size_t kRecordBytesMax = 64 << 20;
constexpr size_t kLineBytes = 4096;
constexpr size_t kScanBytes = 256 << 10;
constexpr uint64_t kAllTokens = std::numeric_limits<uint64_t>::max();

struct TextOptions {
  std::vector<std::string> files;
  Tokenizer tokenizer;
  uint64_t window = 0, stride = 0;
  std::vector<std::string> labels;  // empty: windows of running text
  VocabularyOptions vocabulary;
  bool inputs_alone = false;  // see DataSpec; a line then needs no label
};

absl::StatusOr<TextOptions> ReadTextOptions(const DataSpec& spec) {
  static constexpr std::array<std::string_view, 2> kUnits = {"character", "word"};
  Problems problems;
  JsonFields fields(spec.options, "data (text)", problems);
  TextOptions options;
  options.files = ReadPaths(fields, "files");
  std::string unit = "character";
  fields.OneOf("unit", kUnits, unit);
  options.tokenizer.words = unit == "word";
  fields.Bool("lowercase", options.tokenizer.lowercase);
  if (options.tokenizer.words) {
    fields.Bool("strip_punctuation", options.tokenizer.strip_punctuation);
  }
  if (fields.FindValue("window") == nullptr) fields.Problem("window", "is missing");
  fields.Integer("window", 1, kTextWindowMax, options.window);
  options.labels = ReadClasses(fields, "labels");
  if (fields.FindValue("labels") == nullptr) {
    options.stride = options.window;
    fields.Integer("stride", 1, std::max<uint64_t>(options.window, 1), options.stride);
  }
  options.vocabulary = ReadVocabularyOptions(fields, options.tokenizer.words);
  options.inputs_alone = spec.inputs_alone;
  fields.ReportUnknown();
  RETURN_IF_ERROR(problems.ToStatus());
  return options;
}

// Cuts a file into its non-empty lines, and checks UTF-8.
class LineCutter : public RecordCutter {
 public:
  absl::StatusOr<bool> Skip(FileCursor& cursor) const override {
    std::string_view line;
    return Next(cursor, line);
  }

  // The line stays valid until the cursor's next use.
  absl::StatusOr<bool> Next(FileCursor& cursor, std::string_view& line) const {
    for (size_t want = kLineBytes; want <= kRecordBytesMax;) {
      ASSIGN_OR_RETURN(const std::string_view text, cursor.Peek(want));
      if (text.empty()) return false;
      const size_t end = text.find('\n');
      if (end == std::string_view::npos && text.size() >= want) {
        want *= 2;
        continue;
      }
      line = text.substr(0, end);
      const size_t good = Utf8Prefix(line);
      if (good < line.size()) return NotUtf8(cursor.position() + good);
      cursor.Skip(end == std::string_view::npos ? text.size() : end + 1);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty()) return true;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("the line is longer than ", kRecordBytesMax, " bytes"));
  }
};

// Cuts a file into windows of `window` tokens plus the following token; windows begin every
// `stride` tokens.
class WindowCutter : public RecordCutter {
 public:
  WindowCutter(const Tokenizer& tokenizer, uint64_t window, uint64_t stride)
      : tokenizer_(tokenizer), tokens_(window + 1), stride_(stride) {}

  absl::StatusOr<bool> Skip(FileCursor& cursor) const override {
    // With characters as tokens, the number of bytes usually proves that enough tokens follow.
    if (!tokenizer_.words) {
      const size_t enough = kUtf8BytesMax * static_cast<size_t>(tokens_);
      ASSIGN_OR_RETURN(const std::string_view text, cursor.Peek(enough));
      if (text.size() >= enough) return Move(cursor, text);
    }
    ASSIGN_OR_RETURN(const std::optional<std::string_view> window, Window(cursor));
    if (!window.has_value()) return false;
    return Move(cursor, *window);
  }

  // Returns the text of the window at the cursor, valid until the cursor's next use; nullopt if too
  // few tokens are left.
  absl::StatusOr<std::optional<std::string_view>> Window(FileCursor& cursor) const {
    const size_t guess = tokenizer_.words ? kWordBytesGuess : 1;
    size_t want = static_cast<size_t>(tokens_) * guess + kUtf8BytesMax;
    while (want <= kRecordBytesMax) {
      ASSIGN_OR_RETURN(const std::string_view text, cursor.Peek(want));
      const bool at_end = text.size() < want;
      const Tokenizer::Consumed taken = tokenizer_.Take(text, at_end, tokens_, [](auto) {});
      if (taken.bad) return NotUtf8(cursor.position() + taken.bytes);
      if (taken.tokens == tokens_) return text.substr(0, taken.bytes);
      if (at_end) return std::nullopt;
      want = text.size() * 2;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("the window is longer than ", kRecordBytesMax, " bytes"));
  }

 private:
  absl::StatusOr<bool> Move(FileCursor& cursor, std::string_view text) const {
    const Tokenizer::Consumed taken = tokenizer_.Take(text, /*at_end=*/true, stride_, [](auto) {});
    if (taken.bad) return NotUtf8(cursor.position() + taken.bytes);
    cursor.Skip(taken.bytes);
    return true;
  }

  const Tokenizer tokenizer_;
  const uint64_t tokens_, stride_;
};

class TextSource : public RowSource {
 public:
  explicit TextSource(TextOptions options)
      : options_(std::move(options)),
        windows_(options_.tokenizer, options_.window, options_.stride) {}

  absl::Status Open(Files& files, const DataSpec& spec) {
    ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandPaths(files, options_.files));
    VocabularyFrom from;
    from.paths = paths;
    from.count = [&](const std::string& path, Vocabulary::Counts& counts) {
      return CountFile(files, path, counts);
    };
    from.all = options_.vocabulary.size == 0 && !lines() && !options_.tokenizer.words;
    ASSIGN_OR_RETURN(vocabulary_, MakeVocabulary(files, options_.vocabulary, spec, from));
    index_.Recall(files, spec, paths);
    for (const std::string& path : paths) {
      ASSIGN_OR_RETURN(std::unique_ptr<ReadFile> file,
                       OpenDataFile(files, path, UnpackingOf(spec)));
      const absl::StatusOr<uint64_t> begin = TextBegin(*file);
      if (!begin.ok()) return At(path, begin.status());
      const uint64_t before = records();
      RETURN_IF_ERROR(index_.Add(path, std::move(file), *begin, cutter()));
      NoteFile(path, records() - before);
    }
    RETURN_IF_ERROR(index_.Keep());
    if (records() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(paths[0], ": has no ", lines() ? "records" : "window of ",
                       lines() ? "" : absl::StrCat(options_.window + 1, " tokens")));
    }
    schema_.inputs = {{"", {options_.window}, {}}};
    schema_.targets = {{"", {}, {}}};
    if (!lines()) schema_.targets[0].shape = {options_.window};
    return CheckFirst();
  }

  uint64_t records() const override { return index_.records(); }
  std::string fingerprint() const override {
    return absl::StrFormat("text:%d:%016x", records(),
                           Mix64(index_.fingerprint(), vocabulary_.fingerprint()));
  }
  std::string Where(uint64_t record) const override { return index_.Where(record); }
  std::string Describe() const override {
    return absl::StrCat("vocabulary of ", vocabulary_.size());
  }

 protected:
  absl::Status ReadRow(uint64_t record, const Row& row) const override {
    ASSIGN_OR_RETURN(FileCursor cursor, index_.Seek(record, cutter()));
    const absl::Status read = lines() ? ReadLine(cursor, row) : ReadWindow(cursor, row);
    return read.ok() ? read : At(Where(record), read);
  }

 private:
  bool lines() const { return !options_.labels.empty(); }
  const RecordCutter& cutter() const {
    return lines() ? static_cast<const RecordCutter&>(line_cutter_) : windows_;
  }

  // Counts the tokens of a file; with labels, only those of the text behind each line's tab.
  absl::Status CountFile(Files& files, const std::string& path, Vocabulary::Counts& counts) {
    ASSIGN_OR_RETURN(const std::unique_ptr<ReadFile> file, OpenDataFile(files, path));
    ASSIGN_OR_RETURN(const uint64_t begin, TextBegin(*file));
    FileCursor cursor(*file, begin, file->size(), kScanBytes);
    if (!lines()) return CountTokens(cursor, options_.tokenizer, counts);
    std::string_view line;
    while (true) {
      ASSIGN_OR_RETURN(const bool more, line_cutter_.Next(cursor, line));
      if (!more) return absl::OkStatus();
      const size_t tab = line.find('\t');
      if (tab == std::string_view::npos) continue;  // refused later by reading
      options_.tokenizer.Take(
          line.substr(tab + 1), /*at_end=*/true, kAllTokens,
          [&](std::string_view token) { ++counts[absl::string_view(token.data(), token.size())]; });
      if (counts.size() > kVocabularyMax) {
        return absl::InvalidArgumentError(
            absl::StrCat("there are more than ", kVocabularyMax, " different words"));
      }
    }
  }

  absl::Status ReadWindow(FileCursor& cursor, const Row& row) const {
    ASSIGN_OR_RETURN(const std::optional<std::string_view> window, windows_.Window(cursor));
    if (!window.has_value()) return absl::DataLossError("the file has changed");
    std::vector<float> numbers;
    RETURN_IF_ERROR(Numbers(*window, options_.window + 1, numbers));
    std::copy(numbers.begin(), numbers.end() - 1, row.inputs[0]);
    std::copy(numbers.begin() + 1, numbers.end(), row.targets[0]);
    return absl::OkStatus();
  }

  absl::Status ReadLine(FileCursor& cursor, const Row& row) const {
    std::string_view line;
    ASSIGN_OR_RETURN(const bool more, line_cutter_.Next(cursor, line));
    if (!more) return absl::DataLossError("the file has changed");
    const size_t tab = line.find('\t');
    if (tab == std::string_view::npos && !options_.inputs_alone) {
      return absl::InvalidArgumentError("has no tab between label and text");
    }
    const std::string_view label = line.substr(0, tab);
    const auto at = std::find(options_.labels.begin(), options_.labels.end(), label);
    const bool labelled = tab != std::string_view::npos && at != options_.labels.end();
    if (options_.inputs_alone && !labelled) return Window(line, row);
    if (!labelled) {
      return absl::InvalidArgumentError(
          absl::StrCat("the label ", Quoted(label), " is not in `labels`"));
    }
    row.targets[0][0] = static_cast<float>(at - options_.labels.begin());
    return Window(line.substr(tab + 1), row);
  }

  // Writes the first tokens of a labelled or unlabelled text, padded with zeros.
  absl::Status Window(std::string_view text, const Row& row) const {
    std::vector<float> numbers;
    RETURN_IF_ERROR(Numbers(text, options_.window, numbers));
    numbers.resize(static_cast<size_t>(options_.window), 0);
    std::copy(numbers.begin(), numbers.end(), row.inputs[0]);
    return absl::OkStatus();
  }

  // Looks up the first `count` tokens of `text`. An error names a character without a number.
  absl::Status Numbers(std::string_view text, uint64_t count, std::vector<float>& numbers) const {
    absl::Status status;
    options_.tokenizer.Take(text, /*at_end=*/true, count, [&](std::string_view token) {
      const std::optional<uint32_t> number = vocabulary_.Find(token);
      numbers.push_back(static_cast<float>(number.value_or(0)));
      if (number.has_value() || !status.ok()) return;
      status = absl::InvalidArgumentError(
          absl::StrCat("the character ", Quoted(token), " is not in the vocabulary"));
    });
    return status;
  }

  const TextOptions options_;
  const WindowCutter windows_;
  const LineCutter line_cutter_;
  Vocabulary vocabulary_;
  RecordIndex index_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenText(Files& files, const DataSpec& spec) {
  if (spec.options.contains("skipgram")) return OpenSkipgram(files, spec);
  ASSIGN_OR_RETURN(TextOptions options, ReadTextOptions(spec));
  auto source = std::make_unique<TextSource>(std::move(options));
  RETURN_IF_ERROR(source->Open(files, spec));
  return source;
}

}  // namespace paracord
