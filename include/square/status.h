// Errors as values. No exception crosses Square's C++ interface: a function that
// can fail returns a Status, or a Result<T> when it also has something to give.
//
// The codes are gRPC's canonical ones, so they cross the wire unchanged. A message
// names what failed, where, and what to do about it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace square {

enum class StatusCode : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// The canonical upper-case name of a code, for example "INVALID_ARGUMENT".
std::string_view status_code_name(StatusCode code);

// A code and, unless it is kOk, a message. Cheap to move; thread-compatible.
class [[nodiscard]] Status {
 public:
  Status() = default;
  // `code` must not be kOk: success carries no message.
  Status(StatusCode code, std::string message);

  static Status ok() { return {}; }

  [[nodiscard]] bool is_ok() const { return code_ == StatusCode::kOk; }
  [[nodiscard]] StatusCode code() const { return code_; }
  [[nodiscard]] const std::string& message() const { return message_; }

  // "OK", or "CODE_NAME: message".
  [[nodiscard]] std::string to_string() const;

  // The same error with `context` and ": " before its message. OK stays OK.
  [[nodiscard]] Status with_context(std::string_view context) const;

  friend bool operator==(const Status&, const Status&) = default;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

Status cancelled(std::string message);
Status invalid_argument(std::string message);
Status deadline_exceeded(std::string message);
Status not_found(std::string message);
Status already_exists(std::string message);
Status permission_denied(std::string message);
Status resource_exhausted(std::string message);
Status failed_precondition(std::string message);
Status aborted(std::string message);
Status unimplemented(std::string message);
Status internal_error(std::string message);
Status unavailable(std::string message);
Status data_loss(std::string message);
Status unauthenticated(std::string message);

namespace internal {
// Prints the condition and its place to standard error and aborts. The one place
// where the library writes there: a bug, not an error.
[[noreturn]] void check_failed(const char* condition, const char* file, int line, std::string_view detail);
}  // namespace internal

// Either a value or the error that stands in its place.
template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit on purpose: `return value;` and `return invalid_argument(...)` both read well.
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {
    if (status_.is_ok()) {
      internal::check_failed("!status.is_ok()", __FILE__, __LINE__, "a Result needs a value or an error");
    }
  }

  [[nodiscard]] bool is_ok() const { return value_.has_value(); }
  [[nodiscard]] const Status& status() const { return status_; }

  // Precondition: is_ok().
  T& value() & { return checked(); }
  const T& value() const& { return const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(checked()); }
  T& operator*() & { return checked(); }
  const T& operator*() const& { return const_cast<Result*>(this)->checked(); }
  T&& operator*() && { return std::move(checked()); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &const_cast<Result*>(this)->checked(); }

 private:
  T& checked() {
    if (!value_.has_value()) {
      internal::check_failed("result.is_ok()", __FILE__, __LINE__, status_.message());
    }
    return *value_;
  }

  std::optional<T> value_;
  Status status_;
};

}  // namespace square
