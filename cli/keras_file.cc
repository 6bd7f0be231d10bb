#include "cli/keras_file.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/hdf5_file.h"
#include "cli/in_child.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "common/utf8.h"
#include "config/json_fields.h"
#include "config/partitions.h"
#include "data/zip_file.h"
#include "nlohmann/json.hpp"
#include "storage/safetensors.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr uint64_t kMemberBytesMax = uint64_t{1} << 30;  // like Files::ReadWhole
constexpr std::string_view kVocabulary = "/vocabulary.txt";
constexpr size_t kDepthMax = 64;

// The weight of one variable.
struct KerasWeight {
  std::string variable;
  std::vector<uint64_t> shape;
  std::vector<float> values;
  std::vector<uint64_t> ids;  // for a growing table
};

absl::StatusOr<std::string> ReadMember(Files& files, const std::string& path,
                                       const std::vector<ZipMember>& members,
                                       const std::string& name) {
  const auto found = std::ranges::find(members, name, &ZipMember::name);
  if (found == members.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is a zip archive without ", name, ", and no .keras file"));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<ByteStream> stream, OpenZipMember(files, path, *found));
  constexpr size_t kPiece = 1 << 20;
  std::string bytes;
  while (true) {
    const size_t before = bytes.size();
    bytes.resize(before + kPiece);
    ASSIGN_OR_RETURN(const size_t read, stream->ReadSome(std::span(bytes).subspan(before)));
    bytes.resize(before + read);
    if (read == 0) {
      RETURN_IF_ERROR(stream->ExpectEnd());
      return bytes;
    }
    if (bytes.size() > kMemberBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", name, " is larger than 1 GiB"));
    }
  }
}

// Suggests the converter for files that Keras itself may read.
std::string WayOut(const std::string& path) {
  return absl::StrCat("; where Keras is installed, `python3 -m paracord.convert ", path,
                      " FOLDER/` writes its model and weights apart");
}

bool IsZip(std::string_view beginning) { return beginning.starts_with("PK\x03\x04"); }

absl::StatusOr<std::string> Beginning(const ReadFile& file) {
  std::string bytes(static_cast<size_t>(std::min<uint64_t>(file.size(), 8)), '\0');
  RETURN_IF_ERROR(file.ReadAt(0, std::span(bytes)));
  return bytes;
}

// The HDF5 with the weights, and the archive around it.
struct Opened {
  std::vector<ZipMember> members;  // for a .keras
  std::unique_ptr<Hdf5File> hdf5;
};

absl::StatusOr<Opened> OpenFile(Files& files, const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadFile> file, files.Open(path));
  ASSIGN_OR_RETURN(const std::string beginning, Beginning(*file));
  Opened opened;
  std::string bytes;
  if (IsZip(beginning)) {
    ASSIGN_OR_RETURN(opened.members, ReadZipDirectory(*file, path));
    ASSIGN_OR_RETURN(bytes, ReadMember(files, path, opened.members, "model.weights.h5"));
  } else if (beginning.starts_with("\x89HDF")) {
    ASSIGN_OR_RETURN(bytes, files.ReadWhole(path));
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is neither a .keras archive nor HDF5, by its first bytes"));
  }
  absl::StatusOr<std::unique_ptr<Hdf5File>> hdf5 = Hdf5File::Open(std::move(bytes), path);
  if (!hdf5.ok()) {
    return absl::Status(hdf5.status().code(),
                        absl::StrCat(std::string(hdf5.status().message()), WayOut(path)));
  }
  opened.hdf5 = *std::move(hdf5);
  return opened;
}

// Returns the layer's name that Keras notes in a group; "" without one.
absl::StatusOr<std::string> NameOf(const Hdf5File& hdf5, const std::string& group) {
  const auto names = hdf5.Strings(group + "/vars", "name");
  if (absl::IsNotFound(names.status())) return std::string();
  RETURN_IF_ERROR(names.status());
  return names->empty() ? std::string() : names->front();
}

// Returns the layer at a path of names in a model's config, outermost first.
json* FindLayer(json& model, std::span<const std::string> names) {
  json* at = &model;
  for (const std::string& name : names) {
    json* found = nullptr;
    if (!at->is_object() || !at->contains("config")) return nullptr;
    json& config = (*at)["config"];
    if (!config.is_object() || !config.contains("layers")) return nullptr;
    for (json& layer : config["layers"]) {
      if (!layer.is_object() || !layer.contains("config") || !layer["config"].is_object()) continue;
      if (layer["config"].value("name", "") == name) found = &layer;
    }
    if (found == nullptr) return nullptr;
    at = found;
  }
  return at;
}

