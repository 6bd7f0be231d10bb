// Reads the bytes as a file saved by Keras: directly, and as members of a valid archive. libhdf5's
// answers about the weights are also drawn from the bytes: in the product a child process contains
// the crashes of libhdf5 (cli/in_child.h), and this target tests what is made of its answers. An
// accepted model must be JSON, and weights a safetensors file of the variables.
#include <zlib.h>

#include <string>
#include <vector>

#include "cli/hdf5_file.h"
#include "cli/in_child.h"
#include "cli/keras_file.h"
#include "common/json_text.h"
#include "config/json_fields.h"
#include "storage/safetensors.h"
#include "tests/data/memory_files.h"
#include "tests/fuzz/input.h"

namespace paracord {
namespace {

fuzz::Input* answers = nullptr;  // the rest of the bytes

std::string Word(fuzz::Input& input) {
  constexpr const char* kWords[] = {"vars",
                                    "layers",
                                    "dense",
                                    "hidden",
                                    "table",
                                    "words",
                                    "0",
                                    "1",
                                    "2",
                                    "kernel",
                                    "layer",
                                    "optimizer",
                                    "_lookup_layer",
                                    "seed_generator",
                                    "dense/kernel:0",
                                    ""};
  const uint64_t which = input.Number(31);
  if (which < std::size(kWords)) return kWords[which];
  return std::string(input.Bytes(input.Number(12)));
}

template <class T>
absl::StatusOr<T> Answer(T answer) {
  switch (answers->Number(15)) {
    case 0:
      return absl::NotFoundError("no object");
    case 1:
      return absl::DataLossError("damaged");
    default:
      return answer;
  }
}

}  // namespace

absl::StatusOr<std::string> InChild(const std::string& /*file*/,
                                    const std::function<absl::StatusOr<std::string>()>& work) {
  return work();
}

absl::StatusOr<std::unique_ptr<Hdf5File>> Hdf5File::Open(std::string bytes, std::string name) {
  static const Hdf5Library kNone = {};
  return std::unique_ptr<Hdf5File>(new Hdf5File(kNone, std::move(name), 0, bytes.size()));
}
Hdf5File::~Hdf5File() = default;

absl::StatusOr<std::vector<std::string>> Hdf5File::Names(const std::string& /*group*/) const {
  std::vector<std::string> names(answers->Number(5));
  for (std::string& name : names) name = Word(*answers);
  return Answer(std::move(names));
}

absl::StatusOr<std::vector<std::string>> Hdf5File::Strings(const std::string& /*object*/,
                                                           const std::string& attribute) const {
  std::vector<std::string> strings(answers->Number(3));
  for (std::string& each : strings) {
    each = attribute == "model_config" ? std::string(answers->Bytes(answers->Number(2000)))
                                       : Word(*answers);
  }
  return Answer(std::move(strings));
}

absl::StatusOr<std::optional<Hdf5File::Numbers>> Hdf5File::Read(
    const std::string& /*dataset*/) const {
  Numbers numbers;
  uint64_t count = 1;
  for (uint64_t rank = answers->Number(3); rank > 0; --rank) {
    numbers.shape.push_back(answers->Number(4));
    count *= numbers.shape.back();
  }
  numbers.values.resize(count, 0.5f);
  const bool group = answers->Number(9) == 0;
  return Answer(group ? std::nullopt : std::optional(std::move(numbers)));
}

namespace fuzz {
namespace {

void AppendLittle(uint64_t value, int bytes, std::string& to) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i));
}

// An archive of uncompressed members (PKWARE's APPNOTE 4.3).
class Archive {
 public:
  void Add(const std::string& name, std::string_view bytes) {
    const auto crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
    std::string common(8, '\0');  // flags, stored, time
    AppendLittle(crc, 4, common);
    AppendLittle(bytes.size(), 4, common);
    AppendLittle(bytes.size(), 4, common);
    AppendLittle(name.size(), 2, common);
    AppendLittle(0, 2, common);
    AppendLittle(0x02014b50, 4, directory_);
    AppendLittle(20, 2, directory_);
    AppendLittle(20, 2, directory_);
    directory_ += common;
    directory_.append(10, '\0');
    AppendLittle(bytes_.size(), 4, directory_);
    directory_ += name;
    AppendLittle(0x04034b50, 4, bytes_);
    AppendLittle(20, 2, bytes_);
    bytes_.append(common).append(name).append(bytes);
    ++members_;
  }
  std::string Take() {
    const size_t at = bytes_.size();
    bytes_ += directory_;
    AppendLittle(0x06054b50, 4, bytes_);
    AppendLittle(0, 4, bytes_);
    AppendLittle(members_, 2, bytes_);
    AppendLittle(members_, 2, bytes_);
    AppendLittle(directory_.size(), 4, bytes_);
    AppendLittle(at, 4, bytes_);
    AppendLittle(0, 2, bytes_);
    return std::move(bytes_);
  }

 private:
  std::string bytes_, directory_;
  uint64_t members_ = 0;
};

std::string FileOf(Input& input) {
  switch (input.Number(3)) {
    case 0:
      return std::string(input.Bytes(input.Number(UINT16_MAX)));
    case 1:
      return "\x89HDF and the rest";
    default:
      break;
  }
  Archive archive;
  archive.Add("config.json", input.Bytes(input.Number(4000)));
  archive.Add("model.weights.h5", "\x89HDF and the rest");
  for (uint64_t assets = input.Number(2); assets > 0; --assets) {
    const std::string group = Word(input) + "/" + Word(input);
    archive.Add("assets/" + group + "/vocabulary.txt", input.Bytes(input.Number(60)));
  }
  return archive.Take();
}

std::vector<VariableSpec> Variables() {
  std::vector<VariableSpec> variables;
  const auto add = [&](const char* name, std::vector<uint64_t> shape) -> VariableSpec& {
    VariableSpec& variable = variables.emplace_back();
    variable.set_name(name);
    for (const uint64_t axis : shape) variable.add_shape(axis);
    return variable;
  };
  add("dense/kernel", {3, 2});
  add("dense/bias", {2});
  add("hidden/dense/kernel", {2});
  add("layer/scale", {});
  add("table/embeddings", {4, 2}).mutable_table()->set_kind(TableSpec::GROWING);
  return variables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const bool partial = input.Number(1) == 1;
  MemoryFiles files;
  files.contents["/m.keras"] = FileOf(input);
  Input left = input;
  answers = &left;
  const absl::StatusOr<std::string> model = KerasModelText(files, "/m.keras");
  if (model.ok()) Demand(ParseJson(*model, 1 << 30, 1000).ok(), "a model that is taken is JSON");
  left = input;
  static const std::vector<VariableSpec> kVariables = Variables();
  const absl::StatusOr<std::string> weights = KerasWeights(files, "/m.keras", kVariables, partial);
  if (!weights.ok()) return 0;
  files.contents["/w"] = *weights;
  Demand(SafetensorsFile::Open(files, "/w").ok(), "weights that are taken are safetensors");
  return 0;
}

}  // namespace fuzz
}  // namespace paracord
