#include "keras/model_head.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace paracord {
namespace {

// True if a name in a job means this output.
bool Means(const std::string& name, const Endpoint& output, size_t index) {
  return output.Is(name) || name == absl::StrCat("#", index);
}

void CheckName(const char* key, const std::string& name, const ModelSpec& model,
               Problems& problems) {
  std::string known;
  for (size_t i = 0; i < model.outputs.size(); ++i) {
    if (Means(name, model.outputs[i], i)) return;
    absl::StrAppend(&known, i == 0 ? "" : ", ", model.outputs[i].name());
  }
  problems.Add(key, absl::StrCat("the model has no output \"", name, "\"; its outputs: ", known));
}

// Finds the data's column for an output: by name, or the only one.
std::optional<size_t> FindColumn(const std::vector<Column>& columns, const Endpoint& output,
                                 bool only_output) {
  for (size_t i = 0; i < columns.size(); ++i) {
    if (output.Is(columns[i].name)) return i;
  }
  if (columns.size() == 1 && (only_output || columns[0].name.empty())) return 0;
  return std::nullopt;
}

void CheckNames(const Job& job, const ModelSpec& model, Problems& problems) {
  for (const NamedSpec& loss : job.losses) CheckName("loss", loss.output, model, problems);
  if (!job.loss.output.empty()) CheckName("loss", job.loss.output, model, problems);
  for (const auto& [name, weight] : job.loss_weights.by_output) {
    CheckName("loss_weights", name, model, problems);
  }
  size_t unnamed = 0;
  for (const NamedSpec& metric : job.metrics) {
    unnamed += metric.output.empty() ? 1 : 0;
    if (!metric.output.empty()) CheckName("metrics", metric.output, model, problems);
  }
  if (model.outputs.size() > 1 && unnamed > model.outputs.size()) {
    problems.Add("metrics", absl::StrCat(unnamed, " without an output, for a model of ",
                                         model.outputs.size(), " outputs; give them by output"));
  }
}

// Checks a loss or metric without shapes: tries plausible shapes, with targets that are class
// indices or like the output.
template <class Resolve>
absl::Status WithoutShapes(const Resolve& resolve, const NamedSpec& spec) {
  absl::Status status = resolve(spec, Shape{2}, Shape{}).status();
  const auto weights = spec.options.find("label_weights"), number = spec.options.find("num_labels");
  int64_t labels = 2;
  if (weights != spec.options.end()) labels = static_cast<int64_t>(weights->size());
  if (number != spec.options.end() && number->is_number_integer()) labels = number->get<int64_t>();
  for (const Shape& both : {Shape{1}, Shape{2}, Shape{labels}}) {
    if (!status.ok()) status = resolve(spec, both, both).status();
  }
  return status;
}

// Returns the number of classes of a loss's targets; 0 if the targets are numbers.
int64_t ClassesOf(const ModelHead& head) {
  if (head.classes > 0) return head.classes;
  if (head.targets_each > 1) return head.targets_each;
  const LossKind kind = head.loss.kind;
  const bool binary =
      kind == LossKind::kBinaryCrossentropy || kind == LossKind::kBinaryFocalCrossentropy;
  return head.has_loss && binary ? 2 : 0;
}

void CheckClasses(const Job& job, const ModelHead& head, Problems& problems) {
  const int64_t classes = ClassesOf(head);
  for (const auto& [id, weight] : job.loss_weights.by_class) {
    if (classes == 0 || id < classes) continue;
    problems.Add(
        absl::StrCat("class_weight.", id),
        absl::StrCat("there is no such class: the model has ", classes, ", 0 to ", classes - 1));
  }
}

// Keras computes a loss from the logits where visible, to lose no digits, even if a sigmoid's
// output goes to a softmax loss, or the other way round.
void TakeLogits(const Graph& graph, ModelHead& head) {
  head.loss_value = head.value;
  head.loss_from_logits = head.loss.from_logits;
  const LossKind kind = head.loss.kind;
  // Keras 3 multiplies the outputs by the mask of ignore_class, and the product has no logits.
  if (head.loss.ignore_class.has_value() && !head.loss.keras2) return;
  // A focal loss has a factor of probabilities: only logits of its own sigmoid will do. If told
  // that outputs are logits, the loss applies a sigmoid itself, whatever they are.
  const bool focal = kind == LossKind::kBinaryFocalCrossentropy;
  if (focal && head.loss.from_logits) return;
  const bool binary = kind == LossKind::kBinaryCrossentropy || focal;
  if (!binary && !IsSparse(kind) && kind != LossKind::kCategoricalCrossentropy) return;
  if (const auto logits = graph.LogitsOf(head.value, focal)) {
    head.loss_value = *logits;
    head.loss_from_logits = true;
  }
}

// Numbers metrics with equal names, as Keras does.
std::string UniqueName(const std::vector<MetricSpec>& metrics, const std::string& prefix,
                       const MetricSpec& metric) {
  const auto taken = [&](const std::string& name) {
    return std::any_of(metrics.begin(), metrics.end(),
                       [&](const MetricSpec& other) { return other.name == name; });
  };
  std::string name = absl::StrCat(prefix, metric.name);
  if (metric.weighted && taken(name)) name = absl::StrCat(prefix, "weighted_", metric.name);
  const std::string base = name;
  for (int i = 1; taken(name); ++i) name = absl::StrCat(base, "_", i);
  return name;
}

void AddLines(const absl::Status& status, std::vector<std::string>& problems) {
  for (const absl::string_view line : absl::StrSplit(status.message(), '\n')) {
    problems.emplace_back(line);
  }
}

// Returns all problems of an output's loss and metrics, a line each.
std::vector<std::string> ResolveHead(const Job& job, const ModelSpec& model, Graph& graph,
                                     size_t index, const NamedSpec* loss, ModelHead& head) {
  std::vector<std::string> problems;
  const Shape& output = graph.shape(head.value);
  const RowsAndColumns size(output);
  head.loss.rows = size.rows;
  head.loss.columns = size.columns;
  head.has_loss = loss != nullptr;
  if (loss != nullptr && !loss->name.empty()) {  // "" stands for a problem reported before
    absl::StatusOr<LossSpec> resolved = ResolveLoss(*loss, output, head.target_shape);
    if (resolved.ok()) {
      head.loss = *std::move(resolved);
      head.loss.keras2 = model.keras2;
      TakeLogits(graph, head);
    } else {
      AddLines(resolved.status(), problems);
    }
  }
  bool sparse = head.has_loss && IsSparse(head.loss);
  for (const NamedSpec& spec : MetricsOf(job, model, index)) {
    absl::StatusOr<MetricSpec> metric = ResolveMetric(spec, output, head.target_shape);
    if (!metric.ok()) {
      AddLines(metric.status(), problems);
      continue;
    }
    metric->loss.keras2 = model.keras2;
    const std::string prefix = model.outputs.size() > 1 ? absl::StrCat(head.name, "_") : "";
    metric->name = UniqueName(head.metrics, prefix, *metric);
    sparse = sparse || IsSparse(*metric);
    head.metrics.push_back(*std::move(metric));
  }
  if (sparse) head.classes = head.loss.columns;
  for (const auto& [name, weight] : job.loss_weights.by_output) {
    if (Means(name, model.outputs[index], index)) head.loss_weight = static_cast<float>(weight);
  }
  if (head.mask != Graph::kNone && Elements(graph.shape(head.mask)) != head.loss.rows) {
    head.mask = Graph::kNone;  // the mask covers other rows than the output's
  }
  return problems;
}

}  // namespace