// Puts the words of a vocabulary into the layer at the path that its weight group has.
absl::Status TakeVocabulary(const std::string& path, const Hdf5File& hdf5, const std::string& group,
                            const std::string& text, json& model) {
  std::vector<std::string> names;
  std::string so_far;
  for (const absl::string_view part : absl::StrSplit(group, '/')) {
    absl::StrAppend(&so_far, so_far.empty() ? "" : "/", std::string(part));
    ASSIGN_OR_RETURN(const std::string name, NameOf(hdf5, so_far));
    if (!name.empty()) names.push_back(name);
  }
  json* const layer = names.empty() ? nullptr : FindLayer(model, names);
  if (layer == nullptr || !layer->is_object() || !(*layer)["config"].is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": assets/", group, " is the vocabulary of no layer that its config.json ", "names",
        WayOut(path)));
  }
  json words = json::array();
  const bool whole = layer->value("class_name", "") == "IntegerLookup";
  for (const absl::string_view word : absl::StrSplit(text, '\n')) {
    int64_t number = 0;
    if (whole && !absl::SimpleAtoi(word, &number)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": assets/", group, ": the word ",
                                                     std::string(word), " of layer ", names.back(),
                                                     " is no whole number"));
    }
    if (whole) {
      words.push_back(number);
    } else if (Utf8Prefix(std::string(word)) == word.size()) {
      words.push_back(std::string(word));
    } else {
      return absl::InvalidArgumentError(absl::StrCat(path, ": assets/", group, ": a word of layer ",
                                                     names.back(), " is not UTF-8"));
    }
  }
  (*layer)["config"]["vocabulary"] = std::move(words);
  return absl::OkStatus();
}

absl::Status TakeVocabularies(Files& files, const std::string& path,
                              const std::vector<ZipMember>& members, json& model) {
  std::unique_ptr<Hdf5File> hdf5;
  for (const ZipMember& member : members) {
    constexpr std::string_view kAssets = "assets/";
    std::string_view group = member.name;
    if (!group.starts_with(kAssets) || !group.ends_with(kVocabulary)) continue;
    group.remove_prefix(kAssets.size());
    group.remove_suffix(kVocabulary.size());
    // Skips a second copy: TextVectorization saves its words twice.
    if (group.ends_with("/_lookup_layer")) continue;
    if (hdf5 == nullptr) {
      ASSIGN_OR_RETURN(Opened opened, OpenFile(files, path));
      hdf5 = std::move(opened.hdf5);
    }
    ASSIGN_OR_RETURN(const std::string text, ReadMember(files, path, members, member.name));
    RETURN_IF_ERROR(TakeVocabulary(path, *hdf5, std::string(group), text, model));
  }
  return absl::OkStatus();
}

// Collects the weights in the groups of a .keras or .weights.h5, and names them.
class WeightWalk {
 public:
  WeightWalk(const std::string& path, const Hdf5File& hdf5, std::span<const VariableSpec> variables,
             bool partial)
      : path_(path), hdf5_(hdf5), partial_(partial) {
    for (const VariableSpec& variable : variables) {
      const size_t slash = variable.name().rfind('/');
      const std::string layer = slash == std::string::npos ? "" : variable.name().substr(0, slash);
      of_layer_[layer].push_back(&variable);
    }
  }

  // Takes the weights of a group and its subgroups. `names` are the enclosing layers, outermost
  // first.
  absl::Status Take(const std::string& group, std::vector<std::string> names, size_t depth) {
    if (depth > kDepthMax) return Refused(absl::StrCat(group, " lies too deep"));
    const bool top = group == "/";
    if (!top) {
      ASSIGN_OR_RETURN(std::string name, NameOf(hdf5_, group));
      if (!name.empty()) names.push_back(std::move(name));
    }
    const absl::StatusOr<std::vector<std::string>> below = hdf5_.Names(group);
    if (absl::IsNotFound(below.status())) return absl::OkStatus();  // an array, and no layer
    RETURN_IF_ERROR(below.status());
    for (const std::string& each : *below) {
      const std::string inner = absl::StrCat(top ? "" : group, "/", each);
      if (each == "vars") {
        RETURN_IF_ERROR(TakeVars(inner, absl::StrJoin(names, "/")));
      } else if (!each.ends_with("generator") && !(top && each == "optimizer")) {
        RETURN_IF_ERROR(Take(inner, names, depth + 1));
      }
    }
    return absl::OkStatus();
  }

  std::vector<KerasWeight>& weights() { return weights_; }

