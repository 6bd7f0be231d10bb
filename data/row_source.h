// The base of sources that decode one record after the other: csv, tfrecord, text, images. A reader
// fills in the schema and implements ReadRow, which turns a record into floats.
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
  // Pointers to where the values of one record go, for each column in the schema's order. An input
  // of strings has its pointer in `strings`, and null in `inputs`.
  struct Row {
    std::span<float*const> inputs, targets, weights;
    std::span<std::string* const> strings;
    // The large whole numbers of each input, by element within the record, in ascending order.
    std::span<std::vector<ExactInteger>> exact;
  };
  // Writes all values of one record. Errors name file and record. Any thread.
  virtual absl::Status ReadRow(uint64_t record, const Row& row) const = 0;
  // Called before the files are opened: takes from the options how many bad records may pass.
  void Forgive(const DataSpec& spec);
  uint64_t bad_records() const { return bad_records_; }
  // Reads the first records, so that a mistake in the job is found when it starts; later ones are
  // found when they are read. As many bad ones as Forgive said pass.
  absl::Status CheckFirst(uint64_t count = 1000) const;
  // Notes a file's number of records, where a source has several files: an empty one is a warning.
  void NoteFile(const std::string& path, uint64_t records) {
    if (records == 0) without_records_.push_back(path);
  }

  Batch schema_;

 private:
  std::vector<std::string> without_records_;
  uint64_t bad_records_ = 0;
};

}  // namespace paracord
