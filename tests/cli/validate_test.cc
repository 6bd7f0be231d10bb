// Tests `paracord validate` on small files: the output for a good job, and the complete list of a
// bad job's problems.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/commands.h"
#include "cli/plan.h"
#include "common/human_bytes.h"
#include "tests/cli/validate_example.h"
#include "tests/example_job.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

TEST_CASE("validate prints cluster, variables, partitions and bytes of a good job") {
  ValidateExample example;
  const std::string cluster =
      example.Write("cluster.json",
                    R"({"cluster": {"chief": ["c:1"], "ps": ["p:1", "p:2"], "worker": ["w:1"]}})");
  CHECK(example.Run({"--cluster", cluster}) == 0);
  CHECK(example.err.empty());
  CHECK(
      example.out ==
      "cluster:\n"
      "  coordinator    c:1\n"
      "  ps:0           p:1\n"
      "  ps:1           p:2\n"
      "  worker:0       w:1\n"
      "data.train: 3 records (idx)\n"
      "layer              shape    parameters     multiply-adds         bytes\n"
      "flatten (Flatten)  (4,)              0                 0             0\n"
      "dense (Dense)      (3,)             15                15            24\n"
      "all, of one example                   15                15            24\n"
      "memory for batches of 64: 3.6 KiB (parameters and their gradients 120 B, the batch 1.2 KiB, "
      "outputs of layers 1.5 KiB, gradients between layers 768 B)\n"
      "variables: 2, 15 values, 60 B\n"
      "  dense/kernel  (4, 3)        48 B  2 parts\n"
      "  dense/bias    (3)           12 B  2 parts\n"
      "partitions: 4 on 2 ps (fixed_shards 2; greedy)\n"
      "  ps:0  32 bytes, 96 with optimizer state, 2 partitions: "
      "dense/kernel/part_0, dense/bias/part_0\n"
      "  ps:1  28 bytes, 84 with optimizer state, 2 partitions: "
      "dense/kernel/part_1, dense/bias/part_1\n"
      "imbalance (largest / mean): 1.067\n"
      "step: waves x (compute + exchange). compute = 30 multiply-adds x 64 examples / speed; "
      "exchange = 2 x 60 B / bandwidth + trips x latency + update. `paracord train` measures both "
      "and predicts the other strategies\n"
      "checkpoints: a full one takes 180 B; at most 4 are on disk at once: 720 B\n");
}

TEST_CASE("validate opens data.predict without labels, and compares its inputs") {
  ValidateExample example;
  example.job.insert(example.job.find("\"labels\": \"y\"}") + 14,
                     R"(, "predict": {"features": "new"})");
  example.Write("job.json", example.job);
  example.Write("new", std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x02", 16) + "abcdefgh");
  CHECK(example.Run() == 0);
  CHECK(absl::StrContains(example.out, "data.predict: 2 records (idx)\n"));
  example.Write("new", std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x01", 16) + "abcd");
  CHECK(example.Run() == 2);
  CHECK(absl::StrContains(example.err, "data.predict: input is "));
}

TEST_CASE("of very many partitions only the first are printed") {
  Job job;
  job.partitioner.kind = PartitionerSpec::Kind::kFixedShards;
  job.partitioner.shards = 30;
  VariableSpec variable;
  variable.set_name("v");
  variable.add_shape(30);
  variable.set_trainable(true);
  std::ostringstream out;
  Problems warnings;
  REQUIRE(PrintPlan(job, {&variable, 1}, {}, 0, out, warnings).ok());
  CHECK(absl::StrContains(out.str(), "30 partitions: v/part_0, v/part_1,"));
  CHECK(absl::StrContains(out.str(), " v/part_19, ...\n"));
  CHECK(warnings.empty());
}

TEST_CASE("very many small partitions are warned of, and the code stays 0") {
  ValidateExample example;
  example.Write("model.json", R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [null, 2, 2], "name": "in"}},
        {"class_name": "Flatten", "config": {"name": "flatten"}},
        {"class_name": "Dense", "config": {"name": "dense", "units": 2000}}]}})");
  for (const char* shards : {"64", "1000000000"}) {
    CAPTURE(shards);
    example.Write("job.json",
                  absl::StrReplaceAll(example.job,
                                      {{"\"shards\": 2", absl::StrCat("\"shards\": ", shards)}}));
    CHECK(example.Run() == 0);
    INFO(example.err);
    CHECK(absl::StrContains(example.err,
                            "job.json: warning: partitioner: makes 2004 partitions of 19 B on "
                            "average") == (shards != std::string("64")));
  }
}

