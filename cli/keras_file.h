// A file that Keras saved: a .keras archive (its model, vocabularies and weights), a .weights.h5,
// or an .h5 of a whole model. It becomes a model's JSON and tensors with the names of our
// variables. Read whole into memory, by a child process (in_child.h); blocking, in main's thread.
// Errors name the file.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "proto/paracord.pb.h"

namespace paracord {

// Returns the model in a file as model.to_json() would write it, with the vocabularies learnt by
// adapt(), which Keras stores separately, put into their layers.
absl::StatusOr<std::string> KerasModelText(Files& files, const std::string& path);

// Returns the file's weights as a safetensors file in memory, under the names of the variables. A
// growing table gets a row for each id of the Embedding. States of optimizers and random generators
// are left out. If no variable takes the weights of a layer, an error names the layer, or, if
// `partial`, the weights are left out. If the shapes of a weight and its variable differ, an error
// names both shapes. The names in an .h5 of Keras 2 are not those of variables: all its weights are
// returned, under their own names and unchecked.
absl::StatusOr<std::string> KerasWeights(Files& files, const std::string& path,
                                         std::span<const VariableSpec> variables, bool partial);

// The files of this machine, with one path served from memory.
class WeightsInMemory final : public PosixFiles {
 public:
  WeightsInMemory(std::string path, std::string weights)
      : path_(std::move(path)), weights_(std::make_shared<const std::string>(std::move(weights))) {}
  absl::StatusOr<std::unique_ptr<ReadFile>> Open(const std::string& path) override;

 private:
  const std::string path_;
  const std::shared_ptr<const std::string> weights_;  // shared with open files
};

}  // namespace paracord
