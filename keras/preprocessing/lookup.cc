// StringLookup and IntegerLookup return a word's index in a vocabulary. In order, indices belong to
// the mask (0, in mode int, with a mask_token), to unknown words (num_oov_indices), and to the
// vocabulary.
#include <limits>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "keras/preprocessing/step.h"
#include "keras/preprocessing/token_hash.h"

namespace paracord {
namespace {

using nlohmann::json;

// Overloads for both token types: read from a config, print, and hash to a bin.
bool ReadToken(const json& value, std::string& token) {
  if (value.is_string()) token = value.get<std::string>();
  return value.is_string();
}
bool ReadToken(const json& value, int64_t& token) {
  if (value.is_number_integer()) token = value.get<int64_t>();
  return value.is_number_integer();
}
std::string Text(const std::string& token) { return token; }
std::string Text(int64_t token) { return absl::StrCat(token); }
int64_t Modulo(const std::string&, int64_t) { return 0; }  // of integers alone
int64_t Modulo(int64_t token, int64_t divisor) {
  const int64_t rest = token % divisor;
  return rest < 0 ? rest + divisor : rest;
}

template <class Token>
class LookupStep : public PreprocessingStep {
 public:
  static constexpr bool kText = std::is_same_v<Token, std::string>;

  LookupStep(LayerConfig& config, std::optional<Token> mask)
      : PreprocessingStep(config), mask_(std::move(mask)) {
    ReadMode(config, "int", {"int", "one_hot", "multi_hot", "count", "tf_idf", "binary", "tf-idf"});
    oov_ = config.Integer("num_oov_indices", 1, 0);
    if (config.Flag("invert", false)) {
      config.Fail("invert", "is not supported: its output is what a model does not compute with");
    }
    hash_.ReadSalt(config);
    // Strings have no method but farmhash; only an IntegerLookup may choose.
    const std::string method = config.Choice("oov_method", "floormod", {"floormod", "farmhash"});
    by_hash_ = kText || method == "farmhash";
    if (hash_.salted() && !by_hash_) config.Fail("salt", "needs oov_method \"farmhash\"");
    if (kText && config.Choice("encoding", "utf-8", {"utf-8"}).empty()) return;
    for (const char* key : {"vocabulary_dtype", "vocabulary_size", "has_input_vocabulary"}) {
      config.Ignore(key);
    }
    std::optional<Token> oov_token;
    ReadOne(config, "oov_token", oov_token);
    if (!config.Has("oov_token") && !oov_token) oov_token = DefaultOov();
    ReadOne(config, "mask_token", mask_);
    if (mask_ && encoding_.mode == IndexEncoding::Mode::kInt) first_ = 1;
    ReadVocabulary(config, oov_token);
  }

  void CountUnknown(const RawView& input, LookupCount& count) const override {
    const auto add = [&](const Token& token) {
      if (mask_ && token == *mask_) return;
      ++count.values;
      if (index_.contains(token)) return;
      if (count.unknown++ == 0) count.example = Text(token);
    };
    if constexpr (kText) {
      for (const std::string& text : input.strings) add(text);
    } else {
      int64_t number = 0;
      for (const int64_t value : input.integers) add(value);
      for (const float value : input.floats) {
        if (input.kind == RawKind::kFloat && TruncateToInteger(value, number)) add(number);
      }
    }
  }

 protected:
  absl::Status CheckInputs(std::span<const RawType> inputs) const override {
    if (inputs.size() != 1) return absl::InvalidArgumentError("takes one input");
    if ((inputs[0].kind == RawKind::kString) != kText) {
      return absl::InvalidArgumentError(kText ? "takes strings, but its input gives numbers"
                                              : "takes numbers, but its input gives strings");
    }
    return absl::OkStatus();
  }

  absl::Status Indices(std::span<const RawView> inputs, const RawPlace& place,
                       std::vector<int64_t>& out) const override {
    const RawView& input = inputs[0];
    for (size_t i = 0; i < out.size(); ++i) {
      absl::Status found;
      if constexpr (kText) {
        found = Find(input.strings[i], out[i]);
      } else if (input.kind == RawKind::kInteger) {
        found = Find(input.integers[i], out[i]);
      } else {
        int64_t value = 0;
        if (TruncateToInteger(input.floats[i], value)) {
          found = Find(value, out[i]);
        } else {
          found = absl::InvalidArgumentError(absl::StrCat(input.floats[i], " is no whole number"));
        }
      }
      if (!found.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(place(i, out.size()), ": ", found.message()));
      }
    }
    return absl::OkStatus();
  }

 private:
  static Token DefaultOov() {
    if constexpr (kText) {
      return "[UNK]";
    } else {
      return -1;
    }
  }

  static void ReadOne(LayerConfig& config, const char* key, std::optional<Token>& token) {
    const json* value = config.Value(key);
    if (value == nullptr) return;
    Token read{};
    if (!ReadToken(*value, read)) {
      return config.Fail(key, kText ? "must be a string" : "must be a whole number");
    }
    token = std::move(read);
  }