TEST_CASE("problems are printed after the plan, which may be long") {
  ValidateExample example;
  example.Write("job.json",
                absl::StrReplaceAll(example.job, {{"\"adam\"", "\"adam\", \"sed\": 1"},
                                                  {"\"y\"}}",
                                                   "\"y\"}, \"test\": {\"format\": \"idx\", "
                                                   "\"features\": \"none\", "
                                                   "\"labels\": \"none\"}}"}}));
  std::ostringstream both;
  CHECK(RunValidate(std::vector<std::string>{example.path("job.json")}, both, both) == 2);
  const std::string said = both.str();
  INFO(said);
  const size_t table = said.find("imbalance"), first = said.find("job.json: sed: unknown key");
  const size_t second = said.find("job.json: data.test: ");
  REQUIRE(said.ends_with("2 problems\n"));
  CHECK(table < first);
  CHECK(first < second);
  CHECK(second < said.size());
}

TEST_CASE("without a cluster the number of ps comes from the flag or TF_CONFIG") {
  ValidateExample example;
  CHECK(example.Run({"--ps=3"}) == 0);
  CHECK(absl::StrContains(example.out, "4 on 3 ps"));
  setenv("TF_CONFIG", R"({"cluster": {"ps": ["p:1"]}})", 1);
  CHECK(example.Run() == 0);
  CHECK(absl::StrContains(example.out, "4 on 1 ps"));
  unsetenv("TF_CONFIG");
}

TEST_CASE("every problem of job and cluster is printed, with where it is, and the code is 2") {
  ValidateExample example;
  example.Write("job.json", absl::StrReplaceAll(example.job, {{"\"adam\",",
                                                               "\"adam\", \"sed\": 1, "
                                                               "\"batch\": 0,"}}));
  const std::string cluster = example.Write("cluster.json", R"({"cluster": {"ps": ["p"]}})");
  CHECK(example.Run({"--cluster", cluster}) == 2);
  for (const char* expected : {"cluster.json: cluster.ps[0]: \"p\" has no port",
                               "job.json: sed: unknown key; did you mean `seed`?",
                               "job.json: batch: must be an integer", "3 problems"}) {
    INFO(example.err);
    CHECK(absl::StrContains(example.err, expected));
  }
}

TEST_CASE("problems of optimizer, data and model are found too") {
  ValidateExample example;
  const std::pair<std::pair<const char*, const char*>, const char*> cases[] = {
      {{"\"adam\"", "\"adamm\""}, "adamm"},
      {{"\"y\"", "\"none\""}, "none"},
      {{"[\"accuracy\"]", "[\"acuracy\"]"}, "acuracy"},
      {{"\"model.json\"", "\"missing.json\""}, "missing.json"},
  };
  for (const auto& [change, expected] : cases) {
    example.Write("job.json", absl::StrReplaceAll(example.job, {change}));
    CHECK(example.Run() == 2);
    CHECK(absl::StrContains(example.err, expected));
  }
  example.Write("job.json",
                absl::StrReplaceAll(example.job, {{"\"adam\"", "\"adamm\""},
                                                  {"[\"accuracy\"]", "[\"acuracy\", \"aucc\"]"}}));
  CHECK(example.Run() == 2);
  CHECK(absl::StrContains(example.err, "3 problems"));
}

