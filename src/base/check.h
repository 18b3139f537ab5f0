// Macros that cannot be functions: the always-on assertion and early returns.
#pragma once

#include "square/status.h"

// Stops the program when `condition` is false. For bugs only; bad input is a Status.
#define SQUARE_CHECK(condition, detail)                                           \
  do {                                                                            \
    if (!(condition)) [[unlikely]]                                                \
      ::square::internal::check_failed(#condition, __FILE__, __LINE__, (detail)); \
  } while (false)

#define SQUARE_RETURN_IF_ERROR(expression)                                                           \
  do {                                                                                               \
    if (::square::Status square_status = (expression); !square_status.is_ok()) return square_status; \
  } while (false)

#define SQUARE_CONCAT_INNER(a, b) a##b
#define SQUARE_CONCAT(a, b) SQUARE_CONCAT_INNER(a, b)

// Declares `lhs` with the value of a Result, or returns its error.
#define SQUARE_ASSIGN_OR_RETURN(lhs, expression) \
  SQUARE_ASSIGN_OR_RETURN_INNER(SQUARE_CONCAT(square_result_, __LINE__), lhs, expression)
#define SQUARE_ASSIGN_OR_RETURN_INNER(result, lhs, expression) \
  auto result = (expression);                                  \
  if (!result.is_ok()) return result.status();                 \
  lhs = std::move(result).value()
