// Describes the inputs of a Keras model, to compare them with columns of data. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keras/json.h"

namespace paracord {

// An input of a model, and what layers do with its numbers: the layers that read the input
// directly, and those behind layers that only move numbers (Concatenate, Flatten, Reshape).
struct InputLook {
  std::string name;
  std::string dtype;
  std::optional<size_t> numbers;  // how many numbers an example has; nullopt: any
  // Number of rows of the smallest Embedding that reads the input; nullopt: no Embedding reads it.
  std::optional<double> rows;
  bool looks_up = false;  // a layer takes the numbers as ids
  bool scaled = false;    // a layer normalizes, rescales or discretizes the numbers
  bool dense = false;     // a Dense multiplies the numbers
  // Names of the Embeddings that read the input directly, and that growing tables may replace.
  std::vector<std::string> tables;
};

std::vector<InputLook> LookAtInputs(const ModelSpec& model);

// Returns the name of the activation of the layer that computes output number `output` of the
// model, counted from 0; "" if the layer names none.
std::string LastActivation(const ModelSpec& model, size_t output);

}  // namespace paracord