  // Whether the list begins with the mask and the unknown words, at their indices.
  bool BeginsWithSpecial(const std::vector<Token>& words,
                         const std::optional<Token>& oov_token) const {
    const auto special = static_cast<size_t>(first_ + oov_);
    if (words.size() < special || special == 0) return false;
    for (size_t i = 0; i < special; ++i) {
      const std::optional<Token>& expected = i < static_cast<size_t>(first_) ? mask_ : oov_token;
      if (expected != words[i]) return false;
    }
    return true;
  }

  void ReadVocabulary(LayerConfig& config, const std::optional<Token>& oov_token) {
    const json* list = config.Value("vocabulary");
    if (list == nullptr) {
      return config.Fail("vocabulary",
                         "is not in the model file, as after adapt(): give it to the layer when it "
                         "is made");
    }
    if (!list->is_array() || list->empty()) {
      return config.Fail("vocabulary", "must be a list that is not empty (a file is none)");
    }
    std::vector<Token> words(list->size());
    for (size_t i = 0; i < words.size(); ++i) {
      if (!ReadToken((*list)[i], words[i])) {
        return config.Fail("vocabulary", absl::StrCat(TextOf((*list)[i]), " must be a ",
                                                      kText ? "string" : "whole number"));
      }
    }
    const bool special = BeginsWithSpecial(words, oov_token);
    for (size_t i = special ? static_cast<size_t>(first_ + oov_) : 0; i < words.size(); ++i) {
      const bool is_mask = mask_ && words[i] == *mask_;
      const int64_t index = first_ + oov_ + static_cast<int64_t>(index_.size());
      if (is_mask || !index_.emplace(words[i], index).second) {
        return config.Fail("vocabulary", absl::StrCat("holds ", TextOf((*list)[i]),
                                                      is_mask ? ", the mask_token" : " twice"));
      }
    }
    ReadSize(config);
    if (encoding_.mode == IndexEncoding::Mode::kTfIdf) {
      ReadWeights(config, list->size(), special);
    } else {
      config.Ignore("idf_weights");
    }
  }

  void ReadSize(LayerConfig& config) {
    encoding_.depth = first_ + oov_ + static_cast<int64_t>(index_.size());
    const int64_t most = config.Integer("max_tokens", 0, 2);
    if (most != 0 && encoding_.depth > most) {
      return config.Fail("max_tokens", "is less than the vocabulary has");
    }
    if (!config.Flag("pad_to_max_tokens", false)) return;
    if (most == 0) return config.Fail("pad_to_max_tokens", "needs max_tokens");
    if (encoding_.mode != IndexEncoding::Mode::kInt) encoding_.depth = most;
  }

  // Reads a weight for each word of the list. Unknown words get the mean, and padding gets none.
  void ReadWeights(LayerConfig& config, size_t count, bool special) {
    const json* list = config.Value("idf_weights");
    if (list == nullptr || !list->is_array() || list->size() != count) {
      return config.Fail("idf_weights", "must be a list with a number for each of vocabulary");
    }
    double sum = 0;
    std::vector<float>& weights = encoding_.weights;
    for (const json& weight : *list) {
      if (!weight.is_number()) return config.Fail("idf_weights", "must be numbers");
      weights.push_back(weight.get<float>());
      sum += weight.get<double>();
    }
    if (!special) {
      weights.insert(weights.begin(), static_cast<size_t>(first_ + oov_),
                     static_cast<float>(sum / static_cast<double>(count)));
    }
  }

  absl::Status Find(const Token& token, int64_t& index) const {
    if (mask_ && token == *mask_) {
      const bool int_mode = encoding_.mode == IndexEncoding::Mode::kInt;
      index = int_mode ? 0 : std::numeric_limits<int64_t>::max();  // outside every encoding
      return absl::OkStatus();
    }
    if (const auto found = index_.find(token); found != index_.end()) {
      index = found->second;
      return absl::OkStatus();
    }
    if (oov_ == 0) {
      return absl::InvalidArgumentError(absl::StrCat("\"", Text(token),
                                                     "\" is not in the vocabulary of layer \"",
                                                     name(), "\", whose num_oov_indices is 0"));
    }
    index = first_;
    if (oov_ > 1 && by_hash_) {
      index += hash_.Bin(Text(token), static_cast<uint64_t>(oov_));
    } else if (oov_ > 1) {
      index += Modulo(token, oov_);
    }
    return absl::OkStatus();
  }

  int64_t oov_ = 1;
  int64_t first_ = 0;  // first index of unknown words
  bool by_hash_ = false;
  TokenHash hash_;
  std::optional<Token> mask_;
  absl::flat_hash_map<Token, int64_t> index_;
};

}  // namespace

std::unique_ptr<PreprocessingStep> MakeIntegerLookup(LayerConfig& config) {
  return std::make_unique<LookupStep<int64_t>>(config, std::nullopt);
}
std::unique_ptr<PreprocessingStep> MakeStringLookup(LayerConfig& config) {
  return std::make_unique<LookupStep<std::string>>(config, std::nullopt);
}
std::unique_ptr<PreprocessingStep> MakeTokenLookup(LayerConfig& config) {
  return std::make_unique<LookupStep<std::string>>(config, std::string());
}

}  // namespace paracord
