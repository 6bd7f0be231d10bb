// A file that Keras saved: a .keras archive (a model, its vocabularies and weights), a .weights.h5,
// or an .h5 of a whole model. The functions return the model's JSON, and the weights under the
// names of our variables. The file is read whole into memory by a child process (in_child.h).
// Blocking, in main's thread. Errors name the file.
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

// Returns the model in a file as model.to_json() would write it. A .keras archive has vocabularies
// that adapt() has learnt beside the model: puts them into their layers.
absl::StatusOr<std::string> KerasModelText(Files& files, const std::string& path);

// Returns the file's weights as the bytes of a safetensors file, under the names of the variables.
// A growing table gets a row for each row of its Embedding. States of optimizers and random
// generators are left out. If `variables` has no variable of a layer in the file, an error names
// the layer, or, if `partial`, the layer's weights are left out. If the shapes of a weight and its
// variable differ, an error names both shapes. In an .h5 of the format before .keras, weights have
// other names than variables: all of them are returned, under their own names and unchecked.
absl::StatusOr<std::string> KerasWeights(Files& files, const std::string& path,
                                         std::span<const VariableSpec> variables, bool partial);

// The files of this machine, but the contents of one path are in memory.
class WeightsInMemory final : public PosixFiles {
 public:
  WeightsInMemory(std::string path, std::string weights)
      : path_(std::move(path)), weights_(std::make_shared<const std::string>(std::move(weights))) {}
  absl::StatusOr<std::unique_ptr<ReadFile>> Open(const std::string& path) override;

 private:
  const std::string path_;
  const std::shared_ptr<const std::string> weights_;  // open files share it
};

}  // namespace paracord
