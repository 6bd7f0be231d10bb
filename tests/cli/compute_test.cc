// Tests `paracord compute` on a model with a known answer, and on wrong inputs.
#include <signal.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>
#include <vector>

#include "cli/commands.h"
#include "cli/tensor_file.h"
#include "common/json_text.h"
#include "nlohmann/json.hpp"
#include "tests/example_job.h"

namespace paracord {
namespace {

using nlohmann::json;

struct FileTensor {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  std::string bytes;
};

template <class T>
FileTensor Raw(const std::string& name, const std::string& dtype, std::vector<uint64_t> shape,
               const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return {name, dtype, std::move(shape), bytes};
}

std::string FileOf(const std::vector<FileTensor>& tensors) {
  json header = json::object();
  std::string data;
  for (const FileTensor& tensor : tensors) {
    const size_t begin = data.size();
    data += tensor.bytes;
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = TextOf(header);
  std::string file(8, '\0');
  const uint64_t length = text.size();
  std::memcpy(file.data(), &length, 8);
  return file + text + data;
}

// A linear model with two inputs, one output, mean squared error, and plain SGD of rate 0.1.
struct Linear {
  Linear() {
    example.Write("linear.json", R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "in"}},
        {"class_name": "Dense", "config": {"name": "d", "units": 1}}]},
        "compile_config": {"loss": "mse", "optimizer": {"class_name": "SGD",
            "config": {"name": "sgd", "learning_rate": 0.1}}}})");
    example.Write("w", FileOf(weights));
    example.Write("b", FileOf(batch));
  }
  int Run(std::vector<std::string> more = {}) {
    std::vector<std::string> args = {
        example.path("linear.json"), "--weights", example.path("w"), "--batch",
        example.path("b"),           "--out",     example.path("o")};
    args.insert(args.end(), more.begin(), more.end());
    std::ostringstream out_stream, err_stream;
    const int code = RunCompute(args, out_stream, err_stream);
    out = out_stream.str();
    err = err_stream.str();
    UNSCOPED_INFO(err);
    return code;
  }
  std::vector<float> Result(const std::string& name, const std::vector<uint64_t>& shape) {
    const auto tensors = ReadTensors(example.files, example.path("o"));
    REQUIRE(tensors.ok());
    for (const ReadTensor& tensor : *tensors) {
      if (tensor.name != name) continue;
      CHECK(tensor.shape == shape);
      return tensor.values;
    }
    FAIL("no tensor " << name);
    return {};
  }

  ExampleJob example;
  std::vector<FileTensor> weights = {Raw<float>("d/kernel", "F32", {2, 1}, {1, 2}),
                                     Raw<float>("d/bias", "F32", {1}, {0.5})};
  std::vector<FileTensor> batch = {Raw<float>("inputs/in", "F32", {2, 2}, {1, 0, 0, 1}),
                                   Raw<float>("targets", "F32", {2, 1}, {0, 0})};
  std::string out, err;
};

TEST_CASE("compute gives output, losses, gradients and the variables after the steps") {
  Linear linear;
  REQUIRE(linear.Run({"--steps=1"}) == 0);
  // The outputs are 1.5 and 2.5. The loss is the mean of their squares, so its gradient by an
  // output is the output.
  CHECK(linear.Result("output", {2, 1}) == std::vector<float>{1.5, 2.5});
  CHECK(linear.Result("loss", {})[0] == Approx(4.25));
  CHECK(linear.Result("gradients/d/kernel", {2, 1}) == std::vector<float>{1.5, 2.5});
  CHECK(linear.Result("gradients/d/bias", {1}) == std::vector<float>{4});
  const std::vector<float> after = linear.Result("after/d/kernel", {2, 1});
  CHECK(after[0] == Approx(0.85));
  CHECK(after[1] == Approx(1.75));
  CHECK(linear.Result("after/d/bias", {1})[0] == Approx(0.1));
  const std::vector<float> losses = linear.Result("losses", {2});
  CHECK(losses[0] == Approx(4.25));
  CHECK(losses[1] == Approx((0.95 * 0.95 + 1.85 * 1.85) / 2));
}

TEST_CASE("three steps are the default, and none are allowed") {
  Linear linear;
  REQUIRE(linear.Run() == 0);
  CHECK(linear.Result("losses", {4})[3] < 2);
  REQUIRE(linear.Run({"--steps=0"}) == 0);
  CHECK(linear.Result("after/d/kernel", {2, 1}) == std::vector<float>{1, 2});
}

TEST_CASE("integers are taken as inputs and targets") {
  Linear linear;
  const std::vector<std::vector<FileTensor>> batches = {
      {Raw<int32_t>("inputs/in", "I32", {2, 2}, {1, 0, 0, 1}),
       Raw<int64_t>("targets", "I64", {2, 1}, {0, 0})},
      {Raw<uint8_t>("inputs/in", "U8", {2, 2}, {1, 0, 0, 1}),
       Raw<float>("targets/d", "F32", {2, 1}, {0, 0})}};
  for (const std::vector<FileTensor>& batch : batches) {
    linear.example.Write("b", FileOf(batch));
    REQUIRE(linear.Run({"--steps=0"}) == 0);
    CHECK(linear.Result("output", {2, 1}) == std::vector<float>{1.5, 2.5});
  }
}