const NamedSpec* LossOf(const Job& job, const Endpoint& output, size_t index) {
  for (const NamedSpec& loss : job.losses) {
    if (Means(loss.output, output, index)) return &loss;
  }
  const bool all =
      job.losses.empty() && (job.loss.output.empty() || Means(job.loss.output, output, index));
  return all ? &job.loss : nullptr;
}

std::vector<NamedSpec> MetricsOf(const Job& job, const ModelSpec& model, size_t index) {
  std::vector<NamedSpec> all;
  size_t unnamed = 0;
  for (const NamedSpec& metric : job.metrics) {
    const bool by_place = metric.output.empty() && model.outputs.size() > 1;
    if (by_place ? unnamed++ == index
                 : metric.output.empty() || Means(metric.output, model.outputs[index], index)) {
      all.push_back(metric);
    }
  }
  return all;
}

void CheckLearning(const Job& job, const ModelSpec* model, Problems& problems) {
  if (model != nullptr) CheckNames(job, *model, problems);
  const auto add = [&](const absl::Status& status) {
    if (!status.ok()) problems.Add("", std::string(status.message()));
  };
  for (const NamedSpec& loss : job.losses) add(WithoutShapes(ResolveLoss, loss));
  if (job.losses.empty() && !job.loss.name.empty()) add(WithoutShapes(ResolveLoss, job.loss));
  for (const NamedSpec& metric : job.metrics) add(WithoutShapes(ResolveMetric, metric));
}

