// Describes the text of rows in a request to `paracord predict --serve`: the text is CSV with
// commas, double quotes and a header, even if the job's files have another dialect. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "config/job.h"

namespace paracord {

class RequestRows {
 public:
  // `files` describes the job's csv files. Without a header in them, the job may name the columns.
  explicit RequestRows(DataSpec files);

  // Returns the description of the rows in `text`, a request's text. If the files have no header,
  // and the job does not name their columns, the job numbers the columns. The columns of a request
  // are then found by their names in its header if all these names are numbers, else by their
  // places, counted from 0.
  const DataSpec& Of(std::string_view text) const;

 private:
  DataSpec rows_;
  // The description for a header with numbers alone; nullopt: the job's columns have names.
  std::optional<DataSpec> numbered_;
};

}  // namespace paracord
