// The files of a small job, for tests of `paracord validate` to change and check.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "tests/fakes.h"

namespace paracord {

// Three images of 2 x 2 bytes with labels as idx files, a model for them, and a job.
class ValidateExample {
 public:
  ValidateExample() {
    unsetenv("TF_CONFIG");
    Write("x", std::string("\0\0\x08\x03\0\0\0\x03\0\0\0\x02\0\0\0\x02", 16) + "abcdefghijkl");
    Write("y", std::string("\0\0\x08\x01\0\0\0\x03\0\x01\x02", 11));
    Write("model.json", R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [null, 2, 2], "name": "in"}},
        {"class_name": "Flatten", "config": {"name": "flatten"}},
        {"class_name": "Dense", "config": {"name": "dense", "units": 3,
                                           "activation": "softmax"}}]}})");
    Write("job.json", job);
  }

  std::string Write(const std::string& name, const std::string& text) const {
    return directory_.Write(name, text);
  }
  std::string path(const std::string& name) const { return directory_ / name; }
  // Runs `paracord validate` with the job file and further arguments.
  int Run(std::vector<std::string> args = {}) {
    args.insert(args.begin(), directory_ / "job.json");
    std::ostringstream out_stream, err_stream;
    const int code = RunValidate(args, out_stream, err_stream);
    out = out_stream.str();
    err = err_stream.str();
    INFO(out);
    INFO(err);
    return code;
  }

  std::string job = R"({"model": "model.json",
      "data": {"train": {"format": "idx", "features": "x", "labels": "y"}},
      "loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"], "optimizer": "adam",
      "partitioner": {"kind": "fixed_shards", "shards": 2}})";
  std::string out;
  std::string err;

 private:
  TestDirectory directory_;
};

}  // namespace paracord
