#include "cli/prediction_writer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "storage/safetensors.h"

namespace paracord {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

uint64_t NumbersOf(const Column& output) {
  uint64_t numbers = 1;
  for (const uint64_t axis : output.shape) numbers *= axis;
  return numbers;
}

// Whether an output of one element is written as a number instead of a list.
bool IsNumber(const Column& output) {
  return output.shape.empty() || (output.shape.size() == 1 && output.shape[0] == 1);
}

// Appends the shortest text that reads back as the same float32.
void AppendNumber(float value, std::string& text) {
  if (std::isnan(value)) return void(text += "nan");
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  text.append(digits, end);
}

// A field of RFC 4180.
void AppendField(std::string_view field, std::string& text) {
  if (field.find_first_of(",\"\r\n") == std::string_view::npos) return void(text += field);
  text += '"';
  for (const char c : field) {
    if (c == '"') text += '"';
    text += c;
  }
  text += '"';
}

class TextWriter : public PredictionWriter {
 public:
  TextWriter(PredictionTable table, std::unique_ptr<WriteFile> file)
      : table_(std::move(table)), file_(std::move(file)) {}

  absl::Status Add(std::span<const std::string> copied, std::span<const Column> outputs,
                   size_t records) override {
    const size_t each = table_.copied.size();
    for (size_t i = 0; i < records; ++i) {
      AddRecord(copied.subspan(i * each, each), outputs, i);
      if (buffer_.size() >= kBufferBytes) RETURN_IF_ERROR(Flush());
    }
    return table_.at_once ? Flush() : absl::OkStatus();
  }
  absl::Status End() override {
    RETURN_IF_ERROR(Flush());
    return file_->Sync();
  }

 protected:
  // Appends record `i` of the outputs to buffer_.
  virtual void AddRecord(std::span<const std::string> copied, std::span<const Column> outputs,
                         size_t i) = 0;

  const PredictionTable table_;
  std::string buffer_;

 private:
  absl::Status Flush() {
    const absl::Status written = file_->Append(buffer_);
    buffer_.clear();
    return written;
  }

  const std::unique_ptr<WriteFile> file_;
};

class CsvWriter : public TextWriter {
 public:
  CsvWriter(const PredictionTable& table, std::unique_ptr<WriteFile> file)
      : TextWriter(table, std::move(file)) {
    std::vector<std::string> names = table.copied;
    for (const Column& output : table.outputs) {
      const std::string name = PredictionName(output);
      for (uint64_t i = 0; i < NumbersOf(output); ++i) {
        names.push_back(IsNumber(output) ? name : absl::StrCat(name, ".", i));
      }
    }
    for (size_t i = 0; i < names.size(); ++i) {
      if (i > 0) buffer_ += ',';
      AppendField(names[i], buffer_);
    }
    buffer_ += '\n';
  }

 protected:
  void AddRecord(std::span<const std::string> copied, std::span<const Column> outputs,
                 size_t i) override {
    bool first = true;
    const auto next = [&] {
      if (!std::exchange(first, false)) buffer_ += ',';
    };
    for (const std::string& field : copied) next(), AppendField(field, buffer_);
    for (size_t k = 0; k < outputs.size(); ++k) {
      const uint64_t each = NumbersOf(table_.outputs[k]);
      for (const float value : std::span(outputs[k].values).subspan(i * each, each)) {
        next(), AppendNumber(value, buffer_);
      }
    }
    buffer_ += '\n';
  }
};

class JsonlWriter : public TextWriter {
 public:
  JsonlWriter(const PredictionTable& table, std::unique_ptr<WriteFile> file)
      : TextWriter(table, std::move(file)) {
    for (const std::string& name : table.copied) keys_.push_back(TextOf(nlohmann::json(name)));
    for (const Column& output : table.outputs) {
      keys_.push_back(TextOf(nlohmann::json(PredictionName(output))));
    }
  }

 protected:
  void AddRecord(std::span<const std::string> copied, std::span<const Column> outputs,
                 size_t i) override {
    for (size_t k = 0; k < copied.size(); ++k) {
      absl::StrAppend(&buffer_, k == 0 ? "{" : ", ", keys_[k], ": ",
                      TextOf(nlohmann::json(copied[k])));
    }
    for (size_t k = 0; k < outputs.size(); ++k) {
      const Column& output = table_.outputs[k];
      absl::StrAppend(&buffer_, copied.empty() && k == 0 ? "{" : ", ", keys_[copied.size() + k],
                      ": ");
      const uint64_t each = NumbersOf(output);
      const float* values = outputs[k].values.data() + i * each;
      AddAxes(values, IsNumber(output) ? std::span<const uint64_t>() : std::span(output.shape));
    }
    buffer_ += "}\n";
  }