TEST_CASE("problems of job file, model, losses and data hide none of each other") {
  ValidateExample example;
  const char* const kLayers = R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 3, 3], "name": "in"}},
      {"class_name": "Flaten", "config": {"name": "one"}},
      {"class_name": "Dense", "config": {"name": "two", "units": 0}},
      {"class_name": "Dense", "config": {"name": "three", "units": 3, "activation": "sofmax"}}]}})";
  example.Write("model.json", kLayers);
  const std::vector<std::string> always = {"job.json: layer \"one\" (Flaten)",
                                           "job.json: layer \"two\" (Dense): key \"units\"",
                                           "job.json: layer \"three\" (Dense): key \"activation\"",
                                           "job.json: metric \"acuracy\"",
                                           "job.json: sed: unknown key",
                                           "job.json: optimizer.name: ",
                                           "job.json: data.test: "};
  const auto check = [&](const char* features, const std::string& more) {
    example.Write("job.json",
                  absl::StrReplaceAll(example.job, {{"[\"accuracy\"]", "[\"acuracy\"]"},
                                                    {"\"adam\"", "\"adamm\", \"sed\": 1"},
                                                    {"\"x\"", features},
                                                    {"\"y\"}}",
                                                     "\"y\"}, \"test\": {\"format\": "
                                                     "\"idx\", \"features\": \"none\", "
                                                     "\"labels\": \"none\"}}"}}));
    CHECK(example.Run() == 2);
    INFO(example.err);
    for (const std::string& line : always) CHECK(absl::StrContains(example.err, line));
    CHECK(absl::StrContains(example.err, more));
    CHECK(absl::StrContains(example.err, "\n8 problems\n"));
  };
  check("\"x\"", "layer \"in\" (InputLayer): expects examples of shape (3, 3), but the data");
  check("\"missing\"", "job.json: data.train: ");
}

TEST_CASE("entries of a mix that are no sources are problems") {
  ValidateExample example;
  for (const char* entry : {"1", "null", "\"x\"", "{\"format\": 3}", "{\"mix\": [1]}"}) {
    example.Write("job.json",
                  absl::StrReplaceAll(example.job, {{R"({"format": "idx", "features": "x", )"
                                                     R"("labels": "y"})",
                                                     absl::StrCat("{\"mix\": [", entry, "]}")}}));
    CHECK(example.Run() == 2);
    INFO(example.err);
    CHECK(absl::StrContains(example.err, "data.train.mix[0]"));
  }
}

TEST_CASE("losses and metrics that could fit unknown shapes are no problem") {
  ValidateExample example;
  example.Write("model.json", R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 2, 2], "name": "in"}},
      {"class_name": "Flatten", "config": {"name": "flatten"}},
      {"class_name": "Dense", "config": {"name": "dense", "units": 1,
                                         "activation": "sigmoid"}}]}})");
  example.Write("job.json",
                absl::StrReplaceAll(example.job, {{"\"x\"", "\"missing\""},
                                                  {"\"sparse_categorical_crossentropy\"",
                                                   "\"binary_crossentropy\", \"class_weight\": "
                                                   "{\"0\": 1, \"1\": 3}"},
                                                  {"\"accuracy\"", "\"f1_score\""}}));
  CHECK(example.Run() == 2);
  INFO(example.err);
  CHECK(absl::StrContains(example.err, "data.train: "));
  CHECK(absl::StrContains(example.err, "\n1 problem\n"));
}

TEST_CASE("test data of another shape are found before the first evaluation") {
  ValidateExample example;
  example.Write(
      "wide", std::string("\0\0\x08\x03\0\0\0\x03\0\0\0\x02\0\0\0\x03", 16) + "abcdefghijklmnopqr");
  example.Write("job.json",
                absl::StrReplaceAll(example.job, {{"\"y\"}}",
                                                   "\"y\"}, \"test\": {\"format\": \"idx\", "
                                                   "\"features\": \"wide\", "
                                                   "\"labels\": \"y\"}}"}}));
  CHECK(example.Run() == 2);
  CHECK(absl::StrContains(example.err,
                          "job.json: data.test: input is numbers of shape (2, 3), that of "
                          "data.train numbers of shape (2, 2)"));
}

