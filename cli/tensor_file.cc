#include "cli/tensor_file.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/out_file.h"
#include "common/status_macros.h"
#include "data/element.h"
#include "storage/safetensors.h"
#include "storage/tensor_numbers.h"

namespace paracord {
namespace {

absl::Status WriteAll(Files& files, const std::string& path, std::span<const NamedTensor> tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::vector<TensorInfo> infos;
  for (const NamedTensor& tensor : tensors) {
    infos.push_back({.name = tensor.name,
                     .dtype = tensor.ids.has_value() ? "I64" : "F32",
                     .shape = tensor.shape});
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsWriter> writer,
                   SafetensorsWriter::Create(files, path, std::move(infos), metadata));
  for (const NamedTensor& tensor : tensors) {
    if (!tensor.ids.has_value()) {
      RETURN_IF_ERROR(writer->Append(tensor.values));
      continue;
    }
    const char* const bytes = reinterpret_cast<const char*>(tensor.ids->data());
    RETURN_IF_ERROR(writer->Append(std::string_view(bytes, tensor.ids->size_bytes())));
  }
  return writer->Finish();
}

std::optional<ElementType> IntegerType(const std::string& dtype) {
  if (dtype == "I64") return ElementType::kI64;
  if (dtype == "I32") return ElementType::kI32;
  if (dtype == "U64") return ElementType::kU64;
  if (dtype == "U32") return ElementType::kU32;
  return std::nullopt;
}

absl::Status ConvertStrings(const TensorInfo& info, const std::string& bytes, ReadTensor& tensor) {
  if (info.dtype != "U8" || info.shape.size() < 2 || info.shape.back() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", info.name, " is ", info.dtype, " ", ShapeText(info.shape),
                     "; strings are U8 of shape (examples, ..., bytes), at least a byte each, with "
                     "zeros behind"));
  }
  const size_t width = info.shape.back();
  tensor.shape.pop_back();
  size_t count = 1;
  for (const uint64_t dim : tensor.shape) count *= dim;
  for (size_t i = 0; i < count; ++i) {
    std::string& text = tensor.strings.emplace_back(bytes, i * width, width);
    text.resize(text.find_last_not_of('\0') + 1);
  }
  return absl::OkStatus();
}

absl::Status ConvertAs(TensorForm form, const TensorInfo& info, const std::string& bytes,
                       ReadTensor& tensor) {
  if (form == TensorForm::kText) return ConvertStrings(info, bytes, tensor);
  const std::optional<ElementType> integer = IntegerType(info.dtype);
  if (form == TensorForm::kWhole && integer.has_value()) {
    AppendElements(*integer, bytes, /*big_endian=*/false, tensor.values, tensor.exact);
    return absl::OkStatus();
  }
  const uint64_t each = NumberBytes(info);
  tensor.values.resize(each == 0 ? 0 : bytes.size() / each);
  return ToFloats(info, bytes, tensor.values);
}

}  // namespace

absl::Status WriteTensors(Files& files, const std::string& path,
                          std::span<const NamedTensor> tensors,
                          const std::map<std::string, std::string>& metadata) {
  return ReplaceOutFile(files, path, [&](const std::string& temporary) {
    return WriteAll(files, temporary, tensors, metadata);
  });
}

absl::StatusOr<std::vector<ReadTensor>> ReadTensors(
    Files& files, const std::string& path,
    const std::function<TensorForm(const std::string& name)>& form_of) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsFile> checked,
                   SafetensorsFile::Open(files, path));
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadFile> file, files.Open(path));
  const SafetensorsHeader& header = checked->header();
  std::vector<ReadTensor> tensors;
  std::string bytes;
  for (const TensorInfo& info : header.tensors) {
    ReadTensor& tensor = tensors.emplace_back();
    tensor.name = info.name;
    tensor.shape = info.shape;
    bytes.resize(info.end - info.begin);
    RETURN_IF_ERROR(file->ReadAt(header.data_begin + info.begin, bytes));
    const TensorForm form = form_of ? form_of(info.name) : TensorForm::kNumbers;
    const absl::Status converted = ConvertAs(form, info, bytes, tensor);
    if (!converted.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", converted.message()));
    }
  }
  return tensors;
}

}  // namespace paracord