TEST_CASE("a job gives loss and optimizer in place of compile_config") {
  Linear linear;
  linear.example.Write("job.json", R"({"model": "linear.json", "loss": "mae", "metrics": [],
      "data": {"train": {"format": "idx", "features": "x", "labels": "y"}},
      "optimizer": {"name": "sgd", "learning_rate": 1.0}})");
  REQUIRE(linear.Run({"--steps=1", "--job", linear.example.path("job.json")}) == 0);
  CHECK(linear.Result("loss", {})[0] == Approx(2));
  CHECK(linear.Result("after/d/kernel", {2, 1}) == std::vector<float>{0.5, 1.5});
}

TEST_CASE("gradients are shown as they are and clipped by norm for the steps") {
  Linear linear;
  std::string model = *linear.example.files.ReadWhole(linear.example.path("linear.json"));
  model.insert(model.find("\"learning_rate\""), "\"clipnorm\": 0.5, ");
  linear.example.Write("linear.json", model);
  REQUIRE(linear.Run({"--steps=1"}) == 0);
  CHECK(linear.Result("gradients/d/bias", {1}) == std::vector<float>{4});
  CHECK(linear.Result("after/d/bias", {1})[0] == Approx(0.45));
}

TEST_CASE("compute refuses a batch or weights that do not fit, naming the tensor") {
  const FileTensor x = Raw<float>("inputs/in", "F32", {2, 2}, {1, 0, 0, 1});
  const FileTensor y = Raw<float>("targets", "F32", {2, 1}, {0, 0});
  const std::pair<std::vector<FileTensor>, const char*> batches[] = {
      {{x}, "no tensor targets"},
      {{y}, "no tensor inputs/<name>"},
      {{x, y, Raw<float>("extra", "F32", {2}, {0, 0})},
       "extra is none of inputs/<input layer>, targets"},
      {{x, Raw<float>("targets", "F32", {1, 1}, {0})}, "targets has 1 examples"},
      {{x, Raw<float>("targets", "F32", {}, {0})}, "targets has no examples"},
      {{x, Raw<float>("targets", "F32", {0, 1}, {})}, "targets has no examples"},
      {{x, Raw<double>("targets", "C64", {2, 1}, {0, 0})}, "targets is C64, which is no number"},
      {{x, Raw<int64_t>("targets", "I64", {2, 1}, {0, int64_t{1} << 40})}, "beyond 2^24"},
      {{x, y, Raw<float>("targets/b", "F32", {2, 1}, {0, 0})},
       "the data has no targets of that name"},
      {{Raw<float>("inputs/in", "F32", {2, 3}, {1, 0, 0, 1, 0, 0}), y},
       "layer \"in\" (InputLayer): expects examples of shape (2,)"},
  };
  for (const auto& [batch, expected] : batches) {
    Linear linear;
    linear.example.Write("b", FileOf(batch));
    INFO(expected);
    CHECK(linear.Run() == 2);
    INFO(linear.err);
    CHECK(linear.err.find(expected) != std::string::npos);
  }
  const FileTensor kernel = Raw<float>("d/kernel", "F32", {2, 1}, {1, 2});
  const std::pair<std::vector<FileTensor>, const char*> weights[] = {
      {{kernel}, "holds no tensor d/bias"},
      {{kernel, Raw<float>("d/bais", "F32", {1}, {0})}, "did you mean `d/bais`?"},
      {{kernel, Raw<float>("d/bias", "F32", {2}, {0, 0})}, "d/bias has shape (2), the model's"},
  };
  for (const auto& [tensors, expected] : weights) {
    Linear linear;
    linear.example.Write("w", FileOf(tensors));
    INFO(expected);
    CHECK(linear.Run() == 2);
    INFO(linear.err);
    CHECK(linear.err.find(expected) != std::string::npos);
  }
}

TEST_CASE("files cut short anywhere are errors that name the file") {
  Linear linear;
  for (const char* name : {"w", "b"}) {
    const std::string good = *linear.example.files.ReadWhole(linear.example.path(name));
    for (size_t at = 0; at < good.size(); at += 3) {
      linear.example.Write(name, good.substr(0, at));
      CHECK(linear.Run() == 2);
      CHECK(linear.err.find(linear.example.path(name)) != std::string::npos);
    }
    linear.example.Write(name, good);
  }
}

TEST_CASE("compute falls back to the CPU if the GPU cannot be used, and says so") {
  Linear linear;
  setenv("PARACORD_CUDA_PLUGIN", PARACORD_BIN_DIR "/fake_plugins/libtwo.so", 1);
  const int automatic = linear.Run();
  const std::string said = linear.err;
  const int named = linear.Run({"--device=cuda:1"});
  unsetenv("PARACORD_CUDA_PLUGIN");
  const std::string why = " cannot be used: cuBLAS is missing: no such file\n";
  CHECK(automatic == 0);
  CHECK(said == "paracord compute: computing on the CPU: cuda:0" + why);
  CHECK(named == 2);
  CHECK(linear.err == "paracord compute: cuda:1" + why);
}