TEST_CASE("what job and data say reaches the terminal without control characters, and cut") {
  ValidateExample example;
  example.Write("x.csv", std::string(300000, '\0'));
  const std::string csv = R"("format": "csv", "features": ["e"], "files": ["x.csv"])";
  example.Write("job.json",
                absl::StrReplaceAll(example.job, {{R"("format": "idx", "features": "x")", csv},
                                                  {R"("labels": "y")", R"("label": "\u001b[31mk")"},
                                                  {"partitioner", "\\u001b[31mpart"}}));
  CHECK(example.Run() == 2);
  INFO(example.err);
  CHECK(absl::StrContains(example.err, "there is no column"));
  CHECK(example.err.size() < 20000);
  for (const char odd : {'\0', '\x1b'}) {
    CHECK(example.err.find(odd) == std::string::npos);
    CHECK(example.out.find(odd) == std::string::npos);
  }
  CHECK(absl::StrContains(example.err, "\\x1b[31mpart"));
}

TEST_CASE("settings that are probably mistakes are warned of, and the code stays 0") {
  ValidateExample example;
  CHECK(example.Run() == 0);
  CHECK(example.err.empty());
  example.Write("model.json",
                R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [8, 2, 2], "name": "in"}},
        {"class_name": "Flatten", "config": {"name": "flatten"}},
        {"class_name": "Normalization", "config": {"name": "adapted", "mean": null}},
        {"class_name": "Normalization", "config": {"name": "given", "mean": 1, "variance": 2}},
        {"class_name": "Dense", "config": {"name": "dense", "units": 3}}]}})");
  example.Write("job.json",
                absl::StrReplaceAll(example.job,
                                    {{"\"y\"", "\"y\", \"scale\": 0"},
                                     {"\"accuracy\"", "\"accuracy\", \"accuracy\""},
                                     {"\"adam\"",
                                      "{\"name\": \"adam\", \"learning_rate\": 0}, \"timeouts\": "
                                      "{\"worker_ms\": 1, \"ps_ms\": 99, \"start_s\": 300}"}}));
  CHECK(example.Run() == 0);
  const auto warning = [](const std::string& text) { return "job.json: warning: " + text; };
  for (const std::string& line :
       {warning("timeouts.worker_ms: is 1, less than 100: "), warning("timeouts.ps_ms: is 99"),
        warning("optimizer.learning_rate: is 0"),
        warning("data.train.scale: is 0: every feature becomes 0"),
        warning("metrics: has accuracy twice"),
        warning("layer \"in\" (InputLayer): key \"batch_shape\" is for batches of 8, but the "
                "job's batch is 64"),
        warning("layer \"adapted\" (Normalization): has mean 0 and variance 1: ")}) {
    INFO(example.err);
    CHECK(absl::StrContains(example.err, line));
  }
  CHECK_FALSE(absl::StrContains(example.err, "start_s"));
  CHECK_FALSE(absl::StrContains(example.err, "given"));
  CHECK_FALSE(absl::StrContains(example.err, "problem"));
}

TEST_CASE("a label outside of 0 to 1 is no label of a binary crossentropy, and doubted of others") {
  ValidateExample example;
  example.Write("model.json",
                R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [null, 2, 2], "name": "in"}},
        {"class_name": "Flatten", "config": {"name": "flatten"}},
        {"class_name": "Dense", "config": {"name": "dense", "units": 1,
                                           "activation": "sigmoid"}}]}})");
  const auto with_loss = [&](const std::string& loss) {
    example.Write("job.json",
                  absl::StrReplaceAll(example.job, {{"sparse_categorical_crossentropy", loss}}));
  };
  with_loss("binary_crossentropy");
  CHECK(example.Run() == 2);
  CHECK(absl::StrContains(example.err, "job.json: data.train: "));
  CHECK(absl::StrContains(example.err, "y row 2: label 2 is outside of 0 to 1"));
  with_loss("binary_focal_crossentropy");
  CHECK(example.Run() == 0);
  CHECK(absl::StrContains(example.err, "job.json: warning: data.train: "));
  CHECK(absl::StrContains(example.err, "y row 2: label 2 is outside of 0 to 1"));
  with_loss("mean_squared_error");
  CHECK(example.Run() == 0);
  CHECK(example.err.empty());
}

