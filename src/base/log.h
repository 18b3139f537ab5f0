// Formatting in front of the process-wide log sink.
#pragma once

#include <fmt/format.h>

#include "square/log.h"

namespace square {

namespace internal {
bool log_enabled(LogLevel level);
void log_write(LogLevel level, const LogFields& fields, std::string_view message);
}  // namespace internal

template <typename... Args>
void log(LogLevel level, const LogFields& fields, fmt::format_string<Args...> format, Args&&... args) {
  if (!internal::log_enabled(level)) return;
  internal::log_write(level, fields, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void log(LogLevel level, std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  log(level, LogFields{component}, format, std::forward<Args>(args)...);
}

}  // namespace square
