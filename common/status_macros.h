// RETURN_IF_ERROR and ASSIGN_OR_RETURN for absl::Status, which this version of abseil lacks.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RETURN_IF_ERROR(expr)                                  \
  do {                                                         \
    absl::Status status_macro_result = (expr);                 \
    if (!status_macro_result.ok()) return status_macro_result; \
  } while (false)

#define STATUS_MACRO_JOIN_2(a, b) a##b
#define STATUS_MACRO_JOIN(a, b) STATUS_MACRO_JOIN_2(a, b)
#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_IMPL(STATUS_MACRO_JOIN(status_or_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL(var, lhs, expr)    \
  auto var = (expr);                             \
  if (!var.ok()) return std::move(var).status(); \
  lhs = std::move(var).value()
