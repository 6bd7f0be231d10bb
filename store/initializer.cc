#include "store/initializer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/counter_random.h"
#include "common/status_macros.h"
#include "config/partitions.h"
#include "store/orthogonal.h"

namespace paracord {
namespace {

// The standard deviation of a normal distribution truncated at two, by which Keras divides.
constexpr double kTruncatedStddev = 0.87962566103423978;

enum class Shape { kConstant, kUniform, kNormal, kTruncated, kIdentity, kOrthogonal };

// The form of every initializer: constant a; uniform in [a, b); normal with mean a and standard
// deviation b, full or truncated at two deviations; a on the diagonal; a times an orthogonal
// matrix.
struct Distribution {
  Shape shape = Shape::kConstant;
  double a = 0;
  double b = 0;
};

class Options {
 public:
  explicit Options(const VariableSpec& variable) : variable_(variable) {}
  double Get(const std::string& key, double otherwise) {
    known_.insert(key);
    const auto& options = variable_.initializer().options();
    const auto it = options.find(key);
    return it == options.end() ? otherwise : it->second;
  }
  absl::Status Finish() const {
    for (const auto& [key, value] : variable_.initializer().options()) {
      if (key != "seed" && !known_.contains(key)) return Error(absl::StrCat("option ", key));
      if (!std::isfinite(value)) return Error(absl::StrCat("finite value of option ", key));
    }
    return absl::OkStatus();
  }
  absl::Status Error(const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat("variable \"", variable_.name(),
                                                   "\": initializer ",
                                                   variable_.initializer().name(), ": no ", what));
  }

 private:
  const VariableSpec& variable_;
  std::set<std::string> known_;
};

// compute_fans of keras/src/initializers/random_initializers.py: of the whole variable, unless the
// layer gives the fans.
struct Fans {
  double in = 1;
  double out = 1;
};
Fans FansOf(const VariableSpec& variable) {
  const int rank = variable.shape_size();
  if (rank == 0) return {};
  const double last = static_cast<double>(variable.shape(rank - 1));
  if (rank == 1) return {last, last};
  double receptive = 1;
  for (int i = 0; i < rank - 2; ++i) receptive *= static_cast<double>(variable.shape(i));
  return {static_cast<double>(variable.shape(rank - 2)) * receptive, last * receptive};
}

// The variable as Keras' matrix: the last dimension is the columns, all others together are the
// rows.
MatrixShape MatrixOf(const VariableSpec& variable) {
  const int last = variable.shape_size() - 1;
  MatrixShape matrix{1, variable.shape(last)};
  for (int i = 0; i < last; ++i) matrix.rows *= variable.shape(i);
  return matrix;
}

constexpr double kFanIn = 0;
constexpr double kFanOut = 1;
constexpr double kFanAverage = 2;
constexpr double kTruncatedNormal = 0;
constexpr double kUntruncatedNormal = 1;
constexpr double kUniformKind = 2;

Distribution Scaled(const VariableSpec& variable, Options& options, double scale, double mode,
                    double kind) {
  const Fans fans = FansOf(variable);
  const double in = options.Get("fan_in", fans.in), out = options.Get("fan_out", fans.out);
  const double fan = mode == kFanIn ? in : mode == kFanOut ? out : (in + out) / 2;
  scale /= std::max(1.0, fan);
  if (kind == kUniformKind) {
    const double limit = std::sqrt(3 * scale);
    return {Shape::kUniform, -limit, limit};
  }
  if (kind == kUntruncatedNormal) return {Shape::kNormal, 0, std::sqrt(scale)};
  return {Shape::kTruncated, 0, std::sqrt(scale) / kTruncatedStddev};
}

absl::StatusOr<Distribution> VarianceScaling(const VariableSpec& variable, Options& options) {
  const double scale = options.Get("scale", 1);
  const double mode = options.Get("mode", kFanIn);
  const double kind = options.Get("distribution", kTruncatedNormal);
  if (!(scale > 0)) return options.Error("positive scale");
  if (mode != kFanIn && mode != kFanOut && mode != kFanAverage) return options.Error("such mode");
  if (kind != kTruncatedNormal && kind != kUntruncatedNormal && kind != kUniformKind) {
    return options.Error("such distribution");
  }
  return Scaled(variable, options, scale, mode, kind);
}

absl::StatusOr<Distribution> Read(const VariableSpec& variable, Options& options) {
  const std::string& name = variable.initializer().name();
  if (name == "zeros") return Distribution{};
  if (name == "ones") return Distribution{Shape::kConstant, 1};
  if (name == "constant") return Distribution{Shape::kConstant, options.Get("value", 0)};
  if (name == "random_uniform") {
    return Distribution{Shape::kUniform, options.Get("minval", -0.05), options.Get("maxval", 0.05)};
  }
  if (name == "random_normal" || name == "truncated_normal") {
    return Distribution{name == "random_normal" ? Shape::kNormal : Shape::kTruncated,
                        options.Get("mean", 0), options.Get("stddev", 0.05)};
  }
  if (name == "glorot_uniform") return Scaled(variable, options, 1, kFanAverage, kUniformKind);
  if (name == "glorot_normal") return Scaled(variable, options, 1, kFanAverage, kTruncatedNormal);
  if (name == "he_uniform") return Scaled(variable, options, 2, kFanIn, kUniformKind);
  if (name == "he_normal") return Scaled(variable, options, 2, kFanIn, kTruncatedNormal);
  if (name == "lecun_uniform") return Scaled(variable, options, 1, kFanIn, kUniformKind);
  if (name == "lecun_normal") return Scaled(variable, options, 1, kFanIn, kTruncatedNormal);
  if (name == "variance_scaling") return VarianceScaling(variable, options);
  if (name == "identity") {
    if (variable.shape_size() != 2) return options.Error("use but for two dimensions");
    return Distribution{Shape::kIdentity, options.Get("gain", 1)};
  }
  if (name == "orthogonal") {
    if (variable.shape_size() < 2) return options.Error("use but for two dimensions or more");
    return Distribution{Shape::kOrthogonal, options.Get("gain", 1)};
  }
  if (name == "initial_weights") {
    return absl::InvalidArgumentError(
        absl::StrCat("variable \"", variable.name(),
                     "\": starts from a file, and the job names none that has it: give "
                     "\"initial_weights\": \"FILE.safetensors\""));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "variable \"", variable.name(), "\": no initializer \"", name,
      "\"; there are zeros, ones, constant, random_uniform, random_normal, truncated_normal, "
      "glorot_uniform, glorot_normal, he_uniform, he_normal, lecun_uniform, lecun_normal, "
      "variance_scaling, identity, orthogonal"));
}

