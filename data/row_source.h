// The base of sources that decode record after record: csv, tfrecord, text, images. A reader fills
// in the schema and implements ReadRow, which converts a record to floats and strings.
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
  // Where the values of a record go: a pointer for each column in the schema's order. A string
  // input has its pointer in `strings`, and null in `inputs`.
  struct Row {
    std::span<float*const> inputs, targets, weights;
    std::span<std::string* const> strings;
    // The large whole numbers of each input, by element within the record, in ascending order.
    std::span<std::vector<ExactInteger>> exact;
  };
  // Writes all values of a record. Errors name file and record. Any thread.
  virtual absl::Status ReadRow(uint64_t record, const Row& row) const = 0;
  // Called before the files are opened: reads from the options how many bad records are tolerated.
  void Forgive(const DataSpec& spec);
  uint64_t bad_records() const { return bad_records_; }
  // Reads the first `count` records, to find mistakes in the job at its start; mistakes in later
  // records surface when they are read. Tolerates as many bad records as Forgive allows.
  absl::Status CheckFirst(uint64_t count = 1000) const;
  // Called for each file; Warnings tells of files without records.
  void NoteFile(const std::string& path, uint64_t records) {
    if (records == 0) without_records_.push_back(path);
  }

  Batch schema_;

 private:
  std::vector<std::string> without_records_;
  uint64_t bad_records_ = 0;
};

}  // namespace paracord
