// Slices of tensors by Python's rules, such as x[:, 1:3].
#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "keras/layers/copy_layer.h"
#include "keras/layers/layers.h"

namespace paracord {
namespace {

// An index with several entries, such as x[:, 1:3, ::2, 0, None].
class SliceLayer : public CopyLayer {
 public:
  explicit SliceLayer(LayerConfig& config) : CopyLayer(config) {
    if (config.class_name() == "Slice") {
      ReadBounds(config);
      return;
    }
    const nlohmann::json& args = config.TakeArgs();
    if (!args.is_array() || args.size() != 2) {
      config.Fail("args", "must be a tensor and a key");
      return;
    }
    key_ = args[1].is_array() ? args[1] : nlohmann::json::array({args[1]});
    const nlohmann::json first = key_.empty() ? nlohmann::json() : key_[0];
    if (!IsEllipsis(first) && !(IsSlice(first) && WholeAxis(Bounds(first)))) {
      config.Fail("args", "the batch cannot be sliced: the key must begin with `:`");
    }
  }

  absl::StatusOr<Plan> PlanFor(const Shape& input) const override {
    const std::vector<int64_t> steps = RowMajor(input);
    size_t named = 0;  // axes covered by the index, including the batch
    for (const auto& entry : key_) named += !entry.is_null() && !IsEllipsis(entry) ? 1 : 0;
    if (named > input.size() + 1) return Bad("names more axes than there are");
    Plan plan;
    plan.partial = true;
    size_t axis = 0;
    const auto take = [&](int64_t count, int64_t from, int64_t step) {
      plan.output.push_back(count);
      plan.a.push_back(steps[axis] * step);
      plan.from += steps[axis] * from;
      ++axis;
    };
    const bool batch_named = !IsEllipsis(key_[0]);
    if (!batch_named && named > input.size()) return Bad("names more axes than there are");
    const size_t unnamed = input.size() + (batch_named ? 1 : 0) - named;
    bool seen = false;
    for (size_t i = batch_named ? 1 : 0; i < key_.size(); ++i) {
      const auto& entry = key_[i];
      if (IsEllipsis(entry)) {
        if (seen) return Bad("has two ellipses");
        seen = true;
        for (size_t n = 0; n < unnamed; ++n) take(input[axis], 0, 1);
      } else if (entry.is_null()) {
        plan.output.push_back(1);
        plan.a.push_back(0);
      } else if (axis >= input.size()) {
        return Bad("names more axes than there are");
      } else if (entry.is_number_integer()) {
        int64_t at = entry.get<int64_t>();
        if (at < 0) at += input[axis];
        if (at < 0 || at >= input[axis]) return Bad("has an index outside of the axis");
        plan.from += steps[axis++] * at;
      } else if (IsSlice(entry)) {
        const Resolved r = Resolve(Bounds(entry), input[axis]);
        if (r.count < 1) return Bad("takes nothing of an axis");
        take(r.count, r.from, r.step);
      } else {
        return Bad("has an entry that is no slice, number, ellipsis or null");
      }
    }
    while (axis < input.size()) take(input[axis], 0, 1);
    plan.dims = plan.output;
    plan.y = RowMajor(plan.output);
    return plan;
  }

 private:
  // tf.slice(x, begin, size): a size of -1 means the rest; the whole batch is taken.
  void ReadBounds(LayerConfig& config) {
    const std::vector<int64_t> begin = config.Integers("begin"), size = config.Dims("size");
    key_ = nlohmann::json::array();
    for (size_t i = 0; i < begin.size() && i < size.size(); ++i) {
      const bool all = size[i] < 0;
      key_.push_back({{"start", begin[i]},
                      {"stop", all ? nlohmann::json() : nlohmann::json(begin[i] + size[i])},
                      {"step", nullptr}});
    }
    if (begin.empty() || begin.size() != size.size() || begin[0] != 0 || size[0] >= 0) {
      key_ = nlohmann::json::array({{{"start", nullptr}, {"stop", nullptr}, {"step", nullptr}}});
      config.Fail("begin", "and size must be numbers for each axis, and take the whole batch");
    }
  }

  using Limits = std::array<std::optional<int64_t>, 3>;
  struct Resolved {
    int64_t count = 0, from = 0, step = 1;
  };
  static absl::Status Bad(const char* what) {
    return absl::InvalidArgumentError(absl::StrCat("its key ", what));
  }
  static bool IsEllipsis(const nlohmann::json& e) {
    return e.is_object() && e.value("class_name", nlohmann::json()) == "__ellipsis__";
  }
  static bool IsSlice(const nlohmann::json& e) {
    return e.is_object() &&
           (e.value("class_name", nlohmann::json()) == "__slice__" || e.contains("start"));
  }
  static Limits Bounds(const nlohmann::json& e) {
    const nlohmann::json& config =
        e.contains("config") && e["config"].is_object() ? e["config"] : e;
    Limits limits;
    const char* const names[] = {"start", "stop", "step"};
    for (size_t i = 0; i < 3; ++i) {
      const auto found = config.find(names[i]);
      if (found != config.end() && found->is_number_integer()) limits[i] = found->get<int64_t>();
    }
    return limits;
  }
  static bool WholeAxis(const Limits& limits) {
    return limits[0].value_or(0) == 0 && !limits[1].has_value() && limits[2].value_or(1) == 1;
  }
  // Resolves a slice by Python's rules.
  static Resolved Resolve(const Limits& limits, int64_t n) {
    const int64_t step = limits[2].value_or(1);
    if (step == 0) return {};
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    const auto bound = [&](std::optional<int64_t> at, int64_t none) {
      if (!at.has_value()) return none;
      return std::clamp(*at < 0 ? *at + n : *at, low, high);
    };
    const int64_t from = bound(limits[0], step > 0 ? 0 : n - 1);
    const int64_t stop = bound(limits[1], step > 0 ? n : -1);
    const int64_t span = step > 0 ? stop - from : from - stop;
    const int64_t pace = std::abs(step);
    return {span <= 0 ? 0 : (span + pace - 1) / pace, from, step};
  }

  nlohmann::json key_;
};

// An output of a layer with several outputs.
class PartLayer : public CopyLayer {
 public:
  PartLayer(const Layer& of, Shape shape, int64_t from)
      : CopyLayer(of), shape_(std::move(shape)), from_(from) {}
  absl::StatusOr<Plan> PlanFor(const Shape&) const override {
    Plan plan;
    plan.output = shape_;
    plan.dims = {Elements(shape_)};
    plan.a = plan.y = {1};
    plan.from = from_;
    plan.partial = true;
    return plan;
  }

 private:
  const Shape shape_;
  const int64_t from_;
};

}  // namespace

std::unique_ptr<Layer> MakePartLayer(const Layer& of, const Shape& shape, int64_t from) {
  return std::make_unique<PartLayer>(of, shape, from);
}
std::unique_ptr<Layer> MakeSlice(LayerConfig& config) {
  return std::make_unique<SliceLayer>(config);
}

}  // namespace paracord
