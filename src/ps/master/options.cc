#include <fmt/format.h>

#include "base/check.h"
#include "ps/protocol.h"
#include "square/training_options.h"

namespace square::ps {
namespace {

constexpr Duration kShortestLease = std::chrono::milliseconds(200);
constexpr Duration kLongestTime = std::chrono::hours(24);

Status check_time(const char* name, Duration time, Duration least) {
  if (time >= least && time <= kLongestTime) return {};
  return invalid_argument(
      fmt::format("{} is {:.3g} s: it may be {:.3g} s to a day", name, to_seconds(time), to_seconds(least)));
}

}  // namespace

Status check(const TrainingOptions& options) {
  SQUARE_RETURN_IF_ERROR(check(options.outer));
  if (options.servers < 1 || options.servers > kMaxMembers) {
    return invalid_argument(fmt::format("servers is {}: it may be 1 to {}", options.servers, kMaxMembers));
  }
  if (options.quorum < 1 || options.quorum > kMaxMembers) {
    return invalid_argument(fmt::format("quorum is {}: it may be 1 to {}", options.quorum, kMaxMembers));
  }
  if (options.chunks > kMaxChunks) {
    return invalid_argument(fmt::format("chunks is {}: it may be at most {}", options.chunks, kMaxChunks));
  }
  if (options.is_bfloat16 && options.basis == Basis::kCurrent) {
    return invalid_argument(
        "parameters are pushed in float32: bfloat16 would cost up to 2^-8 of each weight; "
        "push deltas, or leave bfloat16");
  }
  if (options.grace) SQUARE_RETURN_IF_ERROR(check_time("grace", *options.grace, Duration(0)));
  SQUARE_RETURN_IF_ERROR(check_time("lease", options.lease, kShortestLease));
  SQUARE_RETURN_IF_ERROR(check_time("patience", options.patience, Duration(0)));
  return check_time("step_timeout", options.step_timeout, options.lease);
}

}  // namespace square::ps