TEST_CASE("a number that is not finite is found in arrays of floats, with file and row") {
  ValidateExample example;
  // Three records of four floats, the last of which is infinite.
  std::string bytes("\x93NUMPY\x01\0\x40\0", 10);
  bytes += "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2, 2), }  \n";
  bytes.resize(10 + 0x40, ' ');
  bytes += std::string(44, '\0') + std::string("\0\0\x80\x7f", 4);
  example.Write("x.npy", bytes);
  example.Write(
      "job.json",
      absl::StrReplaceAll(example.job, {{R"("idx", "features": "x", "labels": "y")",
                                         R"("npy", "features": "x.npy", "labels": "l.npy")"}}));
  bytes = std::string("\x93NUMPY\x01\0\x40\0", 10);
  bytes += "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }       \n";
  bytes.resize(10 + 0x40, ' ');
  example.Write("l.npy", bytes + std::string("\0\x01\x02", 3));
  CHECK(example.Run() == 2);
  INFO(example.err);
  CHECK(absl::StrContains(example.err, "data.train: "));
  CHECK(absl::StrContains(example.err, "x.npy row 2, "));
  CHECK(absl::StrContains(example.err, "l.npy row 2: input is inf"));
  CHECK(absl::StrContains(example.err, "1 problem\n"));
}

TEST_CASE("validate tries a batch if it is told to") {
  ExampleJob example;
  const auto run = [&](const std::vector<std::string>& set) {
    std::vector<std::string> args = {"--batch", example.path("job.json")};
    for (const std::string& each : set) args.insert(args.end(), {"--set", each});
    std::ostringstream out, err;
    const int code = RunValidate(args, out, err);
    CHECK(code == (err.str().empty() ? 0 : 2));
    return out.str() + err.str();
  };
  CHECK(absl::StrContains(run({}), "tried a batch: 2 examples of data.train have the loss "));
  CHECK(absl::StrContains(run({}), " ms; 2 of data.test were scored\n"));
  example.Write("model.json", R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 2, 2], "name": "in"}},
      {"class_name": "Flatten", "config": {"name": "flatten"}},
      {"class_name": "Dense", "config": {"name": "dense", "units": 3, "kernel_initializer":
          {"class_name": "RandomNormal", "config": {"stddev": 1e30}}}}]}})");
  CHECK(absl::StrContains(run({"data.train.scale=1e30"}),
                          "job.json: data.train: the first batch: the loss is "));
}

TEST_CASE("an id outside of a table is one problem, which no batch is tried for again") {
  ValidateExample example;
  example.Write("model.json", R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 2, 2], "name": "in"}},
      {"class_name": "Embedding", "config": {"name": "e", "input_dim": 99, "output_dim": 1}},
      {"class_name": "Flatten", "config": {"name": "flatten"}},
      {"class_name": "Dense", "config": {"name": "dense", "units": 3,
                                         "activation": "softmax"}}]}})");
  for (const char* const table : {"", "\"tables\": {\"e\": {\"update\": \"lazy\"}}, "}) {
    example.Write("job.json", absl::StrReplaceAll(example.job,
                                                  {{"\"loss\"", absl::StrCat(table, "\"loss\"")}}));
    CHECK(example.Run({"--batch"}) == 2);
    CHECK(absl::StrContains(example.err,
                            "y row 0: id 99 is not in the model's embedding, 0 to 98\n"
                            "1 problem\n"));
  }
}

TEST_CASE("initial weights that are damaged or of another model are found") {
  ValidateExample example;
  const std::string weights = example.Write("w.safetensors", "no safetensors");
  example.Write(
      "job.json",
      absl::StrReplaceAll(example.job,
                          {{"\"adam\",", "\"adam\", \"initial_weights\": \"w.safetensors\","}}));
  CHECK(example.Run() == 2);
  CHECK(absl::StrContains(example.err, "job.json: initial_weights: "));
  CHECK(absl::StrContains(example.err, weights));
}