 private:
  absl::Status Refused(const std::string& why) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", why));
  }

  // Takes the numbered weights of a layer, which are in the order of our variables.
  absl::Status TakeVars(const std::string& group, const std::string& layer) {
    ASSIGN_OR_RETURN(const std::vector<std::string> numbers, hdf5_.Names(group));
    if (numbers.empty()) return absl::OkStatus();
    const auto ours = of_layer_.find(layer);
    if (ours == of_layer_.end()) {
      if (partial_) return absl::OkStatus();
      return Refused(layer.empty()
                         ? absl::StrCat(group,
                                        " holds weights of no layer, or of one whose name "
                                        "an old Keras left out",
                                        WayOut(path_))
                         : absl::StrCat("holds weights of layer ", layer,
                                        ", of which the model has none by that name"));
    }
    for (size_t i = 0; i < numbers.size(); ++i) {
      const std::string dataset = absl::StrCat(group, "/", i);
      ASSIGN_OR_RETURN(std::optional<Hdf5File::Numbers> read, hdf5_.Read(dataset));
      if (!read.has_value()) return Refused(absl::StrCat(dataset, " is no array"));
      if (i < ours->second.size()) {
        RETURN_IF_ERROR(TakeOne(layer, i, *ours->second[i], *std::move(read)));
        continue;
      }
      // Counts collected by adapt() are useless afterwards.
      if (i == 2 && numbers.size() == 3 && read->shape.empty()) continue;
      return Refused(absl::StrCat("holds ", numbers.size(), " weights of layer ", layer,
                                  ", which has ", ours->second.size(), " in the model"));
    }
    return absl::OkStatus();
  }

  absl::Status TakeOne(const std::string& layer, size_t number, const VariableSpec& variable,
                       Hdf5File::Numbers read) {
    std::vector<uint64_t> wanted(variable.shape().begin(), variable.shape().end());
    KerasWeight weight{variable.name(), std::move(read.shape), std::move(read.values), {}};
    if (IsGrowing(variable) && weight.shape.size() == wanted.size()) {
      wanted[0] = weight.shape[0];  // an Embedding of any size fits
      weight.ids.resize(wanted[0]);
      std::iota(weight.ids.begin(), weight.ids.end(), 0);
    }
    if (weight.shape != wanted) {
      return Refused(absl::StrCat("weight ", number, " of layer ", layer, " has shape ",
                                  ShapeText(weight.shape), ", and the model's ", variable.name(),
                                  " is ", ShapeText(wanted)));
    }
    weights_.push_back(std::move(weight));
    return absl::OkStatus();
  }

  const std::string& path_;
  const Hdf5File& hdf5_;
  const bool partial_;
  std::map<std::string, std::vector<const VariableSpec*>> of_layer_;
  std::vector<KerasWeight> weights_;
};

// Returns the weights of an .h5 of before .keras, whose groups name each weight.
absl::StatusOr<std::vector<KerasWeight>> NamedWeights(const std::string& path, const Hdf5File& hdf5,
                                                      const std::string& root) {
  std::vector<KerasWeight> weights;
  ASSIGN_OR_RETURN(const std::vector<std::string> layers, hdf5.Names(root));
  for (const std::string& layer : layers) {
    const std::string group = absl::StrCat(root == "/" ? "" : root, "/", layer);
    ASSIGN_OR_RETURN(const std::vector<std::string> names, hdf5.Strings(group, "weight_names"));
    for (const std::string& name : names) {
      const std::string dataset = absl::StrCat(group, "/", name);
      ASSIGN_OR_RETURN(std::optional<Hdf5File::Numbers> read, hdf5.Read(dataset));
      if (!read.has_value()) {
        return absl::InvalidArgumentError(absl::StrCat(path, ": ", dataset, " is no array"));
      }
      weights.push_back({name, std::move(read->shape), std::move(read->values), {}});
    }
  }
  return weights;
}

absl::StatusOr<json> ParseModel(const std::string& path, const std::string& what,
                                const std::string& text) {
  absl::StatusOr<json> model = ParseJson(text, kMemberBytesMax, kDepthMax * 4);
  if (model.ok() && model->is_object()) return model;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": its ", what, model.ok() ? " is no object" : ": ",
                   model.ok() ? "" : std::string(model.status().message())));
}