std::vector<ModelHead> MakeHeads(const Job& job, const ModelSpec& model, Graph& graph,
                                 const Batch& schema, Problems& problems) {
  if (job.train.inputs_alone) return {};  // only predicts: no measurements
  CheckNames(job, model, problems);
  const bool one = model.outputs.size() == 1;
  std::vector<ModelHead> heads;
  bool any_loss = false;
  for (size_t i = 0; i < model.outputs.size(); ++i) {
    const Endpoint& output = model.outputs[i];
    const NamedSpec* loss = LossOf(job, output, i);
    if (loss == nullptr && MetricsOf(job, model, i).empty()) continue;
    ModelHead head;
    head.name = output.name();
    head.value = graph.outputs()[i];
    head.mask = graph.mask(i);
    any_loss = any_loss || loss != nullptr;
    const auto target = FindColumn(schema.targets, output, one);
    if (!target.has_value()) {
      problems.Add(absl::StrCat("output \"", output.name(), "\""),
                   "the data has no targets of that name");
      continue;
    }
    head.target = *target;
    head.target_shape = ShapeOf(schema.targets[*target]);
    head.targets_each = Elements(head.target_shape);
    head.weight = FindColumn(schema.weights, output, one);
    for (const std::string& problem : ResolveHead(job, model, graph, i, loss, head)) {
      problems.Add(one ? "" : absl::StrCat("output \"", output.name(), "\""), problem);
    }
    for (const ModelHead& other : heads) {
      if (!head.has_loss || !other.has_loss) continue;
      if (!graph.SameMemory(head.loss_value, other.loss_value)) continue;
      const absl::StatusOr<Graph::Value> copy = graph.Duplicate(head.loss_value);
      if (copy.ok()) head.loss_value = *copy;
      if (!copy.ok()) problems.Add("", std::string(copy.status().message()));
      break;
    }
    heads.push_back(std::move(head));
  }
  if (!any_loss) problems.Add("", "no output of the model has a loss");
  if (!job.loss_weights.by_class.empty() && (!one || (!heads.empty() && heads[0].loss.rows != 1))) {
    problems.Add("class_weight", "needs a model of one output, with one target an example");
  }
  if (one && !heads.empty()) CheckClasses(job, heads[0], problems);
  return heads;
}