// A bound on the magnitude of all elements.
double Bound(const Distribution& distribution) {
  constexpr double kNormalMax = 10;  // 53 random bits give no normal number beyond 8.6
  const double a = std::abs(distribution.a), b = std::abs(distribution.b);
  switch (distribution.shape) {
    case Shape::kUniform:
      return std::max(a, b);
    case Shape::kNormal:
      return a + b * kNormalMax;
    case Shape::kTruncated:
      return a + b * 2;
    case Shape::kConstant:
    case Shape::kIdentity:
    case Shape::kOrthogonal:
      return a;
  }
  return a;
}

// Draws until the number lies within two standard deviations; each draw has its own place in the
// element's sequence. A draw is refused with probability 0.0455, so 16 refusals in a row (3e-22)
// never happen.
double TruncatedNormal(uint64_t key, uint64_t element) {
  constexpr uint64_t kDraws = 16;
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    const double x = RandomNormal(key, element * kDraws + draw);
    if (std::abs(x) <= 2) return x;
  }
  return 0;
}

float Element(const Distribution& distribution, uint64_t key, uint64_t row_elements,
              uint64_t element) {
  const double a = distribution.a;
  const double b = distribution.b;
  switch (distribution.shape) {
    case Shape::kConstant:
      return static_cast<float>(a);
    case Shape::kUniform:
      return static_cast<float>(a + (b - a) * RandomUniform(key, element));
    case Shape::kNormal:
      return static_cast<float>(a + b * RandomNormal(key, element));
    case Shape::kTruncated:
      return static_cast<float>(a + b * TruncatedNormal(key, element));
    case Shape::kOrthogonal:  // not element by element
      break;
    case Shape::kIdentity:
      return element / row_elements == element % row_elements ? static_cast<float>(a) : 0.0f;
  }
  return 0;
}

struct Checked {
  Distribution distribution;
  bool unit_forget = false;
};

absl::StatusOr<Checked> Check(const VariableSpec& variable) {
  Options options(variable);
  Checked checked;
  ASSIGN_OR_RETURN(checked.distribution, Read(variable, options));
  checked.unit_forget = options.Get("unit_forget", 0) != 0;
  RETURN_IF_ERROR(options.Finish());
  if (Bound(checked.distribution) <= std::numeric_limits<float>::max()) return checked;
  return options.Error("finite values in float32; options nearer to zero give them");
}

}  // namespace

absl::Status CheckInitializer(const VariableSpec& variable) {
  if (IsGrowing(variable)) return MakeRowInitializer(variable, 0).status();
  return Check(variable).status();
}

absl::Status Initialize(const VariableSpec& variable, uint64_t seed, uint64_t begin,
                        std::span<float> out) {
  ASSIGN_OR_RETURN(const Checked checked, Check(variable));
  const auto& [distribution, unit_forget] = checked;
  const uint64_t key = DeriveKey(seed, variable.name());
  if (distribution.shape == Shape::kOrthogonal) {
    const MatrixShape matrix = MatrixOf(variable);
    Orthogonal(matrix, key, distribution.a, begin, out);
    return absl::OkStatus();
  }
  uint64_t elements = 1;
  for (const uint64_t dim : variable.shape()) elements *= dim;
  const uint64_t row_elements =
      variable.shape_size() == 0 ? 1 : elements / std::max<uint64_t>(variable.shape(0), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = Element(distribution, key, row_elements, begin + i);
  }
  // In an LSTM's bias the second quarter is the forget gate's.
  for (size_t i = 0; i < out.size() && unit_forget; ++i) {
    const uint64_t at = begin + i;
    if (at >= elements / 4 && at < elements / 2) out[i] = 1;
  }
  return absl::OkStatus();
}

absl::StatusOr<RowInitializer> MakeRowInitializer(const VariableSpec& variable, uint64_t seed) {
  ASSIGN_OR_RETURN(const Checked checked, Check(variable));
  const Distribution& distribution = checked.distribution;
  if (distribution.shape == Shape::kOrthogonal || distribution.shape == Shape::kIdentity ||
      checked.unit_forget) {
    return Options(variable).Error("use for a table that grows, because it needs all rows");
  }
  const uint64_t key = DeriveKey(seed, variable.name());
  return RowInitializer([distribution, key](uint64_t id, std::span<float> row) {
    const uint64_t row_key = RandomBits(key, id);
    for (size_t i = 0; i < row.size(); ++i) row[i] = Element(distribution, row_key, row.size(), i);
  });
}

}  // namespace paracord
