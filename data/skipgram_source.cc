#include "data/skipgram_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/mix.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "config/json_fields.h"
#include "data/data_options.h"
#include "data/record_index.h"
#include "data/text_tokens.h"
#include "data/text_vocabulary.h"

namespace paracord {
namespace {

constexpr uint64_t kWindowMax = 100, kNegativeMax = 1000;
constexpr uint64_t kTextWordsMax = (uint64_t{1} << 32) - 1;  // limit of the text's words
constexpr double kNegativePower = 0.75;
constexpr int kDrawsMax = 64;  // attempts to draw a word other than the near word

struct SkipgramOptions {
  std::vector<std::string> files;
  Tokenizer tokenizer;
  VocabularyOptions vocabulary;
  uint64_t window = 5, negative = 5;
  double subsample = 0;
};

absl::StatusOr<SkipgramOptions> ReadSkipgramOptions(const DataSpec& spec) {
  static constexpr std::array<std::string_view, 1> kUnits = {"word"};
  Problems problems;
  JsonFields fields(spec.options, "data (text)", problems);
  SkipgramOptions options;
  options.files = ReadPaths(fields, "files");
  std::string unit;
  fields.OneOf("unit", kUnits, unit);
  if (unit.empty()) fields.Problem("unit", "must be \"word\" with `skipgram`");
  options.tokenizer.words = true;
  fields.Bool("lowercase", options.tokenizer.lowercase);
  fields.Bool("strip_punctuation", options.tokenizer.strip_punctuation);
  options.vocabulary = ReadVocabularyOptions(fields, /*words=*/true);
  if (const nlohmann::json* value = fields.FindValue("skipgram")) {
    JsonFields own(*value, fields.PathOf("skipgram"), problems);
    own.Integer("window", 1, kWindowMax, options.window);
    own.Integer("negative", 1, kNegativeMax, options.negative);
    own.Number("subsample", 0, 1, options.subsample);
    own.ReportUnknown();
  }
  fields.ReportUnknown();
  RETURN_IF_ERROR(problems.ToStatus());
  return options;
}

// A stream of random numbers, a pure function of its key.
class Draws {
 public:
  explicit Draws(uint64_t key) : key_(key) {}
  uint64_t Below(uint64_t bound) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(Next()) * bound >> 64);
  }
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  uint64_t Next() { return Mix64(key_ + at_++); }
  const uint64_t key_;
  uint64_t at_ = 0;
};

// Draws words by weight in constant time (Walker's alias method).
class AliasTable {
 public:
  explicit AliasTable(const std::vector<double>& weights) : entries_(weights.size()) {
    double sum = 0;
    for (const double weight : weights) sum += weight;
    std::vector<double> share(weights.size());
    std::vector<uint32_t> small, large;
    for (size_t i = 0; i < weights.size(); ++i) {
      share[i] = weights[i] / sum * static_cast<double>(weights.size());
      (share[i] < 1 ? small : large).push_back(static_cast<uint32_t>(i));
      entries_[i] = {1, static_cast<uint32_t>(i)};
    }
    while (!small.empty() && !large.empty()) {
      const uint32_t less = small.back(), more = large.back();
      small.pop_back();
      entries_[less] = {static_cast<float>(share[less]), more};
      share[more] -= 1 - share[less];
      if (share[more] >= 1) continue;
      large.pop_back();
      small.push_back(more);
    }
  }
  uint32_t Draw(Draws& draws) const {
    const uint64_t place = draws.Below(entries_.size());
    const Entry& entry = entries_[place];
    return draws.Uniform() < static_cast<double>(entry.own) ? static_cast<uint32_t>(place)
                                                            : entry.other;
  }

 private:
  struct Entry {
    float own = 1;  // chance of drawing the place itself
    uint32_t other = 0;
  };
  std::vector<Entry> entries_;
};

class SkipgramSource : public DataSource {
 public:
  explicit SkipgramSource(SkipgramOptions options) : options_(std::move(options)) {}