TEST_CASE(
    "compute refuses wrong arguments, a model that is not compiled, and results that are not "
    "finite") {
  Linear linear;
  CHECK(linear.Run({"--device=cuda:99"}) == 2);
  CHECK(linear.err.find("--device cuda:99") != std::string::npos);
  CHECK(linear.Run({"--steps=-1"}) == 2);
  CHECK(linear.Run({"--help"}) == 0);
  std::ostringstream out, err;
  CHECK(RunCompute(std::vector<std::string>{"m.json"}, out, err) == 2);

  linear.example.Write("b", FileOf({Raw<float>("inputs/in", "F32", {2, 2}, {INFINITY, 0, 0, 1}),
                                    Raw<float>("targets", "F32", {2, 1}, {0, 0})}));
  CHECK(linear.Run() == 6);
  linear.example.Write("linear.json",
                       *linear.example.files.ReadWhole(linear.example.path("model.json")));
  CHECK(linear.Run() == 2);
  CHECK(linear.err.find("compile_config gives no loss") != std::string::npos);
}

TEST_CASE("compute does not overwrite its inputs") {
  for (const char* input : {"w", "b", "linear.json"}) {
    Linear linear;
    std::filesystem::create_symlink(linear.example.path(input), linear.example.path("o"));
    CHECK(linear.Run() == 2);
    CHECK(linear.err.find("--out: ") != std::string::npos);
    CHECK(linear.err.find(" is read by this command") != std::string::npos);
    CHECK(std::filesystem::is_symlink(linear.example.path("o")));
  }
}

TEST_CASE("compute does not report results that cannot be written as divergence") {
  Linear linear;
  rlimit before = {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small = {64, before.rlim_max};
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const int code = linear.Run();
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  signal(SIGXFSZ, handler);
  CHECK(code == 2);
  CHECK(linear.err.find("cannot write " + linear.example.path("o")) != std::string::npos);
}

TEST_CASE("compute reads the rows of a growing table, and draws those that the file lacks") {
  ExampleJob example;
  example.Write("model.json", R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
      {"class_name": "InputLayer",
       "config": {"batch_shape": [null, 1], "name": "in", "dtype": "int64"}},
      {"class_name": "Embedding", "config": {"name": "user", "input_dim": 1, "output_dim": 2,
          "embeddings_initializer": "ones"}},
      {"class_name": "Flatten", "config": {"name": "all"}}]}})");
  json job = JsonOf(example.files.ReadWhole(example.path("job.json")).value());
  job["model"] = "model.json";
  job["loss"] = "mean_squared_error";
  job["metrics"] = json::array();
  job["optimizer"] = {{"name", "sgd"}, {"learning_rate", 0.5}};
  job["tables"] = {{"user", {{"kind", "growing"}}}};
  example.Write("growing.json", TextOf(job));
  example.Write("w", FileOf({Raw<int64_t>("user/embeddings/ids", "I64", {2}, {7, -3}),
                             Raw<float>("user/embeddings/rows", "F32", {2, 2}, {1, 2, 3, 4})}));
  example.Write("b", FileOf({Raw<int64_t>("inputs/in", "I64", {2, 1}, {-3, int64_t{1} << 40}),
                             Raw<float>("targets", "F32", {2, 2}, {0, 0, 0, 0})}));
  const std::vector<std::string> args = {example.path("model.json"),
                                         "--job",
                                         example.path("growing.json"),
                                         "--weights",
                                         example.path("w"),
                                         "--batch",
                                         example.path("b"),
                                         "--out",
                                         example.path("o"),
                                         "--steps=1"};
  std::ostringstream out, err;
  const int code = RunCompute(args, out, err);
  INFO(err.str());
  REQUIRE(code == 0);
  const auto tensors = ReadTensors(example.files, example.path("o"), [](const std::string& name) {
    return name.starts_with("ids/") ? TensorForm::kWhole : TensorForm::kNumbers;
  });
  REQUIRE(tensors.ok());
  std::map<std::string, std::vector<float>> found;
  std::vector<int64_t> ids;
  for (const ReadTensor& tensor : *tensors) {
    found[tensor.name] = tensor.values;
    if (tensor.name != "ids/user/embeddings") continue;
    const Column column{.name = "", .shape = {}, .values = tensor.values, .exact = tensor.exact};
    CHECK_FALSE(WholeNumbers(column, ids).has_value());
  }
  CHECK(found["output"] == std::vector<float>{3, 4, 1, 1});
  // The gradient is half of the output, so the step is a quarter of the row.
  std::map<int64_t, std::vector<float>> after;
  const std::vector<float>& values = found["after/user/embeddings"];
  REQUIRE(values.size() == 2 * ids.size());
  for (size_t i = 0; i < ids.size(); ++i) after[ids[i]] = {values[2 * i], values[2 * i + 1]};
  CHECK(after == std::map<int64_t, std::vector<float>>{{-3, {2.25f, 3.0f}},
                                                       {int64_t{1} << 40, {0.75f, 0.75f}}});
}

}  // namespace
}  // namespace paracord