// A file of weights that is in memory.
class MemoryReader final : public ReadFile {
 public:
  explicit MemoryReader(std::shared_ptr<const std::string> bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_->size(); }
  absl::Status ReadAt(uint64_t offset, std::span<char> out) const override {
    if (offset > bytes_->size() || out.size() > bytes_->size() - offset) {
      return absl::OutOfRangeError("the weights end before that");
    }
    bytes_->copy(out.data(), out.size(), offset);
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const std::string> bytes_;
};

// Files whose created file is kept in memory.
class MemoryWriter final : public PosixFiles {
 public:
  absl::StatusOr<std::unique_ptr<WriteFile>> Create(const std::string& /*path*/) override {
    return std::make_unique<Writer>(bytes_);
  }
  std::string TakeBytes() { return std::move(bytes_); }

 private:
  class Writer final : public WriteFile {
   public:
    explicit Writer(std::string& bytes) : bytes_(bytes) {}
    absl::Status Append(std::string_view bytes) override {
      bytes_.append(bytes);
      return absl::OkStatus();
    }
    absl::Status Sync() override { return absl::OkStatus(); }

   private:
    std::string& bytes_;
  };

  std::string bytes_;
};

// Returns the weights as a safetensors file.
absl::StatusOr<std::string> SafetensorsOf(std::span<const KerasWeight> weights) {
  std::vector<TensorInfo> infos;
  for (const KerasWeight& weight : weights) {
    const bool grows = !weight.ids.empty();
    if (grows) {
      infos.push_back(
          {.name = weight.variable + "/ids", .dtype = "I64", .shape = {weight.ids.size()}});
    }
    infos.push_back(
        {.name = weight.variable + (grows ? "/rows" : ""), .dtype = "F32", .shape = weight.shape});
  }
  MemoryWriter memory;
  ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsWriter> writer,
                   SafetensorsWriter::Create(memory, "/weights", std::move(infos), {}));
  for (const KerasWeight& weight : weights) {
    RETURN_IF_ERROR(writer->Append(std::string_view(
        reinterpret_cast<const char*>(weight.ids.data()), weight.ids.size() * sizeof(uint64_t))));
    RETURN_IF_ERROR(writer->Append(weight.values));
  }
  RETURN_IF_ERROR(writer->Finish());
  return memory.TakeBytes();
}

absl::StatusOr<std::string> ReadModel(Files& files, const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadFile> file, files.Open(path));
  ASSIGN_OR_RETURN(const std::string beginning, Beginning(*file));
  if (IsZip(beginning)) {
    ASSIGN_OR_RETURN(const std::vector<ZipMember> members, ReadZipDirectory(*file, path));
    ASSIGN_OR_RETURN(const std::string text, ReadMember(files, path, members, "config.json"));
    ASSIGN_OR_RETURN(json model, ParseModel(path, "config.json", text));
    RETURN_IF_ERROR(TakeVocabularies(files, path, members, model));
    return PythonTextOf(model);
  }
  ASSIGN_OR_RETURN(const Opened opened, OpenFile(files, path));
  ASSIGN_OR_RETURN(const std::vector<std::string> config,
                   opened.hdf5->Strings("/", "model_config"));
  if (config.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": holds weights and no model: name it in initial_weights, and give the "
                     "model as a .keras file or as what model.to_json() returns"));
  }
  RETURN_IF_ERROR(ParseModel(path, "model_config", config.front()).status());
  return config.front();
}

absl::StatusOr<std::vector<KerasWeight>> ReadWeightsOf(Files& files, const std::string& path,
                                                       std::span<const VariableSpec> variables,
                                                       bool partial) {
  ASSIGN_OR_RETURN(const Opened opened, OpenFile(files, path));
  for (const char* const root : {"/model_weights", "/"}) {
    const auto names = opened.hdf5->Strings(root, "layer_names");
    if (absl::IsNotFound(names.status())) continue;
    RETURN_IF_ERROR(names.status());
    if (!names->empty()) return NamedWeights(path, *opened.hdf5, root);
  }
  WeightWalk walk(path, *opened.hdf5, variables, partial);
  RETURN_IF_ERROR(walk.Take("/", {}, 0));
  return std::move(walk.weights());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReadFile>> WeightsInMemory::Open(const std::string& path) {
  if (path != path_) return PosixFiles::Open(path);
  return std::make_unique<MemoryReader>(weights_);
}

absl::StatusOr<std::string> KerasModelText(Files& files, const std::string& path) {
  return InChild(path, [&] { return ReadModel(files, path); });
}

absl::StatusOr<std::string> KerasWeights(Files& files, const std::string& path,
                                         std::span<const VariableSpec> variables, bool partial) {
  return InChild(path, [&]() -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(const std::vector<KerasWeight> weights,
                     ReadWeightsOf(files, path, variables, partial));
    return SafetensorsOf(weights);
  });
}

}  // namespace paracord
