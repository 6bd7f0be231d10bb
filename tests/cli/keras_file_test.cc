// Reads files saved by Keras 3.15 (tests/golden/make_keras_files.py), and refuses damaged ones.
#include "cli/keras_file.h"

#include <catch2/catch.hpp>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/hdf5_library.h"
#include "cli/in_child.h"
#include "cli/tensor_file.h"
#include "cli/user_job.h"
#include "config/json_fields.h"
#include "tests/cli/ran.h"
#include "tests/fakes.h"
#include "tests/sanitized.h"

namespace paracord {
namespace {

using nlohmann::json;

std::string Golden(const std::string& name) {
  return absl::StrCat(PARACORD_SOURCE_DIR, "/tests/golden/", name);
}

json ModelOf(const std::string& path) {
  PosixFiles files;
  const absl::StatusOr<std::string> text = KerasModelText(files, path);
  INFO(text.status().ToString());
  REQUIRE(text.ok());
  const absl::StatusOr<json> model = ParseJson(*text, 1 << 24, 200);
  REQUIRE(model.ok());
  return *model;
}

std::vector<VariableSpec> VariablesIn(const json& model) {
  Job job;
  job.model = model;
  const auto variables = VariablesOfModel(job);
  INFO(variables.status().ToString());
  REQUIRE(variables.ok());
  return *variables;
}

// Returns element 0 of a weight in the script's files. Each later element is greater by 1/1024.
float FirstOf(const std::string& path) {
  uint64_t value = 0;
  for (const char letter : path) value = (value * 31 + static_cast<unsigned char>(letter)) % 4093;
  return static_cast<float>(value) / 4096;
}

// Returns the weights read from a file, by name.
std::map<std::string, ReadTensor> WeightsOf(const std::string& path,
                                            const std::vector<VariableSpec>& variables) {
  PosixFiles files;
  const auto weights = KerasWeights(files, path, variables, /*partial=*/false);
  INFO(weights.status().ToString());
  REQUIRE(weights.ok());
  WeightsInMemory memory("/w", *weights);
  const auto tensors = ReadTensors(memory, "/w");
  REQUIRE(tensors.ok());
  std::map<std::string, ReadTensor> by_name;
  for (const ReadTensor& tensor : *tensors) by_name[tensor.name] = tensor;
  return by_name;
}

// Checks that each variable gets the script's numbers for the Keras weight of its name.
void CheckWeights(const std::string& path, const std::vector<VariableSpec>& variables) {
  const std::map<std::string, ReadTensor> by_name = WeightsOf(path, variables);
  for (const VariableSpec& variable : variables) {
    INFO(variable.name());
    REQUIRE(by_name.contains(variable.name()));
    const ReadTensor& weight = by_name.at(variable.name());
    CHECK(std::equal(weight.shape.begin(), weight.shape.end(), variable.shape().begin(),
                     variable.shape().end()));
    if (absl::StrContains(variable.name(), "norm/")) continue;
    const float first = FirstOf(variable.name());
    for (size_t i = 0; i < weight.values.size(); ++i) {
      REQUIRE(weight.values[i] == Approx(first + static_cast<float>(i) / 1024).epsilon(1e-6));
    }
  }
  CHECK(by_name.size() == variables.size());
}

json LayerOf(const json& model, const std::string& name) {
  for (const json& layer : model["config"]["layers"]) {
    if (layer["config"].value("name", "") == name) return layer["config"];
  }
  return nullptr;
}

TEST_CASE("weights of layers inside of layers become the variables that have their names") {
  const std::string path = Golden("keras_nested.keras");
  const std::vector<VariableSpec> variables = VariablesIn(ModelOf(path));
  CHECK(variables.size() == 24);
  CheckWeights(path, variables);
}

TEST_CASE("what adapt() learnt comes with the model: words into layers, statistics as weights") {
  const std::string path = Golden("keras_tabular.keras");
  const json model = ModelOf(path);
  CHECK(LayerOf(model, "city_words")["vocabulary"] ==
        json({"[UNK]", "Ulm", "K\xc3\xb6ln", "Bonn"}));
  CHECK(LayerOf(model, "masked")["vocabulary"] == json({"", "[UNK]", "[UNK]", "c", "a b"}));
  CHECK(LayerOf(model, "ids")["vocabulary"] == json({-1, 7, 123456789012, 5}));
  CHECK(LayerOf(model, "words")["vocabulary"] == json({"", "[UNK]", "the", "sat", "on", "mat"}));
  CHECK(model["compile_config"]["optimizer"]["config"]["learning_rate"] == 0.25);

  const std::vector<VariableSpec> variables = VariablesIn(model);
  CheckWeights(path, variables);
  const ReadTensor mean = WeightsOf(path, variables).at("norm/mean");
  CHECK(mean.values[0] == Approx(13.0 / 3));
  CHECK(mean.values[1] == Approx(8.0 / 3));
}

TEST_CASE("a vocabulary of a group without a layer is refused, and is no other layer's") {
  PosixFiles files;
  TestDirectory directory;
  const std::string good = *files.ReadWhole(Golden("keras_tabular.keras"));
  const std::string other = directory.Write(
      "other.keras", absl::StrReplaceAll(good, {{"assets/layers/", "assets/lawyer/"}}));
  CHECK(absl::StrContains(KerasModelText(files, other).status().message(),
                          "assets/lawyer/integer_lookup is the vocabulary of no layer"));
}

TEST_CASE("an .h5 of a whole model, and one of weights alone, are read") {
  const json model = ModelOf(Golden("keras_plain.h5"));
  const std::vector<VariableSpec> variables = VariablesIn(model);
  CheckWeights(Golden("keras_plain.weights.h5"), variables);

  // Names in the older format begin with the model's name, which initial_weights accepts.
  PosixFiles files;
  Job job;
  job.model = model;
  job.initial_weights.file = Golden("keras_plain.h5");
  const auto opened = OpenInitialWeights(files, job, variables);
  INFO(opened.status().ToString());
  REQUIRE(opened.ok());
  CHECK((*opened)->Drawn(variables).empty());

  const auto none = KerasModelText(files, Golden("keras_plain.weights.h5"));
  CHECK(absl::StrContains(none.status().message(), "holds weights and no model"));
}

TEST_CASE("a job of a file of Keras gets its weights as safetensors in its directory") {
  TestDirectory directory;
  PosixFiles files;
  Job job;
  job.model = ModelOf(Golden("keras_plain.h5"));
  job.initial_weights.file = Golden("keras_plain.h5");
  const auto placed = PlacedWeights::Read(files, job, /*resumes=*/false);
  INFO(placed.status().ToString());
  REQUIRE(placed.ok());
  REQUIRE(placed->Place(files, directory.path(), job).ok());
  CHECK(job.initial_weights.file == directory / "initial.safetensors");
  const std::vector<VariableSpec> variables = VariablesIn(job.model);
  const auto weights = InitialWeights::Open(files, job, variables);
  INFO(weights.status().ToString());
  REQUIRE(weights.ok());
  CHECK((*weights)->Drawn(variables).empty());

  // A resumed job reads its checkpoint and never opens the file.
  Job again = job;
  again.initial_weights.file = "/none/such.keras";
  const auto kept = PlacedWeights::Read(files, again, /*resumes=*/true);
  REQUIRE(kept.ok());
  REQUIRE(kept->Place(files, directory.path(), again).ok());
  CHECK(JobToJson(again) == JobToJson(job));
  again.initial_weights.file = "/none/such.keras";
  CHECK_FALSE(PlacedWeights::Read(files, again, false).ok());
}

TEST_CASE("a growing table gets a row for each id of the Embedding in the file") {
  const std::string path = Golden("keras_tabular.keras");
  std::vector<VariableSpec> variables = VariablesIn(ModelOf(path));
  VariableSpec& table = variables[0];
  REQUIRE(absl::StrContains(table.name(), "embedding"));
  table.mutable_table()->set_kind(TableSpec::GROWING);
  table.set_shape(0, 1 << 20);
  const auto weights = WeightsOf(path, variables);
  CHECK(weights.at(table.name() + "/ids").values == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(weights.at(table.name() + "/rows").shape == std::vector<uint64_t>{6, 2});
  CHECK_FALSE(weights.contains(table.name()));
}

TEST_CASE("weights that the model does not have are refused by the layer's name and the shapes") {
  const std::string path = Golden("keras_plain.weights.h5");
  std::vector<VariableSpec> variables = VariablesIn(ModelOf(Golden("keras_plain.h5")));
  PosixFiles files;
  variables[0].set_shape(0, 5);
  CHECK(KerasWeights(files, path, variables, false).status().message() ==
        path +
            ": weight 0 of layer second has shape (3, 2), and the model's second/kernel is "
            "(5, 2)");
  variables.erase(variables.begin(), variables.begin() + 2);
  CHECK(absl::StrContains(KerasWeights(files, path, variables, false).status().message(),
                          "holds weights of layer second, of which the model has none by that"));
  CHECK(KerasWeights(files, path, variables, /*partial=*/true).ok());
}

TEST_CASE("a file of Keras with bytes changed is an error or other numbers, and no crash") {
  PosixFiles files;
  TestDirectory directory;
  for (const char* const name : {"keras_plain.h5", "keras_plain.weights.h5"}) {
    const std::string good = *files.ReadWhole(Golden(name));
    const std::vector<VariableSpec> variables = VariablesIn(ModelOf(Golden("keras_plain.h5")));
    for (size_t at = 0; at < good.size(); at += UnderSanitizers(367, 61)) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 0xff);
      const std::string path = directory.Write("bad.h5", bad);
      static_cast<void>(KerasModelText(files, path));
      static_cast<void>(KerasWeights(files, path, variables, false));
    }
    const std::string cut = directory.Write("cut.h5", good.substr(0, good.size() / 2));
    CHECK_FALSE(KerasWeights(files, cut, variables, false).ok());
  }
  const std::string text = directory.Write("text.keras", "no zip at all");
  CHECK(absl::StrContains(KerasModelText(files, text).status().message(), "by its first bytes"));
}

TEST_CASE("a crash over a file is an error that names the file, and results arrive whole") {
  const auto crashed = InChild("m.keras", []() -> absl::StatusOr<std::string> { abort(); });
  CHECK(crashed.status().message() == "m.keras: is damaged: what reads it has crashed (signal 6)");
  const std::string large(3 << 20, 'x');
  CHECK(InChild("m", [&] { return absl::StatusOr<std::string>(large); }).value() == large);
  const absl::Status told = absl::NotFoundError("no such layer");
  CHECK(InChild("m", [&] { return absl::StatusOr<std::string>(told); }).status() == told);
}

TEST_CASE("without libhdf5 the error names the package that has it") {
  constexpr const char* kNone[] = {"libhdf5-none.so.1"};
  CHECK(absl::StrContains(OpenHdf5Library(kNone).status().message(), "libhdf5-103-1"));
}

TEST_CASE("validate takes a job whose model is a .keras file, with its weights") {
  TestDirectory directory;
  PosixFiles files;
  directory.Write("m.keras", *files.ReadWhole(Golden("keras_tabular.keras")));
  directory.Write("d.csv",
                  "city,kind,user,text,a,b,y\nUlm,c,7,the cat,1,2,0\nBonn,c,5,a mat,3,4,1\n");
  const std::string path = directory.Write("job.json", R"({"model": "m.keras", "data": {"train": {
      "format": "csv", "files": "d.csv", "label": "y", "features": [
      {"column": "city", "kind": "string", "input": "city"},
      {"column": "kind", "kind": "string", "input": "kind"},
      {"column": "user", "kind": "id", "input": "user"},
      {"column": "text", "kind": "string", "input": "text"},
      {"column": "a", "input": "numbers"}, {"column": "b", "input": "numbers"}]}}})");
  const Ran ran = Run(RunValidate, {path, "--batch"});
  CHECK(ran.code == 0);
  CHECK(ran.err.empty());
  CHECK(Has(ran.out, "norm/mean"));

  // A daemon reads job files without the command, and must give the same advice.
  Problems problems;
  ReadJobFile(files, path, {}, problems);
  CHECK(Has(std::string(problems.ToStatus().message()), "--out model.json --weights"));

  const Ran rendered = Run(RunRender, {"kubernetes", path});
  CHECK(rendered.code == 2);
  CHECK(Has(rendered.err, "pods read no file of Keras"));

  const Ran converted = Run(RunConvert, {directory / "m.keras", "--out", directory / "model.json",
                                         "--weights", directory / "w.safetensors"});
  CHECK(converted.code == 0);
  CHECK(Has(converted.out, "w.safetensors: the weights, for its key"));
  const Ran over = Run(RunConvert, {directory / "m.keras", "--out", directory / "m.keras"});
  CHECK(over.code == 2);
  CHECK(Has(over.err, "is read by this command"));
  const std::string other = directory.Write(
      "other.json", absl::StrReplaceAll(*files.ReadWhole(path),
                                        {{R"("m.keras")", R"("model.json", "initial_weights":
                                           "w.safetensors")"}}));
  const Ran again = Run(RunValidate, {other, "--batch"});
  // Compares all output except for the time of the batch, which follows its loss.
  CHECK(again.out.substr(0, again.out.rfind(", in ")) == ran.out.substr(0, ran.out.rfind(", in ")));
  CHECK(again.err == ran.err);
}

}  // namespace
}  // namespace paracord