namespace {

// The first label of a binary crossentropy that is outside of 0 to 1, which has no meaning there: a
// model of labels -1 and 1, or 1 and 2, would train on them without a word. Labels whose weight is
// 0 may be anything, and so may those that a mask can hide. NaN is found in the loss.
absl::Status CheckBinaryLabels(const ModelHead& head, const Batch& batch) {
  const bool binary = head.has_loss && head.loss.kind == LossKind::kBinaryCrossentropy;
  if (!binary || head.mask != Graph::kNone) return absl::OkStatus();
  const std::vector<float>& labels = batch.targets[head.target].values;
  const bool weighted = head.weight.has_value() && *head.weight < batch.weights.size();
  const size_t weights = weighted ? batch.weights[*head.weight].values.size() : 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (!(labels[i] < 0 || labels[i] > 1)) continue;
    if (weights > 0 && batch.weights[*head.weight].values[i * weights / labels.size()] == 0) {
      continue;
    }
    const size_t example = i / static_cast<size_t>(head.targets_each);
    return absl::InvalidArgumentError(
        absl::StrCat(Where(batch, example), ": label ", labels[i],
                     " is outside of 0 to 1, which binary_crossentropy takes: number two classes "
                     "0 and 1, and more of them for sparse_categorical_crossentropy"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTargets(const ModelHead& head, const Batch& batch) {
  if (head.target >= batch.targets.size() ||
      ShapeOf(batch.targets[head.target]) != head.target_shape ||
      batch.targets[head.target].values.size() !=
          batch.examples * static_cast<uint64_t>(Elements(head.target_shape))) {
    return absl::InvalidArgumentError(
        absl::StrCat("the batch's targets are not of shape ", ShapeName(head.target_shape)));
  }
  if (head.classes == 0) return CheckBinaryLabels(head, batch);
  const std::vector<float>& labels = batch.targets[head.target].values;
  for (size_t i = 0; i < labels.size(); ++i) {
    const float label = labels[i];
    if (label >= 0 && label < static_cast<float>(head.classes) && label == std::floor(label)) {
      continue;
    }
    if (head.loss.ignore_class && label == static_cast<float>(*head.loss.ignore_class)) continue;
    const size_t example = i / static_cast<size_t>(head.targets_each);
    return absl::InvalidArgumentError(absl::StrCat(Where(batch, example), ": label ", label,
                                                   " is not a class of the model, 0 to ",
                                                   head.classes - 1));
  }
  return absl::OkStatus();
}

std::string LabelDoubt(const ModelHead& head, const Batch& batch) {
  const LossKind kind = head.loss.kind;
  const bool of_shares = IsFocal(kind) || kind == LossKind::kCategoricalCrossentropy;
  if (!head.has_loss || !of_shares || head.target >= batch.targets.size()) return "";
  const std::vector<float>& labels = batch.targets[head.target].values;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= 0 && labels[i] <= 1) continue;
    const size_t example = i / static_cast<size_t>(head.targets_each);
    return absl::StrCat(Where(batch, example), ": label ", labels[i],
                        " is outside of 0 to 1, which a crossentropy of this kind takes: number "
                        "two classes 0 and 1, and more of them for "
                        "sparse_categorical_crossentropy");
  }
  return "";
}

bool RowWeights(const ModelHead& head, const Job& job, const Batch& batch, int64_t first,
                int64_t count, const float* mask, bool by_class, std::vector<float>& weights) {
  const bool ignores = head.loss.ignore_class.has_value();
  const bool classes = by_class && !job.loss_weights.by_class.empty();
  if (!head.weight.has_value() && mask == nullptr && !ignores && !classes) return false;
  const int64_t rows = head.loss.rows;
  weights.assign(static_cast<size_t>(count * rows), 1.f);
  const float* targets = head.Targets(batch, first);
  for (int64_t i = 0; i < count * rows; ++i) {
    float& weight = weights[static_cast<size_t>(i)];
    if (head.weight.has_value()) {
      const std::vector<float>& given = batch.weights[*head.weight].values;
      const size_t each = given.size() / batch.examples;
      const auto example = static_cast<size_t>(first + i / rows);
      weight = given[each == 1 ? example : example * each + static_cast<size_t>(i % rows)];
    }
    if (mask != nullptr) weight *= mask[i];
    if (ignores && targets[i] == static_cast<float>(*head.loss.ignore_class)) weight = 0;
    if (classes) {
      // The target is a class index, or a number for each class, of which the largest counts.
      const float* row = targets + i * head.targets_each;
      const int64_t label = head.targets_each == 1
                                ? static_cast<int64_t>(row[0])
                                : std::max_element(row, row + head.targets_each) - row;
      const auto found = job.loss_weights.by_class.find(label);
      if (found != job.loss_weights.by_class.end()) weight *= static_cast<float>(found->second);
    }
  }
  return true;
}

}  // namespace paracord
