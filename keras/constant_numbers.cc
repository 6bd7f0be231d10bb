#include "keras/constant_numbers.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "keras/layers/layer_config.h"

namespace paracord {
namespace {

using nlohmann::json;

constexpr size_t kNumbersMax = size_t{1} << 24;
constexpr const char* kElementwise[] = {"Add",        "Subtract",    "Multiply", "Divide",
                                        "TrueDivide", "FloorDivide", "Mod",      "Maximum",
                                        "Minimum",    "Power"};
constexpr const char* kOthers[] = {"Cast",    "ConvertToTensor", "ExpandDims",
                                   "GetItem", "Concatenate",     "Prod",
                                   "Squeeze", "Stack",           "Unstack"};
constexpr const char* kUnary[] = {"Ceil",     "Exp",   "Floor", "Log",
                                  "Negative", "Rsqrt", "Sqrt",  "Square"};
constexpr const char* kMakers[] = {"Zeros", "Ones", "Fill", "Range"};

template <size_t n>
bool In(const char* const (&list)[n], const std::string& name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

absl::Status Unusable(const std::string& what) { return absl::InvalidArgumentError(what); }

size_t Count(const ConstantNumbers& numbers) { return numbers.values.size(); }

ConstantNumbers Scalar(double value, bool of_batch = false) { return {{}, {value}, {of_batch}}; }

// Returns the i-th element along axis 0.
ConstantNumbers Part(const ConstantNumbers& all, size_t i) {
  const size_t each = Count(all) / static_cast<size_t>(all.shape[0]);
  const auto from = static_cast<std::ptrdiff_t>(i * each);
  const auto to = from + static_cast<std::ptrdiff_t>(each);
  return {Shape(all.shape.begin() + 1, all.shape.end()),
          {all.values.begin() + from, all.values.begin() + to},
          {all.of_batch.begin() + from, all.of_batch.begin() + to}};
}

void Append(const ConstantNumbers& more, ConstantNumbers& to) {
  to.values.insert(to.values.end(), more.values.begin(), more.values.end());
  to.of_batch.insert(to.of_batch.end(), more.of_batch.begin(), more.of_batch.end());
}

absl::StatusOr<ConstantNumbers> Stacked(const std::vector<ConstantNumbers>& parts) {
  ConstantNumbers all;
  all.shape = {static_cast<int64_t>(parts.size())};
  for (const ConstantNumbers& part : parts) {
    if (part.shape != parts[0].shape) return Unusable("its numbers are not of one shape");
    Append(part, all);
  }
  if (!parts.empty()) {
    all.shape.insert(all.shape.end(), parts[0].shape.begin(), parts[0].shape.end());
  }
  return all;
}

absl::StatusOr<ConstantNumbers> Read(const json& value, const KnownInput& input) {
  if (value.is_number()) return Scalar(value.get<double>());
  if (value.is_boolean()) return Scalar(value.get<bool>() ? 1 : 0);
  if (LayerConfig::IsTensor(value)) return input(value);
  if (!value.is_array()) return Unusable(absl::StrCat("takes numbers, not ", Shown(value)));
  std::vector<ConstantNumbers> parts;
  for (const json& each : value) {
    ASSIGN_OR_RETURN(parts.emplace_back(), Read(each, input));
  }
  return Stacked(parts);
}

// Applies a Python index or slice, whose numbers may be known tensors.
absl::StatusOr<ConstantNumbers> Slice(const ConstantNumbers& of, json key,
                                      const KnownInput& input) {
  if (key.is_array() && key.size() == 1) key = json(key[0]);
  if (of.shape.empty()) return Unusable("takes an element of a single number");
  const int64_t size = of.shape[0];
  const auto number = [&](const json& value, int64_t otherwise) -> absl::StatusOr<int64_t> {
    if (value.is_null()) return otherwise;
    ASSIGN_OR_RETURN(const ConstantNumbers read, Read(value, input));
    if (Count(read) != 1 || read.of_batch[0]) return Unusable("takes a place that is no number");
    return static_cast<int64_t>(read.values[0]);
  };
  if (!key.is_object() || !key.contains("start")) {
    ASSIGN_OR_RETURN(int64_t at, number(key, 0));
    if (at < 0) at += size;
    if (at < 0 || at >= size) return Unusable(absl::StrCat("takes element ", at, " of ", size));
    return Part(of, static_cast<size_t>(at));
  }
  ASSIGN_OR_RETURN(const int64_t step, number(key.value("step", json()), 1));
  ASSIGN_OR_RETURN(int64_t start, number(key.value("start", json()), 0));
  ASSIGN_OR_RETURN(int64_t stop, number(key.value("stop", json()), size));
  if (step != 1) return Unusable("takes sizes with a step");
  start = std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
  stop = std::clamp<int64_t>(stop < 0 ? stop + size : stop, start, size);
  ConstantNumbers taken;
  for (int64_t i = start; i < stop; ++i) Append(Part(of, static_cast<size_t>(i)), taken);
  taken.shape = of.shape;
  taken.shape[0] = stop - start;
  return taken;
}

absl::StatusOr<double> Compute(const std::string& name, double a, double b) {
  if (name == "Add") return a + b;
  if (name == "Subtract") return a - b;
  if (name == "Multiply") return a * b;
  if (name == "Maximum") return std::max(a, b);
  if (name == "Minimum") return std::min(a, b);
  if (name == "Power") return std::pow(a, b);
  if (b == 0) return Unusable("divides a size by 0");
  if (name == "FloorDivide") return std::floor(a / b);
  if (name == "Mod") return a - b * std::floor(a / b);
  return a / b;
}

// Computes a number. A multiple of the batch size may only become another multiple.
absl::Status ComputeInto(const std::string& name, double a, bool a_of_batch, double b,
                         bool b_of_batch, ConstantNumbers& to) {
  bool of_batch = a_of_batch || b_of_batch;
  if (of_batch) {
    const bool product = name == "Multiply" && a_of_batch != b_of_batch;
    const bool ratio = name == "Divide" || name == "TrueDivide" || name == "FloorDivide";
    const bool whole = ratio && b != 0 && std::fmod(a, b) == 0;
    if (!product && !(whole && a_of_batch)) {
      return Unusable(
          "computes something of the size of the batch, which is another for the last "
          "batch of an epoch: only its multiples are known");
    }
    of_batch = product || !b_of_batch;
  }
  ASSIGN_OR_RETURN(const double value, Compute(name, a, b));
  to.values.push_back(value);
  to.of_batch.push_back(of_batch);
  return absl::OkStatus();
}

absl::StatusOr<ConstantNumbers> Elementwise(const std::string& name, const ConstantNumbers& a,
                                            const ConstantNumbers& b) {
  if (a.shape != b.shape && !a.shape.empty() && !b.shape.empty()) {
    return Unusable(
        absl::StrCat("takes numbers of ", ShapeName(a.shape), " and ", ShapeName(b.shape)));
  }
  ConstantNumbers result;
  result.shape = a.shape.empty() ? b.shape : a.shape;
  const size_t count = a.shape.empty() ? Count(b) : Count(a);
  for (size_t i = 0; i < count; ++i) {
    const size_t at_a = a.shape.empty() ? 0 : i, at_b = b.shape.empty() ? 0 : i;
    RETURN_IF_ERROR(ComputeInto(name, a.values[at_a], a.of_batch[at_a], b.values[at_b],
                                b.of_batch[at_b], result));
  }
  return result;
}

absl::StatusOr<double> PlainNumber(const json& value, const KnownInput& input, double otherwise) {
  if (value.is_null()) return otherwise;
  ASSIGN_OR_RETURN(const ConstantNumbers read, Read(value, input));
  if (Count(read) != 1 || read.of_batch[0]) {
    return Unusable("takes a number that does not depend on the size of the batch");
  }
  return read.values[0];
}

absl::StatusOr<ConstantNumbers> Range(const json& args, const json& kwargs,
                                      const KnownInput& input) {
  std::vector<json> bounds(args.begin(), args.end());
  for (const char* key : {"limit", "delta"}) {
    if (kwargs.contains(key) && !kwargs[key].is_null()) bounds.push_back(kwargs[key]);
  }
  if (bounds.empty() || bounds.size() > 3) return Unusable("needs a limit");
  if (bounds.size() == 1) bounds.insert(bounds.begin(), json(0));
  ASSIGN_OR_RETURN(const double start, PlainNumber(bounds[0], input, 0));
  ASSIGN_OR_RETURN(const double limit, PlainNumber(bounds[1], input, 0));
  double delta = 1;
  if (bounds.size() == 3) {
    ASSIGN_OR_RETURN(delta, PlainNumber(bounds[2], input, 1));
  }
  const double count = std::ceil((limit - start) / delta);
  if (!(count >= 1 && count <= static_cast<double>(kNumbersMax))) return Unusable("has no numbers");
  ConstantNumbers range;
  range.shape = {static_cast<int64_t>(count)};
  for (int64_t i = 0; i < range.shape[0]; ++i) {
    range.values.push_back(start + static_cast<double>(i) * delta);
    range.of_batch.push_back(false);
  }
  return range;
}

// Makes an array of equal numbers. Its first axis may be the batch: the result then has the numbers
// of one example behind an axis of size 1.
absl::StatusOr<ConstantNumbers> Filled(const std::string& name, const json& args,
                                       const json& kwargs, const KnownInput& input) {
  const json& dims = args.empty() ? kwargs.value("shape", kwargs.value("dims", json())) : args[0];
  ASSIGN_OR_RETURN(const ConstantNumbers sizes, Read(dims, input));
  const json& filling = args.size() > 1 ? args[1] : kwargs.value("value", json());
  ASSIGN_OR_RETURN(const double value,
                   name == "Fill" ? PlainNumber(filling, input, 0) : (name == "Ones" ? 1. : 0.));
  ConstantNumbers filled;
  double count = 1;
  for (size_t i = 0; i < Count(sizes); ++i) {
    const bool batch = sizes.of_batch[i];
    if (batch && (i > 0 || sizes.values[i] != 1)) {
      return Unusable("has the size of the batch elsewhere than as its first axis");
    }
    filled.shape.push_back(batch ? 1 : static_cast<int64_t>(sizes.values[i]));
    count *= batch ? 1 : sizes.values[i];
    if (!(filled.shape.back() >= 1)) return Unusable("has an axis without elements");
  }
  if (count > static_cast<double>(kNumbersMax)) return Unusable("has too many elements");
  filled.values.assign(static_cast<size_t>(count), value);
  filled.of_batch.assign(static_cast<size_t>(count), false);
  return filled;
}

// Returns NaN if the operation has no result.
double ComputeOne(const std::string& name, double a) {
  if (name == "Ceil") return std::ceil(a);
  if (name == "Exp") return std::exp(a);
  if (name == "Floor") return std::floor(a);
  if (name == "Log") return std::log(a);
  if (name == "Negative") return -a;
  if (name == "Rsqrt") return 1 / std::sqrt(a);
  return name == "Sqrt" ? std::sqrt(a) : a * a;
}

// Adds or removes the axis named in the call; only the shape changes.
absl::StatusOr<ConstantNumbers> Reaxed(const std::string& name, const json& kwargs,
                                       ConstantNumbers numbers) {
  const bool expand = name == "ExpandDims";
  const json given = kwargs.value("axis", json());
  const std::vector<int64_t> axes = given.is_null() ? std::vector<int64_t>{0} : AxesOf(given);
  const auto rank = static_cast<int64_t>(numbers.shape.size()) + (expand ? 1 : 0);
  const int64_t axis = axes.size() != 1 ? -1 : axes[0] < 0 ? axes[0] + rank : axes[0];
  if (axis < 0 || axis >= rank) return Unusable("has an axis that its numbers have not");
  const auto at = numbers.shape.begin() + axis;
  if (!expand && *at != 1) return Unusable("squeezes an axis that is not 1");
  if (expand) numbers.shape.insert(at, 1);
  if (!expand) numbers.shape.erase(at);
  return numbers;
}

absl::StatusOr<ConstantNumbers> Joined(const json& list, const KnownInput& input) {
  ConstantNumbers all;
  for (const json& each : list) {
    ASSIGN_OR_RETURN(const ConstantNumbers part, Read(each, input));
    if (part.shape.size() != 1) return Unusable("concatenates numbers that are no lists");
    Append(part, all);
  }
  all.shape = {static_cast<int64_t>(Count(all))};
  return all;
}

}  // namespace

ConstantNumbers KnownArray(const NumberArray& array) {
  return {array.shape,
          {array.values.begin(), array.values.end()},
          std::vector<bool>(array.values.size(), false)};
}

ConstantNumbers KnownShape(const Shape& example) {
  ConstantNumbers numbers = {{static_cast<int64_t>(example.size()) + 1}, {1}, {true}};
  for (const int64_t dim : example) {
    numbers.values.push_back(static_cast<double>(dim));
    numbers.of_batch.push_back(false);
  }
  return numbers;
}

absl::StatusOr<json> KnownLiteral(const ConstantNumbers& numbers) {
  if (!numbers.shape.empty()) {
    json list = json::array();
    for (int64_t i = 0; i < numbers.shape[0]; ++i) {
      ASSIGN_OR_RETURN(json part, KnownLiteral(Part(numbers, static_cast<size_t>(i))));
      list.push_back(std::move(part));
    }
    return list;
  }
  const double value = numbers.values[0];
  if (numbers.of_batch[0]) {
    if (value == 1) return json();
    return Unusable("puts other axes into that of the batch: examples must stay apart");
  }
  if (value == std::floor(value) && std::abs(value) < 9e15) return static_cast<int64_t>(value);
  return value;
}

absl::StatusOr<NumberArray> KnownOperand(const ConstantNumbers& numbers) {
  if (std::find(numbers.of_batch.begin(), numbers.of_batch.end(), true) != numbers.of_batch.end()) {
    return Unusable(
        "computes with the size of the batch, which is another for the last batch of an "
        "epoch");
  }
  return NumberArray{numbers.shape, {numbers.values.begin(), numbers.values.end()}};
}

bool FoldsNumbers(const std::string& operation) {
  return In(kElementwise, operation) || In(kOthers, operation) || In(kUnary, operation);
}

bool MakesNumbers(const std::string& operation) { return In(kMakers, operation); }

absl::StatusOr<ConstantNumbers> FoldNumbers(const std::string& operation, const json& args,
                                            const json& kwargs, const KnownInput& input) {
  if (operation == "Range") return Range(args, kwargs, input);
  if (MakesNumbers(operation)) return Filled(operation, args, kwargs, input);
  if (args.empty()) return Unusable("is called without numbers");
  if (operation == "Concatenate") return Joined(args[0], input);
  ASSIGN_OR_RETURN(ConstantNumbers first, Read(args[0], input));
  if (operation == "GetItem") return Slice(first, args.size() > 1 ? args[1] : json(), input);
  if (In(kElementwise, operation)) {
    if (args.size() < 2) return Unusable("is called with one number");
    ASSIGN_OR_RETURN(const ConstantNumbers second, Read(args[1], input));
    return Elementwise(operation, first, second);
  }
  const bool whole =
      kwargs.value("dtype", json()) == "int32" || kwargs.value("dtype", json()) == "int64";
  if (operation == "Cast" && whole) {
    for (double& value : first.values) value = std::trunc(value);
  }
  if (operation == "ExpandDims" || operation == "Squeeze") {
    return Reaxed(operation, kwargs, std::move(first));
  }
  if (In(kUnary, operation)) {
    RETURN_IF_ERROR(KnownOperand(first).status());
    for (double& value : first.values) value = ComputeOne(operation, value);
  }
  if (operation == "Prod") {
    ConstantNumbers product = Scalar(1);
    for (size_t i = 0; i < Count(first); ++i) {
      ASSIGN_OR_RETURN(
          product, Elementwise("Multiply", product, Scalar(first.values[i], first.of_batch[i])));
    }
    return product;
  }
  return first;
}

}  // namespace paracord
