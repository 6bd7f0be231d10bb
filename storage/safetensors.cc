#include "storage/safetensors.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/file_kind.h"
#include "common/parallel.h"
#include "common/status_macros.h"
#include "config/partitions.h"
#include "nlohmann/json.hpp"
#include "storage/crc32c.h"
#include "storage/tensor_numbers.h"

namespace paracord {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensors are little-endian");

constexpr uint64_t kReadBytes = uint64_t{1} << 20;
constexpr size_t kLookedAtBytes = 64 << 10;

struct DType {
  std::string_view name;
  uint64_t bytes;
};
constexpr std::array<DType, 14> kDTypes = {{{"BOOL", 1},
                                            {"U8", 1},
                                            {"I8", 1},
                                            {"U16", 2},
                                            {"I16", 2},
                                            {"F16", 2},
                                            {"BF16", 2},
                                            {"U32", 4},
                                            {"I32", 4},
                                            {"F32", 4},
                                            {"U64", 8},
                                            {"I64", 8},
                                            {"F64", 8},
                                            {"C64", 8}}};

// Finds duplicate keys, deep nesting and too many values. A separate pass, because the JSON
// library's parser with a callback takes quadratic time in the number of tensors.
class HeaderCheck : public json::json_sax_t {
 public:
  std::string problem;

  bool null() override { return Count(); }
  bool boolean(bool) override { return Count(); }
  bool number_integer(number_integer_t) override { return Count(); }
  bool number_unsigned(number_unsigned_t) override { return Count(); }
  bool number_float(number_float_t, const string_t&) override { return Count(); }
  bool string(string_t&) override { return Count(); }
  bool binary(binary_t&) override { return Count(); }
  bool start_object(size_t) override { return Deeper(); }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return Count();
    problem = absl::StrCat("\"", name, "\" stands twice");
    return false;
  }
  bool end_object() override { return Back(); }
  bool start_array(size_t) override { return Deeper(); }
  bool end_array() override { return Back(); }
  bool parse_error(size_t, const std::string&, const json::exception&) override { return false; }

 private:
  bool Deeper() {
    keys_.emplace_back();
    if (keys_.size() > kDepthMax) problem = "nested too deeply";
    return problem.empty() && Count();
  }
  bool Count() {
    if (++count_ > kCountMax) problem = "too many values";
    return problem.empty();
  }
  bool Back() {
    keys_.pop_back();
    return true;
  }

  static constexpr size_t kDepthMax = 4;
  // 400,000 tensors; all are held in memory.
  static constexpr uint64_t kCountMax = uint64_t{1} << 23;
  uint64_t count_ = 0;  // values and keys so far
  // Keys of each open object; empty for an array.
  std::vector<absl::flat_hash_set<std::string>> keys_;
};

absl::StatusOr<json> ParseHeaderJson(std::string_view text) {
  if (text.empty() || text[0] != '{') {
    return absl::InvalidArgumentError("the header does not begin with {");
  }
  HeaderCheck check;
  const bool sound = json::sax_parse(text, &check);
  if (!check.problem.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("header: ", check.problem));
  }
  if (!sound) return absl::InvalidArgumentError("the header is not valid JSON");
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

absl::StatusOr<std::vector<uint64_t>> Unsigneds(const json& value, const std::string& where) {
  if (!value.is_array()) return absl::InvalidArgumentError(absl::StrCat(where, " is not a list"));
  std::vector<uint64_t> numbers;
  for (const json& item : value) {
    if (!item.is_number_unsigned()) {
      return absl::InvalidArgumentError(absl::StrCat(where, " holds no unsigned integer"));
    }
    numbers.push_back(item.get<uint64_t>());
  }
  return numbers;
}

uint64_t BytesOfEach(std::string_view dtype) {  // 0: unknown type
  const auto found = std::ranges::find(kDTypes, dtype, &DType::name);
  return found == kDTypes.end() ? 0 : found->bytes;
}

absl::StatusOr<TensorInfo> ParseTensor(const std::string& name, const json& entry) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets") || entry.size() != 3 || !entry["dtype"].is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", name, " needs dtype, shape, data_offsets and nothing else"));
  }
  TensorInfo info;
  info.name = name;
  info.dtype = entry["dtype"].get<std::string>();
  ASSIGN_OR_RETURN(info.shape, Unsigneds(entry["shape"], absl::StrCat("shape of ", name)));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> offsets,
                   Unsigneds(entry["data_offsets"], absl::StrCat("data_offsets of ", name)));
  const uint64_t each = BytesOfEach(info.dtype);
  if (each == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", name, " has the unknown dtype ", info.dtype));
  }
  const std::optional<uint64_t> bytes = TensorBytes(info.shape, each);
  if (offsets.size() != 2 || offsets[1] < offsets[0] || !bytes.has_value() ||
      offsets[1] - offsets[0] != *bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("data_offsets of tensor ", name, " do not fit its shape"));
  }
  info.begin = offsets[0];
  info.end = offsets[1];
  return info;
}

