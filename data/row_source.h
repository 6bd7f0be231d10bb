// The base class of sources that read one record after another: csv, tfrecord, text, images. A
// reader fills schema_, and implements ReadRow, which converts a record to floats and strings.
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
  // Where the values of a record go: for each Column a pointer, in the schema's order. A string
  // input has its pointer in `strings`, and null in `inputs`.
  struct Row {
    std::span<float*const> inputs, targets, weights;
    std::span<std::string* const> strings;
    // The large whole numbers of each input, by ascending index in the record.
    std::span<std::vector<ExactInteger>> exact;
  };
  // Writes all values of a record. An error names file and record. Any thread.
  virtual absl::Status ReadRow(uint64_t record, const Row& row) const = 0;
  // To be called before the files are opened: reads from the job how many bad records are allowed.
  void Forgive(const DataSpec& spec);
  uint64_t bad_records() const { return bad_records_; }
  // Reads the first `count` records, so that mistakes in the job are found at the start. Mistakes
  // in later records are found when they are read. Returns an error if more records are bad than
  // Forgive allows.
  absl::Status CheckFirst(uint64_t count = 1000) const;
  // To be called for each file. Warnings() names a file without records.
  void NoteFile(const std::string& path, uint64_t records) {
    if (records == 0) without_records_.push_back(path);
  }

  Batch schema_;

 private:
  std::vector<std::string> without_records_;
  uint64_t bad_records_ = 0;
};

}  // namespace paracord
