// Tells a forked child from the process that made something.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string>

#include "square/status.h"

namespace square {

// A member of what has threads of its own: in a forked child they are not there, and a call would wait for
// them for ever. What the parent has made is neither used nor destroyed there.
class OwnProcess {
 public:
  [[nodiscard]] bool is_forked() const { return getpid() != made_in_; }
  // FAILED_PRECONDITION in a forked child; `what` was made, say "node \"fra\"".
  [[nodiscard]] Status check(const std::string& what) const {
    if (!is_forked()) return Status::ok();
    return Status(
        StatusCode::kFailedPrecondition,
        fmt::format("{} was made by process {}, and this process {} was forked from it: its threads did "
                    "not come along. Make one here, or fork before it is made",
                    what, made_in_, getpid()));
  }

 private:
  pid_t made_in_ = getpid();
};

}  // namespace square