std::string_view AsBytes(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

std::string LittleEndian64(uint64_t value) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

}  // namespace

const TensorInfo* SafetensorsHeader::Find(std::string_view name) const {
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

std::string ShapeText(std::span<const uint64_t> shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ", "), ")");
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view text,
                                                         uint64_t data_bytes) {
  ASSIGN_OR_RETURN(const json root, ParseHeaderJson(text));
  SafetensorsHeader header;
  for (const auto& [name, entry] : root.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) return absl::InvalidArgumentError("__metadata__ is not an object");
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) {
          return absl::InvalidArgumentError(absl::StrCat("__metadata__ ", key, " is no string"));
        }
        header.metadata[key] = value.get<std::string>();
      }
      continue;
    }
    ASSIGN_OR_RETURN(TensorInfo info, ParseTensor(name, entry));
    header.tensors.push_back(std::move(info));
  }
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) {
              return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
            });
  uint64_t end = 0;
  for (const TensorInfo& tensor : header.tensors) {
    if (tensor.begin != end) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", tensor.name, " begins at ", tensor.begin, " where ", end, " was expected"));
    }
    end = tensor.end;
  }
  if (end != data_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tensors take ", end, " bytes, the file has ", data_bytes, " for them"));
  }
  return header;
}

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<WriteFile> file, std::string path,
                                     uint64_t bytes_total)
    : file_(std::move(file)), path_(std::move(path)), bytes_total_(bytes_total) {}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    Files& files, const std::string& path, std::vector<TensorInfo> tensors,
    const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t end = 0;
  for (TensorInfo& tensor : tensors) {
    const std::optional<uint64_t> bytes = TensorBytes(tensor.shape, BytesOfEach(tensor.dtype));
    tensor.begin = end;
    if (!bytes.has_value() || __builtin_add_overflow(end, *bytes, &end) ||
        header.contains(tensor.name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensor ", tensor.name, " is too large or stands twice"));
    }
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, end}}};
  }
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  // Padding keeps the data aligned, as in the format's library.
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kSafetensorsHeaderMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a header of ", text.size(), " bytes is too long"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<WriteFile> file, files.Create(path));
  auto writer = std::unique_ptr<SafetensorsWriter>(
      new SafetensorsWriter(std::move(file), path, 8 + text.size() + end));
  RETURN_IF_ERROR(writer->Append(LittleEndian64(text.size())));
  RETURN_IF_ERROR(writer->Append(text));
  return writer;
}