  absl::Status Open(Files& files, const DataSpec& spec) {
    ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandPaths(files, options_.files));
    VocabularyFrom from;
    from.paths = paths;
    from.count = [&](const std::string& path, Vocabulary::Counts& counts) -> absl::Status {
      return EachIn(files, path, [&](std::string_view word) -> absl::Status {
        ++counts[absl::string_view(word.data(), word.size())];
        if (counts.size() <= kVocabularyMax) return absl::OkStatus();
        return absl::InvalidArgumentError(
            absl::StrCat("there are more than ", kVocabularyMax, " different words"));
      });
    };
    ASSIGN_OR_RETURN(vocabulary_, MakeVocabulary(files, options_.vocabulary, spec, from));
    for (const std::string& path : paths) {
      const absl::Status read = ReadFile(files, path);
      if (!read.ok()) return At(path, read);
    }
    RETURN_IF_ERROR(Weigh(paths[0]));
    const uint64_t others = 1 + options_.negative;
    schema_.inputs = {{"word", {1}, {}}, {"others", {others}, {}}};
    schema_.targets = {{"", {others}, {}}};
    return absl::OkStatus();
  }

  uint64_t records() const override { return records_; }
  std::string fingerprint() const override {
    return absl::StrFormat("skipgram:%d:%016x", records(),
                           Mix64(fingerprint_, vocabulary_.fingerprint()));
  }
  const Batch& schema() const override { return schema_; }
  std::string Where(uint64_t record) const override {
    const auto after =
        std::ranges::upper_bound(by_file_, CentreOf(record, records_), {}, &OneFile::first);
    return absl::StrCat((after - 1)->path, " pair ", record);
  }
  std::string Describe() const override {
    return absl::StrCat("vocabulary of ", vocabulary_.size(), ", ", words_.size(), " words, of ",
                        "which about ", records_ / (options_.window + 1), " are left an epoch");
  }

  absl::Status Read(std::span<const uint64_t> records, Batch& batch) const override {
    return ReadForTraining(records, 0, batch);
  }
  absl::Status ReadForTraining(std::span<const uint64_t> records, uint64_t epoch_key,
                               Batch& batch) const override {
    const std::shared_ptr<const Epoch> epoch = EpochOf(epoch_key);
    const size_t others = 1 + static_cast<size_t>(options_.negative);
    batch.examples = static_cast<uint32_t>(records.size());
    batch.source = this;
    batch.records.assign(records.begin(), records.end());
    batch.inputs.resize(2);
    batch.targets.resize(1);
    batch.weights.clear();
    batch.inputs[0] = {"word", {1}, std::vector<float>(records.size())};
    batch.inputs[1] = {"others", {others}, std::vector<float>(records.size() * others)};
    batch.targets[0] = {"", {others}, std::vector<float>(records.size() * others)};
    for (size_t i = 0; i < records.size(); ++i) {
      if (records[i] >= records_) {
        return absl::OutOfRangeError(
            absl::StrCat("record ", records[i], ": there are only ", records_, " records"));
      }
      const std::span values(batch.inputs[1].values);
      ReadPair(*epoch, Mix64(epoch_key, records[i]), records[i], batch.inputs[0].values[i],
               values.subspan(i * others, others));
      batch.targets[0].values[i * others] = 1;
    }
    return absl::OkStatus();
  }

 private:
  struct OneFile {
    std::string path;
    uint64_t first = 0;  // index of the file's first word among all words
  };
  // The places of words taking part in an epoch, by file.
  struct Epoch {
    uint64_t key = 0;
    std::vector<uint32_t> places;
  };

  absl::Status EachIn(Files& files, const std::string& path,
                      const std::function<absl::Status(std::string_view)>& visit) const {
    ASSIGN_OR_RETURN(const std::unique_ptr<paracord::ReadFile> file, OpenDataFile(files, path));
    ASSIGN_OR_RETURN(const uint64_t begin, TextBegin(*file));
    constexpr size_t kScanBytes = 256 << 10;
    FileCursor cursor(*file, begin, file->size(), kScanBytes);
    return EachToken(cursor, options_.tokenizer, visit);
  }

  // Keeps the words in the vocabulary.
  absl::Status ReadFile(Files& files, const std::string& path) {
    by_file_.push_back({path, words_.size()});
    RETURN_IF_ERROR(EachIn(files, path, [&](std::string_view word) -> absl::Status {
      const uint32_t number = vocabulary_.Find(word).value_or(1);
      if (number < Vocabulary::kReserved) return absl::OkStatus();
      if (words_.size() == kTextWordsMax) {
        return absl::InvalidArgumentError(
            absl::StrCat("there are more than ", kTextWordsMax, " words"));
      }
      words_.push_back(number);
      fingerprint_ = Mix64(fingerprint_, number);
      return absl::OkStatus();
    }));
    fingerprint_ = Mix64(fingerprint_, words_.size());
    return absl::OkStatus();
  }

  // Computes each word's chances of being kept and drawn from its frequency.
  absl::Status Weigh(const std::string& path) {
    words_.shrink_to_fit();
    std::vector<uint64_t> counts(vocabulary_.size());
    for (const uint32_t word : words_) ++counts[word];
    std::vector<double> weights;
    keep_.assign(counts.size(), 1);
    double left = 0;
    const auto total = static_cast<double>(words_.size());
    for (size_t word = 0; word < counts.size(); ++word) {
      const auto count = static_cast<double>(counts[word]);
      weights.push_back(std::pow(count, kNegativePower));
      const double allowed = options_.subsample * total;
      if (options_.subsample > 0 && count > 0) {
        keep_[word] =
            static_cast<float>(std::min(1.0, (std::sqrt(count / allowed) + 1) * allowed / count));
      }
      left += count * static_cast<double>(keep_[word]);
    }
    records_ = static_cast<uint64_t>(left) * (options_.window + 1);
    const bool several = std::ranges::count_if(counts, [](uint64_t n) { return n > 0; }) > 1;
    if (records_ == 0 || !several) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": has too few words of the vocabulary for pairs; is `subsample` too small?"));
    }
    negatives_ = std::make_unique<AliasTable>(weights);
    return absl::OkStatus();
  }

  std::shared_ptr<const Epoch> EpochOf(uint64_t key) const {
    MutexLock lock(mu_);
    for (const auto& epoch : epochs_) {
      if (epoch != nullptr && epoch->key == key) return epoch;
    }
    auto epoch = std::make_shared<Epoch>();
    epoch->key = key;
    for (uint32_t place = 0; place < words_.size(); ++place) {
      const double chance = static_cast<double>(Mix64(key ^ kKeepSalt, place) >> 11) * 0x1p-53;
      if (chance < static_cast<double>(keep_[words_[place]])) epoch->places.push_back(place);
    }
    // Pairs need two words, whatever the chances were.
    for (uint32_t place = 0; epoch->places.size() < 2 && place < 2; ++place) {
      epoch->places.insert(epoch->places.begin() + place, place);
    }
    std::swap(epochs_[0], epochs_[1]);
    epochs_[0] = epoch;
    return epoch;
  }

  // The word of a record among `words`.
  static uint64_t CentreOf(uint64_t record, uint64_t records, uint64_t words) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(record) * words / records);
  }
  uint64_t CentreOf(uint64_t record, uint64_t records) const {
    return CentreOf(record, records, words_.size());
  }

  void ReadPair(const Epoch& epoch, uint64_t key, uint64_t record, float& word,
                std::span<float> others) const {
    Draws draws(key);
    const std::vector<uint32_t>& places = epoch.places;
    const uint64_t centre = CentreOf(record, records_, places.size());
    const uint32_t near = words_[places[NearOf(centre, places, draws)]];
    word = static_cast<float>(words_[places[centre]]);
    others[0] = static_cast<float>(near);
    for (float& other : others.subspan(1)) {
      uint32_t drawn = near;
      for (int i = 0; i < kDrawsMax && drawn == near; ++i) drawn = negatives_->Draw(draws);
      other = static_cast<float>(drawn);
    }
  }

  // Draws a place near `centre`: distance d occurs as often as in windows of a width drawn from 1
  // to W, W + 1 - d of W times. At the ends of a text looks the other way.
  uint64_t NearOf(uint64_t centre, const std::vector<uint32_t>& places, Draws& draws) const {
    const uint64_t distance = Distance(draws);
    const bool before = draws.Below(2) == 0;
    const uint64_t last = places.size() - 1;
    if (before) return centre >= distance ? centre - distance : std::min(centre + distance, last);
    if (centre + distance <= last) return centre + distance;
    return centre >= distance ? centre - distance : centre == 0 ? 1 : 0;
  }
  uint64_t Distance(Draws& draws) const {
    const uint64_t window = options_.window;
    uint64_t at = draws.Below(window * (window + 1) / 2);
    uint64_t distance = 1;
    for (uint64_t share = window; at >= share; --share, ++distance) at -= share;
    return distance;
  }

  static constexpr uint64_t kKeepSalt = 0x6b656570;

  const SkipgramOptions options_;
  Vocabulary vocabulary_;
  std::vector<OneFile> by_file_;
  std::vector<uint32_t> words_;  // words of all files, by number
  std::vector<float> keep_;      // indexed by word: the chance to take part
  std::unique_ptr<AliasTable> negatives_;
  uint64_t records_ = 0, fingerprint_ = 0;
  Batch schema_;
  mutable Mutex mu_;
  mutable std::shared_ptr<const Epoch> epochs_[2] ABSL_GUARDED_BY(mu_);  // the last two used
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenSkipgram(Files& files, const DataSpec& spec) {
  ASSIGN_OR_RETURN(SkipgramOptions options, ReadSkipgramOptions(spec));
  auto source = std::make_unique<SkipgramSource>(std::move(options));
  RETURN_IF_ERROR(source->Open(files, spec));
  return source;
}

}  // namespace paracord
