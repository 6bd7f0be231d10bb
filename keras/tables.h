// Chooses the Embeddings of a model that become tables: variables of which only the rows read by a
// batch travel. Pure.
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
  uint64_t shards = 0;  // for a growing table
};
// By the index of the layer in the model.
using TableLayers = std::map<size_t, ChosenTable>;

// Chooses according to the job's `tables`, in a model without its preprocessing layers (nodes
// marked as unknown count as inputs). Problems name the key. `notes` gets a line for each growing
// table, and for each Embedding that moves whole although `auto` prefers rows.
TableLayers ChooseTables(const Job& job, const ModelSpec& model, Problems& problems,
                         std::vector<std::string>* notes = nullptr);

// The notes for a job, for people; none if its model is unreadable.
std::vector<std::string> TableNotes(const Job& job);

}  // namespace paracord
