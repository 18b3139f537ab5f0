// Log lines about what others do, who may do it any number of times.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"

namespace square {

inline constexpr std::chrono::seconds kSeldomInterval{1};
// Whoever there are more of within the interval share the next line.
inline constexpr std::size_t kMaxSeldomNames = 32;

// One line in kSeldomInterval about each, so that nobody fills the log, nor hides in what others fill it
// with. Thread-safe.
class Seldom {
 public:
  // How many lines were left out since the last that was not; nothing where this one, about `who`, is.
  std::optional<std::size_t> admit(std::string_view who) {
    const auto now = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex_);
    std::erase_if(told_, [&](const auto& entry) { return now - entry.second >= kSeldomInterval; });
    if (told_.contains(who) || told_.size() >= kMaxSeldomNames) {
      ++left_out_;
      return std::nullopt;
    }
    told_.emplace(who, now);
    return std::exchange(left_out_, 0);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::chrono::steady_clock::time_point, std::less<>> told_;
  std::size_t left_out_ = 0;
};

// A warning about `who`, if it is time for one.
template <typename... Args>
void log_seldom(Seldom& seldom, std::string_view who, const LogFields& fields,
                fmt::format_string<Args...> format, Args&&... args) {
  const auto left_out = seldom.admit(who);
  if (!left_out) return;
  const std::string line = fmt::format(format, std::forward<Args>(args)...);
  if (*left_out == 0) {
    log(LogLevel::kWarning, fields, "{}", line);
  } else {
    log(LogLevel::kWarning, fields, "{} (and {} such lines were left out)", line, *left_out);
  }
}

}  // namespace square