 private:
  // Lists in lists, an axis each; JSON has no number that is not finite.
  void AddAxes(const float*& values, std::span<const uint64_t> axes) {
    if (axes.empty()) {
      const float value = *values++;
      if (!std::isfinite(value)) return void(buffer_ += "null");
      return AppendNumber(value, buffer_);
    }
    buffer_ += '[';
    for (uint64_t i = 0; i < axes[0]; ++i) {
      if (i > 0) buffer_ += ", ";
      AddAxes(values, axes.subspan(1));
    }
    buffer_ += ']';
  }

  std::vector<std::string> keys_;
};

class NpyWriter : public PredictionWriter {
 public:
  NpyWriter(const PredictionTable& table, std::vector<std::unique_ptr<WriteFile>> files)
      : files_(std::move(files)) {
    for (const Column& output : table.outputs) {
      each_.push_back(NumbersOf(output));
      std::vector<uint64_t> shape = {table.records};
      shape.insert(shape.end(), output.shape.begin(), output.shape.end());
      buffers_.push_back(HeaderOf(shape));
    }
  }

  absl::Status Add(std::span<const std::string> /*copied*/, std::span<const Column> outputs,
                   size_t records) override {
    for (size_t k = 0; k < outputs.size(); ++k) {
      buffers_[k].append(reinterpret_cast<const char*>(outputs[k].values.data()),
                         records * each_[k] * sizeof(float));
      if (buffers_[k].size() < kBufferBytes) continue;
      RETURN_IF_ERROR(files_[k]->Append(buffers_[k]));
      buffers_[k].clear();
    }
    return absl::OkStatus();
  }
  absl::Status End() override {
    for (size_t k = 0; k < files_.size(); ++k) {
      RETURN_IF_ERROR(files_[k]->Append(buffers_[k]));
      RETURN_IF_ERROR(files_[k]->Sync());
    }
    return absl::OkStatus();
  }

 private:
  // Version 1.0 of numpy/lib/format.py: magic, the length of the header, and a dict that is filled
  // up to a multiple of 64 bytes.
  static std::string HeaderOf(const std::vector<uint64_t>& shape) {
    std::string dict =
        absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': (",
                     absl::StrJoin(shape, ", "), shape.size() == 1 ? ",), }" : "), }");
    constexpr size_t kBefore = 10;
    dict.append(63 - (kBefore + dict.size()) % 64, ' ');
    dict += '\n';
    std::string header("\x93NUMPY\x01\x00", 8);
    header += static_cast<char>(dict.size() & 0xff);
    header += static_cast<char>(dict.size() >> 8);
    return header + dict;
  }

  const std::vector<std::unique_ptr<WriteFile>> files_;
  std::vector<uint64_t> each_;
  std::vector<std::string> buffers_;
};

absl::Status CheckTable(const PredictionTable& table) {
  for (const Column& output : table.outputs) {
    if (output.shape.size() <= 1 && NumbersOf(output) <= kCsvNumbersMax) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--out: output \"", PredictionName(output), "\" has the shape ", ShapeText(output.shape),
        ", and a CSV has a column for each number of a list, up to ", kCsvNumbersMax,
        ": write .npy or .jsonl"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string PredictionName(const Column& output) {
  return output.name.empty() ? "prediction" : output.name;
}

absl::StatusOr<std::unique_ptr<PredictionWriter>> MakePredictionWriter(
    PredictionFormat format, const PredictionTable& table, const OpenPredictionFn& open) {
  if (format == PredictionFormat::kCsv) RETURN_IF_ERROR(CheckTable(table));
  if (format != PredictionFormat::kNpy) {
    ASSIGN_OR_RETURN(std::unique_ptr<WriteFile> file, open(""));
    if (format == PredictionFormat::kCsv) {
      return std::make_unique<CsvWriter>(table, std::move(file));
    }
    return std::make_unique<JsonlWriter>(table, std::move(file));
  }
  if (!table.copied.empty()) {
    return absl::InvalidArgumentError(
        "--columns: .npy holds numbers alone, in the order of the input: write .csv or .jsonl");
  }
  std::vector<std::unique_ptr<WriteFile>> files;
  for (const Column& output : table.outputs) {
    const bool one = table.outputs.size() == 1;
    ASSIGN_OR_RETURN(files.emplace_back(), open(one ? "" : PredictionName(output)));
  }
  return std::make_unique<NpyWriter>(table, std::move(files));
}

}  // namespace paracord