absl::Status SafetensorsWriter::Append(std::string_view bytes) {
  if (bytes.size() > bytes_total_ - bytes_) {
    return absl::InternalError(absl::StrCat(path_, ": more bytes than its header announced"));
  }
  RETURN_IF_ERROR(file_->Append(bytes));
  crc32c_ = Crc32c(bytes, crc32c_);
  bytes_ += bytes.size();
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Append(std::span<const float> values) {
  return Append(AsBytes(values));
}

absl::Status SafetensorsWriter::Finish() {
  if (bytes_ != bytes_total_) {
    return absl::InternalError(
        absl::StrCat(path_, ": ", bytes_, " bytes written, its header says ", bytes_total_));
  }
  return file_->Sync();
}

namespace {

// A range of a file, read by one thread.
struct FileRange {
  uint64_t at = 0;
  uint64_t bytes = 0;
  std::optional<PlacedIn<char>> out = {};  // nullopt: only for the checksum
  uint64_t first = 0;                      // offset of the range in `out`
  uint32_t crc = 0;
  absl::Status status{};
};

void ReadRange(const ReadFile& file, FileRange& range) {
  std::array<char, kLookedAtBytes> looked_at;
  const bool in_place = range.out.has_value() && range.out->run == range.out->stride;
  for (uint64_t done = 0; done < range.bytes && range.status.ok();) {
    const uint64_t left = range.bytes - done;
    const std::span<char> to = in_place
                                   ? std::span(range.out->data + range.first, left)
                                   : std::span(looked_at).first(std::min(left, kLookedAtBytes));
    range.status = file.ReadAt(range.at + done, to);
    range.crc = Crc32c(to, range.crc);
    if (range.out.has_value() && !in_place) range.out->Put(range.first + done, to);
    done += to.size();
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::unique_ptr<ReadFile> file, std::string path,
                                 SafetensorsHeader header, std::string head)
    : file_(std::move(file)),
      path_(std::move(path)),
      header_(std::move(header)),
      head_(std::move(head)) {}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(Files& files,
                                                                       const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<ReadFile> file, files.Open(path));
  const uint64_t size = file->size();
  std::string head(8, '\0');
  std::string beginning(static_cast<size_t>(std::min<uint64_t>(size, kFileKindBytes)), '\0');
  RETURN_IF_ERROR(file->ReadAt(0, beginning));
  if (size < 8) {
    return absl::DataLossError(absl::StrCat(path, ": is no safetensors file, of ", size, " bytes"));
  }
  std::copy_n(beginning.begin(), head.size(), head.begin());
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(head[i]);
  if (length > kSafetensorsHeaderMax || length > size - 8) {
    const std::string hint = FileKindHint(beginning);
    return absl::DataLossError(absl::StrCat(
        path, ": is no safetensors file",
        hint.empty()
            // The message must not quote the file, which a stranger may have named.
            ? absl::StrCat(": its first 8 bytes are no length of a header in ", size, " bytes")
            : hint));
  }
  head.resize(8 + length);
  RETURN_IF_ERROR(file->ReadAt(8, std::span(head).subspan(8)));
  absl::StatusOr<SafetensorsHeader> header =
      ParseSafetensorsHeader(std::string_view(head).substr(8), size - 8 - length);
  if (!header.ok()) {
    return absl::DataLossError(absl::StrCat(path, ": ", header.status().message()));
  }
  header->data_begin = 8 + length;
  return std::unique_ptr<SafetensorsFile>(
      new SafetensorsFile(std::move(file), path, *std::move(header), std::move(head)));
}

absl::Status SafetensorsFile::ReadElements(const TensorInfo& tensor, uint64_t begin,
                                           std::span<float> out) const {
  const uint64_t each = std::max<uint64_t>(NumberBytes(tensor), 1);
  const uint64_t elements = (tensor.end - tensor.begin) / each;
  if (begin > elements || out.size() > elements - begin) {
    return absl::OutOfRangeError(
        absl::StrCat(path_, ": tensor ", tensor.name, " has ", elements, " elements only"));
  }
  uint64_t at = header_.data_begin + tensor.begin + begin * each;
  if (tensor.dtype == "F32") {
    return file_->ReadAt(at, {reinterpret_cast<char*>(out.data()), out.size_bytes()});
  }
  std::array<char, kLookedAtBytes> bytes;
  while (!out.empty()) {
    const std::span<float> now = out.first(std::min<size_t>(out.size(), bytes.size() / each));
    const std::span<char> read = std::span(bytes).first(now.size() * each);
    RETURN_IF_ERROR(file_->ReadAt(at, read));
    const absl::Status converted = ToFloats(tensor, {read.data(), read.size()}, now);
    if (!converted.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": ", converted.message()));
    }
    at += read.size();
    out = out.subspan(now.size());
  }
  return absl::OkStatus();
}

absl::Status SafetensorsFile::ReadBytes(const TensorInfo& tensor, uint64_t begin,
                                        std::span<char> out) const {
  const uint64_t bytes = tensor.end - tensor.begin;
  if (begin > bytes || out.size() > bytes - begin) {
    return absl::OutOfRangeError(
        absl::StrCat(path_, ": tensor ", tensor.name, " has ", bytes, " bytes only"));
  }
  return file_->ReadAt(header_.data_begin + tensor.begin + begin, out);
}

absl::StatusOr<uint32_t> SafetensorsFile::ReadAll(
    const std::function<BytesPlace(const TensorInfo&)>& place) const {
  std::vector<FileRange> ranges;
  uint64_t at = header_.data_begin;
  for (const TensorInfo& tensor : header_.tensors) {
    const BytesPlace wanted = place(tensor);
    const uint64_t end = header_.data_begin + tensor.end;
    uint64_t there = 0;
    for (const PlacedIn<char>& out : wanted) {
      there += out.size;
      for (uint64_t done = 0; done < out.size; done += ranges.back().bytes) {
        const uint64_t bytes = std::min(kReadBytes, out.size - done);
        ranges.push_back(
            {.at = std::exchange(at, at + bytes), .bytes = bytes, .out = out, .first = done});
      }
    }
    if (!wanted.empty() && at != end) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": tensor ", tensor.name, " has ",
                                                     tensor.end - tensor.begin, " bytes where ",
                                                     there, " were expected"));
    }
    while (at < end) {
      const uint64_t bytes = std::min(kReadBytes, end - at);
      ranges.push_back({.at = std::exchange(at, at + bytes), .bytes = bytes});
    }
  }
  std::atomic<bool> failed = false;
  ParallelFor(ranges.size(), [&](size_t i) {
    if (failed) return;
    ReadRange(*file_, ranges[i]);
    if (!ranges[i].status.ok()) failed = true;
  });
  uint32_t crc = Crc32c(head_);
  for (const FileRange& range : ranges) {
    RETURN_IF_ERROR(range.status);
    crc = Crc32cOfBoth(crc, range.crc, range.bytes);
  }
  return crc;
}

}  // namespace paracord