TEST_CASE(
    "initial weights of some layers are enough if the job says so, and the others are named") {
  ValidateExample example;
  const std::string header = R"({"dense/bias":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  example.Write("w.safetensors", bytes + header + std::string(12, '\0'));
  const auto with = [&](const std::string& weights) {
    example.Write(
        "job.json",
        absl::StrReplaceAll(example.job,
                            {{"\"adam\",", "\"adam\", \"initial_weights\": " + weights + ","}}));
  };
  with("\"w.safetensors\"");
  CHECK(example.Run() == 2);
  CHECK(absl::StrContains(example.err, "holds no tensor dense/kernel"));
  CHECK(absl::StrContains(example.err, "{\"file\": ..., \"partial\": true}"));
  with(R"({"file": "w.safetensors", "partial": true})");
  CHECK(example.Run() == 0);
  CHECK(absl::StrContains(
      example.out, "initial_weights: 1 of 2 variables are from the file; drawn: dense/kernel\n"));
}

TEST_CASE("a name that no variable can have in a checkpoint is found") {
  ValidateExample example;
  example.Write("model.json", R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, 2, 2], "name": "in"}},
      {"class_name": "Flatten", "config": {"name": "flatten"}},
      {"class_name": "Dense", "config": {"name": "a/.slot/b", "units": 3,
                                         "activation": "softmax"}}]}})");
  CHECK(example.Run() == 2);
  CHECK(absl::StrContains(example.err, "variable \"a/.slot/b/kernel\" is named like a slot"));
}

TEST_CASE("a shape of very many axes is named by the first of them") {
  ValidateExample example;
  std::string axes;
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&axes, ", 2");
  example.Write("model.json", absl::StrCat(
                                  R"({"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [null)",
                                  axes, R"(], "name": "in"}}]}})"));
  CHECK(example.Run() == 2);
  INFO(example.err);
  CHECK(absl::StrContains(example.err, "expects examples of shape (2, 2, 2, "));
  CHECK(absl::StrContains(example.err, ", 5000 axes)"));
  CHECK(example.err.size() < 2000);
}

TEST_CASE("data of as many numbers in another shape are refused with the layer that they need") {
  ValidateExample example;
  const std::string model = R"({"class_name": "Sequential", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"batch_shape": [null, SHAPE], "name": "in"}},
      {"class_name": "Dense", "config": {"name": "d", "units": 3, "activation": "softmax"}}]}})";
  const auto says = [&](const char* shape) {
    example.Write("model.json", absl::StrReplaceAll(model, {{"SHAPE", shape}}));
    CHECK(example.Run() == 2);
    return example.err;
  };
  CHECK(absl::StrContains(says("4"),
                          "expects examples of shape (4,), but the data has (2, 2); a model that "
                          "begins with Input((2, 2)) and Flatten() takes it\n"));
  CHECK(
      absl::StrContains(says("1, 4"), "begins with Input((2, 2)) and Reshape((1, 4)) takes it\n"));
  CHECK(absl::StrContains(says("5"), "but the data has (2, 2)\n"));
}

TEST_CASE("missing files and wrong flags are problems, help is not") {
  ValidateExample example;
  CHECK(example.Run({"--cluster", "/none/such"}) == 2);
  CHECK(absl::StrContains(example.err, "/none/such"));
  CHECK(example.Run({"--cluster", example.Write("empty", "{}")}) == 2);
  CHECK(absl::StrContains(example.err, "holds no cluster"));
  CHECK(example.Run({"--cluster", example.Write("broken", "{")}) == 2);
  CHECK(absl::StrContains(example.err, "broken: parse error"));
  CHECK(example.Run({"--clutser=x"}) == 2);
  CHECK(absl::StrContains(example.err, "did you mean `--cluster`?"));
  CHECK(example.Run({"--help"}) == 0);
  CHECK(absl::StartsWith(example.out, "usage: paracord validate JOB"));
}

TEST_CASE("bytes are shown in the unit that fits") {
  CHECK(HumanBytes(0) == "0 B");
  CHECK(HumanBytes(1023) == "1023 B");
  CHECK(HumanBytes(1536) == "1.5 KiB");
  CHECK(HumanBytes(uint64_t{1} << 63) == "8.0 EiB");
}

}  // namespace
}  // namespace paracord
