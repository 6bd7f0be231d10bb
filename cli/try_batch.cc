#include "cli/try_batch.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/finite.h"
#include "common/status_macros.h"
#include "common/steady_ms.h"
#include "config/partitions.h"
#include "data/batch_plan.h"
#include "store/block.h"
#include "store/initializer.h"

namespace paracord {
namespace {

using Values = std::vector<std::vector<float>>;

// Where a job's values come from before its first batch.
struct Begin {
  const Job& job;
  const InitialWeights* weights;
  std::span<const VariableSpec> variables;

  // Writes elements of a variable that is no growing table.
  absl::Status Fill(size_t v, uint64_t first, std::span<float> out) const {
    if (weights == nullptr || !weights->Has(v)) {
      return Initialize(variables[v], job.seed, first, out);
    }
    const Block block(out.size());
    RETURN_IF_ERROR(weights->Read(v, first, block));
    for (auto to = out.begin(); const ChunkRef& chunk : block.chunks()) {
      to = std::ranges::copy(chunk.values(), to).out;
    }
    return absl::OkStatus();
  }

  // Also draws rows that the file has for a growing table, which makes no error.
  absl::Status FillRows(size_t v, std::span<const uint64_t> ids, std::span<float> out) const {
    const uint64_t width = RowElements(variables[v]);
    RowInitializer drawn;
    if (IsGrowing(variables[v])) {
      ASSIGN_OR_RETURN(drawn, MakeRowInitializer(variables[v], job.seed));
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      const std::span<float> row = out.subspan(i * width, width);
      if (drawn) {
        drawn(ids[i], row);
      } else {
        RETURN_IF_ERROR(Fill(v, ids[i] * width, row));
      }
    }
    return absl::OkStatus();
  }
};

// Reads the first examples, and returns their values and their rows of tables.
absl::StatusOr<Values> Prepare(const Begin& begin, const DataSource& source, bool training,
                               GradientProgram& program, Batch& batch,
                               std::shared_ptr<const TableRows>& rows) {
  std::vector<uint64_t> records(std::min<uint64_t>(begin.job.batch, source.records()));
  std::iota(records.begin(), records.end(), 0);
  RETURN_IF_ERROR(training ? source.ReadForTraining(records, /*epoch_key=*/0, batch)
                           : source.Read(records, batch));
  ASSIGN_OR_RETURN(rows, program.RowsOf(batch));
  program.UseRows(rows);
  Values values;
  for (size_t v = 0; v < begin.variables.size(); ++v) {
    const VariableSpec& variable = begin.variables[v];
    const bool by_rows = rows != nullptr && variable.has_table();
    uint64_t elements = by_rows ? rows->ids[v].size() * RowElements(variable) : 1;
    for (int i = 0; !by_rows && i < variable.shape_size(); ++i) elements *= variable.shape(i);
    std::vector<float>& to = values.emplace_back(elements);
    RETURN_IF_ERROR(by_rows ? begin.FillRows(v, rows->ids[v], to) : begin.Fill(v, 0, to));
  }
  return values;
}

absl::Status CheckFiniteBatch(std::span<const VariableSpec> variables, double loss,
                              const Values& gradients) {
  if (!std::isfinite(loss)) return absl::InvalidArgumentError(absl::StrCat("the loss is ", loss));
  for (size_t v = 0; v < variables.size(); ++v) {
    if (AllFinite(gradients[v])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the gradient of ", variables[v].name(), " is not finite"));
  }
  return absl::OkStatus();
}

absl::StatusOr<TriedBatch> TryTrain(const Begin& begin, const DataSource& train,
                                    GradientProgram& program) {
  Batch batch;
  TriedBatch tried;
  ASSIGN_OR_RETURN(const Values values,
                   Prepare(begin, train, /*training=*/true, program, batch, tried.rows));
  Values gradients;
  for (size_t v = 0; v < values.size(); ++v) {
    gradients.emplace_back(begin.variables[v].trainable() ? values[v].size() : 0);
  }
  const std::vector<std::span<const float>> in(values.begin(), values.end());
  const std::vector<std::span<float>> out(gradients.begin(), gradients.end());
  DataPlan plan;
  plan.set_seed(begin.job.seed);
  const int64_t begin_ms = SteadyMs();
  ASSIGN_OR_RETURN(const double loss,
                   program.ComputeGradients(batch, BatchKey(plan, BatchId()), in, out));
  const int64_t took_ms = SteadyMs() - begin_ms;
  RETURN_IF_ERROR(CheckFiniteBatch(begin.variables, loss, gradients));
  tried.line =
      absl::StrCat("tried a batch: ", batch.examples, " examples of data.train have the loss ",
                   loss, ", in ", took_ms, " ms");
  return tried;
}

absl::StatusOr<std::string> TryTest(const Begin& begin, const DataSource& test,
                                    GradientProgram& program) {
  Batch batch;
  std::shared_ptr<const TableRows> rows;
  ASSIGN_OR_RETURN(const Values values,
                   Prepare(begin, test, /*training=*/false, program, batch, rows));
  const std::vector<std::span<const float>> in(values.begin(), values.end());
  std::vector<MetricState> states;
  RETURN_IF_ERROR(program.Evaluate(batch, in, states));
  return absl::StrCat("; ", batch.examples, " of data.test were scored");
}

absl::Status In(const char* data, const absl::Status& status) {
  return absl::InvalidArgumentError(
      absl::StrCat(data, ": the first batch: ", std::string(status.message())));
}

}  // namespace

absl::StatusOr<TriedBatch> TryBatch(const Job& job, const DataSource& train, const DataSource* test,
                                    const InitialWeights* weights, GradientProgram& program) {
  const Begin begin{job, weights, program.variables()};
  absl::StatusOr<TriedBatch> tried = TryTrain(begin, train, program);
  if (!tried.ok()) return In("data.train", tried.status());
  if (test == nullptr) return tried;
  const absl::StatusOr<std::string> scored = TryTest(begin, *test, program);
  if (!scored.ok()) return In("data.test", scored.status());
  tried->line += *scored;
  return tried;
}

}  // namespace paracord
