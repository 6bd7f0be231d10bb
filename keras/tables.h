// Chooses the embeddings of a model that become tables: the rows alone that a batch reads travel.
// Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/job.h"
#include "config/json_fields.h"
#include "keras/json.h"
#include "proto/paracord.pb.h"

namespace paracord {

struct ChosenTable {
  TableSpec spec;
  uint64_t shards = 0;  // number of shards, if the table grows; 0: a fixed table
};
// Keyed by the index of the layer in ModelSpec::layers.
using TableLayers = std::map<size_t, ChosenTable>;

// Chooses according to the job's `tables`. The preprocessing layers of `model` must have been taken
// out, or marked as unknown. Problems name the key. `notes`, unless null, gets a line for each
// growing table, and for each large embedding that "auto" cannot make a table.
TableLayers ChooseTables(const Job& job, const ModelSpec& model, Problems& problems,
                         std::vector<std::string>* notes = nullptr);

// Returns the notes of ChooseTables for a job; none if the job's model cannot be read.
std::vector<std::string> TableNotes(const Job& job);

}  // namespace paracord
