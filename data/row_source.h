// What sources that decode one record after the other have in common: csv, tfrecord, text, images.
// A reader fills in the schema and says how a record becomes floats.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/data_source.h"

namespace paracord {

class RowSource : public DataSource {
 public:
  const Batch& schema() const override { return schema_; }
  absl::Status Read(std::span<const uint64_t> records, Batch& batch) const override;
  std::vector<std::string> Warnings() const override;

 protected:
  // Where the values of one record go: columns in the schema's order. Of an input of strings it is
  // `strings` that says where.
  struct Row {
    std::span<float*const> inputs, targets, weights;
    std::span<std::string* const> strings;
    // Large whole numbers of the inputs, each listed with its place in the record, in ascending
    // order of places.
    std::span<std::vector<ExactInteger>> exact;
  };
  // Fills all of them. Errors name file and record. Called by any thread.
  virtual absl::Status ReadRow(uint64_t record, const Row& row) const = 0;
  // The values of the first records, so that mistakes in the job are found when it starts; later
  // ones are found when they are read.
  absl::Status CheckFirst(uint64_t count = 1000) const;
  // Of each file of several: how many records it has. A file without any is a warning.
  void NoteFile(const std::string& path, uint64_t records) {
    if (records == 0) without_records_.push_back(path);
  }

  Batch schema_;

 private:
  std::vector<std::string> without_records_;
};

}  // namespace paracord
